"""Which expressions of definitions can fail on an event, and what each of them reads.

Spark computes in ANSI mode, where a cast of text that is no number, an overflow, a division by zero
and the like raise an error. The parser sets an event aside for which an expression of a view over
its stream raises one: it counts in no view of the stream. `total` expressions need no such check.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from trilayer_core.definitions.expressions import Expression
from trilayer_core.definitions.stream import Source, Stream


@dataclass(frozen=True)
class Guard:
    """An expression that may fail on an event.

    Attributes:
        subject: What it is, such as `where of aggregate 'ok' of view 'ok_by_host'`.
        written: What its author wrote.
        value: Spark SQL of it, over the stream's columns.
        condition: Spark SQL that selects the events for which it is computed; empty for all.
        columns: The columns that it reads, sorted.
    """

    subject: str
    written: str
    value: str
    condition: str
    columns: tuple[str, ...]

    @property
    def sql(self) -> str:
        """Spark SQL of a number, which raises an error exactly if the expression does."""
        number = f"hash({self.value})"
        return f"IF({self.condition}, {number}, 0)" if self.condition else number


@dataclass(frozen=True)
class Guarded(Expression):
    """An expression that may fail. Its `sql` is NULL for events that do not fit or do not count."""

    guard: Guard | None = field(default=None, compare=False)


def guarded(
    expression: Expression, subject: str, stream: Source, under: Sequence[Expression | None] = ()
) -> Expression:
    """The expression, as one that is `Guarded` if it may fail.

    Args:
        expression: The expression.
        subject: What it is, for reasons.
        stream: What it reads. Only a stream's events can be set aside.
        under: The filters that select the events for which it is computed.
    """
    if not isinstance(stream, Stream) or expression.total:
        return expression
    condition = " AND ".join(f"({e.sql})" for e in under if e is not None)
    # The columns of an event that does not fit are NULL, and some expressions fail on NULL.
    counts = f"`{stream.event_time}` IS NOT NULL" + (f" AND {condition}" if condition else "")
    columns = tuple(sorted(expression.columns))
    guard = Guard(subject, expression.shown, expression.sql, condition, columns)
    return Guarded(
        f"IF({counts}, {expression.sql}, NULL)",
        expression.type,
        expression.columns,
        expression.written,
        guard=guard,
    )


def guards_of(expressions: Iterable[Expression | None]) -> list[Guard]:
    """The guards of those expressions that have one."""
    return [e.guard for e in expressions if isinstance(e, Guarded) and e.guard]
