"""A grammar of hostile events: bytes that a producer may send and that must neither stop nor
mislead a layer.

`hostile_events` yields a stream of them that is the same for the same seed. Each says of which kind
it is and whether it fits `STREAM`, so that a test knows how many events must be counted and how
many must be quarantined.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from trilayer import Stream

SCHEMA = (
    "id string not null, n int, big bigint, price decimal(10,2), wide decimal(38,2), ratio double,"
    " flag boolean, d date, at timestamp, local timestamp_ntz, raw binary, nested"
    " struct<a:int,price:decimal(10,2)>, prices array<decimal(10,2)>, rates"
    " map<string,decimal(5,3)>"
)
MAX_EVENT_BYTES = 200_000


def hostile_stream(topic: str = "hostile", partitions: int = 2) -> Stream:
    """The stream that the grammar is written for."""
    return Stream(
        "hostile",
        SCHEMA,
        event_time="at",
        topic=topic,
        partitions=partitions,
        max_event_bytes=MAX_EVENT_BYTES,
    )


STREAM = hostile_stream()


@dataclass(frozen=True)
class Hostile:
    """One event: the bytes of its value, the kind that it is of, and whether it fits `STREAM`.

    An event that fits has an `id` that begins with `fits`, whatever else is strange about it.
    """

    kind: str
    value: bytes | None
    fits: bool


Made = tuple[bytes | None, bool]
_AT = '"at": "2026-01-01T00:00:00Z"'
_CONTROLS = [chr(code) for code in range(0x20)] + [
    "\x7f",
    "\x80",
    "\x9f",
    "\u2028",
    "\u2029",
    "\ufeff",
    "\ufffe",
]
_EXPONENTS = ["1000", "9999", "100000", "100000000", "2147483648", "99999999999999999999"]


def event(fields: str = "", id_: str = "fits") -> bytes:
    """An event of `STREAM` that fits as long as `fields`, JSON text of more fields, does."""
    return f'{{"id": {json.dumps(id_)}, {_AT}{", " if fields else ""}{fields}}}'.encode()


def _huge_exponent(rng: random.Random) -> Made:
    exponent = rng.choice(_EXPONENTS)
    digits = f"{rng.choice(['', '-'])}{rng.choice(['1', '1.5', '9.99'])}"
    number = f"{digits}{rng.choice('eE')}{rng.choice(['', '+'])}{exponent}"
    field = rng.choice(
        [
            '"price": {}',
            '"wide": {}',
            '"nested": {{"price": {}}}',
            '"prices": [1, {}]',
            '"rates": {{"x": {}}}',
        ]
    )
    quoted = rng.random() < 0.3
    return event(field.format(f'"{number}"' if quoted else number), "huge"), False


def _hidden_exponent(rng: random.Random) -> Made:
    number = rng.choice(
        [r"\u0031e100000000", r"1\u0065100000000", r"1e\u0031\u003000000000", r"1\u0045+100000000"]
    )
    return event(f'"price": "{number}"', "hidden"), False


def _overwritten_exponent(rng: random.Random) -> Made:
    # Of two fields of one name the last one counts; the first is read all the same.
    return event(f'"price": 1e{rng.choice(_EXPONENTS[3:])}, "price": 1', "overwritten"), False


def _exponent_in_text(rng: random.Random) -> Made:
    id_ = rng.choice(
        ["fits 1e100000000", "fits a3e123456", "fits 12E+99999", "fits \\u0031e999999999"]
    )
    return event('"price": 1.5', id_), True


def _exponent_of_a_double(rng: random.Random) -> Made:
    return event(f'"ratio": {rng.choice(["1e308", "-1.7e-308", "5e-324", "1E+15"])}'), True


def _huge_digits(rng: random.Random) -> Made:
    digits = "9" * rng.choice([39, 1000, 1001, 5000, 100_000])
    field = rng.choice(["n", "big", "price", "wide", "at"])
    text = event(f'"{field}": {digits}', "digits")
    if rng.random() < 0.5 and field in ("price", "wide"):
        text = event(f'"{field}": "{digits}"', "digits")
    return text, False


def _largest(rng: random.Random) -> Made:
    sign = rng.choice(["", "-"])
    return event(
        f'"n": 2147483647, "big": 9223372036854775807, "wide": {sign}{"9" * 36}.99, "price":'
        " 99999999.99"
    ), True


def _deep(rng: random.Random) -> Made:
    depth = rng.choice([1_001, 5_000, 30_000])
    opening, closing = rng.choice([("[", "]"), ('{"a":', "}")])
    inner = "1" if opening != "[" else ""
    ends = closing * depth if rng.random() < 0.7 else ""
    text = event(f'"deep": {opening * depth}{inner}{ends}', "deep")
    return text, False


def _deep_enough(rng: random.Random) -> Made:
    depth = rng.choice([2, 50, 400])
    return event(f'"deep": {"[" * depth}{"]" * depth}'), True


def _wide(rng: random.Random) -> Made:
    number = rng.choice([100, 5_000])
    return event(", ".join(f'"unknown{n}": {n}' for n in range(number))), True


def _long_text(rng: random.Random) -> Made:
    return event("", "fits " + rng.choice("xé日") * rng.choice([1_000, 30_000])), True


def _too_long(rng: random.Random) -> Made:
    return event(f'"more": "{"x" * MAX_EVENT_BYTES}"', "long"), False


def _long_name(rng: random.Random) -> Made:
    return event(f'"{"n" * 100_000}": 1', "name"), False


def _duplicates(rng: random.Random) -> Made:
    return event('"n": 1, "n": 2, "n": 3'), True


def _control_raw(rng: random.Random) -> Made:
    control = rng.choice(_CONTROLS[:0x20])
    return b'{"id": "x' + control.encode() + b'y", ' + _AT.encode() + b"}", False


def _control_escaped(rng: random.Random) -> Made:
    return event("", "fits " + rng.choice(_CONTROLS) + "end"), True


def _surrogate(rng: random.Random) -> Made:
    half = rng.choice([r"\ud800", r"\udfff", r"\ud800\ud800", r"\udc00\ud800"])
    return event('"nested": {"a": 1}').replace(b'"fits"', f'"fits {half}"'.encode()), True


def _not_utf8(rng: random.Random) -> Made:
    broken = rng.choice(
        [
            b"\xff",
            b"\xc3",
            b"\xed\xa0\x80",
            b"\xc0\xaf",
            b"\xf4\x90\x80\x80",
            b"\xf8\x88\x80\x80\x80",
            b"\x80",
        ]
    )
    return event("", "bad").replace(b"bad", b"bad" + broken), False


def _other_encoding(rng: random.Random) -> Made:
    return event("", "bad").decode().encode(
        rng.choice(["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
    ), False


def _byte_order_mark(rng: random.Random) -> Made:
    return b"\xef\xbb\xbf" + event("", "bad"), False


def _noise(rng: random.Random) -> Made:
    return rng.randbytes(rng.choice([1, 2, 16, 5_000])) + b"\xff", False


def _no_record(rng: random.Random) -> Made:
    return rng.choice(
        [
            None,
            b"",
            b" ",
            b"\0",
            b"{",
            b"}",
            b"{}",
            b"[]",
            b"null",
            b"0",
            b'"',
            b'""',
            b"{{}}",
            b"nul",
            b"-",
            b"1e",
        ]
    ), False


def _not_one_object(rng: random.Random) -> Made:
    one = event("", "bad")
    return rng.choice(
        [
            b"[" + one + b"]",
            one + one,
            one + b"\n" + one,
            one + b",",
            one + b"}",
            one + b"\0",
            one[:-1],
            one[1:],
        ]
    ), False


def _not_json(rng: random.Random) -> Made:
    fields = rng.choice(
        [
            '"n": +1',
            '"n": 01',
            '"n": 0x10',
            '"n": 1_000',
            '"n": .5',
            '"n": 1.',
            '"n": 1,',
            '"n" 1',
            '"n": undefined',
            "n: 1",
            "'n': 1",
            '"n": 1 /* one */',
            '"n": 1 // one',
            '"ratio": nan',
            '"n": tru',
            r'"n": "\x41"',
            r'"n": "\u00g0"',
            '"n": "\\',
        ]
    )
    return event(fields, "bad"), False


def _no_number(rng: random.Random) -> Made:
    return event(
        f'"{rng.choice(["n", "big", "price", "wide"])}":'
        f" {rng.choice(['NaN', 'Infinity', '-Infinity', 'true', '{}', '[]'])}",
        "bad",
    ), False


def _wrong_type(rng: random.Random) -> Made:
    wrong = {
        "n": ['"seven"', "1.5", "2147483648", "1e400"],
        "big": ["9223372036854775808", '"x"'],
        "price": ['"x"', "100000000", '""'],
        "wide": ["1" + "0" * 36],
        "ratio": ['"x"', "[]"],
        "flag": ["1", '"yes"'],
        "d": ['"2026-02-30"', "20260301"],
        "at": ['"soon"', "1.5", "1e30"],
        "local": ['"10:00"', "7"],
        "raw": ['"!"', "7"],
        "nested": ["[]", '{"a": "x"}', "7"],
        "prices": ['["x"]', "{}"],
        "rates": ['{"a": "x"}', "[1]"],
    }
    field = rng.choice(list(wrong))
    return event(f'"{field}": {rng.choice(wrong[field])}', "bad"), False


def _out_of_time(rng: random.Random) -> Made:
    at = rng.choice(
        [
            "0000-12-31T23:59:59Z",
            "+10000-01-01T00:00:00Z",
            "0001-01-01T00:00:00+14:00",
            "9999-12-31T23:59:59-14:00",
            "-0001-01-01",
        ]
    )
    return event("", "bad").replace(b"2026-01-01T00:00:00Z", at.encode()), False


def _edge_of_time(rng: random.Random) -> Made:
    at = rng.choice(
        [
            "0001-01-01T00:00:00Z",
            "0001-01-01T00:10:00Z",
            "9999-12-31T23:30:00Z",
            "9999-12-31T23:59:59.999999Z",
            "1582-10-10",
            "1969-12-31T23:59:59.999999Z",
        ]
    )
    return event().replace(b"2026-01-01T00:00:00Z", at.encode()), True


def _lacking(rng: random.Random) -> Made:
    return rng.choice(
        [
            b'{"id": "x"}',
            b"{" + _AT.encode() + b"}",
            b'{"id": null, ' + _AT.encode() + b"}",
            b'{"id": "x", "at": null}',
        ]
    ), False


def _many_misfits(rng: random.Random) -> Made:
    text = '"' + rng.choice(["w", "日", "\\u0000", '\\"']) * 60 + '"'
    names = [
        "n",
        "big",
        "price",
        "wide",
        "ratio",
        "flag",
        "d",
        "local",
        "raw",
        "nested",
        "prices",
        "rates",
    ]
    return event(", ".join(f'"{name}": {text}' for name in names), "bad"), False


def _white_space(rng: random.Random) -> Made:
    space = "".join(rng.choice(" \t\r\n") for _ in range(rng.choice([1, 50, 5_000])))
    return (space + event().decode().replace(", ", "," + space) + space).encode(), True


def _plain(rng: random.Random) -> Made:
    fields = (
        f'"n": {rng.randrange(100)}, "price": {rng.randrange(10_000) / 100}, "flag": true,'
        f' "nested": {{"a": 1, "price": 1.5}}'
    )
    return event(fields), True


KINDS: dict[str, Callable[[random.Random], Made]] = {
    make.__name__.removeprefix("_"): make
    for make in (
        _huge_exponent,
        _hidden_exponent,
        _overwritten_exponent,
        _exponent_in_text,
        _exponent_of_a_double,
        _huge_digits,
        _largest,
        _deep,
        _deep_enough,
        _wide,
        _long_text,
        _too_long,
        _long_name,
        _duplicates,
        _control_raw,
        _control_escaped,
        _surrogate,
        _not_utf8,
        _other_encoding,
        _byte_order_mark,
        _noise,
        _no_record,
        _not_one_object,
        _not_json,
        _no_number,
        _wrong_type,
        _out_of_time,
        _edge_of_time,
        _lacking,
        _many_misfits,
        _white_space,
        _plain,
    )
}
"""Kind of event to what makes one."""


def hostile(seed: int = 0, *, fits: bool | None = None) -> Iterator[Hostile]:
    """Events without end, of all kinds in turn, the same for the same seed.

    Args:
        seed: Chooses among what each kind can be.
        fits: Only events that fit `STREAM`, or only those that do not; of both by default.
    """
    rng = random.Random(seed)
    while True:
        for kind, make in KINDS.items():
            value, fitting = make(rng)
            if fits is None or fits == fitting:
                yield Hostile(kind, value, fitting)


def hostile_events(seed: int = 0, *, fits: bool | None = None) -> Iterator[bytes]:
    """`hostile` as the bytes to send, without tombstones."""
    return (made.value for made in hostile(seed, fits=fits) if made.value is not None)
