-- PostgreSQL's functions that DuckDB lacks or understands otherwise, as macros in the schema _pg.
--
-- The translation of a statement puts the schema before a call that has as many arguments. Views do
-- not see them. Names that begin with no name of PostgreSQL are called by expressions.py and templates.py.

-- Times. A date is a timestamptz to PostgreSQL's date_trunc; a macro with a form for each type can't
-- be called with an aggregate.
CREATE MACRO _pg.date_trunc
    (part_ VARCHAR, at_ DATE) AS date_trunc(part_, at_)::TIMESTAMPTZ,
    (part_ VARCHAR, at_ TIMESTAMP) AS date_trunc(part_, at_),
    (part_ VARCHAR, at_ TIMESTAMPTZ) AS date_trunc(part_, at_),
    (part_ VARCHAR, at_ INTERVAL) AS date_trunc(part_, at_);
-- A date is a timestamptz at AT TIME ZONE, too.
CREATE MACRO _pg.timezone
    (zone_, at_ DATE) AS timezone(zone_, at_::TIMESTAMPTZ), (zone_, at_) AS timezone(zone_, at_);
CREATE MACRO _pg.time_of
    (at_ TIMESTAMPTZ) AS at_::TIMESTAMP::TIME, (at_ INTERVAL) AS TIME '00:00' + at_,
    (at_) AS at_::TIME;
-- A series of dates is one of timestamptz.
CREATE MACRO _pg.bound(value_ DATE) AS value_::TIMESTAMPTZ, (value_) AS value_;
CREATE MACRO _pg.date_bin(stride_, at_, origin_) AS
    time_bucket(stride_::INTERVAL, at_, origin_::TIMESTAMP);
CREATE MACRO _pg.statement_timestamp() AS now();
-- TRY_CAST, because DuckDB computes casts of constants in branches that are not taken, too.
CREATE MACRO _pg.interval_of(value_) AS TRY_CAST(value_::VARCHAR AS INTERVAL);
CREATE MACRO _pg.moment(value_) AS
    CASE WHEN value_ IS NULL THEN NULL
         WHEN typeof(value_) <> 'INTERVAL' THEN
             coalesce(TRY_CAST(value_::VARCHAR AS TIMESTAMP),
                      error('to_char needs a date or time for this template')::TIMESTAMP)
         WHEN _pg.interval_of(value_) BETWEEN INTERVAL 0 DAY AND INTERVAL 86399999999 MICROSECOND
         THEN TIMESTAMP '1970-01-01' + _pg.interval_of(value_)
         ELSE error('to_char needs an interval below one day; extract(epoch from it) has no limit')
             ::TIMESTAMP END;

-- Texts
CREATE MACRO _pg.array_text(list_, type_) AS
    '{' || array_to_string(list_transform(list_, lambda each_:
        CASE WHEN each_ IS NULL THEN 'NULL'
             WHEN type_ = 'BOOLEAN[]' THEN left(each_, 1)
             WHEN type_ IN ('DOUBLE[]', 'FLOAT[]') THEN regexp_replace(each_, '\.0$', '')
             WHEN each_ = '' OR lower(each_) = 'null' OR regexp_matches(each_, '[\s{},"\\]')
             THEN '"' || regexp_replace(each_, '(["\\])', '\\\1', 'g') || '"'
             ELSE each_ END), ',') || '}';
CREATE MACRO _pg.text(value_) AS
    CASE WHEN typeof(value_) IN ('DOUBLE', 'FLOAT') THEN
             replace(replace(regexp_replace(value_::VARCHAR, '\.0$', ''), 'nan', 'NaN'),
                     'inf', 'Infinity')
         WHEN typeof(value_) = 'BLOB' THEN '\x' || lower(hex(value_::VARCHAR::BLOB))
         WHEN typeof(value_) = 'INTERVAL' THEN replace(value_::VARCHAR, 'month', 'mon')
         WHEN typeof(value_) LIKE 'STRUCT(%' OR typeof(value_) LIKE '%][]' THEN to_json(value_)::VARCHAR
         WHEN typeof(value_) LIKE '%[]'
         THEN _pg.array_text(TRY_CAST(to_json(value_) AS VARCHAR[]), typeof(value_))
         ELSE value_::VARCHAR END;
CREATE MACRO _pg.output(value_) AS
    CASE WHEN typeof(value_) = 'BOOLEAN' THEN left(value_::VARCHAR, 1) ELSE _pg.text(value_) END;
CREATE MACRO _pg.concatenated(value_) AS
    CASE WHEN typeof(value_) = 'BOOLEAN' THEN left(value_::VARCHAR, 1) ELSE _pg.text(value_) END;
CREATE MACRO _pg.operand(value_) AS
    CASE WHEN typeof(value_) IN ('DOUBLE', 'FLOAT')
         THEN error('a float8 beside a column must be cast for ||') ELSE value_ END;
CREATE MACRO _pg.initcap(text_) AS
    array_to_string(
        list_transform(regexp_extract_all(text_, '[\p{L}\p{N}]+|[^\p{L}\p{N}]+'),
                       lambda word_: upper(word_[1]) || lower(word_[2:])), '');
-- A group that takes no part in a match is an empty text for regexp_extract, and NULL for this.
CREATE MACRO _pg.matched(text_, pattern_, group_) AS
    regexp_extract_all(text_, pattern_, group_, 's')[1];
CREATE MACRO _pg.similar_pattern(pattern_) AS
    replace(replace(regexp_replace(pattern_, '([.^$\\])', '\\\1', 'g'), '%', '.*'), '_', '.');
CREATE MACRO _pg.regexp_count(text_, pattern_) AS len(regexp_extract_all(text_, pattern_))::INTEGER;
CREATE MACRO _pg.btrim(text_) AS trim(text_), (text_, characters_) AS trim(text_, characters_);
CREATE MACRO _pg.lpad
    (text_, size_) AS lpad(text_, size_::INTEGER, ' '), (text_, size_, fill_) AS lpad(text_, size_::INTEGER, fill_);
CREATE MACRO _pg.rpad
    (text_, size_) AS rpad(text_, size_::INTEGER, ' '), (text_, size_, fill_) AS rpad(text_, size_::INTEGER, fill_);
CREATE MACRO _pg.octet_length(text_) AS strlen(text_::VARCHAR)::INTEGER;

-- Bytes
CREATE MACRO _pg.decode(text_, format_) AS
    CASE format_ WHEN 'hex' THEN unhex(text_) WHEN 'base64' THEN from_base64(text_)
         ELSE error('the format of decode must be hex or base64')::BLOB END;
CREATE MACRO _pg.encode(bytes_, format_) AS
    CASE format_ WHEN 'hex' THEN lower(hex(bytes_)) WHEN 'base64' THEN to_base64(bytes_)
         ELSE error('the format of encode must be hex or base64') END;
CREATE MACRO _pg.sha256(bytes_) AS unhex(sha256(bytes_));
CREATE MACRO _pg.convert_from(bytes_, encoding_) AS
    CASE WHEN encoding_ ILIKE 'utf%8' THEN decode(bytes_) ELSE error('the encoding must be UTF8') END;
CREATE MACRO _pg.convert_to(text_, encoding_) AS
    CASE WHEN encoding_ ILIKE 'utf%8' THEN encode(text_)
         ELSE error('the encoding must be UTF8')::BLOB END;

-- PostgreSQL counts places before the first one, too.
CREATE MACRO _pg.substring
    (text_, from_) AS substring(text_, CASE WHEN from_ < 1 THEN 1 ELSE from_ END),
    (text_, from_, size_) AS
        CASE WHEN from_ < 1
             THEN substring(text_, 1, CASE WHEN from_ + size_ < 1 THEN 0 ELSE from_ + size_ - 1 END)
             ELSE substring(text_, from_, size_) END;

-- Numbers
-- What a sum adds: it is numeric in PostgreSQL if these are bigints.
CREATE MACRO _pg.addend
    (value_ TINYINT) AS value_, (value_ SMALLINT) AS value_, (value_ INTEGER) AS value_,
    (value_ UTINYINT) AS value_, (value_ USMALLINT) AS value_,
    (value_ UINTEGER) AS value_::DECIMAL(19, 0), (value_ BIGINT) AS value_::DECIMAL(19, 0),
    (value_ UBIGINT) AS value_::DECIMAL(38, 0), (value_ HUGEINT) AS value_::DECIMAL(38, 0),
    (value_) AS value_;
CREATE MACRO _pg.of_integer
    (value_ TINYINT) AS value_::DOUBLE, (value_ SMALLINT) AS value_::DOUBLE,
    (value_ INTEGER) AS value_::DOUBLE, (value_ BIGINT) AS value_::DOUBLE, (value_) AS value_;
CREATE MACRO _pg.rounded(value_) AS
    CASE WHEN typeof(value_) IN ('DOUBLE', 'FLOAT') THEN round_even(value_, 0)
         ELSE round(value_) END;
-- What has no value is an error in PostgreSQL, and not NaN or infinite.
CREATE MACRO _pg.positive(value_, of_) AS
    CASE WHEN value_ > 0 OR value_ IS NULL THEN value_
         ELSE error('cannot take ' || of_ || CASE WHEN value_ = 0 THEN ' of zero'
                                                  ELSE ' of a negative number' END) END;
CREATE MACRO _pg.finite(value_, of_) AS
    CASE WHEN isfinite(value_) OR NOT isfinite(of_::DOUBLE) OR value_ IS NULL THEN value_
         ELSE error('value is out of range') END;
CREATE MACRO _pg.ln(value_) AS ln(_pg.positive(value_, 'logarithm'));
CREATE MACRO _pg.log
    (value_) AS log(_pg.positive(value_, 'logarithm')),
    (base_, value_) AS log(_pg.positive(base_, 'logarithm'), _pg.positive(value_, 'logarithm'));
CREATE MACRO _pg.log10(value_) AS log10(_pg.positive(value_, 'logarithm'));
CREATE MACRO _pg.sqrt(value_) AS
    CASE WHEN value_ = 0 THEN 0 ELSE sqrt(_pg.positive(value_, 'square root')) END;
CREATE MACRO _pg.exp(value_) AS _pg.finite(exp(value_), value_);
CREATE MACRO _pg.power(base_, exponent_) AS
    _pg.finite(power(base_, exponent_), base_::DOUBLE * exponent_::DOUBLE);
CREATE MACRO _pg.pow(base_, exponent_) AS _pg.power(base_, exponent_);
CREATE MACRO _pg.acos(value_) AS _pg.finite(acos(value_), value_);
CREATE MACRO _pg.asin(value_) AS _pg.finite(asin(value_), value_);
CREATE MACRO _pg.div(dividend_, divisor_) AS trunc(dividend_ / divisor_);
CREATE MACRO _pg.width_bucket(value_, low_, high_, number_) AS
    CASE WHEN value_ < low_ THEN 0 WHEN value_ >= high_ THEN number_ + 1
         ELSE floor((value_ - low_) * number_ / (high_ - low_)) + 1 END::INTEGER;
-- A number by a template: its digits before the point, of which so many are written even if zero,
-- commas at places counted from the point, digits behind it, of which so many are written even if
-- zero, whether there is a point, and whether spaces are left out.
CREATE MACRO _pg.number_rounded(value_, decimals_) AS
    CASE WHEN typeof(value_) IN ('DOUBLE', 'FLOAT')
         THEN printf('%.' || decimals_ || 'f', value_::DOUBLE)::DECIMAL(38, 10)
         ELSE round(value_::DECIMAL(38, 10), decimals_) END;
CREATE MACRO _pg.number_digits(value_, digits_, zeros_, decimals_) AS
    CASE WHEN trunc(abs(round(value_::DECIMAL(38, 10), decimals_))) = 0 AND zeros_ = 0
              AND decimals_ > 0 THEN ''
         ELSE lpad(trunc(abs(round(value_::DECIMAL(38, 10), decimals_)))::HUGEINT::VARCHAR,
                   greatest(zeros_, length(trunc(abs(round(value_::DECIMAL(38, 10), decimals_)))
                                           ::HUGEINT::VARCHAR))::INTEGER, '0') END;
CREATE MACRO _pg.number_grouped(whole_, places_) AS
    array_to_string(list_transform(range(1, length(whole_) + 1), lambda place_:
        whole_[place_] || CASE WHEN place_ < length(whole_)
                                    AND list_contains(places_, (length(whole_) - place_)::INTEGER)
                               THEN ',' ELSE '' END), '');
CREATE MACRO _pg.number_part(value_, decimals_, fixed_, point_, short_) AS
    CASE WHEN NOT point_ THEN ''
         WHEN short_ THEN
             '.' || left(regexp_extract(round(abs(value_::DECIMAL(38, 10)), decimals_)
                                        ::DECIMAL(38, 10)::VARCHAR, '\.(\d*)', 1), fixed_)
             || rtrim(substr(left(regexp_extract(round(abs(value_::DECIMAL(38, 10)), decimals_)
                                                 ::DECIMAL(38, 10)::VARCHAR, '\.(\d*)', 1),
                                  decimals_), fixed_ + 1), '0')
         ELSE '.' || left(regexp_extract(round(abs(value_::DECIMAL(38, 10)), decimals_)
                                         ::DECIMAL(38, 10)::VARCHAR, '\.(\d*)', 1), decimals_) END;
CREATE MACRO _pg.number_signed(value_, text_, width_, short_) AS
    CASE WHEN short_ THEN CASE WHEN value_ < 0 THEN '-' ELSE '' END || text_
         ELSE lpad(CASE WHEN value_ < 0 THEN '-' ELSE ' ' END || text_, (width_ + 1)::INTEGER, ' ') END;
CREATE MACRO _pg.number_text(value_, digits_, zeros_, places_, decimals_, fixed_, point_, short_) AS
    CASE WHEN length(_pg.number_digits(value_, digits_, zeros_, decimals_)) > digits_
         THEN CASE WHEN short_ THEN '' ELSE CASE WHEN value_ < 0 THEN '-' ELSE ' ' END END
              || _pg.number_grouped(repeat('#', digits_), places_)
              || CASE WHEN point_ THEN '.' || repeat('#', decimals_) ELSE '' END
         ELSE _pg.number_signed(
             round(value_::DECIMAL(38, 10), decimals_),
             _pg.number_grouped(_pg.number_digits(value_, digits_, zeros_, decimals_), places_)
             || _pg.number_part(value_, decimals_, fixed_, point_, short_),
             digits_ + len(places_) + CASE WHEN point_ THEN 1 + decimals_ ELSE 0 END, short_) END;

-- JSON, and lists
CREATE MACRO _pg.json(value_) AS
    CASE WHEN typeof(value_) LIKE 'TIMESTAMP%'
         THEN to_json(regexp_replace(replace(value_::VARCHAR, ' ', 'T'), '\+00$', '+00:00'))
         ELSE to_json(value_) END;
CREATE MACRO _pg.json_of(value_) AS
    CASE WHEN typeof(value_) IN ('VARCHAR', 'JSON') THEN value_::VARCHAR::JSON
         ELSE to_json(value_) END;
CREATE MACRO _pg.parts_of(text_, between_) AS
    CASE WHEN text_ IS NULL THEN NULL WHEN text_ = '' THEN []::VARCHAR[]
         WHEN between_ = '' THEN [text_]
         ELSE string_split(text_, coalesce(between_, '')) END;
CREATE MACRO _pg.string_to_array
    (text_, between_) AS _pg.parts_of(text_, between_),
    (text_, between_, null_) AS
        list_transform(_pg.parts_of(text_, between_), lambda each_: nullif(each_, null_));
CREATE MACRO _pg.joined(list_, between_, null_) AS
    CASE WHEN list_ IS NOT NULL THEN coalesce(array_to_string(
        list_transform(list_, lambda each_: coalesce(_pg.output(each_), null_)), between_), '') END;
CREATE MACRO _pg.array_to_string
    (list_, between_) AS _pg.joined(list_, between_, NULL),
    (list_, between_, null_) AS _pg.joined(list_, between_, null_);
CREATE MACRO _pg.array_remove(list_, value_) AS
    list_filter(list_, lambda each_: each_ IS DISTINCT FROM value_);
CREATE MACRO _pg.array_replace(list_, old_, new_) AS list_transform(
    list_, lambda each_: CASE WHEN each_ IS DISTINCT FROM old_ THEN each_ ELSE new_ END);
CREATE MACRO _pg.array_lower(list_, dimension_) AS
    CASE WHEN len(list_) > 0 AND dimension_ = 1 THEN 1 END;
CREATE MACRO _pg.array_upper(list_, dimension_) AS
    CASE WHEN dimension_ = 1 AND len(list_) > 0 THEN len(list_)::INTEGER END;
CREATE MACRO _pg.array_length(list_, dimension_) AS
    CASE WHEN dimension_ = 1 AND len(list_) > 0 THEN len(list_)::INTEGER END;
