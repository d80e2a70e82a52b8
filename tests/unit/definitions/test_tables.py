"""Reference tables: what is refused when they are declared, and which rows do not fit."""

import re
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trilayer import Catalog, Query, Rows, Stream, Table, View, count
from trilayer.errors import DefinitionError, IntegrityError
from trilayer_core.compute.tables import read_reference
from trilayer_core.store.files import Store
from trilayer_core.store.tables import check_tables, stored_table, table_content

STREAM = Stream("rides", schema="lift string, at timestamp", event_time="at")
SCHEMA = "lift string not null, height int"


def lifts(folder, text="lift,height\nred,7\n", schema=SCHEMA, name="lifts"):
    path = folder / f"{name}.csv"
    path.write_text(text)
    return Table(name, path=path, schema=schema)


def named(rides, lifts_):
    return rides.join(lifts_, "lift", "left")


def rows(*tables, function=named):
    return Rows("named", source=STREAM, rows=function, schema=SCHEMA, tables=tables)


def test_what_does_not_fit_a_declaration_is_refused(tmp_path):
    good = lifts(tmp_path)
    for declared, says in (
        (lambda: Table("Lifts", path=good.path, schema=SCHEMA), "name of a table must be"),
        (
            lambda: Table("lifts", path="lifts.xlsx", schema=SCHEMA),
            r"must be that of a file that ends in .csv or .parquet; got 'lifts.xlsx'",
        ),
        (
            lambda: Table("lifts", path="no/lifts.csv", schema=SCHEMA),
            r"there is none at \S+tests/unit/definitions/no/lifts.csv; a relative path",
        ),
        (
            lambda: lifts(tmp_path, schema="lift array<string>"),
            "column 'lift' of table 'lifts' must be a number, text, .*; got array<string>",
        ),
        (lambda: lifts(tmp_path, schema="lift"), "schema of table 'lifts' must be Spark DDL"),
        (
            lambda: rows("lifts"),
            "tables of rows 'named' must be a list of Table; got",
        ),
        (
            lambda: rows(good, function=lambda rides: rides),
            "must be a function of a DataFrame and one for each of lifts; got",
        ),
    ):
        with pytest.raises(DefinitionError, match=says):
            declared()


def test_names_are_those_of_one_thing(tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    view = View("v", source=rows(lifts(tmp_path)), key=["lift"], aggregates={"n": count()})
    for more, says in (
        ({"tables": [lifts(other)]}, "each table must be declared once; .* named 'lifts'"),
        (
            {"queries": [Query("lifts", "select 1")]},
            "tables, views and queries must have different names; got lifts twice",
        ),
        ({"tables": ["lifts"]}, "tables of a catalog must be a list of Table; got 'lifts'"),
    ):
        with pytest.raises(DefinitionError, match=says):
            Catalog(views=[view], **more)
    catalog = Catalog(views=[view], tables=[lifts(tmp_path), lifts(tmp_path, name="others")])
    assert [table.name for table in catalog.all_tables] == ["lifts", "others"]


def test_the_content_is_in_the_fingerprint_and_the_place_of_the_file_is_not(tmp_path):
    table = lifts(tmp_path)

    def of_closure(rides, given):
        return rides.join(given, list(table.columns))

    before = [rows(table).fingerprint, rows(table, function=of_closure).fingerprint]
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    table = lifts(moved)
    assert [rows(table).fingerprint, rows(table, function=of_closure).fingerprint] == before
    for other in (
        lifts(moved, "lift,height\nred,8\n"),
        lifts(moved, schema="lift string not null, height bigint"),
        lifts(moved, name="other"),
    ):
        table = other
        now = [rows(table).fingerprint, rows(table, function=of_closure).fingerprint]
        assert not {*now} & {*before}
    plain = Rows("named", source=STREAM, rows=lambda rides: rides, schema=SCHEMA)
    assert plain.fingerprint != before[0]


def test_a_file_is_read_by_its_schema(tmp_path):
    text = (
        '\ufefflift,note,n,x,price,open,day,at,"local"\r\n'
        '"a, b",left out,-7,1e3,1.50,TRUE,2026-01-31,2026-01-31T10:00:00+02:00,2026-01-31 10:00\r\n'
        "\r\n"
        ",,,,,,,,\r\n"
        "c,,32767,-Infinity,99,false,0001-01-01,9999-12-31,2026-01-31\r\n"
    )
    schema = (
        "n smallint, lift string, x double, price decimal(4,2), open boolean, day date, at"
        " timestamp, local timestamp_ntz"
    )
    found = read_reference(lifts(tmp_path, text, schema))
    ten, noon = datetime(2026, 1, 31, 10), datetime(2026, 1, 31, 8, tzinfo=UTC)  # noqa: DTZ001  # one is without a zone
    end = datetime(9999, 12, 31, tzinfo=UTC)
    assert found.to_pylist() == [
        dict(zip(found.column_names, values, strict=True))
        for values in (
            (-7, "a, b", 1000.0, Decimal("1.50"), True, date(2026, 1, 31), noon, ten),
            (None,) * 8,
            (32767, "c", float("-inf"), Decimal(99), False, date(1, 1, 1), end,
             datetime(2026, 1, 31)),  # noqa: DTZ001  # without a zone
        )
    ]  # fmt: skip
    path = tmp_path / "lifts.parquet"
    pq.write_table(found, path)
    assert read_reference(Table("lifts", path=path, schema=schema)).equals(found)


MISFITS = {
    "tinyint": ["128", "1.5", "", "1_0"],
    "bigint": ["9223372036854775808"],
    "double": ["1,5", "many", "1e309"],
    "float": ["1e39", "-1e39"],
    "decimal(4,2)": ["100", "0.001", "NaN", "1e999999"],
    "decimal(38,2)": ["1234567890123456789012345678.905"],
    "boolean": ["yes"],
    "date": ["31.1.2026", "2026-02-30"],
    "timestamp": ["10:00"],
    "timestamp_ntz": ["2026-01-31T10:00:00Z"],
}


@pytest.mark.parametrize("type_", MISFITS)
def test_all_rows_that_do_not_fit_are_named(type_, tmp_path):
    values = MISFITS[type_]
    text = "".join(f'"{value}"\n' for value in ["c", *values])
    with pytest.raises(DefinitionError) as raised:
        read_reference(lifts(tmp_path, text, f"c {type_} not null"))
    for number, value in enumerate(values, 2):
        wrong = f"must be {re.escape(type_)}; got '{value}'" if value else "is missing"
        assert re.search(rf"line {number}:? c:? ?{wrong}", str(raised.value)), raised.value


def test_the_rows_beyond_some_are_counted(tmp_path):
    text = "lift,height\n" + "red,tall\n" * 1020 + "red\n"
    with pytest.raises(DefinitionError, match=r"line 21: .*; and 1,001 more; correct the file"):
        read_reference(lifts(tmp_path, text))
    with pytest.raises(DefinitionError, match="line 2 has 1 fields, not 2"):
        read_reference(lifts(tmp_path, "lift,height\nred\n"))
    path = tmp_path / "lifts.parquet"
    pq.write_table(pa.table({"lift": ["a", None], "height": [1, 2**40]}), path)
    with pytest.raises(
        DefinitionError,
        match=f"row 2: lift is missing; row 2: height must be int; got {2**40}; correct",
    ):
        read_reference(Table("lifts", path=path, schema=SCHEMA))


def test_decimals_of_38_digits_fit(tmp_path):
    digits = "9" * 36 + ".99"
    found = read_reference(lifts(tmp_path, f"c\n{digits}\n", "c decimal(38,2)"))
    assert found["c"].to_pylist() == [Decimal(digits)]


def test_a_file_that_is_no_table_is_refused(tmp_path):
    with pytest.raises(DefinitionError, match=r"must have each column once; .* has 'lift' 2 times"):
        read_reference(lifts(tmp_path, "lift,height,lift\n"))
    with pytest.raises(DefinitionError, match="has no 'height'; did you mean 'heigth'"):
        read_reference(lifts(tmp_path, "lift,heigth\n"))
    with pytest.raises(DefinitionError, match="has no 'lift'"):
        read_reference(lifts(tmp_path, ""))
    for name, says in (("lifts.csv", "a CSV file in UTF-8"), ("lifts.parquet", "a Parquet file")):
        (tmp_path / name).write_bytes(b"\xff\xfe")
        with pytest.raises(DefinitionError, match=f"table 'lifts' must be {says}; "):
            read_reference(Table("lifts", path=tmp_path / name, schema=SCHEMA))


def test_what_is_stored_is_what_was_declared(tmp_path):
    table, store = lifts(tmp_path), Store(str(tmp_path / "store"))
    assert table_content(store, table, 1).to_pylist() == [{"lift": "red", "height": 7}]
    assert store.names("tables") == []
    table.file.write_text("lift,height\nred,8\n")
    with pytest.raises(DefinitionError, match="it has changed; start this process again"):
        stored_table(store, table)
    now = Table("lifts", path=table.path, schema=SCHEMA)
    stored = stored_table(store, now)
    assert stored.file.path == f"tables/lifts/{now.digest}.parquet"
    now.file.unlink()
    assert stored_table(store, now) == stored, "the file is not needed any more"
    assert table_content(store, now, 1).to_pylist() == [{"lift": "red", "height": 8}]


def test_a_process_that_was_killed_while_it_stored_a_table_is_no_obstacle(tmp_path):
    table, store = lifts(tmp_path), Store(str(tmp_path / "store"))
    stored = stored_table(store, table)
    store.delete(f"tables/lifts/{table.digest}.json")
    assert stored_table(store, table) == stored


def test_a_stored_content_that_was_altered_is_not_used(tmp_path):
    table, store = lifts(tmp_path), Store(str(tmp_path / "store"))
    stored = stored_table(store, table)
    store.write(stored.file.path, b"other rows")
    with pytest.raises(
        IntegrityError, match=rf"{stored.file.path} .*; delete the folder of the ta"
    ):
        table_content(store, table, 1)
    store.delete("tables/lifts")
    assert stored_table(store, table) == stored


def test_a_table_that_is_too_large_is_refused(tmp_path):
    large = lifts(tmp_path, "lift,height\n" + f"{'x' * 1000},1\n" * 1100)
    store = Store(str(tmp_path / "store"))
    says = (
        r"table 'lifts' .*lifts.csv.* must be at most 1 MB, .*; it has 1\.1 MB; .* the setting"
        " table_max_mb"
    )
    with pytest.raises(DefinitionError, match=says):
        check_tables(store, [rows(large)], 1)
    with pytest.raises(DefinitionError, match=says):
        table_content(store, large, 1)
    check_tables(store, [rows(large)], 2)
    with pytest.raises(DefinitionError, match=says):
        check_tables(store, [rows(large)], 1)
