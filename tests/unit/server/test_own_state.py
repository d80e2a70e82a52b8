"""The schema `trilayer`: what its relations count, they count once."""

from serving_layer.result import Provenance, StreamProvenance
from trilayer.operations import system_relations
from trilayer_server.introspection.comments import OWN_RELATIONS


def test_the_numbers_of_a_stream_stand_in_one_row_however_many_partitions_it_has():
    stream = StreamProvenance(
        cut={0: 5, 1: 7}, head={0: 8, 1: 9, 2: 1}, generation="g", speed_events=6,
        quarantined=1, note="", quarantined_in_all=2, batch_events=12,
    )  # fmt: skip
    provenance = Provenance(3, "2026-01-01T00:00:00Z", "full", exact=True, streams={"s": stream})
    (row,) = system_relations.relation("provenance", None, None, provenance).to_pylist()
    assert (row["stream"], row["batch_events"], row["speed_events"]) == ("s", 12, 6)
    document = provenance.to_json()["streams"]["s"]
    shared = [name for name in document if name in row]
    assert "quarantined_in_all" in shared
    assert [row[name] for name in shared] == [document[name] for name in shared]
    assert system_relations.relation("partitions", None, None, provenance).to_pylist() == [
        {"stream": "s", "partition": 0, "cut": 5, "head": 8},
        {"stream": "s", "partition": 1, "cut": 7, "head": 9},
        {"stream": "s", "partition": 2, "cut": 0, "head": 1},
    ]


def test_each_relation_and_column_has_a_comment():
    assert {name: [*columns] for name, (_, columns) in OWN_RELATIONS.items()} == {
        name: made.schema.names for name, made in system_relations.relations().items()
    }
