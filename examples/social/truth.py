"""The correct answers about generated posts, in plain Python.

`python -m examples.social.truth FOLDER` writes posts to replay, and these answers.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

from examples.demo import (
    DISTINCT,
    Demo,
    Event,
    Expected,
    Prepared,
    floor,
    grouped,
    main,
    most_frequent,
    recent,
    write_events,
)
from examples.social.generate import PER_SECOND, RISING, generate

EVENTS = 30_000


def prepare(
    folder: Path, *, events: int = EVENTS, seed: int = 1, start: datetime | None = None
) -> Prepared:
    """Writes posts, of which by default the last one is posted now."""
    start = start or datetime.now(UTC) - timedelta(seconds=events / PER_SECOND)
    posts = generate(events=events, seed=seed, start=start)
    path = folder / "posts.jsonl"
    write_events(path, posts)
    return Prepared({"posts": path}, len(posts), lambda now: truth(posts, now))


def truth(posts: list[Event], now: datetime) -> list[Expected]:
    """The correct rows of the views as of `now`; and what the query about velocity must find."""
    words = Counter(word for post in posts for word in re.findall("[a-z]+", post["text"].lower()))
    vocabulary = {
        "words": words.total(),
        "different": len(words),
        "most_common": most_frequent(words.elements(), 10),
    }
    uses = [
        {
            "hashtag": hashtag,
            "author": post["author"],
            "posted": datetime.fromisoformat(post["posted"]),
            "second": floor(datetime.fromisoformat(post["posted"]), timedelta(seconds=1)),
            "minute": floor(datetime.fromisoformat(post["posted"]), timedelta(minutes=1)),
        }
        for post in posts
        for hashtag in re.findall("#([a-z]+)", post["text"])
    ]
    hashtags = {
        key: {
            "posts": len(of_key),
            "authors": len({use["author"] for use in of_key}),
        }
        for key, of_key in grouped(uses, "hashtag").items()
    }
    seconds = {
        key: {"posts": len(of_key)} for key, of_key in grouped(uses, "hashtag", "second").items()
    }
    minutes = {
        key: {
            "posts": len(of_key),
            "hashtags": most_frequent((use["hashtag"] for use in of_key), 5),
        }
        for key, of_key in grouped(uses, "minute").items()
    }
    recently = {
        minutes: {
            key: {"posts": len(of_key)}
            for key, of_key in grouped(
                recent(uses, "posted", now, timedelta(minutes=minutes), slide), "hashtag"
            ).items()
        }
        for minutes, slide in ((5, timedelta(seconds=10)), (30, timedelta(minutes=1)))
    }
    authors = {key: {"posts": len(of_key)} for key, of_key in grouped(posts, "author").items()}
    return [
        Expected("word_counts", ["word"], {(word,): {"uses": n} for word, n in words.items()}),
        Expected("vocabulary", ["everything"], {("all",): vocabulary}, {"different": DISTINCT}),
        Expected("authors", ["author"], authors),
        Expected("popular_hashtags", ["hashtag"], hashtags, {"authors": DISTINCT}),
        Expected("hashtags_by_second", ["hashtag", "second"], seconds),
        Expected("hashtags_of_5_minutes", ["hashtag"], recently[5]),
        Expected("hashtags_of_30_minutes", ["hashtag"], recently[30]),
        Expected("trending", ["minute"], minutes),
        Expected("velocity", ["hashtag"], {(RISING,): {}}, some=True),
    ]


demo = Demo(
    catalog="examples.social:catalog",
    what="posts of a social network, whose text is Python's own documentation",
    events="posts",
    counted={"authors": "posts"},
    prepare=prepare,
    queries={
        "common_words": "the most common words",
        "velocity": "hashtags that gain speed, by the last ten seconds with posts",
        "picking_up": "hashtags that gain speed, by the last five minutes of the clock",
        "trending_now": "the most frequent hashtags of the last minutes",
    },
    rate=1_000,
)


if __name__ == "__main__":
    main(prepare, "python -m examples.social.truth", str(__doc__), events=EVENTS)
