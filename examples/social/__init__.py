"""Posts of a social network: words counted, and which hashtags gain speed.

Word count is the oldest example of its kind. Here its two halves are apart: `split_words` and
`find_hashtags` are stateless functions of single posts, which both layers call, and all counting is
done by views over the rows that they make. How fast a hashtag grows is not counted at all. It is a
question: `velocity` asks it over the posts by second, and `picking_up` over two views that hold the
last minutes as of the question.

`python -m examples.social.truth FOLDER` generates posts to replay. Their text is real English: the
documentation and the licence that come with Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilayer import (
    Catalog,
    Query,
    Rows,
    Stream,
    View,
    count,
    distinct,
    first,
    recent,
    top,
    tumbling,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

posts = Stream(
    "posts",
    schema="posted timestamp not null, author string not null, text string not null",
    event_time="posted",
)


def split_words(posts: DataFrame) -> DataFrame:
    """A row for each word of a post, in lower case."""
    return posts.selectExpr("explode(regexp_extract_all(lower(text), '[a-z]+', 0)) as word")


def find_hashtags(posts: DataFrame) -> DataFrame:
    """A row for each hashtag of a post; none for a post without."""
    return posts.selectExpr(
        "posted", "author", "explode(regexp_extract_all(text, '#([a-z]+)', 1)) as hashtag"
    )


words = Rows("words", source=posts, rows=split_words, schema="word string")
hashtags = Rows(
    "hashtags",
    source=posts,
    rows=find_hashtags,
    schema="posted timestamp, author string, hashtag string",
)

word_counts = View("word_counts", source=words, key=["word"], aggregates={"uses": count()})

# A constant as the key gives one row over everything. The estimate needs 1,024 numbers, however
# many words there are.
vocabulary = View(
    "vocabulary",
    source=words,
    key={"everything": "'all'"},
    aggregates={"words": count(), "different": distinct("word"), "most_common": top("word", 10)},
)

authors = View("authors", source=posts, key=["author"], aggregates={"posts": count()})

popular = View(
    "popular_hashtags",
    source=hashtags,
    key=["hashtag"],
    aggregates={
        "posts": count(),
        "authors": distinct("author"),
        "first_author": first("author", by="posted"),
    },
)

by_second = View(
    "hashtags_by_second",
    source=hashtags,
    key={"hashtag": "hashtag", "second": tumbling("posted", "1 second")},
    aggregates={"posts": count()},
)

# Two windows up to the moment of the question: a hashtag picks up if it has more posts a minute in
# the short one than in the long one.
last_minutes = View(
    "hashtags_of_5_minutes",
    source=hashtags,
    key={"hashtag": "hashtag", "recent": recent("posted", "5 minutes", "10 seconds")},
    aggregates={"posts": count()},
)
last_half_hour = View(
    "hashtags_of_30_minutes",
    source=hashtags,
    key={"hashtag": "hashtag", "recent": recent("posted", "30 minutes", "1 minute")},
    aggregates={"posts": count()},
)

trending = View(
    "trending",
    source=hashtags,
    key={"minute": tumbling("posted", "1 minute")},
    aggregates={"posts": count(), "hashtags": top("hashtag", 5)},
)

common_words = Query(
    "common_words", "select word, uses from word_counts order by uses desc, word limit 10"
)

# The newest post says what time it is, so that the question can also be asked of old posts that are
# replayed.
velocity = Query(
    "velocity",
    """
    with clock as (select max(second) + interval 1 second as now from hashtags_by_second)
    select hashtag,
           coalesce(sum(posts) filter (where second >= now - interval 10 seconds), 0)::bigint
               as last_10_seconds,
           coalesce(sum(posts) filter (where second < now - interval 10 seconds), 0)::bigint
               as before,
           last_10_seconds - before as gained
    from hashtags_by_second, clock
    where second >= now - interval 20 seconds
    group by hashtag
    order by gained desc, hashtag
    limit 5
    """,
)

picking_up = Query(
    "picking_up",
    """
    select hashtag,
           round(coalesce(short.posts, 0) / 5, 1) as a_minute,
           round(long.posts / 30, 1) as a_minute_in_half_hour,
           round(a_minute - a_minute_in_half_hour, 1) as gained
    from hashtags_of_30_minutes long left join hashtags_of_5_minutes short using (hashtag)
    order by gained desc, hashtag
    limit 5
    """,
)

trending_now = Query(
    "trending_now",
    """
    select minute, posts, [h.value || ' ' || h.n for h in hashtags] as hashtags
    from trending
    order by minute desc
    limit 3
    """,
)

catalog = Catalog(
    views=[
        word_counts,
        vocabulary,
        authors,
        popular,
        by_second,
        last_minutes,
        last_half_hour,
        trending,
    ],
    queries=[common_words, velocity, picking_up, trending_now],
)
