"""Every error that trilayer raises on purpose.

                               exit code   SQLSTATE   HTTP
    TrilayerError              1           58000      503
    ├── UsageError             2           42000      400
    │   ├── DefinitionError
    │   ├── SettingsError
    │   └── ReadOnlyError                  25006
    ├── EnvironmentFault
    ├── LogError
    ├── ClockError
    ├── CoverageError                      55000      409
    ├── IntegrityError                     XX001
    ├── StoreError
    ├── DifferenceError
    ├── SinkError
    └── ConflictError                      55000      409
        ├── OvertakenError     3
        └── HeldError          3

A class without a value has that of the class above it. A validation says "must be X; got Y; do Z",
with the names and numbers concerned. Any other message says what failed, where, and what to do.
"""

import difflib
import functools
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar


class TrilayerError(Exception):
    """The base class of all errors that trilayer raises on purpose.

    Attributes:
        exit_code: The exit code of a command that ends with this error.
        sqlstate: What a client of PostgreSQL, or of HTTP, gets as its code.
        http_status: The status of a response by HTTP.
    """

    exit_code = 1
    sqlstate = "58000"
    http_status = 503

    def parts(self) -> tuple[str, str]:
        """Returns what went wrong, and what to do, which is empty if the message does not say it.

        A message has them in this order, separated by semicolons: "X must be Y; got Z; do W".
        """
        clauses = str(self).split("; ")
        end = 2 if len(clauses) > 1 and clauses[1].startswith("got ") else 1
        return "; ".join(clauses[:end]), "; ".join(clauses[end:])


class UsageError(TrilayerError):
    """The request is invalid."""

    exit_code = 2
    sqlstate = "42000"
    http_status = 400


class DefinitionError(UsageError):
    """A definition is inconsistent, or does not fit its stream's schema."""


class SettingsError(UsageError):
    """A setting, in `trilayer.toml` or a variable, is invalid."""


class ReadOnlyError(UsageError):
    """The statement is none that reads."""

    sqlstate = "25006"


class EnvironmentFault(TrilayerError):
    """The machine or the network lacks something that trilayer needs."""


class LogError(TrilayerError):
    """The log is not the one that was read before.

    The topic was created again, retention deleted records that had not been read, or the broker
    lost records that had been read.
    """


class ClockError(TrilayerError):
    """A T or a record's stamp is later than now: some clock is or was ahead of this machine's."""


class CoverageError(TrilayerError):
    """Some offsets are counted by no layer, or by more than one."""

    sqlstate = "55000"
    http_status = 409


class IntegrityError(TrilayerError):
    """A stored file is missing, truncated or altered."""

    sqlstate = "XX001"


class StoreError(TrilayerError):
    """The operating system could not read, write or delete a file of the store.

    A file that could not be written does not exist.
    """


class DifferenceError(TrilayerError):
    """Two layers, or two ways of computing a view, give different results."""


class SinkError(TrilayerError):
    """A sink failed to take a publication. The publication is in force nevertheless."""


class ConflictError(TrilayerError):
    """Another run holds the lock, or has already done what this run would do."""

    sqlstate = "55000"
    http_status = 409


class OvertakenError(ConflictError):
    """The run can't succeed any more, and repeating it would not help.

    A newer run has taken the token, or the run's definitions or origin are no longer the present
    ones.
    """

    exit_code = 3


class HeldError(ConflictError):
    """A person holds the version in force. No run may publish until the hold is released."""

    exit_code = 3


Class = TypeVar("Class", bound=type)


def short_traceback(definition: Class) -> Class:
    """Shows an author who runs a file of definitions where it is wrong, and no internal frames.

    Args:
        definition: A class whose constructor raises DefinitionError. It is changed, and returned.
    """
    check = definition.__init__  # type: ignore[misc]  # that of the class, for its instances

    @functools.wraps(check)
    def checked(self: object, *args: Any, **kwargs: Any) -> None:
        try:
            check(self, *args, **kwargs)
        except DefinitionError as error:
            raise error.with_traceback(None) from None

    definition.__init__ = checked  # type: ignore[misc]
    return definition


def close_name(name: str, names: Iterable[str]) -> str | None:
    """The known name that was possibly meant, ignoring case; None if none is similar."""
    folded = {candidate.casefold(): candidate for candidate in names}
    close = difflib.get_close_matches(name.casefold(), folded, n=1)
    return folded[close[0]] if close else None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The end of a message about an unknown name.

    It is `; did you mean 'carrier'?` if a known name is similar, else the list of known names.
    """
    candidates = sorted(names)
    close = close_name(name, candidates)
    if close is not None:
        return f"; did you mean {close!r}?"
    return f"; {there_are(candidates)}" if candidates else ""


def there_are(names: Sequence[object]) -> str:
    """The part of a message that lists what there is: `there are a, b`. `names` is not empty."""
    return f"there {'is' if len(names) == 1 else 'are'} {', '.join(map(str, names))}"
