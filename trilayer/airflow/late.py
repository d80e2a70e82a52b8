"""What is done when a scheduled run misses its deadline.

`trilayer status` shows the same lag, also where no run was ever made.
"""

from __future__ import annotations

import logging
from typing import Any

logger = logging.getLogger("trilayer.late")


async def tell(late_after_s: int, context: dict[str, Any] | None = None) -> str:
    """Says so in the triggerer's log, and returns what it said.

    A site's own notifier (mail, chat) takes its place in the DAG's `deadline`.
    """
    run = (context or {}).get("dag_run") or {}
    message = (
        f"LATE: the cut in force lags by more than {late_after_s} s: run {run.get('dag_run_id')!r}"
        f" of {run.get('dag_id')!r} has not published; look at its tasks, and at `trilayer status`"
    )
    logger.error(message)
    return message
