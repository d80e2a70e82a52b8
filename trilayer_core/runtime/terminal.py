"""Text that others have written, such as values of events, as a terminal may show it.

A terminal obeys control characters: they set its title, clear or rewrite the screen, and write the
clipboard. Marks of direction have a line read otherwise than it is.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def visible(text: str) -> str:
    r"""Escapes what a terminal would obey rather than show, as `\x1b`. Lines and tabs remain."""
    return _OBEYED.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def write(text: str) -> None:
    """Writes data to stdout: as it is to a file or a pipe, and escaped to a terminal."""
    sys.stdout.write(visible(text) if sys.stdout.isatty() else text)


class SafeConsole(Console):
    """A console whose text is `visible`. Only its own styles reach the terminal."""

    def render_str(self, text: str, *given: object, **more: object) -> Text:
        """Makes text of a string, as the class above does. Columns get the width of the escapes."""
        return super().render_str(visible(text), *given, **more)  # type: ignore[arg-type]

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Renders anything else, such as a line of a log or of progress."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))


class VisibleFormatter(logging.Formatter):
    """Formats log lines as `visible` text."""

    def format(self, record: logging.LogRecord) -> str:
        """Formats a record, with the traceback of its error."""
        return visible(super().format(record))
