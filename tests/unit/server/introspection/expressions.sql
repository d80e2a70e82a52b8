-- What means the same to PostgreSQL and to DuckDB, so that it must stay when its tree was written
-- again. One SELECT a line, without that word.
7//2
7::bigint // 2
7%3
2**3
2^3
-2**2
2^3^2
-2^2
5 - -3
7.0/2
sum(x)/count(*) from range(3) t(x)
'abc' ~ 'b'
'abc' ~ 'a.c'
'abc' !~ 'b'
'abc' ^@ 'a'
'abc' glob 'a*'
'abc' like 'a\_c'
'a%c' ilike 'A$%c' escape '$'
[1,2,3][1]
[1,2,3][2:3]
[x+1 for x in [1,2,3] if x > 1]
{'a': 1, 'b': {'c': 2}}
{'a': 1}.a
map {'a': 1}['a']
{'Ab': 1}.Ab
Ab from (values (1)) t(Ab)
1 & 3
1 | 2
~1
1 << 3
8 >> 1
@ -3
5!
'a' || 1
'a' || NULL
[1] || [2]
concat('a', NULL, 'b')
concat_ws(',', 'a', NULL, 'b')
date '2026-01-31' + interval 1 month
date '2026-01-31' + 1
timestamp '2026-01-31 10:00:00' - interval '90 minutes'
date '2026-03-01' - date '2026-02-01'
interval '1 year 2 months 3 days'
interval (2+1) day
to_timestamp(0)
round(2.5)
log(100)
log(2, 8)
ln(2)
pow(2,3)
power(2,3)
substring('abcdef', 2, 3)
substring('abcdef' from 2 for 3)
lpad('a', 3, '-')
regexp_extract('abc','b(.)', 1)
'{"a": [1,2]}'::json -> 'a'
'{"a": {"b": 2}}'::json ->> '$.a.b'
json_extract('{"a": 1}', '$.a')
to_json({'a': 1})
'\x41'::blob
encode('a')
decode('a'::blob)
'a' = 'A' collate nocase
'1.5'::decimal(4,2)
1::utinyint
1::ubigint
1::hugeint
1::uhugeint
1.5::float
1.5::real
'a'::char
'2026-01-01'::timestamptz
'2026-01-01 10:00:00'::timestamp
'10:00:00'::time
'10:00:00+01'::timetz
'c0ffee00-0000-0000-0000-000000000000'::uuid
'101'::bit
[1,2]::bigint[]
[[1],[2]]::int[][]
{'a':1}::struct(a bigint)
'a'::enum('a','b')
1::bool
true and null
1 is distinct from null
1 in (1,2)
1 in [1,2]
1 between 0 and 2
case when 1 > 0 then 'a' else 'b' end
case 1 when 1 then 'x' end
count(*) filter (where x > 0) from range(3) t(x)
quantile_cont(x, 0.3) from range(4) t(x)
percentile_cont(0.5) within group (order by x) from range(4) t(x)
lag(x, 1, 0) over (order by x) from range(4) t(x)
row_number() over () from range(4) t(x)
unnest([1,2,3])
unnest({'a':1,'b':2})
array_length([1,2])
[1,2] @> [1]
list_reduce([1,2,3], lambda a, b: a + b)
[1,2]::int[2]
(1, 2)
(1,2) = (1,2)
* exclude (y) from (values (1,2)) t(x,y)
x, y from (values (1,2)) t(x,y)
t.x from (values (1,2)) t(x,y)
t from (values (1,2)) t(x,y)
exists (select 1)
x from range(3) t(x) order by x desc limit 1
x from range(5) t(x) where x % 2 = 0
distinct x // 2 from range(4) t(x)
x from range(4) t(x) qualify row_number() over (order by x desc) = 1
typeof(1.5)
'inf'::double
1e3
1_000
0x1F
.5
1.
10000000000000000000
'it''s'
$$a b$$
E'a\nb'
"x" from (values (1)) t("x")
current_date is not null
current_timestamp is not null
isfinite(1.0::double)
timestamp '2026-01-31 10:00:00' at time zone 'UTC'
timestamptz '2026-01-31 10:00:00+02' at time zone 'Europe/Paris'
date '2026-01-31' > '2026-01-30'
'2026-01-31'::date::text
date '2026-01-31' - interval '1' day
cardinality(map {'a':1})
x::text from (values (3)) t(x)
not true
1 = 1 and not 2 = 3
1 <> 2
1 != 2
1 == 1
'a' not like 'b'
'a' not in ('b')
null is null
true is true
1 isnull
1 notnull
x from (from range(2) t(x))
a.x from range(3) a(x) join range(2) b(x) using (x)
a.x, b.x from range(3) a(x) left join range(2) b(x) on a.x = b.x
a.x from range(3) a(x) semi join range(2) b(x) on a.x = b.x
a.x from range(3) a(x) anti join range(2) b(x) on a.x = b.x
a.x from range(3) a(x) asof join range(2) b(x) on a.x >= b.x
a.x, b.x from range(3) a(x) positional join range(2) b(x)
x, l.y from range(2) t(x), lateral (select x + 1 as y) l
x, count(*) from range(3) t(x) group by all
x, count(*) from range(3) t(x) group by 1 having count(*) / 2 < 1
x, y, count(*) from (values (1,2)) t(x,y) group by grouping sets ((x), (y), ())
x, y, count(*) from (values (1,2)) t(x,y) group by rollup (x, y)
x, y, count(*) from (values (1,2)) t(x,y) group by cube (x, y)
x from range(3) t(x) union all by name select 1 as x
x from range(3) t(x) except select 1
x from range(3) t(x) intersect select 1
x from range(3) t(x) order by all
x from range(3) t(x) limit 50%
x from range(3) t(x) offset 1
x from (values (1),(NULL),(2)) t(x) order by x
x from (values (1),(NULL),(2)) t(x) order by x nulls first
range from range(3)
range from range(3) t
null || [1]
age(timestamp '2025-01-30') > interval '1 month'
DATE '2020-01-01'::TIMESTAMP
DATE '2020-01-01' ::TIMESTAMP::VARCHAR
(TIMESTAMP '2020-01-01 12:00:00'::DATE)::VARCHAR
INTERVAL '1 day'::VARCHAR || 'DATE ''2020-01-01''::'
user from (select 'x' as "user") t
a.s.f - b.s.f from (select {'f': 3} as s) a, (select {'f': 1} as s) b
x.s.f from (select {'f': 3} as s) x, (select 1 as f) s
map([1],[2])
least(1,NULL)
position('b' in 'abc')
trim(both 'x' from 'xax')
cast('1' as integer)
try_cast('x' as integer)
string_agg(x::varchar, ',' order by x desc) from range(3) t(x)
arg_max(x, -x) from range(3) t(x)
row(1,2)
columns(*) from range(2) t(x)
