-- Statements as tools send them for charts, over the tables sales and visits of conftest.py. Each
-- begins with a comment: the tool, and what the statement is for. A second comment, `refused`, says
-- that ours must be an error, of which it gives a part of the hint.

-- Superset: time series by day with a time filter
SELECT DATE_TRUNC('day', sold_at) AS sold_at, sum(quantity) AS "SUM(quantity)" FROM tables.sales WHERE sold_at >= TO_TIMESTAMP('2024-03-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') AND sold_at < TO_TIMESTAMP('2024-11-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') GROUP BY DATE_TRUNC('day', sold_at) ORDER BY "SUM(quantity)" DESC, sold_at LIMIT 1000

-- Superset: time series on a date column
SELECT DATE_TRUNC('month', day) AS __timestamp, category AS category, COUNT(*) AS count FROM tables.sales WHERE day >= TO_DATE('2024-01-01', 'YYYY-MM-DD') AND day < TO_DATE('2025-01-01', 'YYYY-MM-DD') GROUP BY DATE_TRUNC('month', day), category ORDER BY count DESC, __timestamp, category LIMIT 50000

-- Superset: filter with a date against a timestamp
SELECT count(*) FROM tables.sales WHERE sold_at >= TO_DATE('2024-03-31', 'YYYY-MM-DD')

-- Superset: big number with trend line
SELECT DATE_TRUNC('week', sold_at) AS __timestamp, COUNT(DISTINCT product) AS "COUNT_DISTINCT(product)" FROM tables.sales GROUP BY DATE_TRUNC('week', sold_at) ORDER BY __timestamp ASC NULLS LAST LIMIT 50000

-- Superset: top n in a subquery joined to the series
SELECT DATE_TRUNC('month', sold_at) AS __timestamp, s.product, sum(quantity) AS n FROM tables.sales s JOIN (SELECT product AS product__, sum(quantity) AS mme_inner__ FROM tables.sales GROUP BY product ORDER BY mme_inner__ DESC, product LIMIT 3) AS anon_1 ON s.product = product__ GROUP BY DATE_TRUNC('month', sold_at), s.product ORDER BY 1, 2

-- Superset: rows of a table with a LIKE of any case
SELECT product AS product, price AS price FROM tables.sales WHERE product ILIKE '%ö%' ORDER BY price DESC, product LIMIT 100

-- Superset: histogram
SELECT width_bucket(price, -10, 100, 11) AS bucket, count(*) AS n FROM tables.sales WHERE price IS NOT NULL GROUP BY 1 ORDER BY 1

-- Superset: samples
SELECT * FROM tables.visits ORDER BY visit LIMIT 20

-- Superset: custom metric with a ratio
SELECT category AS category, SUM(CASE WHEN returned THEN 1 ELSE 0 END) * 100 / COUNT(*) AS share FROM tables.sales GROUP BY category ORDER BY category

-- Superset: time grain of a quarter of an hour
SELECT DATE_TRUNC('hour', sold_at) + INTERVAL '15 minutes' * FLOOR(EXTRACT(MINUTE FROM sold_at) / 15) AS t, count(*) AS n FROM tables.sales GROUP BY 1 ORDER BY 1

-- Superset: time grain in seconds
SELECT DATE_TRUNC('minute', sold_at) + INTERVAL '30 seconds' * FLOOR(EXTRACT(SECOND FROM sold_at) / 30) AS t, max(quantity) FROM tables.sales GROUP BY 1 ORDER BY 1

-- Superset: week that ends on Saturday
SELECT DATE_TRUNC('week', sold_at + interval '1 day') + interval '5 days' AS w, count(*) AS n FROM tables.sales GROUP BY 1 ORDER BY 1

-- Superset: row count
SELECT COUNT(*) AS rowcount FROM (SELECT product AS product FROM tables.sales GROUP BY product) AS rowcount_qry

-- Superset: range of times
SELECT min(sold_at), max(sold_at) FROM tables.sales

-- Metabase: count by month
SELECT CAST(DATE_TRUNC('month', "tables"."sales"."sold_at") AS timestamp) AS "sold_at", COUNT(*) AS "count" FROM "tables"."sales" GROUP BY CAST(DATE_TRUNC('month', "tables"."sales"."sold_at") AS timestamp) ORDER BY CAST(DATE_TRUNC('month', "tables"."sales"."sold_at") AS timestamp) ASC

-- Metabase: month of a date
SELECT CAST(DATE_TRUNC('month', "tables"."sales"."day") AS date) AS "day", SUM("tables"."sales"."quantity") AS "sum" FROM "tables"."sales" GROUP BY CAST(DATE_TRUNC('month', "tables"."sales"."day") AS date) ORDER BY 1 ASC

-- Metabase: rows of a table
SELECT "tables"."sales"."id" AS "id", "tables"."sales"."product" AS "product", "tables"."sales"."price" AS "price", "tables"."sales"."sold_at" AS "sold_at" FROM "tables"."sales" ORDER BY "tables"."sales"."id" LIMIT 2000

-- Metabase: weeks that begin on Sunday
SELECT CAST((CAST(DATE_TRUNC('week', (CAST("tables"."sales"."sold_at" AS timestamp) + INTERVAL '1 day')) AS timestamp) + INTERVAL '-1 day') AS date) AS "w", COUNT(*) AS "count" FROM "tables"."sales" GROUP BY 1 ORDER BY 1 ASC

-- Metabase: hour of the day
SELECT CAST(EXTRACT(hour FROM "sold_at") AS integer) AS "hour", COUNT(*) AS "count" FROM "tables"."sales" GROUP BY CAST(EXTRACT(hour FROM "sold_at") AS integer) ORDER BY 1

-- Metabase: day of the week
SELECT (CAST(extract(dow from "tables"."sales"."sold_at") AS integer) + 1) AS "sold_at", COUNT(*) AS "count" FROM "tables"."sales" GROUP BY (CAST(extract(dow from "tables"."sales"."sold_at") AS integer) + 1) ORDER BY (CAST(extract(dow from "tables"."sales"."sold_at") AS integer) + 1) ASC

-- Metabase: bins of a number
SELECT ((FLOOR((("tables"."sales"."price" - -20.0) / 12.5)) * 12.5) + -20.0) AS "price", COUNT(*) AS "count" FROM "tables"."sales" GROUP BY ((FLOOR((("tables"."sales"."price" - -20.0) / 12.5)) * 12.5) + -20.0) ORDER BY 1 ASC

-- Metabase: the last thirty days
SELECT COUNT(*) AS "count" FROM "tables"."sales" WHERE ("sold_at" >= DATE_TRUNC('day', (NOW() + INTERVAL '-30 day'))) AND ("sold_at" < DATE_TRUNC('day', NOW()))

-- Metabase: regexextract
SELECT SUBSTRING("product" FROM '([a-z]+)') AS "word", COUNT(*) AS "count" FROM "tables"."sales" GROUP BY 1 ORDER BY 1

-- Metabase: custom ratio
SELECT "category", CAST(SUM(CASE WHEN "returned" = TRUE THEN 1 ELSE 0.0 END) AS double precision) / NULLIF(CAST(COUNT(*) AS double precision), 0.0) AS "share" FROM "tables"."sales" GROUP BY "category" ORDER BY "category" ASC

-- Metabase: contains, case insensitive
SELECT COUNT(*) AS "count" FROM "tables"."sales" WHERE (LOWER("category") LIKE '%oo%')

-- Metabase: starts with an underscore
SELECT COUNT(*) AS "count" FROM "tables"."sales" WHERE ("note" LIKE '\_%')

-- Metabase: distinct and median
SELECT COUNT(DISTINCT "product") AS "count", PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY "cost") AS "median", STDDEV_SAMP("cost") AS "stddev" FROM "tables"."sales"

-- Metabase: cumulative count
SELECT CAST(DATE_TRUNC('month', "sold_at") AS timestamp) AS "m", SUM(COUNT(*)) OVER (ORDER BY CAST(DATE_TRUNC('month', "sold_at") AS timestamp) ASC ROWS UNBOUNDED PRECEDING) AS "count" FROM "tables"."sales" GROUP BY CAST(DATE_TRUNC('month', "sold_at") AS timestamp) ORDER BY 1

-- Metabase: join of a question
SELECT "s"."category" AS "category", "v"."country" AS "country", COUNT(*) AS "count" FROM "tables"."sales" AS "s" LEFT JOIN "tables"."visits" AS "v" ON "s"."product" = "v"."product" GROUP BY "s"."category", "v"."country" ORDER BY "count" DESC, "s"."category" ASC, "v"."country" ASC

-- Metabase: values of a filter
SELECT "tables"."sales"."product" AS "product" FROM "tables"."sales" GROUP BY "tables"."sales"."product" ORDER BY "tables"."sales"."product" ASC LIMIT 1000

-- Metabase: coalesce and case
SELECT COALESCE("note", 'none') AS "n", CASE WHEN "price" > 50 THEN 'high' WHEN "price" > 10 THEN 'middle' ELSE 'low' END AS "level", COUNT(*) AS "count" FROM "tables"."sales" GROUP BY 1, 2 ORDER BY 1, 2

-- Metabase: conversion to a report zone
SELECT DATE_TRUNC('day', timezone('Europe/Berlin', CAST("sold_at" AS timestamptz))) AS "d", COUNT(*) AS "count" FROM "tables"."sales" GROUP BY 1 ORDER BY 1

-- Grafana: $__timeGroup
SELECT floor(extract(epoch from sold_at)/86400)*86400 AS "time", sum(quantity) AS value FROM tables.sales WHERE sold_at BETWEEN '2024-01-01T00:00:00Z' AND '2024-12-31T00:00:00Z' GROUP BY 1 ORDER BY 1

-- Grafana: $__timeGroupAlias with a metric
SELECT floor(extract(epoch from sold_at)/3600)*3600 AS "time", category AS metric, avg(cost) AS cost FROM tables.sales GROUP BY time, 2 ORDER BY 1, 2

-- Grafana: epoch as bigint
SELECT (extract(epoch from sold_at)::bigint/86400)*86400 AS time, count(*) AS n FROM tables.sales GROUP BY 1 ORDER BY 1

-- Grafana: day in a zone
SELECT date_trunc('day', sold_at, 'Europe/Berlin') AS time, count(*) FROM tables.sales GROUP BY 1 ORDER BY 1

-- Grafana: days in another zone, of a date
SELECT date_trunc('month', day, 'America/New_York') AS time, count(*) FROM tables.sales GROUP BY 1 ORDER BY 1

-- Grafana: at time zone
SELECT date_trunc('day', sold_at AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin') AS time, count(*) FROM tables.sales GROUP BY 1 ORDER BY 1

-- Grafana: table panel with to_char
SELECT to_char(sold_at, 'YYYY-MM-DD HH24:MI') AS minute, product FROM tables.sales WHERE sold_at IS NOT NULL ORDER BY sold_at, id

-- Grafana: variable of a dashboard
SELECT DISTINCT country AS __value, upper(country) AS __text FROM tables.visits ORDER BY 1

-- Grafana: $__unixEpochGroup
SELECT floor((extract(epoch from sold_at))/300)*300 AS "time", count(id) AS "count" FROM tables.sales WHERE extract(epoch from sold_at) >= 1704067200 GROUP BY 1 ORDER BY 1

-- Grafana: gaps filled by generate_series
SELECT d AS time, count(s.id) AS n FROM generate_series('2024-03-29'::timestamp, '2024-04-02'::timestamp, '1 day'::interval) d LEFT JOIN tables.sales s ON date_trunc('day', s.sold_at) = d GROUP BY d ORDER BY d

-- Grafana: date_bin
SELECT date_bin('15 minutes', sold_at::timestamp, TIMESTAMP '2001-01-01') AS time, count(*) FROM tables.sales GROUP BY 1 ORDER BY 1

-- Grafana: last value of each
SELECT DISTINCT ON (product) product, sold_at AS time, price FROM tables.sales WHERE sold_at IS NOT NULL ORDER BY product, sold_at DESC, id

-- Grafana: now and an interval
SELECT count(*) FROM tables.sales WHERE sold_at > now() - interval '5 years' AND sold_at < now() - '1 hour'::interval

-- Grafana: rate of change
SELECT sold_at AS time, quantity - lag(quantity) OVER (ORDER BY sold_at, id) AS delta FROM tables.sales WHERE sold_at IS NOT NULL ORDER BY sold_at, id

-- Looker: count by month as text
SELECT (TO_CHAR(DATE_TRUNC('month', sales.sold_at ), 'YYYY-MM')) AS "sales.sold_month", COUNT(*) AS "sales.count" FROM tables.sales AS sales GROUP BY (DATE_TRUNC('month', sales.sold_at )) ORDER BY 1 DESC LIMIT 500

-- Looker: days
SELECT (DATE(sales.sold_at )) AS "sales.sold_date", COALESCE(SUM(sales.price ), 0) AS "sales.total_price" FROM tables.sales AS sales GROUP BY 1 ORDER BY 1 DESC LIMIT 500

-- Looker: filter on a range of days
SELECT COUNT(*) AS "sales.count" FROM tables.sales AS sales WHERE ((( sales.sold_at ) >= ((SELECT TIMESTAMP '2024-01-01')) AND ( sales.sold_at ) < ((SELECT (TIMESTAMP '2024-01-01' + (12 || ' month')::INTERVAL)))))

-- Looker: the name of the day
SELECT TO_CHAR(sales.sold_at , 'Day') AS "sales.day_of_week", MOD(EXTRACT(DOW FROM sales.sold_at )::integer - 1 + 7, 7) AS "sales.day_of_week_index", COUNT(*) AS "sales.count" FROM tables.sales AS sales GROUP BY 1, 2 ORDER BY 2

-- Looker: quarter
SELECT (TO_CHAR(DATE_TRUNC('quarter', sales.sold_at ), 'YYYY-MM')) AS q, AVG(sales.cost ) AS a FROM tables.sales AS sales GROUP BY 1 ORDER BY 1

-- Looker: average of a ratio
SELECT sales.category AS "sales.category", 1.0 * SUM(sales.quantity ) / NULLIF(COUNT(*),0) AS "sales.ratio" FROM tables.sales AS sales GROUP BY 1 ORDER BY 2 DESC NULLS LAST, 1 LIMIT 500

-- Looker: yes and no
SELECT CASE WHEN sales.returned THEN 'Yes' ELSE 'No' END AS "sales.returned", COUNT(DISTINCT sales.product ) AS n FROM tables.sales AS sales GROUP BY 1 ORDER BY 1

-- Looker: tiers
SELECT CASE WHEN sales.price < 0 THEN '0' WHEN sales.price >= 0 AND sales.price < 20 THEN '1' WHEN sales.price >= 20 THEN '2' ELSE '9' END AS tier, COUNT(*) AS n FROM tables.sales AS sales GROUP BY 1 ORDER BY 1

-- Looker: hour of the day
SELECT (CAST(EXTRACT(HOUR FROM CAST(sales.sold_at AS TIMESTAMP)) AS INT)) AS h, COUNT(*) AS n FROM tables.sales AS sales GROUP BY 1 ORDER BY 1

-- Looker: seconds
SELECT TO_CHAR(sales.sold_at , 'YYYY-MM-DD HH24:MI:SS') AS t, sales.id FROM tables.sales AS sales ORDER BY 2 LIMIT 50

-- Looker: pivot with ranks
SELECT * FROM (SELECT *, DENSE_RANK() OVER (ORDER BY z___min_rank) as z___pivot_row_rank, RANK() OVER (PARTITION BY z__pivot_col_rank ORDER BY z___min_rank) as z__pivot_col_ordering FROM (SELECT *, MIN(z___rank) OVER (PARTITION BY "category") as z___min_rank FROM (SELECT *, RANK() OVER (ORDER BY "category" ASC, z__pivot_col_rank) AS z___rank FROM (SELECT *, DENSE_RANK() OVER (ORDER BY "returned" NULLS LAST) AS z__pivot_col_rank FROM (SELECT category AS "category", returned AS "returned", COUNT(*) AS "n" FROM tables.sales GROUP BY 1, 2) ww) bb) aa) xx) zz ORDER BY z___pivot_row_rank, z__pivot_col_rank

-- Tableau: sum by a dimension
SELECT "sales"."category" AS "category", SUM("sales"."price") AS "sum:price:ok" FROM "tables"."sales" "sales" GROUP BY 1

-- Tableau: with three parts of a name
SELECT "sales"."product" AS "product", COUNT(1) AS "cnt" FROM "trilayer"."tables"."sales" "sales" GROUP BY "sales"."product" ORDER BY 1

-- Tableau: month of a time
SELECT DATE_TRUNC( 'MONTH', CAST("sales"."sold_at" AS TIMESTAMP) ) AS "tmn:sold_at:ok", SUM("sales"."quantity") AS "sum:quantity:ok" FROM "tables"."sales" "sales" GROUP BY 1 ORDER BY 1

-- Tableau: year and quarter
SELECT CAST(TRUNC(EXTRACT(YEAR FROM "sales"."sold_at")) AS INTEGER) AS "yr:sold_at:ok", CAST(TRUNC(EXTRACT(QUARTER FROM "sales"."sold_at")) AS INTEGER) AS "qr:sold_at:ok", COUNT(*) AS n FROM "tables"."sales" "sales" GROUP BY 1, 2 ORDER BY 1, 2

-- Tableau: datename
SELECT RTRIM(TO_CHAR("sales"."sold_at",'Month')) AS "m", COUNT(1) AS n FROM "tables"."sales" "sales" GROUP BY 1 ORDER BY 1

-- Tableau: a calculated field as text
SELECT CAST("sales"."quantity" AS TEXT) AS a, CAST("sales"."price" AS TEXT) AS b, CAST("sales"."cost" AS TEXT) AS c, CAST("sales"."day" AS TEXT) AS d, CAST("sales"."sold_at" AS TEXT) AS e, CAST("sales"."returned" AS TEXT) AS f FROM "tables"."sales" "sales" ORDER BY "sales"."id"

-- Tableau: a filter on several values
SELECT "sales"."product" AS "product", AVG(CAST("sales"."price" AS DOUBLE PRECISION)) AS "avg:price:ok" FROM "tables"."sales" "sales" WHERE ("sales"."category" IN ('food', 'tools')) GROUP BY 1 HAVING (COUNT(1) > 1) ORDER BY 1

-- Tableau: domain of a quick filter
SELECT "sales"."category" AS "category" FROM "tables"."sales" "sales" GROUP BY 1 ORDER BY 1 ASC NULLS FIRST

-- Tableau: top in a join
SELECT "sales"."product" AS "product", SUM("sales"."price") AS s FROM "tables"."sales" "sales" INNER JOIN (SELECT "sales"."product" AS "product", SUM("sales"."price") AS "$__alias__0" FROM "tables"."sales" "sales" WHERE NOT ("sales"."price" IS NULL) GROUP BY 1 ORDER BY 2 DESC, 1 ASC LIMIT 2) "t0" ON ("sales"."product" = "t0"."product") GROUP BY 1 ORDER BY 1

-- Tableau: the first letters
SELECT LEFT("sales"."product", 3) AS l, RIGHT("sales"."product", 2) AS r, STRPOS("sales"."product", 'a') AS p, LENGTH("sales"."product") AS n FROM "tables"."sales" "sales" ORDER BY "sales"."id"

-- Tableau: date parts
SELECT DATE_PART('year', "sold_at") AS y, DATE_PART('doy', "sold_at") AS d, DATE_PART('week', "sold_at") AS w, DATE_PART('epoch', "sold_at") AS e FROM "tables"."sales" ORDER BY "id"

-- Tableau: days between
SELECT CAST("sold_at" AS DATE) - CAST("day" AS DATE) AS "days" FROM "tables"."sales" ORDER BY "id"

-- Tableau: empty
SELECT * FROM "tables"."sales" LIMIT 0

-- Tableau: level of detail
SELECT "t0"."category" AS "category", AVG("t0"."x") AS a FROM (SELECT "category", "product", MAX("price") AS x FROM "tables"."sales" GROUP BY 1, 2) "t0" GROUP BY 1 ORDER BY 1

-- Power BI: folded filter
select "_"."id", "_"."product", "_"."price" from "tables"."sales" "_" where "_"."category" = 'food' order by "_"."id"

-- Power BI: grouped rows
select "rows"."category" as "category", sum("rows"."quantity") as "n", count(1) as "c" from (select "_"."category", "_"."quantity" from "tables"."sales" "_") "rows" group by "category" order by "category"

-- Power BI: direct query with a limit
select "c1" as "c1", "a0" as "a0" from (select "t0"."product" as "c1", sum(cast("t0"."price" as decimal(18,4))) as "a0" from (select "$Table"."product" as "product", "$Table"."price" as "price" from "tables"."sales" "$Table") "t0" group by "t0"."product") "MainTable" where not "a0" is null order by "a0" desc, "c1" limit 1001

-- Power BI: parts of a date
select "_"."day" as "day", date_part('year', "_"."day") as "Year", date_part('month', "_"."day") as "Month", count(*) as "Count" from "tables"."sales" "_" group by 1, 2, 3 order by 1

-- Power BI: a range of times
select count(*) as "$Item" from "tables"."sales" "_" where "_"."sold_at" >= timestamp '2024-03-31 00:00:00' and "_"."sold_at" < timestamp '2024-04-01 00:00:00' and "_"."sold_at" is not null

-- Power BI: text functions
select upper("category") as u, substring("product", 1, 3) as s, replace("product", 'a', 'A') as r, trim("note") as t, "product" || '-' || "category" as j from "tables"."sales" order by "id"

-- Power BI: distinct
select distinct "category", "returned" from "tables"."sales" order by 1, 2

-- Cube: a measure by day in a zone
SELECT date_trunc('day', ("sales".sold_at::timestamptz AT TIME ZONE 'UTC')) "sales__sold_at_day", count(*) "sales__count" FROM tables.sales AS "sales" WHERE ("sales".sold_at >= '2024-01-01T00:00:00.000Z'::timestamptz AND "sales".sold_at <= '2024-12-31T23:59:59.999Z'::timestamptz) GROUP BY 1 ORDER BY 1 ASC LIMIT 10000

-- Cube: a measure by a dimension
SELECT "sales".category "sales__category", sum("sales".price) "sales__price", count(distinct "sales".product) "sales__products" FROM tables.sales AS "sales" GROUP BY 1 ORDER BY 2 DESC NULLS LAST, 1 LIMIT 10000

-- Cube: rolling window
SELECT q_0."d", (SELECT sum(quantity) FROM tables.sales s WHERE s.day > q_0.d - interval '30 day' AND s.day <= q_0.d) AS r FROM (SELECT DISTINCT day AS d FROM tables.sales WHERE day IS NOT NULL) AS q_0 ORDER BY 1

-- Cube: series of dates
SELECT date_from::timestamp AS "date_from", date_from::timestamp + interval '1 month' AS "date_to" FROM generate_series('2024-01-01'::timestamp, '2024-06-01', '1 month') AS date_from ORDER BY 1

-- Cube: values of a time dimension
SELECT series.date_from AS d, count(s.id) AS c FROM (VALUES ('2024-03-30T00:00:00.000'::timestamp, '2024-03-30T23:59:59.999'::timestamp), ('2024-03-31T00:00:00.000'::timestamp, '2024-03-31T23:59:59.999'::timestamp)) AS series (date_from, date_to) LEFT JOIN tables.sales s ON s.sold_at >= series.date_from AND s.sold_at <= series.date_to GROUP BY 1 ORDER BY 1

-- Cube: filter that contains
SELECT count(*) "c" FROM tables.sales AS "sales" WHERE "sales".product ILIKE '%' || 'E' || '%'

-- Cube: approximate number of seconds
SELECT max(extract(epoch from "sales".sold_at)) AS m FROM tables.sales AS "sales"

-- Redash: hand-written daily count
SELECT sold_at::date AS day, count(*) FROM tables.sales GROUP BY 1 ORDER BY 1

-- Redash: shares by a window
SELECT category, count(*) AS n, round(100.0 * count(*) / sum(count(*)) OVER (), 2) AS pct FROM tables.sales GROUP BY category ORDER BY n DESC, category

-- Redash: pivot by filters
SELECT category, count(*) FILTER (WHERE returned) AS returned, count(*) FILTER (WHERE NOT returned) AS kept, sum(price) FILTER (WHERE price > 0) FROM tables.sales GROUP BY 1 ORDER BY 1

-- Redash: cohorts
WITH first AS (SELECT product, min(date_trunc('month', sold_at)) AS m FROM tables.sales GROUP BY 1) SELECT first.m, count(*) FROM first GROUP BY 1 ORDER BY 1

-- Redash: percentiles
SELECT category, percentile_cont(0.95) WITHIN GROUP (ORDER BY cost) AS p95, percentile_disc(0.5) WITHIN GROUP (ORDER BY quantity) AS p50, mode() WITHIN GROUP (ORDER BY product) AS usual FROM tables.sales GROUP BY 1 ORDER BY 1

-- Redash: integer division
SELECT quantity / 2 AS half, -7 / 2 AS minus, quantity % 3 AS rest, 7 / 2.0 AS exact FROM tables.sales ORDER BY id

-- Redash: counts divided by counts
SELECT count(*) FILTER (WHERE returned) / count(*) AS zero, count(*) / 7 FROM tables.sales

-- Redash: sum divided by count
SELECT category, sum(quantity) / count(*) AS mean, avg(quantity) FROM tables.sales GROUP BY 1 ORDER BY 1

-- Redash: rounding as numeric
SELECT product, round(avg(cost)::numeric, 2) AS r, round(sum(price) / 3, 1) AS s FROM tables.sales GROUP BY 1 ORDER BY 1

-- Redash: lists of values
SELECT category, string_agg(DISTINCT product, ', ' ORDER BY product) AS products, array_agg(id ORDER BY id) AS ids FROM tables.sales GROUP BY 1 ORDER BY 1

-- Redash: names of unnamed columns
SELECT count(*), count(id), sum(quantity), avg(cost), min(day), max(day), 1, 'a', quantity + 1, price::text, coalesce(note, ''), CASE WHEN returned THEN 1 END, nullif(quantity, 0), now() IS NULL, upper(product), extract(year from day), day::timestamp, (SELECT max(id) FROM tables.sales), EXISTS (SELECT 1), ARRAY[1, 2], true, -quantity, greatest(quantity, 1), date_part('day', day), day - 1, CASE WHEN returned THEN id ELSE quantity END, NOT returned, product LIKE 'a', trim(product), position('a' in product), row_number() OVER (ORDER BY id) FROM tables.sales GROUP BY id, quantity, price, note, returned, product, day ORDER BY id LIMIT 3

-- Redash: names in capitals without quotes
SELECT Category AS Kind, COUNT(*) AS Number_Of, "category" AS "As Written" FROM tables.Sales GROUP BY Category ORDER BY Kind

-- Redash: names from a subquery
SELECT count, max FROM (SELECT count(*), max(quantity) FROM tables.sales) s

-- Redash: NULL comes first if it is descending
SELECT id, price FROM tables.sales ORDER BY price DESC, id LIMIT 5

-- Redash: NULL comes last if it is ascending
SELECT id, price FROM tables.sales ORDER BY price, id DESC

-- Redash: NULL in windows
SELECT id, rank() OVER (ORDER BY price DESC) AS r, first_value(price) OVER (PARTITION BY category ORDER BY price DESC, id) AS f FROM tables.sales ORDER BY id

-- Redash: similar to
SELECT product FROM tables.sales WHERE product SIMILAR TO '%(pp|ha)%' ORDER BY id

-- Redash: regular expressions
SELECT product ~ '^a' AS a, product ~* '^A' AS b, product !~ 'e$' AS c, regexp_replace(product, '[aeiou]', '_', 'g') AS d, (regexp_match(product, '([a-z])([a-z])'))[2] AS e, regexp_count(product, 'p') AS f FROM tables.sales ORDER BY id

-- Redash: rows to json
SELECT json_agg(product ORDER BY id) AS j FROM tables.sales WHERE id < 5

-- Redash: json of parts
SELECT json_build_object('p', product, 'q', quantity) AS o, json_build_array(id, product) AS a FROM tables.sales ORDER BY id

-- Redash: paths in json
SELECT note_json::json -> 'tags' ->> 0 AS first, note_json::json ->> 'size' AS size, note_json::json #>> '{tags,1}' AS second, note_json::json -> 'tags' -> 0 AS quoted, json_array_length(note_json::json -> 'tags') AS n FROM tables.sales WHERE note_json IS NOT NULL ORDER BY id

-- Redash: paths in jsonb, compared
SELECT id FROM tables.sales WHERE (note_json::jsonb ->> 'size')::int > 1 AND note_json::jsonb #>> '{tags,0}' = 'new' ORDER BY id

-- Redash: elements of json
SELECT id, t.value FROM tables.sales, json_array_elements_text(note_json::json -> 'tags') AS t(value) WHERE note_json IS NOT NULL ORDER BY 1, 2

-- Redash: unnest of two arrays
SELECT k, o FROM unnest(ARRAY[1, 2, 3], ARRAY['a', 'b']) AS x(k, o) ORDER BY k

-- Redash: unnest with ordinality
SELECT * FROM unnest(ARRAY['a', 'b']) WITH ORDINALITY AS t(v, n) ORDER BY n

-- Redash: values
SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v ORDER BY 1

-- Redash: series of numbers
SELECT generate_series(1, 3) AS n

-- Redash: lateral
SELECT s.product, l.seconds FROM (SELECT DISTINCT product FROM tables.sales) s CROSS JOIN LATERAL (SELECT v.seconds FROM tables.visits v WHERE v.product = s.product ORDER BY v.seconds DESC NULLS LAST, v.visit LIMIT 1) l ORDER BY 1

-- Redash: grouping sets
SELECT category, returned, count(*), grouping(category) AS g FROM tables.sales GROUP BY GROUPING SETS ((category, returned), (category), ()) ORDER BY g, category, returned, 3

-- Redash: rollup
SELECT category, sum(quantity) FROM tables.sales GROUP BY ROLLUP (category) ORDER BY category NULLS LAST, 2

-- Redash: number templates
SELECT id, to_char(price, 'FM999,990.00') AS a, to_char(price, '999D9') AS b, to_char(quantity, '000') AS c, to_char(quantity, 'FM9999') AS d, to_char(cost, 'FM999990.0') AS e, to_char(quantity * 1000, '999,999') AS f, to_char(price, '$999.99') AS g FROM tables.sales ORDER BY id

-- Redash: date templates
SELECT to_char(sold_at, 'YYYY"W"IW') AS a, to_char(sold_at, 'Mon DD, YYYY') AS b, to_char(sold_at, 'HH12:MI AM') AS c, to_char(sold_at, 'FMMonth FMDD') AS d, to_char(sold_at, 'Q') AS e, to_char(sold_at, 'YY-MM') AS f, to_char(sold_at, 'D ID DDD') AS g, to_char(sold_at, 'MON dy DAY') AS h, to_char(day, 'DD.MM.YYYY') AS i, to_char(sold_at, 'SS.MS US') AS j, to_char(sold_at, 'IYYY-IW') AS k, to_char(sold_at, 'WW W') AS l FROM tables.sales ORDER BY id

-- Redash: intervals
SELECT sold_at + interval '1 month' AS a, sold_at - day::timestamp AS b, extract(epoch from (sold_at - day::timestamp)) AS c, '90 minutes'::interval AS d, interval '1 day' * 2 AS e, sold_at::date + 7 AS f FROM tables.sales WHERE sold_at IS NOT NULL ORDER BY id

-- Redash: to_char of an interval
SELECT to_char(interval '1 hour 2 minutes', 'HH24:MI:SS')

-- Redash: last day of the month
SELECT (date_trunc('month', day) + interval '1 month - 1 day')::date AS last FROM tables.sales ORDER BY id

-- Redash: arrays
SELECT (ARRAY[1, 2, 3])[2] AS a, array_length(ARRAY[1, 2], 1) AS b, 2 = ANY(ARRAY[1, 2]) AS c, string_to_array('a,b', ',') AS d, array_to_string(ARRAY['a', 'b'], '-') AS e, ARRAY[1] || ARRAY[2] AS f, cardinality(ARRAY[1, 2]) AS g, '{1,2}'::int[] AS h, 3 = ANY('{1,3}'::int[]) AS i

-- Redash: texts
SELECT initcap(category) AS a, lpad(id::text, 4, '0') AS b, split_part('a-b-c', '-', 2) AS c, concat('a', NULL, 'b') AS d, concat_ws('-', 'a', NULL, 'b') AS e, left(product, -1) AS f, reverse(product) AS g, repeat('x', 2) AS h, md5('a') AS i, btrim('  a ') AS j, format('%s is %s', product, quantity) AS k, to_hex(255) AS l, chr(65) AS m, ascii('a') AS n, translate('abc', 'ab', 'xy') AS o, overlay('abcd' placing 'xx' from 2 for 2) AS p, octet_length('aä') AS q, char_length('aä') AS r, quote_literal('a') AS s FROM tables.sales ORDER BY id

-- Redash: numbers
SELECT abs(-2.5) AS a, ceil(1.2) AS b, floor(-1.2) AS c, round(2.5) AS d, trunc(1.58, 1) AS e, mod(7, 3) AS f, power(2, 3) AS g, sqrt(16) AS h, sign(-2.5) AS i, ln(1) AS j, log(100) AS k, 2 ^ 3 AS l, div(7, 2) AS m, greatest(1, NULL, 3) AS n, round(2.345, 2) AS o, round(1234.5, -2) AS p

-- Redash: casts
SELECT 2.5::int AS a, 3.5::int AS b, '12'::int AS c, 1::boolean AS d, 'yes'::boolean AS e, '2024-01-01'::date AS f, '1.50'::numeric(5, 1) AS g, 1.0::float AS h, 'abc'::varchar(2) AS i, 1.5::float::text AS j, true::int AS k, 16777217::float AS l, 1.23456::numeric AS m

-- Redash: words for times
SELECT 'today'::date = current_date AS a, 'yesterday'::date + 1 = current_date AS b, 'epoch'::timestamp AS c, 'now'::timestamptz = now() AS d

-- Redash: functions of aggregates
SELECT category, bool_and(returned), every(returned), bool_or(returned), stddev(cost), variance(cost), corr(cost, quantity), max(sold_at)::date FROM tables.sales GROUP BY 1 ORDER BY 1

-- Redash: a sum of whole numbers of each kind
SELECT sum(seconds), avg(seconds), max(seconds), sum(score), count(seconds) FROM tables.visits

-- Redash: union
SELECT 'sales' AS what, count(*) FROM tables.sales UNION ALL SELECT 'visits', count(*) FROM tables.visits ORDER BY 1

-- Redash: recursive
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT sum(n) FROM t

-- Redash: moving average
SELECT day, avg(quantity) OVER (ORDER BY day, id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS a FROM tables.sales ORDER BY day, id

-- Redash: fetch first
SELECT id FROM tables.sales ORDER BY id OFFSET 2 ROWS FETCH FIRST 3 ROWS ONLY

-- Redash: limit all
SELECT id FROM tables.sales ORDER BY id LIMIT ALL OFFSET 35

-- Redash: a lock of rows
-- refused: FOR UPDATE
SELECT id FROM tables.sales ORDER BY id FOR UPDATE

-- Redash: a template that is computed
-- refused: in quotes
SELECT to_char(sold_at, 'YYYY' || '-MM') FROM tables.sales

-- Redash: a template with an ordinal
-- refused: double quotes
SELECT to_char(sold_at, 'DDth') FROM tables.sales

-- dbt: not null
select count(*) as failures, count(*) != 0 as should_warn, count(*) != 0 as should_error from (select id from "trilayer"."tables"."sales" where id is null) dbt_internal_test

-- dbt: unique
select count(*) as failures, count(*) != 0 as should_warn, count(*) != 0 as should_error from (select id as unique_field, count(*) as n_records from "trilayer"."tables"."sales" where id is not null group by id having count(*) > 1) dbt_internal_test

-- dbt: accepted values
with all_values as (select category as value_field, count(*) as n_records from "trilayer"."tables"."sales" group by category) select * from all_values where value_field not in ('food','tools')

-- dbt: relationships
with child as (select product as from_field from "trilayer"."tables"."visits" where product is not null), parent as (select product as to_field from "trilayer"."tables"."sales") select from_field from child left join parent on child.from_field = parent.to_field where parent.to_field is null order by 1

-- dbt: freshness
select max(sold_at) as max_loaded_at, now() > '2020-01-01' as snapshotted_at from "trilayer"."tables"."sales"

-- dbt: show
select * from (select category, count(*) as n from "trilayer"."tables"."sales" group by 1) as model_limit_subq order by category limit 5

-- dbt: a column with its table's full name
select "trilayer"."tables"."sales"."id" from "trilayer"."tables"."sales" where "trilayer"."tables"."sales"."id" < 3 order by 1

-- dbt: with the catalog
select count(*) as n, current_database() as db from "trilayer"."tables"."sales"

-- dbt: metrics by a spine
with spine as (select generate_series('2024-03-01'::date, '2024-05-01'::date, '1 month')::date as d) select spine.d, sum(s.quantity) as q from spine left join "trilayer"."tables"."sales" s on date_trunc('month', s.day)::date = spine.d group by 1 order by 1

-- dbt: surrogate key
select md5(cast(coalesce(cast(product as TEXT), '_dbt_utils_surrogate_key_null_') || '-' || coalesce(cast(quantity as TEXT), '_dbt_utils_surrogate_key_null_') as TEXT)) as k from "trilayer"."tables"."sales" order by id

-- dbt: date spine by numbers
with p as (select 0 as generated_number union all select 1), unioned as (select p0.generated_number * power(2, 0) + p1.generated_number * power(2, 1) + 1 as generated_number from p as p0 cross join p as p1) select * from unioned where generated_number <= 4 order by generated_number

-- dbt: datediff
select ((extract(day from sold_at) - extract(day from day))) as d, ((date_part('year', (sold_at)::date) - date_part('year', (day)::date))) as y from "trilayer"."tables"."sales" order by id

-- ibis: group and aggregate
SELECT "t0"."category", COUNT(*) AS "n", SUM("t0"."price") AS "total" FROM "tables"."sales" AS "t0" GROUP BY 1 ORDER BY "t0"."category" ASC

-- ibis: strftime
SELECT TO_CHAR("t0"."sold_at", 'YYYY-MM-DD') AS "d", COUNT(*) AS "CountStar()" FROM "tables"."sales" AS "t0" GROUP BY 1 ORDER BY 1 ASC

-- ibis: truncation
SELECT DATE_TRUNC('month', "t0"."sold_at") AS "m", AVG("t0"."cost") AS "a" FROM "tables"."sales" AS "t0" GROUP BY 1 ORDER BY "m" ASC

-- ibis: parts of times
SELECT CAST(EXTRACT(year FROM "t0"."sold_at") AS SMALLINT) AS "y", CAST(EXTRACT(doy FROM "t0"."sold_at") AS SMALLINT) AS "d", CAST(FLOOR(EXTRACT(second FROM "t0"."sold_at")) AS INT) AS "s" FROM "tables"."sales" AS "t0" ORDER BY "t0"."id" ASC

-- ibis: floor division
SELECT CAST(FLOOR(CAST("t0"."quantity" AS DOUBLE PRECISION) / NULLIF(2, 0)) AS BIGINT) AS "q" FROM "tables"."sales" AS "t0" ORDER BY "t0"."id" ASC

-- ibis: row number
SELECT * FROM (SELECT "t0"."id", ROW_NUMBER() OVER (PARTITION BY "t0"."category" ORDER BY "t0"."sold_at" DESC, "t0"."id" ASC) - 1 AS "rn" FROM "tables"."sales" AS "t0") AS "t1" WHERE "t1"."rn" < 2 ORDER BY "t1"."id" ASC

-- ibis: fill of nulls
SELECT COALESCE("t0"."price", 0) AS "price", "t0"."note" IS NOT DISTINCT FROM NULL AS "n" FROM "tables"."sales" AS "t0" ORDER BY "t0"."id" ASC

-- ibis: texts
SELECT UPPER("t0"."category") AS "u", LENGTH("t0"."product") AS "l", "t0"."product" LIKE 'a%' AS "s", REPLACE("t0"."product", 'a', 'b') AS "r", SUBSTRING("t0"."product", CASE WHEN 0 + 1 >= 1 THEN 0 + 1 ELSE 0 + 1 + LENGTH("t0"."product") END, 3) AS "b" FROM "tables"."sales" AS "t0" ORDER BY "t0"."id" ASC

-- ibis: lists
SELECT "t0"."category", ARRAY_AGG("t0"."quantity" ORDER BY "t0"."id" ASC) FILTER(WHERE "t0"."quantity" IS NOT NULL) AS "c" FROM "tables"."sales" AS "t0" GROUP BY 1 ORDER BY 1

-- ibis: approximate median
SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY "t0"."quantity") AS "m", STDDEV_SAMP("t0"."cost") AS "s", VAR_POP("t0"."cost") AS "v" FROM "tables"."sales" AS "t0"

-- Django: Now()
SELECT COUNT(*) AS "__count" FROM "tables"."sales" WHERE "sales"."sold_at" < (STATEMENT_TIMESTAMP())

-- Django: count
SELECT COUNT(*) AS "__count" FROM "tables"."sales"

-- Django: values and annotate
SELECT "sales"."category", COUNT("sales"."id") AS "n" FROM "tables"."sales" GROUP BY "sales"."category" ORDER BY "n" DESC, 1 ASC

-- Django: TruncMonth
SELECT DATE_TRUNC('month', "sales"."sold_at" AT TIME ZONE 'UTC') AS "m", COUNT(*) AS "c" FROM "tables"."sales" GROUP BY 1 ORDER BY 1 ASC

-- Django: TruncDate
SELECT ("sales"."sold_at" AT TIME ZONE 'Europe/Berlin')::date AS "d", SUM("sales"."price") AS "s" FROM "tables"."sales" GROUP BY 1 ORDER BY 1

-- Django: contains
SELECT "sales"."id" FROM "tables"."sales" WHERE "sales"."note"::text LIKE '%100\%%' ORDER BY 1

-- Django: icontains
SELECT "sales"."id" FROM "tables"."sales" WHERE UPPER("sales"."product"::text) LIKE UPPER('%PP%') ORDER BY 1

-- Django: exists
SELECT 1 AS "a" FROM "tables"."sales" WHERE "sales"."price" > 10 LIMIT 1

-- Django: in
SELECT "sales"."id", "sales"."product" FROM "tables"."sales" WHERE "sales"."id" IN (1, 2, 3) ORDER BY "sales"."id" ASC

-- Django: ExtractWeekDay
SELECT (EXTRACT(DOW FROM "sales"."sold_at" AT TIME ZONE 'UTC') + 1) AS "w", COUNT(*) AS "c" FROM "tables"."sales" GROUP BY 1 ORDER BY 1

-- Django: aggregate with a default
SELECT COALESCE(SUM("sales"."price"), '0'::numeric) AS "total", AVG("sales"."cost") AS "mean" FROM "tables"."sales" WHERE "sales"."category" = 'nothing'

-- Django: subquery
SELECT "sales"."id", (SELECT MAX(U0."seconds") AS "m" FROM "tables"."visits" U0 WHERE U0."product" = ("sales"."product")) AS "longest" FROM "tables"."sales" ORDER BY "sales"."id" ASC

-- Django: StringAgg and ArrayAgg
SELECT STRING_AGG("sales"."product", '; ' ORDER BY "sales"."id") AS "s", ARRAY_AGG("sales"."id" ORDER BY "sales"."id") AS "a", BOOL_OR("sales"."returned") AS "b" FROM "tables"."sales"

-- Django: regular expression
SELECT "sales"."id" FROM "tables"."sales" WHERE "sales"."product"::text ~ '^[a-c]' ORDER BY 1

-- Django: Cast and Concat
SELECT ("sales"."quantity")::varchar(10) AS "q", CONCAT(("sales"."product")::text, (CONCAT((' ')::text, ("sales"."category")::text))::text) AS "c" FROM "tables"."sales" ORDER BY "sales"."id"

-- SQLAlchemy: labels
SELECT tables.sales.category AS tables_sales_category, count(*) AS count_1 FROM tables.sales GROUP BY tables.sales.category ORDER BY count_1 DESC, 1

-- SQLAlchemy: extract
SELECT EXTRACT(year FROM tables.sales.day) AS anon_1, sum(tables.sales.quantity) AS sum_1 FROM tables.sales GROUP BY EXTRACT(year FROM tables.sales.day) ORDER BY 1

-- SQLAlchemy: case and cast
SELECT CAST(tables.sales.price AS FLOAT) AS price, CAST(tables.sales.id AS VARCHAR) AS id, CAST(tables.sales.quantity AS NUMERIC(10, 2)) AS q FROM tables.sales ORDER BY tables.sales.id

-- SQLAlchemy: scalar
SELECT count(tables.sales.id) FROM tables.sales

-- SQLAlchemy: over
SELECT tables.sales.id, sum(tables.sales.quantity) OVER (PARTITION BY tables.sales.category ORDER BY tables.sales.id) AS running FROM tables.sales ORDER BY tables.sales.id

-- SQLAlchemy: select 1
SELECT 1

-- SQLAlchemy: any
SELECT tables.sales.id FROM tables.sales WHERE tables.sales.id = ANY (ARRAY[1, 5]) ORDER BY 1

-- Hasura: rows as one document
SELECT coalesce(json_agg("root"), '[]') AS "root" FROM (SELECT "_root.base"."id" AS "id", "_root.base"."product" AS "product" FROM (SELECT * FROM "tables"."sales" WHERE ("tables"."sales"."id") < 4 ORDER BY "id") AS "_root.base" ORDER BY "id") AS "root"

-- Hasura: an aggregate
SELECT json_build_object('aggregate', json_build_object('count', COUNT(*), 'max', json_build_object('quantity', MAX("root.quantity")))) AS "root" FROM (SELECT quantity AS "root.quantity" FROM "tables"."sales") AS "_1"

-- Hasura: rows by row_to_json
SELECT row_to_json((SELECT "_e" FROM (SELECT s.id AS "id", s.category AS "category") AS "_e")) AS "root" FROM tables.sales s ORDER BY s.id LIMIT 3

-- Hasura: group by key
SELECT json_object_agg(category, n) AS o FROM (SELECT category, count(*) AS n FROM tables.sales WHERE category IS NOT NULL GROUP BY 1 ORDER BY 1) t

-- dbplyr: count
SELECT "category", COUNT(*) AS "n" FROM "tables"."sales" GROUP BY "category" ORDER BY "category"

-- dbplyr: mutate, filter and summarise
SELECT "category", AVG("x") AS "mean", SUM("x") AS "sum" FROM (SELECT "q01".*, "price" * 2.0 AS "x" FROM "tables"."sales" AS "q01") AS "q01" WHERE ("x" > 10.0) GROUP BY "category" ORDER BY "category"

-- dbplyr: lubridate
SELECT EXTRACT(year FROM "day") AS "y", EXTRACT(MONTH FROM "day") AS "m", EXTRACT(DOW FROM "day") + 1 AS "w", DATE_TRUNC('month', "day") AS "f" FROM "tables"."sales" ORDER BY "id"

-- dbplyr: stringr
SELECT "product" ~ 'a' AS "d", REGEXP_REPLACE("product", 'a', 'b', 'g') AS "r", SUBSTR("product", 1, 2) AS "s", STRPOS("product", 'e') > 0 AS "e" FROM "tables"."sales" ORDER BY "id"

-- dbplyr: slice
SELECT "id", "category", "price" FROM (SELECT "sales".*, RANK() OVER (PARTITION BY "category" ORDER BY "price" DESC) AS "col01" FROM "tables"."sales") AS "q01" WHERE ("col01" <= 1) ORDER BY "id"

-- dbplyr: head
SELECT * FROM "tables"."visits" ORDER BY "visit" LIMIT 6

-- dbplyr: joins
SELECT "sales"."id" AS "id", "visits"."country" AS "country" FROM "tables"."sales" AS "sales" INNER JOIN "tables"."visits" AS "visits" ON ("sales"."product" = "visits"."product") ORDER BY 1, 2 LIMIT 20

-- dbplyr: integer arithmetic
SELECT "quantity" / 2 AS "a", "quantity" / 2.0 AS "b", CAST("quantity" AS INTEGER) AS "c", CAST("price" AS NUMERIC) AS "d", CAST("cost" AS TEXT) AS "e" FROM "tables"."sales" ORDER BY "id"

-- dbplyr: a sample
SELECT count(*) > -1 AS "some" FROM "tables"."sales" TABLESAMPLE BERNOULLI (50)
