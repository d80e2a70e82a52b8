"""What happens when a scheduled run misses its deadline.

`trilayer status` shows the same lag, even if no run was ever created. This is not about events that
arrive late.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from trilayer.airflow.notifications import notify
from trilayer_core.errors import TrilayerError
from trilayer_core.runtime.clock import now_ms
from trilayer_core.runtime.settings import load_settings
from trilayer_core.seam import format_time
from trilayer_core.store.files import Store
from trilayer_core.store.last_check import LastChecks
from trilayer_core.store.pointer import PointerFile
from trilayer_core.store.publications import Publications

logger = logging.getLogger("trilayer.late")


async def report_late(late_after_s: int, context: dict[str, Any] | None = None) -> str:
    """Reports that the batch is late, if the version in force is, and returns the message.

    A run that ends late is no reason by itself: it may be a backfill, or another run may have
    published. The message goes to the triggerer's log and to the notifiers of `notify`.
    """
    message, late = await asyncio.to_thread(_lateness, late_after_s)
    run = (context or {}).get("dag_run") or {}
    message += f"; run {run.get('dag_run_id')!r} of {run.get('dag_id')!r} has not ended"
    if not late:
        logger.info("%s", message)
        return message
    logger.error("%s", message)
    await asyncio.to_thread(notify, "late", message.partition("; run ")[0], context or {})
    return message


def _lateness(late_after_s: int) -> tuple[str, bool]:
    """What is in force compared with the time, in words, and whether somebody has to know it."""
    try:
        store = Store(load_settings().store)
        published = Publications(store).in_force()
        held = PointerFile(store).held()
        present_ms = now_ms()
        upto_ms = LastChecks(store).complete_to_ms(published, present_ms) if published else None
    except TrilayerError as error:
        return f"LATE: what is in force can't be read: {error}", True
    if upto_ms is None:
        return "LATE: nothing has been published yet; see the tasks of lambda_batch", True
    lag_s = (present_ms - upto_ms) / 1000
    standing = f"the cut in force, T={format_time(upto_ms)}, lags by {lag_s:.0f} s"
    if held:
        return f"{standing}: held by {held.who}", False
    if lag_s <= late_after_s:
        return f"not late: {standing} of at most {late_after_s} s", False
    return (
        f"LATE: {standing}, which is more than {late_after_s} s; see the tasks of lambda_batch, and"
        " `trilayer status`",
        True,
    )
