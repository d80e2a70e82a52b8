-- stream purchases, fingerprint 612a3bb91adb9e7f
SELECT _partition,
   _offset,
   _fits,
   IF(_fits, NULL, regexp_replace(CASE WHEN _value IS NULL THEN 'tombstone' WHEN octet_length(_value) > 1000000 THEN concat('oversized: ', octet_length(_value), ' bytes, at most 1000000') ELSE CASE WHEN NOT is_valid_utf8(cast(_value AS string)) THEN 'invalid UTF-8' WHEN startswith(_value, X'efbbbf') THEN 'broken JSON: must be one JSON object, without a byte order mark before it' WHEN startswith(_value, X'7b27') THEN 'broken JSON: must be one JSON object, with double quotes in place of single ones' WHEN try_parse_json(cast(_value AS string)) IS NULL OR NOT coalesce(startswith(get_json_object(cast(_value AS string), '$'), '{'), false) THEN 'broken JSON: must be one JSON object' WHEN NOT _is_whole THEN 'broken JSON: must be one JSON object, with nothing after it' WHEN _event IS NULL THEN 'wrong type: a number must have an exponent of at most 3 digits,' || ' at most 1000 characters, and no comma' WHEN _event._corrupt IS NOT NULL OR concat_ws('; ', transform(filter(array(IF(_event.`purchase_id` IS NULL, named_struct('rule', 'purchase_id must be string, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["purchase_id"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF((_event.`purchased_at` IS NULL OR NOT coalesce((_event.`purchased_at` IS NULL OR `_typed_purchased_at` BETWEEN TIMESTAMP'0001-01-01T00:00:00Z' AND TIMESTAMP'9999-12-31T23:59:59.999999Z'), false)), named_struct('rule', 'purchased_at must be timestamp, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["purchased_at"]', 'variant'), 'instead', CASE WHEN schema_of_variant(variant_get(try_parse_json(cast(_value AS string)), '$["purchased_at"]', 'variant')) <> 'STRING' AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["purchased_at"]', 'variant'), '$', 'double') > 253402300800 AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["purchased_at"]', 'variant'), '$', 'double') <= 253402300800000 THEN concat(substring(to_json(variant_get(try_parse_json(cast(_value AS string)), '$["purchased_at"]', 'variant')), 1, 40), ', and a number is in seconds: declare `purchased_at timestamp in milliseconds` if these are milliseconds') WHEN schema_of_variant(variant_get(try_parse_json(cast(_value AS string)), '$["purchased_at"]', 'variant')) <> 'STRING' AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["purchased_at"]', 'variant'), '$', 'double') > 253402300800 AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["purchased_at"]', 'variant'), '$', 'double') <= 253402300800000000 THEN concat(substring(to_json(variant_get(try_parse_json(cast(_value AS string)), '$["purchased_at"]', 'variant')), 1, 40), ', and a number is in seconds: declare `purchased_at timestamp in microseconds` if these are microseconds') WHEN schema_of_variant(variant_get(try_parse_json(cast(_value AS string)), '$["purchased_at"]', 'variant')) <> 'STRING' AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["purchased_at"]', 'variant'), '$', 'double') > 253402300800 AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["purchased_at"]', 'variant'), '$', 'double') <= 253402300800000000000 THEN concat(substring(to_json(variant_get(try_parse_json(cast(_value AS string)), '$["purchased_at"]', 'variant')), 1, 40), ', and a number is in seconds: declare `purchased_at timestamp in nanoseconds` if these are nanoseconds') END), NULL), IF(_event.`customer` IS NULL, named_struct('rule', 'customer must be string, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["customer"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF(_event.`product` IS NULL, named_struct('rule', 'product must be string, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["product"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF(_event.`quantity` IS NULL, named_struct('rule', 'quantity must be int, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["quantity"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF(_event.`unit_price` IS NULL, named_struct('rule', 'unit_price must be decimal(10,2), got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["unit_price"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF(_event.`coupons` IS NULL, named_struct('rule', 'coupons must be array<string>, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["coupons"]', 'variant'), 'instead', cast(NULL AS string)), NULL)), x -> x.instead IS NOT NULL OR NOT is_variant_null(x.got)), x -> concat(x.rule, coalesce(x.instead, IF(schema_of_variant(x.got) = 'STRING', concat('"', substring(cast(x.got AS string), 1, 40), '"'), substring(to_json(x.got), 1, 40)))))) <> '' THEN regexp_replace(concat('wrong type: ', concat_ws('; ', transform(filter(array(IF(_event.`purchase_id` IS NULL, named_struct('rule', 'purchase_id must be string, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["purchase_id"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF((_event.`purchased_at` IS NULL OR NOT coalesce((_event.`purchased_at` IS NULL OR `_typed_purchased_at` BETWEEN TIMESTAMP'0001-01-01T00:00:00Z' AND TIMESTAMP'9999-12-31T23:59:59.999999Z'), false)), named_struct('rule', 'purchased_at must be timestamp, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["purchased_at"]', 'variant'), 'instead', CASE WHEN schema_of_variant(variant_get(try_parse_json(cast(_value AS string)), '$["purchased_at"]', 'variant')) <> 'STRING' AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["purchased_at"]', 'variant'), '$', 'double') > 253402300800 AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["purchased_at"]', 'variant'), '$', 'double') <= 253402300800000 THEN concat(substring(to_json(variant_get(try_parse_json(cast(_value AS string)), '$["purchased_at"]', 'variant')), 1, 40), ', and a number is in seconds: declare `purchased_at timestamp in milliseconds` if these are milliseconds') WHEN schema_of_variant(variant_get(try_parse_json(cast(_value AS string)), '$["purchased_at"]', 'variant')) <> 'STRING' AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["purchased_at"]', 'variant'), '$', 'double') > 253402300800 AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["purchased_at"]', 'variant'), '$', 'double') <= 253402300800000000 THEN concat(substring(to_json(variant_get(try_parse_json(cast(_value AS string)), '$["purchased_at"]', 'variant')), 1, 40), ', and a number is in seconds: declare `purchased_at timestamp in microseconds` if these are microseconds') WHEN schema_of_variant(variant_get(try_parse_json(cast(_value AS string)), '$["purchased_at"]', 'variant')) <> 'STRING' AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["purchased_at"]', 'variant'), '$', 'double') > 253402300800 AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["purchased_at"]', 'variant'), '$', 'double') <= 253402300800000000000 THEN concat(substring(to_json(variant_get(try_parse_json(cast(_value AS string)), '$["purchased_at"]', 'variant')), 1, 40), ', and a number is in seconds: declare `purchased_at timestamp in nanoseconds` if these are nanoseconds') END), NULL), IF(_event.`customer` IS NULL, named_struct('rule', 'customer must be string, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["customer"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF(_event.`product` IS NULL, named_struct('rule', 'product must be string, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["product"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF(_event.`quantity` IS NULL, named_struct('rule', 'quantity must be int, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["quantity"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF(_event.`unit_price` IS NULL, named_struct('rule', 'unit_price must be decimal(10,2), got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["unit_price"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF(_event.`coupons` IS NULL, named_struct('rule', 'coupons must be array<string>, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["coupons"]', 'variant'), 'instead', cast(NULL AS string)), NULL)), x -> x.instead IS NOT NULL OR NOT is_variant_null(x.got)), x -> concat(x.rule, coalesce(x.instead, IF(schema_of_variant(x.got) = 'STRING', concat('"', substring(cast(x.got AS string), 1, 40), '"'), substring(to_json(x.got), 1, 40))))))), '^wrong type: $', 'wrong type: inside of an array, struct or map') ELSE concat('missing field: ', concat_ws(', ', IF(_event.`purchase_id` IS NULL, 'purchase_id', NULL), IF(_event.`purchased_at` IS NULL, 'purchased_at', NULL), IF(_event.`product` IS NULL, 'product', NULL), IF(_event.`quantity` IS NULL, 'quantity', NULL), IF(_event.`unit_price` IS NULL, 'unit_price', NULL))) END END, '(?s)^(.{255}).+$', '$1...')) AS _reject,
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
       coalesce(coalesce(CASE WHEN substring(_event.`purchased_at`, 5, 1) = '-' AND try_cast(_event.`purchased_at` AS date) IS NOT NULL THEN try_cast(_event.`purchased_at` AS timestamp) END, CASE WHEN _event.`purchased_at` RLIKE '^(?:(\\d{4})-(\\d\\d)-(\\d\\d)[Tt ](\\d\\d)(?::(\\d\\d)(?::(\\d\\d)(?:[.,](\\d+))?)?)?|(\\d{4})(\\d\\d)(\\d\\d)[Tt](\\d\\d)(?:(\\d\\d)(?:(\\d\\d)(?:[.,](\\d+))?)?)?)(?: ?([Zz]|[-+]\\d\\d(?::?\\d\\d(?::?\\d\\d)?)?)(?:\\[[A-Za-z0-9_+/:-]+\\]|(?: [A-Z]{3,5}| [-+]\\d\\d(?:\\d\\d)?)?(?: m=[-+][0-9.]+)?))?$' THEN try_cast(upper(replace(replace(regexp_replace(_event.`purchased_at`, '^(?:(\\d{4})-(\\d\\d)-(\\d\\d)[Tt ](\\d\\d)(?::(\\d\\d)(?::(\\d\\d)(?:[.,](\\d+))?)?)?|(\\d{4})(\\d\\d)(\\d\\d)[Tt](\\d\\d)(?:(\\d\\d)(?:(\\d\\d)(?:[.,](\\d+))?)?)?)(?: ?([Zz]|[-+]\\d\\d(?::?\\d\\d(?::?\\d\\d)?)?)(?:\\[[A-Za-z0-9_+/:-]+\\]|(?: [A-Z]{3,5}| [-+]\\d\\d(?:\\d\\d)?)?(?: m=[-+][0-9.]+)?))?$', '$1$8-$2$9-$3$10T$4$11:$5$12#:$6$13#.$7$14$15'), ':#', ':00'), '#', '')) AS timestamp) END), CASE WHEN _event.`purchased_at` IS NOT NULL THEN coalesce(cast(from_json(cast(_value AS string), '`purchased_at` bigint').`purchased_at` AS timestamp), CASE WHEN from_json(cast(_value AS string), '`purchased_at` double').`purchased_at` BETWEEN -62135596800 AND 253402300800 THEN timestamp_micros(cast(round(from_json(cast(_value AS string), '`purchased_at` double').`purchased_at` * 1000000) AS bigint)) END) END) AS `_typed_purchased_at`
    FROM (
      SELECT *,
         _value IS NOT NULL AND octet_length(_value) <= 1000000 AND is_valid_utf8(cast(_value AS string)) AND ((startswith(_value, X'7B') AND NOT contains(substring(_value, 1, octet_length(_value) - 1), X'7D')) OR coalesce((size(from_json(concat('[', cast(_value AS string), ']'), 'array<struct<>>')) = 1 AND size(from_json(concat('{"_":', cast(_value AS string), '}'), 'map<string, struct<>>')) = 1), false)) AS _is_whole,
         from_json(IF(octet_length(_value) <= 1000000 AND (octet_length(_value) <= 1000 AND NOT cast(_value AS string) RLIKE '[eE\\\\](?:[-+]?\\p{Nd}{4}|u)|\\"[-+.]*+\\p{Nd}[-+.eE\\p{Nd}]*+,|[\\s:,\\[]\\",[-+.,\\p{Nd}]' OR NOT cast(_value AS string) RLIKE '[\\s\\":,\\[](?:[-+.\\p{Nd}]*+[eE][-+]?\\p{Nd}{4}|[-+.eE\\p{Nd}]*+\\\\u(?:00[2346]|0[6-9a-fA-F]|1|[aA]|[fF]{2}))|\\"[-+.\\p{Nd}]{1000}|\\"[-+.]*+\\p{Nd}[-+.eE\\p{Nd}]*+,|[\\s:,\\[]\\",[-+.,\\p{Nd}]' OR (startswith(ltrim(cast(_value AS string)), '{') AND try_parse_json(regexp_replace(cast(_value AS string), '(?<=[\\s:,\\[])[-+]?(?:NaN|INF|Infinity)(?=[\\s,\\]}])', '0')) IS NOT NULL AND NOT regexp_replace(regexp_replace(cast(_value AS string), '\\\\.', ''), '"[^"]*+"', '') RLIKE '[eE][-+]?\\p{Nd}{4}' AND NOT (coalesce(length(from_json(cast(_value AS string), '`unit_price` string').`unit_price`) > 1000 OR from_json(cast(_value AS string), '`unit_price` string').`unit_price` RLIKE '[eE][-+]?\\p{Nd}{4}' OR contains(from_json(cast(_value AS string), '`unit_price` string').`unit_price`, ','), false)))), cast(_value AS string), NULL), '`purchase_id` string, `purchased_at` string, `customer` string, `product` string, `quantity` int, `unit_price` decimal(10,2), `coupons` array<string>, `_corrupt` string', map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '_corrupt', 'timeZone', 'UTC', 'enableDateTimeParsingFallback', 'false', 'allowSingleQuotes', 'false')) AS _event
      FROM records) AS parsed_1) AS parsed_3) AS placed
-- pass 1 over purchases: sales_by_product, sales_by_customer, sales_by_minute, buyers_by_product, buyers_by_product__buyers, spending_by_customer, spending_by_customer__favourite, baskets_by_hour, baskets_by_hour__amounts, baskets_by_hour__best_sellers, sales_of_last_hour
SELECT cast(_group DIV 8 AS int) AS _tick,
   _group % 8 AS _set,
   _k0,
   _k1,
   _k2,
   _k3,
   _k4,
   _k5,
   _k6,
   _events,
   _oldest,
   _newest,
   cast(_s0 AS bigint) AS _s0,
   cast(_s1 AS bigint) AS _s1,
   cast(_s2 AS bigint) AS _s2,
   cast(_s3 AS bigint) AS _s3,
   cast(_s4 AS decimal(38,0)) AS _s4,
   cast(_s5 AS decimal(38,0)) AS _s5,
   cast(_s6 AS decimal(38,2)) AS _s6,
   cast(_s7 AS struct<by:timestamp,partition:int,offset:bigint,known:boolean,value:decimal(10,2)>) AS _s7,
   cast(_s8 AS decimal(20,2)) AS _s8,
   cast(_s9 AS struct<by:timestamp,partition:int,offset:bigint,known:boolean,value:string>) AS _s9,
   cast(_s10 AS bigint) AS _s10,
   cast(_s11 AS int) AS _s11,
   cast(_s12 AS bigint) AS _s12,
   cast(_s13 AS decimal(38,0)) AS _s13,
   cast(_s14 AS decimal(38,0)) AS _s14,
   cast(_s15 AS decimal(38,0)) AS _s15,
   cast(_s16 AS decimal(38,0)) AS _s16,
   cast(_s17 AS decimal(38,0)) AS _s17,
   cast(_s18 AS array<struct<by:timestamp,partition:int,offset:bigint,known:boolean,value:string>>) AS _s18,
   cast(_s19 AS boolean) AS _s19,
   cast(_s20 AS bigint) AS _s20,
   cast(_s21 AS bigint) AS _s21,
   cast(_s22 AS bigint) AS _s22,
   cast(_s23 AS bigint) AS _s23,
   cast(_s24 AS bigint) AS _s24
FROM (
  SELECT _group,
     _k0,
     _k1,
     _k2,
     _k3,
     _k4,
     _k5,
     _k6,
     count(1) AS _events,
     min(_timestamp) AS _oldest,
     max(_timestamp) AS _newest,
     COUNT(1) FILTER(WHERE `_i0`) AS _s0,
     COUNT(1) FILTER(WHERE `_i1`) AS _s1,
     COUNT(1) FILTER(WHERE `_i2`) AS _s2,
     COUNT(1) AS _s3,
     CAST(SUM(CAST(`_i3` AS BIGINT)) AS DECIMAL(38, 0)) AS _s4,
     SUM(CAST(CAST(`_i4` AS DECIMAL(38, 2)) DIV CAST('1000000000000000000' AS DECIMAL(19, 0)) AS DECIMAL(38, 0))) AS _s5,
     SUM(CAST(CAST(`_i4` AS DECIMAL(38, 2)) % CAST('1000000000000000000' AS DECIMAL(19, 0)) AS DECIMAL(38, 2))) AS _s6,
     MAX(IF(`_i6` IS NULL, NULL, STRUCT(`_i6` AS by, _partition AS partition, _offset AS offset, NOT `_i5` IS NULL AS known, `_i5` AS value))) AS _s7,
     MAX(`_i4`) AS _s8,
     MAX(IF(`_i6` IS NULL, NULL, STRUCT(`_i6` AS by, _partition AS partition, _offset AS offset, NOT `_i7` IS NULL AS known, `_i7` AS value))) AS _s9,
     COUNT(`_i8`) AS _s10,
     MAX(LEAST(BIT_COUNT(~SHIFTRIGHTUNSIGNED(XXHASH64(`_i9`), 10) & (SHIFTRIGHTUNSIGNED(XXHASH64(`_i9`), 10) - 1)) + 1, 55)) FILTER(WHERE `_i0`) AS _s11,
     COUNT(`_i10`) AS _s12,
     CAST(SUM(CAST(SHIFTRIGHT(CAST(`_i10` * CAST(100 AS DECIMAL(3, 0)) AS BIGINT), 32) AS DECIMAL(38, 0))) AS DECIMAL(38, 0)) AS _s13,
     CAST(SUM(CAST((CAST(`_i10` * CAST(100 AS DECIMAL(3, 0)) AS BIGINT) & 4294967295) AS DECIMAL(38, 0))) AS DECIMAL(38, 0)) AS _s14,
     CAST(SUM(CAST(SHIFTRIGHT(CAST(`_i10` * CAST(100 AS DECIMAL(3, 0)) AS BIGINT), 32) * SHIFTRIGHT(CAST(`_i10` * CAST(100 AS DECIMAL(3, 0)) AS BIGINT), 32) AS DECIMAL(38, 0))) AS DECIMAL(38, 0)) AS _s15,
     CAST(SUM(CAST(SHIFTRIGHT(CAST(`_i10` * CAST(100 AS DECIMAL(3, 0)) AS BIGINT), 32) * (CAST(`_i10` * CAST(100 AS DECIMAL(3, 0)) AS BIGINT) & 4294967295) AS DECIMAL(38, 0))) AS DECIMAL(38, 0)) AS _s16,
     CAST(SUM(CAST(CAST((CAST(`_i10` * CAST(100 AS DECIMAL(3, 0)) AS BIGINT) & 4294967295) AS DECIMAL(10, 0)) * CAST((CAST(`_i10` * CAST(100 AS DECIMAL(3, 0)) AS BIGINT) & 4294967295) AS DECIMAL(10, 0)) AS DECIMAL(38, 0))) AS DECIMAL(38, 0)) AS _s17,
     COALESCE(MAX_BY(IF(`_i6` IS NULL, NULL, STRUCT(`_i6` AS by, _partition AS partition, _offset AS offset, NOT `_i7` IS NULL AS known, `_i7` AS value)), IF(`_i6` IS NULL, NULL, STRUCT(`_i6` AS by, _partition AS partition, _offset AS offset, NOT `_i7` IS NULL AS known, `_i7` AS value)), 3), CAST(ARRAY() AS ARRAY<STRUCT<by: TIMESTAMP, partition: INT, offset: BIGINT, known: BOOLEAN, value: STRING>>)) AS _s18,
     MAX(`_i11`) AS _s19,
     COUNT_IF(`_i10` < CAST('5' AS DECIMAL(1, 0))) AS _s20,
     COUNT_IF(`_i10` >= CAST('5' AS DECIMAL(1, 0)) AND `_i10` < CAST('10' AS DECIMAL(2, 0))) AS _s21,
     COUNT_IF(`_i10` >= CAST('10' AS DECIMAL(2, 0)) AND `_i10` < CAST('20' AS DECIMAL(2, 0))) AS _s22,
     COUNT_IF(`_i10` >= CAST('20' AS DECIMAL(2, 0)) AND `_i10` < CAST('50' AS DECIMAL(2, 0))) AS _s23,
     COUNT_IF(`_i10` >= CAST('50' AS DECIMAL(2, 0))) AS _s24
  FROM (
    SELECT _tick * 8 + _set AS _group,
       _partition,
       _offset,
       _timestamp,
       _i0,
       _i1,
       _i2,
       _i3,
       _i4,
       _i5,
       _i6,
       _i7,
       _i8,
       _i9,
       _i10,
       _i11,
       IF(_set IN (0, 2, 3), _k0, NULL) AS _k0,
       IF(_set IN (1, 4), _k1, NULL) AS _k1,
       IF(_set IN (2), _k2, NULL) AS _k2,
       IF(_set IN (3), _k3, NULL) AS _k3,
       IF(_set IN (4, 7), _k4, NULL) AS _k4,
       IF(_set IN (5, 6, 7), _k5, NULL) AS _k5,
       IF(_set IN (6), _k6, NULL) AS _k6
    FROM (
      SELECT *,
         explode(array(0, 1, 2, 3, 4, 5, 6, 7)) AS _set
      FROM (
        SELECT _tick,
           _partition,
           _offset,
           _timestamp,
           product AS _k0,
           customer AS _k1,
           timestamp_micros(unix_micros(cast(purchased_at as timestamp)) - pmod(unix_micros(cast(purchased_at as timestamp)), 60000000L)) AS _k2,
           cast(pmod(xxhash64((customer)), 1024) as int) AS _k3,
           (product) AS _k4,
           timestamp_micros(unix_micros(cast(purchased_at as timestamp)) - pmod(unix_micros(cast(purchased_at as timestamp)), 3600000000L)) AS _k5,
           CASE WHEN isnan(cast((try_cast((try_cast(quantity * unit_price as decimal(18,2))) as decimal(18,2))) as double)) THEN 1000000 WHEN cast((try_cast((try_cast(quantity * unit_price as decimal(18,2))) as decimal(18,2))) as double) = 0 THEN 0 WHEN abs(cast((try_cast((try_cast(quantity * unit_price as decimal(18,2))) as decimal(18,2))) as double)) = cast('Infinity' as double) THEN IF(cast((try_cast((try_cast(quantity * unit_price as decimal(18,2))) as decimal(18,2))) as double) > 0, 999999, -999999) WHEN cast((try_cast((try_cast(quantity * unit_price as decimal(18,2))) as decimal(18,2))) as double) > 0 THEN cast(ceil(ln(abs(cast((try_cast((try_cast(quantity * unit_price as decimal(18,2))) as decimal(18,2))) as double))) / 0.020000666706669435D) as int) + 100000 ELSE -(cast(ceil(ln(abs(cast((try_cast((try_cast(quantity * unit_price as decimal(18,2))) as decimal(18,2))) as double))) / 0.020000666706669435D) as int) + 100000) END AS _k6,
           (customer) IS NOT NULL AS _i0,
           (product) IS NOT NULL AS _i1,
           (try_cast((try_cast(quantity * unit_price as decimal(18,2))) as decimal(18,2))) IS NOT NULL AS _i2,
           quantity AS _i3,
           try_cast((cast(quantity * unit_price as decimal(20,2))) as decimal(20,2)) AS _i4,
           unit_price AS _i5,
           purchased_at AS _i6,
           product AS _i7,
           coupons AS _i8,
           customer AS _i9,
           try_cast((try_cast(quantity * unit_price as decimal(18,2))) as decimal(18,2)) AS _i10,
           try_cast((quantity >= 5) as boolean) AS _i11
        FROM events)))
  GROUP BY _group,
     _k0,
     _k1,
     _k2,
     _k3,
     _k4,
     _k5,
     _k6)
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
-- view sales_by_product, fingerprint ed85d1dac432fd9e
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
-- view sales_by_customer, fingerprint f9974244e908eee0
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
-- view sales_by_minute, fingerprint 5e2ed7bc68eef0f1
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
-- view sales_by_coupon, fingerprint f0dde425b09cc61d
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
-- view buyers_by_product, fingerprint 501db635d96d73af
CREATE TABLE partials ("product" TEXT, "with_coupon__n" BIGINT)
-- view buyers_by_product__buyers, fingerprint 6f1cc1a1f5b9b625
CREATE TABLE partials ("product" TEXT, "_cell" INT, "buyers__rank" INT)
SELECT "product",
   "buyers" AS "buyers",
   "with_coupon" AS "with_coupon"
FROM (
  SELECT "product",
     any_value("with_coupon") AS "with_coupon",
     coalesce(any_value("buyers"), 0) AS "buyers"
  FROM (
    SELECT "product",
       CAST("with_coupon__n" AS BIGINT) AS "with_coupon"
    FROM (
      SELECT "product",
         CAST(SUM("with_coupon__n") AS BIGINT) AS "with_coupon__n"
      FROM (
        SELECT "product",
           "with_coupon__n"
        FROM batch.buyers_by_product
        UNION ALL
          SELECT "product",
             "with_coupon__n"
          FROM speed.buyers_by_product)
      GROUP BY "product")
    UNION ALL BY NAME
      SELECT "product",
         CAST(ROUND(CASE WHEN (755541.746198293 / (SUM(POWER(CAST(2.0 AS DOUBLE), -"buyers__rank")) + (1024 - COUNT(*)))) <= 2560 AND COUNT(*) < 1024 THEN 1024 * LN(CAST(1024.0 AS DOUBLE) / (1024 - COUNT(*))) ELSE (755541.746198293 / (SUM(POWER(CAST(2.0 AS DOUBLE), -"buyers__rank")) + (1024 - COUNT(*)))) END) AS BIGINT) AS "buyers"
      FROM (
        SELECT "product",
           "_cell",
           CAST(MAX("buyers__rank") AS INT) AS "buyers__rank"
        FROM (
          SELECT "product",
             "_cell",
             "buyers__rank"
          FROM batch.buyers_by_product__buyers
          UNION ALL
            SELECT "product",
               "_cell",
               "buyers__rank"
            FROM speed.buyers_by_product__buyers)
        GROUP BY "product",
           "_cell")
      GROUP BY "product")
  GROUP BY "product")
-- view spending_by_customer, fingerprint e9c31d75935ba7c6
CREATE TABLE partials ("customer" TEXT, "purchases__n" BIGINT, "variance__count" BIGINT, "variance__high" DECIMAL(38, 0), "variance__low" DECIMAL(38, 0), "variance__high_high" DECIMAL(38, 0), "variance__high_low" DECIMAL(38, 0), "variance__low_low" DECIMAL(38, 0), "deviation__count" BIGINT, "deviation__high" DECIMAL(38, 0), "deviation__low" DECIMAL(38, 0), "deviation__high_high" DECIMAL(38, 0), "deviation__high_low" DECIMAL(38, 0), "deviation__low_low" DECIMAL(38, 0), "last_products__events" STRUCT("by" TIMESTAMPTZ, partition INT, "offset" BIGINT, known BOOLEAN, value TEXT)[], "bought_in_bulk__max" BOOLEAN)
-- view spending_by_customer__favourite, fingerprint dd7cca71b1db1ebf
CREATE TABLE partials ("customer" TEXT, "_cell" TEXT, "favourite__n" BIGINT)
SELECT "customer",
   "purchases" AS "purchases",
   "variance" AS "variance",
   "deviation" AS "deviation",
   "last_products" AS "last_products",
   "favourite" AS "favourite",
   "bought_in_bulk" AS "bought_in_bulk"
FROM (
  SELECT "customer",
     any_value("purchases") AS "purchases",
     any_value("variance") AS "variance",
     any_value("deviation") AS "deviation",
     any_value("last_products") AS "last_products",
     any_value("bought_in_bulk") AS "bought_in_bulk",
     coalesce(any_value("favourite"), NULL) AS "favourite"
  FROM (
    SELECT "customer",
       CAST("purchases__n" AS BIGINT) AS "purchases",
       CAST(CASE WHEN "variance__count" > 1 THEN GREATEST(COALESCE(CAST(TRY(CAST("variance__count" AS INT128) * ((CAST("variance__high_high" AS INT128) - 2 * (((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) // CAST("variance__count" AS INT128)) // 4294967296) * CAST("variance__high" AS INT128) + CAST("variance__count" AS INT128) * (((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) // CAST("variance__count" AS INT128)) // 4294967296) * (((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) // CAST("variance__count" AS INT128)) // 4294967296)) * 4294967296 * 4294967296 + 2 * (CAST("variance__high_low" AS INT128) - (((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) // CAST("variance__count" AS INT128)) // 4294967296) * CAST("variance__low" AS INT128) - (((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) // CAST("variance__count" AS INT128)) - (((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) // CAST("variance__count" AS INT128)) // 4294967296) * 4294967296) * CAST("variance__high" AS INT128) + CAST("variance__count" AS INT128) * (((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) // CAST("variance__count" AS INT128)) // 4294967296) * (((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) // CAST("variance__count" AS INT128)) - (((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) // CAST("variance__count" AS INT128)) // 4294967296) * 4294967296)) * 4294967296 + (CAST("variance__low_low" AS INT128) - 2 * (((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) // CAST("variance__count" AS INT128)) - (((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) // CAST("variance__count" AS INT128)) // 4294967296) * 4294967296) * CAST("variance__low" AS INT128) + CAST("variance__count" AS INT128) * (((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) // CAST("variance__count" AS INT128)) - (((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) // CAST("variance__count" AS INT128)) // 4294967296) * 4294967296) * (((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) // CAST("variance__count" AS INT128)) - (((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) // CAST("variance__count" AS INT128)) // 4294967296) * 4294967296))) - ((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) - CAST("variance__count" AS INT128) * ((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) // CAST("variance__count" AS INT128))) * ((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) - CAST("variance__count" AS INT128) * ((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) // CAST("variance__count" AS INT128)))) AS DOUBLE), (CAST((CAST("variance__high_high" AS INT128) - 2 * (((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) // CAST("variance__count" AS INT128)) // 4294967296) * CAST("variance__high" AS INT128) + CAST("variance__count" AS INT128) * (((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) // CAST("variance__count" AS INT128)) // 4294967296) * (((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) // CAST("variance__count" AS INT128)) // 4294967296)) AS DOUBLE) * CAST(4294967296 AS DOUBLE) * 4294967296 + CAST(2.0 AS DOUBLE) * CAST((CAST("variance__high_low" AS INT128) - (((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) // CAST("variance__count" AS INT128)) // 4294967296) * CAST("variance__low" AS INT128) - (((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) // CAST("variance__count" AS INT128)) - (((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) // CAST("variance__count" AS INT128)) // 4294967296) * 4294967296) * CAST("variance__high" AS INT128) + CAST("variance__count" AS INT128) * (((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) // CAST("variance__count" AS INT128)) // 4294967296) * (((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) // CAST("variance__count" AS INT128)) - (((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) // CAST("variance__count" AS INT128)) // 4294967296) * 4294967296)) AS DOUBLE) * 4294967296 + CAST((CAST("variance__low_low" AS INT128) - 2 * (((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) // CAST("variance__count" AS INT128)) - (((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) // CAST("variance__count" AS INT128)) // 4294967296) * 4294967296) * CAST("variance__low" AS INT128) + CAST("variance__count" AS INT128) * (((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) // CAST("variance__count" AS INT128)) - (((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) // CAST("variance__count" AS INT128)) // 4294967296) * 4294967296) * (((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) // CAST("variance__count" AS INT128)) - (((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) // CAST("variance__count" AS INT128)) // 4294967296) * 4294967296)) AS DOUBLE)) * "variance__count" - POWER(CAST(((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) - CAST("variance__count" AS INT128) * ((CAST("variance__high" AS INT128) * 4294967296 + CAST("variance__low" AS INT128)) // CAST("variance__count" AS INT128))) AS DOUBLE), 2)), 0) / "variance__count" / ("variance__count" - 1) / CAST(10000 AS DOUBLE) END AS DOUBLE) AS "variance",
       CAST(SQRT(CASE WHEN "deviation__count" > 1 THEN GREATEST(COALESCE(CAST(TRY(CAST("deviation__count" AS INT128) * ((CAST("deviation__high_high" AS INT128) - 2 * (((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) // CAST("deviation__count" AS INT128)) // 4294967296) * CAST("deviation__high" AS INT128) + CAST("deviation__count" AS INT128) * (((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) // CAST("deviation__count" AS INT128)) // 4294967296) * (((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) // CAST("deviation__count" AS INT128)) // 4294967296)) * 4294967296 * 4294967296 + 2 * (CAST("deviation__high_low" AS INT128) - (((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) // CAST("deviation__count" AS INT128)) // 4294967296) * CAST("deviation__low" AS INT128) - (((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) // CAST("deviation__count" AS INT128)) - (((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) // CAST("deviation__count" AS INT128)) // 4294967296) * 4294967296) * CAST("deviation__high" AS INT128) + CAST("deviation__count" AS INT128) * (((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) // CAST("deviation__count" AS INT128)) // 4294967296) * (((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) // CAST("deviation__count" AS INT128)) - (((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) // CAST("deviation__count" AS INT128)) // 4294967296) * 4294967296)) * 4294967296 + (CAST("deviation__low_low" AS INT128) - 2 * (((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) // CAST("deviation__count" AS INT128)) - (((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) // CAST("deviation__count" AS INT128)) // 4294967296) * 4294967296) * CAST("deviation__low" AS INT128) + CAST("deviation__count" AS INT128) * (((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) // CAST("deviation__count" AS INT128)) - (((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) // CAST("deviation__count" AS INT128)) // 4294967296) * 4294967296) * (((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) // CAST("deviation__count" AS INT128)) - (((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) // CAST("deviation__count" AS INT128)) // 4294967296) * 4294967296))) - ((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) - CAST("deviation__count" AS INT128) * ((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) // CAST("deviation__count" AS INT128))) * ((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) - CAST("deviation__count" AS INT128) * ((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) // CAST("deviation__count" AS INT128)))) AS DOUBLE), (CAST((CAST("deviation__high_high" AS INT128) - 2 * (((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) // CAST("deviation__count" AS INT128)) // 4294967296) * CAST("deviation__high" AS INT128) + CAST("deviation__count" AS INT128) * (((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) // CAST("deviation__count" AS INT128)) // 4294967296) * (((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) // CAST("deviation__count" AS INT128)) // 4294967296)) AS DOUBLE) * CAST(4294967296 AS DOUBLE) * 4294967296 + CAST(2.0 AS DOUBLE) * CAST((CAST("deviation__high_low" AS INT128) - (((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) // CAST("deviation__count" AS INT128)) // 4294967296) * CAST("deviation__low" AS INT128) - (((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) // CAST("deviation__count" AS INT128)) - (((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) // CAST("deviation__count" AS INT128)) // 4294967296) * 4294967296) * CAST("deviation__high" AS INT128) + CAST("deviation__count" AS INT128) * (((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) // CAST("deviation__count" AS INT128)) // 4294967296) * (((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) // CAST("deviation__count" AS INT128)) - (((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) // CAST("deviation__count" AS INT128)) // 4294967296) * 4294967296)) AS DOUBLE) * 4294967296 + CAST((CAST("deviation__low_low" AS INT128) - 2 * (((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) // CAST("deviation__count" AS INT128)) - (((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) // CAST("deviation__count" AS INT128)) // 4294967296) * 4294967296) * CAST("deviation__low" AS INT128) + CAST("deviation__count" AS INT128) * (((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) // CAST("deviation__count" AS INT128)) - (((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) // CAST("deviation__count" AS INT128)) // 4294967296) * 4294967296) * (((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) // CAST("deviation__count" AS INT128)) - (((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) // CAST("deviation__count" AS INT128)) // 4294967296) * 4294967296)) AS DOUBLE)) * "deviation__count" - POWER(CAST(((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) - CAST("deviation__count" AS INT128) * ((CAST("deviation__high" AS INT128) * 4294967296 + CAST("deviation__low" AS INT128)) // CAST("deviation__count" AS INT128))) AS DOUBLE), 2)), 0) / "deviation__count" / ("deviation__count" - 1) / CAST(10000 AS DOUBLE) END) AS DOUBLE) AS "deviation",
       CAST(LIST_TRANSFORM("last_products__events", LAMBDA e : e.value) AS TEXT[]) AS "last_products",
       CAST("bought_in_bulk__max" AS BOOLEAN) AS "bought_in_bulk"
    FROM (
      SELECT "customer",
         CAST(SUM("purchases__n") AS BIGINT) AS "purchases__n",
         CAST(SUM("variance__count") AS BIGINT) AS "variance__count",
         CAST(SUM("variance__high") AS DECIMAL(38, 0)) AS "variance__high",
         CAST(SUM("variance__low") AS DECIMAL(38, 0)) AS "variance__low",
         CAST(SUM("variance__high_high") AS DECIMAL(38, 0)) AS "variance__high_high",
         CAST(SUM("variance__high_low") AS DECIMAL(38, 0)) AS "variance__high_low",
         CAST(SUM("variance__low_low") AS DECIMAL(38, 0)) AS "variance__low_low",
         CAST(SUM("deviation__count") AS BIGINT) AS "deviation__count",
         CAST(SUM("deviation__high") AS DECIMAL(38, 0)) AS "deviation__high",
         CAST(SUM("deviation__low") AS DECIMAL(38, 0)) AS "deviation__low",
         CAST(SUM("deviation__high_high") AS DECIMAL(38, 0)) AS "deviation__high_high",
         CAST(SUM("deviation__high_low") AS DECIMAL(38, 0)) AS "deviation__high_low",
         CAST(SUM("deviation__low_low") AS DECIMAL(38, 0)) AS "deviation__low_low",
         CAST(list_slice(list_reverse_sort(flatten(list("last_products__events"))), 1, 3) AS STRUCT("by" TIMESTAMPTZ, partition INT, "offset" BIGINT, known BOOLEAN, value TEXT)[]) AS "last_products__events",
         CAST(MAX("bought_in_bulk__max") AS BOOLEAN) AS "bought_in_bulk__max"
      FROM (
        SELECT "customer",
           "purchases__n",
           "variance__count",
           "variance__high",
           "variance__low",
           "variance__high_high",
           "variance__high_low",
           "variance__low_low",
           "deviation__count",
           "deviation__high",
           "deviation__low",
           "deviation__high_high",
           "deviation__high_low",
           "deviation__low_low",
           "last_products__events",
           "bought_in_bulk__max"
        FROM batch.spending_by_customer
        UNION ALL
          SELECT "customer",
             "purchases__n",
             "variance__count",
             "variance__high",
             "variance__low",
             "variance__high_high",
             "variance__high_low",
             "variance__low_low",
             "deviation__count",
             "deviation__high",
             "deviation__low",
             "deviation__high_high",
             "deviation__high_low",
             "deviation__low_low",
             "last_products__events",
             "bought_in_bulk__max"
          FROM speed.spending_by_customer)
      GROUP BY "customer")
    UNION ALL BY NAME
      SELECT "customer",
         CAST(FIRST("_cell" ORDER BY "favourite__n" DESC, "_cell") AS TEXT) AS "favourite"
      FROM (
        SELECT "customer",
           "_cell",
           CAST(SUM("favourite__n") AS BIGINT) AS "favourite__n"
        FROM (
          SELECT "customer",
             "_cell",
             "favourite__n"
          FROM batch.spending_by_customer__favourite
          UNION ALL
            SELECT "customer",
               "_cell",
               "favourite__n"
            FROM speed.spending_by_customer__favourite)
        GROUP BY "customer",
           "_cell")
      GROUP BY "customer")
  GROUP BY "customer")
-- view baskets_by_hour, fingerprint e728d45a4472928e
CREATE TABLE partials ("hour" TIMESTAMPTZ, "purchases__n" BIGINT, "sizes__b0" BIGINT, "sizes__b1" BIGINT, "sizes__b2" BIGINT, "sizes__b3" BIGINT, "sizes__b4" BIGINT)
-- view baskets_by_hour__amounts, fingerprint 0fe4f7a7cf118530
CREATE TABLE partials ("hour" TIMESTAMPTZ, "_cell" INT, "amounts__n" BIGINT)
-- view baskets_by_hour__best_sellers, fingerprint 63751b3917d01a59
CREATE TABLE partials ("hour" TIMESTAMPTZ, "_cell" TEXT, "best_sellers__n" BIGINT)
SELECT "hour",
   CASE WHEN "hour" <= make_timestamptz(253402297199999999) THEN "hour" + to_microseconds(3600000000) END AS "hour_end",
   "purchases" AS "purchases",
   "amounts" AS "amounts",
   "sizes" AS "sizes",
   "best_sellers" AS "best_sellers"
FROM (
  SELECT "hour",
     any_value("purchases") AS "purchases",
     any_value("sizes") AS "sizes",
     coalesce(any_value("amounts"), NULL) AS "amounts",
     coalesce(any_value("best_sellers"), NULL) AS "best_sellers"
  FROM (
    SELECT "hour",
       CAST("purchases__n" AS BIGINT) AS "purchases",
       CAST(["sizes__b0", "sizes__b1", "sizes__b2", "sizes__b3", "sizes__b4"] AS BIGINT[]) AS "sizes"
    FROM (
      SELECT "hour",
         CAST(SUM("purchases__n") AS BIGINT) AS "purchases__n",
         CAST(SUM("sizes__b0") AS BIGINT) AS "sizes__b0",
         CAST(SUM("sizes__b1") AS BIGINT) AS "sizes__b1",
         CAST(SUM("sizes__b2") AS BIGINT) AS "sizes__b2",
         CAST(SUM("sizes__b3") AS BIGINT) AS "sizes__b3",
         CAST(SUM("sizes__b4") AS BIGINT) AS "sizes__b4"
      FROM (
        SELECT "hour",
           "purchases__n",
           "sizes__b0",
           "sizes__b1",
           "sizes__b2",
           "sizes__b3",
           "sizes__b4"
        FROM batch.baskets_by_hour
        UNION ALL
          SELECT "hour",
             "purchases__n",
             "sizes__b0",
             "sizes__b1",
             "sizes__b2",
             "sizes__b3",
             "sizes__b4"
          FROM speed.baskets_by_hour)
      GROUP BY "hour")
    UNION ALL BY NAME
      SELECT "hour",
         CAST([CASE MIN("_cell") FILTER(WHERE "_running" >= GREATEST(1, CEIL(0.5 * "_total"))) WHEN 0 THEN 0 WHEN 1000000 THEN CAST('NaN' AS DOUBLE) WHEN 999999 THEN CAST('Infinity' AS DOUBLE) WHEN -999999 THEN CAST('-Infinity' AS DOUBLE) ELSE SIGN(MIN("_cell") FILTER(WHERE "_running" >= GREATEST(1, CEIL(0.5 * "_total")))) * LEAST(0.9900000000000001 * POWER(CAST(1.02020202020202 AS DOUBLE), ABS(MIN("_cell") FILTER(WHERE "_running" >= GREATEST(1, CEIL(0.5 * "_total")))) - 100000), CAST(1.7976931348623157e+308 AS DOUBLE)) END, CASE MIN("_cell") FILTER(WHERE "_running" >= GREATEST(1, CEIL(0.9 * "_total"))) WHEN 0 THEN 0 WHEN 1000000 THEN CAST('NaN' AS DOUBLE) WHEN 999999 THEN CAST('Infinity' AS DOUBLE) WHEN -999999 THEN CAST('-Infinity' AS DOUBLE) ELSE SIGN(MIN("_cell") FILTER(WHERE "_running" >= GREATEST(1, CEIL(0.9 * "_total")))) * LEAST(0.9900000000000001 * POWER(CAST(1.02020202020202 AS DOUBLE), ABS(MIN("_cell") FILTER(WHERE "_running" >= GREATEST(1, CEIL(0.9 * "_total")))) - 100000), CAST(1.7976931348623157e+308 AS DOUBLE)) END, CASE MIN("_cell") FILTER(WHERE "_running" >= GREATEST(1, CEIL(0.99 * "_total"))) WHEN 0 THEN 0 WHEN 1000000 THEN CAST('NaN' AS DOUBLE) WHEN 999999 THEN CAST('Infinity' AS DOUBLE) WHEN -999999 THEN CAST('-Infinity' AS DOUBLE) ELSE SIGN(MIN("_cell") FILTER(WHERE "_running" >= GREATEST(1, CEIL(0.99 * "_total")))) * LEAST(0.9900000000000001 * POWER(CAST(1.02020202020202 AS DOUBLE), ABS(MIN("_cell") FILTER(WHERE "_running" >= GREATEST(1, CEIL(0.99 * "_total")))) - 100000), CAST(1.7976931348623157e+308 AS DOUBLE)) END] AS DOUBLE[]) AS "amounts"
      FROM (
        SELECT *,
           sum("amounts__n") OVER (PARTITION BY "hour" ORDER BY _cell) AS _running,
           sum("amounts__n") OVER (PARTITION BY "hour") AS _total
        FROM (
          SELECT "hour",
             "_cell",
             CAST(SUM("amounts__n") AS BIGINT) AS "amounts__n"
          FROM (
            SELECT "hour",
               "_cell",
               "amounts__n"
            FROM batch.baskets_by_hour__amounts
            UNION ALL
              SELECT "hour",
                 "_cell",
                 "amounts__n"
              FROM speed.baskets_by_hour__amounts)
          GROUP BY "hour",
             "_cell"))
      GROUP BY "hour"
      UNION ALL BY NAME
        SELECT "hour",
           CAST(LIST_SLICE(ARRAY_AGG({'value': "_cell", 'n': "best_sellers__n"} ORDER BY "best_sellers__n" DESC, "_cell"), 1, 3) AS STRUCT(value TEXT, n BIGINT)[]) AS "best_sellers"
        FROM (
          SELECT "hour",
             "_cell",
             CAST(SUM("best_sellers__n") AS BIGINT) AS "best_sellers__n"
          FROM (
            SELECT "hour",
               "_cell",
               "best_sellers__n"
            FROM batch.baskets_by_hour__best_sellers
            UNION ALL
              SELECT "hour",
                 "_cell",
                 "best_sellers__n"
              FROM speed.baskets_by_hour__best_sellers)
          GROUP BY "hour",
             "_cell")
        GROUP BY "hour")
  GROUP BY "hour")
-- view sales_of_last_hour, fingerprint 2eb70cbd814b0505
CREATE TABLE partials ("product" TEXT, "minute" TIMESTAMPTZ, "purchases__n" BIGINT, "items__sum" DECIMAL(38, 0), "revenue__high" DECIMAL(38, 0), "revenue__low" DECIMAL(38, 2))
SELECT "product",
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
    SELECT * REPLACE (NULL::TIMESTAMPTZ AS "minute")
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
    WHERE "minute" BETWEEN now() - to_microseconds(3600000000) AND now())
  GROUP BY "product",
     "minute")
