-- PostgreSQL's functions about its catalog, as macros in the schema _pg.
--
-- The arguments have a trailing underscore, because a subquery would take a plain name for a
-- column. Those that end in _path_ are lists of schemas, which the rewriting adds.

CREATE MACRO _pg.quote_ident(name_) AS
    CASE WHEN regexp_full_match(name_, '[a-z_][a-z0-9_$]*') THEN name_
         ELSE '"' || replace(name_, '"', '""') || '"' END;
CREATE MACRO _pg.quote_literal(value_) AS '''' || replace(value_::VARCHAR, '''', '''''') || '''';

-- Types
CREATE MACRO _pg._modified(name_, number_, modifier_) AS
    CASE WHEN modifier_ < 0 OR modifier_ IS NULL THEN name_
         WHEN number_ IN (1700, 1231)
         THEN replace(name_, 'numeric', printf('numeric(%d,%d)', ((modifier_ - 4) >> 16) & 65535,
                                               (modifier_ - 4) & 2047))
         WHEN number_ IN (1042, 1043) THEN printf('%s(%d)', name_, modifier_ - 4)
         ELSE name_ END;
CREATE MACRO _pg.format_type(type_, modifier_) AS
    CASE WHEN type_ IS NULL THEN NULL WHEN type_ = 0 THEN '-'
         ELSE coalesce((SELECT _pg._modified(f.name, f.oid, modifier_) FROM _pg._formatted f
                        WHERE f.oid = type_), '???') END;
CREATE MACRO _pg.regtype_text(type_) AS
    CASE WHEN type_ = 0 THEN '-'
         ELSE coalesce((SELECT f.name FROM _pg._formatted f WHERE f.oid = type_),
                       type_::VARCHAR) END;
CREATE MACRO _pg.to_regtype(text_) AS
    CASE WHEN regexp_full_match(text_::VARCHAR, '\d+') THEN TRY_CAST(text_::VARCHAR AS UINTEGER)
         ELSE (SELECT min(f.oid) FROM _pg._formatted f
               WHERE replace(text_::VARCHAR, 'pg_catalog.', '') IN (f.name, f.internal)) END;
CREATE MACRO _pg.regtype(text_) AS
    CASE WHEN text_ IS NULL THEN NULL
         ELSE coalesce(_pg.to_regtype(text_),
                       error('type "' || text_::VARCHAR || '" does not exist')::UINTEGER) END;

-- Relations, functions and schemas by name
CREATE MACRO _pg.to_regclass(text_, path_) AS
    CASE WHEN regexp_full_match(text_::VARCHAR, '\d+') THEN TRY_CAST(text_::VARCHAR AS UINTEGER)
         ELSE (SELECT arg_min(n.oid, coalesce(list_position(path_, n.schema), 1000))
               FROM _pg._spelled n
               WHERE n.spelled = lower(replace(text_::VARCHAR, '"', ''))
                 AND (n.qualified OR list_contains(path_, n.schema))) END;
CREATE MACRO _pg.regclass(text_, path_) AS
    CASE WHEN text_ IS NULL THEN NULL
         ELSE coalesce(_pg.to_regclass(text_, path_),
                       error('relation "' || text_::VARCHAR || '" does not exist')::UINTEGER) END;
CREATE MACRO _pg.regclass_text(relation_, path_) AS
    CASE WHEN relation_ = 0 THEN '-'
         ELSE coalesce((SELECT CASE WHEN list_contains(path_, n.schema) THEN n.name
                                    ELSE n.schema || '.' || n.name END
                        FROM _pg._spelled n WHERE n.oid = relation_ AND n.qualified),
                       relation_::VARCHAR) END;
CREATE MACRO _pg.to_regproc(text_) AS
    CASE WHEN regexp_full_match(text_::VARCHAR, '\d+') THEN TRY_CAST(text_::VARCHAR AS UINTEGER)
         ELSE (SELECT min(p.oid) FROM _pg.pg_proc p
               WHERE p.proname = regexp_replace(text_::VARCHAR, '^pg_catalog\.|\(.*$', '', 'g'))
         END;
CREATE MACRO _pg.regproc(text_) AS coalesce(_pg.to_regproc(text_), 0::UINTEGER);
CREATE MACRO _pg.regproc_text(function_) AS
    CASE WHEN function_ = 0 THEN '-'
         ELSE coalesce((SELECT p.proname FROM _pg.pg_proc p WHERE p.oid = function_),
                       function_::VARCHAR) END;
CREATE MACRO _pg.to_regnamespace(text_) AS
    CASE WHEN regexp_full_match(text_::VARCHAR, '\d+') THEN TRY_CAST(text_::VARCHAR AS UINTEGER)
         ELSE (SELECT s.oid FROM _pg.pg_namespace s
               WHERE s.nspname = replace(text_::VARCHAR, '"', '')) END;
CREATE MACRO _pg.regnamespace(text_) AS
    CASE WHEN text_ IS NULL THEN NULL
         ELSE coalesce(_pg.to_regnamespace(text_),
                       error('schema "' || text_::VARCHAR || '" does not exist')::UINTEGER) END;
CREATE MACRO _pg.regnamespace_text(schema_) AS
    coalesce((SELECT s.nspname FROM _pg.pg_namespace s WHERE s.oid = schema_), schema_::VARCHAR);

-- Roles. The session's user is the role $user.
CREATE MACRO _pg.pg_get_userbyid(role_, user_) AS
    coalesce((SELECT replace(r.rolname, '$user', user_) FROM _pg.pg_authid r WHERE r.oid = role_),
             'unknown (OID=' || role_::VARCHAR || ')');
CREATE MACRO _pg.to_regrole(text_, user_) AS
    CASE WHEN regexp_full_match(text_::VARCHAR, '\d+') THEN TRY_CAST(text_::VARCHAR AS UINTEGER)
         ELSE (SELECT r.oid FROM _pg.pg_authid r
               WHERE replace(r.rolname, '$user', user_) = replace(text_::VARCHAR, '"', '')) END;

-- Comments and definitions
CREATE MACRO _pg.obj_description
    (object_, catalog_) AS
        (SELECT d.description FROM _pg.pg_description d
         WHERE d.objoid = object_ AND d.objsubid = 0
           AND d.classoid = (SELECT n.oid FROM _pg._spelled n
                             WHERE n.spelled = catalog_ AND n.schema = 'pg_catalog')),
    (object_) AS
        (SELECT min(d.description) FROM _pg.pg_description d
         WHERE d.objoid = object_ AND d.objsubid = 0);
CREATE MACRO _pg.shobj_description(object_, catalog_) AS
    (SELECT d.description FROM _pg.pg_shdescription d WHERE d.objoid = object_ AND d.classoid = 0);
CREATE MACRO _pg.col_description(relation_, column_) AS
    (SELECT d.description FROM _pg.pg_description d
     WHERE d.objoid = relation_ AND d.objsubid = column_ AND d.classoid = 1259);
CREATE MACRO _pg._definition(object_) AS
    (SELECT d.sql FROM _pg._definitions d WHERE d.oid = object_);
CREATE MACRO _pg.pg_get_viewdef
    (view_) AS _pg._definition(_pg.to_regclass(view_, ['merged', 'tables', 'pg_catalog'])),
    (view_, pretty_) AS _pg._definition(_pg.to_regclass(view_, ['merged', 'tables', 'pg_catalog']));
CREATE MACRO _pg.pg_get_indexdef
    (index_) AS _pg._definition(index_),
    (index_, column_, pretty_) AS
        CASE WHEN column_ = 0 THEN _pg._definition(index_)
             ELSE (SELECT a.attname FROM _pg.pg_attribute a JOIN _pg.pg_index i
                   ON i.indrelid = a.attrelid AND a.attnum = i.indkey[column_]
                   WHERE i.indexrelid = index_) END;
CREATE MACRO _pg.pg_get_constraintdef
    (constraint_) AS _pg._definition(constraint_),
    (constraint_, pretty_) AS _pg._definition(constraint_);
CREATE MACRO _pg.pg_get_expr
    (tree_, relation_) AS tree_::VARCHAR, (tree_, relation_, pretty_) AS tree_::VARCHAR;

-- Privileges: everybody may read everything, and nothing else.
CREATE MACRO _pg._allowed(privilege_) AS
    regexp_matches(lower(privilege_), '(^|,)\s*(select|usage|connect|execute|member|set)\s*(,|$)');

CREATE MACRO _pg.setting(name_) AS
    (SELECT min(s.setting) FROM _pg.pg_settings s WHERE lower(s.name) = lower(name_));

-- Lists
CREATE MACRO _pg.array_lower(list_, dimension_) AS
    CASE WHEN len(list_) > 0 AND dimension_ = 1 THEN 1 END;
CREATE MACRO _pg.array_upper(list_, dimension_) AS
    CASE WHEN dimension_ = 1 AND len(list_) > 0 THEN len(list_)::INTEGER END;
CREATE MACRO _pg.array_length(list_, dimension_) AS
    CASE WHEN dimension_ = 1 AND len(list_) > 0 THEN len(list_)::INTEGER END;
CREATE MACRO _pg.array_ndims(list_) AS CASE WHEN len(list_) > 0 THEN 1 END;
CREATE MACRO _pg.parse_ident(name_) AS string_split(replace(name_, '"', ''), '.');
CREATE MACRO _pg.expandarray(list_) AS
    list_transform(list_, lambda value_, place_: {'x': value_, 'n': place_::INTEGER});
CREATE MACRO _pg.aclexplode(list_) AS
    list_transform(list_, lambda one_: {
        'grantor': 6171::UINTEGER, 'grantee': 0::UINTEGER,
        'privilege_type': CASE WHEN contains(one_, '=U/') THEN 'USAGE' ELSE 'SELECT' END,
        'is_grantable': false});
CREATE MACRO _pg.pg_options_to_table(list_) AS
    list_transform(list_, lambda one_: {
        'option_name': split_part(one_, '=', 1), 'option_value': split_part(one_, '=', 2)});

-- Names and sizes
CREATE MACRO _pg.pg_get_keywords() AS TABLE
    SELECT keyword_name AS word, upper(keyword_category[1]) AS catcode, true AS barelabel,
        keyword_category AS catdesc, 'can be bare label' AS baredesc
    FROM duckdb_keywords();
CREATE MACRO _pg.pg_encoding_to_char(number_) AS CASE number_ WHEN 6 THEN 'UTF8' ELSE '' END;
CREATE MACRO _pg.pg_char_to_encoding(name_) AS
    CASE WHEN upper(name_) IN ('UTF8', 'UTF-8') THEN 6 ELSE -1 END;
CREATE MACRO _pg.pg_size_pretty(bytes_) AS
    CASE WHEN bytes_ < 10240 THEN bytes_::BIGINT::VARCHAR || ' bytes'
         WHEN bytes_ < 10240 * 1024 THEN round(bytes_ / 1024)::BIGINT::VARCHAR || ' kB'
         ELSE round(bytes_ / 1048576)::BIGINT::VARCHAR || ' MB' END;
CREATE MACRO _pg.pg_typeof(value_) AS
    coalesce((SELECT f.name FROM _pg._formatted f
              WHERE f.duckdb = regexp_replace(typeof(value_), '\(.*$', '')), 'text');

-- A relation is hidden by one of the same name in a schema that is looked at earlier.
CREATE MACRO _pg.pg_table_is_visible(relation_, path_) AS
    (SELECT list_contains(path_, n.schema) AND NOT EXISTS (
        FROM _pg._spelled o
        WHERE o.name = n.name AND o.qualified
          AND list_position(path_, o.schema) < list_position(path_, n.schema))
     FROM _pg._spelled n WHERE n.oid = relation_ AND n.qualified);
