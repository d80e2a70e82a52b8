"""`SET` and `RESET`: what a client may choose for its session."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from serving_layer.snapshot import LAYERS, Layer
from trilayer_server.introspection import SessionInfo
from trilayer_server.sql_error import SqlError

_SET = re.compile(
    r"\s*(?:SET\s+(?:SESSION\s+|LOCAL\s+)?(?P<name>\w+)\s*(?:=|\bTO\b)\s*(?P<value>.*)"
    r"|RESET\s+(?P<reset>\w+)[\s;]*)",
    re.IGNORECASE | re.DOTALL,
)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|min|h|d)?")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}


MOST_SETTINGS, MOST_SETTING_BYTES = 200, 1_000
"""The most settings of a client that are remembered, and the longest name or value."""


@dataclass(frozen=True)
class Setting:
    """A setting that a client chooses.

    Attributes:
        name: Its name, in lower case.
        value: Its value; empty for the default.
    """

    name: str
    value: str


class Settings:
    """The settings of one client.

    Attributes:
        info: What statements about the session return, and the layer in which names without a
            schema are looked up.
        timeout_s: The limit on the time of an answer, in seconds; None for none.
    """

    def __init__(self, info: SessionInfo) -> None:
        """Begins with what the client has sent when it connected."""
        self.info = info
        self._first_layer = info.layer
        self.timeout_s: float | None = None

    def choose(self, chosen: Setting) -> None:
        """Sets what has an effect here; the rest is only remembered.

        Raises:
            SqlError: The value is none, or there are too many.
        """
        if chosen.name == "all":  # of RESET
            self.timeout_s = None
            self.info = replace(self.info, layer=self._first_layer, settings={})
            return
        others = {k: v for k, v in self.info.settings.items() if k != chosen.name}
        if chosen.name == "search_path":
            named = layer_in(chosen.value)
            self.info = replace(self.info, layer=named or self._first_layer, settings=others)
            if named or not chosen.value:
                return
        longest = max(len(chosen.name), len(chosen.value))
        if len(others) >= MOST_SETTINGS or longest > MOST_SETTING_BYTES:
            raise SqlError(
                "53400",
                f"a client may have {MOST_SETTINGS} settings, each of at most"
                f" {MOST_SETTING_BYTES:,} characters",
            )
        if chosen.name == "statement_timeout":
            self.timeout_s = seconds_of(chosen.value)
        self.info = replace(self.info, settings={**others, chosen.name: chosen.value})


def setting_of(sql: str) -> Setting | None:
    """What a statement sets; None if it sets nothing that has a name and a value."""
    if (match := _SET.fullmatch(sql)) is None:
        return None
    value = (match["value"] or "").strip().removesuffix(";").rstrip()
    if value.upper() == "DEFAULT":
        value = ""
    return Setting((match["name"] or match["reset"]).lower(), value.strip("'"))


def layer_in(path: str) -> Layer | None:
    """The first layer that a search_path names; None if it names none.

    Other schemas, such as `public` and `"$user"`, have nothing whose name could be left out.
    """
    named = [name.strip().strip("'\"") for name in path.split(",")]
    return next((layer for name in named for layer in LAYERS if layer == name), None)


def seconds_of(text: str) -> float | None:
    """A time limit in seconds, from milliseconds or with a unit; None for 0 or no limit.

    Raises:
        SqlError: It is none.
    """
    if not text:
        return None
    if (match := _DURATION.fullmatch(text)) is None:
        raise SqlError("22023", f"statement_timeout must be a time, such as '5s'; got {text!r}")
    return float(match[1]) * _SECONDS[match[2] or "ms"] or None
