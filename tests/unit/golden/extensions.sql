-- stream visits, fingerprint 58b516340abde366
SELECT _partition,
   _offset,
   _fits,
   IF(_fits, NULL, regexp_replace(CASE WHEN _value IS NULL THEN 'tombstone' WHEN octet_length(_value) > 1000000 THEN concat('oversized: ', octet_length(_value), ' bytes, at most 1000000') ELSE CASE WHEN NOT is_valid_utf8(cast(_value AS string)) THEN 'invalid UTF-8' WHEN size(_parts) <> 3 THEN concat('wrong number: must have 3 parts, got ', size(_parts)) WHEN (true AND try_cast(nullif(get(_parts, 0), '') AS string) IS NULL) THEN 'wrong type: visitor must be string' WHEN (nullif(get(_parts, 1), '') IS NOT NULL AND try_cast(nullif(get(_parts, 1), '') AS int) IS NULL) THEN 'wrong type: pages must be int' WHEN (true AND try_to_timestamp(nullif(get(_parts, 2), ''), 'yyyy-MM-dd\'T\'HH:mm:ssX') IS NULL) THEN 'wrong type: at must be timestamp' END END, '(?s)^(.{255}).+$', '$1...')) AS _reject,
   IF(_fits, try_cast(nullif(get(_parts, 0), '') AS string), NULL) AS `visitor`,
   IF(_fits, try_cast(nullif(get(_parts, 1), '') AS int), NULL) AS `pages`,
   IF(_fits, try_to_timestamp(nullif(get(_parts, 2), ''), 'yyyy-MM-dd\'T\'HH:mm:ssX'), NULL) AS `at`
FROM (
  SELECT *,
     coalesce(_value IS NOT NULL AND octet_length(_value) <= 1000000 AND is_valid_utf8(cast(_value AS string)) AND size(_parts) = 3 AND NOT (true AND try_cast(nullif(get(_parts, 0), '') AS string) IS NULL) AND NOT (nullif(get(_parts, 1), '') IS NOT NULL AND try_cast(nullif(get(_parts, 1), '') AS int) IS NULL) AND NOT (true AND try_to_timestamp(nullif(get(_parts, 2), ''), 'yyyy-MM-dd\'T\'HH:mm:ssX') IS NULL), false) AS _fits
  FROM (
    SELECT *,
       split(cast(_value AS string), '[|]') AS _parts
    FROM records) AS parsed_1) AS placed
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
-- pass 1 over visits: so_far
SELECT cast(_group DIV 1 AS int) AS _tick,
   _group % 1 AS _set,
   _k0,
   _k1,
   _events,
   _oldest,
   _newest,
   cast(_s0 AS timestamp) AS _s0,
   cast(_s1 AS bigint) AS _s1
FROM (
  SELECT _group,
     _k0,
     _k1,
     count(1) AS _events,
     min(_timestamp) AS _oldest,
     max(_timestamp) AS _newest,
     MAX(`_i0`) AS _s0,
     COUNT_IF(`_i1` BETWEEN 1 AND 3) AS _s1
  FROM (
    SELECT _tick * 1 + _set AS _group,
       _partition,
       _offset,
       _timestamp,
       _i0,
       _i1,
       _k0,
       _k1
    FROM (
      SELECT *,
         0 AS _set
      FROM (
        SELECT _tick,
           _partition,
           _offset,
           _timestamp,
           visitor AS _k0,
           date_trunc('day', cast(at as timestamp)) AS _k1,
           cast(at as timestamp) AS _i0,
           pages AS _i1
        FROM events)))
  GROUP BY _group,
     _k0,
     _k1)
-- pass 2 over paid: paid_lately
SELECT cast(_group DIV 1 AS int) AS _tick,
   _group % 1 AS _set,
   _k0,
   _k1,
   _events,
   _oldest,
   _newest,
   cast(_s0 AS decimal(38,2)) AS _s0
FROM (
  SELECT _group,
     _k0,
     _k1,
     count(1) AS _events,
     min(_timestamp) AS _oldest,
     max(_timestamp) AS _newest,
     SUM(CAST(`_i0` AS DECIMAL(38, 2))) FILTER(WHERE `_i1`) AS _s0
  FROM (
    SELECT _tick * 1 + _set AS _group,
       _partition,
       _offset,
       _timestamp,
       _i0,
       _i1,
       _k0,
       _k1
    FROM (
      SELECT *,
         0 AS _set
      FROM (
        SELECT _tick,
           _partition,
           _offset,
           _timestamp,
           who AS _k0,
           IF(unix_micros(cast(at as timestamp)) >= -62135594100000000L, timestamp_micros(unix_micros(cast(at as timestamp)) - pmod(unix_micros(cast(at as timestamp)), 900000000L)), NULL) AS _k1,
           amount AS _i0,
           try_cast((amount > 0) as boolean) AS _i1
        FROM events)))
  GROUP BY _group,
     _k0,
     _k1)
-- view so_far, fingerprint 8b769c4cb761fe2f
CREATE TABLE partials ("visitor" TEXT, "day" TIMESTAMPTZ, "day__last" TIMESTAMPTZ, "short__n" BIGINT)
SELECT "visitor",
   "day",
   "day__last" AS "day_end",
   CAST("short__n" AS BIGINT) AS "short"
FROM (
  SELECT "visitor",
     "day",
     CAST(MAX("day__last") AS TIMESTAMPTZ) AS "day__last",
     CAST(SUM("short__n") AS BIGINT) AS "short__n"
  FROM ( WITH panes AS (
    SELECT *
    FROM (
      SELECT "visitor",
         "day",
         CAST(MAX("day__last") AS TIMESTAMPTZ) AS "day__last",
         CAST(SUM("short__n") AS BIGINT) AS "short__n"
      FROM (
        SELECT "visitor",
           "day",
           "day__last",
           "short__n"
        FROM batch
        UNION ALL
          SELECT "visitor",
             "day",
             "day__last",
             "short__n"
          FROM speed)
      GROUP BY "visitor",
         "day")), days AS (
    SELECT "visitor",
       "day"
    FROM panes)
    SELECT panes.* REPLACE (days."day" AS "day")
    FROM panes JOIN days ON days."visitor" IS NOT DISTINCT
    FROM panes."visitor" AND (days."day" IS NOT DISTINCT FROM panes."day" OR (days."day" > panes."day" AND year(days."day") = year(panes."day"))))
  GROUP BY "visitor",
     "day")
-- view paid_lately, fingerprint 32a2236bfdd7e55d
CREATE TABLE partials ("who" TEXT, "hour" TIMESTAMPTZ, "paid__sum" DECIMAL(38, 2))
SELECT "who",
   "hour",
   CASE WHEN "hour" <= make_timestamptz(253402297199999999) THEN "hour" + to_microseconds(3600000000) END AS "hour_end",
   CAST(TRY_CAST("paid__sum" AS DECIMAL(38, 2)) AS DECIMAL(38, 2)) AS "paid"
FROM (
  SELECT "who",
     "hour",
     CAST(SUM("paid__sum") AS DECIMAL(38, 2)) AS "paid__sum"
  FROM (
    SELECT * REPLACE (unnest(CASE WHEN "hour" IS NULL THEN [NULL::TIMESTAMPTZ] ELSE generate_series("hour" - to_microseconds(2700000000), "hour", to_microseconds(900000000)) END) AS "hour")
    FROM (
      SELECT "who",
         "hour",
         "paid__sum"
      FROM batch
      UNION ALL
        SELECT "who",
           "hour",
           "paid__sum"
        FROM speed))
  GROUP BY "who",
     "hour")
