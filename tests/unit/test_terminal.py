"""Text of others never reaches a terminal as something that it obeys."""

import ast
import io
import logging
import unicodedata
from pathlib import Path

import pyarrow as pa
import pytest
from rich.logging import RichHandler
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from serving_layer.result import RowSet
from tests.support.places import PACKAGES
from tests.support.published import CATALOG
from trilayer.cli import context, quarantine, sql
from trilayer.operations.quarantine import Quarantined, ReasonCount
from trilayer.operations.values import as_text
from trilayer_core.project import Project
from trilayer_core.runtime.progress import shown
from trilayer_core.runtime.settings import Settings
from trilayer_core.runtime.terminal import SafeConsole, VisibleFormatter, visible, write

OBEYED = [
    chr(code)
    for code in range(0x110000)
    if unicodedata.category(chr(code)) in ("Cc", "Cs", "Zl", "Zp")
    or unicodedata.bidirectional(chr(code))
    in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    or code in (0x061C, 0x200E, 0x200F)
]
LAYOUT = {"\n", "\t"}
HOSTILE = "".join(c for c in OBEYED if c not in LAYOUT and not "\ud800" < c <= "\udfff")
ROOT = Path(__file__).parents[2]


def as_terminal(monkeypatch):
    """What the commands write to from now on, as if it were a terminal."""
    stream = io.StringIO()
    stream.isatty = lambda: True
    monkeypatch.setattr("sys.stdout", stream)
    for console in (context.out, context.err):
        monkeypatch.setattr(console, "_file", stream)
        monkeypatch.setattr(console, "_width", 50_000)
    return stream


def obeyed(text):
    return set(text) & (set(OBEYED) - LAYOUT)


def test_each_character_is_escaped_and_no_other():
    everything = "".join(map(chr, range(0x110000)))
    escaped = set(OBEYED) - LAYOUT
    assert {c for c in everything if visible(c) != c} == escaped
    assert visible("\x1b]0;x\x07\u202e") == r"\x1b]0;x\x07\u202e"


def _table(text):
    table = Table(escape(text), title=escape(text), caption=escape(text))
    table.add_row(escape(text))
    table.add_row(Text(text))
    return table


def _live(text, console):
    with shown(text, echo=lambda line: console.print(line, markup=False), console=console) as tell:
        tell(text)


PRINTED = {
    "text": lambda text, console: console.print(escape(text)),
    "text of its own": lambda text, console: console.print(Text(text)),
    "in a style": lambda text, console: console.print(f"[red]{escape(text)}[/]", soft_wrap=True),
    "an object": lambda text, console: console.print({"key": text}),
    "a table": lambda text, console: console.print(_table(text)),
    "a value": lambda text, console: console.print(as_text(text)),
    "progress": _live,
    "a log line": lambda text, console: _log(text, console),
}


def _log(text, console):
    handler = RichHandler(console=console, show_path=False)
    handler.setFormatter(VisibleFormatter("%(message)s"))
    try:
        raise ValueError(text)
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "", 0, text, (), None)
        handler.handle(record)


@pytest.mark.parametrize("printed", PRINTED)
def test_a_console_passes_nothing_on(printed):
    console = SafeConsole(file=io.StringIO(), force_terminal=True, color_system=None, width=10_000)
    marked = f"{HOSTILE}[link=file:///x]end[/link]"
    PRINTED[printed](marked, console)
    got = console.file.getvalue()
    assert "end" in got
    assert r"\u202e" in got
    # Progress hides the cursor, and moves up to write over itself.
    assert obeyed(got.replace("\x1b[", "").replace("\r", "")) == set()
    assert "\x1b]" not in got


def test_the_lines_of_a_log_are_escaped():
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(VisibleFormatter("%(message)s"))
    try:
        raise ValueError(HOSTILE)
    except ValueError as error:
        info = (ValueError, error, error.__traceback__)
        handler.handle(logging.LogRecord("x", logging.ERROR, "", 0, "%s", (HOSTILE,), info))
    assert "ValueError" in stream.getvalue()
    assert obeyed(stream.getvalue()) == set()


@pytest.mark.parametrize("is_terminal", [True, False])
def test_data_is_only_escaped_for_a_terminal(monkeypatch, is_terminal):
    terminal = as_terminal(monkeypatch)
    terminal.isatty = lambda: is_terminal
    write(HOSTILE)
    assert terminal.getvalue() == (visible(HOSTILE) if is_terminal else HOSTILE)


@pytest.mark.parametrize("format_", [*sql.Format])
def test_values_and_names_of_an_answer(monkeypatch, format_):
    terminal = as_terminal(monkeypatch)
    hostile = HOSTILE.replace("\ud800", "") + "[link=file:///x]end[/link]\\[/]"
    sql._print(RowSet(pa.table({hostile: [hostile, "b"]})), format_)
    assert "end" in terminal.getvalue()
    assert obeyed(terminal.getvalue()) == set()


def test_events_in_quarantine(monkeypatch):
    """The reason and the value of an event are its producer's."""
    terminal = as_terminal(monkeypatch)
    event = Quarantined(
        "events", 1, 0, 7, 0, f"k must be an int; got {HOSTILE}[/]",
        HOSTILE.encode(errors="replace"), None, None, False, None,
    )  # fmt: skip
    reasons = [ReasonCount("events", event.reason, 1, "0:7")]
    monkeypatch.setattr(quarantine, "project", lambda: Project(Settings(), CATALOG, None))
    monkeypatch.setattr(quarantine, "of_streams", lambda *_, **__: iter([event]))
    monkeypatch.setattr(quarantine, "count_reasons", lambda *_: (reasons, 1))
    monkeypatch.setattr(quarantine, "event_at", lambda *_: event)
    quarantine.list_(stream=None, limit=None, jsonl=False, all_=False)
    quarantine.list_(stream=None, limit=None, jsonl=True, all_=False)
    quarantine.reasons(stream=None, json_=False)
    quarantine.reasons(stream=None, json_=True)
    quarantine.show("0:7", stream=None)
    assert terminal.getvalue().count("must be an int") == 5
    assert obeyed(terminal.getvalue()) == set()


def test_every_command_writes_by_the_functions_that_escape():
    """What else writes is listed here, with what it writes."""
    known = {
        "trilayer_core/runtime/terminal.py": "they are here",
        "trilayer/cli/main.py": "a traceback, which is made visible",
        "trilayer/cli/quarantine.py": "the bytes of an event, to a file or a pipe",
        "trilayer/cli/speed.py": "fingerprints, for `trilayer up`",
        "trilayer_local/class_recording.py": "the steps of a recording, for its parent",
    }
    found = set()
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            tree = ast.parse(file.read_text())
            if any(isinstance(node, ast.Call) and _writes(node.func) for node in ast.walk(tree)):
                found.add(str(file.relative_to(ROOT)))
    assert found == set(known)


def _writes(function):
    text = ast.unparse(function)
    return text in ("print", "typer.echo", "typer.secho", "Console", "logging.Formatter") or (
        text.startswith(("sys.stdout.", "sys.stderr.", "traceback.print"))
        and not text.endswith((".isatty", ".flush", ".fileno"))
    )
