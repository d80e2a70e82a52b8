"""The server's part of SCRAM-SHA-256, without channel binding.

Source: RFC 5802 and RFC 7677.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

from trilayer_server.users import Verifier
from trilayer_server.wire.messages import ProtocolFault

MECHANISM = "SCRAM-SHA-256"
NONCE_BYTES = 18


class Exchange:
    """One client's proof that it knows a password."""

    def __init__(self, verifier: Verifier, nonce: str | None = None) -> None:
        """Begins an exchange.

        Args:
            verifier: That of the user.
            nonce: The server's part of the nonce; by default a random one.
        """
        self._verifier = verifier
        self._nonce = nonce or base64.b64encode(secrets.token_bytes(NONCE_BYTES)).decode()
        self._header = self._client_first = self._server_first = ""

    def first(self, message: bytes) -> bytes:
        """The answer to the client's first message. Raises ProtocolFault."""
        text = _text(message)
        binding, _, rest = text.partition(",")
        authzid, _, bare = rest.partition(",")
        if binding not in ("n", "y"):
            raise ProtocolFault("channel binding must be left out, since it is not supported")
        self._header, self._client_first = f"{binding},{authzid},", bare
        theirs = _attributes(bare).get("r", "")
        if not theirs:
            raise ProtocolFault("the first message of SCRAM must have a nonce")
        self._nonce = theirs + self._nonce
        salt = base64.b64encode(self._verifier.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={self._verifier.iterations}"
        return self._server_first.encode()

    def final(self, message: bytes) -> bytes | None:
        """The answer to the client's last message; None if the password is wrong.

        Raises ProtocolFault if it is none.
        """
        text = _text(message)
        without, _, proof = text.rpartition(",p=")
        attributes = _attributes(without)
        header = base64.b64encode(self._header.encode()).decode()
        if attributes.get("r") != self._nonce or attributes.get("c") != header:
            raise ProtocolFault("the last message of SCRAM must repeat what the first ones had")
        try:
            given = base64.b64decode(proof, validate=True)
        except ValueError:  # no base64, or not even ASCII
            raise ProtocolFault("the proof of SCRAM must be in base64") from None
        exchanged = f"{self._client_first},{self._server_first},{without}".encode()
        signature = hmac.digest(self._verifier.stored_key, exchanged, "sha256")
        if len(given) != len(signature):
            return None
        key = bytes(a ^ b for a, b in zip(given, signature, strict=True))
        if not hmac.compare_digest(hashlib.sha256(key).digest(), self._verifier.stored_key):
            return None
        proven = hmac.digest(self._verifier.server_key, exchanged, "sha256")
        return b"v=" + base64.b64encode(proven)


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise ProtocolFault("a message of SCRAM must be UTF-8") from None


def _attributes(text: str) -> dict[str, str]:
    return {part[0]: part[2:] for part in text.split(",") if part[1:2] == "="}
