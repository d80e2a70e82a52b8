"""Generates posts out of Python's own documentation and licence.

Each post is a sentence about one topic, mostly with the topic as a hashtag. What people post about
changes from minute to minute, and in the last seconds one hashtag rises. The same seed, start and
version of Python give the same bytes.
"""

from __future__ import annotations

import os
import re
from datetime import datetime, timedelta
from pathlib import Path
from pydoc_data import topics
from random import Random

from examples.demo import Event, iso

AUTHORS = [f"author{number:03}" for number in range(400)]
RISING = "lambda"
"""The hashtag that rises in the last seconds."""

PER_SECOND = 20
RISING_SECONDS, RISING_SHARE = 8, 0.5
TAGGED_SHARE = 0.7
LONGEST = 280


def sentences() -> dict[str, list[str]]:
    """The sentences of the documentation by topic, and of the licence, if Python came with it."""
    texts = {re.sub(r"[^a-z]", "", name.lower()): text for name, text in topics.topics.items()}
    licence = Path(os.__file__).parent / "LICENSE.txt"
    if licence.exists():
        texts["licence"] = licence.read_text("utf-8")
    return {
        topic: [
            " ".join(part.split())[:LONGEST] for part in re.split(r"(?<=[.!?])\s+", text.strip())
        ]
        for topic, text in sorted(texts.items())
    }


def generate(*, events: int, seed: int, start: datetime) -> list[Event]:
    """The posts in their order, the first one at `start`."""
    random = Random(seed)
    by_topic = sentences()
    names = list(by_topic)
    posts = []
    for number in range(events):
        seconds = number / PER_SECOND
        rises = events / PER_SECOND - seconds <= RISING_SECONDS
        if rises and random.random() < RISING_SHARE:
            topic = RISING
        else:
            # Of all topics a few are the talk of the minute.
            favourite = int(seconds // 60) * 7
            topic = names[(favourite + int(len(names) * random.random() ** 3)) % len(names)]
        text = random.choice(by_topic[topic])
        if random.random() < TAGGED_SHARE:
            text = f"{text} #{topic}"
        if random.random() < 0.1:
            text = f"{text} #python"
        posts.append(
            {
                "posted": iso(start + timedelta(seconds=seconds)),
                "author": AUTHORS[int(len(AUTHORS) * random.random() ** 2)],
                "text": text,
            }
        )
    return posts
