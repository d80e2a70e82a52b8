-- stream purchases, fingerprint ff2ac2136acc76c4
SELECT _partition,
   _offset,
   _fits,
   IF(_fits, NULL, regexp_replace(CASE WHEN _value IS NULL THEN 'tombstone' WHEN octet_length(_value) > 1000000 THEN concat('oversized: ', octet_length(_value), ' bytes, at most 1000000') ELSE CASE WHEN NOT is_valid_utf8(cast(_value AS string)) THEN 'invalid UTF-8' WHEN try_parse_json(cast(_value AS string)) IS NULL OR NOT coalesce(startswith(get_json_object(cast(_value AS string), '$'), '{'), false) THEN 'broken JSON: must be one JSON object' WHEN NOT _is_whole THEN 'broken JSON: must be one JSON object, with nothing after it' WHEN _event IS NULL THEN 'wrong type: a number must have an exponent of at most 3 digits,' || ' at most 1000 characters, and no comma' WHEN _event._corrupt IS NOT NULL OR concat_ws('; ', transform(filter(array(IF(_event.`purchase_id` IS NULL, named_struct('rule', 'purchase_id must be string, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["purchase_id"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF((_event.`purchased_at` IS NULL OR NOT coalesce((_event.`purchased_at` IS NULL OR `_typed_purchased_at` BETWEEN TIMESTAMP'0001-01-01T00:00:00Z' AND TIMESTAMP'9999-12-31T23:59:59.999999Z'), false)), named_struct('rule', 'purchased_at must be timestamp, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["purchased_at"]', 'variant'), 'instead', CASE WHEN schema_of_variant(variant_get(try_parse_json(cast(_value AS string)), '$["purchased_at"]', 'variant')) <> 'STRING' AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["purchased_at"]', 'variant'), '$', 'double') > 253402300800 THEN concat(substring(to_json(variant_get(try_parse_json(cast(_value AS string)), '$["purchased_at"]', 'variant')), 1, 40), ', and a number is in seconds: are these milliseconds?') END), NULL), IF(_event.`customer` IS NULL, named_struct('rule', 'customer must be string, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["customer"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF(_event.`product` IS NULL, named_struct('rule', 'product must be string, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["product"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF(_event.`quantity` IS NULL, named_struct('rule', 'quantity must be int, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["quantity"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF(_event.`unit_price` IS NULL, named_struct('rule', 'unit_price must be decimal(10,2), got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["unit_price"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF(_event.`coupons` IS NULL, named_struct('rule', 'coupons must be array<string>, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["coupons"]', 'variant'), 'instead', cast(NULL AS string)), NULL)), x -> x.instead IS NOT NULL OR NOT is_variant_null(x.got)), x -> concat(x.rule, coalesce(x.instead, IF(schema_of_variant(x.got) = 'STRING', concat('"', substring(cast(x.got AS string), 1, 40), '"'), substring(to_json(x.got), 1, 40)))))) <> '' THEN regexp_replace(concat('wrong type: ', concat_ws('; ', transform(filter(array(IF(_event.`purchase_id` IS NULL, named_struct('rule', 'purchase_id must be string, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["purchase_id"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF((_event.`purchased_at` IS NULL OR NOT coalesce((_event.`purchased_at` IS NULL OR `_typed_purchased_at` BETWEEN TIMESTAMP'0001-01-01T00:00:00Z' AND TIMESTAMP'9999-12-31T23:59:59.999999Z'), false)), named_struct('rule', 'purchased_at must be timestamp, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["purchased_at"]', 'variant'), 'instead', CASE WHEN schema_of_variant(variant_get(try_parse_json(cast(_value AS string)), '$["purchased_at"]', 'variant')) <> 'STRING' AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["purchased_at"]', 'variant'), '$', 'double') > 253402300800 THEN concat(substring(to_json(variant_get(try_parse_json(cast(_value AS string)), '$["purchased_at"]', 'variant')), 1, 40), ', and a number is in seconds: are these milliseconds?') END), NULL), IF(_event.`customer` IS NULL, named_struct('rule', 'customer must be string, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["customer"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF(_event.`product` IS NULL, named_struct('rule', 'product must be string, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["product"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF(_event.`quantity` IS NULL, named_struct('rule', 'quantity must be int, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["quantity"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF(_event.`unit_price` IS NULL, named_struct('rule', 'unit_price must be decimal(10,2), got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["unit_price"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF(_event.`coupons` IS NULL, named_struct('rule', 'coupons must be array<string>, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["coupons"]', 'variant'), 'instead', cast(NULL AS string)), NULL)), x -> x.instead IS NOT NULL OR NOT is_variant_null(x.got)), x -> concat(x.rule, coalesce(x.instead, IF(schema_of_variant(x.got) = 'STRING', concat('"', substring(cast(x.got AS string), 1, 40), '"'), substring(to_json(x.got), 1, 40))))))), '^wrong type: $', 'wrong type: inside of an array, struct or map') ELSE concat('missing field: ', concat_ws(', ', IF(_event.`purchase_id` IS NULL, 'purchase_id', NULL), IF(_event.`purchased_at` IS NULL, 'purchased_at', NULL), IF(_event.`product` IS NULL, 'product', NULL), IF(_event.`quantity` IS NULL, 'quantity', NULL), IF(_event.`unit_price` IS NULL, 'unit_price', NULL))) END END, '(?s)^(.{255}).+$', '$1...')) AS _reject,
   IF(_fits, _event.`purchase_id`, NULL) AS `purchase_id`,
   IF(_fits, `_typed_purchased_at`, NULL) AS `purchased_at`,
   IF(_fits, _event.`customer`, NULL) AS `customer`,
   IF(_fits, _event.`product`, NULL) AS `product`,
   IF(_fits, _event.`quantity`, NULL) AS `quantity`,
   IF(_fits, _event.`unit_price`, NULL) AS `unit_price`,
   IF(_fits, _event.`coupons`, NULL) AS `coupons`
FROM (
  SELECT *,
     coalesce(_value IS NOT NULL AND octet_length(_value) <= 1000000 AND _is_whole AND _event IS NOT NULL AND _event._corrupt IS NULL AND (_event.`purchased_at` IS NULL OR `_typed_purchased_at` BETWEEN TIMESTAMP'0001-01-01T00:00:00Z' AND TIMESTAMP'9999-12-31T23:59:59.999999Z') AND _event.`purchase_id` IS NOT NULL AND _event.`purchased_at` IS NOT NULL AND _event.`product` IS NOT NULL AND _event.`quantity` IS NOT NULL AND _event.`unit_price` IS NOT NULL, false) AS _fits
  FROM (
    SELECT *,
       CASE WHEN substring(_event.`purchased_at`, 5, 1) = '-' AND try_cast(_event.`purchased_at` AS date) IS NOT NULL THEN try_cast(_event.`purchased_at` AS timestamp) WHEN _event.`purchased_at` IS NOT NULL THEN coalesce(cast(from_json(cast(_value AS string), '`purchased_at` bigint').`purchased_at` AS timestamp), CASE WHEN from_json(cast(_value AS string), '`purchased_at` double').`purchased_at` BETWEEN -62135596800 AND 253402300800 THEN timestamp_micros(cast(round(from_json(cast(_value AS string), '`purchased_at` double').`purchased_at` * 1000000) AS bigint)) END) END AS `_typed_purchased_at`
    FROM (
      SELECT *,
         _value IS NOT NULL AND octet_length(_value) <= 1000000 AND is_valid_utf8(cast(_value AS string)) AND ((startswith(_value, X'7B') AND NOT contains(substring(_value, 1, octet_length(_value) - 1), X'7D')) OR coalesce((size(from_json(concat('[', cast(_value AS string), ']'), 'array<struct<>>')) = 1 AND size(from_json(concat('{"_":', cast(_value AS string), '}'), 'map<string, struct<>>')) = 1), false)) AS _is_whole,
         from_json(IF(octet_length(_value) <= 1000000 AND (octet_length(_value) <= 1000 AND NOT cast(_value AS string) RLIKE '[eE\\\\](?:[-+]?\\p{Nd}{4}|u)|\\"[-+.]*+\\p{Nd}[-+.eE\\p{Nd}]*+,|[\\s:,\\[]\\",[-+.,\\p{Nd}]' OR NOT cast(_value AS string) RLIKE '[\\s\\":,\\[](?:[-+.\\p{Nd}]*+[eE][-+]?\\p{Nd}{4}|[-+.eE\\p{Nd}]*+\\\\u(?:00[2346]|0[6-9a-fA-F]|1|[aA]|[fF]{2}))|\\"[-+.\\p{Nd}]{1000}|\\"[-+.]*+\\p{Nd}[-+.eE\\p{Nd}]*+,|[\\s:,\\[]\\",[-+.,\\p{Nd}]' OR (startswith(ltrim(cast(_value AS string)), '{') AND try_parse_json(regexp_replace(cast(_value AS string), '(?<=[\\s:,\\[])[-+]?(?:NaN|INF|Infinity)(?=[\\s,\\]}])', '0')) IS NOT NULL AND NOT regexp_replace(regexp_replace(cast(_value AS string), '\\\\.', ''), '"[^"]*+"', '') RLIKE '[eE][-+]?\\p{Nd}{4}' AND NOT (coalesce(length(from_json(cast(_value AS string), '`unit_price` string').`unit_price`) > 1000 OR from_json(cast(_value AS string), '`unit_price` string').`unit_price` RLIKE '[eE][-+]?\\p{Nd}{4}' OR contains(from_json(cast(_value AS string), '`unit_price` string').`unit_price`, ','), false)))), cast(_value AS string), NULL), '`purchase_id` string, `purchased_at` string, `customer` string, `product` string, `quantity` int, `unit_price` decimal(10,2), `coupons` array<string>, `_corrupt` string', map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '_corrupt', 'timeZone', 'UTC', 'enableDateTimeParsingFallback', 'false')) AS _event
      FROM records) AS parsed_1) AS parsed_2) AS placed
-- pass 1 over purchases: sales_by_product, sales_by_customer, sales_by_minute
SELECT cast(_group DIV 3 AS int) AS _tick,
   _group % 3 AS _set,
   _k0,
   _k1,
   _k2,
   _events,
   _oldest,
   _newest,
   cast(_s0 AS bigint) AS _s0,
   cast(_s1 AS decimal(38,0)) AS _s1,
   cast(_s2 AS decimal(38,0)) AS _s2,
   cast(_s3 AS decimal(38,2)) AS _s3,
   cast(_s4 AS struct<by:timestamp,partition:int,offset:bigint,known:boolean,value:decimal(10,2)>) AS _s4,
   cast(_s5 AS decimal(20,2)) AS _s5,
   cast(_s6 AS struct<by:timestamp,partition:int,offset:bigint,known:boolean,value:string>) AS _s6
FROM (
  SELECT _group,
     _k0,
     _k1,
     _k2,
     count(1) AS _events,
     min(_timestamp) AS _oldest,
     max(_timestamp) AS _newest,
     COUNT(1) AS _s0,
     CAST(SUM(CAST(`_i0` AS BIGINT)) AS DECIMAL(38, 0)) AS _s1,
     SUM(CAST(CAST(`_i1` AS DECIMAL(38, 2)) DIV CAST('1000000000000000000' AS DECIMAL(19, 0)) AS DECIMAL(38, 0))) AS _s2,
     SUM(CAST(CAST(`_i1` AS DECIMAL(38, 2)) % CAST('1000000000000000000' AS DECIMAL(19, 0)) AS DECIMAL(38, 2))) AS _s3,
     MAX(IF(`_i3` IS NULL, NULL, STRUCT(`_i3` AS by, _partition AS partition, _offset AS offset, NOT `_i2` IS NULL AS known, `_i2` AS value))) AS _s4,
     MAX(`_i1`) AS _s5,
     MAX(IF(`_i3` IS NULL, NULL, STRUCT(`_i3` AS by, _partition AS partition, _offset AS offset, NOT `_i4` IS NULL AS known, `_i4` AS value))) AS _s6
  FROM (
    SELECT _tick * 3 + _set AS _group,
       _partition,
       _offset,
       _timestamp,
       _i0,
       _i1,
       _i2,
       _i3,
       _i4,
       IF(_set IN (0, 2), _k0, NULL) AS _k0,
       IF(_set IN (1), _k1, NULL) AS _k1,
       IF(_set IN (2), _k2, NULL) AS _k2
    FROM (
      SELECT *,
         explode(array(0, 1, 2)) AS _set
      FROM (
        SELECT _tick,
           _partition,
           _offset,
           _timestamp,
           product AS _k0,
           customer AS _k1,
           timestamp_micros(unix_micros(cast(purchased_at as timestamp)) - pmod(unix_micros(cast(purchased_at as timestamp)), 60000000L)) AS _k2,
           quantity AS _i0,
           try_cast((cast(quantity * unit_price as decimal(20,2))) as decimal(20,2)) AS _i1,
           unit_price AS _i2,
           purchased_at AS _i3,
           product AS _i4
        FROM events)))
  GROUP BY _group,
     _k0,
     _k1,
     _k2)
-- pass 2 over coupon_uses: sales_by_coupon
SELECT cast(_group DIV 1 AS int) AS _tick,
   _group % 1 AS _set,
   _k0,
   _events,
   _oldest,
   _newest,
   cast(_s0 AS bigint) AS _s0,
   cast(_s1 AS decimal(38,0)) AS _s1,
   cast(_s2 AS decimal(38,0)) AS _s2,
   cast(_s3 AS decimal(38,2)) AS _s3
FROM (
  SELECT _group,
     _k0,
     count(1) AS _events,
     min(_timestamp) AS _oldest,
     max(_timestamp) AS _newest,
     COUNT(1) AS _s0,
     CAST(SUM(CAST(`_i0` AS BIGINT)) AS DECIMAL(38, 0)) AS _s1,
     SUM(CAST(CAST(`_i1` AS DECIMAL(38, 2)) DIV CAST('1000000000000000000' AS DECIMAL(19, 0)) AS DECIMAL(38, 0))) AS _s2,
     SUM(CAST(CAST(`_i1` AS DECIMAL(38, 2)) % CAST('1000000000000000000' AS DECIMAL(19, 0)) AS DECIMAL(38, 2))) AS _s3
  FROM (
    SELECT _tick * 1 + _set AS _group,
       _timestamp,
       _i0,
       _i1,
       _k0
    FROM (
      SELECT *,
         0 AS _set
      FROM (
        SELECT _tick,
           _timestamp,
           make_valid_utf8(coupon) AS _k0,
           quantity AS _i0,
           try_cast((cast(quantity * unit_price as decimal(20,2))) as decimal(20,2)) AS _i1
        FROM events)))
  GROUP BY _group,
     _k0)
-- view sales_by_product, fingerprint 96500c9dddc0af08
CREATE TABLE partials ("product" TEXT, "purchases__n" BIGINT, "items__sum" DECIMAL(38, 0), "revenue__high" DECIMAL(38, 0), "revenue__low" DECIMAL(38, 2), "latest_price__event" STRUCT("by" TIMESTAMPTZ, partition INT, "offset" BIGINT, known BOOLEAN, value DECIMAL(10, 2)))
SELECT "product",
   CAST("purchases__n" AS BIGINT) AS "purchases",
   CAST(TRY_CAST("items__sum" AS BIGINT) AS BIGINT) AS "items",
   CAST(COALESCE(TRY(CAST("revenue__high" * CAST(1000000000000000000 AS DECIMAL(38, 0)) AS DECIMAL(38, 2)) + "revenue__low"), TRY(CAST(("revenue__high" - SIGN("revenue__high")) * CAST(1000000000000000000 AS DECIMAL(38, 0)) AS DECIMAL(38, 2)) + ("revenue__low" + SIGN("revenue__high") * CAST(1000000000000000000 AS DECIMAL(38, 0))))) AS DECIMAL(38, 2)) AS "revenue",
   CAST(("latest_price__event")."value" AS DECIMAL(10, 2)) AS "latest_price"
FROM (
  SELECT "product",
     CAST(SUM("purchases__n") AS BIGINT) AS "purchases__n",
     CAST(SUM("items__sum") AS DECIMAL(38, 0)) AS "items__sum",
     CAST(SUM("revenue__high") AS DECIMAL(38, 0)) AS "revenue__high",
     CAST(SUM("revenue__low") AS DECIMAL(38, 2)) AS "revenue__low",
     CAST(MAX("latest_price__event") AS STRUCT("by" TIMESTAMPTZ, partition INT, "offset" BIGINT, known BOOLEAN, value DECIMAL(10, 2))) AS "latest_price__event"
  FROM (
    SELECT "product",
       "purchases__n",
       "items__sum",
       "revenue__high",
       "revenue__low",
       "latest_price__event"
    FROM batch
    UNION ALL
      SELECT "product",
         "purchases__n",
         "items__sum",
         "revenue__high",
         "revenue__low",
         "latest_price__event"
      FROM speed)
  GROUP BY "product")
-- view sales_by_customer, fingerprint 8d05a4acdf5a6d75
CREATE TABLE partials ("customer" TEXT, "purchases__n" BIGINT, "items__sum" DECIMAL(38, 0), "revenue__high" DECIMAL(38, 0), "revenue__low" DECIMAL(38, 2), "largest__max" DECIMAL(20, 2), "latest_product__event" STRUCT("by" TIMESTAMPTZ, partition INT, "offset" BIGINT, known BOOLEAN, value TEXT))
SELECT "customer",
   CAST("purchases__n" AS BIGINT) AS "purchases",
   CAST(TRY_CAST("items__sum" AS BIGINT) AS BIGINT) AS "items",
   CAST(COALESCE(TRY(CAST("revenue__high" * CAST(1000000000000000000 AS DECIMAL(38, 0)) AS DECIMAL(38, 2)) + "revenue__low"), TRY(CAST(("revenue__high" - SIGN("revenue__high")) * CAST(1000000000000000000 AS DECIMAL(38, 0)) AS DECIMAL(38, 2)) + ("revenue__low" + SIGN("revenue__high") * CAST(1000000000000000000 AS DECIMAL(38, 0))))) AS DECIMAL(38, 2)) AS "revenue",
   CAST("largest__max" AS DECIMAL(20, 2)) AS "largest",
   CAST(("latest_product__event")."value" AS TEXT) AS "latest_product"
FROM (
  SELECT "customer",
     CAST(SUM("purchases__n") AS BIGINT) AS "purchases__n",
     CAST(SUM("items__sum") AS DECIMAL(38, 0)) AS "items__sum",
     CAST(SUM("revenue__high") AS DECIMAL(38, 0)) AS "revenue__high",
     CAST(SUM("revenue__low") AS DECIMAL(38, 2)) AS "revenue__low",
     CAST(MAX("largest__max") AS DECIMAL(20, 2)) AS "largest__max",
     CAST(MAX("latest_product__event") AS STRUCT("by" TIMESTAMPTZ, partition INT, "offset" BIGINT, known BOOLEAN, value TEXT)) AS "latest_product__event"
  FROM (
    SELECT "customer",
       "purchases__n",
       "items__sum",
       "revenue__high",
       "revenue__low",
       "largest__max",
       "latest_product__event"
    FROM batch
    UNION ALL
      SELECT "customer",
         "purchases__n",
         "items__sum",
         "revenue__high",
         "revenue__low",
         "largest__max",
         "latest_product__event"
      FROM speed)
  GROUP BY "customer")
-- view sales_by_minute, fingerprint 3b9723c8dbfe68e5
CREATE TABLE partials ("product" TEXT, "minute" TIMESTAMPTZ, "purchases__n" BIGINT, "items__sum" DECIMAL(38, 0), "revenue__high" DECIMAL(38, 0), "revenue__low" DECIMAL(38, 2))
SELECT "product",
   "minute",
   CASE WHEN "minute" <= make_timestamptz(253402300739999999) THEN "minute" + to_microseconds(60000000) END AS "minute_end",
   CAST("purchases__n" AS BIGINT) AS "purchases",
   CAST(TRY_CAST("items__sum" AS BIGINT) AS BIGINT) AS "items",
   CAST(COALESCE(TRY(CAST("revenue__high" * CAST(1000000000000000000 AS DECIMAL(38, 0)) AS DECIMAL(38, 2)) + "revenue__low"), TRY(CAST(("revenue__high" - SIGN("revenue__high")) * CAST(1000000000000000000 AS DECIMAL(38, 0)) AS DECIMAL(38, 2)) + ("revenue__low" + SIGN("revenue__high") * CAST(1000000000000000000 AS DECIMAL(38, 0))))) AS DECIMAL(38, 2)) AS "revenue"
FROM (
  SELECT "product",
     "minute",
     CAST(SUM("purchases__n") AS BIGINT) AS "purchases__n",
     CAST(SUM("items__sum") AS DECIMAL(38, 0)) AS "items__sum",
     CAST(SUM("revenue__high") AS DECIMAL(38, 0)) AS "revenue__high",
     CAST(SUM("revenue__low") AS DECIMAL(38, 2)) AS "revenue__low"
  FROM (
    SELECT "product",
       "minute",
       "purchases__n",
       "items__sum",
       "revenue__high",
       "revenue__low"
    FROM batch
    UNION ALL
      SELECT "product",
         "minute",
         "purchases__n",
         "items__sum",
         "revenue__high",
         "revenue__low"
      FROM speed)
  GROUP BY "product",
     "minute")
-- view sales_by_coupon, fingerprint c932d192687918ea
CREATE TABLE partials ("coupon" TEXT, "purchases__n" BIGINT, "items__sum" DECIMAL(38, 0), "revenue__high" DECIMAL(38, 0), "revenue__low" DECIMAL(38, 2))
SELECT "coupon",
   CAST("purchases__n" AS BIGINT) AS "purchases",
   CAST(TRY_CAST("items__sum" AS BIGINT) AS BIGINT) AS "items",
   CAST(COALESCE(TRY(CAST("revenue__high" * CAST(1000000000000000000 AS DECIMAL(38, 0)) AS DECIMAL(38, 2)) + "revenue__low"), TRY(CAST(("revenue__high" - SIGN("revenue__high")) * CAST(1000000000000000000 AS DECIMAL(38, 0)) AS DECIMAL(38, 2)) + ("revenue__low" + SIGN("revenue__high") * CAST(1000000000000000000 AS DECIMAL(38, 0))))) AS DECIMAL(38, 2)) AS "revenue"
FROM (
  SELECT "coupon",
     CAST(SUM("purchases__n") AS BIGINT) AS "purchases__n",
     CAST(SUM("items__sum") AS DECIMAL(38, 0)) AS "items__sum",
     CAST(SUM("revenue__high") AS DECIMAL(38, 0)) AS "revenue__high",
     CAST(SUM("revenue__low") AS DECIMAL(38, 2)) AS "revenue__low"
  FROM (
    SELECT "coupon",
       "purchases__n",
       "items__sum",
       "revenue__high",
       "revenue__low"
    FROM batch
    UNION ALL
      SELECT "coupon",
         "purchases__n",
         "items__sum",
         "revenue__high",
         "revenue__low"
      FROM speed)
  GROUP BY "coupon")
