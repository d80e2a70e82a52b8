-- PostgreSQL's functions about its catalog, as macros in the schema _pg.
--
-- DuckDB puts the argument of a macro in its place as text is, so that a subquery of the macro takes
-- a column of its own for one of the same name in the argument. Arguments end with an underscore
-- here. What subqueries select from has columns that begin with one, and no alias. The arguments
-- path_ and user_ are added by the rewriting: a list of schemas, and the name of a role.

CREATE VIEW _pg._roles AS SELECT oid AS _role, rolname AS _name FROM _pg.pg_authid;
CREATE VIEW _pg._functions AS SELECT oid AS _function, proname AS _name FROM _pg.pg_proc;
CREATE VIEW _pg._schemas AS SELECT oid AS _schema, nspname AS _name FROM _pg.pg_namespace;
CREATE VIEW _pg._comments AS
    SELECT objoid AS _object, classoid AS _catalog, objsubid AS _part, description AS _said
    FROM _pg.pg_description;
CREATE VIEW _pg._key_columns AS
    SELECT i.indexrelid AS _index, list_position(i.indkey, a.attnum) AS _place, a.attname AS _name
    FROM _pg.pg_index i JOIN _pg.pg_attribute a
    ON i.indrelid = a.attrelid AND list_contains(i.indkey, a.attnum);

CREATE VIEW _pg._keys AS
    SELECT o._oid AS _object, o._schema || '.' || o._name AS _relation, o._name || '_pkey' AS _name,
        '(' || list_aggregate(list_select(c._names, o._key), 'string_agg', ', ') || ')'
            AS _columns
    FROM _pg._objects o JOIN (
        SELECT _object, list(_name ORDER BY _place) AS _names FROM _pg._attributes GROUP BY _object
    ) c ON c._object = o._oid WHERE o._key IS NOT NULL;
CREATE TABLE _pg._definitions AS
    SELECT _oid AS _object, _definition AS _sql FROM _pg._objects WHERE _definition <> ''
    UNION ALL
    SELECT _object + 1, 'CREATE UNIQUE INDEX ' || _name || ' ON ' || _relation || ' USING btree '
        || _columns FROM _pg._keys
    UNION ALL SELECT _object + 2, 'PRIMARY KEY ' || _columns FROM _pg._keys;
-- The names of all relations, each with its schema and without.
CREATE TABLE _pg._spelled AS
    SELECT CASE WHEN _qualified THEN _schema || '.' || _name ELSE _name END AS _text, _name, _schema,
        _relation, _qualified, list(_schema) OVER (PARTITION BY _name, _qualified) AS _homonyms
    FROM (
        SELECT _name, _schema, _oid AS _relation FROM _pg._objects
        UNION ALL
        SELECT _name || '_pkey', _schema, _oid + 1 FROM _pg._objects WHERE _key IS NOT NULL
    ), (VALUES (true), (false)) q(_qualified);

CREATE MACRO _pg.quote_ident(name_) AS
    CASE WHEN regexp_full_match(name_, '[a-z_][a-z0-9_$]*') THEN name_
         ELSE '"' || replace(name_, '"', '""') || '"' END;
CREATE MACRO _pg.quote_literal(value_) AS '''' || replace(value_::VARCHAR, '''', '''''') || '''';
CREATE MACRO _pg.parse_ident(name_) AS string_split(replace(name_, '"', ''), '.');

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
         ELSE coalesce((SELECT _pg._modified(_name, _type, modifier_) FROM _pg._formatted
                        WHERE _type = type_), '???') END;
CREATE MACRO _pg.regtype_text(type_) AS
    CASE WHEN type_ = 0 THEN '-'
         ELSE coalesce((SELECT _name FROM _pg._formatted WHERE _type = type_), type_::VARCHAR) END;
CREATE MACRO _pg.to_regtype(text_) AS
    CASE WHEN regexp_full_match(text_::VARCHAR, '\d+') THEN TRY_CAST(text_::VARCHAR AS UINTEGER)
         ELSE (SELECT min(_type) FROM _pg._formatted
               WHERE replace(replace(text_::VARCHAR, '"', ''), 'pg_catalog.', '')
                     IN (_name, _internal)) END;
CREATE MACRO _pg.regtype(text_) AS
    CASE WHEN text_ IS NULL THEN NULL
         ELSE coalesce(_pg.to_regtype(text_),
                       error('type "' || text_::VARCHAR || '" does not exist')::UINTEGER) END;
CREATE MACRO _pg.pg_typeof(value_) AS
    coalesce((SELECT min(_type) FROM _pg._formatted
              WHERE _duckdb = regexp_replace(typeof(value_), '\(.*$', '')), 25::UINTEGER);

-- Relations, functions and schemas by name
CREATE MACRO _pg.to_regclass(text_, path_) AS
    CASE WHEN regexp_full_match(text_::VARCHAR, '\d+') THEN TRY_CAST(text_::VARCHAR AS UINTEGER)
         ELSE (SELECT arg_min(_relation, coalesce(list_position(path_, _schema), 1000))
               FROM _pg._spelled
               WHERE _text = regexp_replace(lower(replace(text_::VARCHAR, '"', '')),
                                            '^[^.]*\.([^.]*\.[^.]*)$', '\1')
                 AND (_qualified OR list_contains(path_, _schema))) END;
CREATE MACRO _pg.regclass(text_, path_) AS
    CASE WHEN text_ IS NULL THEN NULL
         ELSE coalesce(_pg.to_regclass(text_, path_),
                       error('relation "' || text_::VARCHAR || '" does not exist')::UINTEGER) END;
CREATE MACRO _pg.regclass_text(relation_, path_) AS
    CASE WHEN relation_ = 0 THEN '-'
         ELSE coalesce((SELECT CASE WHEN list_contains(path_, _schema) THEN _name ELSE _text END
                        FROM _pg._spelled WHERE _relation = relation_ AND _qualified),
                       relation_::VARCHAR) END;
-- A relation is hidden by one of the same name in a schema that is looked at earlier.
CREATE MACRO _pg.pg_table_is_visible(relation_, path_) AS
    (SELECT list_contains(path_, _schema) AND NOT list_has_any(
         _homonyms, path_[:list_position(path_, _schema) - 1])
     FROM _pg._spelled WHERE _relation = relation_ AND _qualified);
CREATE MACRO _pg.to_regproc(text_) AS
    CASE WHEN regexp_full_match(text_::VARCHAR, '\d+') THEN TRY_CAST(text_::VARCHAR AS UINTEGER)
         ELSE (SELECT min(_function) FROM _pg._functions
               WHERE _name = regexp_replace(text_::VARCHAR, '^pg_catalog\.|\(.*$', '', 'g')) END;
CREATE MACRO _pg.regproc(text_) AS coalesce(_pg.to_regproc(text_), 0::UINTEGER);
CREATE MACRO _pg.regproc_text(function_) AS
    CASE WHEN function_ = 0 THEN '-'
         ELSE coalesce((SELECT _name FROM _pg._functions WHERE _function = function_),
                       function_::VARCHAR) END;
CREATE MACRO _pg.to_regnamespace(text_) AS
    CASE WHEN regexp_full_match(text_::VARCHAR, '\d+') THEN TRY_CAST(text_::VARCHAR AS UINTEGER)
         ELSE (SELECT _schema FROM _pg._schemas
               WHERE _name = replace(text_::VARCHAR, '"', '')) END;
CREATE MACRO _pg.regnamespace(text_) AS
    CASE WHEN text_ IS NULL THEN NULL
         ELSE coalesce(_pg.to_regnamespace(text_),
                       error('schema "' || text_::VARCHAR || '" does not exist')::UINTEGER) END;
CREATE MACRO _pg.regnamespace_text(schema_) AS
    coalesce((SELECT _name FROM _pg._schemas WHERE _schema = schema_), schema_::VARCHAR);

-- Roles. The session's user is the role $user.
CREATE MACRO _pg.pg_get_userbyid(role_, user_) AS
    coalesce((SELECT replace(_name, '$user', user_) FROM _pg._roles WHERE _role = role_),
             'unknown (OID=' || role_::VARCHAR || ')');
CREATE MACRO _pg.to_regrole(text_, user_) AS
    CASE WHEN regexp_full_match(text_::VARCHAR, '\d+') THEN TRY_CAST(text_::VARCHAR AS UINTEGER)
         ELSE (SELECT _role FROM _pg._roles
               WHERE replace(_name, '$user', user_) = replace(text_::VARCHAR, '"', '')) END;

-- Comments and definitions
CREATE MACRO _pg.obj_description
    (object_, catalog_) AS
        (SELECT _said FROM _pg._comments
         WHERE _object = object_ AND _part = 0
           AND _catalog = (SELECT _relation FROM _pg._spelled
                           WHERE _text = 'pg_catalog.' || catalog_)),
    (object_) AS
        (SELECT min(_said) FROM _pg._comments WHERE _object = object_ AND _part = 0);
CREATE MACRO _pg.shobj_description(object_, catalog_) AS NULL::VARCHAR;
CREATE MACRO _pg.col_description(relation_, column_) AS
    (SELECT _said FROM _pg._comments
     WHERE _object = relation_ AND _part = column_ AND _catalog = 1259);
CREATE MACRO _pg._definition(object_) AS
    (SELECT _sql FROM _pg._definitions WHERE _object = object_);
CREATE MACRO _pg.pg_get_viewdef
    (view_, path_) AS _pg._definition(_pg.to_regclass(view_, path_)),
    (view_, pretty_, path_) AS _pg._definition(_pg.to_regclass(view_, path_));
CREATE MACRO _pg.pg_get_indexdef
    (index_) AS _pg._definition(index_),
    (index_, column_, pretty_) AS
        CASE WHEN column_ = 0 THEN _pg._definition(index_)
             ELSE (SELECT _name FROM _pg._key_columns
                   WHERE _index = index_ AND _place = column_) END;
CREATE MACRO _pg.pg_get_constraintdef
    (constraint_) AS _pg._definition(constraint_),
    (constraint_, pretty_) AS _pg._definition(constraint_);
CREATE MACRO _pg.pg_index_column_has_property(index_, column_, property_) AS
    lower(property_) IN ('asc', 'nulls_last', 'orderable', 'returnable');
CREATE MACRO _pg.pg_get_expr
    (tree_, relation_) AS tree_::VARCHAR, (tree_, relation_, pretty_) AS tree_::VARCHAR;

-- Privileges: everybody may read everything, and nothing else.
CREATE MACRO _pg._allowed(privilege_) AS
    regexp_matches(lower(privilege_), '(^|,)\s*(select|usage|connect|execute|member|set)\s*(,|$)');
CREATE MACRO _pg.aclexplode(list_) AS
    list_transform(list_, lambda one_: {
        'grantor': 6171::UINTEGER, 'grantee': 0::UINTEGER,
        'privilege_type': CASE WHEN contains(one_, '=U/') THEN 'USAGE' ELSE 'SELECT' END,
        'is_grantable': false});

-- Lists
CREATE MACRO _pg.expandarray(list_) AS
    list_transform(list_, lambda value_, place_: {'x': value_, 'n': place_::INTEGER});
CREATE MACRO _pg.pg_options_to_table(list_) AS
    list_transform(list_, lambda one_: {
        'option_name': split_part(one_, '=', 1), 'option_value': split_part(one_, '=', 2)});

-- Names and sizes
CREATE MACRO _pg.setting(name_) AS
    (SELECT min(_setting) FROM _pg._settings WHERE lower(_name) = lower(name_));
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
