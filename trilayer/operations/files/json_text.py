"""Reads JSON Lines, or one JSON array, as events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain, takewhile
from pathlib import Path

from trilayer.operations.files.events import Event, Events
from trilayer.operations.files.text import Lines, Text, as_bytes
from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import UsageError


def read_json(text: Text, stream: Stream) -> Events:
    """Reads each line as an event, or each item if the file is one array."""
    lines = text.lines()
    blank = list(takewhile(lambda line: not line.strip(), feed := Lines(lines)))
    first = feed.taken[-1] if len(feed.taken) > len(blank) else ""
    if first.lstrip().startswith("["):
        values = _items(first + "".join(lines), text.path)
        return Events((Event(f"item {n}", v) for n, v in enumerate(values, 1)), text.progress)
    feed.give_back()

    def events() -> Iterator[Event]:
        # JSON lines end at \n only; their text may contain a lone \r.
        number, held = 1, ""
        for part in chain(feed, [""]):
            held += part
            if part and not part.endswith("\n"):
                continue
            if line := held.rstrip("\r\n"):
                yield Event(f"line {number}", as_bytes(line))
            number, held = number + 1, ""

    return Events(events(), text.progress)


def _items(text: str, path: Path) -> Iterator[bytes]:
    """Yields the items of a JSON array, as they are written.

    Raises UsageError, when it reaches the problem, if the text is not a single array.
    """

    def wrong(what: str) -> UsageError:
        return UsageError(f"{path} must be JSON Lines, or one JSON array; got {what}")

    def next_after(place: int) -> int:
        while text[place : place + 1].isspace():
            place += 1
        return place

    decoder, place = json.JSONDecoder(), next_after(text.index("[") + 1)
    ended = text.startswith("]", place)
    while not ended:
        try:
            _, end = decoder.raw_decode(text, place)
        except (ValueError, RecursionError) as error:
            raise wrong(f"an array with an error: {error}") from None
        yield as_bytes(text[place:end])
        place = next_after(end)
        ended = text.startswith("]", place)
        if not ended and not text.startswith(",", place):
            got = f"{text[place : place + 20]!r}" if place < len(text) else "its end"
            raise wrong(f"an array with an error: after item {text[end - 20 : end]!r} comes {got}")
        place = next_after(place + 1) if not ended else place
    rest = next_after(place + 1)
    if rest < len(text):
        raise wrong(f"an array that is followed by {text[rest : rest + 20]!r}")
