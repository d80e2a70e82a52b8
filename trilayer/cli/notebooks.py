"""`trilayer notebooks`: copies the notebooks into a folder of your own."""

from __future__ import annotations

import importlib.util
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from trilayer.cli.context import out
from trilayer_core.errors import UsageError
from trilayer_core.runtime.settings import FILE, settings_folder


def notebooks(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="the folder, which must be your project's or below it"),
    ] = Path("notebooks"),
    force: Annotated[
        bool, typer.Option("--force", help="replace notebooks that were changed")
    ] = False,
) -> None:
    """Copies the notebooks into a folder, for your own catalog and store.

    They compare batch with speed, and show freshness and lag.
    """
    shipped = {
        entry.name: entry.read_bytes()
        for entry in files("trilayer.notebooks").iterdir()
        if entry.name.endswith(".ipynb")
    }
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"DIR must be a folder; got the file {str(folder)!r}; name another one")
    changed = [name for name, data in shipped.items() if _differs(folder / name, data)]
    if changed and not force:
        raise UsageError(
            f"{folder} must not hold other notebooks of these names; got"
            f" {', '.join(sorted(changed))}; name another folder, or replace them with --force"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in sorted(shipped.items()):
        (folder / name).write_bytes(data)
        out.print(f"wrote {escape(str(folder / name))}")
    above = [folder.resolve(), *folder.resolve().parents]
    if settings_folder() is None or settings_folder() not in above:
        out.print(
            f"there is no {FILE} in their folder or above it, where they look for it: move them"
            " into your project"
        )
    if (
        importlib.util.find_spec("jupyterlab") is None
        or importlib.util.find_spec("matplotlib") is None
    ):
        out.print("they need the extra `notebooks`: pip install 'trilayer\\[notebooks]'")
    out.print(f"open them with: jupyter lab {escape(str(folder))}")


def _differs(path: Path, data: bytes) -> bool:
    return path.exists() and path.read_bytes() != data
