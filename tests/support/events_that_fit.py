"""Events that fit their schema, and events that do not, each with its reason."""

from trilayer import Stream

STREAM = Stream(
    "orders",
    "id string not null, n int, tiny tinyint, at timestamp, d date, local timestamp_ntz, price"
    " decimal(6,2), ratio double, nested struct<a:int>",
    event_time="at",
    max_event_bytes=200,
)
AT = b'"at": "2026-01-01T00:00:00Z"'
TOO_LATE = ", and a number is in seconds: declare `at timestamp in {0}` if these are {0}"

BAD = {
    "tombstone": (None, "tombstone"),
    "oversized": (
        b'{"id": "x", ' + AT + b', "more": "' + b"y" * 200 + b'"}',
        "oversized: 253 bytes, at most 200",
    ),
    "invalid UTF-8": (b"\xff\xfe\x00", "invalid UTF-8"),
    "invalid UTF-8 in a string": (b'{"id": "\xc3", ' + AT + b"}", "invalid UTF-8"),
    "empty": (b"", "broken JSON: must be one JSON object"),
    "blank": (b"  ", "broken JSON: must be one JSON object"),
    "cut short": (b'{"id": "x", ' + AT, "broken JSON: must be one JSON object"),
    "text": (b"hello", "broken JSON: must be one JSON object"),
    "single quotes": (
        b"{'id': 'x', 'at': '2026-01-01'}",
        "broken JSON: must be one JSON object, with double quotes in place of single ones",
    ),
    "a single-quoted value": (
        b"{\"id\": 'x', " + AT + b"}",
        "broken JSON: must be one JSON object",
    ),
    "a byte order mark": (
        b'\xef\xbb\xbf{"id": "x", ' + AT + b"}",
        "broken JSON: must be one JSON object, without a byte order mark before it",
    ),
    **{
        f"{what}, which RFC 8259 does not have": (
            b'{"id": "x", ' + AT + b', "ratio": ' + value + b"}",
            "broken JSON: must be one JSON object",
        )
        for what, value in {
            "a leading zero": b"01",
            "a leading plus": b"+1",
            "a leading point": b".5",
            "a trailing point": b"5.",
            "a hexadecimal number": b"0x1",
            "a comment": b"1 /* one */",
            "a comment to the end of the line": b"1 // one\n",
            "a comment with #": b"1 # one\n",
            "a trailing comma": b"1,",
            "a name without quotes": b"1, n: 1",
            "a word": b"True",
            "nothing": b"None",
            "undefined": b"undefined",
            "nan": b"nan",
            "INF without a sign": b"INF",
            "+NaN": b"+NaN",
            "a control character in text": b'1, "later": "a\nb"',
            "a tab in text": b'1, "later": "a\tb"',
            "an escape of its own": b'1, "later": "\\x41"',
            "an escaped quote": b'1, "later": "it\\\'s"',
            "a form feed": b"\f1",
            "a no-break space": b"\xc2\xa01",
            "two commas": b'1,, "n": 1',
            "a missing value": b', "n": 1',
        }.items()
    },
    "array": (b'[{"id": "x", ' + AT + b"}]", "broken JSON: must be one JSON object"),
    "empty array": (b"[]", "broken JSON: must be one JSON object"),
    "null": (b"null", "broken JSON: must be one JSON object"),
    "number": (b"7", "broken JSON: must be one JSON object"),
    "string": (b'"x"', "broken JSON: must be one JSON object"),
    **{
        f"{what} after the object": (
            b'{"id": "x", ' + AT + b"}" + after,
            "broken JSON: must be one JSON object, with nothing after it",
        )
        for what, after in {
            "text": b" more",
            "another": b'{"id": "y", ' + AT + b"}",
            "another on a line of its own": b'\n{"id": "y", ' + AT + b"}",
            "a comma and another": b', {"id": "y", ' + AT + b"}",
            "a field": b', "n": 1',
            "a brace": b"}",
            "a bracket": b"]",
            "what closes an array and opens one": b'], [{"id": "y"}',
            "what closes an object and opens a field": b'}, "_": {"id": "y"',
            "a comma": b",",
            "a comment": b"// more",
            "NUL": b"\0",
        }.items()
    },
    "wrong type": (
        b'{"id": "x", "n": "seven", ' + AT + b"}",
        'wrong type: n must be int, got "seven"',
    ),
    "too large for its type": (
        b'{"id": "x", "n": 2147483648, ' + AT + b"}",
        "wrong type: n must be int, got 2147483648",
    ),
    "just too large for a byte": (
        b'{"id": "x", "tiny": 200, ' + AT + b"}",
        "wrong type: tiny must be tinyint, got 200",
    ),
    "just too small for a byte": (
        b'{"id": "x", "tiny": -129, ' + AT + b"}",
        "wrong type: tiny must be tinyint, got -129",
    ),
    "no such day": (
        b'{"id": "x", "d": "2026-02-30", ' + AT + b"}",
        'wrong type: d must be date, got "2026-02-30"',
    ),
    "no time": (b'{"id": "x", "at": "soon"}', 'wrong type: at must be timestamp, got "soon"'),
    **{
        f"{what}, for a {type_}": (
            b'{"id": "x", "%s": %s%s}'
            % (name.encode(), value, b"" if name == "at" else b", " + AT),
            f"wrong type: {name} must be {type_}, got {value.decode()}"
            + (TOO_LATE.format(what) if what.endswith("seconds") and b'"' not in value else ""),
        )
        for name, type_, values in (
            (
                "at",
                "timestamp",
                {
                    "a time of no day": b'"10:00"',
                    "a time of no day with a T": b'"T10:00"',
                    "a time with a zone": b'"1:00-08:00"',
                    "milliseconds": b"1767225600000",
                    "microseconds": b"1767225600000000",
                    "nanoseconds": b"1767225600000000000",
                    "too many for a bigint": b"1767225600000000000000000",
                    "a fraction as text": b'"1767225600.5"',
                    "seconds as text": b'"1767225600"',
                    "compact": b'"20260301"',
                    "a year": b'"2026"',
                    "a word": b'"now"',
                    "a flag": b"true",
                    "an object": b'{"a":1}',
                    "nothing": b'""',
                    "before year 1": b'"0000-12-31T23:59:59Z"',
                    "before year 1 in UTC": b'"0001-01-01T00:00:00+09:00"',
                    "after year 9999": b'"+10000-01-01T00:00:00Z"',
                    "after year 9999 in UTC": b'"9999-12-31T23:59:59-09:00"',
                },
            ),
            (
                "d",
                "date",
                {
                    "compact": b'"20260301"',
                    "a number": b"20260301",
                    "days": b'"1"',
                    "before year 1": b'"0000-12-31"',
                    "after year 9999": b'"+10000-01-01"',
                },
            ),
            (
                "local",
                "timestamp_ntz",
                {
                    "a time of no day": b'"10:00"',
                    "a number": b"1767225600",
                    "before year 1": b'"0000-12-31T23:59:59"',
                    "after year 9999": b'"+10000-01-01T00:00:00"',
                },
            ),
        )
        for what, value in values.items()
    },
    "several": (
        b'{"id": "x", "n": true, "d": "x", ' + AT + b"}",
        'wrong type: n must be int, got true; d must be date, got "x"',
    ),
    "missing required": (b"{" + AT + b"}", "missing field: id"),
    "null required": (b'{"id": null, ' + AT + b"}", "missing field: id"),
    "missing event time": (b'{"id": "x"}', "missing field: at"),
    "empty object": (b"{}", "missing field: id, at"),
}
GOOD = {
    **{
        f"{infinity} beside a text": b'{"id": "x +INF", '
        + AT
        + b', "ratio": '
        + infinity.encode()
        + b"}"
        for infinity in ("Infinity", "-Infinity", "+Infinity", "-INF", "+INF")
    },
    "least": b'{"id": "", ' + AT + b"}",
    "unknown field": b'{"id": "x", "later": [1, {"a": null}], ' + AT + b"}",
    "nulls": b'{"id": "x", "n": null, "d": null, "price": null, "nested": null, ' + AT + b"}",
    "objects within": b'{"id": "x", "nested": {"a": 1}, "later": [{}, {"b": {}}], ' + AT + b"}",
    "NaN beside an object": b'{"id": "x", "nested": {}, "ratio": NaN, ' + AT + b"}",
    "braces within": b'{"id": "}{ \\"}", "later": "}", ' + AT + b"}",
    "seconds": b'{"id": "x", "at": 1767225600}',
    "seconds with a fraction": b'{"id": "x", "at": 1793734899.461}',
    "seconds with an exponent": b'{"id": "x", "at": 1.793734899461e9}',
    "the least byte": b'{"id": "x", "tiny": -128, ' + AT + b"}",
    "the largest byte": b'{"id": "x", "tiny": 127, ' + AT + b"}",
    "first times": (
        b'{"id": "x", "d": "0001-01-01", "local": "0001-01-01T00:00:00",'
        b' "at": "0001-01-01T00:00:00Z"}'
    ),
    "last times": (
        b'{"id": "x", "d": "9999-12-31", "local": "9999-12-31T23:59:59.999999",'
        b' "at": "9999-12-31T23:59:59.999999Z"}'
    ),
    "a day as a time": b'{"id": "x", "at": "2026-01-01"}',
    "a time with a zone": b'{"id": "x", "at": "2026-01-01 09:00:00.5+09:00"}',
    "a time before 1970": b'{"id": "x", "at": "1900-02-28T23:59:59.999999Z"}',
    "seconds before 1970": b'{"id": "x", "at": -1}',
    "not ASCII": '{"id": "日本 \U0001f600", '.encode() + AT + b"}",
    "white space": b' \n{"id": "x",\t' + AT + b"}\n ",
    "as large as allowed": b'{"id": "' + b"x" * (200 - 11 - len(AT) - 1) + b'", ' + AT + b"}",
}

NAMED = Stream(
    "rides",
    "vendor_id int not null from 'VendorID', zone string from 'PU zone', at timestamp from"
    " 'meta.at', fare decimal(6,2) from 'meta.fare', who string from \"meta.it's\", dotted date"
    " from '`a.b`.c?', day date, plain struct<a:int>",
    event_time="at",
)
