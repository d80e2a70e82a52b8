"""What is measured: in Prometheus's form, without SQL, and never in the way of answers."""

import re

from prometheus_client.parser import text_string_to_metric_families

from tests.support.served_http import opened
from trilayer_server.sql_error import SqlError


def scraped(served, **headers):
    with served.client(headers=headers) as client:
        answer = client.get("/metrics")
    assert answer.status_code == 200
    return answer.text


def values(text):
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_store_and_the_queries(site):
    for sql in ("FROM sold", "SELECT 'secret'", "FROM mystery"):
        site.served.ask(sql)
    text = scraped(site.served)
    found = values(text)
    assert found["trilayer_publication_version",] == 2
    assert found["trilayer_publications",] == 2
    assert found["trilayer_stream_head_offset", "0", "sales"] == 6
    assert found["trilayer_stream_cut_offset", "0", "sales"] == 4
    assert found["trilayer_stream_quarantined_events", "sales"] == 0
    assert found["trilayer_view_rows", "sold"] == 3
    assert found["trilayer_questions_total", "http", "ok"] == 2
    assert found["trilayer_questions_total", "error", "http"] == 1
    assert found["trilayer_question_duration_seconds_count", "http"] == 3
    assert found["trilayer_resident_memory_bytes", "server"] > 0
    assert found["trilayer_facts_age_seconds",] < 60
    assert "secret" not in text
    assert "mystery" not in text


def test_open_metrics_is_served_to_whom_it_is_asked_by(site):
    text = scraped(site.served, Accept="application/openmetrics-text; version=1.0.0")
    assert text.endswith("# EOF\n")


def test_a_store_that_can_not_be_read_does_not_hide_the_rest(tmp_path):
    made = opened(tmp_path)
    with made.connection, made.served:

        async def refused():
            raise SqlError("XX001", "a file is missing")

        made.served.store_reader.facts = refused
        found = values(scraped(made.served))
    assert ("trilayer_workers",) in found
    assert ("trilayer_publications",) not in found


def test_names_are_those_of_the_project(site):
    names = set(re.findall(r"^# TYPE (\S+)", scraped(site.served), re.MULTILINE))
    assert names
    assert all(name.startswith("trilayer_") for name in names)
