"""A rule of an alert never raises, whatever the values are, and means what its author wrote."""

import pytest

from trilayer_core.definitions.rules import parse_rule

pytestmark = pytest.mark.spark

COLUMNS = {
    "card": "string",
    "amount": "double",
    "at": "timestamp",
    "day": "date",
    "local": "timestamp_ntz",
    "tiny": "tinyint",
    "n": "int",
    "big": "bigint",
    "ratio": "float",
    "price": "decimal(10,2)",
    "wide": "decimal(38,18)",
    "whole": "decimal(38,0)",
    "ok": "boolean",
    "raw": "binary",
    "tags": "array<string>",
    "nums": "array<int>",
    "place": "struct<lat:double,lon:double>",
    "words": "map<string,string>",
}
PROFILE = {"card": "string", "n": "bigint", "max_amount": "double", "total": "decimal(38,2)"}

RULES = """
size(last) > 0 AND at <= last[0].at + INTERVAL 10 SECONDS
last[0].amount > amount
last[size(last) - 1].amount < amount
last[n].amount > 1
get(last, n).card = card
element_at(last, n).card = card
element_at(last, -1).card <> card
try_element_at(nums, n) = 1
nums[n] / nums[0] > 1
words['a'] = 'b' OR words[card] = 'b' OR element_at(words, 'a') = 'c'
EXISTS(last, e -> e.amount > 100)
forall(last, e -> e.amount / e.n > 1)
size(filter(last, e -> e.at > at - INTERVAL 1 MINUTE)) >= 2
size(filter(last, (e, i) -> i > 0 AND e.card = card)) = 1
exists(last, e -> exists(e.tags, t -> t = card))
aggregate(last, 0D, (s, e) -> s + e.amount) > 100
aggregate(last, 0, (s, e) -> s + e.n) > 100
aggregate(last, 0L, (s, e) -> s + e.big * 2) > 100
aggregate(last, 1D, (s, e) -> s / e.amount, s -> s * 2) > 1
reduce(last, CAST(0 AS DECIMAL(38, 2)), (s, e) -> CAST(s + e.price AS DECIMAL(38, 2))) > 1
aggregate(last, CAST(NULL AS TIMESTAMP), (s, e) -> greatest(s, e.at + INTERVAL 1 DAY)) > at
aggregate(last, true, (s, e) -> s AND e.ok)
array_max(transform(last, e -> e.n * e.n)) > 4
array_min(transform(last, (e, i) -> e.n + i)) > 4
array_max(transform(last, e -> at - e.at)) > INTERVAL 1 HOUR
array_max(last.amount) < amount
array_min(last.at) < at
array_contains(last.card, card)
array_contains(nums, big) OR array_contains(nums, amount) OR array_contains(nums, wide)
array_contains(last.whole, wide)
array_position(last.card, card) = 1
array_position(nums, n) > 0
size(array_distinct(last.card)) > 1
size(array_compact(last.card)) > 1
size(slice(last, 1, 2)) = 2
size(slice(last, 2, 999999999)) = 2
size(array(n, big, price)) = 3 AND get(array(n, tiny), 1) > 0
array_size(concat(nums, nums)) > 1
cardinality(words) > 0
size(tags) = 1 AND tags[0] = 'x'
last[0].place = place
place <=> last[0].place
place.lat < last[0].place.lat
nums = last[0].nums OR nums < last[0].nums
last[0] IS NULL OR last[0].card IS NOT NULL
amount > 3 * profile.max_amount
profile IS NULL OR profile.n < 10
amount > profile.total
profile.total / profile.n > amount
profile.total + price > wide
n + 1 > big - 1
n * n > n % tiny
n / tiny > big / n
big * big > 0
big + n > big % n
tiny + tiny > tiny * tiny
- n > 0 OR - big > 0 OR - tiny > 0 OR - ratio > 0 OR - amount > 0 OR - price > 0
- - n > -1
n - -1 > -(-2)
mod(n, tiny) = 1 OR try_mod(amount, ratio) > 1
abs(n) > 1 OR abs(big) > 1 OR abs(tiny) > 1
abs(amount) > 1 OR abs(ratio) > 1 OR abs(price) > 1
abs(price - last[0].price) > 1.5
abs(CAST(wide AS DECIMAL(34, 14))) > 1
price * price - price / price > price % 3
wide + wide > wide * wide
whole * wide > whole / wide
whole - wide > wide % whole
wide - whole > whole % wide
amount * wide > ratio - whole
wide = whole OR wide > whole OR wide <=> whole OR wide <> big
whole BETWEEN wide AND price
whole IN (wide, 1, 2.5, big)
coalesce(whole, wide, n) > greatest(wide, whole, big)
CASE WHEN ok THEN whole WHEN n > 0 THEN wide ELSE 1 END > least(whole, price)
if(ok, wide, big) = nullif(whole, wide)
n = 99999999999999999999999999999999999999 OR big < 9223372036854775808
big = -9223372036854775808 OR n = -2147483648 OR n = 2147483648
amount > 1e308 OR amount < -1.5e-300 OR price > .5 OR price > 0.05 OR ratio > 1.5F OR n > 1L
price > 1.50BD OR tiny > 1Y OR n > 1S OR amount > 1D
amount = n OR ratio = big OR amount <=> ratio OR n <> price
amount IN (1, n, ratio, price) OR n IN (NULL, 1)
n NOT IN (1, 2) AND NOT n BETWEEN 1 AND 3
card IN ('a', 'b', last[0].card)
card = 'abc' OR card >= 'b' OR card <> last[0].card
ok = last[0].ok AND NOT ok OR ok IS TRUE OR ok IS NOT FALSE
amount IS DISTINCT FROM last[0].amount AND ok IS NOT NULL
raw = last[0].raw OR raw <=> last[0].raw
card LIKE 'a%' OR card LIKE '%c' OR card LIKE '%b%' OR card LIKE 'a_c' OR card NOT LIKE 'a%c'
card LIKE '%_c%' OR card LIKE ''
CASE card WHEN 'abc' THEN 1 WHEN last[0].card THEN 2 END = 1
CASE WHEN n > 0 THEN 'p' WHEN n < 0 THEN card END = 'p'
coalesce(card, last[0].card, '') = ''
nvl(n, 0) = 0 OR ifnull(amount, 0) = 0 OR nvl2(n, amount, ratio) > 1
nanvl(amount, n) > 1 OR isnan(amount) OR isnan(ratio) OR isnan(n)
isnull(card) OR isnotnull(last[0].at)
nullif(n, 0) = 1 OR nullif(card, '') = 'a' OR nullif(amount, big) > 1
concat(card, '-', last[0].card) = 'a-a' OR card || 'x' = 'abcx'
concat_ws(',', card, tags, last.card) = 'a'
lower(card) = 'abc' OR upper(card) = 'ABC' OR lcase(ucase(card)) = 'abc'
trim(card) = 'abc' OR ltrim(card) = rtrim(card) OR btrim(card) = ''
length(card) > 3 OR char_length(card) > 3
substring(card, n, n) = 'a' OR substr(card, n) = 'a' OR substring(card, 2, 1) = 'b'
left(card, n) = 'a' OR right(card, n) = 'c' OR left(card, n) = 'a' OR right(card, tiny) = 'c'
replace(card, 'a', 'b') = 'bbc' OR replace(card, 'bc') = 'a'
startswith(card, 'a') OR endswith(card, last[0].card) OR contains(card, 'b') OR instr(card, 'c') = 3
sign(n) = 1 OR signum(wide) = 1 OR sign(amount) = -1
round(amount, 2) = 1.5 OR round(ratio, 1) = 1 OR round(n) = 1 OR round(big, 3) = 1
round(price) = 1 OR round(wide, 2) = 1 OR round(whole, 5) = 1 OR round(wide, 38) = 1
round(amount, 38) = 1 OR round(amount) = 2
floor(amount) = 1 OR ceil(amount) = 2 OR ceiling(ratio) = 1 OR floor(ratio) = 1
floor(n) = 1 OR ceil(big) = 1 OR floor(price) = 1 OR ceil(wide) = 1 OR floor(whole) = 1
floor(n / 2) = floor(amount / n)
sqrt(amount) > 1 OR cbrt(n) > 1 OR exp(big) > 1 OR expm1(ratio) > 1
ln(amount) > 1 OR log(amount) > 1 OR log(n, big) > 1 OR log10(wide) > 1
log2(n) > 1 OR log1p(n) > 1
pow(amount, n) > 1 OR power(big, wide) > 1 OR pow(amount, amount) > 1
sin(amount) > 0 OR cos(n) > 0 OR tan(big) > 0 OR asin(amount) > 0 OR acos(n) > 0
atan(ratio) > 0
sinh(amount) > 0 OR cosh(big) > 0 OR tanh(n) > 0 OR asinh(n) > 0 OR acosh(n) > 0
atanh(amount) > 0
atan2(amount, n) > pi() OR radians(amount) > 1 OR degrees(big) > 1 OR hypot(amount, big) > e()
2 * 6371 * asin(sqrt(pow(sin(radians(place.lat - last[0].place.lat) / 2), 2))) > 500
acos(sin(radians(place.lat)) * sin(radians(last[0].place.lat))) * 6371 / n > 900
at > last[0].at OR at = local::timestamp OR day <= last[0].day OR local < last[0].local
at > day OR day = at OR local > day OR at BETWEEN day AND last[0].at
coalesce(at, day) = greatest(day, at) AND CASE WHEN ok THEN day ELSE at END > at
at - last[0].at < INTERVAL 10 MINUTES
day - last[0].day > INTERVAL 1 DAY
at - day > INTERVAL '1' HOUR OR day - at > -INTERVAL 1 HOUR
local - last[0].local > INTERVAL 1 DAY 2 HOURS
at + INTERVAL 292000 YEARS > at OR at - INTERVAL 292000 YEARS < at
INTERVAL 1 DAY + at > at
at + INTERVAL 1 MONTH > last[0].at OR local + INTERVAL 1 MONTH > local
at + 2 * INTERVAL 1 HOUR > at OR at + INTERVAL 1 DAY * n > at OR at - INTERVAL 1 DAY / n > at
at + (at - last[0].at) * amount > at
INTERVAL 1 YEAR + INTERVAL 1 MONTH > INTERVAL 1 MONTH * n
INTERVAL 1 WEEK > INTERVAL '-10' MILLISECONDS
day + n > day OR day - n > day OR 1 + day > day
day + INTERVAL 1 DAY = day + 1 OR day + INTERVAL 1 HOUR > at OR day - INTERVAL 1 MONTH < day
date_add(day, n) > day OR date_sub(day, n) > day OR date_add(day, 1) = day
day + n > at OR day + n = at
datediff(day, last[0].day) > 1 OR datediff(day + n, day - n) > 1 OR date_diff(at, day) = 0
year(at) > 2025 OR month(day) = 1 OR day(local) = 1 OR dayofmonth(at) = 1 OR quarter(at) = 1
dayofweek(at) = 1 OR weekday(day + n) = 0 OR dayofyear(day + n) = 1 OR weekofyear(day - n) = 1
hour(at) = 12 OR minute(local) = 0 OR second(at + INTERVAL 1 SECOND) = 1 OR hour(day::timestamp) = 0
extract(HOUR FROM at) = 12 OR date_part('second', at) > 1.5 OR extract(WEEK FROM day + n) = 1
extract(YEAR FROM day) = 2026 OR extract(DOW FROM at) = 1 OR extract(DOY FROM local) = 1
date_trunc('hour', at) = at OR date_trunc('YEAR', at) < at OR date_trunc('week', at) < at
date_trunc('day', day) = day OR date_trunc('day', day + n) = at OR date_trunc('second', at) = at
date_trunc('month', at - INTERVAL 292000 YEARS) < at
trunc(day, 'month') = day OR trunc(at, 'YEAR') = day OR trunc(day + n, 'week') = day
timestampdiff(SECOND, last[0].at, at) < 5 OR timestampdiff(DAY, day, at) = 0
timestampdiff(YEAR, day + n, at) > 1 OR timestampdiff(MONTH, at, day - n) > 1
timestampdiff(MILLISECOND, at - INTERVAL 292000 YEARS, at + INTERVAL 292000 YEARS) > 1
unix_seconds(at) > 0 OR unix_millis(at) % 2 = 0 OR unix_micros(at) > big OR unix_date(day) > n
to_date(at) = day OR to_date(local) = day OR at::date = day
at > TIMESTAMP'2026-01-01 00:00:00' OR day = DATE'2026-01-31' OR local > TIMESTAMP_NTZ'2026-01-01'
CAST(amount AS INT) = 1 OR amount::bigint = 1 OR amount::tinyint = 1 OR CAST(wide AS INT) = 1
CAST(amount AS DECIMAL(10, 2)) = 1 OR CAST(whole AS DECIMAL(38, 18)) = 1 OR amount::float > 1
CAST(amount AS TIMESTAMP) > at OR big::timestamp > at OR wide::timestamp > at OR n::boolean
CAST(at AS BIGINT) = 1 OR at::int = 1 OR at::double > 1 OR at::string = '' OR day::string = ''
CAST(day + n AS TIMESTAMP) > at OR CAST(day + n AS TIMESTAMP_NTZ) > local OR local::timestamp > at
CAST(ok AS INT) = 1 OR ok::string = 'true' OR CAST(ok AS DECIMAL(1, 0)) = 1 OR raw IS NULL
xxhash64(card, amount, n, at, day, wide, ok, raw) % 2 = 0 OR hash(card, local) > 0
try_add(n, 1) > 1 AND try_subtract(at, last[0].at) > INTERVAL 1 HOUR AND try_divide(n, 0) IS NULL
try_multiply(big, 2) > 1 OR try_cast(card AS INT) > 1
NULL = n OR coalesce(NULL, n) > 1 OR CASE WHEN ok THEN NULL ELSE ok END
true
""".strip().splitlines()

# Spark refuses or fails on each of these as it is written, even with the ordinary rows below.
RAISING = """
last[big].amount > 1
at + INTERVAL 106751991 DAYS > at
CASE WHEN at + INTERVAL 106751991 DAYS > at THEN true ELSE false END
IF(at - INTERVAL 106751991 DAYS < at, true, NULL)
INTERVAL 178956970 YEARS + INTERVAL 1 YEAR > INTERVAL 1 MONTH * n
CAST(card AS INT) = 1 OR card::bigint = 1 OR CAST(card AS DOUBLE) > 1 OR card::float > 1
CAST(card AS DECIMAL(38, 0)) = 1 OR CAST(card AS DECIMAL(38, 38)) > 0 OR card::boolean
CAST(card AS DATE) = day OR CAST(card AS TIMESTAMP) > at OR CAST(card AS TIMESTAMP_NTZ) > local
CAST(ok AS DECIMAL(1, 1)) = 0 OR CAST(ok AS DECIMAL(38, 38)) = 0
INTERVAL 106751991 DAYS * big > INTERVAL 1 DAY
n / 0 > 1 OR big % 0 = 0 OR price / 0 = 1 OR amount / 0 = 1 OR INTERVAL 1 DAY / 0 > INTERVAL 1 DAY
element_at(last, 100).card = card OR element_at(last, 99).card = card
nums[-1] > 1 OR last[0].nums[5] > 1
floor(amount * 1e300) = 1
n * 2147483647 * 4 > 1 OR big * 9223372036854775807 > 1
day + 2147483647 > at
""".strip().splitlines()

# Each column is NULL and has its extremes. Times outside of the years 1 to 9999 do not occur in
# events, but expressions can make them.
ADVERSE = """
    SELECT * FROM VALUES
    (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
     NULL, NULL),
    ('', 0D, TIMESTAMP'0001-01-01 00:00:00', DATE'0001-01-01', TIMESTAMP_NTZ'0001-01-01 00:00:00',
     0, 0, 0, 0, 0, 0, 0, false, X'', array(), array(), NULL, map()),
    ('abc', double('NaN'), timestamp_micros(9223372036854775807), date_from_unix_date(2147483647),
     TIMESTAMP_NTZ'9999-12-31 23:59:59.999999', 127, 2147483647, 9223372036854775807,
     float('NaN'), 99999999.99, 99999999999999999999.999999999999999999BD,
     99999999999999999999999999999999999999BD, true, X'FF', array('abc', NULL), array(0, NULL, 1),
     named_struct('lat', double('NaN'), 'lon', 1e308D), map('a', NULL, 'abc', 'b')),
    ('2026-02-30', double('-Infinity'), timestamp_micros(-9223372036854775808),
     date_from_unix_date(-2147483648), TIMESTAMP_NTZ'0001-01-01 00:00:00', -128, -2147483648,
     -9223372036854775808, float('-Infinity'), -99999999.99,
     -99999999999999999999.999999999999999999BD, -99999999999999999999999999999999999999BD, false,
     NULL, array(NULL), array(NULL), named_struct('lat', NULL, 'lon', -1e308D), map('', '')),
    (repeat('9', 10000), 1e300D, TIMESTAMP'9999-12-31 23:59:59.999999', DATE'9999-12-31',
     TIMESTAMP_NTZ'9999-12-31 23:59:59.999999', 1, 1, 1, 1e38, 0.01, 0.000000000000000001BD, 1,
     true, X'00', array(repeat('x', 10000)), array(2147483647, 1),
     named_struct('lat', 90D, 'lon', 180D), map('a', 'b')),
    ('1e2147483647', double('Infinity'), TIMESTAMP'1970-01-01 00:00:00', DATE'1970-01-01',
     TIMESTAMP_NTZ'1970-01-01 00:00:00', -1, -1, -1, float('Infinity'), -0.01, -1, -1, NULL, X'01',
     NULL, NULL, named_struct('lat', -90D, 'lon', -180D), NULL),
    ('today', -0D, TIMESTAMP'2026-01-31 12:00:00', DATE'2024-02-29',
     TIMESTAMP_NTZ'2026-01-31 12:00:00', 2, 2, 2, -0.0, 1.50, 1.5, 2, true, X'02', array('x', 'x'),
     array(2, 2), named_struct('lat', 0D, 'lon', 0D), map('today', 'x'))"""

BENIGN = """
    SELECT * FROM VALUES
    ('abc', 1.5D, TIMESTAMP'2026-01-31 12:00:00', DATE'2026-01-31',
     TIMESTAMP_NTZ'2026-01-31 12:00:00', 3, 1, 7, 1.5, 1.50, 2.25, 12, true, X'01',
     array('abc', 'x'), array(4, 2), named_struct('lat', 52.5D, 'lon', 13.4D), map('a', 'b')),
    ('a', 120D, TIMESTAMP'2026-01-31 12:00:07', DATE'2026-02-01',
     TIMESTAMP_NTZ'2026-02-01 02:30:00', 1, 1, 100, 0.5, 20.05, 1.000000000000000001, 2, false,
     X'02', array('x'), array(1, 2), named_struct('lat', 48.1D, 'lon', 11.6D), map('a', 'c')),
    ('b', -3.25D, TIMESTAMP'2024-02-29 23:59:59.5', DATE'2024-02-29',
     TIMESTAMP_NTZ'2024-02-29 23:59:59.5', 2, 1, 3, 2.5, 0.01, 99.5, 99, true, X'03', array('b'),
     array(7, 8), named_struct('lat', -33.9D, 'lon', 151.2D), map('b', 'b'))"""


@pytest.fixture(scope="module")
def rows(spark):
    """Makes rows from SQL of events: each event with several `last` and `profile`."""

    def make(events, lasts):
        values = ", ".join(f"CAST({name} AS {type_}) AS {name}" for name, type_ in COLUMNS.items())
        given = f"({events} AS t ({', '.join(COLUMNS)}))"
        event = f"struct({', '.join(COLUMNS)})"
        profile = (
            "struct(card, CAST(big AS BIGINT) AS n, amount AS max_amount,"
            " try_cast(whole AS DECIMAL(38, 2)) AS total)"
        )
        spark.sql(f"SELECT {values} FROM {given}").createOrReplaceTempView("_events")
        made = spark.sql(
            f"""
            WITH every AS (SELECT collect_list({event}) AS es, collect_list({profile}) AS ps
                FROM _events)
            SELECT e.*, l.last, p.profile, IF(rand() < 2, 1, NULL) AS given
            FROM _events e CROSS JOIN (SELECT explode(array({lasts})) AS last FROM every) l
            CROSS JOIN (SELECT explode(array(NULL, ps[0], get(ps, 3))) AS profile FROM every) p"""
        ).localCheckpoint()
        made.createOrReplaceTempView("_rows")
        return made

    return make


def total(rule):
    return parse_rule(rule, COLUMNS, "rule", required="given", last=100, profile=PROFILE)


def parts(rules):
    """What stands on both sides of each OR; Spark would skip what is after one that is true."""
    return [part for rule in rules for part in rule.split(" OR ")]


def batched(rules, size=60):
    """Some rules for one query each. Java compiles a larger query more slowly."""
    return [rules[start : start + size] for start in range(0, len(rules), size)]


def test_no_rule_raises_for_any_values(spark, rows):
    made = rows(ADVERSE, "slice(es, 1, 0), es, reverse(es), slice(es, 2, 1), array(NULL)")
    assert made.count() == 7 * 5 * 3
    for some in batched(parts(RULES + RAISING)):
        selected = ", ".join(f"{total(rule)} AS r{number}" for number, rule in enumerate(some))
        found = spark.sql(f"SELECT {selected} FROM _rows").collect()
        assert {type(value) for row in found for value in row} <= {bool, type(None)}


def test_a_rule_means_what_its_author_wrote(spark, rows):
    rows(BENIGN, "es, slice(es, 2, 2)")
    for some in batched(parts(RULES)):
        same = ", ".join(
            f"count_if(coalesce({rule}, false) <> coalesce({total(rule)}, false)) AS r{number}"
            for number, rule in enumerate(some)
        )
        (row,) = spark.sql(f"SELECT {same} FROM _rows").collect()
        assert [rule for rule, count in zip(some, row, strict=True) if count] == []
