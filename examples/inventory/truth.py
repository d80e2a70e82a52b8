"""The correct answers about a generated history of products, in plain Python.

`python -m examples.inventory.truth FOLDER` writes the history of each database, a record on a line,
and the table at its end.
"""

from __future__ import annotations

import argparse
import json
from datetime import datetime
from pathlib import Path

from examples.demo import Event, Expected, Key
from examples.inventory.generate import SOURCES, Database, generate


def truth(database: Database) -> list[Expected]:
    """The rows that the table has in the end."""
    columns = ("name", "price", "description", "updated_at")
    rows: dict[Key, Event] = {
        (id_,): {name: row[name] for name in columns} for id_, row in database.rows.items()
    }
    return [Expected("products", ["id"], rows)]


def main() -> None:
    """Writes histories and tables to the folder on the command line."""
    parser = argparse.ArgumentParser(prog="python -m examples.inventory.truth", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--events", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--start", type=datetime.fromisoformat, default=datetime.fromisoformat("2026-01-01T00:00Z")
    )
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for source in SOURCES:
        made = {"events": given.events, "seed": given.seed, "start": given.start}
        database = generate(source=source, schema=False, **made)
        # A tombstone is a key without a value, which a file of values can't have.
        values = [record.value for record in database.records if record.value is not None]
        path = given.folder / f"{source}.jsonl"
        path.write_bytes(b"".join(value + b"\n" for value in values))
        answers = {one.relation: one.to_json() for one in truth(database)}
        text = json.dumps(answers, indent=1, ensure_ascii=False) + "\n"
        (given.folder / f"{source}.truth.json").write_text(text, "utf-8")
        first, last = database.records[0].appended, database.records[-1].appended
        what = f"{path}: {len(values):,} changes from {first} to {last}"
        print(f"{what}; send it with `trilayer replay {path} --stream product_changes`")


if __name__ == "__main__":
    main()
