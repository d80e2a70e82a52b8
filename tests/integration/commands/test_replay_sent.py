"""What `trilayer replay` has sent, on a real broker."""

import pytest

from trilayer import Stream
from trilayer.operations.files.events import Events
from trilayer.operations.files.reading import read_events
from trilayer.operations.sending import send
from trilayer_core.errors import EnvironmentFault
from trilayer_core.log.broker import Log


@pytest.mark.kafka
@pytest.mark.slow
def test_an_event_too_large_to_be_sent_is_named_with_its_line(tmp_path, broker, new_topic):
    stream = Stream("orders", "shop string, at timestamp", event_time="at", topic=new_topic())
    path = tmp_path / "orders.jsonl"
    path.write_text(
        '{"shop": "a"}\n\n{"shop": "b"}\n{"shop": "%s"}\n{"shop": "d"}\n' % ("c" * (1 << 20))
    )
    with Log(broker.bootstrap) as log:
        topic = log.ensure(stream)
        with pytest.raises(
            EnvironmentFault,
            match=(
                r"line 4 can't be sent: .*MessageSizeTooLarge.*; 1 were sent.*--skip 3 goes on"
                r" after it"
            ),
        ):
            send(read_events(path, stream), stream, broker.bootstrap, path.name, skip=1)
        assert sum(log.end(topic).values()) == 1


@pytest.mark.kafka
def test_each_event_says_where_it_comes_from(tmp_path, broker, new_topic):
    from kafka import KafkaConsumer

    stream = Stream("orders", "n int, day date", event_time="day", topic=new_topic(), partitions=1)
    rows = [f"2026-01-01,{n}" for n in ("1", "two", "3", "four", "5,6")]
    path = tmp_path / "orders.csv"
    path.write_text("\n".join(["day,n", *rows]) + "\n")
    with Log(broker.bootstrap) as log:
        log.ensure(stream)
    events = read_events(path, stream)
    sent = send(events, stream, broker.bootstrap, path.name, skip=1, limit=4)
    assert isinstance(events, Events)
    assert (sent.events, sent.faulty, sent.first.place) == (4, 1, "line 6")
    assert sent.first.fault == "3 cells, where the header has 2"
    consumer = KafkaConsumer(
        stream.topic,
        bootstrap_servers=broker.bootstrap,
        auto_offset_reset="earliest",
        consumer_timeout_ms=10_000,
    )
    found = [(r.value, dict(r.headers)) for r, _ in zip(consumer, range(4), strict=False)]
    consumer.close(autocommit=False)
    assert found == [
        (b'{"n": "two", "day": "2026-01-01"}', {"trilayer-source": b"orders.csv line 3"}),
        (b'{"n": 3, "day": "2026-01-01"}', {"trilayer-source": b"orders.csv line 4"}),
        (b'{"n": "four", "day": "2026-01-01"}', {"trilayer-source": b"orders.csv line 5"}),
        (b"2026-01-01,5,6", {"trilayer-source": b"orders.csv line 6"}),
    ]
    lines = ['{"n": 1, "dya": 1}', '{"day": "2026-01-01", "m": 2, "dya": 3}', "[1]"]
    path = tmp_path / "orders.jsonl"
    path.write_text("\n".join(lines) + "\n")
    sent = send(read_events(path, stream), stream, broker.bootstrap, path.name)
    assert sent.unknown == {"dya": 2, "m": 1}
    with Log(broker.bootstrap) as log:
        topic = log.topic(stream)
        assert [value.decode() for value in log.newest(topic, 2, within_s=30)] == lines[1:]
        assert len(list(log.newest(topic, 1_000, within_s=30))) == 7
