"""The event formats, one per file. A stream without a format uses JSON."""

from trilayer_core.compute.formats.json import Json
from trilayer_core.definitions.formats import Format
from trilayer_core.definitions.stream import Stream

JSON = Json()


def format_of(stream: Stream) -> Format:
    """The format of a stream's events."""
    return stream.format or JSON
