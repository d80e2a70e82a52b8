-- stream shipments, fingerprint 0f3bac7d12870f15
SELECT _partition,
   _offset,
   _fits,
   IF(_fits, NULL, regexp_replace(CASE WHEN _value IS NULL THEN 'tombstone' WHEN octet_length(_value) > 1000000 THEN concat('oversized: ', octet_length(_value), ' bytes, at most 1000000') ELSE CASE WHEN NOT is_valid_utf8(cast(_value AS string)) THEN 'invalid UTF-8' WHEN try_parse_json(cast(_value AS string)) IS NULL OR NOT coalesce(startswith(get_json_object(cast(_value AS string), '$'), '{'), false) THEN 'broken JSON: must be one JSON object' WHEN NOT _is_whole THEN 'broken JSON: must be one JSON object, with nothing after it' WHEN _event IS NULL THEN 'wrong type: a number must have an exponent of at most 3 digits,' || ' at most 1000 characters, and no comma' WHEN _event._corrupt IS NOT NULL OR concat_ws('; ', transform(filter(array(IF(_event.`id` IS NULL, named_struct('rule', 'id must be string, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["id"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF((_event.`size` IS NULL OR NOT coalesce((_event.`size` IS NULL OR try_cast(_event.`size` AS tinyint) BETWEEN -128 AND 127), false)), named_struct('rule', 'size must be tinyint, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["size"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF(_event.`amount` IS NULL, named_struct('rule', 'amount must be decimal(12,2), got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["amount"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF((_event.`meta`.`seen`.`at` IS NULL OR NOT coalesce((_event.`meta`.`seen`.`at` IS NULL OR `_typed_seen` BETWEEN TIMESTAMP'0001-01-01T00:00:00Z' AND TIMESTAMP'9999-12-31T23:59:59.999999Z'), false)), named_struct('rule', 'seen (meta.seen.at) must be timestamp, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["meta"]["seen"]["at"]', 'variant'), 'instead', CASE WHEN NOT is_variant_null(variant_get(try_parse_json(cast(_value AS string)), '$["meta"]', 'variant')) AND NOT startswith(schema_of_variant(variant_get(try_parse_json(cast(_value AS string)), '$["meta"]', 'variant')), 'OBJECT') THEN 'meta, which is no object' WHEN NOT is_variant_null(variant_get(try_parse_json(cast(_value AS string)), '$["meta"]["seen"]', 'variant')) AND NOT startswith(schema_of_variant(variant_get(try_parse_json(cast(_value AS string)), '$["meta"]["seen"]', 'variant')), 'OBJECT') THEN 'seen, which is no object' WHEN schema_of_variant(variant_get(try_parse_json(cast(_value AS string)), '$["meta"]["seen"]["at"]', 'variant')) <> 'STRING' AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["meta"]["seen"]["at"]', 'variant'), '$', 'double') > 253402300800 THEN concat(substring(to_json(variant_get(try_parse_json(cast(_value AS string)), '$["meta"]["seen"]["at"]', 'variant')), 1, 40), ', and a number is in seconds: are these milliseconds?') END), NULL), IF((_event.`lines` IS NULL OR coalesce(exists(_event.`lines`, x0 -> ((x0.`from` IS NOT NULL AND NOT coalesce(substring(x0.`from`, 5, 1) = '-' AND try_cast(x0.`from` AS date) IS NOT NULL AND try_cast(x0.`from` AS timestamp) BETWEEN TIMESTAMP'0001-01-01T00:00:00Z' AND TIMESTAMP'9999-12-31T23:59:59.999999Z', false)) OR (x0.`until` IS NOT NULL AND NOT coalesce(substring(x0.`until`, 5, 1) = '-' AND try_cast(x0.`until` AS date) IS NOT NULL AND try_cast(x0.`until` AS timestamp) BETWEEN TIMESTAMP'0001-01-01T00:00:00Z' AND TIMESTAMP'9999-12-31T23:59:59.999999Z', false)) OR coalesce(exists(x0.`sizes`, x1 -> (x1 IS NOT NULL AND NOT coalesce(try_cast(x1 AS tinyint) BETWEEN -128 AND 127, false))), false))), false)), named_struct('rule', 'lines must be array<struct<sku:string,price:decimal(8,2),paid:decimal(8,2),from:timestamp,until:timestamp,sizes:array<tinyint>>>, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["lines"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF((_event.`counts` IS NULL OR coalesce(exists(map_values(_event.`counts`), x0 -> coalesce(exists(x0, x1 -> (x1 IS NOT NULL AND NOT coalesce(try_cast(x1 AS tinyint) BETWEEN -128 AND 127, false))), false)), false)), named_struct('rule', 'counts must be map<string,array<tinyint>>, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["counts"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF(_event.`note` IS NULL, named_struct('rule', 'note must be struct<text:string>, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["note"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF((_event.`at` IS NULL OR NOT coalesce((_event.`at` IS NULL OR `_typed_at` BETWEEN TIMESTAMP'0001-01-01T00:00:00Z' AND TIMESTAMP'9999-12-31T23:59:59.999999Z'), false)), named_struct('rule', 'at must be timestamp, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["at"]', 'variant'), 'instead', CASE WHEN schema_of_variant(variant_get(try_parse_json(cast(_value AS string)), '$["at"]', 'variant')) <> 'STRING' AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["at"]', 'variant'), '$', 'double') > 253402300800 THEN concat(substring(to_json(variant_get(try_parse_json(cast(_value AS string)), '$["at"]', 'variant')), 1, 40), ', and a number is in seconds: are these milliseconds?') END), NULL)), x -> x.instead IS NOT NULL OR NOT is_variant_null(x.got)), x -> concat(x.rule, coalesce(x.instead, IF(schema_of_variant(x.got) = 'STRING', concat('"', substring(cast(x.got AS string), 1, 40), '"'), substring(to_json(x.got), 1, 40)))))) <> '' THEN regexp_replace(concat('wrong type: ', concat_ws('; ', transform(filter(array(IF(_event.`id` IS NULL, named_struct('rule', 'id must be string, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["id"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF((_event.`size` IS NULL OR NOT coalesce((_event.`size` IS NULL OR try_cast(_event.`size` AS tinyint) BETWEEN -128 AND 127), false)), named_struct('rule', 'size must be tinyint, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["size"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF(_event.`amount` IS NULL, named_struct('rule', 'amount must be decimal(12,2), got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["amount"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF((_event.`meta`.`seen`.`at` IS NULL OR NOT coalesce((_event.`meta`.`seen`.`at` IS NULL OR `_typed_seen` BETWEEN TIMESTAMP'0001-01-01T00:00:00Z' AND TIMESTAMP'9999-12-31T23:59:59.999999Z'), false)), named_struct('rule', 'seen (meta.seen.at) must be timestamp, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["meta"]["seen"]["at"]', 'variant'), 'instead', CASE WHEN NOT is_variant_null(variant_get(try_parse_json(cast(_value AS string)), '$["meta"]', 'variant')) AND NOT startswith(schema_of_variant(variant_get(try_parse_json(cast(_value AS string)), '$["meta"]', 'variant')), 'OBJECT') THEN 'meta, which is no object' WHEN NOT is_variant_null(variant_get(try_parse_json(cast(_value AS string)), '$["meta"]["seen"]', 'variant')) AND NOT startswith(schema_of_variant(variant_get(try_parse_json(cast(_value AS string)), '$["meta"]["seen"]', 'variant')), 'OBJECT') THEN 'seen, which is no object' WHEN schema_of_variant(variant_get(try_parse_json(cast(_value AS string)), '$["meta"]["seen"]["at"]', 'variant')) <> 'STRING' AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["meta"]["seen"]["at"]', 'variant'), '$', 'double') > 253402300800 THEN concat(substring(to_json(variant_get(try_parse_json(cast(_value AS string)), '$["meta"]["seen"]["at"]', 'variant')), 1, 40), ', and a number is in seconds: are these milliseconds?') END), NULL), IF((_event.`lines` IS NULL OR coalesce(exists(_event.`lines`, x0 -> ((x0.`from` IS NOT NULL AND NOT coalesce(substring(x0.`from`, 5, 1) = '-' AND try_cast(x0.`from` AS date) IS NOT NULL AND try_cast(x0.`from` AS timestamp) BETWEEN TIMESTAMP'0001-01-01T00:00:00Z' AND TIMESTAMP'9999-12-31T23:59:59.999999Z', false)) OR (x0.`until` IS NOT NULL AND NOT coalesce(substring(x0.`until`, 5, 1) = '-' AND try_cast(x0.`until` AS date) IS NOT NULL AND try_cast(x0.`until` AS timestamp) BETWEEN TIMESTAMP'0001-01-01T00:00:00Z' AND TIMESTAMP'9999-12-31T23:59:59.999999Z', false)) OR coalesce(exists(x0.`sizes`, x1 -> (x1 IS NOT NULL AND NOT coalesce(try_cast(x1 AS tinyint) BETWEEN -128 AND 127, false))), false))), false)), named_struct('rule', 'lines must be array<struct<sku:string,price:decimal(8,2),paid:decimal(8,2),from:timestamp,until:timestamp,sizes:array<tinyint>>>, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["lines"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF((_event.`counts` IS NULL OR coalesce(exists(map_values(_event.`counts`), x0 -> coalesce(exists(x0, x1 -> (x1 IS NOT NULL AND NOT coalesce(try_cast(x1 AS tinyint) BETWEEN -128 AND 127, false))), false)), false)), named_struct('rule', 'counts must be map<string,array<tinyint>>, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["counts"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF(_event.`note` IS NULL, named_struct('rule', 'note must be struct<text:string>, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["note"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF((_event.`at` IS NULL OR NOT coalesce((_event.`at` IS NULL OR `_typed_at` BETWEEN TIMESTAMP'0001-01-01T00:00:00Z' AND TIMESTAMP'9999-12-31T23:59:59.999999Z'), false)), named_struct('rule', 'at must be timestamp, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["at"]', 'variant'), 'instead', CASE WHEN schema_of_variant(variant_get(try_parse_json(cast(_value AS string)), '$["at"]', 'variant')) <> 'STRING' AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["at"]', 'variant'), '$', 'double') > 253402300800 THEN concat(substring(to_json(variant_get(try_parse_json(cast(_value AS string)), '$["at"]', 'variant')), 1, 40), ', and a number is in seconds: are these milliseconds?') END), NULL)), x -> x.instead IS NOT NULL OR NOT is_variant_null(x.got)), x -> concat(x.rule, coalesce(x.instead, IF(schema_of_variant(x.got) = 'STRING', concat('"', substring(cast(x.got AS string), 1, 40), '"'), substring(to_json(x.got), 1, 40))))))), '^wrong type: $', 'wrong type: inside of an array, struct or map') ELSE concat('missing field: ', concat_ws(', ', IF(_event.`id` IS NULL, 'id', NULL), IF(_event.`at` IS NULL, 'at', NULL))) END END, '(?s)^(.{255}).+$', '$1...')) AS _reject,
   IF(_fits, _event.`id`, NULL) AS `id`,
   IF(_fits, try_cast(_event.`size` AS tinyint), NULL) AS `size`,
   IF(_fits, _event.`amount`, NULL) AS `amount`,
   IF(_fits, `_typed_seen`, NULL) AS `seen`,
   IF(_fits, try_cast(_event.`lines` AS array<struct<sku:string,price:decimal(8,2),paid:decimal(8,2),from:timestamp,until:timestamp,sizes:array<tinyint>>>), NULL) AS `lines`,
   IF(_fits, try_cast(_event.`counts` AS map<string,array<tinyint>>), NULL) AS `counts`,
   IF(_fits, _event.`note`, NULL) AS `note`,
   IF(_fits, `_typed_at`, NULL) AS `at`
FROM (
  SELECT *,
     coalesce(_value IS NOT NULL AND octet_length(_value) <= 1000000 AND _is_whole AND _event IS NOT NULL AND _event._corrupt IS NULL AND (_event.`size` IS NULL OR try_cast(_event.`size` AS tinyint) BETWEEN -128 AND 127) AND (_event.`meta`.`seen`.`at` IS NULL OR `_typed_seen` BETWEEN TIMESTAMP'0001-01-01T00:00:00Z' AND TIMESTAMP'9999-12-31T23:59:59.999999Z') AND (_event.`at` IS NULL OR `_typed_at` BETWEEN TIMESTAMP'0001-01-01T00:00:00Z' AND TIMESTAMP'9999-12-31T23:59:59.999999Z') AND NOT coalesce(exists(_event.`lines`, x0 -> ((x0.`from` IS NOT NULL AND NOT coalesce(substring(x0.`from`, 5, 1) = '-' AND try_cast(x0.`from` AS date) IS NOT NULL AND try_cast(x0.`from` AS timestamp) BETWEEN TIMESTAMP'0001-01-01T00:00:00Z' AND TIMESTAMP'9999-12-31T23:59:59.999999Z', false)) OR (x0.`until` IS NOT NULL AND NOT coalesce(substring(x0.`until`, 5, 1) = '-' AND try_cast(x0.`until` AS date) IS NOT NULL AND try_cast(x0.`until` AS timestamp) BETWEEN TIMESTAMP'0001-01-01T00:00:00Z' AND TIMESTAMP'9999-12-31T23:59:59.999999Z', false)) OR coalesce(exists(x0.`sizes`, x1 -> (x1 IS NOT NULL AND NOT coalesce(try_cast(x1 AS tinyint) BETWEEN -128 AND 127, false))), false))), false) AND NOT coalesce(exists(map_values(_event.`counts`), x0 -> coalesce(exists(x0, x1 -> (x1 IS NOT NULL AND NOT coalesce(try_cast(x1 AS tinyint) BETWEEN -128 AND 127, false))), false)), false) AND _event.`id` IS NOT NULL AND _event.`at` IS NOT NULL, false) AS _fits
  FROM (
    SELECT *,
       CASE WHEN substring(_event.`meta`.`seen`.`at`, 5, 1) = '-' AND try_cast(_event.`meta`.`seen`.`at` AS date) IS NOT NULL THEN try_cast(_event.`meta`.`seen`.`at` AS timestamp) WHEN _event.`meta`.`seen`.`at` IS NOT NULL THEN coalesce(cast(from_json(cast(_value AS string), '`meta` struct<`seen` struct<`at` bigint>>').`meta`.`seen`.`at` AS timestamp), CASE WHEN from_json(cast(_value AS string), '`meta` struct<`seen` struct<`at` double>>').`meta`.`seen`.`at` BETWEEN -62135596800 AND 253402300800 THEN timestamp_micros(cast(round(from_json(cast(_value AS string), '`meta` struct<`seen` struct<`at` double>>').`meta`.`seen`.`at` * 1000000) AS bigint)) END) END AS `_typed_seen`,
       CASE WHEN substring(_event.`at`, 5, 1) = '-' AND try_cast(_event.`at` AS date) IS NOT NULL THEN try_cast(_event.`at` AS timestamp) WHEN _event.`at` IS NOT NULL THEN coalesce(cast(from_json(cast(_value AS string), '`at` bigint').`at` AS timestamp), CASE WHEN from_json(cast(_value AS string), '`at` double').`at` BETWEEN -62135596800 AND 253402300800 THEN timestamp_micros(cast(round(from_json(cast(_value AS string), '`at` double').`at` * 1000000) AS bigint)) END) END AS `_typed_at`
    FROM (
      SELECT *,
         _value IS NOT NULL AND octet_length(_value) <= 1000000 AND is_valid_utf8(cast(_value AS string)) AND ((startswith(_value, X'7B') AND NOT contains(substring(_value, 1, octet_length(_value) - 1), X'7D')) OR coalesce((size(from_json(concat('[', cast(_value AS string), ']'), 'array<struct<>>')) = 1 AND size(from_json(concat('{"_":', cast(_value AS string), '}'), 'map<string, struct<>>')) = 1), false)) AS _is_whole,
         from_json(IF(octet_length(_value) <= 1000000 AND (octet_length(_value) <= 1000 AND NOT cast(_value AS string) RLIKE '[eE\\\\](?:[-+]?\\p{Nd}{4}|u)|\\"[-+.]*+\\p{Nd}[-+.eE\\p{Nd}]*+,|[\\s:,\\[]\\",[-+.,\\p{Nd}]' OR NOT cast(_value AS string) RLIKE '[\\s\\":,\\[](?:[-+.\\p{Nd}]*+[eE][-+]?\\p{Nd}{4}|[-+.eE\\p{Nd}]*+\\\\u(?:00[2346]|0[6-9a-fA-F]|1|[aA]|[fF]{2}))|\\"[-+.\\p{Nd}]{1000}|\\"[-+.]*+\\p{Nd}[-+.eE\\p{Nd}]*+,|[\\s:,\\[]\\",[-+.,\\p{Nd}]' OR (startswith(ltrim(cast(_value AS string)), '{') AND try_parse_json(regexp_replace(cast(_value AS string), '(?<=[\\s:,\\[])[-+]?(?:NaN|INF|Infinity)(?=[\\s,\\]}])', '0')) IS NOT NULL AND NOT regexp_replace(regexp_replace(cast(_value AS string), '\\\\.', ''), '"[^"]*+"', '') RLIKE '[eE][-+]?\\p{Nd}{4}' AND NOT (coalesce(length(from_json(cast(_value AS string), '`amount` string, `lines` array<struct<sku:string,price:string,paid:string,from:timestamp,until:timestamp,sizes:array<tinyint>>>').`amount`) > 1000 OR from_json(cast(_value AS string), '`amount` string, `lines` array<struct<sku:string,price:string,paid:string,from:timestamp,until:timestamp,sizes:array<tinyint>>>').`amount` RLIKE '[eE][-+]?\\p{Nd}{4}' OR contains(from_json(cast(_value AS string), '`amount` string, `lines` array<struct<sku:string,price:string,paid:string,from:timestamp,until:timestamp,sizes:array<tinyint>>>').`amount`, ','), false) OR coalesce(exists(from_json(cast(_value AS string), '`amount` string, `lines` array<struct<sku:string,price:string,paid:string,from:timestamp,until:timestamp,sizes:array<tinyint>>>').`lines`, x0 -> (coalesce(length(x0.`price`) > 1000 OR x0.`price` RLIKE '[eE][-+]?\\p{Nd}{4}' OR contains(x0.`price`, ','), false) OR coalesce(length(x0.`paid`) > 1000 OR x0.`paid` RLIKE '[eE][-+]?\\p{Nd}{4}' OR contains(x0.`paid`, ','), false))), false)))), cast(_value AS string), NULL), '`id` string, `size` smallint, `amount` decimal(12,2), `meta` struct<`seen` struct<`at` string>>, `lines` array<struct<sku:string,price:decimal(8,2),paid:decimal(8,2),from:string,until:string,sizes:array<smallint>>>, `counts` map<string,array<smallint>>, `note` struct<text:string>, `at` string, `_corrupt` string', map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '_corrupt', 'timeZone', 'UTC', 'enableDateTimeParsingFallback', 'false')) AS _event
      FROM records) AS parsed_1) AS parsed_2) AS placed
-- pass 1 over shipments: by_size, by_day
SELECT cast(_group DIV 2 AS int) AS _tick,
   _group % 2 AS _set,
   _k0,
   _k1,
   _events,
   _oldest,
   _newest,
   cast(_s0 AS bigint) AS _s0,
   cast(_s1 AS decimal(38,2)) AS _s1,
   cast(_s2 AS bigint) AS _s2,
   cast(_s3 AS bigint) AS _s3,
   cast(_s4 AS struct<by:timestamp,partition:int,offset:bigint,known:boolean,value:string>) AS _s4,
   cast(_s5 AS decimal(12,2)) AS _s5,
   cast(_s6 AS bigint) AS _s6
FROM (
  SELECT _group,
     _k0,
     _k1,
     count(1) AS _events,
     min(_timestamp) AS _oldest,
     max(_timestamp) AS _newest,
     COUNT(1) FILTER(WHERE `_i0`) AS _s0,
     SUM(CAST(`_i1` AS DECIMAL(38, 2))) FILTER(WHERE `_i2`) AS _s1,
     SUM(CAST(`_i3` AS BIGINT)) FILTER(WHERE `_i0`) AS _s2,
     COUNT(`_i3`) FILTER(WHERE `_i0`) AS _s3,
     MAX(IF(`_i5` IS NULL, NULL, STRUCT(`_i5` AS by, _partition AS partition, _offset AS offset, NOT `_i4` IS NULL AS known, `_i4` AS value))) FILTER(WHERE `_i0`) AS _s4,
     MIN(`_i1`) AS _s5,
     COUNT(`_i4`) AS _s6
  FROM (
    SELECT _tick * 2 + _set AS _group,
       _partition,
       _offset,
       _timestamp,
       _i0,
       _i1,
       _i2,
       _i3,
       _i4,
       _i5,
       IF(_set IN (0, 1), _k0, NULL) AS _k0,
       IF(_set IN (1), _k1, NULL) AS _k1
    FROM (
      SELECT *,
         explode(array(0, 1)) AS _set
      FROM (
        SELECT _tick,
           _partition,
           _offset,
           _timestamp,
           size AS _k0,
           timestamp_micros(unix_micros(cast(seen as timestamp)) - pmod(unix_micros(cast(seen as timestamp)), 86400000000L)) AS _k1,
           try_cast((amount is not null) as boolean) AS _i0,
           amount AS _i1,
           (try_cast((amount is not null) as boolean)) and (try_cast((size > 0) as boolean)) AS _i2,
           size AS _i3,
           id AS _i4,
           at AS _i5
        FROM events)))
  GROUP BY _group,
     _k0,
     _k1)
-- view by_size, fingerprint ca769f047fb544eb
CREATE TABLE partials ("size" TINYINT, "n__n" BIGINT, "amount__sum" DECIMAL(38, 2), "mean_size__sum" BIGINT, "mean_size__count" BIGINT, "last_id__event" STRUCT("by" TIMESTAMPTZ, partition INT, "offset" BIGINT, known BOOLEAN, value TEXT))
SELECT "size",
   CAST("n__n" AS BIGINT) AS "n",
   CAST(TRY_CAST("amount__sum" AS DECIMAL(38, 2)) AS DECIMAL(38, 2)) AS "amount",
   CAST(CAST("mean_size__sum" AS DOUBLE) / NULLIF("mean_size__count", 0) AS DOUBLE) AS "mean_size",
   CAST(("last_id__event")."value" AS TEXT) AS "last_id"
FROM (
  SELECT "size",
     CAST(SUM("n__n") AS BIGINT) AS "n__n",
     CAST(SUM("amount__sum") AS DECIMAL(38, 2)) AS "amount__sum",
     CAST(SUM("mean_size__sum") AS BIGINT) AS "mean_size__sum",
     CAST(SUM("mean_size__count") AS BIGINT) AS "mean_size__count",
     CAST(MAX("last_id__event") AS STRUCT("by" TIMESTAMPTZ, partition INT, "offset" BIGINT, known BOOLEAN, value TEXT)) AS "last_id__event"
  FROM (
    SELECT "size",
       "n__n",
       "amount__sum",
       "mean_size__sum",
       "mean_size__count",
       "last_id__event"
    FROM batch
    UNION ALL
      SELECT "size",
         "n__n",
         "amount__sum",
         "mean_size__sum",
         "mean_size__count",
         "last_id__event"
      FROM speed)
  GROUP BY "size")
-- view by_day, fingerprint 2b137ef6641cf477
CREATE TABLE partials ("day" TIMESTAMPTZ, "size" TINYINT, "least__min" DECIMAL(12, 2), "rows__n" BIGINT)
SELECT "day",
   CASE WHEN "day" <= make_timestamptz(253402214399999999) THEN "day" + to_microseconds(86400000000) END AS "day_end",
   "size",
   CAST("least__min" AS DECIMAL(12, 2)) AS "least",
   CAST("rows__n" AS BIGINT) AS "rows"
FROM (
  SELECT "day",
     "size",
     CAST(MIN("least__min") AS DECIMAL(12, 2)) AS "least__min",
     CAST(SUM("rows__n") AS BIGINT) AS "rows__n"
  FROM (
    SELECT "day",
       "size",
       "least__min",
       "rows__n"
    FROM batch
    UNION ALL
      SELECT "day",
         "size",
         "least__min",
         "rows__n"
      FROM speed)
  GROUP BY "day",
     "size")
