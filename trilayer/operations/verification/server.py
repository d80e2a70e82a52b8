"""Compares what a running server answers with the files of the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import serving_layer
from serving_layer.digests import compared, digest_sql
from trilayer_core.errors import CoverageError
from trilayer_core.project import Project


@dataclass(frozen=True)
class ServerVerification:
    """The verification of a server.

    Attributes:
        equal: The views whose answers equal the fresh computation.
        differences: How the answer of each other view differs.
        unanswered: Views without an answer, with the reason. This is not a fault.
    """

    equal: Sequence[str]
    differences: Mapping[str, str]
    unanswered: Mapping[str, str]

    @property
    def clean(self) -> bool:
        """Whether something was compared and nothing wrong was found."""
        return bool(self.equal) and not self.differences


def server_verification(
    p: Project, url: str, report: Callable[[str], None] = lambda far: None
) -> ServerVerification:
    """Compares a server's answers, by digests, with a fresh computation at the same snapshot.

    Args:
        p: The project of the server's store.
        url: The address of its HTTP.
        report: Called with the progress.

    Raises:
        ConflictError: The store changes faster than it can be read.
        UsageError: The server does not have these definitions, or does not allow the login.
        EnvironmentFault: The server does not answer.
    """
    equal: list[str] = []
    differences: dict[str, str] = {}
    unanswered: dict[str, str] = {}
    with serving_layer.connect(url) as server:
        for view in p.catalog.views:
            report(f"comparing {view.name}")
            ask = partial(server.sql, digest_sql(view))
            try:
                difference = compared(view, ask, p.settings.serving.memory_mb, p.store)
            except CoverageError as error:
                unanswered[view.name] = str(error)
                continue
            if difference:
                differences[view.name] = difference
            else:
                equal.append(view.name)
    return ServerVerification(equal, differences, unanswered)
