"""The settings of the server: the group `serve`."""

from __future__ import annotations

import json
import os
from pathlib import Path

from pydantic import ConfigDict, Field, ValidationError

from trilayer_core.runtime.settings import Group, Settings, invalid, variable_of


class ServeSettings(Group):
    """Settings of the server. Relative paths are relative to the working directory."""

    # A variable such as TRILAYER_SERVE_HOST=0 is read as JSON, because the core knows no types.
    model_config = ConfigDict(coerce_numbers_to_str=True)

    host: str = Field(
        "127.0.0.1",
        description=(
            "address on which `trilayer serve` listens; an address that other machines can reach"
            " needs users and a certificate"
        ),
    )
    names: list[str] = Field(
        default_factory=list,
        description="host names of the server for HTTP clients, besides localhost and `host`",
    )
    port: int = Field(
        5433, ge=0, le=65535, description="port for clients of PostgreSQL; 0: a free one"
    )
    http_port: int = Field(
        8433, ge=0, le=65535, description="port of HTTP and the console; 0: a free one"
    )
    certificate: Path | None = Field(
        None, description="the server's certificate chain, in PEM; empty: no encryption"
    )
    key: Path | None = Field(None, description="the certificate's private key, in PEM")
    workers: int = Field(
        0, ge=0, description="queries at the same time; 0: eight for each processor"
    )
    memory_mb: int = Field(
        1024, ge=128, description="memory that a query may use, in addition to the views"
    )
    timeout_s: float = Field(
        300.0, gt=0, description="time limit for the first or the next rows of an answer"
    )
    rows: int = Field(0, ge=0, description="maximum rows of an answer; 0: no limit")
    bytes: int = Field(0, ge=0, description="maximum bytes of an answer; 0: no limit")
    connections: int = Field(
        500, ge=1, description="maximum number of connected PostgreSQL clients"
    )
    connections_each: int = Field(
        300, ge=1, description="maximum number of them from the same address"
    )
    verify_share: float = Field(
        0.01,
        ge=0,
        le=1,
        description=(
            "share of its time that the server spends on comparing its answers with newly"
            " computed ones; 0: none"
        ),
    )


def serve_settings(settings: Settings) -> ServeSettings:
    """Returns the server's settings.

    Raises:
        SettingsError: One of them is unknown or invalid.
    """
    try:
        # In the file values must have their types, as JSON, in which a path is text. A variable is
        # text, of which pydantic has parsed what is JSON.
        of_file = {
            n: v for n, v in settings.serve.items() if variable_of(f"serve.{n}") not in os.environ
        }
        ServeSettings.model_validate_json(json.dumps(of_file, default=str), strict=True)
        return ServeSettings.model_validate(settings.serve)
    except ValidationError as error:
        raise invalid(error, ServeSettings, "serve") from None


def complete(settings: Settings) -> Settings:
    """Returns settings in which the group `serve` has all values.

    Raises:
        SettingsError: One of them is unknown or invalid.
    """
    serve = serve_settings(settings).model_dump(mode="json", exclude_none=True)
    return settings.model_copy(update={"serve": serve})
