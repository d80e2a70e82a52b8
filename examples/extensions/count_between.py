"""A custom aggregate: the number of values between two bounds."""

from collections.abc import Mapping
from dataclasses import dataclass

from trilayer import Aggregate, State
from trilayer.errors import DefinitionError


@dataclass(frozen=True)
class CountBetween(Aggregate):
    """The number of events whose `value` is from `low` to `high`, both included."""

    low: int = 0
    high: int = 0
    kind = "count_between"

    def check(self, types: Mapping[str, str], subject: str) -> None:
        """Requires whole numbers, and bounds in the right order."""
        if types["value"] not in ("int", "bigint"):
            raise DefinitionError(
                f"{subject} must be over an int or a bigint; got {types['value']}"
            )
        if self.low > self.high:
            raise DefinitionError(
                f"{subject} must have low <= high; got {self.low} and {self.high}"
            )

    def states(self, types: Mapping[str, str], positioned: bool) -> dict[str, State]:
        """One number, which the layers count and add up."""
        between = f"count_if(value BETWEEN {self.low} AND {self.high})"
        return {"n": State("bigint", between, "sum(state)", neutral="0")}

    def present(self, types: Mapping[str, str]) -> tuple[str, str]:
        """The number, unchanged."""
        return "n", "bigint"


def count_between(column: str, low: int, high: int, *, where: str | None = None) -> Aggregate:
    """The number of events whose `column` is from `low` to `high`, both included."""
    return CountBetween(value=column, where=where, low=low, high=high)
