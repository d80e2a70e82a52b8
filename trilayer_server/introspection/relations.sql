-- Relations of PostgreSQL that follow from others, filled once.

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
