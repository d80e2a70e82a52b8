-- stream flights, fingerprint 94b70f5a48676abe
SELECT _partition,
   _offset,
   _fits,
   IF(_fits, NULL, regexp_replace(CASE WHEN _value IS NULL THEN 'tombstone' WHEN octet_length(_value) > 1000000 THEN concat('oversized: ', octet_length(_value), ' bytes, at most 1000000') ELSE CASE WHEN NOT is_valid_utf8(cast(_value AS string)) THEN 'invalid UTF-8' WHEN startswith(_value, X'efbbbf') THEN 'broken JSON: must be one JSON object, without a byte order mark before it' WHEN startswith(_value, X'7b27') THEN 'broken JSON: must be one JSON object, with double quotes in place of single ones' WHEN try_parse_json(cast(_value AS string)) IS NULL OR NOT coalesce(startswith(get_json_object(cast(_value AS string), '$'), '{'), false) THEN 'broken JSON: must be one JSON object' WHEN NOT _is_whole THEN 'broken JSON: must be one JSON object, with nothing after it' WHEN _event IS NULL THEN 'wrong type: a number must have an exponent of at most 3 digits,' || ' at most 1000 characters, and no comma' WHEN _event._corrupt IS NOT NULL OR concat_ws('; ', transform(filter(array(IF((_event.`scheduled` IS NULL OR NOT coalesce((_event.`scheduled` IS NULL OR `_typed_scheduled` BETWEEN TIMESTAMP'0001-01-01T00:00:00Z' AND TIMESTAMP'9999-12-31T23:59:59.999999Z'), false)), named_struct('rule', 'scheduled must be timestamp, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["scheduled"]', 'variant'), 'instead', CASE WHEN schema_of_variant(variant_get(try_parse_json(cast(_value AS string)), '$["scheduled"]', 'variant')) <> 'STRING' AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["scheduled"]', 'variant'), '$', 'double') > 253402300800 AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["scheduled"]', 'variant'), '$', 'double') <= 253402300800000 THEN concat(substring(to_json(variant_get(try_parse_json(cast(_value AS string)), '$["scheduled"]', 'variant')), 1, 40), ', and a number is in seconds: declare `scheduled timestamp in milliseconds` if these are milliseconds') WHEN schema_of_variant(variant_get(try_parse_json(cast(_value AS string)), '$["scheduled"]', 'variant')) <> 'STRING' AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["scheduled"]', 'variant'), '$', 'double') > 253402300800 AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["scheduled"]', 'variant'), '$', 'double') <= 253402300800000000 THEN concat(substring(to_json(variant_get(try_parse_json(cast(_value AS string)), '$["scheduled"]', 'variant')), 1, 40), ', and a number is in seconds: declare `scheduled timestamp in microseconds` if these are microseconds') WHEN schema_of_variant(variant_get(try_parse_json(cast(_value AS string)), '$["scheduled"]', 'variant')) <> 'STRING' AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["scheduled"]', 'variant'), '$', 'double') > 253402300800 AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["scheduled"]', 'variant'), '$', 'double') <= 253402300800000000000 THEN concat(substring(to_json(variant_get(try_parse_json(cast(_value AS string)), '$["scheduled"]', 'variant')), 1, 40), ', and a number is in seconds: declare `scheduled timestamp in nanoseconds` if these are nanoseconds') END), NULL), IF((_event.`departed` IS NULL OR NOT coalesce((_event.`departed` IS NULL OR `_typed_departed` BETWEEN TIMESTAMP'0001-01-01T00:00:00Z' AND TIMESTAMP'9999-12-31T23:59:59.999999Z'), false)), named_struct('rule', 'departed must be timestamp, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["departed"]', 'variant'), 'instead', CASE WHEN schema_of_variant(variant_get(try_parse_json(cast(_value AS string)), '$["departed"]', 'variant')) <> 'STRING' AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["departed"]', 'variant'), '$', 'double') > 253402300800 AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["departed"]', 'variant'), '$', 'double') <= 253402300800000 THEN concat(substring(to_json(variant_get(try_parse_json(cast(_value AS string)), '$["departed"]', 'variant')), 1, 40), ', and a number is in seconds: declare `departed timestamp in milliseconds` if these are milliseconds') WHEN schema_of_variant(variant_get(try_parse_json(cast(_value AS string)), '$["departed"]', 'variant')) <> 'STRING' AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["departed"]', 'variant'), '$', 'double') > 253402300800 AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["departed"]', 'variant'), '$', 'double') <= 253402300800000000 THEN concat(substring(to_json(variant_get(try_parse_json(cast(_value AS string)), '$["departed"]', 'variant')), 1, 40), ', and a number is in seconds: declare `departed timestamp in microseconds` if these are microseconds') WHEN schema_of_variant(variant_get(try_parse_json(cast(_value AS string)), '$["departed"]', 'variant')) <> 'STRING' AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["departed"]', 'variant'), '$', 'double') > 253402300800 AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["departed"]', 'variant'), '$', 'double') <= 253402300800000000000 THEN concat(substring(to_json(variant_get(try_parse_json(cast(_value AS string)), '$["departed"]', 'variant')), 1, 40), ', and a number is in seconds: declare `departed timestamp in nanoseconds` if these are nanoseconds') END), NULL), IF(_event.`dep_delay` IS NULL, named_struct('rule', 'dep_delay must be int, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["dep_delay"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF(_event.`carrier` IS NULL, named_struct('rule', 'carrier must be string, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["carrier"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF(_event.`flight` IS NULL, named_struct('rule', 'flight must be int, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["flight"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF(_event.`tailnum` IS NULL, named_struct('rule', 'tailnum must be string, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["tailnum"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF(_event.`origin` IS NULL, named_struct('rule', 'origin must be string, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["origin"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF(_event.`dest` IS NULL, named_struct('rule', 'dest must be string, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["dest"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF(_event.`distance` IS NULL, named_struct('rule', 'distance must be int, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["distance"]', 'variant'), 'instead', cast(NULL AS string)), NULL)), x -> x.instead IS NOT NULL OR NOT is_variant_null(x.got)), x -> concat(x.rule, coalesce(x.instead, IF(schema_of_variant(x.got) = 'STRING', concat('"', substring(cast(x.got AS string), 1, 40), '"'), substring(to_json(x.got), 1, 40)))))) <> '' THEN regexp_replace(concat('wrong type: ', concat_ws('; ', transform(filter(array(IF((_event.`scheduled` IS NULL OR NOT coalesce((_event.`scheduled` IS NULL OR `_typed_scheduled` BETWEEN TIMESTAMP'0001-01-01T00:00:00Z' AND TIMESTAMP'9999-12-31T23:59:59.999999Z'), false)), named_struct('rule', 'scheduled must be timestamp, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["scheduled"]', 'variant'), 'instead', CASE WHEN schema_of_variant(variant_get(try_parse_json(cast(_value AS string)), '$["scheduled"]', 'variant')) <> 'STRING' AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["scheduled"]', 'variant'), '$', 'double') > 253402300800 AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["scheduled"]', 'variant'), '$', 'double') <= 253402300800000 THEN concat(substring(to_json(variant_get(try_parse_json(cast(_value AS string)), '$["scheduled"]', 'variant')), 1, 40), ', and a number is in seconds: declare `scheduled timestamp in milliseconds` if these are milliseconds') WHEN schema_of_variant(variant_get(try_parse_json(cast(_value AS string)), '$["scheduled"]', 'variant')) <> 'STRING' AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["scheduled"]', 'variant'), '$', 'double') > 253402300800 AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["scheduled"]', 'variant'), '$', 'double') <= 253402300800000000 THEN concat(substring(to_json(variant_get(try_parse_json(cast(_value AS string)), '$["scheduled"]', 'variant')), 1, 40), ', and a number is in seconds: declare `scheduled timestamp in microseconds` if these are microseconds') WHEN schema_of_variant(variant_get(try_parse_json(cast(_value AS string)), '$["scheduled"]', 'variant')) <> 'STRING' AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["scheduled"]', 'variant'), '$', 'double') > 253402300800 AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["scheduled"]', 'variant'), '$', 'double') <= 253402300800000000000 THEN concat(substring(to_json(variant_get(try_parse_json(cast(_value AS string)), '$["scheduled"]', 'variant')), 1, 40), ', and a number is in seconds: declare `scheduled timestamp in nanoseconds` if these are nanoseconds') END), NULL), IF((_event.`departed` IS NULL OR NOT coalesce((_event.`departed` IS NULL OR `_typed_departed` BETWEEN TIMESTAMP'0001-01-01T00:00:00Z' AND TIMESTAMP'9999-12-31T23:59:59.999999Z'), false)), named_struct('rule', 'departed must be timestamp, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["departed"]', 'variant'), 'instead', CASE WHEN schema_of_variant(variant_get(try_parse_json(cast(_value AS string)), '$["departed"]', 'variant')) <> 'STRING' AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["departed"]', 'variant'), '$', 'double') > 253402300800 AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["departed"]', 'variant'), '$', 'double') <= 253402300800000 THEN concat(substring(to_json(variant_get(try_parse_json(cast(_value AS string)), '$["departed"]', 'variant')), 1, 40), ', and a number is in seconds: declare `departed timestamp in milliseconds` if these are milliseconds') WHEN schema_of_variant(variant_get(try_parse_json(cast(_value AS string)), '$["departed"]', 'variant')) <> 'STRING' AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["departed"]', 'variant'), '$', 'double') > 253402300800 AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["departed"]', 'variant'), '$', 'double') <= 253402300800000000 THEN concat(substring(to_json(variant_get(try_parse_json(cast(_value AS string)), '$["departed"]', 'variant')), 1, 40), ', and a number is in seconds: declare `departed timestamp in microseconds` if these are microseconds') WHEN schema_of_variant(variant_get(try_parse_json(cast(_value AS string)), '$["departed"]', 'variant')) <> 'STRING' AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["departed"]', 'variant'), '$', 'double') > 253402300800 AND try_variant_get(variant_get(try_parse_json(cast(_value AS string)), '$["departed"]', 'variant'), '$', 'double') <= 253402300800000000000 THEN concat(substring(to_json(variant_get(try_parse_json(cast(_value AS string)), '$["departed"]', 'variant')), 1, 40), ', and a number is in seconds: declare `departed timestamp in nanoseconds` if these are nanoseconds') END), NULL), IF(_event.`dep_delay` IS NULL, named_struct('rule', 'dep_delay must be int, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["dep_delay"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF(_event.`carrier` IS NULL, named_struct('rule', 'carrier must be string, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["carrier"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF(_event.`flight` IS NULL, named_struct('rule', 'flight must be int, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["flight"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF(_event.`tailnum` IS NULL, named_struct('rule', 'tailnum must be string, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["tailnum"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF(_event.`origin` IS NULL, named_struct('rule', 'origin must be string, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["origin"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF(_event.`dest` IS NULL, named_struct('rule', 'dest must be string, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["dest"]', 'variant'), 'instead', cast(NULL AS string)), NULL), IF(_event.`distance` IS NULL, named_struct('rule', 'distance must be int, got ', 'got', variant_get(try_parse_json(cast(_value AS string)), '$["distance"]', 'variant'), 'instead', cast(NULL AS string)), NULL)), x -> x.instead IS NOT NULL OR NOT is_variant_null(x.got)), x -> concat(x.rule, coalesce(x.instead, IF(schema_of_variant(x.got) = 'STRING', concat('"', substring(cast(x.got AS string), 1, 40), '"'), substring(to_json(x.got), 1, 40))))))), '^wrong type: $', 'wrong type: inside of an array, struct or map') ELSE concat('missing field: ', concat_ws(', ', IF(_event.`scheduled` IS NULL, 'scheduled', NULL), IF(_event.`carrier` IS NULL, 'carrier', NULL), IF(_event.`flight` IS NULL, 'flight', NULL), IF(_event.`origin` IS NULL, 'origin', NULL), IF(_event.`dest` IS NULL, 'dest', NULL), IF(_event.`distance` IS NULL, 'distance', NULL))) END END, '(?s)^(.{255}).+$', '$1...')) AS _reject,
   IF(_fits, `_typed_scheduled`, NULL) AS `scheduled`,
   IF(_fits, `_typed_departed`, NULL) AS `departed`,
   IF(_fits, _event.`dep_delay`, NULL) AS `dep_delay`,
   IF(_fits, _event.`carrier`, NULL) AS `carrier`,
   IF(_fits, _event.`flight`, NULL) AS `flight`,
   IF(_fits, _event.`tailnum`, NULL) AS `tailnum`,
   IF(_fits, _event.`origin`, NULL) AS `origin`,
   IF(_fits, _event.`dest`, NULL) AS `dest`,
   IF(_fits, _event.`distance`, NULL) AS `distance`
FROM (
  SELECT *,
     coalesce(_value IS NOT NULL AND octet_length(_value) <= 1000000 AND _is_whole AND _event IS NOT NULL AND _event._corrupt IS NULL AND (_event.`scheduled` IS NULL OR `_typed_scheduled` BETWEEN TIMESTAMP'0001-01-01T00:00:00Z' AND TIMESTAMP'9999-12-31T23:59:59.999999Z') AND (_event.`departed` IS NULL OR `_typed_departed` BETWEEN TIMESTAMP'0001-01-01T00:00:00Z' AND TIMESTAMP'9999-12-31T23:59:59.999999Z') AND _event.`scheduled` IS NOT NULL AND _event.`carrier` IS NOT NULL AND _event.`flight` IS NOT NULL AND _event.`origin` IS NOT NULL AND _event.`dest` IS NOT NULL AND _event.`distance` IS NOT NULL, false) AS _fits
  FROM (
    SELECT *,
       coalesce(coalesce(CASE WHEN substring(_event.`scheduled`, 5, 1) = '-' AND try_cast(_event.`scheduled` AS date) IS NOT NULL THEN try_cast(_event.`scheduled` AS timestamp) END, CASE WHEN _event.`scheduled` RLIKE '^(?:(\\d{4})-(\\d\\d)-(\\d\\d)[Tt ](\\d\\d)(?::(\\d\\d)(?::(\\d\\d)(?:[.,](\\d+))?)?)?|(\\d{4})(\\d\\d)(\\d\\d)[Tt](\\d\\d)(?:(\\d\\d)(?:(\\d\\d)(?:[.,](\\d+))?)?)?)(?: ?([Zz]|[-+]\\d\\d(?::?\\d\\d(?::?\\d\\d)?)?)(?:\\[[A-Za-z0-9_+/:-]+\\]|(?: [A-Z]{3,5}| [-+]\\d\\d(?:\\d\\d)?)?(?: m=[-+][0-9.]+)?))?$' THEN try_cast(upper(replace(replace(regexp_replace(_event.`scheduled`, '^(?:(\\d{4})-(\\d\\d)-(\\d\\d)[Tt ](\\d\\d)(?::(\\d\\d)(?::(\\d\\d)(?:[.,](\\d+))?)?)?|(\\d{4})(\\d\\d)(\\d\\d)[Tt](\\d\\d)(?:(\\d\\d)(?:(\\d\\d)(?:[.,](\\d+))?)?)?)(?: ?([Zz]|[-+]\\d\\d(?::?\\d\\d(?::?\\d\\d)?)?)(?:\\[[A-Za-z0-9_+/:-]+\\]|(?: [A-Z]{3,5}| [-+]\\d\\d(?:\\d\\d)?)?(?: m=[-+][0-9.]+)?))?$', '$1$8-$2$9-$3$10T$4$11:$5$12#:$6$13#.$7$14$15'), ':#', ':00'), '#', '')) AS timestamp) END), CASE WHEN _event.`scheduled` IS NOT NULL THEN coalesce(cast(from_json(cast(_value AS string), '`scheduled` bigint').`scheduled` AS timestamp), CASE WHEN from_json(cast(_value AS string), '`scheduled` double').`scheduled` BETWEEN -62135596800 AND 253402300800 THEN timestamp_micros(cast(round(from_json(cast(_value AS string), '`scheduled` double').`scheduled` * 1000000) AS bigint)) END) END) AS `_typed_scheduled`,
       coalesce(coalesce(CASE WHEN substring(_event.`departed`, 5, 1) = '-' AND try_cast(_event.`departed` AS date) IS NOT NULL THEN try_cast(_event.`departed` AS timestamp) END, CASE WHEN _event.`departed` RLIKE '^(?:(\\d{4})-(\\d\\d)-(\\d\\d)[Tt ](\\d\\d)(?::(\\d\\d)(?::(\\d\\d)(?:[.,](\\d+))?)?)?|(\\d{4})(\\d\\d)(\\d\\d)[Tt](\\d\\d)(?:(\\d\\d)(?:(\\d\\d)(?:[.,](\\d+))?)?)?)(?: ?([Zz]|[-+]\\d\\d(?::?\\d\\d(?::?\\d\\d)?)?)(?:\\[[A-Za-z0-9_+/:-]+\\]|(?: [A-Z]{3,5}| [-+]\\d\\d(?:\\d\\d)?)?(?: m=[-+][0-9.]+)?))?$' THEN try_cast(upper(replace(replace(regexp_replace(_event.`departed`, '^(?:(\\d{4})-(\\d\\d)-(\\d\\d)[Tt ](\\d\\d)(?::(\\d\\d)(?::(\\d\\d)(?:[.,](\\d+))?)?)?|(\\d{4})(\\d\\d)(\\d\\d)[Tt](\\d\\d)(?:(\\d\\d)(?:(\\d\\d)(?:[.,](\\d+))?)?)?)(?: ?([Zz]|[-+]\\d\\d(?::?\\d\\d(?::?\\d\\d)?)?)(?:\\[[A-Za-z0-9_+/:-]+\\]|(?: [A-Z]{3,5}| [-+]\\d\\d(?:\\d\\d)?)?(?: m=[-+][0-9.]+)?))?$', '$1$8-$2$9-$3$10T$4$11:$5$12#:$6$13#.$7$14$15'), ':#', ':00'), '#', '')) AS timestamp) END), CASE WHEN _event.`departed` IS NOT NULL THEN coalesce(cast(from_json(cast(_value AS string), '`departed` bigint').`departed` AS timestamp), CASE WHEN from_json(cast(_value AS string), '`departed` double').`departed` BETWEEN -62135596800 AND 253402300800 THEN timestamp_micros(cast(round(from_json(cast(_value AS string), '`departed` double').`departed` * 1000000) AS bigint)) END) END) AS `_typed_departed`
    FROM (
      SELECT *,
         _value IS NOT NULL AND octet_length(_value) <= 1000000 AND is_valid_utf8(cast(_value AS string)) AND ((startswith(_value, X'7B') AND NOT contains(substring(_value, 1, octet_length(_value) - 1), X'7D')) OR coalesce((size(from_json(concat('[', cast(_value AS string), ']'), 'array<struct<>>')) = 1 AND size(from_json(concat('{"_":', cast(_value AS string), '}'), 'map<string, struct<>>')) = 1), false)) AS _is_whole,
         from_json(IF(octet_length(_value) <= 1000000, cast(_value AS string), NULL), '`scheduled` string, `departed` string, `dep_delay` int, `carrier` string, `flight` int, `tailnum` string, `origin` string, `dest` string, `distance` int, `_corrupt` string', map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '_corrupt', 'timeZone', 'UTC', 'enableDateTimeParsingFallback', 'false', 'allowSingleQuotes', 'false')) AS _event
      FROM records) AS parsed_1) AS parsed_3) AS placed
-- pass 1 over flights: delays_by_carrier, busy_routes, aircraft, delay_quantiles, delay_quantiles__delay, routes, routes__aircraft, tours
SELECT cast(_group DIV 8 AS int) AS _tick,
   _group % 8 AS _set,
   _k0,
   _k1,
   _k2,
   _k3,
   _k4,
   _k5,
   _k6,
   _k7,
   _events,
   _oldest,
   _newest,
   cast(_s0 AS bigint) AS _s0,
   cast(_s1 AS bigint) AS _s1,
   cast(_s2 AS bigint) AS _s2,
   cast(_s3 AS bigint) AS _s3,
   cast(_s4 AS bigint) AS _s4,
   cast(_s5 AS bigint) AS _s5,
   cast(_s6 AS decimal(38,0)) AS _s6,
   cast(_s7 AS bigint) AS _s7,
   cast(_s8 AS int) AS _s8,
   cast(_s9 AS decimal(38,0)) AS _s9,
   cast(_s10 AS struct<by:timestamp,partition:int,offset:bigint,known:boolean,value:string>) AS _s10,
   cast(_s11 AS struct<by:timestamp,partition:int,offset:bigint,known:boolean,value:string>) AS _s11,
   cast(_s12 AS timestamp) AS _s12,
   cast(_s13 AS int) AS _s13,
   cast(_s14 AS timestamp) AS _s14,
   cast(_s15 AS timestamp) AS _s15
FROM (
  SELECT _group,
     _k0,
     _k1,
     _k2,
     _k3,
     _k4,
     _k5,
     _k6,
     _k7,
     count(1) AS _events,
     min(_timestamp) AS _oldest,
     max(_timestamp) AS _newest,
     COUNT(1) FILTER(WHERE `_i0`) AS _s0,
     COUNT(1) FILTER(WHERE `_i1`) AS _s1,
     COUNT(1) FILTER(WHERE `_i2`) AS _s2,
     COUNT(1) AS _s3,
     COUNT(`_i3`) AS _s4,
     COUNT(1) FILTER(WHERE `_i4`) AS _s5,
     CAST(SUM(CAST(`_i5` AS BIGINT)) AS DECIMAL(38, 0)) AS _s6,
     COUNT(`_i5`) AS _s7,
     MAX(`_i5`) AS _s8,
     CAST(SUM(CAST(`_i6` AS BIGINT)) FILTER(WHERE `_i0`) AS DECIMAL(38, 0)) AS _s9,
     MIN(IF(`_i3` IS NULL, NULL, STRUCT(`_i3` AS by, _partition AS partition, _offset AS offset, NOT `_i7` IS NULL AS known, `_i7` AS value))) FILTER(WHERE `_i0`) AS _s10,
     MAX(IF(`_i3` IS NULL, NULL, STRUCT(`_i3` AS by, _partition AS partition, _offset AS offset, NOT `_i8` IS NULL AS known, `_i8` AS value))) FILTER(WHERE `_i0`) AS _s11,
     MAX(`_i3`) FILTER(WHERE `_i0`) AS _s12,
     MAX(LEAST(BIT_COUNT(~SHIFTRIGHTUNSIGNED(XXHASH64(`_i9`), 10) & (SHIFTRIGHTUNSIGNED(XXHASH64(`_i9`), 10) - 1)) + 1, 55)) FILTER(WHERE `_i2`) AS _s13,
     MIN(`_i10`) FILTER(WHERE `_i0`) AS _s14,
     MAX(`_i10`) FILTER(WHERE `_i0`) AS _s15
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
       IF(_set IN (0, 3, 4), _k0, NULL) AS _k0,
       IF(_set IN (0), _k1, NULL) AS _k1,
       IF(_set IN (1, 5, 6), _k2, NULL) AS _k2,
       IF(_set IN (1), _k3, NULL) AS _k3,
       IF(_set IN (2, 7), _k4, NULL) AS _k4,
       IF(_set IN (4), _k5, NULL) AS _k5,
       IF(_set IN (6), _k6, NULL) AS _k6,
       IF(_set IN (7), _k7, NULL) AS _k7
    FROM (
      SELECT *,
         explode(array(0, 1, 2, 3, 4, 5, 6, 7)) AS _set
      FROM (
        SELECT _tick,
           _partition,
           _offset,
           _timestamp,
           carrier AS _k0,
           IF(try_cast((to_date(from_utc_timestamp(scheduled, 'America/New_York'))) as date) BETWEEN DATE'0001-01-01' AND DATE'9999-12-31', try_cast((to_date(from_utc_timestamp(scheduled, 'America/New_York'))) as date), NULL) AS _k1,
           make_valid_utf8(try_cast((origin || '-' || dest) as string)) AS _k2,
           IF(unix_micros(cast(scheduled as timestamp)) >= -62135594100000000L, timestamp_micros(unix_micros(cast(scheduled as timestamp)) - pmod(unix_micros(cast(scheduled as timestamp)), 900000000L)), NULL) AS _k3,
           tailnum AS _k4,
           CASE WHEN isnan(cast((dep_delay) as double)) THEN 1000000 WHEN cast((dep_delay) as double) = 0 THEN 0 WHEN abs(cast((dep_delay) as double)) = cast('Infinity' as double) THEN IF(cast((dep_delay) as double) > 0, 999999, -999999) WHEN cast((dep_delay) as double) > 0 THEN cast(ceil(ln(abs(cast((dep_delay) as double))) / 0.020000666706669435D) as int) + 100000 ELSE -(cast(ceil(ln(abs(cast((dep_delay) as double))) / 0.020000666706669435D) as int) + 100000) END AS _k5,
           cast(pmod(xxhash64((tailnum)), 1024) as int) AS _k6,
           IF(unix_micros(cast(departed as timestamp)) >= -62135424000000000L, timestamp_micros(unix_micros(cast(departed as timestamp)) - pmod(unix_micros(cast(departed as timestamp)), 259200000000L)), NULL) AS _k7,
           try_cast((departed is not null) as boolean) AS _i0,
           (dep_delay) IS NOT NULL AS _i1,
           (tailnum) IS NOT NULL AS _i2,
           departed AS _i3,
           try_cast((dep_delay > 15) as boolean) AS _i4,
           dep_delay AS _i5,
           distance AS _i6,
           origin AS _i7,
           dest AS _i8,
           tailnum AS _i9,
           cast(departed as timestamp) AS _i10
        FROM events)))
  GROUP BY _group,
     _k0,
     _k1,
     _k2,
     _k3,
     _k4,
     _k5,
     _k6,
     _k7)
-- view delays_by_carrier, fingerprint 083e7dcdf16f589f
CREATE TABLE partials ("carrier" TEXT, "day" DATE, "flights__n" BIGINT, "departed__n" BIGINT, "late__n" BIGINT, "mean_delay__sum" DECIMAL(38, 0), "mean_delay__count" BIGINT, "max_delay__max" INT)
SELECT "carrier",
   "day",
   CAST("flights__n" AS BIGINT) AS "flights",
   CAST("departed__n" AS BIGINT) AS "departed",
   CAST("late__n" AS BIGINT) AS "late",
   CAST(CAST("mean_delay__sum" AS DOUBLE) / NULLIF("mean_delay__count", 0) AS DOUBLE) AS "mean_delay",
   CAST("max_delay__max" AS INT) AS "max_delay"
FROM (
  SELECT "carrier",
     "day",
     CAST(SUM("flights__n") AS BIGINT) AS "flights__n",
     CAST(SUM("departed__n") AS BIGINT) AS "departed__n",
     CAST(SUM("late__n") AS BIGINT) AS "late__n",
     CAST(SUM("mean_delay__sum") AS DECIMAL(38, 0)) AS "mean_delay__sum",
     CAST(SUM("mean_delay__count") AS BIGINT) AS "mean_delay__count",
     CAST(MAX("max_delay__max") AS INT) AS "max_delay__max"
  FROM (
    SELECT "carrier",
       "day",
       "flights__n",
       "departed__n",
       "late__n",
       "mean_delay__sum",
       "mean_delay__count",
       "max_delay__max"
    FROM batch
    UNION ALL
      SELECT "carrier",
         "day",
         "flights__n",
         "departed__n",
         "late__n",
         "mean_delay__sum",
         "mean_delay__count",
         "max_delay__max"
      FROM speed)
  GROUP BY "carrier",
     "day")
-- view busy_routes, fingerprint 53cc24eaf7694abb
CREATE TABLE partials ("route" TEXT, "period" TIMESTAMPTZ, "flights__n" BIGINT)
SELECT "route",
   "period",
   CASE WHEN "period" <= make_timestamptz(253402297199999999) THEN "period" + to_microseconds(3600000000) END AS "period_end",
   CAST("flights__n" AS BIGINT) AS "flights"
FROM (
  SELECT "route",
     "period",
     CAST(SUM("flights__n") AS BIGINT) AS "flights__n"
  FROM (
    SELECT * REPLACE (unnest(CASE WHEN "period" IS NULL THEN [NULL::TIMESTAMPTZ] ELSE generate_series("period" - to_microseconds(2700000000), "period", to_microseconds(900000000)) END) AS "period")
    FROM (
      SELECT "route",
         "period",
         "flights__n"
      FROM batch
      UNION ALL
        SELECT "route",
           "period",
           "flights__n"
        FROM speed))
  GROUP BY "route",
     "period")
-- view aircraft, fingerprint b9dbdebd1d3026a2
CREATE TABLE partials ("tailnum" TEXT, "flights__n" BIGINT, "miles__sum" DECIMAL(38, 0), "first_origin__event" STRUCT("by" TIMESTAMPTZ, partition INT, "offset" BIGINT, known BOOLEAN, value TEXT), "latest_dest__event" STRUCT("by" TIMESTAMPTZ, partition INT, "offset" BIGINT, known BOOLEAN, value TEXT), "latest_departed__max" TIMESTAMPTZ)
SELECT "tailnum",
   CAST("flights__n" AS BIGINT) AS "flights",
   CAST(TRY_CAST("miles__sum" AS BIGINT) AS BIGINT) AS "miles",
   CAST(("first_origin__event")."value" AS TEXT) AS "first_origin",
   CAST(("latest_dest__event")."value" AS TEXT) AS "latest_dest",
   CAST("latest_departed__max" AS TIMESTAMPTZ) AS "latest_departed"
FROM (
  SELECT "tailnum",
     CAST(SUM("flights__n") AS BIGINT) AS "flights__n",
     CAST(SUM("miles__sum") AS DECIMAL(38, 0)) AS "miles__sum",
     CAST(MIN("first_origin__event") AS STRUCT("by" TIMESTAMPTZ, partition INT, "offset" BIGINT, known BOOLEAN, value TEXT)) AS "first_origin__event",
     CAST(MAX("latest_dest__event") AS STRUCT("by" TIMESTAMPTZ, partition INT, "offset" BIGINT, known BOOLEAN, value TEXT)) AS "latest_dest__event",
     CAST(MAX("latest_departed__max") AS TIMESTAMPTZ) AS "latest_departed__max"
  FROM (
    SELECT "tailnum",
       "flights__n",
       "miles__sum",
       "first_origin__event",
       "latest_dest__event",
       "latest_departed__max"
    FROM batch
    UNION ALL
      SELECT "tailnum",
         "flights__n",
         "miles__sum",
         "first_origin__event",
         "latest_dest__event",
         "latest_departed__max"
      FROM speed)
  GROUP BY "tailnum")
-- view delay_quantiles, fingerprint 5655d84d4b7611c5
CREATE TABLE partials ("carrier" TEXT, "departed__n" BIGINT)
-- view delay_quantiles__delay, fingerprint 490c14b4d3ef065c
CREATE TABLE partials ("carrier" TEXT, "_cell" INT, "delay__n" BIGINT)
SELECT "carrier",
   "departed" AS "departed",
   "delay" AS "delay"
FROM (
  SELECT "carrier",
     any_value("departed") AS "departed",
     coalesce(any_value("delay"), NULL) AS "delay"
  FROM (
    SELECT "carrier",
       CAST("departed__n" AS BIGINT) AS "departed"
    FROM (
      SELECT "carrier",
         CAST(SUM("departed__n") AS BIGINT) AS "departed__n"
      FROM (
        SELECT "carrier",
           "departed__n"
        FROM batch.delay_quantiles
        UNION ALL
          SELECT "carrier",
             "departed__n"
          FROM speed.delay_quantiles)
      GROUP BY "carrier")
    UNION ALL BY NAME
      SELECT "carrier",
         CAST([CASE MIN("_cell") FILTER(WHERE "_running" >= GREATEST(1, CEIL(0.5 * "_total"))) WHEN 0 THEN 0 WHEN 1000000 THEN CAST('NaN' AS DOUBLE) WHEN 999999 THEN CAST('Infinity' AS DOUBLE) WHEN -999999 THEN CAST('-Infinity' AS DOUBLE) ELSE SIGN(MIN("_cell") FILTER(WHERE "_running" >= GREATEST(1, CEIL(0.5 * "_total")))) * LEAST(0.9900000000000001 * POWER(CAST(1.02020202020202 AS DOUBLE), ABS(MIN("_cell") FILTER(WHERE "_running" >= GREATEST(1, CEIL(0.5 * "_total")))) - 100000), CAST(1.7976931348623157e+308 AS DOUBLE)) END, CASE MIN("_cell") FILTER(WHERE "_running" >= GREATEST(1, CEIL(0.9 * "_total"))) WHEN 0 THEN 0 WHEN 1000000 THEN CAST('NaN' AS DOUBLE) WHEN 999999 THEN CAST('Infinity' AS DOUBLE) WHEN -999999 THEN CAST('-Infinity' AS DOUBLE) ELSE SIGN(MIN("_cell") FILTER(WHERE "_running" >= GREATEST(1, CEIL(0.9 * "_total")))) * LEAST(0.9900000000000001 * POWER(CAST(1.02020202020202 AS DOUBLE), ABS(MIN("_cell") FILTER(WHERE "_running" >= GREATEST(1, CEIL(0.9 * "_total")))) - 100000), CAST(1.7976931348623157e+308 AS DOUBLE)) END, CASE MIN("_cell") FILTER(WHERE "_running" >= GREATEST(1, CEIL(0.99 * "_total"))) WHEN 0 THEN 0 WHEN 1000000 THEN CAST('NaN' AS DOUBLE) WHEN 999999 THEN CAST('Infinity' AS DOUBLE) WHEN -999999 THEN CAST('-Infinity' AS DOUBLE) ELSE SIGN(MIN("_cell") FILTER(WHERE "_running" >= GREATEST(1, CEIL(0.99 * "_total")))) * LEAST(0.9900000000000001 * POWER(CAST(1.02020202020202 AS DOUBLE), ABS(MIN("_cell") FILTER(WHERE "_running" >= GREATEST(1, CEIL(0.99 * "_total")))) - 100000), CAST(1.7976931348623157e+308 AS DOUBLE)) END] AS DOUBLE[]) AS "delay"
      FROM (
        SELECT *,
           sum("delay__n") OVER (PARTITION BY "carrier" ORDER BY _cell) AS _running,
           sum("delay__n") OVER (PARTITION BY "carrier") AS _total
        FROM (
          SELECT "carrier",
             "_cell",
             CAST(SUM("delay__n") AS BIGINT) AS "delay__n"
          FROM (
            SELECT "carrier",
               "_cell",
               "delay__n"
            FROM batch.delay_quantiles__delay
            UNION ALL
              SELECT "carrier",
                 "_cell",
                 "delay__n"
              FROM speed.delay_quantiles__delay)
          GROUP BY "carrier",
             "_cell"))
      GROUP BY "carrier")
  GROUP BY "carrier")
-- view routes, fingerprint 5db758bbd9d0498d
CREATE TABLE partials ("route" TEXT, "flights__n" BIGINT)
-- view routes__aircraft, fingerprint 8e0acc3a7af3fd0d
CREATE TABLE partials ("route" TEXT, "_cell" INT, "aircraft__rank" INT)
SELECT "route",
   "flights" AS "flights",
   "aircraft" AS "aircraft"
FROM (
  SELECT "route",
     any_value("flights") AS "flights",
     coalesce(any_value("aircraft"), 0) AS "aircraft"
  FROM (
    SELECT "route",
       CAST("flights__n" AS BIGINT) AS "flights"
    FROM (
      SELECT "route",
         CAST(SUM("flights__n") AS BIGINT) AS "flights__n"
      FROM (
        SELECT "route",
           "flights__n"
        FROM batch.routes
        UNION ALL
          SELECT "route",
             "flights__n"
          FROM speed.routes)
      GROUP BY "route")
    UNION ALL BY NAME
      SELECT "route",
         CAST(ROUND(CASE WHEN (755541.746198293 / (SUM(POWER(CAST(2.0 AS DOUBLE), -"aircraft__rank")) + (1024 - COUNT(*)))) <= 2560 AND COUNT(*) < 1024 THEN 1024 * LN(CAST(1024.0 AS DOUBLE) / (1024 - COUNT(*))) ELSE (755541.746198293 / (SUM(POWER(CAST(2.0 AS DOUBLE), -"aircraft__rank")) + (1024 - COUNT(*)))) END) AS BIGINT) AS "aircraft"
      FROM (
        SELECT "route",
           "_cell",
           CAST(MAX("aircraft__rank") AS INT) AS "aircraft__rank"
        FROM (
          SELECT "route",
             "_cell",
             "aircraft__rank"
          FROM batch.routes__aircraft
          UNION ALL
            SELECT "route",
               "_cell",
               "aircraft__rank"
            FROM speed.routes__aircraft)
        GROUP BY "route",
           "_cell")
      GROUP BY "route")
  GROUP BY "route")
-- view tours, fingerprint 0a9dd374ecbd29bf
CREATE TABLE partials ("tailnum" TEXT, "tour" TIMESTAMPTZ, "tour__first" TIMESTAMPTZ, "tour__last" TIMESTAMPTZ, "flights__n" BIGINT, "miles__sum" DECIMAL(38, 0), "latest__max" TIMESTAMPTZ)
SELECT "tailnum",
   "tour",
   CASE WHEN "tour" IS NOT NULL THEN CASE WHEN "tour__last" <= make_timestamptz(253402041599999999) THEN "tour__last" + to_microseconds(259200000000) END END AS "tour_end",
   CAST("flights__n" AS BIGINT) AS "flights",
   CAST(TRY_CAST("miles__sum" AS BIGINT) AS BIGINT) AS "miles",
   CAST("latest__max" AS TIMESTAMPTZ) AS "latest"
FROM (
  SELECT "tailnum",
     "tour",
     CAST(MIN("tour__first") AS TIMESTAMPTZ) AS "tour__first",
     CAST(MAX("tour__last") AS TIMESTAMPTZ) AS "tour__last",
     CAST(SUM("flights__n") AS BIGINT) AS "flights__n",
     CAST(SUM("miles__sum") AS DECIMAL(38, 0)) AS "miles__sum",
     CAST(MAX("latest__max") AS TIMESTAMPTZ) AS "latest__max"
  FROM (
    SELECT * EXCLUDE (_begins) REPLACE (CASE WHEN "tour" IS NOT NULL THEN max(_begins) OVER (PARTITION BY "tailnum" ORDER BY "tour" ASC NULLS LAST) END AS "tour")
    FROM (
      SELECT *,
         CASE WHEN epoch_us("tour__first") - epoch_us(lag("tour__last") OVER (PARTITION BY "tailnum" ORDER BY "tour" ASC NULLS LAST)) <= 259200000000 THEN NULL ELSE "tour__first" END AS _begins
      FROM (
        SELECT "tailnum",
           "tour",
           CAST(MIN("tour__first") AS TIMESTAMPTZ) AS "tour__first",
           CAST(MAX("tour__last") AS TIMESTAMPTZ) AS "tour__last",
           CAST(SUM("flights__n") AS BIGINT) AS "flights__n",
           CAST(SUM("miles__sum") AS DECIMAL(38, 0)) AS "miles__sum",
           CAST(MAX("latest__max") AS TIMESTAMPTZ) AS "latest__max"
        FROM (
          SELECT "tailnum",
             "tour",
             "tour__first",
             "tour__last",
             "flights__n",
             "miles__sum",
             "latest__max"
          FROM batch
          UNION ALL
            SELECT "tailnum",
               "tour",
               "tour__first",
               "tour__last",
               "flights__n",
               "miles__sum",
               "latest__max"
            FROM speed)
        GROUP BY "tailnum",
           "tour")))
  GROUP BY "tailnum",
     "tour")
