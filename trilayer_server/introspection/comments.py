"""The comments that clients see on the schemas, and on the system's own state.

`objects.py` makes the comments on views and tables, because they follow from the definitions.
"""

from collections.abc import Mapping

from trilayer.operations.system_relations import OWN_SCHEMA

SCHEMAS: Mapping[str, str] = {
    "merged": "The views over all events: the batch and the speed layer merged.",
    "batch": "The views over the events below the cut, as the batch layer counts them.",
    "speed": "The views over the events from the cut on, as the speed layer counts them.",
    "arrivals": "The views over the events from the cut on, by the tick in which they arrived.",
    "alerts": "The events that raised an alert, a view for each alert.",
    "tables": "The reference tables.",
    OWN_SCHEMA: "The state of the system itself.",
}
"""The schemas that clients see, and the comment on each."""

OWN_RELATIONS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "history": (
        "The publications that are kept, a row for each stream.",
        {
            "version": "The number of the publication.",
            "stream": "The stream.",
            "t": "The time T up to which the publication counts.",
            "published_at": "When it was published.",
            "kind": "How it was computed: incremental or full.",
            "base": "The publication that it continues.",
            "in_force": "Whether answers are based on it.",
            "published": "Whether it is or has been in force.",
            "cut": "The offsets up to which the batch layer has counted, by partition.",
            "events": "The events below the cut, those in quarantine among them.",
            "quarantined": "The events below the cut that do not fit the schema.",
            "lost": "The events that the log had lost.",
            "differing_keys": "The keys for which both layers had computed different values.",
        },
    ),
    "segments": (
        "What the speed layer has committed, a row for the events of one tick in one commit.",
        {
            "stream": "The stream.",
            "generation": "The generation of the speed layer that has committed it.",
            "first": "The first micro-batch of the commit.",
            "last": "The last micro-batch of the commit.",
            "tick": "The start of the tick in which the events arrived.",
            "events": "The events in it.",
            "quarantined": "The events in it that do not fit the schema.",
            "oldest": "When its first event was appended to the log.",
            "newest": "When its last event was appended to the log.",
            "committed_at": "When it was committed.",
            "waited_s": "The longest time from an event to its commit, in seconds.",
            "ranges": "The offsets in it, by partition.",
            "batch_version": "The oldest kept publication that counts it; NULL if there is none.",
        },
    ),
    "lag": (
        "How far the log extends beyond the head. It is empty if no broker answers.",
        {
            "stream": "The stream.",
            "partition": "The partition.",
            "head": "The offset up to which answers reach.",
            "end": "The offset at which the log ends.",
            "events": "The events in between.",
            "stream_lag_s": "The age of the oldest event of the stream that is not below the head.",
            "uncovered_s": "The age of the oldest event of the stream that is not below the cut.",
        },
    ),
    "quarantine": (
        "The events that do not fit their schema, also those replayed or discarded since.",
        {
            "stream": "The stream.",
            "origin": "The number of the log that had the event.",
            "partition": "Its partition.",
            "offset": "Its offset.",
            "appended_at": "When it was appended to the log.",
            "reason": "Why it does not fit.",
            "source": "The file and position from which replay has sent it.",
            "replayed": "Whether it was corrected and sent again.",
            "discarded": "Why it was discarded; NULL if it was not.",
        },
    ),
    "provenance": (
        "What the answers of this snapshot are based on, a row for each stream.",
        {
            "stream": "The stream.",
            "version": "The number of the publication; NULL before the first.",
            "t": "The time T of the publication.",
            "kind": "How the publication was computed: incremental or full.",
            "generation": "The generation of the speed layer that covers what follows the cut.",
            "batch_events": "The events below the cut, without those that were lost.",
            "speed_events": "The events between the cut and the head.",
            "quarantined_in_all": "Those of both that do not fit the schema, which no view counts.",
            "note": "An explanation of the head, if one is needed.",
        },
    ),
    "partitions": (
        "The cut and the head of the answers of this snapshot, by partition.",
        {
            "stream": "The stream.",
            "partition": "The partition.",
            "cut": "The offset below which the batch layer counts.",
            "head": "The offset up to which answers reach.",
        },
    ),
    "reconciliation": (
        "The keys that both layers had to compute for the publication on which answers are based.",
        {
            "view": "The view.",
            "kind": "Whether both have the same: match, differ, missing or extra.",
            "key": "The key, as JSON.",
            "batch": "The values of the batch layer, as JSON.",
            "speed": "The values of the speed layer, as JSON.",
        },
    ),
    "processes": (
        "The processes of the local stack.",
        {
            "name": "The name of the process.",
            "pid": "Its number.",
            "started_at": "When it was started.",
            "memory_mib": "The memory that it uses, in MiB.",
        },
    ),
}
"""What each relation of the system's own state contains, and what its columns are."""
