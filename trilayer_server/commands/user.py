"""`trilayer user`: who may ask the server, and who may also change what it answers."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.markup import escape

from trilayer.cli.context import out
from trilayer_core.errors import UsageError
from trilayer_core.runtime.settings import load_settings
from trilayer_server.serving import users
from trilayer_server.users import ROLES, Role

app = typer.Typer(no_args_is_help=True, help="Users of `trilayer serve`, and their passwords.")


@app.command()
def add(
    name: str,
    role: Annotated[str, typer.Option(help="reader or admin")] = "reader",
) -> None:
    """Adds a user, or changes a user's password and role.

    The password is read from a prompt, or from the standard input if that is no terminal. Once a
    user exists, every client must log in with a password.
    """
    chosen: Role | None = next((each for each in ROLES if each == role), None)
    if chosen is None:
        raise UsageError(f"role must be one of {', '.join(ROLES)}; got {role!r}")
    if sys.stdin.isatty():
        password = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
    else:
        password = sys.stdin.readline().rstrip("\n")
    stored = users(load_settings())
    stored.put(name, password, chosen)
    out.print(f"{escape(name)} is a user with the role {role}; see {stored.path}", soft_wrap=True)


@app.command()
def remove(name: str) -> None:
    """Removes a user. Clients that are connected stay connected."""
    users(load_settings()).remove(name)
    out.print(f"The user {escape(name)} is removed.")


@app.command("list")
def list_() -> None:
    """Lists the users and their roles."""
    for name, user in sorted(users(load_settings()).all().items()):
        out.print(f"{escape(name)}\t{user.role}")
