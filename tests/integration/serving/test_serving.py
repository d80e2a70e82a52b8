"""The serving layer: read-only SQL, answers that can be proven or are refused with the name of what
is wrong, and readers that see whole states.
"""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from typer.testing import CliRunner

import serving_layer
from tests.support.layers import Pipeline, quick
from tests.support.places import PROJECT
from tests.support.sales import catalog_on, fill, sales, truncate
from trilayer import Query
from trilayer.cli.main import app
from trilayer.cli.sql import Format, Prompt
from trilayer_core.errors import CoverageError, IntegrityError, UsageError
from trilayer_core.store import layout
from trilayer_core.store.documents import encode
from trilayer_core.store.files import Store
from trilayer_core.store.generations import Generations
from trilayer_core.store.publications import Publications

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture(scope="module")
def made(broker, spark, new_topic, tmp_path_factory):
    """A store with a publication of four events and a segment of two more, and what it was made
    with.
    """
    topic = new_topic()
    settings = quick(broker.bootstrap)
    store = Store(str(tmp_path_factory.mktemp("serving") / "store"))
    with Pipeline(catalog_on(topic), settings, store, spark) as pipeline:
        fill(pipeline)
    return topic, settings, store


@pytest.fixture
def copy(made, tmp_path):
    """The store, this test's own."""
    shutil.copytree(made[2].root, tmp_path / "store")
    return Store(str(tmp_path / "store"))


@pytest.fixture
def connection(made, copy):
    with serving_layer.connect(catalog_on(made[0]), made[1], copy) as connection:
        yield connection


def counts(connection, layer="merged"):
    return dict(connection.sql("select shop, n from totals", layer).rows())


def test_each_layer_answers_its_share(connection):
    assert counts(connection, "batch") == {"a": 2, "b": 2}
    assert counts(connection, "speed") == {"a": 1, "c": 1}
    assert counts(connection) == {"a": 3, "b": 2, "c": 1}
    assert connection.sql("from best").rows() == [("b",)]


def test_a_query_may_be_over_layers_and_over_queries_declared_after_it(made, copy):
    queries = [
        Query("fresh", "select shop, n from news where n > 0;"),
        Query(
            "news",
            "select shop, m.n - coalesce(b.n, 0) as n from merged.totals m left join batch.totals"
            " b using (shop)",
        ),
        Query("ticks", "select count(distinct _tick) as n from arrivals.totals"),
    ]
    catalog = replace(catalog_on(made[0]), queries=queries)
    with serving_layer.connect(catalog, made[1], copy) as connection:
        for layer in ("merged", "batch", "speed"):
            assert connection.sql("from fresh order by all", layer).rows() == [("a", 1), ("c", 1)]
        assert connection.sql("from ticks").rows() == [(1,)]


@pytest.mark.parametrize(
    ("queries", "says"),
    [
        (["from second", "from nowhere"], r"query 'second' must be a SELECT over .*: .*nowhere"),
        (
            ["from second", "from first"],
            r"query 'first' must .* second .*\n(.*\n)*query 'second' must .* first ",
        ),
        (["from first"], "query 'first' must be .* first does not exist"),
        (["select nothing from totals"], "query 'first' must be .*nothing"),
        (["delete from totals"], "query 'first' must be a SELECT"),
    ],
)  # fmt: skip
def test_a_query_that_can_not_be_is_named(queries, says, made, copy):
    named = [Query(name, sql) for name, sql in zip(("first", "second"), queries, strict=False)]
    with pytest.raises(UsageError, match=says):
        serving_layer.connect(replace(catalog_on(made[0]), queries=named), made[1], copy)


@pytest.mark.parametrize(
    "statement",
    [
        "insert into totals values ('x', 1, 1)",
        "update totals set n = 0",
        "delete from totals",
        "drop view totals",
        "create table t (a int)",
        "create view w as select 1",
        "alter view totals rename to t",
        "attach ':memory:' as other",
        "copy totals to '/tmp/never.csv'",
        "set memory_limit = '1GB'",
        "pragma database_list",
        "install httpfs",
        "load json",
        "begin transaction",
        "call pragma_version()",
        "export database '/tmp/never'",
        "select 1; select 2",
        "",
        "vacuum",
        "checkpoint",
        "explain analyze delete from _batch.totals",
        "explain (analyze, format json) delete from _batch.totals",
        "explain delete from _batch.totals",
        "/* a */ explain -- select 1\n analyze insert into _batch.totals from _batch.totals",
        "explain analyze drop table _batch.totals",
        "explain analyze set memory_limit = '1GB'",
        "explain analyze copy _batch.totals to '/tmp/never.csv'",
        "explain analyze commit",
        "explain analyze load json",
        "explain analyze create temp table t as select 1",
        "explain analyze select 1; select 2",
        "with gone as (delete from _batch.totals returning shop) from gone",
        "with more as (insert into _batch.totals from _batch.totals returning shop) from more",
    ],
)
def test_what_is_not_one_select_is_refused(statement, connection):
    for version in (None, 1):
        with connection.snapshot(version) as snapshot:
            with pytest.raises(UsageError, match="SQL must be one SELECT"):
                snapshot.sql(statement)
            if snapshot.sound:
                assert len(snapshot.sql("from totals").rows()) == 3
    assert counts(connection) == {"a": 3, "b": 2, "c": 1}


@pytest.mark.parametrize(
    "explain",
    ["explain", "EXPLAIN ANALYZE", "explain (format json)", "/* é */ explain -- why\n analyze"],
)
def test_a_select_is_explained(explain, connection):
    for select in (
        "from totals",
        "select 'é;'",
        "(select 1)",
        "values (1)",
        "with t as (from totals) from t",
        "from batch.best",
    ):
        assert connection.sql(f"{explain} {select}").columns == ["explain_key", "explain_value"]


@pytest.mark.parametrize(
    "call", ["enable_logging()", "disable_logging()", "enable_profiling()", "force_checkpoint()"]
)
def test_a_select_changes_no_setting(call, connection):
    with pytest.raises(UsageError):
        connection.sql(f"from {call}")


@pytest.mark.parametrize(
    "source",
    ["read_csv('/etc/passwd')", "read_text('/etc/hostname')", "'/etc/passwd'", "glob('/*')"],
)
def test_a_select_reaches_no_files(source, connection):
    with pytest.raises(UsageError):
        connection.sql(f"select * from {source}")


@pytest.mark.parametrize(
    "wrong",
    ["select * from nowhere", "select cast('x' as int)", "select * from read_csv('/etc/passwd')"],
)
def test_a_wrong_question_ends_its_snapshot_and_says_so(connection, wrong):
    with connection.snapshot() as snapshot:
        with pytest.raises(UsageError):
            snapshot.sql(wrong)
        with pytest.raises(UsageError, match="open another"):
            snapshot.sql("select * from totals")
    assert len(connection.sql("select * from totals").rows()) == 3


def test_lookup_tables_are_joined_in_every_snapshot_and_queries_still_reach_no_file(
    connection, tmp_path
):
    counts(connection)  # leaves a transaction that began before the tables
    (tmp_path / "names.csv").write_text("shop,name\na,Anna\nb,Ben\n")
    pq.write_table(pa.table({"shop": ["a"], "rank": [1]}), tmp_path / "ranks.parquet")
    connection.table("names", tmp_path / "names.csv")
    connection.table("ranks", str(tmp_path / "ranks.parquet"))
    connection.table("cities", [{"shop": "b", "city": "Bonn"}])
    connection.table("owners", pd.DataFrame({"shop": ["c"], "owner": ["Cleo"]}))
    joined = (
        "select name, n, rank, city, owner from totals left join names using (shop) left join"
        " tables.ranks using (shop) left join cities using (shop) left join owners using (shop)"
        " order by n desc"
    )
    after = [
        ("Anna", 3, 1, None, None),
        ("Ben", 2, None, "Bonn", None),
        (None, 1, None, None, "Cleo"),
    ]
    assert connection.sql(joined).rows() == after
    with connection.snapshot(version=1) as earlier:
        assert earlier.sql(joined).rows() == after
    assert connection.sql(joined, "batch").rows() == [
        ("Anna", 2, 1, None, None),
        ("Ben", 2, None, "Bonn", None),
    ]
    connection.table("names", [{"shop": "a", "name": "Ada"}])
    assert connection.sql("select name from names").rows() == [("Ada",)]
    with pytest.raises(UsageError):
        connection.sql(f"select * from read_csv('{tmp_path}/names.csv')")


def test_a_files_name_is_no_pattern(connection, tmp_path):
    for name, shop in (("z[1].csv", "right"), ("z1.csv", "wrong")):
        (tmp_path / name).write_text(f"shop\n{shop}\n")
    connection.table("zones", tmp_path / "z[1].csv")
    assert connection.sql("from zones").rows() == [("right",)]


def test_what_is_no_lookup_table_is_named(connection, tmp_path):
    (tmp_path / "broken.parquet").write_text("no")
    for name, data, says in (
        ("Names", [], "name of a table must be lower-case letters"),
        ("totals", [], "name of a table must not be that of a view or query; got 'totals'"),
        (
            "names",
            tmp_path / "names.csv",
            "a lookup table must be a file; got .*names.csv', which is not there",
        ),
        ("names", tmp_path / "names.xlsx", "must end in .csv, .*; got .*names.xlsx"),
        ("names", tmp_path / "broken.parquet", "broken.parquet must be readable as a table: "),
        ("names", 7, "must be a file's path, a DataFrame, .*; got int"),
    ):
        with pytest.raises(UsageError, match=says):
            connection.table(name, data)
    assert counts(connection) == {"a": 3, "b": 2, "c": 1}


@pytest.fixture
def folder(made, copy, tmp_path, monkeypatch):
    """The folder of a project on the copied store, in which the command line runs."""
    module = f"asked_{made[0].replace('-', '_')}"
    (tmp_path / f"{module}.py").write_text(
        f"from tests.support.sales import catalog_on\ncatalog = catalog_on({made[0]!r})\n"
    )
    settings = {
        "catalog": f"{module}:catalog",
        "store": str(copy.root),
        "bootstrap_servers": made[1].bootstrap_servers,
    }
    (tmp_path / "trilayer.toml").write_text(
        "".join(f"{k} = {json.dumps(v)}\n" for k, v in settings.items())
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_questions_come_from_an_argument_a_file_or_a_pipe(folder):
    (folder / "q.sql").write_text(
        "-- how many\nselect sum(n) as n from totals;\nselect name from names\n"
    )
    (folder / "names.csv").write_text("shop,name\na,Anna\n")

    def asked(*arguments, given=None):
        result = CliRunner().invoke(app, ["sql", "--format", "csv", *arguments], input=given)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.stdout

    assert asked("best") == "shop\nb\n"
    assert asked("-f", "q.sql", "--table", "names=names.csv") == "n\n6\nname\nAnna\n"
    assert asked("-f", "-", given="from best;") == asked(given="best\n") == "shop\nb\n"
    for arguments, says in (
        (("best", "-f", "q.sql"), "either QUERY or --file must say what is asked; got both"),
        (("-f", "none.sql"), "--file must be a file of text; got 'none.sql'"),
        (("best", "--table", "names"), "--table must be NAME=FILE"),
        (("select 1; select 2", "--format", "json"), "--format json must be of one SELECT; got 2"),
        ((), "QUERY must be a SELECT, or the name of a view or query; got nothing"),
    ):
        with pytest.raises(UsageError, match=says):
            asked(*arguments, given="")


def test_a_prompt_answers_until_it_is_left(folder, connection, capsys):
    with create_pipe_input() as typed, create_app_session(input=typed, output=DummyOutput()):
        prompt = Prompt(connection, folder / "home" / "sql_history", "merged", Format.csv)
        typed.send_text("best\nselect n\nfrom totals order by 1;\nfrom nowhere;\n.layer batch\n")
        typed.send_text("from best;\n.layer all\n.views\n.quit\n")
        prompt.run()
    out, err = capsys.readouterr()
    assert out.startswith("shop\nb\nn\n1\n2\n3\nshop\n")
    assert "totals" in out.splitlines()
    assert "nowhere" in err
    assert "layer must be one of merged, batch, speed; got 'all'" in err
    assert "select n" in (folder / "home" / "sql_history").read_text()


def test_unknown_names_are_named(connection):
    with pytest.raises(UsageError, match=r"totls.*there is|totls.*[Dd]id you mean"):
        connection.sql("select * from totls")
    with pytest.raises(UsageError, match="revenu"):
        connection.sql("select revenu from totals")
    with pytest.raises(UsageError, match="layer must be one of merged, batch, speed; got 'both'"):
        connection.sql("select 1", "both")


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def kinds_of_files(store, topic):
    publication = Publications(store).in_force()
    stream = catalog_on(topic).streams[0]
    generation = Generations(store, stream).all()[-1].name
    commit = Generations(store, stream).commits(generation)[-1]
    return {
        "batch file": publication.views["totals"].files[0].path,
        "publication": f"publications/{publication.version:08d}.json",
        "pointer": layout.POINTER,
        "segment": commit.files["totals"].path,
        "commit": layout.commit(stream, generation, commit.first, commit.last),
        "generation": f"speed/sales/{generation}/generation.json",
    }  # fmt: skip


@pytest.mark.parametrize("damage", [truncate, flip], ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    "kind", ["batch file", "publication", "pointer", "segment", "commit", "generation"]
)
def test_a_damaged_file_is_an_error_that_names_it(kind, damage, made, copy):
    path = kinds_of_files(copy, made[0])[kind]
    damage(Path(copy.path(path)))
    with (
        serving_layer.connect(catalog_on(made[0]), made[1], copy) as connection,
        pytest.raises(IntegrityError) as error,
    ):
        counts(connection)
    assert path in str(error.value)


@pytest.mark.parametrize("kind", ["batch file", "publication", "segment"])
def test_a_missing_file_is_an_error_that_names_it(kind, made, copy):
    path = kinds_of_files(copy, made[0])[kind]
    Path(copy.path(path)).unlink()
    with (
        serving_layer.connect(catalog_on(made[0]), made[1], copy) as connection,
        pytest.raises(IntegrityError, match="is missing") as error,
    ):
        counts(connection)
    assert path in str(error.value)


def test_a_missing_commit_in_the_middle_is_a_hole_that_is_named(made, copy):
    stream = catalog_on(made[0]).streams[0]
    generation = Generations(copy, stream).all()[-1].name
    commits = Generations(copy, stream).commits(generation)
    last = commits[-1]
    later = layout.commit(stream, generation, last.first + 1, last.last + 1)
    document = encode(last) | {"first": last.first + 1, "last": last.last + 1}
    for segment in document["segments"]:
        segment["ranges"] = {p: [end, end + 1] for p, (_, end) in segment["ranges"].items()}
    copy.write_document(later, document)
    copy.delete(layout.commit(stream, generation, last.first, last.last))
    with (
        serving_layer.connect(catalog_on(made[0]), made[1], copy) as connection,
        pytest.raises(
            CoverageError, match=r"stream 'sales' partition \d: nothing covers offsets \[\d+, \d+\)"
        ),
    ):
        counts(connection)


def test_a_snapshot_does_not_move_while_a_publication_does(broker, spark, store, new_topic):
    topic, settings = new_topic(), quick(broker.bootstrap)
    with Pipeline(catalog_on(topic), settings, store, spark) as pipeline:
        pipeline.produce(sales("aab"))
        pipeline.catch_up()
        with serving_layer.connect(catalog_on(topic), settings, store) as connection:
            with connection.snapshot() as snapshot:
                before = snapshot.sql("select shop, n from totals").rows()
                pipeline.wait_for_tick()
                pipeline.batch()
                pipeline.produce(sales("zz"))
                pipeline.catch_up()
                with connection.snapshot() as newer:
                    assert newer.provenance.version == 1
                    assert dict(newer.sql("select shop, n from totals").rows())["z"] == 2
                assert snapshot.sql("select shop, n from totals").rows() == before
                assert snapshot.sql("select * from totals", "batch").rows() == []
                assert snapshot.provenance.version is None
            assert counts(connection)["z"] == 2


def test_readers_in_several_processes_give_the_same(made, copy):
    script = (
        "import sys, serving_layer; from tests.support.sales import catalog_on\n"
        "from tests.support.layers import quick; from trilayer_core.store.files import Store\n"
        "with serving_layer.connect(catalog_on(sys.argv[1]), quick(''), Store(sys.argv[2])) as c:\n"
        "    sys.stdout.write(repr(sorted(c.sql('select shop, n from totals').rows())))"
    )
    command = [sys.executable, "-c", script, made[0], copy.root]
    readers = [
        subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    assert {reader.communicate(timeout=60)[0] for reader in readers} == {
        "[('a', 3), ('b', 2), ('c', 1)]"
    }


def test_a_changed_definition_has_no_answer_and_the_others_go_on(made, copy):
    with serving_layer.connect(catalog_on(made[0], where="price > 0"), made[1], copy) as connection:
        with pytest.raises(
            CoverageError,
            match="view 'totals' has no answer: its definition has changed since version 1",
        ):
            connection.sql("select * from totals")
        with pytest.raises(CoverageError, match="view 'totals' has no answer"):
            connection.sql("from best")
        # DuckDB itself does not say which tables such a statement names.
        for join in ("per_price join totals using (n)", "per_price natural join totals"):
            with pytest.raises(CoverageError, match="view 'totals' has no answer"):
                connection.sql(f"from {join}")
        for computed in (
            "query_table(['totals'])",
            "query_table('totals')",
            "query_table (['per_price', 'totals'])",
            "query('from totals')",
            "per_price join query_table(['totals']) using (n)",
        ):
            with pytest.raises(CoverageError, match="view 'totals' has no answer"):
                connection.sql(f"select count(*) from {computed}")
        assert connection.sql("select sum(n) from per_price").rows() == [(6,)]


def test_an_added_view_has_no_answer_and_says_so(made, copy):
    with serving_layer.connect(
        catalog_on(made[0], more=["newcomers"]), made[1], copy
    ) as connection:
        with pytest.raises(
            CoverageError, match="view 'newcomers' has no answer: it was added after version 1"
        ):
            connection.sql("select * from newcomers")
        assert counts(connection) == {"a": 3, "b": 2, "c": 1}


def test_without_a_generation_of_these_definitions_answers_stop_at_the_cut_and_say_so(made, copy):
    copy.delete("speed/sales")
    with serving_layer.connect(catalog_on(made[0]), made[1], copy) as connection:
        assert counts(connection) == {"a": 2, "b": 2}
        stream = connection.provenance().streams["sales"]
        assert stream.head == stream.cut
        assert stream.note.startswith(
            "the speed layer has not run these definitions: answers stop at the cut of T="
        )
