"""Mutations of recorded conversations, all from a generator of random numbers that is given."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Sequence
from typing import Any

LENGTHS = (0, 1, 3, 4, 5, 7, 8, 0xFFFF, 1 << 20, (1 << 20) + 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
KINDS = b"QPBDECHSXFdcfp\x00ZTR\xff"

HOSTILE_SQL = [
    "",
    ";" * 1_000,
    "/**/" * 2_000 + "(",
    "--\n" * 5_000,
    "SELECT 1" + " " * 20_000 + ";",
    "SET a = 'b'" + " " * 20_000 + "c",
    "COPY x" + " " * 20_000 + "y",
    "COPY (SELECT 1) TO STDOUT " + "CSV " * 5_000,
    "SELECT " + "(" * 20_000 + "1" + ")" * 20_000,
    "SELECT " + "[" * 300 + "1" + "]" * 300,
    "SELECT 1" + " UNION ALL SELECT 1" * 300,
    "SELECT $65535",
    "SELECT $1, $2, $99999999999999999999",
    "SELECT repeat('x', 3000000000)",
    "SELECT repeat('x', 50000000)",
    "SELECT i, repeat('y', 1000) FROM range(100000) t(i)",
    "SELECT * FROM range(1000000000000)",
    "SELECT levenshtein(repeat('a', 100000), repeat('b', 100000))",
    "SELECT '\u0000', '\ud7ff', '\U0010ffff', E'\\x00', U&'\\0041'",
    "SELECT 'unterminated",
    'SELECT "unterminated',
    "SELECT $$unterminated",
    "BEGIN",
    "BEGIN; SELECT 1",
    "COMMIT; ROLLBACK; BEGIN; BEGIN; SELECT nothing; SELECT 1",
    "ROLLBACK TO SAVEPOINT a",
    "SET statement_timeout = 99999999999999999999999999d",
    "SET statement_timeout = '1us'",
    "SET search_path = nothing",
    "DISCARD ALL",
    "DEALLOCATE ALL",
    "EXPLAIN ANALYZE SELECT count(*) FROM by_minute",
    "SELECT * FROM pg_catalog.pg_class, pg_catalog.pg_attribute LIMIT 10000",
    "SELECT pg_sleep(1)",
    "SELECT error('a mistake')",
    "SELECT CAST('nan' AS DOUBLE), CAST('inf' AS FLOAT), NULL, [NULL], {'a': [1]}, MAP {1: 2}",
    "SELECT DATE '294246-01-01', TIMESTAMP '290308-01-01', INTERVAL 1000000 YEAR",
    "SELECT * FROM trilayer.history, trilayer.segments, trilayer.processes",
    "SELECT getenv('FUZZ_CANARY')",
    "SELECT current_setting('FUZZ_CANARY')",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM read_text('canary.txt')",
    "SELECT * FROM read_text('/proc/self/environ')",
    "SELECT * FROM read_blob('/proc/self/environ')",
    "SELECT * FROM glob('*')",
    "COPY (SELECT 1) TO 'written.txt'",
    "ATTACH 'written.db'",
]
"""Statements, apart from those that are recorded."""

HOSTILE_VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    2**63,
    10**400,
    1e308,
    "",
    "\ud800",
    "\u0000",
    "x" * 100_000,
    "a,b," * 1_000,
    [],
    [[[[[[[[[[1]]]]]]]]]],
    [1] * 2_000,
    {},
    {"streams": {"sales": {"cut": {"0": -1}, "head": {"9": 10**30}}}},
    {"": None},
    *HOSTILE_SQL,
]
PATHS = [
    "/console/../../trilayer.toml",
    "/console/%2e%2e/%2e%2e/canary.txt",
    "/console//canary.txt",
    "/%00",
    "//",
    "*",
    "/v1/sql/" + "x" * 5_000,
    "/v1/subscribe?sql=" + "%28" * 10_000,
    "/v1/subscribe?sql=SELECT%20" + "-" * 4_000 + "1",
    "/v1/subscribe?sql=by_minute&key=" + "a," * 2_000,
    "/v1/subscribe?sql=" + "SELECT%20now()",
    "/v1/reconciliation?version=" + "9" * 5_000,
    "/v1/reconciliation?view=by_minute&version=99999999999999999999999",
    "/v1/reconciliation?view=%00%ff",
    "/v1/quarantine?stream=..%2f..&limit=10000",
    "/openapi.json?" + "a=1&" * 5_000,
]
HEADERS = [
    b"Host: somewhere.else",
    b"Host: [::1",
    b"Origin: http://somewhere.else",
    b"Content-Length: -1",
    b"Content-Length: 99999999999999999999",
    b"Content-Length: 5",
    b"Content-Length: 1" + b"0" * 5_000,
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: gzip, chunked",
    b"Content-Type: application/octet-stream",
    b"Content-Type: application/json; charset=utf-16",
    b"Content-Encoding: gzip",
    b"Expect: 100-continue",
    b"Upgrade: websocket\r\nConnection: Upgrade",
    b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings",
    b"Accept: text/csv;q=nan, */*;q=-1, ;;;,",
    b"Accept: application/json;q=1e309",
    b"Authorization: Basic " + b"QQ" * 3_000,
    b"Authorization: Basic \xff\xfe",
    b"Authorization: Bearer x",
    b"Last-Event-ID: \xff\xff",
    b"Range: bytes=0-0,1-1,2-2,-1",
    b"Cookie: " + b"c=1; " * 10_000,
    b"X: " + b"y" * 100_000,
    b"X" * 70_000 + b": y",
    b" folded: 1",
    b": empty",
    b"\x00: zero",
]


def flipped(rng: random.Random, data: bytes) -> bytes:
    """Some bits are others."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 8) if changed else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def spliced(rng: random.Random, data: bytes) -> bytes:
    """Some bytes are left out, and random ones stand in their place."""
    start = rng.randint(0, len(data))
    end = min(len(data), start + rng.choice((0, 1, 4, 100)))
    return data[:start] + rng.randbytes(rng.choice((0, 1, 4, 100, 5_000))) + data[end:]


def truncated(rng: random.Random, data: bytes) -> bytes:
    """The data end at any byte."""
    return data[: rng.randint(0, len(data))]


def framed(kind: bytes, body: bytes) -> bytes:
    """A message of PostgreSQL's protocol."""
    return kind + struct.pack(">i", len(body) + 4) + body


# -- PostgreSQL's protocol -------------------------------------------------------------------------


def conversation(
    rng: random.Random, recorded: Sequence[Sequence[bytes]], changes: int
) -> list[bytes]:
    """A recorded conversation with so many changes."""
    conversation = list(rng.choice(recorded))
    for _ in range(changes):
        at = rng.randrange(len(conversation)) if conversation else 0
        if not conversation:
            break
        match rng.randrange(12):
            case 0:
                conversation[at] = flipped(rng, conversation[at])
            case 1:
                conversation[at] = spliced(rng, conversation[at])
            case 2:
                conversation[at] = truncated(rng, conversation[at])
            case 3:
                conversation[at] = _with_length(rng, conversation[at], is_first=at == 0)
            case 4:
                conversation[at] = bytes([rng.choice(KINDS)]) + conversation[at][1:]
            case 5:
                conversation[at:at] = [conversation[at]] * rng.choice((1, 1, 2, 50, 1_000))
            case 6:
                rest = conversation[1:]
                rng.shuffle(rest)
                conversation[1:] = rest
            case 7:
                del conversation[at]
            case 8:
                conversation.insert(at, rng.choice(rng.choice(recorded)))
            case 9:
                conversation[at] = _with_number(rng, conversation[at])
            case 10:
                conversation.insert(max(at, 1), _asking(rng, rng.choice(HOSTILE_SQL)))
            case 11:
                kind = bytes([rng.choice(KINDS)])
                conversation.insert(at, framed(kind, rng.randbytes(rng.choice((0, 4, 60)))))
    return conversation


def _with_length(rng: random.Random, message: bytes, *, is_first: bool) -> bytes:
    start = 0 if is_first else 1
    right = int.from_bytes(message[start : start + 4], "big")
    wrong = rng.choice((*LENGTHS, right - 1, right + 1, right * 2)) & 0xFFFFFFFF
    return message[:start] + struct.pack(">I", wrong) + message[start + 4 :]


def _with_number(rng: random.Random, message: bytes) -> bytes:
    """A field of the body may have become an extreme number."""
    at = rng.randint(5, max(5, len(message)))
    number = rng.choice((b"\xff\xff", b"\x7f\xff", b"\x80\x00\x00\x00", b"\x7f\xff\xff\xff"))
    return message[:at] + number + message[at + len(number) :]


def _asking(rng: random.Random, sql: str) -> bytes:
    text = sql.encode("utf-8", "replace") + b"\0"
    if rng.random() < 0.6:
        return framed(b"Q", text)
    name = rng.choice((b"\0", b"s1\0", rng.randbytes(3).hex().encode() + b"\0"))
    most = struct.pack(">i", rng.choice((0, 1, 10, -1, 0x7FFFFFFF)))
    return b"".join(
        [
            framed(b"P", name + text + b"\0\0"),
            framed(b"B", b"\0" + name + b"\0\0" * 3),
            framed(b"D", rng.choice((b"S" + name, b"P\0", b"P"))),
            framed(b"E", b"\0" + most),
            rng.choice((b"", framed(b"S", b""), framed(b"H", b""))),
        ]
    )


# -- HTTP ------------------------------------------------------------------------------------------


def exchange(rng: random.Random, recorded: Sequence[Sequence[bytes]], changes: int) -> list[bytes]:
    """Some recorded requests with so many changes each."""
    return [
        _request(rng, rng.choice(rng.choice(recorded)), changes)
        for _ in range(rng.choice((1, 1, 1, 2, 10)))
    ]


def _request(rng: random.Random, request: bytes, changes: int) -> bytes:
    for _ in range(changes):
        head, _, body = request.partition(b"\r\n\r\n")
        first, *headers = head.split(b"\r\n")
        at = rng.randrange(len(headers)) if headers else 0
        match rng.randrange(12):
            case 0:
                request = flipped(rng, request)
                continue
            case 1:
                request = spliced(rng, request)
                continue
            case 2:
                request = truncated(rng, request)
                continue
            case 3:
                headers[at:at] = [rng.choice(HEADERS)]
            case 4:
                headers[at : at + 1] = []
            case 5:
                headers[at:at] = headers[at : at + 1] * rng.choice((1, 200))
            case 6:
                method = rng.choice(
                    (b"GET", b"POST", b"HEAD", b"OPTIONS", b"PUT", b"TRACE", b"\xff")
                )
                first = b" ".join([method, *first.split(b" ")[1:]])
            case 7:
                version = rng.choice((b"HTTP/1.0", b"HTTP/2.0", b"HTTP/9", b""))
                first = b" ".join([*first.split(b" ")[:-1], version])
            case 8:
                path = rng.choice(PATHS).encode()
                first = b" ".join([first.split(b" ")[0], path, b"HTTP/1.1"])
            case 9 | 10:
                headers, body = _with_value(rng, headers, body)
            case 11:
                headers, body = _chunked(rng, headers, body)
        request = b"\r\n".join([first, *headers, b"", body])
    return request


def _with_value(rng: random.Random, headers: list[bytes], body: bytes) -> tuple[list[bytes], bytes]:
    """A value of the JSON document is another one."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = {"sql": "SELECT 1"}
    if isinstance(document, dict):
        document[rng.choice([*document, "sql", "unknown"])] = rng.choice(HOSTILE_VALUES)
    body = rng.choice((json.dumps(document).encode(), b"[" * 20_000 + b"]" * 20_000, b"NaN"))
    return _with_headers(headers, b"Content-Length: %d" % len(body)), body


def _chunked(rng: random.Random, headers: list[bytes], body: bytes) -> tuple[list[bytes], bytes]:
    """The body comes in chunks, whose sizes may be wrong."""
    parts = [body[at : at + 7] for at in range(0, len(body), 7)] or [b""]
    sizes = [b"%x" % len(part) for part in parts]
    if rng.random() < 0.7:
        wrong = (b"0", b"ffffffffffffffff", b"-1", b"zz", b"7;x=" + b"y" * 20_000, b"")
        sizes[rng.randrange(len(sizes))] = rng.choice(wrong)
    chunks = [b"%s\r\n%s\r\n" % pair for pair in zip(sizes, parts, strict=True)]
    end = rng.choice((b"0\r\n\r\n", b"0\r\nTrailer: x\r\n\r\n", b""))
    return _with_headers(headers, b"Transfer-Encoding: chunked"), b"".join(chunks) + end


def _with_headers(headers: list[bytes], other: bytes) -> list[bytes]:
    framing = (b"content-length:", b"transfer-encoding:", b"content-type:")
    kept = [header for header in headers if not header.lower().startswith(framing)]
    return [*kept, b"Content-Type: application/json", other]
