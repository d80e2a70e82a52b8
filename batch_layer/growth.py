"""Which files of a growing result are merged, so that their number stays small.

(This is the idea of the log-structured merge tree: O'Neil, Cheng, Gawlick, O'Neil, 1996.)
"""

from __future__ import annotations

from collections.abc import Sequence

from trilayer_core.store.files import StoredFile

GROWTH = 2
"""A file is merged with the previous one if that has at most this many times its rows."""


def tail(
    before: Sequence[StoredFile], new: Sequence[StoredFile]
) -> tuple[Sequence[StoredFile], Sequence[StoredFile]]:
    """The files of the base that stay unchanged, and those to merge with the added ones.

    Files at the end are merged as long as each is not much larger than those after it. The second
    list is empty if nothing is merged; the added files are then appended to those of the base.
    """
    kept, merged = list(before), list(new)
    while new and kept and kept[-1].rows <= GROWTH * sum(file.rows for file in merged):
        merged.insert(0, kept.pop())
    return (kept, merged) if len(merged) > len(new) else ([*before, *new], [])
