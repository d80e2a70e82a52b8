"""Which statements are about the catalog, and what becomes of them."""

import time

import pytest

from trilayer_server.engine.statements import parser
from trilayer_server.introspection import (
    SessionInfo,
    mentions,
    parameter_types,
    rewrite,
)
from trilayer_server.introspection.shapes import SCHEMAS, shapes

SESSION = SessionInfo("trilayer@7", "ana", "speed", "psql", {"Work_Mem": "1GB"}, 42)


def asked(sql):
    return rewrite(sql, SESSION, parser())


def types_of(sql):
    return parameter_types(sql, parser())


ABOUT = [
    "SELECT * FROM pg_class",
    "select 1 from PG_CATALOG.pg_type",
    "SELECT * FROM information_schema.tables",
    "SELECT 'totals'::regclass",
    "SELECT CAST(1 AS oid)",
    "SELECT current_schemas(false)",
    "SELECT current_database()",
    "SELECT version ()",
    "SELECT has_table_privilege('totals', 'SELECT')",
    "SHOW search_path",
    "  show ALL",
    "SELECT current_setting('x')",
    "SELECT user",
    "SELECT 'it''s' || obj_description(1)",
    """SELECT 1 AS "it's", 'x' FROM pg_class""",
    "SELECT $$ ' $$ FROM pg_class",
    "SELECT a OPERATOR(pg_catalog.~) 'x' FROM t",
]
OTHERS = [
    "SELECT shop, sum(n) FROM totals GROUP BY ALL",
    "SELECT 'pg_class', 'information_schema', 'x''::regclass'",
    "SELECT 1 -- pg_class",
    "SELECT /* current_database() */ 1",
    "SELECT $$ pg_type ' $$, $$ version() $$",
    "SELECT user, n FROM by_user",
    "SELECT version FROM alerts.dear",
    "FROM totals SELECT shop // 2",
    "SELECT showing FROM shows",
    "SELECT E'\\' pg_class'",
    "SELECT $a$ pg_class $$ $b$ pg_class $a$",
]


def test_a_statement_is_about_the_catalog():
    for sql in ABOUT:
        assert mentions(sql)


def test_a_statement_is_about_something_else():
    for sql in OTHERS:
        assert not mentions(sql)


@pytest.mark.parametrize("part", ["pg_class'' ", "'", '"', "(", "$$", "$a$", "/*", "--", "E'", "::",
                                  "\"'", "COLLATE ", "pg", " "])  # fmt: skip
def test_a_long_statement_is_read_once(part):
    began = time.process_time()
    for start in ("SELECT ", "SELECT '"):
        mentions(start + part * (1_000_000 // len(part)))
    assert time.process_time() - began < 2


LEFT_TO_DUCKDB = [
    "SELECT pg_class FROM WHERE",
    "INSERT INTO pg_class VALUES (1)",
    "SHOW TABLES",
    "SHOW nothing_of_this_name",
    "SELECT pg_class FROM FROM",
    "DROP TABLE pg_class; SELECT 1",
    "SELECT 1 FROM pg_class; SELECT 2 FROM pg_class",
]


def test_what_is_no_query_of_the_catalog_is_left_to_duckdb():
    for sql in LEFT_TO_DUCKDB:
        assert asked(sql).sql == sql


def test_functions_without_their_arguments_are_duckdbs_to_refuse():
    sql = "SELECT set_config('x'), format(), generate_subscripts(), current_setting()"
    assert "SET_CONFIG('x')" in asked(sql).sql.upper().replace("'X'", "'x'")


def test_names_in_texts_stay():
    text = "'FROM pg_class, ''x''::regclass, current_user'"
    assert text in asked(f"SELECT {text} FROM pg_class").sql


def test_a_cte_hides_a_relation():
    sql = asked("WITH pg_class AS (SELECT 1 AS one) SELECT one FROM pg_class").sql
    assert "_pg" not in sql


ANSWERED = [
        ("SELECT current_database()", "trilayer@7"),
        ("SELECT current_catalog", "trilayer@7"),
        ("SELECT datname FROM pg_database", "trilayer@7"),
        ("SELECT DISTINCT table_catalog FROM information_schema.tables", "trilayer@7"),
        ("SELECT current_user", "ana"),
        ("SELECT session_user", "ana"),
        ("SELECT user", "ana"),
        ("SELECT pg_get_userbyid(oid) FROM pg_roles WHERE rolname = 'ana'", "ana"),
        ("SELECT rolname FROM pg_roles WHERE rolcanlogin AND NOT rolsuper", "ana"),
        ("SELECT usename FROM pg_user", "ana"),
        ("SELECT current_schema()", "speed"),
        ("SHOW search_path", "speed, tables"),
        ("SHOW application_name", "psql"),
        ("SHOW work_mem", "1GB"),
        ("SELECT setting FROM pg_settings WHERE name = 'work_mem'", "1GB"),
        ("SELECT current_setting(name) FROM pg_settings WHERE name = 'work_mem'", "1GB"),
        ("SHOW shared_buffers", "128MB"),
        ("SHOW statement_timeout", "0"),
        ("SELECT pg_backend_pid()", 42),
        ("SELECT set_config('a.b', 'c', false)", "c"),
        ("SELECT 'totals'::regclass::oid = 'speed.totals'::regclass::oid", True),
        ("SELECT 'merged.totals'::regclass::text", "merged.totals"),
        ("SELECT '\"merged\".\"totals\"'::regclass::text", "merged.totals"),
        ("SELECT pg_table_is_visible('merged.totals'::regclass)", False),
        ("SELECT pg_table_is_visible('totals'::regclass)", True),
        ("SELECT count(*) FROM pg_class WHERE relname ~ '^totals$'", 4),
        ("SELECT current_setting('server_version_num')::int / 100", 1500),
        ("SELECT count(*) FROM pg_class WHERE relname = 'totals' AND format('%I.%s', relname, 'x')"
         " = 'totals.x'", 4),
        ("SELECT has_table_privilege('ana', 'totals', 'select, insert')", True),
        ("SELECT has_table_privilege('totals', 'DELETE')", False),
        ("SELECT relacl::text FROM pg_class WHERE oid = 'totals'::regclass",
         "{=r/pg_database_owner}"),
        ("SELECT DISTINCT privilege_type FROM information_schema.table_privileges", "SELECT"),
        ("SELECT min(relname) FROM pg_class WHERE relname LIKE 'pg\\_st%'", "pg_stat_activity"),
        # An argument that has the name of what a macro selects is not taken for it.
        ("SELECT format_type(oid, NULL) FROM pg_type WHERE typname = 'int8'", "bigint"),
        ("SELECT format_type(_type, NULL) FROM (SELECT 20 AS _type) f", "bigint"),
        ("SELECT obj_description(oid, 'pg_class') FROM pg_class WHERE oid = 'best'::regclass",
         "A query of the catalog over the layer speed."),
        ("SELECT string_agg(DISTINCT table_schema, ' ' ORDER BY table_schema)"
         " FROM information_schema.tables WHERE table_schema <> 'information_schema'",
         "alerts arrivals batch merged pg_catalog speed trilayer"),
    ]  # fmt: skip


def test_a_session_is_answered(connection):
    for sql, value in ANSWERED:
        database = connection._database.cursor()
        try:
            found = database.execute(asked(sql).sql).fetchall()
        finally:
            database.close()
        assert found == [(value,)]


def test_parameters_have_the_types_that_casts_and_columns_give_them():
    assert types_of("SELECT $1::oid[], CAST($2 AS name), $3::regclass") == {
        1: 1028, 2: 19, 3: 25}  # fmt: skip
    assert types_of("SELECT 1 FROM pg_class WHERE oid > $1 AND $2 = relname") == {
        1: 26, 2: 19}  # fmt: skip
    assert types_of("SELECT 1 FROM pg_class WHERE relname = ANY($1)") == {1: 1003}
    assert types_of("SELECT '$1::oid', n FROM totals WHERE n > $1") == {}
    assert types_of("SELECT $1::") == {}
    assert types_of("SELECT $65535::oid, $65536::oid") == {65_535: 26}
    assert types_of("SELECT $0::oid") == {}


def test_a_star_that_shows_other_columns_stays_one():
    excluded = asked("SELECT * EXCLUDE (typoutput) FROM pg_type")
    joined = asked("SELECT * FROM pg_type JOIN (SELECT 23 AS oid) USING (oid)")
    assert "EXCLUDE (typoutput)" in excluded.sql
    assert "USING (oid)" in joined.sql
    assert excluded.oids == joined.oids == []
    assert len(asked("SELECT * FROM pg_type").oids) == len(
        shapes().relations["pg_catalog", "pg_type"].columns
    )


def test_a_query_of_views_and_the_catalog_is_one_of_duckdb(connection):
    sql = asked("SELECT current_user AS who, [x for x in [1, 2]] AS l GROUP BY ALL").sql
    assert connection._database.cursor().execute(sql).fetchall() == [("ana", [1, 2])]


def test_schemas_of_postgresql_are_schemas_of_our_own():
    assert set(SCHEMAS.values()) == {"_pg", "_information_schema"}
