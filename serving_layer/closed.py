"""What a connection says when it is asked after its end, be it one to a store or to a server."""

from __future__ import annotations

from trilayer_core.errors import UsageError


def closed() -> UsageError:
    """The error of a connection that is asked after it was closed."""
    return UsageError(
        "a connection must be open when it is asked; this one was closed; open another:"
        " serving_layer.connect()"
    )
