-- stream paid, fingerprint e9e96693d6522e88
SELECT _partition,
   _offset,
   _fits,
   IF(_fits, NULL, regexp_replace(CASE WHEN _value IS NULL THEN 'tombstone' WHEN octet_length(_value) > 1000000 THEN concat('oversized: ', octet_length(_value), ' bytes, at most 1000000') ELSE CASE WHEN NOT is_valid_utf8(cast(_value AS string)) THEN 'invalid UTF-8' WHEN startswith(_value, X'efbbbf') THEN 'broken JSON: must be one JSON object, without a byte order mark before it' WHEN startswith(_value, X'7b27') THEN 'broken JSON: must be one JSON object, with double quotes in place of single ones' WHEN try_parse_json(cast(_value AS string)) IS NULL OR NOT coalesce(startswith(get_json_object(cast(_value AS string), '$'), '{'), false) THEN 'broken JSON: must be one JSON object' WHEN NOT _is_whole THEN 'broken JSON: must be one JSON object, with nothing after it' WHEN _event IS NULL THEN 'wrong type: a number must have an exponent of at most 3 digits,' || ' at most 1000 characters, and no comma' WHEN _event._corrupt IS NOT NULL OR concat_ws('; ', transform(filter(array(IF(_event.`who` IS NULL, named_struct('rule', 'who must be string, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["who"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF(_event.`amount` IS NULL, named_struct('rule', 'amount must be decimal(12,2), got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["amount"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF((_event.`at` IS NULL OR NOT coalesce((_event.`at` IS NULL OR `_typed_at` BETWEEN TIMESTAMP'0001-01-01T00:00:00Z' AND TIMESTAMP'9999-12-31T23:59:59.999999Z'), false)), named_struct('rule', 'at must be timestamp, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["at"]', 'variant'), 'instead', CASE WHEN schema_of_variant(variant_get(try_parse_json(cast(_value AS string)), '$["at"]', 'variant')) <> 'STRING' AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["at"]', 'variant'), '$', 'double') > 253402300800 AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["at"]', 'variant'), '$', 'double') <= 253402300800000 THEN concat(substring(to_json(variant_get(try_parse_json(cast(_value AS string)), '$["at"]', 'variant')), 1, 40), ', and a number is in seconds: declare `at timestamp in milliseconds` if these are milliseconds') WHEN schema_of_variant(variant_get(try_parse_json(cast(_value AS string)), '$["at"]', 'variant')) <> 'STRING' AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["at"]', 'variant'), '$', 'double') > 253402300800 AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["at"]', 'variant'), '$', 'double') <= 253402300800000000 THEN concat(substring(to_json(variant_get(try_parse_json(cast(_value AS string)), '$["at"]', 'variant')), 1, 40), ', and a number is in seconds: declare `at timestamp in microseconds` if these are microseconds') WHEN schema_of_variant(variant_get(try_parse_json(cast(_value AS string)), '$["at"]', 'variant')) <> 'STRING' AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["at"]', 'variant'), '$', 'double') > 253402300800 AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["at"]', 'variant'), '$', 'double') <= 253402300800000000000 THEN concat(substring(to_json(variant_get(try_parse_json(cast(_value AS string)), '$["at"]', 'variant')), 1, 40), ', and a number is in seconds: declare `at timestamp in nanoseconds` if these are nanoseconds') END), NULL)), x -> x.instead IS NOT NULL OR NOT is_variant_null(x.got)), x -> concat(x.rule, coalesce(x.instead, IF(schema_of_variant(x.got) = 'STRING', concat('"', substring(cast(x.got AS string), 1, 40), '"'), substring(to_json(x.got), 1, 40)))))) <> '' THEN regexp_replace(concat('wrong type: ', concat_ws('; ', transform(filter(array(IF(_event.`who` IS NULL, named_struct('rule', 'who must be string, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["who"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF(_event.`amount` IS NULL, named_struct('rule', 'amount must be decimal(12,2), got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["amount"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF((_event.`at` IS NULL OR NOT coalesce((_event.`at` IS NULL OR `_typed_at` BETWEEN TIMESTAMP'0001-01-01T00:00:00Z' AND TIMESTAMP'9999-12-31T23:59:59.999999Z'), false)), named_struct('rule', 'at must be timestamp, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["at"]', 'variant'), 'instead', CASE WHEN schema_of_variant(variant_get(try_parse_json(cast(_value AS string)), '$["at"]', 'variant')) <> 'STRING' AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["at"]', 'variant'), '$', 'double') > 253402300800 AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["at"]', 'variant'), '$', 'double') <= 253402300800000 THEN concat(substring(to_json(variant_get(try_parse_json(cast(_value AS string)), '$["at"]', 'variant')), 1, 40), ', and a number is in seconds: declare `at timestamp in milliseconds` if these are milliseconds') WHEN schema_of_variant(variant_get(try_parse_json(cast(_value AS string)), '$["at"]', 'variant')) <> 'STRING' AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["at"]', 'variant'), '$', 'double') > 253402300800 AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["at"]', 'variant'), '$', 'double') <= 253402300800000000 THEN concat(substring(to_json(variant_get(try_parse_json(cast(_value AS string)), '$["at"]', 'variant')), 1, 40), ', and a number is in seconds: declare `at timestamp in microseconds` if these are microseconds') WHEN schema_of_variant(variant_get(try_parse_json(cast(_value AS string)), '$["at"]', 'variant')) <> 'STRING' AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["at"]', 'variant'), '$', 'double') > 253402300800 AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["at"]', 'variant'), '$', 'double') <= 253402300800000000000 THEN concat(substring(to_json(variant_get(try_parse_json(cast(_value AS string)), '$["at"]', 'variant')), 1, 40), ', and a number is in seconds: declare `at timestamp in nanoseconds` if these are nanoseconds') END), NULL)), x -> x.instead IS NOT NULL OR NOT is_variant_null(x.got)), x -> concat(x.rule, coalesce(x.instead, IF(schema_of_variant(x.got) = 'STRING', concat('"', substring(cast(x.got AS string), 1, 40), '"'), substring(to_json(x.got), 1, 40))))))), '^wrong type: $', 'wrong type: inside of an array, struct or map') ELSE concat('missing field: ', concat_ws(', ', IF(_event.`at` IS NULL, 'at', NULL))) END END, '(?s)^(.{255}).+$', '$1...')) AS _reject,
   IF(_fits, _event.`who`, NULL) AS `who`,
   IF(_fits, _event.`amount`, NULL) AS `amount`,
   IF(_fits, `_typed_at`, NULL) AS `at`
FROM (
  SELECT *,
     coalesce(_value IS NOT NULL AND octet_length(_value) <= 1000000 AND _is_whole AND _event IS NOT NULL AND _event._corrupt IS NULL AND (_event.`at` IS NULL OR `_typed_at` BETWEEN TIMESTAMP'0001-01-01T00:00:00Z' AND TIMESTAMP'9999-12-31T23:59:59.999999Z') AND _event.`at` IS NOT NULL, false) AS _fits
  FROM (
    SELECT *,
       coalesce(coalesce(CASE WHEN substring(_event.`at`, 5, 1) = '-' AND try_cast(_event.`at` AS date) IS NOT NULL THEN try_cast(_event.`at` AS timestamp) END, CASE WHEN _event.`at` RLIKE '^(?:(\\d{4})-(\\d\\d)-(\\d\\d)[Tt ](\\d\\d)(?::(\\d\\d)(?::(\\d\\d)(?:[.,](\\d+))?)?)?|(\\d{4})(\\d\\d)(\\d\\d)[Tt](\\d\\d)(?:(\\d\\d)(?:(\\d\\d)(?:[.,](\\d+))?)?)?)(?: ?([Zz]|[-+]\\d\\d(?::?\\d\\d(?::?\\d\\d)?)?)(?:\\[[A-Za-z0-9_+/:-]+\\]|(?: [A-Z]{3,5}| [-+]\\d\\d(?:\\d\\d)?)?(?: m=[-+][0-9.]+)?))?$' THEN try_cast(upper(replace(replace(regexp_replace(_event.`at`, '^(?:(\\d{4})-(\\d\\d)-(\\d\\d)[Tt ](\\d\\d)(?::(\\d\\d)(?::(\\d\\d)(?:[.,](\\d+))?)?)?|(\\d{4})(\\d\\d)(\\d\\d)[Tt](\\d\\d)(?:(\\d\\d)(?:(\\d\\d)(?:[.,](\\d+))?)?)?)(?: ?([Zz]|[-+]\\d\\d(?::?\\d\\d(?::?\\d\\d)?)?)(?:\\[[A-Za-z0-9_+/:-]+\\]|(?: [A-Z]{3,5}| [-+]\\d\\d(?:\\d\\d)?)?(?: m=[-+][0-9.]+)?))?$', '$1$8-$2$9-$3$10T$4$11:$5$12#:$6$13#.$7$14$15'), ':#', ':00'), '#', '')) AS timestamp) END), CASE WHEN _event.`at` IS NOT NULL THEN coalesce(cast(from_json(cast(_value AS string), '`at` bigint').`at` AS timestamp), CASE WHEN from_json(cast(_value AS string), '`at` double').`at` BETWEEN -62135596800 AND 253402300800 THEN timestamp_micros(cast(round(from_json(cast(_value AS string), '`at` double').`at` * 1000000) AS bigint)) END) END) AS `_typed_at`
    FROM (
      SELECT *,
         _value IS NOT NULL AND octet_length(_value) <= 1000000 AND is_valid_utf8(cast(_value AS string)) AND ((startswith(_value, X'7B') AND NOT contains(substring(_value, 1, octet_length(_value) - 1), X'7D')) OR coalesce((size(from_json(concat('[', cast(_value AS string), ']'), 'array<struct<>>')) = 1 AND size(from_json(concat('{"_":', cast(_value AS string), '}'), 'map<string, struct<>>')) = 1), false)) AS _is_whole,
         from_json(IF(octet_length(_value) <= 1000000 AND (octet_length(_value) <= 1000 AND NOT cast(_value AS string) RLIKE '[eE\\\\](?:[-+]?\\p{Nd}{4}|u)|\\"[-+.]*+\\p{Nd}[-+.eE\\p{Nd}]*+,|[\\s:,\\[]\\",[-+.,\\p{Nd}]' OR NOT cast(_value AS string) RLIKE '[\\s\\":,\\[](?:[-+.\\p{Nd}]*+[eE][-+]?\\p{Nd}{4}|[-+.eE\\p{Nd}]*+\\\\u(?:00[2346]|0[6-9a-fA-F]|1|[aA]|[fF]{2}))|\\"[-+.\\p{Nd}]{1000}|\\"[-+.]*+\\p{Nd}[-+.eE\\p{Nd}]*+,|[\\s:,\\[]\\",[-+.,\\p{Nd}]' OR (startswith(ltrim(cast(_value AS string)), '{') AND try_parse_json(regexp_replace(cast(_value AS string), '(?<=[\\s:,\\[])[-+]?(?:NaN|INF|Infinity)(?=[\\s,\\]}])', '0')) IS NOT NULL AND NOT regexp_replace(regexp_replace(cast(_value AS string), '\\\\.', ''), '"[^"]*+"', '') RLIKE '[eE][-+]?\\p{Nd}{4}' AND NOT (coalesce(length(from_json(cast(_value AS string), '`amount` string').`amount`) > 1000 OR from_json(cast(_value AS string), '`amount` string').`amount` RLIKE '[eE][-+]?\\p{Nd}{4}' OR contains(from_json(cast(_value AS string), '`amount` string').`amount`, ','), false)))), cast(_value AS string), NULL), '`who` string, `amount` decimal(12,2), `at` string, `_corrupt` string', map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '_corrupt', 'timeZone', 'UTC', 'enableDateTimeParsingFallback', 'false', 'allowSingleQuotes', 'false')) AS _event
      FROM records) AS parsed_1) AS parsed_3) AS placed
-- pass 1 over paid: sessions, last_hour, last_hour__amounts
SELECT cast(_group DIV 3 AS int) AS _tick,
   _group % 3 AS _set,
   _k0,
   _k1,
   _k2,
   _k3,
   _events,
   _oldest,
   _newest,
   cast(_s0 AS bigint) AS _s0,
   cast(_s1 AS timestamp) AS _s1,
   cast(_s2 AS timestamp) AS _s2,
   cast(_s3 AS decimal(38,2)) AS _s3,
   cast(_s4 AS int) AS _s4
FROM (
  SELECT _group,
     _k0,
     _k1,
     _k2,
     _k3,
     count(1) AS _events,
     min(_timestamp) AS _oldest,
     max(_timestamp) AS _newest,
     COUNT(1) FILTER(WHERE `_i0`) AS _s0,
     MIN(`_i1`) AS _s1,
     MAX(`_i1`) AS _s2,
     SUM(CAST(`_i2` AS DECIMAL(38, 2))) AS _s3,
     MAX(LEAST(BIT_COUNT(~SHIFTRIGHTUNSIGNED(XXHASH64(`_i2`), 10) & (SHIFTRIGHTUNSIGNED(XXHASH64(`_i2`), 10) - 1)) + 1, 55)) FILTER(WHERE `_i0`) AS _s4
  FROM (
    SELECT _tick * 3 + _set AS _group,
       _partition,
       _offset,
       _timestamp,
       _i0,
       _i1,
       _i2,
       IF(_set IN (0, 1, 2), _k0, NULL) AS _k0,
       IF(_set IN (0), _k1, NULL) AS _k1,
       IF(_set IN (1, 2), _k2, NULL) AS _k2,
       IF(_set IN (2), _k3, NULL) AS _k3
    FROM (
      SELECT *,
         explode(array(0, 1, 2)) AS _set
      FROM (
        SELECT _tick,
           _partition,
           _offset,
           _timestamp,
           who AS _k0,
           timestamp_micros(unix_micros(cast(at as timestamp)) - pmod(unix_micros(cast(at as timestamp)), 600000000L)) AS _k1,
           timestamp_micros(unix_micros(cast(at as timestamp)) - pmod(unix_micros(cast(at as timestamp)), 60000000L)) AS _k2,
           cast(pmod(xxhash64((amount)), 1024) as int) AS _k3,
           (amount) IS NOT NULL AS _i0,
           cast(at as timestamp) AS _i1,
           amount AS _i2
        FROM events)))
  GROUP BY _group,
     _k0,
     _k1,
     _k2,
     _k3)
-- view sessions, fingerprint 0e79617fa1cdc223
CREATE TABLE partials ("who" TEXT, "session" TIMESTAMPTZ, "session__first" TIMESTAMPTZ, "session__last" TIMESTAMPTZ, "paid__sum" DECIMAL(38, 2))
SELECT "who",
   "session",
   CASE WHEN "session" IS NOT NULL THEN CASE WHEN "session__last" <= make_timestamptz(253402300199999999) THEN "session__last" + to_microseconds(600000000) END END AS "session_end",
   CAST(TRY_CAST("paid__sum" AS DECIMAL(38, 2)) AS DECIMAL(38, 2)) AS "paid"
FROM (
  SELECT "who",
     "session",
     CAST(MIN("session__first") AS TIMESTAMPTZ) AS "session__first",
     CAST(MAX("session__last") AS TIMESTAMPTZ) AS "session__last",
     CAST(SUM("paid__sum") AS DECIMAL(38, 2)) AS "paid__sum"
  FROM (
    SELECT * EXCLUDE (_begins) REPLACE (CASE WHEN "session" IS NOT NULL THEN max(_begins) OVER (PARTITION BY "who" ORDER BY "session" ASC NULLS LAST) END AS "session")
    FROM (
      SELECT *,
         CASE WHEN epoch_us("session__first") - epoch_us(lag("session__last") OVER (PARTITION BY "who" ORDER BY "session" ASC NULLS LAST)) <= 600000000 THEN NULL ELSE "session__first" END AS _begins
      FROM (
        SELECT "who",
           "session",
           CAST(MIN("session__first") AS TIMESTAMPTZ) AS "session__first",
           CAST(MAX("session__last") AS TIMESTAMPTZ) AS "session__last",
           CAST(SUM("paid__sum") AS DECIMAL(38, 2)) AS "paid__sum"
        FROM (
          SELECT "who",
             "session",
             "session__first",
             "session__last",
             "paid__sum"
          FROM batch
          UNION ALL
            SELECT "who",
               "session",
               "session__first",
               "session__last",
               "paid__sum"
            FROM speed)
        GROUP BY "who",
           "session")))
  GROUP BY "who",
     "session")
-- view last_hour, fingerprint 650fdf424ba49f92
CREATE TABLE partials ("who" TEXT, "minute" TIMESTAMPTZ, "paid__sum" DECIMAL(38, 2))
-- view last_hour__amounts, fingerprint 1c7786634ae91433
CREATE TABLE partials ("who" TEXT, "minute" TIMESTAMPTZ, "_cell" INT, "amounts__rank" INT)
SELECT "who",
   "paid" AS "paid",
   "amounts" AS "amounts"
FROM (
  SELECT "who",
     "minute",
     any_value("paid") AS "paid",
     coalesce(any_value("amounts"), 0) AS "amounts"
  FROM (
    SELECT "who",
       "minute",
       CAST(TRY_CAST("paid__sum" AS DECIMAL(38, 2)) AS DECIMAL(38, 2)) AS "paid"
    FROM (
      SELECT "who",
         "minute",
         CAST(SUM("paid__sum") AS DECIMAL(38, 2)) AS "paid__sum"
      FROM (
        SELECT * REPLACE (NULL::TIMESTAMPTZ AS "minute")
        FROM (
          SELECT "who",
             "minute",
             "paid__sum"
          FROM batch.last_hour
          UNION ALL
            SELECT "who",
               "minute",
               "paid__sum"
            FROM speed.last_hour)
        WHERE "minute" BETWEEN now() - to_microseconds(3600000000) AND now())
      GROUP BY "who",
         "minute")
    UNION ALL BY NAME
      SELECT "who",
         "minute",
         CAST(ROUND(CASE WHEN (755541.746198293 / (SUM(POWER(CAST(2.0 AS DOUBLE), -"amounts__rank")) + (1024 - COUNT(*)))) <= 2560 AND COUNT(*) < 1024 THEN 1024 * LN(CAST(1024.0 AS DOUBLE) / (1024 - COUNT(*))) ELSE (755541.746198293 / (SUM(POWER(CAST(2.0 AS DOUBLE), -"amounts__rank")) + (1024 - COUNT(*)))) END) AS BIGINT) AS "amounts"
      FROM (
        SELECT "who",
           "minute",
           "_cell",
           CAST(MAX("amounts__rank") AS INT) AS "amounts__rank"
        FROM (
          SELECT * REPLACE (NULL::TIMESTAMPTZ AS "minute")
          FROM (
            SELECT "who",
               "minute",
               "_cell",
               "amounts__rank"
            FROM batch.last_hour__amounts
            UNION ALL
              SELECT "who",
                 "minute",
                 "_cell",
                 "amounts__rank"
              FROM speed.last_hour__amounts)
          WHERE "minute" BETWEEN now() - to_microseconds(3600000000) AND now())
        GROUP BY "who",
           "minute",
           "_cell")
      GROUP BY "who",
         "minute")
  GROUP BY "who",
     "minute")
