"""The aggregates. Each is a commutative monoid with states that can be merged in any order.

An aggregate stores one or more named states. A `State` defines in SQL how it is computed from
events (Spark), how two are merged (Spark and DuckDB), and its value without events. `present` is
DuckDB SQL that computes the final value from the states. No other code depends on what an aggregate
does. A state is canonical: the same events give the same bits, however they were divided, except
for rounding in floating-point sums; the layers are compared by their states.

An aggregate without a state of fixed size, such as the number of different values, divides the
events of a key into cells, each of which has a state; see `Cell`.

A built-in aggregate is a class and a function in a module of this package, and the function's name
in trilayer/__init__.py; CONTRIBUTING.md lists the steps. A project can define aggregates of its
own; docs/extending.md shows an example.

The design follows Algebird's `MonoidAggregator` (prepare, plus with zero, present).
"""

from trilayer_core.definitions.aggregates import cells, chosen, spread, sums

AGGREGATES = tuple(
    kind
    for module in (sums, chosen, spread, cells)
    for kind in vars(module).values()
    if isinstance(kind, type) and kind.__module__ == module.__name__ and "kind" in vars(kind)
)
"""Every aggregate of these modules. The tests of the laws run over this list."""
