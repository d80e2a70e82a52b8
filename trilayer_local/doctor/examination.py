"""Running checks, and their findings."""

from __future__ import annotations

import queue
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Literal

from trilayer_core.definitions.catalog import Catalog, load_catalog
from trilayer_core.errors import TrilayerError
from trilayer_core.project import Project
from trilayer_core.runtime.settings import Settings, load_settings
from trilayer_core.store.files import Store

Mark = Literal["ok", "note", "fail", "skip"]


class Here:
    """The project of the working directory.

    Each part of it is loaded when a check first needs it.

    Attributes:
        fault: What is wrong with the settings; None if they are valid.
    """

    def __init__(self) -> None:
        self.fault: TrilayerError | None = None
        self._settings: Settings | None = None
        try:
            self._settings = load_settings()
        except TrilayerError as error:
            self.fault = error
        self._lock = threading.Lock()
        self._catalog: Catalog | TrilayerError | None = None

    @property
    def settings(self) -> Settings:
        """The settings. Raises Unchecked if they are invalid."""
        if self._settings is None:
            raise Unchecked("the settings can't be read")
        return self._settings

    @property
    def catalog(self) -> Catalog:
        """The catalog. A module that can't be imported is run only once."""
        name = self.settings.catalog
        with self._lock:
            if self._catalog is None:
                try:
                    self._catalog = load_catalog(name)
                except TrilayerError as error:
                    self._catalog = error
            if isinstance(self._catalog, TrilayerError):
                raise Unchecked("the catalog can't be read") from self._catalog
            return self._catalog

    @property
    def store(self) -> Store:
        """The store of the settings."""
        return Store(self.settings.store)


Subject = Project | Here
"""The subject of checks."""


class Unchecked(Exception):
    """A check could not run, because something that it needs is missing.

    Another check reports that.
    """


class Note(str):
    """A line about something that a person should know or do, which is not a failure."""

    __slots__ = ()


@dataclass(frozen=True)
class Finding:
    """One line of an examination; `ok` is None if the check could not run or has not finished."""

    check: str
    mark: Mark
    says: str
    finished: bool = True

    @property
    def ok(self) -> bool | None:
        """Whether the check passed; None if it could not run or has not finished."""
        return {"ok": True, "note": True, "fail": False, "skip": None}[self.mark]


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        name: Its subject.
        run: Performs the check. It yields lines if all is well, and raises an error otherwise.
    """

    name: str
    run: Callable[[Subject], Iterator[str]]


_THREAD = "check-"


def examine(subject: Subject, checks: Sequence[Check], within_s: float) -> list[Finding]:
    """Runs checks, and returns their findings in order within a time limit.

    Args:
        subject: The subject of the checks.
        checks: The checks.
        within_s: The time limit. Checks that have not finished end by themselves, in threads that
            do not keep the process alive.
    """
    findings: queue.SimpleQueue[tuple[int, list[Finding]]] = queue.SimpleQueue()
    deadline = time.monotonic() + within_s
    threads = []
    for number, check in enumerate(checks):
        work = partial(_run, findings, number, check.name, partial(check.run, subject))
        threads.append(threading.Thread(target=work, daemon=True, name=f"{_THREAD}{check.name}"))
        threads[-1].start()
    answers: dict[int, list[Finding]] = {}
    with suppress(queue.Empty):
        while len(answers) < len(checks):
            number, lines = findings.get(timeout=max(deadline - time.monotonic(), 0))
            answers[number] = lines
            threads[number].join()  # it has nothing more to do, and is `unfinished` until it ends
    return [
        line
        for number, check in enumerate(checks)
        for line in answers.get(number, [_unfinished(check, within_s)])
    ]


def unfinished() -> bool:
    """Returns whether checks for which `examine` has not waited are still running."""
    return any(thread.name.startswith(_THREAD) for thread in threading.enumerate())


def _run(
    findings: queue.SimpleQueue[tuple[int, list[Finding]]],
    number: int,
    name: str,
    check: Callable[[], Iterator[str]],
) -> None:
    lines: list[Finding] = []
    try:
        for line in check():
            lines.append(Finding(name, "note" if isinstance(line, Note) else "ok", str(line)))
    except Unchecked as error:
        # What the check has seen before it missed something is its answer.
        lines = lines or [Finding(name, "skip", f"not checked: {error}")]
    except TrilayerError as error:
        lines.append(Finding(name, "fail", str(error)))
    except BaseException as error:  # noqa: BLE001  # whatever it is, the other checks still answer
        lines.append(Finding(name, "fail", f"{_place(error)}{type(error).__name__}: {error}"))
    findings.put((number, lines))


def _unfinished(check: Check, within_s: float) -> Finding:
    says = f"no answer within {within_s:.1f} s; `trilayer doctor --within 60` waits longer"
    return Finding(check.name, "skip", says, finished=False)


def _place(error: BaseException) -> str:
    """Returns the place of an error in Python code, for the user."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}: " if frames else ""


def writable(folder: Path) -> str:
    """Says that a folder can be written, or made if it is not there. Raises OSError if not."""
    there = next(parent for parent in [folder, *folder.parents] if parent.exists())
    with TemporaryFile(dir=there):
        pass
    return f"{folder} {'is writable' if there == folder else 'is not there yet, and can be made'}"
