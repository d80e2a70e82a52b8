"""The server's users: their roles, and what proves their passwords without containing them.

The file has a JSON object by name, with `role` and `verifier`. A verifier is what PostgreSQL stores
for SCRAM-SHA-256: `SCRAM-SHA-256$ITERATIONS:SALT$STORED_KEY:SERVER_KEY`, the last three in base64.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import json
import os
import secrets
import stringprep
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from trilayer_core.errors import SettingsError, UsageError, did_you_mean
from trilayer_core.runtime.file_lock import exclusive

Role = Literal["reader", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)

ITERATIONS = 4096
"""As PostgreSQL has it, and as RFC 7677 asks for at least."""

SALT_BYTES = 16

MOST_CHARACTERS = 1_000
"""The length of the longest password. To prepare a much longer one takes seconds."""


@dataclass(frozen=True)
class Verifier:
    """What proves that a client knows a password.

    Attributes:
        iterations: How often the password was hashed.
        salt: What was hashed with it.
        stored_key: The hash of the client's key.
        server_key: What proves that the server knows the verifier.
    """

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    @staticmethod
    def of(password: str, salt: bytes | None = None, iterations: int = ITERATIONS) -> Verifier:
        """The verifier of a password, by default with a new salt."""
        salt = salt or secrets.token_bytes(SALT_BYTES)
        salted = hashlib.pbkdf2_hmac("sha256", prepared(password), salt, iterations)
        stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
        return Verifier(iterations, salt, stored, hmac.digest(salted, b"Server Key", "sha256"))

    def fits(self, password: str) -> bool:
        """Whether it is that of this password."""
        other = Verifier.of(password, self.salt, self.iterations)
        return hmac.compare_digest(self.stored_key, other.stored_key)

    def __str__(self) -> str:
        salt, stored, server = (
            base64.b64encode(part).decode()
            for part in (self.salt, self.stored_key, self.server_key)
        )
        return f"SCRAM-SHA-256${self.iterations}:{salt}${stored}:{server}"

    @staticmethod
    def parse(text: str) -> Verifier:
        """Reads what `str` makes. Raises ValueError."""
        mechanism, first, second = text.split("$")
        if mechanism != "SCRAM-SHA-256":
            raise ValueError(f"must begin with SCRAM-SHA-256; got {mechanism}")
        iterations, salt = first.split(":")
        stored, server = second.split(":")
        parts = (base64.b64decode(part, validate=True) for part in (salt, stored, server))
        return Verifier(int(iterations), *parts)


def prepared(password: str) -> bytes:
    """A password as SCRAM hashes it (RFC 4013); one that is not allowed there stays as it is."""
    mapped = "".join(
        " " if stringprep.in_table_c12(c) else c
        for c in password
        if not stringprep.in_table_b1(c)
    )  # fmt: skip
    normal = unicodedata.normalize("NFKC", mapped)
    prohibited = (
        stringprep.in_table_c21_c22, stringprep.in_table_c3, stringprep.in_table_c4,
        stringprep.in_table_c5, stringprep.in_table_c6, stringprep.in_table_c7,
        stringprep.in_table_c8, stringprep.in_table_c9, stringprep.in_table_a1,
    )  # fmt: skip
    allowed = normal and not any(test(c) for c in normal for test in prohibited)
    return (normal if allowed else password).encode("utf-8", "surrogatepass")


@dataclass(frozen=True)
class User:
    """A user.

    Attributes:
        role: `reader` asks; `admin` may also roll back and replay.
        verifier: What proves the password.
    """

    role: Role
    verifier: Verifier


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host, or has an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


class Users:
    """The users of a file. It is read again whenever it has changed."""

    def __init__(self, path: Path) -> None:
        """Users of a file, which need not exist.

        Args:
            path: The file.
        """
        self.path = path
        self._seen: tuple[int, int, int] | None = None
        self._users: Mapping[str, User] = {}
        self._secret = secrets.token_bytes(32)

    def all(self) -> Mapping[str, User]:
        """All users, by name; none before there is a file.

        Raises:
            SettingsError: The file can't be read, or is missing though it was there before. Nobody
                may take it for one without users then.
        """
        try:
            stat = self.path.stat()
            seen = (stat.st_ino, stat.st_ctime_ns, stat.st_size)
            if self._seen != seen:
                document = json.loads(self.path.read_text())
                self._users = {
                    name: User(_role(entry["role"]), Verifier.parse(entry["verifier"]))
                    for name, entry in document.items()
                }
                self._seen = seen
        except FileNotFoundError:
            if self._seen is None:
                return {}
            raise SettingsError(
                f"{self.path} must stay while the server runs; it is missing; put it back, or"
                " restart the server to begin without users"
            ) from None
        except OSError as error:
            raise SettingsError(f"{self.path} must be readable: {error.strerror}") from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SettingsError(
                f"{self.path} must have an object with role and verifier by name: {error};"
                " write it with `trilayer user add NAME`"
            ) from None
        return self._users

    def role(self, name: str, password: str) -> Role | None:
        """The role of a user whose password this is; None if it is not."""
        if len(password) > MOST_CHARACTERS:
            return None
        user = self.all().get(name)
        verifier = user.verifier if user else self.pretended(name)
        return user.role if verifier.fits(password) and user else None

    def pretended(self, name: str) -> Verifier:
        """A verifier for a user who does not exist, so that nobody sees who does."""
        salt = hmac.digest(self._secret, name.encode(), "sha256")[:SALT_BYTES]
        return Verifier(ITERATIONS, salt, secrets.token_bytes(32), secrets.token_bytes(32))

    def put(self, name: str, password: str, role: Role) -> None:
        """Adds a user, or gives one another password and role.

        Args:
            name: The user's name.
            password: The password, of which only a verifier is kept.
            role: What the user may do.

        Raises:
            UsageError: The name or password is empty, or the password too long.
        """
        if not name or not password:
            raise UsageError("name and password of a user must not be empty")
        if len(password) > MOST_CHARACTERS:
            raise UsageError(
                f"a password must have at most {MOST_CHARACTERS:,} characters; got"
                f" {len(password):,}"
            )
        user = User(role, Verifier.of(password))
        with self._changing() as users:
            users[name] = user

    def remove(self, name: str) -> None:
        """Removes a user. Raises UsageError if there is none."""
        with self._changing() as users:
            if users.pop(name, None) is None:
                raise UsageError(f"there is no user {name!r}{did_you_mean(name, users)}")

    @contextmanager
    def _changing(self) -> Iterator[dict[str, User]]:
        """The users, which are written at the end of the block. One at a time changes them."""
        with exclusive(self.path.with_suffix(".lock")):
            users = dict(self.all())
            yield users
            document = {
                name: {"role": user.role, "verifier": str(user.verifier)}
                for name, user in users.items()
            }
            next_ = self.path.with_suffix(".next")
            next_.unlink(missing_ok=True)
            next_.touch(mode=0o600)
            next_.write_text(json.dumps(document, indent=2) + "\n")
            os.replace(next_, self.path)


def _role(text: str) -> Role:
    for role in ROLES:
        if text == role:
            return role
    raise ValueError(f"role must be one of {', '.join(ROLES)}; got {text!r}")
