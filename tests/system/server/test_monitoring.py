"""The files for Prometheus and Grafana: what they ask for is what a running server has."""

import json
import os
import re
import shutil
import socket
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from benchmarks.written import Written
from tests.support.places import INSTALL, PROJECT
from tests.support.published import quarantine
from tests.support.served import Serving
from tests.support.served_http import SOLD, counts
from tests.support.waiting import until
from trilayer.cli.main import app
from trilayer.operations.quarantine import choose, discard
from trilayer_core.log.lag import Lag
from trilayer_core.project import Project
from trilayer_core.runtime.clock import now_ms
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.fence import Fence
from trilayer_core.store.files import Store
from trilayer_core.store.publications import Publications
from trilayer_core.store.runs import ReconciledView
from trilayer_server.http import store_reader
from trilayer_server.settings import ServeSettings

FOLDER = PROJECT / "docker" / "monitoring"
DASHBOARD = json.loads((FOLDER / "grafana-dashboard.json").read_text())
CONFIG = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
(GROUP,) = yaml.safe_load((FOLDER / "alert-rules.yml").read_text())["groups"]
RULES = {rule["alert"]: rule for rule in GROUP["rules"]}

VARIABLES = {one["name"]: one for one in DASHBOARD["templating"]["list"]}
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
TARGETS = [(panel["title"], target) for panel in PANELS for target in panel["targets"]]
EXPRESSIONS = [(title, target["expr"]) for title, target in TARGETS if "expr" in target]
QUERIES = {title: target["rawSql"] for title, target in TARGETS if "rawSql" in target}

PROMTOOL, PROMETHEUS = shutil.which("promtool"), shutil.which("prometheus")
needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason=f"promtool is not installed; {INSTALL}"
)

LAGGING = Lag(end={0: 8}, events=2, seconds=30.0, since_cut=60.0, ahead={})
"""What a broker would say."""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server on a store with two publications, of which the newest was reconciled, and segments
    with two events in quarantine, one of them discarded. Both protocols have answered a query.
    """
    folder = tmp_path_factory.mktemp("monitored")
    store = Store(str(folder / "store"))
    written, publications = Written(store, SOLD), Publications(store)
    publication = written.publish(counts(ann=1, bob=2), 3, 60_000)
    compared = {"sold": ReconciledView(match=1, differ=1, missing=0, extra=0, keys=[])}
    number, token = publications.next_number(), Fence(store).take("monitored")
    publication = replace(
        publication, version=number, token=token, t_ms=120_000, reconciliation=compared
    )
    publications.write(publication)
    publications.put_in_force(number, token, "publish")
    written.begin(1)
    written.commit(counts(bob=1, cy=1), 2, now_ms())
    quarantine(written, counts(), ["broken JSON", "wrong type: at"])
    events = choose(store, [SOLD.stream], [], "broken JSON")
    discard(store, events, by="the test", why="noise")

    def lagging(provenance, catalog, settings):
        streams = {name: replace(s, lag=LAGGING) for name, s in provenance.streams.items()}
        return replace(provenance, streams=streams)

    settings = Settings(
        home=folder, store=str(folder / "store"), serve={"port": 0, "http_port": 0, "workers": 1}
    )
    with (
        pytest.MonkeyPatch.context() as patch,
        Serving(Project(settings, written.catalog, store)) as server,
    ):
        patch.setattr(store_reader, "lagging", lagging)
        with server.client() as client:
            assert client.execute("SELECT count(*) FROM sold").fetchone() == (3,)
        answer = httpx.post(
            f"http://{server.target}/v1/sql", json={"sql": "FROM sold"}, trust_env=False, timeout=20
        )
        assert answer.status_code == 200
        yield server


def expanded(expr, target):
    """An expression as Grafana sends it."""
    expr = expr.replace("$instance", target).replace("$__rate_interval", "1m")
    assert "$" not in expr
    return expr


# -- the files -------------------------------------------------------------------------------------


def test_panels_lie_side_by_side_and_say_what_they_show():
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    taken = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    assert all(panel["title"] and panel["description"].endswith(".") for panel in PANELS)
    assert len({panel["title"] for panel in PANELS}) == len(QUERIES) + len(
        {title for title, _ in EXPRESSIONS}
    ), "each panel asks one source, and no two have the same title"


def test_a_panel_asks_the_sources_that_are_chosen():
    types = {
        f"${{{name}}}": one["query"] for name, one in VARIABLES.items() if "datasource" not in one
    }
    assert set(types.values()) == {"prometheus", "grafana-postgresql-datasource"}
    asking = [*PANELS, *(target for _, target in TARGETS), VARIABLES["instance"], VARIABLES["view"]]
    for one in asking:
        assert types[one["datasource"]["uid"]] == one["datasource"]["type"]
    for _, target in TARGETS:
        assert ("expr" in target) == (target["datasource"]["type"] == "prometheus")


def test_prometheus_asks_where_the_server_listens():
    ((job,),) = [CONFIG["scrape_configs"]]
    usual = ServeSettings()
    assert job["static_configs"] == [{"targets": [f"{usual.host}:{usual.http_port}"]}]
    assert "metrics_path" not in job, "/metrics is Prometheus's default"
    assert f'job="{job["job_name"]}"' in RULES["TrilayerServerDown"]["expr"]


@pytest.mark.parametrize("name", RULES)
def test_an_alert_names_commands_that_there_are(name):
    rule = RULES[name]
    assert rule["for"]
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert rule["annotations"]["summary"].endswith(".")
    commands = re.findall(r"`trilayer ([^`]+)`", rule["annotations"]["description"])
    assert commands
    for command in commands:
        words = [word for word in command.split() if not word.isupper()]
        options = [word for word in words if word.startswith("-")]
        shown = CliRunner().invoke(
            app,
            [*(word for word in words if word not in options), "--help"],
            env={"COLUMNS": "200"},
        )
        assert shown.exit_code == 0, command
        assert all(option in shown.output for option in options), command


@needs_promtool
@pytest.mark.parametrize("check", [["rules", "alert-rules.yml"], ["config", "prometheus.yml"]])
def test_promtool_accepts(check):
    found = subprocess.run(
        [PROMTOOL, "check", *check], cwd=FOLDER, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr


# -- a running server ------------------------------------------------------------------------------


def test_every_metric_is_one_that_the_server_has(served):
    text = httpx.get(f"http://{served.target}/metrics", trust_env=False, timeout=20).text
    there = {sample.name for one in text_string_to_metric_families(text) for sample in one.samples}
    asked = [
        *(expr for _, expr in EXPRESSIONS),
        *(rule["expr"] for rule in RULES.values()),
        VARIABLES["instance"]["definition"],
    ]
    named = {name for expr in asked for name in re.findall(r"\btrilayer_\w+", expr)}
    assert len(named) > 20
    assert not named - there


MACRO = re.compile(r"\$(__\w+)\(([^)]*)\)")


def as_grafana(sql, view):
    """A query as Grafana's PostgreSQL datasource sends it: the variables first, then the macros."""
    now = datetime.now(UTC)
    times = [f"'{at:%Y-%m-%dT%H:%M:%S.%f}Z'" for at in (now - timedelta(hours=6), now)]

    def macro(found):
        name, arguments = found[1], [part.strip() for part in found[2].split(",")]
        column = arguments[0]
        if name == "__timeGroupAlias":
            seconds = {"1m": 60}[arguments[1]]
            return f'floor(extract(epoch from {column})/{seconds})*{seconds} AS "time"'
        return {
            "__time": f'{column} AS "time"',
            "__timeFilter": f"{column} BETWEEN {times[0]} AND {times[1]}",
        }[name]

    sql = sql.replace("${view:doublequote}", f'"{view}"').replace("$__interval", "1m")
    sql = MACRO.sub(macro, sql)
    assert "$" not in sql
    return sql


@pytest.mark.parametrize("title", QUERIES)
def test_a_query_of_a_panel_is_answered(served, title):
    with served.client() as client:
        views = [name for (name,) in client.execute(VARIABLES["view"]["query"]).fetchall()]
        assert views == ["sold"]
        # Grafana sends simple queries.
        answer = client.execute(as_grafana(QUERIES[title], views[0]).encode())
        names, rows = [column.name for column in answer.description], answer.fetchall()
    expected = {
        "Share of batch and speed": [("sales", 3, 4)],
        "Rows of $view by layer": [("batch", 2), ("speed", 2), ("merged", 3)],
        "Quarantine by reason": [("sales", "wrong type", 1)],
    }
    if title in expected:
        assert [row[: len(wanted)] for row, wanted in zip(rows, expected[title], strict=True)] == (
            expected[title]
        )
    empty = {
        "Lag by partition": "no broker answers",
        "Keys that differ": "the file of keys is not written",
    }
    assert bool(rows) == (title not in empty)
    (target,) = (target for name, target in TARGETS if name == title)
    assert (target["format"] == "time_series") == (names[0] == "time")


# -- a real Prometheus -----------------------------------------------------------------------------

SCRAPED_THRICE = "count_over_time(trilayer_stream_lag_events[1m]) > 2"


@pytest.fixture(scope="module")
def prometheus(served, tmp_path_factory):
    """A Prometheus with the files, which scrapes the server more often."""
    if PROMETHEUS is None:
        pytest.skip(f"prometheus is not installed; {INSTALL}")
    folder = tmp_path_factory.mktemp("prometheus")
    (job,) = CONFIG["scrape_configs"]
    config = CONFIG | {
        "global": {
            "scrape_interval": "250ms",
            "scrape_timeout": "250ms",
            "evaluation_interval": "250ms",
        },
        "rule_files": [str(FOLDER / name) for name in CONFIG["rule_files"]],
        "scrape_configs": [job | {"static_configs": [{"targets": [served.target]}]}],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    options = {
        "config.file": folder / "prometheus.yml",
        "storage.tsdb.path": folder / "data",
        "web.listen-address": address,
        "log.level": "warn",
    }
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [PROMETHEUS, *(f"--{name}={value}" for name, value in options.items())],
            env=os.environ | {"GOMAXPROCS": "1"},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        with httpx.Client(base_url=f"http://{address}/api/v1", trust_env=False) as client:

            def get(path, **parameters):
                answer = client.get(path, params=parameters)
                assert answer.status_code == 200, answer.text
                return answer.json()["data"]

            def scraped():
                assert process.poll() is None, (folder / "log").read_text()
                try:
                    ready = client.get("/query", params={"query": SCRAPED_THRICE})
                except httpx.TransportError:
                    return False
                return ready.status_code == 200 and bool(ready.json()["data"]["result"])

            until(scraped)
            yield SimpleNamespace(get=get)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def test_every_expression_of_a_panel_has_values(served, prometheus):
    empty = [
        (title, expr)
        for title, expr in EXPRESSIONS
        if not prometheus.get("/query", query=expanded(expr, served.target))["result"]
    ]
    assert not empty
    values = prometheus.get("/label/instance/values", **{"match[]": "trilayer_workers"})
    assert values == [served.target]


def test_every_rule_is_evaluated_and_the_right_ones_wait_to_fire(prometheus):
    def evaluated():
        (group,) = prometheus.get("/rules")["groups"]
        rules = {rule["name"]: rule for rule in group["rules"]}
        assert not any(rule.get("lastError") for rule in rules.values()), rules
        return all(rule["health"] == "ok" for rule in rules.values())

    until(evaluated)
    for name, rule in RULES.items():
        active = prometheus.get("/query", query=rule["expr"])["result"]
        assert bool(active) == (
            name in ("TrilayerCutLate", "TrilayerSpeedStalled", "TrilayerReconcileDiffers")
        ), (name, active)

    until(lambda: len(prometheus.get("/alerts")["alerts"]) == 3)
    said = {
        alert["labels"]["alertname"]: alert["annotations"]
        for alert in prometheus.get("/alerts")["alerts"]
    }
    assert not re.search(r"error expanding|\{\{|<no value>", json.dumps(said))
    assert "1 events are in the log" in said["TrilayerSpeedStalled"]["description"]
    assert "answers for 1 keys" in said["TrilayerReconcileDiffers"]["description"]


# -- what the rules are for ------------------------------------------------------------------------

AT = 'job="trilayer", instance="a"'
OF = f'{AT}, stream="sales"'
HEAD, END = "trilayer_stream_head_offset", "trilayer_stream_end_offset"
CASES = {
    "a cut that is late": ("TrilayerCutLate", {f"trilayer_batch_late{{{AT}}}": "0x5 1x20"}, 15),
    "a cut that was late for a moment": (
        None,
        {f"trilayer_batch_late{{{AT}}}": "0x5 1x3 0x20"},
        15,
    ),
    "a partition that stands still": (
        "TrilayerSpeedStalled",
        {
            f'{HEAD}{{{OF}, partition="0"}}': "10x30",
            f'{END}{{{OF}, partition="0"}}': "10 11x30",
            f'{HEAD}{{{OF}, partition="1"}}': "10+10x30",
            f'{END}{{{OF}, partition="1"}}': "20+10x30",
        },
        20,
    ),
    "a head that follows": (
        None,
        {
            f'{HEAD}{{{OF}, partition="0"}}': "10+10x30",
            f'{END}{{{OF}, partition="0"}}': "90+10x30",
            f'{HEAD}{{{OF}, partition="1"}}': "10x30",
            f'{END}{{{OF}, partition="1"}}': "10x30",
        },
        20,
    ),
    "more in quarantine": (
        "TrilayerQuarantineRising",
        {f"trilayer_stream_quarantined_events{{{OF}}}": "3x10 4x60"},
        20,
    ),
    "no more in quarantine": (
        None,
        {f"trilayer_stream_quarantined_events{{{OF}}}": "3x10 4x60"},
        60,
    ),
    "layers that differ": (
        "TrilayerReconcileDiffers",
        {
            f'trilayer_reconciliation_keys{{{AT}, view="v", kind="match"}}': "9x20",
            f'trilayer_reconciliation_keys{{{AT}, view="v", kind="missing"}}': "0x5 2x15",
        },
        10,
    ),
    "layers that agree": (
        None,
        {
            f'trilayer_reconciliation_keys{{{AT}, view="v", kind="match"}}': "9x20",
            f'trilayer_reconciliation_keys{{{AT}, view="v", kind="missing"}}': "0x20",
        },
        10,
    ),
    "a server that has ended": ("TrilayerServerDown", {f"up{{{AT}}}": "1x5 0x15"}, 10),
    "a store that was never read": (
        "TrilayerStoreUnread",
        {f"trilayer_workers{{{AT}}}": "2x20"},
        10,
    ),
    "a store that was read long ago": (
        "TrilayerStoreUnread",
        {f"trilayer_workers{{{AT}}}": "2x20", f"trilayer_facts_age_seconds{{{AT}}}": "0+60x20"},
        10,
    ),
    "a store that is read": (
        None,
        {f"trilayer_workers{{{AT}}}": "2x20", f"trilayer_facts_age_seconds{{{AT}}}": "1x20"},
        10,
    ),
    "a broker that does not answer": (
        "TrilayerLagUnknown",
        {f"trilayer_publications{{{AT}}}": "2x20"},
        10,
    ),
    "a broker that answers": (
        None,
        {f"trilayer_publications{{{AT}}}": "2x20", f"trilayer_stream_lag_events{{{OF}}}": "0x20"},
        10,
    ),
}
"""Which alert fires at a minute, or none, after series of one value a minute."""


@needs_promtool
def test_an_alert_fires_when_it_should(tmp_path):
    assert {alert for alert, _, _ in CASES.values()} - {None} == set(RULES)
    tests = [
        {
            "name": name,
            "interval": "1m",
            "input_series": [{"series": s, "values": v} for s, v in series.items()],
            "promql_expr_test": [
                {
                    "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                    "eval_time": f"{minute}m",
                    "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1}]
                    if alert
                    else [],
                }
            ],
        }
        for name, (alert, series, minute) in CASES.items()
    ]
    document = {"rule_files": [str(FOLDER / "alert-rules.yml")], "evaluation_interval": "1m"}
    (tmp_path / "cases.yml").write_text(yaml.safe_dump(document | {"tests": tests}))
    found = subprocess.run(
        [PROMTOOL, "test", "rules", tmp_path / "cases.yml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr


@needs_promtool
def test_promtool_accepts_the_metrics_of_a_server(served):
    scraped = httpx.get(f"http://{served.target}/metrics", trust_env=False).text
    checked = subprocess.run(
        [PROMTOOL, "check", "metrics"], input=scraped, capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
