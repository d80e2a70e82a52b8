"""Asks Spark for the result type of each function and operator that expressions may use.

`python -m tests.support.spark_types` writes the answers to
`trilayer_core/definitions/spark_types.json`, from which declarations take their types.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from trilayer_core.definitions import spark_types
from trilayer_core.definitions.calls import CALLS
from trilayer_core.definitions.inference import ANY_NUMBER
from trilayer_core.definitions.spark_types import (
    ANY,
    ARGUMENTS,
    CHOSEN,
    INTERVALS,
    MOST,
    is_total_cast,
)
from trilayer_core.runtime.session import _SQL

FILE = Path(spark_types.__file__).with_name("spark_types.json")

NAMES = {
    "text": """ascii base64 bit_length btrim char char_length character_length chr concat concat_ws
        contains decode elt encode endswith find_in_set format_number format_string initcap instr
        lcase left len length levenshtein locate lower lpad ltrim luhn_check mask octet_length
        overlay position printf quote regexp regexp_count regexp_extract regexp_instr regexp_like
        regexp_replace regexp_substr repeat replace reverse right rlike rpad rtrim soundex space
        split_part startswith substr substring substring_index to_char to_varchar translate trim
        ucase unbase64 unhex upper url_decode url_encode try_url_decode parse_url try_parse_url
        is_valid_utf8 make_valid_utf8 validate_utf8 try_validate_utf8 like ilike get_json_object
        json_array_length to_binary try_to_binary""",
    "numbers": """abs acos acosh asin asinh atan atan2 atanh bin bit_count bit_get bround cbrt ceil
        ceiling conv cos cosh cot csc degrees e exp expm1 factorial floor getbit hex hypot isnan ln
        log log10 log1p log2 mod nanvl negative pi pmod positive pow power radians rint round sec
        shiftleft shiftright shiftrightunsigned sign signum sin sinh sqrt tan tanh try_add
        try_divide try_mod try_multiply try_subtract width_bucket""",
    "times": """add_months date_add date_diff date_format date_from_unix_date date_sub
        date_trunc dateadd datediff day dayname dayofmonth dayofweek dayofyear
        from_unixtime from_utc_timestamp hour last_day make_date make_timestamp make_timestamp_ltz
        make_timestamp_ntz minute month monthname months_between next_day quarter second
        timestamp_micros timestamp_millis timestamp_seconds to_date to_timestamp to_timestamp_ltz
        to_timestamp_ntz to_unix_timestamp to_utc_timestamp trunc try_to_date try_to_timestamp
        unix_date unix_micros unix_millis unix_seconds unix_timestamp weekday weekofyear year
        convert_timezone""",
    "others": """crc32 md5 sha sha1 sha2 hash xxhash64 isnull isnotnull typeof nullifzero
        zeroifnull""",
}
"""The functions of scalars, by subject. Those of arrays, structs and maps, and those that choose
one of their arguments, have rules in `trilayer_core.definitions.inference`.
"""

OPERATORS = ("+", "-", "*", "/", "%", "div", "&", "|", "^", "<<", ">>", "||")
COMPARISONS = ("=", "<")
SIGNS = ("-", "~")
PREDICATES = ("LIKE", "ILIKE", "RLIKE")
DATE_PARTS = (
    *("YEAR", "YEAROFWEEK", "QUARTER", "MONTH", "WEEK", "DAY", "DAYOFWEEK", "DAYOFWEEK_ISO"),
    *("DOW", "DOW_ISO", "DOY", "HOUR", "MINUTE", "SECOND"),
)
UNITS = ("MICROSECOND", "SECOND", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")

NOT_OF_ONE_EVENT = ("agg_funcs", "window_funcs", "generator_funcs", "misc_funcs", "table_funcs")
"""Spark's groups of functions that an expression can't use."""

NOT_CALLED = (
    *("and", "between", "case", "cast", "div", "extract", "in", "not", "or", "when"),
    *("window", "session_window", "window_time", "schema_of_variant_agg", "vector_avg"),
)
"""Further names that Spark lists: of operators, windows and aggregates."""

UNREPEATABLE = """rand randn random uuid shuffle now current_timestamp current_date current_time
    localtime localtimestamp curdate sysdate monotonically_increasing_id spark_partition_id
    input_file_name current_user session_user user current_database current_schema current_catalog
    current_timezone version randstr uniform"""
"""Functions that depend on chance, a clock or the session, which would differ between layers."""

ONLY_UNITED = ("timestampadd", "timestampdiff")
"""Calls that always have a unit before two operands."""

LITERALS = {"int literal": "2", "date text": "'2026-01-01'"}
"""A number that some functions need to be constant, and a text that stands for a date."""

CONVERTING = (
    *("extract", "nullifzero", "zeroifnull"),
    *("try_add", "try_divide", "try_mod", "try_multiply", "try_subtract"),
)
"""What converts text to numbers and times where Spark's SQL of the analysed call does not show it.
"""

CONSTANTS = ("e", "pi")
"""The functions that may be without an argument; of others, that would be the time of a clock."""

SEEDS = {
    "make_timestamp": ["int"] * 6,
    "make_timestamp_ltz": ["int"] * 6,
    "make_timestamp_ntz": ["int"] * 6,
    "mask": ["string"] * 4,
    "overlay": ["string", "string", "int", "int"],
    "regexp_replace": ["string", "string", "string", "int literal"],
    "width_bucket": ["double", "double", "double", "int"],
    "regexp_instr": ["string", "string", "int"],
}
"""Types of longer lists of arguments; the others are tried one place at a time."""

_KINDS = {**{kind: kind for kind in ANY}, "decimal": "decimal(10,2)"}
_SQL_OF_INTERVALS = dict(
    zip(INTERVALS, ("'1' DAY", "'1 02:03:04' DAY TO SECOND", "'1-2' YEAR TO MONTH"), strict=True)
)


class Spark:
    """Analyses expressions over one column of each type, without running them.

    Args:
        spark: A session with the settings of the layers.
        columns: Further columns, with their types.
    """

    def __init__(self, spark: SparkSession, columns: Mapping[str, str] | None = None) -> None:
        every = {f"c_{kind}": type_ for kind, type_ in _KINDS.items()} | dict(columns or {})
        selected = [f"CAST(NULL AS {type_}) AS {name}" for name, type_ in every.items()]
        selected += [
            f"INTERVAL {sql} AS c_{kind.replace(' ', '_')}"
            for kind, sql in _SQL_OF_INTERVALS.items()
        ]
        spark.sql(f"SELECT {', '.join(selected)}").createOrReplaceTempView("typed_columns")
        self._state: Any = spark._jsparkSession.sessionState()  # type: ignore[attr-defined]

    def ask(self, expressions: Sequence[str]) -> list[tuple[str, str] | None]:
        """The type of each expression and its SQL with all conversions; None if it is refused."""
        selected = ",\n".join(f"{sql} AS r{n}" for n, sql in enumerate(expressions))
        try:
            parsed = self._state.sqlParser().parsePlan(f"SELECT {selected} FROM typed_columns")
            columns = self._state.analyzer().execute(parsed).projectList()
        except (Py4JError, PySparkException):
            if len(expressions) == 1:
                return [None]
            half = len(expressions) // 2
            return self.ask(expressions[:half]) + self.ask(expressions[half:])
        return [_answer(columns.apply(n)) for n in range(len(expressions))]

    def others(self) -> list[str]:
        """The functions of Spark that compute one value from values, in no particular order."""
        registry = self._state.functionRegistry()
        functions = registry.listFunction()
        infos = (registry.lookupFunction(functions.apply(n)) for n in range(functions.size()))
        groups = {info.get().getName(): info.get().getGroup() for info in infos}
        return [name for name, group in groups.items() if group not in NOT_OF_ONE_EVENT]

    def arities(self, name: str) -> list[int]:
        """The numbers of arguments, up to `MOST`, that a function takes."""
        error = self._error(name, 9)
        named = re.search(r"requires \[?([\d, ]+)\]? parameters", error)
        if name in ("ceil", "ceiling", "floor"):  # Spark's message leaves out the first number
            found = [1, 2]
        elif named:
            found = [int(number) for number in named[1].split(",")]
        else:
            wrong = re.compile("WRONG_NUM_ARGS|REQUIRED_PARAMETER_NOT_FOUND")
            found = [n for n in range(MOST + 1) if not wrong.search(self._error(name, n))]
        return [n for n in found if n <= MOST and (n or name in CONSTANTS)]

    def numbers(self, name: str) -> list[int]:
        """The numbers of arguments, up to 9, that a function takes."""
        wrong = re.compile("WRONG_NUM_ARGS|REQUIRED_PARAMETER_NOT_FOUND")
        return [n for n in range(10) if not wrong.search(self._error(name, n))]

    def _error(self, name: str, arity: int) -> str:
        sql = f"SELECT {name}({', '.join(['c_string'] * arity)}) AS r FROM typed_columns"
        try:
            self._state.analyzer().execute(self._state.sqlParser().parsePlan(sql))
        except (Py4JError, PySparkException) as error:
            return str(error)
        return ""


def _answer(column: Any) -> tuple[str, str] | None:
    try:
        return (column.dataType().catalogString(), column.sql()) if column.resolved() else None
    except (Py4JError, PySparkException):  # of a constant that does not fit
        return None


def argument(kind: str) -> str:
    """The SQL of an argument of a kind."""
    return LITERALS.get(kind) or f"c_{kind.replace(' ', '_')}"


def kind_of(type_: str) -> str:
    """A Spark type without digits, or with the name of the kind of an interval."""
    if type_.startswith("interval"):
        return {"day": "days", "month": "months", "year to month": "months"}.get(
            type_.removeprefix("interval "), "time interval"
        )
    return type_.partition("(")[0]


_CAST = re.compile(r"CAST\(typed_columns\.c_(\w+) AS ([A-Z_]+)")


def is_safe(sql: str) -> bool:
    """Whether no conversion of a column that Spark has added can fail."""
    if re.search(r"CAST\('2026-01-01' AS (?!STRING|DATE|TIMESTAMP)", sql):
        return False
    pairs = ((before, after.lower()) for before, after in _CAST.findall(sql))
    return all(
        before.replace("_", " ") in INTERVALS or is_total_cast(before, after)
        for before, after in pairs
    )


def lists_of_kinds(name: str, arities: Iterable[int]) -> Iterator[tuple[str, ...]]:
    """The lists of arguments with which a function is tried."""
    for arity in arities:
        if arity <= MOST:
            literals = list(LITERALS) if arity < MOST else []
            yield from itertools.product([*ANY, *literals], repeat=arity)
    seed = SEEDS.get(name, [])
    for place, kind in itertools.product(range(len(seed)), ANY):
        yield (*seed[:place], kind, *seed[place + 1 :])


_UNARY = [(kind,) for kind in (*ANY, *INTERVALS)]
_PAIRS = list(itertools.product([*ANY, *INTERVALS], repeat=2))
_PAIRS_OF_TIMES = list(itertools.product([*ANY, "date text"], repeat=2))


def shapes() -> dict[str, tuple[str, list[tuple[str, ...]]]]:
    """A template of SQL for each name in the table, and the lists of arguments to ask about.

    The lists of a function are left out, because Spark decides on their lengths.
    """
    binary = (*OPERATORS, *COMPARISONS, *PREDICATES)
    found = {name: (f"({{}} {name} {{}})", _PAIRS) for name in binary}
    found |= {f"{name} _": (f"({name} {{}})", _UNARY) for name in SIGNS}
    found |= {f"extract {part}": (f"extract({part} FROM {{}})", _UNARY) for part in DATE_PARTS}
    found |= {f"cast {k}": (f"CAST({{}} AS {type_})", _UNARY) for k, type_ in _KINDS.items()}
    for call, unit in itertools.product(("timestampdiff", "timestampadd"), UNITS):
        found[f"{call} {unit}"] = (f"{call}({unit}, {{}}, {{}})", _PAIRS_OF_TIMES)
    found[CHOSEN] = ("coalesce({}, {})", _PAIRS)
    names = (name for subject in NAMES.values() for name in subject.split())
    return found | {name: (f"{name}({{}})", []) for name in names}


def sql_of(template: str, kinds: Sequence[str]) -> str:
    """The SQL of a call or an operator with arguments of some kinds."""
    arguments = [argument(kind) for kind in kinds]
    if template.count("{}") > 1 or len(arguments) == 1:
        return template.format(*arguments)
    return template.format(", ".join(arguments))


def results(spark: Spark, template: str, lists: Sequence[tuple[str, ...]]) -> dict[Any, str]:
    """The kind of the result for each list of arguments that Spark takes without a risk."""
    found: dict[tuple[str, ...], str] = {}
    taken: set[tuple[str, ...]] = set()
    for arity, of_arity in itertools.groupby(lists, len):
        # Where Spark takes two arguments, too, a third one does not change which these are.
        shorter = {kinds for kinds in taken if len(kinds) == arity - 1} if arity == MOST else set()
        asked = [k for k in of_arity if not shorter or k[:-1] in shorter]
        for start in range(0, len(asked), 200):
            some = asked[start : start + 200]
            answers = spark.ask([sql_of(template, kinds) for kinds in some])
            for kinds, answer in zip(some, answers, strict=True):
                if answer is None:
                    continue
                taken.add(kinds)
                kind = kind_of(answer[0]) if "decimal" in kinds else answer[0]
                kind = kind_of(kind) if kind.startswith("interval") else kind
                known = kind in (*ANY, *INTERVALS) or kind.startswith("decimal(")
                hidden = template.startswith(CONVERTING) and {*kinds} & {"string", "date text"}
                if known and not hidden and (template.startswith("CAST") or is_safe(answer[1])):
                    found[kinds] = kind
    return {k: v for k, v in found.items() if not _is_implied(k, v, found)}


def _is_implied(kinds: tuple[str, ...], kind: str, found: Mapping[Any, str]) -> bool:
    """Whether a list with literals says what that with columns says already."""
    columns = tuple({"int literal": "int", "date text": "string"}.get(k, k) for k in kinds)
    return columns != kinds and found.get(columns) == kind


def rows(answers: Mapping[tuple[str, ...], str]) -> list[str]:
    """The answers as lines such as `int|bigint, string -> boolean`."""
    found: list[tuple[tuple[frozenset[str], ...], str]] = [
        (tuple(frozenset([kind]) for kind in kinds), result) for kinds, result in answers.items()
    ]
    for place in range(max((len(kinds) for kinds in answers), default=0)):
        merged: dict[Any, frozenset[str]] = {}
        for kinds, result in found:
            if len(kinds) <= place:
                merged[(kinds, None, (), result)] = frozenset()
                continue
            key = (kinds[:place], place, kinds[place + 1 :], result)
            merged[key] = merged.get(key, frozenset()) | kinds[place]
        found = [
            (before if at is None else (*before, kinds, *after), result)
            for (before, at, after, result), kinds in merged.items()
        ]
    order = [*ANY, *INTERVALS, *LITERALS]
    return sorted(
        f"{', '.join('|'.join(sorted(k, key=order.index)) for k in kinds)} -> {result}"
        for kinds, result in found
    )


def table(spark: Spark) -> dict[str, list[str]]:
    """The whole table."""
    found = {}
    for name, (template, lists) in shapes().items():
        if not lists:
            arities = spark.arities(name)
            lists = list(lists_of_kinds(name, arities[:2] if name in ANY_NUMBER else arities))
        if answers := results(spark, template, lists):
            found[name] = rows(answers)
    return found


def main() -> None:
    """Writes the table."""
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.config(map={**_SQL}).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    asking = Spark(session)
    found = table(asking)
    alike: dict[str, list[str]] = {}
    excluded = {*UNREPEATABLE.split(), *NOT_CALLED, CHOSEN, *ONLY_UNITED}
    names = {*asking.others(), *found, *CALLS} - excluded
    for name in sorted(name for name in names if name.isidentifier() and name.islower()):
        alike.setdefault(" ".join(map(str, asking.numbers(name))), []).append(name)
    found[ARGUMENTS] = [f"{n}: {' '.join(of)}" for n, of in sorted(alike.items())]
    FILE.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    session.stop()


if __name__ == "__main__":
    main()
