"""What happens when a scheduled run misses its deadline.

`trilayer status` shows the same lag, even if no run was ever created. This is not about events that
arrive late.
"""

from __future__ import annotations

import logging
from typing import Any

logger = logging.getLogger("trilayer.late")


async def tell(late_after_s: int, context: dict[str, Any] | None = None) -> str:
    """Writes a message to the triggerer's log, and returns it.

    You can replace this function in the DAG's `deadline` with a notifier of your own (mail, chat).
    """
    run = (context or {}).get("dag_run") or {}
    message = (
        f"LATE: the cut in force lags by more than {late_after_s} s: run {run.get('dag_run_id')!r}"
        f" of {run.get('dag_id')!r} has not published; look at its tasks, and at `trilayer status`"
    )
    logger.error(message)
    return message
