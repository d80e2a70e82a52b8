"""Why alerts were withdrawn or added, for the ranges of offsets in which the reason is the same."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from trilayer_core.definitions.alerts import Alert
from trilayer_core.seam import Cut
from trilayer_core.store.alerts import AlertGeneration, Evaluators
from trilayer_core.store.origins import Origin
from trilayer_core.store.publication import Publication
from trilayer_core.store.runs import JudgedFrom


@dataclass(frozen=True, order=True)
class Place:
    """Some events of a partition that may have the same reasons.

    Attributes:
        origin_id: The identity of the origin in which offsets count.
        partition: The partition.
        version: The `profile_version` of alerts that were sent, or -1 if they have none.
    """

    origin_id: str
    partition: int
    version: int = -1


@dataclass(frozen=True)
class Span:
    """The offsets from the first to the last of some alerts."""

    first: int
    last: int

    def with_(self, other: Span) -> Span:
        """The offsets of both."""
        return Span(min(self.first, other.first), max(self.last, other.last))


@dataclass(frozen=True)
class Reach:
    """How far the publication in force reaches, for one alert.

    Attributes:
        origin_id: The identity of the origin in which the cut counts; None if the publication does
            not have the alert with its present definition.
        cut: The cut.
        past: The identities of the origins before that one, all of whose events lie below the cut.
    """

    origin_id: str | None = None
    cut: Cut = field(default_factory=dict)
    past: Sequence[str] = ()

    def below(self, place: Place, span: Span) -> Span | None:
        """The part of a span that lies below the cut; None if there is none."""
        if place.origin_id in self.past:
            return span
        end = self.cut.get(place.partition, 0) if place.origin_id == self.origin_id else 0
        return Span(span.first, min(span.last, end - 1)) if span.first < end else None


def reach_of(alert: Alert, publication: Publication | None, origins: Sequence[Origin]) -> Reach:
    """How far a publication reaches for an alert.

    Args:
        alert: The alert.
        publication: The publication in force; None before the first.
        origins: The origins of the alert's stream, oldest first.
    """
    if publication is None or publication.alert(alert) is None:
        return Reach()
    stream = publication.streams.get(alert.stream.name)
    if stream is None:
        return Reach()
    identities = [origin.identity for origin in origins]
    at = identities.index(stream.origin_id) if stream.origin_id in identities else 0
    return Reach(stream.origin_id, stream.cut, identities[:at])


@dataclass(frozen=True)
class Reason:
    """A reason for the alerts in a range of offsets [start, end)."""

    state: str
    place: Place
    start: int
    end: int
    why: str


class Evaluations:
    """By what the events of an alert were evaluated in both layers."""

    def __init__(
        self,
        alert: Alert,
        generations: Sequence[AlertGeneration] = (),
        judged: Sequence[JudgedFrom] | None = None,
        starts: Mapping[str, Cut] | None = None,
    ) -> None:
        """Looks at nothing yet.

        Args:
            alert: The alert.
            generations: The generations that evaluate by its present definition, oldest first.
            judged: What the publication says of the batch layer; see `as_judged`.
            starts: The offsets at which each origin begins, by its identity.
        """
        self._all = Evaluators.of(alert, generations, judged, starts or {})
        self._pieces: dict[tuple[str, int], _Pieces] = {}

    def version(self, place: Place, offset: int) -> int:
        """The version of the profile by which the speed layer evaluates an event; -1 if none."""
        by = self._pieces_of(place).at(offset).by
        profile = by.profiles.get(self._all.view) if by and self._all.view else None
        return profile.version if profile else -1

    def reasons(self, state: str, spans: Mapping[Place, Span]) -> list[Reason]:
        """The reasons of all alerts in some offsets.

        Args:
            state: withdrawn or added.
            spans: The offsets of the alerts that may be in that state.
        """
        reasons: list[Reason] = []
        for place, span in spans.items():
            before = len(reasons)
            for start, end, piece in self._pieces_of(place).within(span):
                why = self._why(state, place, start, piece)
                if len(reasons) > before and reasons[-1].why == why:
                    start = reasons.pop().start
                reasons.append(Reason(state, place, start, end, why))
        return reasons

    def _pieces_of(self, place: Place) -> _Pieces:
        at = (place.origin_id, place.partition)
        if at not in self._pieces:
            self._pieces[at] = _Pieces(*at, self._all.generations, self._all.judged)
        return self._pieces[at]

    def _why(self, state: str, place: Place, offset: int, piece: _Piece) -> str:
        # Of the generations only those that matter at this offset, because there can be thousands.
        first, by = self._pieces_of(place).first, piece.by
        evaluators = replace(
            self._all,
            generations=[
                one for one in (first, by if by is not first else None) if one is not None
            ],
            judged=[piece.judged] if piece.judged else self._all.judged[:1],
        )
        at = (place.origin_id, place.partition, offset)
        if state == "added":
            return evaluators.why_added(*at)
        return evaluators.why_withdrawn(*at, place.version if place.version >= 0 else None)


@dataclass(frozen=True)
class _Piece:
    """The generations by which both layers evaluate the offsets from `start` on."""

    start: int
    by: AlertGeneration | None
    judged: AlertGeneration | None


class _Pieces:
    """The pieces of a partition, within each of which the same generations evaluate."""

    def __init__(
        self,
        origin_id: str,
        partition: int,
        generations: Sequence[AlertGeneration],
        judged: Sequence[AlertGeneration],
    ) -> None:
        own = [one for one in generations if one.origin_id == origin_id]
        theirs = [one for one in judged if one.origin_id == origin_id]
        self.first = own[0] if own else None
        self._starts = sorted({0, *(one.alert_from.get(partition, 0) for one in (*own, *theirs))})
        self._pieces = [
            _Piece(*piece)
            for piece in zip(
                self._starts,
                _judging(own, partition, self._starts),
                _judging(theirs, partition, self._starts),
                strict=True,
            )
        ]

    def at(self, offset: int) -> _Piece:
        """The piece with an offset."""
        return self._pieces[bisect_right(self._starts, offset) - 1]

    def within(self, span: Span) -> Iterator[tuple[int, int, _Piece]]:
        """The pieces with the offsets of a span, each with its part [start, end) of the span."""
        place = bisect_right(self._starts, span.first) - 1
        ends = [*self._starts[1:], span.last + 1]
        while place < len(self._starts) and self._starts[place] <= span.last:
            start, end = max(self._starts[place], span.first), min(ends[place], span.last + 1)
            yield start, end, self._pieces[place]
            place += 1


def _judging(
    generations: Sequence[AlertGeneration], partition: int, starts: Sequence[int]
) -> Iterator[AlertGeneration | None]:
    """The newest generation that evaluates from each of some ascending offsets on."""
    begun = sorted((one.alert_from.get(partition, 0), n) for n, one in enumerate(generations))
    newest, place = -1, 0
    for start in starts:
        while place < len(begun) and begun[place][0] <= start:
            newest = max(newest, begun[place][1])
            place += 1
        yield generations[newest] if newest >= 0 else None
