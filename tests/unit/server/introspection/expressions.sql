-- What DuckDB answers, and must answer alike in a statement that mentions PostgreSQL's catalog. One
-- SELECT a line, without that word.
7/2
-7/2
7//2
7::int/2
7::bigint // 2
7%3
2**3
2^3
-2**2
2^3^2
-2^2
5 - -3
1/0
7/0.0
7.0/2
'7'::int/2
(7+1)/3
sum(x)/count(*) from range(3) t(x)
x/2 from range(3) t(x)
'abc' ~ 'b'
'abc' ~ 'a.c'
'abc' !~ 'b'
regexp_matches('abc','b')
'abc' ^@ 'a'
'abc' similar to 'a.c'
'abc' glob 'a*'
'abc' like 'a\_c'
'a_c' like 'a\_c'
'a%c' ilike 'A$%c' escape '$'
[1,2,3][1]
[1,2,3][2:3]
[1,2,3][-1]
[x+1 for x in [1,2,3] if x > 1]
list_transform([1,2], lambda x: x / 2)
{'a': 1, 'b': {'c': 2}}
{'a': 1}.a
map {'a': 1}['a']
map([1],[2])
struct_pack(a := 1)
struct_pack(Ab := 1)
{'Ab': 1}.Ab
Ab from (values (1)) t(Ab)
1 & 3
1 | 2
xor(1, 3)
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
extract(dow from date '2026-01-31')
extract(epoch from timestamp '2026-01-31')
date_trunc('month', date '2026-01-31')
date_part('week', date '2026-01-31')
datediff('day', date '2026-01-01', date '2026-02-01')
date_diff('month', date '2026-01-01', date '2026-02-01')
date_add(date '2026-01-01', interval 1 day)
strftime(timestamp '2026-01-31 10:00:00', '%d/%m/%Y')
strptime('31/01/2026', '%d/%m/%Y')
to_timestamp(0)
epoch_ms(1000)
make_timestamp(2026,1,2,3,4,5)
time_bucket(interval '1 hour', timestamp '2026-01-31 10:20:00')
age(timestamp '2026-01-31', timestamp '2025-01-30')
round(7/2, 1)
round(2.5)
round(-2.5::double)
log(100)
log(2, 8)
log2(8)
ln(2)
mod(7,3)
trunc(7/2)
fdiv(7,2)
divide(7,2)
pow(2,3)
power(2,3)
cbrt(27)
greatest(1,NULL,3)
least('a','b')
least(1,NULL)
substring('abcdef', 2, 3)
substring('abcdef' from 2 for 3)
substr('abcdef', -2)
left('abc', 2)
right('abc', -1)
lpad('a', 3, '-')
position('b' in 'abc')
strpos('abc','c')
instr('abc','c')
trim('  a ')
trim(both 'x' from 'xax')
ltrim('xxa','x')
split_part('a-b', '-', 2)
string_split('a-b', '-')
regexp_replace('aaa','a','b')
regexp_replace('aaa','a','b','g')
regexp_extract('abc','b(.)', 1)
regexp_split_to_array('a b',' ')
translate('abc','ab','xy')
format('{} {}', 1, 'a')
printf('%d %s', 1, 'a')
format('{:.2f}', 1.234)
json_object('a', 1)
'{"a": [1,2]}'::json -> 'a'
'{"a": {"b": 2}}'::json ->> '$.a.b'
json_extract('{"a": 1}', '$.a')
json_extract_string('{"a": "x"}', 'a')
to_json({'a': 1})
md5('a')
hash('a')
sha256('a')
'\x41'::blob
encode('a')
decode('a'::blob)
hex('a')
unhex('41')
base64('a'::blob)
ascii('a')
chr(65)
unicode('a')
'a' = 'A' collate nocase
cast('1' as integer)
try_cast('x' as integer)
'1.5'::decimal(4,2)
1::utinyint
1::ubigint
1::hugeint
1::uhugeint
1.5::float
1.5::real
'a'::char
'abc'::varchar(2)
'abc'::char(2)
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
if(1 > 0, 'a', 'b')
ifnull(null, 1)
nullif(1,1)
coalesce(null, 2)
count(*) filter (where x > 0) from range(3) t(x)
string_agg(x::varchar, ',' order by x desc) from range(3) t(x)
list(x order by x desc) from range(3) t(x)
array_agg(x) from range(3) t(x)
arg_max(x, -x) from range(3) t(x)
max_by(x, x) from range(3) t(x)
approx_count_distinct(x) from range(3) t(x)
median(x) from range(4) t(x)
quantile_cont(x, 0.3) from range(4) t(x)
percentile_cont(0.5) within group (order by x) from range(4) t(x)
stddev(x) from range(4) t(x)
var_pop(x) from range(4) t(x)
bool_and(x > 0) from range(4) t(x)
mode(x % 3) from range(4) t(x)
first(x) from range(1,4) t(x)
any_value(x) from range(1,4) t(x)
histogram(x) from range(4) t(x)
sum(x) over (order by x rows between 1 preceding and current row) from range(4) t(x)
lag(x, 1, 0) over (order by x) from range(4) t(x)
row_number() over () from range(4) t(x)
unnest([1,2,3])
unnest({'a':1,'b':2})
generate_series(1, 3)
range(3)
list_contains([1,2], 1)
array_length([1,2])
len([1,2])
length('abc')
[1,2] @> [1]
list_has_any([1],[1,2])
list_reduce([1,2,3], lambda a, b: a + b)
array_slice([1,2,3], 1, 2)
list_sort([3,1,2])
flatten([[1],[2]])
array_position([1,2], 2)
list_value(1,2)
array_value(1,2)
[1,2]::int[2]
row(1,2)
(1, 2)
(1,2) = (1,2)
columns(*) from range(2) t(x)
* exclude (y) from (values (1,2)) t(x,y)
* replace (x / 2 as x) from (values (1,2)) t(x,y)
x, y from (values (1,2)) t(x,y)
t.x from (values (1,2)) t(x,y)
t from (values (1,2)) t(x,y)
x as a, a / 2 as b from (values (3)) t(x)
exists (select 1)
(select max(x)/2 from range(4) t(x))
x from range(3) t(x) order by x desc limit 1
x from range(5) t(x) where x % 2 = 0
distinct x // 2 from range(4) t(x)
x from range(4) t(x) qualify row_number() over (order by x desc) = 1
typeof(7/2)
typeof(1)
typeof(1.5)
typeof([1])
isnan('nan'::double)
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
now() is not null
current_timestamp is not null
today() is not null
random() is not null
uuid() is not null
starts_with('abc','a')
contains('abc','b')
prefix('abc','a')
suffix('abc','c')
reverse('abc')
repeat('a', 3)
replace('aaa','a','b')
upper('a')
bit_count(3)
even(2.1)
sign(-2)
ceil(1.2)
floor(-1.2)
factorial(3)
gcd(4,6)
pi()
degrees(1)
atan2(1,2)
isfinite(1.0::double)
last_day(date '2026-02-03')
dayname(date '2026-02-03')
monthname(date '2026-02-03')
year(date '2026-02-03')
weekday(date '2026-02-03')
dayofweek(date '2026-02-01')
isodow(date '2026-02-01')
week(date '2026-02-01')
quarter(date '2026-02-01')
epoch(timestamp '2026-02-01')
century(date '2026-02-01')
timestamp '2026-01-31 10:00:00' at time zone 'UTC'
timestamptz '2026-01-31 10:00:00+02' at time zone 'Europe/Paris'
date '2026-01-31' > '2026-01-30'
'2026-01-31'::date::text
date '2026-01-31' - interval '1' day
to_days(3)
to_hours(3)
to_months(14)
bar(2, 0, 10, 10)
levenshtein('a','b')
jaccard('ab','bc')
list_distinct([1,1])
list_aggregate([1,2],'sum')
list_sum([1,2])
list_zip([1],[2])
cardinality(map {'a':1})
map_keys(map {'a':1})
map_from_entries([('a',1)])
map_extract(map {'a':1}, 'a')
element_at(map {'a':1}, 'a')
struct_extract({'a':1}, 'a')
struct_insert({'a':1}, b := 2)
union_value(a := 1)
getvariable('x')
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
x from (values (1),(NULL),(2)) t(x) order by x desc
x from (values (1),(NULL),(2)) t(x) order by x nulls first
range from range(3)
range from range(3) t
coalesce(null, '{}')
null || [1]
age(timestamp '2025-01-30') > interval '1 month'
DATE '2020-01-01'::TIMESTAMP
DATE '2020-01-01' ::TIMESTAMP::VARCHAR
(TIMESTAMP '2020-01-01 12:00:00'::DATE)::VARCHAR
INTERVAL '1 day'::VARCHAR || 'DATE ''2020-01-01''::'
format('%s {}', 'a')
user from (select 'x' as "user") t
a.s.f - b.s.f from (select {'f': 3} as s) a, (select {'f': 1} as s) b
x.s.f from (select {'f': 3} as s) x, (select 1 as f) s
