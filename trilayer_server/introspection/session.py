"""The client's session, for statements about it or the catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from serving_layer.snapshot import Layer

VERSION = "15.0"
"""The version of PostgreSQL as which the server presents itself."""

_REPORTED = ("server_version", "server_encoding", "client_encoding", "DateStyle", "IntervalStyle",
             "TimeZone", "integer_datetimes", "standard_conforming_strings",
             "default_transaction_read_only", "in_hot_standby", "application_name")  # fmt: skip
"""The settings that a client gets when it connects."""


@dataclass(frozen=True)
class SessionInfo:
    """A client's session.

    Attributes:
        database: The database that the client has connected to.
        user: The client's role.
        layer: The layer in which names without a schema are looked up.
        application_name: What the client calls itself.
        settings: Further settings by name, such as those that the client has set.
        pid: The number of the session.
    """

    database: str = "trilayer"
    user: str = "trilayer"
    layer: Layer = "merged"
    application_name: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    pid: int = 1

    @property
    def search_path(self) -> Sequence[str]:
        """The schemas in which names are looked up."""
        return (self.layer, "tables")

    @property
    def path(self) -> Sequence[str]:
        """The schemas in which names are looked up, PostgreSQL's own among them."""
        return ("pg_catalog", *self.search_path)

    def all_settings(self) -> Mapping[str, str]:
        """The settings that differ from PostgreSQL's own, by name in lower case."""
        own = {
            "server_version": f"{VERSION} (trilayer)",
            "server_version_num": "150000",
            "search_path": ", ".join(self.search_path),
            "application_name": self.application_name,
            "session_authorization": self.user,
            "role": "none",
            "timezone": "UTC",
            "log_timezone": "UTC",
            "is_superuser": "off",
            "transaction_read_only": "on",
            "default_transaction_read_only": "on",
            "transaction_isolation": "repeatable read",
            "server_encoding": "UTF8",
            "client_encoding": "UTF8",
            "lc_collate": "C",
            "lc_ctype": "C",
            "datestyle": "ISO, MDY",
            "intervalstyle": "postgres",
            "integer_datetimes": "on",
            "standard_conforming_strings": "on",
            "in_hot_standby": "off",
            "jit": "off",
        }
        return own | {name.lower(): value for name, value in self.settings.items()}

    def reported(self) -> Mapping[str, str]:
        """The settings that a client gets when it connects, by name as PostgreSQL writes it."""
        settings = self.all_settings()
        return {name: settings[name.lower()] for name in _REPORTED}
