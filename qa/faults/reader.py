"""A reader that asks all the while: each answer, or each error, is a line of JSON on its standard
output.
"""

from __future__ import annotations

import json
import sys
import time

import serving_layer
from trilayer_core.errors import TrilayerError

QUERY = (
    "select coalesce(sum(n), 0)::bigint as n, coalesce(sum(serials), 0)::bigint as serials from"
    " by_user"
)


PAUSE_S = 0.25
"""Answers are many enough at this rate, and leave the processor to those that are hurt."""


def main() -> None:
    """Until killed.

    One connection, as a dashboard holds it; opened anew after an error, as a careful one does.
    """
    while True:
        try:
            with serving_layer.connect() as connection:
                while True:
                    _ask(connection)
        except TrilayerError as error:
            _say({"at": time.monotonic(), "kind": type(error).__name__, "error": str(error)})
        time.sleep(0.2)


def _ask(connection: serving_layer.Connection) -> None:
    asked = time.monotonic()
    with connection.snapshot() as snapshot:
        (row,) = snapshot.sql(QUERY).dicts()
        at = snapshot.provenance
    stream = at.streams["orders"]
    _say(
        row
        | {"asked": asked, "at": time.monotonic(), "version": at.version, "head": dict(stream.head)}
    )
    time.sleep(PAUSE_S)


def _say(line: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(line, default=int) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
