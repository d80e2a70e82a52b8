"""The loader: a process that loads the store, and forks workers at the server's request.

It is the only process that loads. A fork shares its memory until one of both writes, so that ten
workers on ten million keys need little more than one. It has one thread, because a fork has only
the thread that forks.
"""

from __future__ import annotations

import ctypes
import gc
import json
import logging
import os
import pickle
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from serving_layer.connection import Connection
from trilayer.operations.system_relations import OWN_SCHEMA, relations
from trilayer_core.errors import TrilayerError
from trilayer_core.project import Project
from trilayer_server import introspection
from trilayer_server.engine import frames, new_files
from trilayer_server.engine.sql_errors import sql_error_of
from trilayer_server.engine.statements import parser
from trilayer_server.engine.worker import Executor, limit_memory
from trilayer_server.sql_error import SqlError

logger = logging.getLogger("trilayer_server")

REFRESH, FORK = b"R", b"F"
"""The requests of the server. A socket comes with FORK: the worker's end."""

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Start:
    """The first message to the loader.

    Attributes:
        project: The project whose store is loaded.
        memory_mb: How much memory a worker may take, beside what it shares.
        threads: The number of threads that answer a query.
        most_rows: The most rows of an answer; 0 for any number.
        first_state: The number of the first state, which no earlier loader has had.
        new_files: The descriptor that reports new files in the store; see `engine.new_files`.
    """

    project: Project
    memory_mb: int
    threads: int
    most_rows: int
    first_state: int = 0
    new_files: int | None = None


class _Loader:
    def __init__(self, to: socket.socket, start: Start, connection: Connection) -> None:
        self._to, self._start, self._connection = to, start, connection
        self._state, self._loaded = start.first_state, connection.loaded

    def run(self) -> None:
        """Carries out the requests of the server until it closes the connection."""
        while True:
            request, fds, _, _ = socket.recv_fds(self._to, 1, 1)
            if not request:
                return
            _reap()
            if request == REFRESH:
                self._refresh()
            else:
                self._fork(socket.socket(fileno=fds[0]))

    def _refresh(self) -> None:
        try:
            self._connection.refresh()
        except (TrilayerError, OSError) as error:
            self._reply({"error": sql_error_of(error).to_json()})
            return
        except Exception as error:  # without the loader nothing is answered
            logger.exception("loading has failed unexpectedly")
            internal = SqlError("XX000", f"internal error: {error!r}", "See the server's log")
            self._reply({"error": internal.to_json()})
            return
        if self._connection.loaded is not self._loaded:
            self._loaded = self._connection.loaded
            self._state += 1
            if self._start.new_files is not None:
                for folder in self._connection.folders:
                    new_files.watch(self._start.new_files, folder)
            gc.collect()
            gc.freeze()  # so that a worker's garbage collection writes to no page that is shared
        self._reply({"state": self._state})

    def _fork(self, end: socket.socket) -> None:
        pid = os.fork()
        if pid:
            end.close()
            self._reply({"pid": pid, "state": self._state})
            return
        self._to.close()
        if self._start.new_files is not None:
            os.close(self._start.new_files)
        _die_with_parent(signal.SIGKILL)
        settings = self._start.project.settings
        self._connection.detach(
            settings.serving.memory_mb + self._start.memory_mb, self._start.threads
        )
        limit_memory(self._start.memory_mb)
        with suppress(ConnectionError):
            Executor(end, self._start.project, self._connection, self._start.most_rows).run()
        os._exit(0)

    def _reply(self, document: Mapping[str, Any]) -> None:
        _reply(self._to, document)


def _reply(to: socket.socket, document: Mapping[str, Any]) -> None:
    out = frames.Out(to)
    out.send(frames.DONE, json.dumps(document).encode())
    out.flush()


def _reap() -> None:
    """Reaps workers that have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _die_with_parent(number: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number)


def main() -> None:
    """Loads for the server whose socket has the number of the first argument."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server decides when it ends
    to = socket.socket(fileno=int(sys.argv[1]))
    _die_with_parent(signal.SIGTERM)
    message = frames.receive(to.recv)
    if message is None:
        return
    sys.path[:], start = pickle.loads(message)  # from the server
    if (connection := _opened(to, start.project)) is not None:
        with connection, parser():  # which every worker would open otherwise
            introspection.prepare(parser())
            _Loader(to, start, connection).run()


def _opened(to: socket.socket, project: Project) -> Connection | None:
    """A connection whose views are described; None if the server has gone before there was one.

    What prevents it, such as a file that has changed, may be mended while the server runs.
    """
    while True:
        try:
            connection = Connection(project.catalog, project.settings, project.store, forks=True)
        except (TrilayerError, OSError) as error:
            if to.recv(1) != REFRESH:
                return None
            _reply(to, {"error": sql_error_of(error).to_json()})
            continue
        for name, relation in relations().items():
            connection.relation(OWN_SCHEMA, name, relation.schema.empty_table())
        connection.describe(introspection.install)
        return connection


if __name__ == "__main__":
    main()
