"""What an admin may change: the version in force, and corrections of quarantined events."""

from __future__ import annotations

import json
import logging
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Request
from pydantic import BaseModel, ConfigDict, FailFast, Field
from starlette.responses import JSONResponse, Response

from batch_layer.publish import rollback
from serving_layer.history import version_of
from trilayer.operations.batch import deliver_all
from trilayer.operations.corrections import Sent, send_corrections
from trilayer.operations.delivery import check_answered
from trilayer_core.project import Project
from trilayer_core.runtime.clock import now_ms
from trilayer_core.seam import format_time
from trilayer_core.store.last_check import LastChecks
from trilayer_core.store.pointer import Held, PointerFile
from trilayer_core.store.publications import Publications
from trilayer_server.http.faults import INVALID, Failure
from trilayer_server.http.security import Requester, WebAccess, admin_of
from trilayer_server.http.store_reader import StoreReader

logger = logging.getLogger("trilayer_server")


class Rollback(BaseModel):
    """The body of a rollback.

    Attributes:
        version: The version to go back to; null for the one that was in force before this one.
        hold: Whether it is kept in force until `trilayer batch release`.
        why: The reason for the hold.
        accept_unanswered: Whether views whose definitions have changed since that version may be
            without an answer until the next publication.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    version: Annotated[int | None, Field(ge=1)] = None
    hold: bool = False
    why: Annotated[str, Field(max_length=1_000)] = ""
    accept_unanswered: bool = False


class Replay(BaseModel):
    """The body of a replay.

    Attributes:
        records: The events, as GET /v1/quarantine lists them, with `value` corrected.
        again: Whether corrections that were sent before are sent again.
    """

    model_config = ConfigDict(extra="forbid")

    records: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=10_000), FailFast()]
    again: bool = False


def add(app: FastAPI, store: StoreReader, access: WebAccess) -> None:
    """Adds the endpoints to an application."""

    @app.post("/v1/rollback", tags=["operations"])
    async def roll_back(body: Rollback, request: Request) -> Response:
        """Puts an older publication in force again."""
        client = admin_of(request, access)
        if body.why and not body.hold:
            raise Failure(
                400,
                INVALID,
                "why must go with hold, for it is the reason that is shown while a version is held",
                "Set hold to keep the version in force, or leave out why: the next batch run then"
                " publishes on top of it",
            )
        done = await store.change(_roll_back, store.project, body, client)
        logger.info(
            "%s has put version %s in force by HTTP", client.who, done["publication"]["version"]
        )
        return JSONResponse(done)

    @app.post("/v1/quarantine/replay", tags=["operations"])
    async def replay(body: Replay, request: Request) -> Response:
        """Sends corrected events back to their topics."""
        client = admin_of(request, access)
        sent = await store.change(_replay, store.project, body)
        logger.info("%s has sent %s corrections by HTTP", client.who, sent.now)
        return JSONResponse({"sent": sent.now, "before": sent.before, "refused": sent.rejected})


def _roll_back(p: Project, body: Rollback, client: Requester) -> dict[str, Any]:
    hold = Held(client.who, body.why, now_ms()) if body.hold else None
    target = Publications(p.store).find(body.version)
    if not body.accept_unanswered:
        check_answered(p.catalog, target)
    published = rollback(target.version, p.store, hold)
    undelivered = deliver_all(p)
    row = version_of(published, published, look=LastChecks(p.store).last(published))
    by = PointerFile(p.store).held()
    return {
        "publication": asdict(row),
        "held": by
        and {"who": by.who, "why": by.why, "since": format_time(by.since_ms // 1000 * 1000)},
        "warning": str(undelivered) if undelivered else "",
    }


def _replay(p: Project, body: Replay) -> Sent:
    with tempfile.TemporaryDirectory(prefix="trilayer-") as folder:
        file = Path(folder) / "request.jsonl"
        file.write_text("".join(json.dumps(record) + "\n" for record in body.records))
        sent = send_corrections(p, file, again=body.again, report=lambda line: None)
    # A line is named by its file, which is gone.
    sent.rejected = [line.replace(f"{file}:", "record ") for line in sent.rejected]
    return sent
