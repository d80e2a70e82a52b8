"""Compares what the server answers with fresh computations, in the background, view by view.

A worker computes the digest of a view's answer; a process with low priority loads the same
publication and segments again, and computes the digest of their answer at once. Each such
check is followed by a rest that is a multiple of the time it took.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import pickle
import sys
import time
from asyncio.subprocess import PIPE
from contextlib import suppress
from datetime import UTC, datetime

import duckdb
import pyarrow as pa

from serving_layer.digests import ATTEMPTS, REPLACED, Digest, digest_sql, fresh_digest
from serving_layer.result import Provenance
from trilayer_core.definitions.view import View
from trilayer_core.errors import EnvironmentFault, TrilayerError
from trilayer_core.project import Project
from trilayer_server.engine.frames import pickled
from trilayer_server.engine.pool import Pool
from trilayer_server.engine.query import Query
from trilayer_server.engine.worker_process import chunks_of
from trilayer_server.metrics import Metrics
from trilayer_server.settings import serve_settings
from trilayer_server.sql_error import SqlError

logger = logging.getLogger("trilayer_server")

LEAST_REST_S = 10.0
"""The shortest time between two checks, in seconds."""

MOST_S = 900.0
"""The longest time of a fresh computation, in seconds. It is then ended, and its view comes again
after the others.
"""

_MOST_TEXT = 1_000
"""The number of characters of a difference or an error, which are one line between processes."""


class ReaderVerification:
    """The verification of a server's answers by itself.

    Attributes:
        differences: For each view whose answer has ever differed, when and how.
    """

    def __init__(self, pool: Pool, project: Project, metrics: Metrics) -> None:
        """Prepares it.

        Args:
            pool: Answers the digests.
            project: The project whose store is loaded again.
            metrics: Counts the results.
        """
        self._pool, self._project, self._metrics = pool, project, metrics
        self._recomputing = _Recomputing(project)
        self.differences: dict[str, str] = {}

    async def run(self) -> None:
        """Verifies one view after the other, for as long as the server runs."""
        try:
            await self._run()
        finally:
            await self._recomputing.end()

    async def _run(self) -> None:
        share = serve_settings(self._project.settings).verify_share
        reported: dict[str, str] = {}
        for view in itertools.cycle(self._project.catalog.views if share else ()):
            begun = time.monotonic()
            try:
                await self.verify(view)
            except SqlError as error:
                logger.debug("view %s has no answer to verify: %s", view.name, error)
            except (TrilayerError, OSError) as error:
                if reported.get(view.name) != str(error):
                    reported[view.name] = str(error)
                    logger.warning("view %s was not verified: %s", view.name, error)
            except Exception:  # the next view is verified all the same
                logger.exception("view %s was not verified", view.name)
            took = time.monotonic() - begun
            await asyncio.sleep(max(LEAST_REST_S, took / share - took))

    async def verify(self, view: View) -> None:
        """Verifies a view. If its answer is wrong, the server loads everything again.

        Raises:
            SqlError: The view has no answer.
            TrilayerError: The fresh computation has failed.
        """
        difference = await self._difference(view)
        if difference is None:
            return
        self._metrics.verified("differ" if difference else "match")
        if difference:
            now = datetime.now(UTC).isoformat(" ", "seconds")
            self.differences[view.name] = (
                f"at {now} its answer was wrong: {difference}; the server has loaded everything"
                " again since; report this"
            )
            logger.error(
                "view %s: the server's answer is wrong: %s; everything is loaded again",
                view.name,
                difference,
            )
            await self._pool.reload()

    async def _difference(self, view: View) -> str | None:
        """How the answer differs; empty if it does not, None if it could not be compared."""
        for _ in range(ATTEMPTS):
            async with (
                self._pool.ask(Query(digest_sql(view))) as answer,
                chunks_of(answer) as chunks,
            ):
                data = b"".join([chunk async for chunk in chunks])
                at = Provenance.from_json(answer.provenance)
            held = Digest.of(view, pa.ipc.open_stream(data).read_all())
            difference = await self._recomputing.difference(view, held, at)
            if difference is not None:
                return difference
        return None


class _Recomputing:
    """A process that computes digests again, and ends with the server."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._process: asyncio.subprocess.Process | None = None

    async def difference(self, view: View, held: Digest, at: Provenance) -> str | None:
        """How a digest differs from a fresh one; None if the files of its snapshot are gone."""
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", __name__, stdin=PIPE, stdout=PIPE
            )
            self._send(sys.path)
            self._send(self._project)
        self._send((view.name, held, at))
        assert self._process.stdout
        try:
            async with asyncio.timeout(MOST_S):
                reply = await self._process.stdout.readline()
        except TimeoutError:
            await self.end()
            raise EnvironmentFault(
                f"it was not computed again within {MOST_S:g} s; run `trilayer verify --server URL`"
            ) from None
        if not reply:
            raise EnvironmentFault("the process that computes it again has ended, perhaps killed")
        document: dict[str, str | None] = json.loads(reply)
        if document["failed"]:
            raise EnvironmentFault(f"it could not be computed again: {document['failed']}")
        return document["difference"]

    def _send(self, message: object) -> None:
        assert self._process
        assert self._process.stdin
        self._process.stdin.write(pickled(message))

    async def end(self) -> None:
        """Ends it."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


def main() -> None:
    """Compares digests with fresh ones, as the server asks for it, until the server has gone."""
    os.nice(5)  # queries come first
    out, sys.stdout = sys.stdout, sys.stderr
    sys.path[:] = pickle.load(sys.stdin.buffer)
    project = pickle.load(sys.stdin.buffer)
    with suppress(EOFError):
        while True:
            name, held, at = pickle.load(sys.stdin.buffer)
            out.write(json.dumps(_reply(project, name, held, at)) + "\n")
            out.flush()


def _reply(project: Project, name: str, held: Digest, at: Provenance) -> dict[str, str | None]:
    view, memory_mb = project.catalog.view(name), project.settings.serving.memory_mb
    try:
        fresh = fresh_digest(view, at, held.asked_us, memory_mb, project.store)
        difference = held.difference(fresh)
        return {"difference": difference and difference[:_MOST_TEXT], "failed": None}
    except REPLACED:
        return {"difference": None, "failed": None}
    except (TrilayerError, duckdb.Error, pa.ArrowException, MemoryError, OSError) as error:
        return {"difference": None, "failed": f"{type(error).__name__}: {error}"[:_MOST_TEXT]}


if __name__ == "__main__":
    main()
