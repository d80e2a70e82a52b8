"""Every error that trilayer raises on purpose.

    TrilayerError
    ├── UsageError             the command line exits with 2
    │   ├── DefinitionError
    │   └── SettingsError
    ├── EnvironmentFault
    ├── LogError
    ├── ClockError
    ├── CoverageError
    ├── IntegrityError
    ├── StoreError
    ├── DifferenceError
    ├── SinkError
    └── ConflictError
        ├── OvertakenError     the command line exits with 3
        └── HeldError          the command line exits with 3

Messages read "must be X; got Y; do Z", with the names and numbers in them.
"""

import difflib
from collections.abc import Iterable


class TrilayerError(Exception):
    """Root of all errors that trilayer raises on purpose."""

    exit_code = 1


class UsageError(TrilayerError):
    """The caller asked for something that can't be done as asked."""

    exit_code = 2


class DefinitionError(UsageError):
    """A definition that contradicts itself or its stream's schema."""


class SettingsError(UsageError):
    """A settings file or variable that can't be used."""


class EnvironmentFault(TrilayerError):
    """Something that trilayer needs from its machine or network is not there."""


class LogError(TrilayerError):
    """The log is no longer what it was.

    The topic was replaced, retention took what had not been read, or the broker lost what had been.
    """


class ClockError(TrilayerError):
    """A clock is ahead of this one, or was: a T or a stamp is later than now."""


class CoverageError(TrilayerError):
    """Offsets that no layer, or more than one, accounts for."""


class IntegrityError(TrilayerError):
    """A stored file is missing, truncated or altered."""


class StoreError(TrilayerError):
    """The system refused to read, write or delete a stored file.

    What was being written is not there.
    """


class DifferenceError(TrilayerError):
    """Two layers, or two ways to compute a view, do not agree."""


class SinkError(TrilayerError):
    """A sink has not taken a publication. The publication is in force all the same."""


class ConflictError(TrilayerError):
    """Another run holds the lock, or has done what this one would do."""


class OvertakenError(ConflictError):
    """A newer run has fenced this one off.

    Or its definitions or origin are no longer the present ones.

    Trying it again would not help.
    """

    exit_code = 3


class HeldError(ConflictError):
    """A person holds the version in force until it is released: no run may publish on top of it."""

    exit_code = 3


def close_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that was perhaps meant, whatever its case; None if none is close."""
    folded = {candidate.casefold(): candidate for candidate in known}
    close = difflib.get_close_matches(name.casefold(), folded, n=1)
    return folded[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'carrier'?` for the closest known name, or the list of what there is."""
    candidates = sorted(known)
    close = close_name(name, candidates)
    if close is not None:
        return f"; did you mean {close!r}?"
    return f"; there is {', '.join(candidates)}" if candidates else ""
