"""The names of fields inside structs, arrays and maps keep their spelling, at every depth."""

import itertools
import json

import pytest

from trilayer import Stream
from trilayer_core.compute.unknown_fields import UnknownFields
from trilayer_core.definitions.rules import parse_rule
from trilayer_core.definitions.schemas import parse_schema
from trilayer_core.errors import DefinitionError

NAMES = ("zipCode", "ZIP", "zip_code", "timestamp", "Decimal", "`zip Code`", "`Ähnlich`")
AROUND = {"struct<Outer:{}>": ".Outer", "array<{}>": "[]", "map<string,{}>": "[]"}
"""Types that hold another one, with the step of a path from one to the other."""


def around(depth: int) -> list[tuple[str, str]]:
    """Types with a struct at this depth, and the paths from the column to it."""
    found = []
    for types in itertools.product(AROUND, repeat=depth):
        type_ = "{}"
        for outer in types:
            type_ = type_.format(outer)
        found.append((type_, "".join(AROUND[outer] for outer in types)))
    return found


NESTED = [nested for depth in range(4) for nested in around(depth)]


@pytest.mark.parametrize("name", NAMES)
def test_a_field_keeps_its_spelling_at_every_depth(name):
    for outer, _ in NESTED:
        type_ = outer.format(f"struct<{name}:decimal(10,2)>")
        for written in (type_, type_.replace("decimal", "DECIMAL").replace("map<", "Map< ")):
            (field,) = parse_schema(f"ship {written}", "stream s")
            assert field.type == type_


def test_a_name_that_spark_would_not_read_is_put_into_backticks():
    (field,) = parse_schema("ship struct<Größe:int>", "stream s")
    assert field.type == "struct<`Größe`:int>"


@pytest.mark.parametrize(("outer", "path"), NESTED)
def test_unknown_fields_are_reported_at_every_depth(outer, path):
    type_ = outer.format("struct<zipCode:string,city:string>")
    stream = Stream("s", f"at timestamp, ship {type_} from 'Ship'", event_time="at")
    value: object = {"zipcode": "01234", "city": "Bonn"}
    for step in reversed(path.replace("[]", ".[]").split(".")[1:]):
        value = [value, value] if step == "[]" else {step: value}
    outermost = json.dumps({"at": "2026-01-01", "Ship": value})
    unknown = UnknownFields(stream)
    unknown.count(outermost.encode())
    assert str(unknown) == (
        f"fields that the schema of s does not have: Ship{path}.zipcode"
        f" (1; did you mean 'Ship{path}.zipCode'?)"
    )


def test_unknown_fields_of_maps_are_reported_by_the_values():
    stream = Stream("s", "at timestamp, m map<string,struct<a:int>>", event_time="at")
    unknown = UnknownFields(stream)
    unknown.count(b'{"m": {"x": {"a": 1, "B.c": 2}, "y": null, "z": 3}}')
    assert unknown == {"m[].`B.c`": 1}


@pytest.mark.parametrize("outer", [outer for outer, _ in NESTED])
def test_fields_that_differ_only_in_case_are_refused(outer):
    message = r"must be a struct of fields whose names differ in more than case; got zip and Zip"
    with pytest.raises(DefinitionError, match=message):
        parse_schema(f"ship {outer.format('struct<zip:int,city:string,Zip:int>')}", "stream s")


def test_a_quotation_mark_in_a_field_is_doubled_or_in_other_quotes():
    for written in ("'l''heure'", '"l\'heure"'):
        (field,) = parse_schema(f"hour int from {written}", "stream s", events=True)
        assert field.path == ("l'heure",)
    (field,) = parse_schema("hour int from 'a.l''heure d''or'", "stream s", events=True)
    assert field.path == ("a", "l'heure d'or")
    with pytest.raises(DefinitionError, match="must be Spark DDL"):
        parse_schema("hour int from 'l' 'heure'", "stream s", events=True)


def test_rules_name_fields_in_any_case():
    columns = {"ship": "struct<zipCode:string,Lines:array<struct<skuId:string>>>"}
    for zip_code, sku in (("zipCode", "skuId"), ("zipcode", "SKUID")):
        rule = f"ship.{zip_code} = '1' and ship.lines[0].{sku} = 'x'"
        sql = parse_rule(rule, columns, "rule", required="ship", last=0, profile=None)
        assert all(name in sql for name in ("zipCode", "skuId", "`Lines`"))
