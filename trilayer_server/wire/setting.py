"""`SET` and `RESET`: what a client may choose for its session."""

from __future__ import annotations

import re
from dataclasses import dataclass

from serving_layer.snapshot import LAYERS, Layer
from trilayer_server.engine.question import Refusal

_SET = re.compile(
    r"\s*(?:SET\s+(?:SESSION\s+|LOCAL\s+)?(?P<name>\w+)\s*(?:=|\bTO\b)\s*(?P<value>.*)"
    r"|RESET\s+(?P<reset>\w+)[\s;]*)",
    re.IGNORECASE | re.DOTALL,
)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|min|h|d)?")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}


@dataclass(frozen=True)
class Setting:
    """A setting that a client chooses.

    Attributes:
        name: Its name, in lower case.
        value: Its value; empty for the default.
    """

    name: str
    value: str


def setting_of(sql: str) -> Setting | None:
    """What a statement sets; None if it sets nothing that has a name and a value."""
    if (found := _SET.fullmatch(sql)) is None:
        return None
    value = (found["value"] or "").strip().removesuffix(";").rstrip()
    if value.upper() == "DEFAULT":
        value = ""
    return Setting((found["name"] or found["reset"]).lower(), value.strip("'"))


def layer_in(path: str) -> Layer | None:
    """The first layer that a search_path names; None if it names none.

    Other schemas, such as `public` and `"$user"`, have nothing whose name could be left out.
    """
    named = [name.strip().strip("'\"") for name in path.split(",")]
    return next((layer for name in named for layer in LAYERS if layer == name), None)


def seconds_of(text: str) -> float | None:
    """A time limit in seconds, from milliseconds or with a unit; None for 0 or no limit.

    Raises:
        Refusal: It is none.
    """
    if not text:
        return None
    if (found := _DURATION.fullmatch(text)) is None:
        raise Refusal("22023", f"statement_timeout must be a time, such as '5s'; got {text!r}")
    return float(found[1]) * _SECONDS[found[2] or "ms"] or None
