-- The rows of PostgreSQL's relations, filled once: those that describe this database, from its objects
-- and their columns, and those that follow from others.
--
-- The objects of PostgreSQL itself have numbers below 16384. A key's index has the next number after
-- its object, the key the one after that, and the type of its rows the third. 6171 is the role
-- pg_database_owner, which no client can be, and 16384 that of the session's user, called $user until
-- a statement is rewritten, as the database is called $database.

INSERT INTO _pg.pg_namespace BY NAME
    SELECT _oid AS oid, _name AS nspname, 6171 AS nspowner,
        ['pg_database_owner=UC/pg_database_owner', '=U/pg_database_owner'] AS nspacl
    FROM _pg._client_schemas;
INSERT INTO _pg.pg_authid BY NAME
    SELECT 16384 AS oid, '$user' AS rolname, true AS rolinherit, true AS rolcanlogin,
        -1 AS rolconnlimit;
INSERT INTO _pg.pg_database BY NAME
    SELECT 5 AS oid, '$database' AS datname, 6171 AS datdba, 6 AS encoding, 'c' AS datlocprovider,
        true AS datallowconn, -1 AS datconnlimit, 1663 AS dattablespace, 'C' AS datcollate,
        'C' AS datctype, ['=c/pg_database_owner'] AS datacl;
INSERT INTO _pg.pg_class BY NAME
    SELECT o._oid AS oid, o._name AS relname, s._oid AS relnamespace,
        CASE WHEN o._oid > 16384 THEN o._oid + 3 ELSE 0 END AS reltype, 6171 AS relowner,
        CASE o._kind WHEN 'r' THEN 2 ELSE 0 END AS relam, -1.0 AS reltuples,
        'p' AS relpersistence, o._kind AS relkind, c._number AS relnatts,
        o._kind = 'v' AS relhasrules, true AS relispopulated,
        CASE WHEN o._kind = 'r' AND o._oid > 16384 THEN 'd' ELSE 'n' END AS relreplident,
        ['=r/pg_database_owner'] AS relacl
    FROM _pg._objects o JOIN _pg._client_schemas s ON s._name = o._schema
    JOIN (SELECT _object, count(*) AS _number FROM _pg._attributes GROUP BY _object) c
        ON c._object = o._oid;
INSERT INTO _pg.pg_class BY NAME  -- the indexes of keys
    SELECT o._oid + 1 AS oid, o._name || '_pkey' AS relname, s._oid AS relnamespace,
        6171 AS relowner, 403 AS relam, -1.0 AS reltuples, 'p' AS relpersistence, 'i' AS relkind,
        len(o._key) AS relnatts, true AS relispopulated, 'n' AS relreplident
    FROM _pg._objects o JOIN _pg._client_schemas s ON s._name = o._schema
    WHERE o._key IS NOT NULL;
INSERT INTO _pg.pg_attribute BY NAME  -- an index has columns, by which clients find keys
    SELECT a._object AS attrelid, a._name AS attname, t.oid AS atttypid, -1 AS attstattarget,
        t.typlen AS attlen, a._place AS attnum, (t.typcategory = 'A')::INTEGER AS attndims,
        -1 AS attcacheoff, a._modifier AS atttypmod, t.typbyval AS attbyval,
        t.typalign AS attalign, t.typstorage AS attstorage, a._required AS attnotnull,
        true AS attislocal,
        CASE WHEN t.typcollation <> 0 AND a._object < 16384 THEN 950 ELSE t.typcollation END
            AS attcollation
    FROM (
        FROM _pg._attributes
        UNION ALL
        SELECT o._oid + 1, list_position(o._key, a._place), a._name, a._type, a._modifier, false, ''
        FROM _pg._objects o JOIN _pg._attributes a
        ON a._object = o._oid AND list_contains(o._key, a._place)
    ) a JOIN _pg.pg_type t ON t.oid = a._type;
INSERT INTO _pg.pg_type BY NAME  -- the types of the rows of relations, as far as clients look for them
    SELECT o._oid + 3 AS oid, o._name AS typname, s._oid AS typnamespace, 6171 AS typowner,
        -1 AS typlen, 'c' AS typtype, 'C' AS typcategory, true AS typisdefined, ',' AS typdelim,
        o._oid AS typrelid, 2290 AS typinput, 2291 AS typoutput, 2402 AS typreceive,
        2403 AS typsend, 'd' AS typalign, 'x' AS typstorage, -1 AS typtypmod
    FROM _pg._objects o JOIN _pg._client_schemas s ON s._name = o._schema WHERE o._oid > 16384;
INSERT INTO _pg.pg_description BY NAME
    SELECT _oid AS objoid, 2615 AS classoid, 0 AS objsubid, _comment AS description
    FROM _pg._client_schemas WHERE _comment <> ''
    UNION ALL SELECT _oid, 1259, 0, _comment FROM _pg._objects WHERE _comment <> ''
    UNION ALL SELECT _object, 1259, _place, _comment FROM _pg._attributes WHERE _comment <> '';
-- NULL is a value of a key like any other, so that it is unique, too.
INSERT INTO _pg.pg_index BY NAME
    SELECT _oid + 1 AS indexrelid, _oid AS indrelid, len(_key) AS indnatts, len(_key) AS indnkeyatts,
        true AS indisunique, true AS indnullsnotdistinct, true AS indisprimary,
        true AS indimmediate, true AS indisvalid, true AS indisready, true AS indislive,
        _key AS indkey, list_transform(_key, lambda each_: 0) AS indcollation,
        list_transform(_key, lambda each_: 0) AS indclass,
        list_transform(_key, lambda each_: 0) AS indoption
    FROM _pg._objects WHERE _key IS NOT NULL;
INSERT INTO _pg.pg_constraint BY NAME
    SELECT o._oid + 2 AS oid, o._name || '_pkey' AS conname, s._oid AS connamespace,
        'p' AS contype, true AS convalidated, o._oid AS conrelid, o._oid + 1 AS conindid,
        ' ' AS confupdtype, ' ' AS confdeltype, ' ' AS confmatchtype, true AS conislocal,
        true AS connoinherit, o._key AS conkey
    FROM _pg._objects o JOIN _pg._client_schemas s ON s._name = o._schema
    WHERE o._key IS NOT NULL;

INSERT INTO _pg.pg_roles BY NAME
    SELECT * EXCLUDE (rolpassword), '********' AS rolpassword FROM _pg.pg_authid;
INSERT INTO _pg.pg_user BY NAME
    SELECT rolname AS usename, oid AS usesysid, rolcreatedb AS usecreatedb, rolsuper AS usesuper,
        rolreplication AS userepl, rolbypassrls AS usebypassrls, '********' AS passwd
    FROM _pg.pg_authid WHERE rolcanlogin;
INSERT INTO _pg.pg_views BY NAME
    SELECT n.nspname AS schemaname, c.relname AS viewname, 'pg_database_owner' AS viewowner,
        d._sql AS definition
    FROM _pg.pg_class c JOIN _pg.pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN _pg._definitions d ON d._object = c.oid WHERE c.relkind = 'v';
INSERT INTO _pg.pg_tables BY NAME
    SELECT n.nspname AS schemaname, c.relname AS tablename, 'pg_database_owner' AS tableowner,
        c.relhasindex AS hasindexes, false AS hasrules, false AS hastriggers, false AS rowsecurity
    FROM _pg.pg_class c JOIN _pg.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r';
INSERT INTO _pg.pg_indexes BY NAME
    SELECT n.nspname AS schemaname, c.relname AS tablename, x.relname AS indexname,
        d._sql AS indexdef
    FROM _pg.pg_index i JOIN _pg.pg_class c ON c.oid = i.indrelid
    JOIN _pg.pg_class x ON x.oid = i.indexrelid
    JOIN _pg.pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN _pg._definitions d ON d._object = x.oid;

INSERT INTO _information_schema.schemata BY NAME
    SELECT '$database' AS catalog_name, nspname AS schema_name,
        'pg_database_owner' AS schema_owner
    FROM _pg.pg_namespace;
INSERT INTO _information_schema.tables BY NAME
    SELECT '$database' AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
        CASE c.relkind WHEN 'v' THEN 'VIEW' ELSE 'BASE TABLE' END AS table_type,
        'NO' AS is_insertable_into, 'NO' AS is_typed
    FROM _pg.pg_class c JOIN _pg.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'v') AND c.relname NOT LIKE '\_pg\_%' ESCAPE '\';
INSERT INTO _information_schema.views BY NAME
    SELECT '$database' AS table_catalog, v.schemaname AS table_schema, v.viewname AS table_name,
        v.definition AS view_definition, 'NONE' AS check_option, 'NO' AS is_updatable,
        'NO' AS is_insertable_into, 'NO' AS is_trigger_updatable,
        'NO' AS is_trigger_deletable, 'NO' AS is_trigger_insertable_into
    FROM _pg.pg_views v;
INSERT INTO _information_schema.columns BY NAME
    SELECT '$database' AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
        a.attname AS column_name, a.attnum AS ordinal_position,
        CASE WHEN a.attnotnull THEN 'NO' ELSE 'YES' END AS is_nullable,
        CASE WHEN b.typelem <> 0 AND b.typlen = -1 THEN 'ARRAY' ELSE f._name END AS data_type,
        CASE WHEN b.oid IN (1042, 1043) AND a.modifier > 0 THEN a.modifier - 4 END
            AS character_maximum_length,
        CASE WHEN b.oid IN (25, 1042, 1043)
             THEN CASE WHEN b.oid <> 25 AND a.modifier > 0 THEN 4 * (a.modifier - 4)
                       ELSE 1073741824 END END AS character_octet_length,
        CASE b.oid WHEN 21 THEN 16 WHEN 23 THEN 32 WHEN 20 THEN 64 WHEN 700 THEN 24
            WHEN 701 THEN 53
            WHEN 1700 THEN CASE WHEN a.modifier > 0 THEN ((a.modifier - 4) >> 16) & 65535 END
            END AS numeric_precision,
        CASE WHEN b.oid IN (20, 21, 23, 700, 701) THEN 2 WHEN b.oid = 1700 THEN 10 END
            AS numeric_precision_radix,
        CASE WHEN b.oid IN (20, 21, 23) THEN 0
             WHEN b.oid = 1700 AND a.modifier > 0 THEN (a.modifier - 4) & 2047 END
            AS numeric_scale,
        CASE WHEN b.oid IN (1082) THEN 0 WHEN b.oid IN (1083, 1114, 1184, 1186) THEN 6 END
            AS datetime_precision,
        CASE WHEN a.is_domain THEN '$database' END AS domain_catalog,
        CASE WHEN a.is_domain THEN 'information_schema' END AS domain_schema,
        CASE WHEN a.is_domain THEN a.typname END AS domain_name,
        CASE WHEN b.oid = 19 OR (b.oid IN (1043) AND a.is_domain) THEN '$database' END
            AS collation_catalog,
        CASE WHEN b.oid = 19 OR (b.oid IN (1043) AND a.is_domain) THEN 'pg_catalog' END
            AS collation_schema,
        CASE WHEN b.oid = 19 OR (b.oid IN (1043) AND a.is_domain) THEN 'C' END AS collation_name,
        '$database' AS udt_catalog, 'pg_catalog' AS udt_schema, b.typname AS udt_name,
        a.attnum::VARCHAR AS dtd_identifier, 'NO' AS is_self_referencing, 'NO' AS is_identity,
        'NO' AS identity_cycle, 'NEVER' AS is_generated, 'NO' AS is_updatable
    FROM (SELECT a.*, t.typname, t.typbasetype <> 0 AS is_domain,
              CASE WHEN t.typbasetype <> 0 THEN t.typbasetype ELSE a.atttypid END AS base,
              CASE WHEN t.typbasetype <> 0 THEN t.typtypmod ELSE a.atttypmod END AS modifier
          FROM _pg.pg_attribute a JOIN _pg.pg_type t ON t.oid = a.atttypid) a
    JOIN _pg.pg_type b ON b.oid = a.base
    JOIN _pg._formatted f ON f._type = a.base
    JOIN _pg.pg_class c ON c.oid = a.attrelid AND c.relkind IN ('r', 'v')
    JOIN _pg.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relname NOT LIKE '\_pg\_%' ESCAPE '\';
INSERT INTO _information_schema.table_privileges BY NAME
    SELECT 'pg_database_owner' AS grantor, 'PUBLIC' AS grantee, table_catalog, table_schema,
        table_name, 'SELECT' AS privilege_type, 'NO' AS is_grantable, 'YES' AS with_hierarchy
    FROM _information_schema.tables;
INSERT INTO _information_schema.table_constraints BY NAME
    SELECT '$database' AS constraint_catalog, n.nspname AS constraint_schema,
        k.conname AS constraint_name, '$database' AS table_catalog, n.nspname AS table_schema,
        c.relname AS table_name, 'PRIMARY KEY' AS constraint_type, 'NO' AS is_deferrable,
        'NO' AS initially_deferred, 'YES' AS enforced, 'NO' AS nulls_distinct
    FROM _pg.pg_constraint k JOIN _pg.pg_class c ON c.oid = k.conrelid
    JOIN _pg.pg_namespace n ON n.oid = c.relnamespace;
INSERT INTO _information_schema.key_column_usage BY NAME
    SELECT '$database' AS constraint_catalog, n.nspname AS constraint_schema,
        k.conname AS constraint_name, '$database' AS table_catalog, n.nspname AS table_schema,
        c.relname AS table_name, a.attname AS column_name,
        list_position(k.conkey, a.attnum) AS ordinal_position
    FROM _pg.pg_constraint k JOIN _pg.pg_class c ON c.oid = k.conrelid
    JOIN _pg.pg_namespace n ON n.oid = c.relnamespace
    JOIN _pg.pg_attribute a ON a.attrelid = c.oid AND list_contains(k.conkey, a.attnum);
INSERT INTO _information_schema.character_sets BY NAME
    SELECT 'UTF8' AS character_set_name, 'UCS' AS character_repertoire, 'UTF8' AS form_of_use,
        '$database' AS default_collate_catalog, 'pg_catalog' AS default_collate_schema,
        'C' AS default_collate_name;
