"""Messages about batch runs that failed, are late or are held.

They go to the notifiers of the setting `notify`, one message for each cause: neither a retry nor
the next run, which fails for the same reason, sends another one. The causes that were reported are
an Airflow Variable, which the next run that succeeds deletes.
"""

from __future__ import annotations

import importlib
import logging
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow.sdk import Variable
from airflow.sdk.exceptions import AirflowFailException

from trilayer_core.runtime.settings import Settings, load_settings

logger = logging.getLogger("trilayer.notify")

REPORTED = "trilayer_reported_causes"
"""The Airflow Variable with the causes that were reported since a run has last succeeded."""


class HeldException(AirflowFailException):
    """A person holds the version in force, so the run publishes nothing."""


def task_failed(context: Any) -> None:
    """Reports a task that has failed for good."""
    error = context.get("exception")
    text = str(error) if error else "its process was lost; see its log"
    name = f"{context['dag'].dag_id}.{context['ti'].task_id}"
    if isinstance(error, HeldException):
        notify("held", text, context)
    else:
        notify("failed", f"{name}: {text}", context)


def run_failed(context: Any) -> None:
    """Reports a run that has reached its timeout. Any other failure is that of a task."""
    if context.get("reason") == "timed_out":
        limit = context["dag"].dagrun_timeout
        notify(
            "failed",
            f"{context['dag'].dag_id}: a run has not ended within {limit} (batch.timeout_s), so"
            " Airflow has ended it",
            context,
        )


def notify(kind: str, message: str, context: Mapping[str, Any]) -> None:
    """Sends a message to every notifier, unless its cause was reported already.

    A notifier finds the message as
    `{{ trilayer.message }}` in its templates.

    Args:
        kind: failed, held or late.
        message: What has happened and what to do.
        context: The context that Airflow gave to the callback.
    """
    settings = load_settings()
    if not settings.notify:
        return
    present = cause(kind, message)
    reported = Variable.get(REPORTED, default=[], deserialize_json=True)
    if present in reported:
        return
    url = getattr(context.get("ti"), "log_url", "")
    given = dict(context) | {"trilayer": {"kind": kind, "message": message, "url": url}}
    sent = [_send(notifier, given) for notifier in settings.notify]
    if any(sent):
        Variable.set(REPORTED, [*reported, present], serialize_json=True)


def cause(kind: str, message: str) -> str:
    """What makes two messages the same: numbers, such as T or offsets, do not differ."""
    return re.sub(r"\d+", "#", f"{kind}: {message}")


def forget_causes(settings: Settings) -> None:
    """Has causes reported again, because a run has succeeded."""
    if settings.notify and Variable.get(REPORTED, default=[], deserialize_json=True):
        Variable.set(REPORTED, [], serialize_json=True)


def _send(notifier: str | Mapping[str, Any], context: dict[str, Any]) -> bool:
    """Returns whether a notifier has sent the message.

    It is the user's code, and can raise anything.
    """
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))  # the notifier may be a module of the project
    given = {"notifier": notifier} if isinstance(notifier, str) else dict(notifier)
    path = given.pop("notifier")
    try:
        module, _, name = path.rpartition(".")
        getattr(importlib.import_module(module), name)(**given)(context)
    except Exception:
        logger.exception("notifier %s could not send %r", path, context["trilayer"]["message"])
        return False
    return True
