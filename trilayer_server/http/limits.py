"""How much a server does at once, and for one client."""

from __future__ import annotations

from dataclasses import dataclass

from trilayer_server.engine.query import STATEMENT_BYTES


@dataclass(frozen=True)
class Limits:
    """The limits of answers by HTTP; times are in seconds.

    Attributes:
        statement_bytes: The length of a statement, in UTF-8.
        body_bytes: The length of a request's body.
        replay_bytes: The length of the body of a replay.
        queries_each: How many queries of one client run at once, or wait. Those of all clients
            have no limit of their own: a client that comes late would be refused by it.
        answer_s: How long a query may take if its client does not say so.
        most_answer_s: How long it may take at most.
        subscribers: How many subscribers there are at once.
        subscribers_each: How many of one client.
        shared: How many different queries they ask.
        shared_each: How many different ones one client asks.
        rows: How many rows the answer to a subscriber's query may have.
        waiting: How many events wait for a subscriber that does not read them. It then gets a new
            snapshot in place of them.
        held_s: How long the answer to a query is held after its last subscriber has left.
        poll_s: Interval between checks of the state while there are subscribers, unless new files
            are noticed sooner.
        progress_s: The shortest interval between events which report that nothing has changed.
        stuck_s: How long a subscriber may take nothing, before its connection is closed.
        beat_s: How often something is sent so that the connection stays open.
        store_s: How long reading the store may take.
        facts_s: How long what was read of the store is used again.
    """

    statement_bytes: int = STATEMENT_BYTES
    body_bytes: int = 524_288
    replay_bytes: int = 8_388_608
    queries_each: int = 24
    answer_s: float = 60.0
    most_answer_s: float = 3_600.0
    subscribers: int = 128
    subscribers_each: int = 64
    shared: int = 32
    shared_each: int = 24
    rows: int = 10_000
    waiting: int = 32
    held_s: float = 15.0
    poll_s: float = 0.1
    progress_s: float = 1.0
    stuck_s: float = 60.0
    beat_s: float = 15.0
    store_s: float = 15.0
    facts_s: float = 1.0


USUAL = Limits()
