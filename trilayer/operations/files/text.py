"""Text files: opening them and reading their lines."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

from trilayer_core.errors import UsageError


def opener(path: Path) -> tuple[Callable[..., IO[bytes]], str]:
    """Returns a function that opens the file, and its name without the ending of a compression."""
    openers: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    opener = openers.get(path.suffix.lower())
    return (opener, path.stem) if opener else (open, path.name)


class Text:
    """A text file that knows how far it has been read."""

    def __init__(self, path: Path, open_: Callable[..., Any], encoding: str | None) -> None:
        self.path = path
        self.again = partial(Text, path, open_, encoding)
        self._file = path.open("rb")
        self._size = max(1, path.stat().st_size)
        self._read = 0
        if encoding is None:
            with self._readable():
                start = self._bytes(open_).read(2)
            encoding = "utf-16" if start in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
            self._file.seek(0)
        try:
            codec = codecs.lookup(encoding).name
        except LookupError:
            raise UsageError(
                "encoding must be one that Python knows, such as latin-1 or utf-16; got"
                f" {encoding!r}"
            ) from None
        # Bytes that are not UTF-8 are sent unchanged.
        errors = "surrogateescape" if codec.startswith("utf-8") else "replace"
        codec = "utf-8-sig" if codec == "utf-8" else codec
        self._text = io.TextIOWrapper(self._bytes(open_), codec, errors, newline="")

    def _bytes(self, open_: Callable[..., Any]) -> Any:
        return self._file if open_ is open else open_(self._file)

    def lines(self) -> Iterator[str]:
        """Yields the lines, with their ends. Raises UsageError if the file can't be read on."""
        with self._readable():
            for line in self._text:
                self._read += 1
                yield line

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Raises UsageError if the file can't be read on."""
        try:
            yield
        except (OSError, EOFError, UnicodeError, lzma.LZMAError, zlib.error) as error:
            raise UsageError(
                f"{self.path} must be readable to its end; after line {self._read:,} it is not:"
                f" {error}"
            ) from None

    def progress(self) -> float:
        """Returns the fraction of the file that has been read."""
        return 1.0 if self._file.closed else self._file.tell() / self._size


class Lines:
    """Lines that can be pushed back. `taken` has those read since it was last cleared."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines, self._back = lines, list[str]()
        self.taken: list[str] = []

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._back.pop() if self._back else next(self._lines)
        self.taken.append(line)
        return line

    def give_back(self) -> None:
        """Pushes the lines of `taken` back."""
        self._back += reversed(self.taken)
        self.taken = []


def as_bytes(text: str) -> bytes:
    """Returns the text as UTF-8; bytes that were not UTF-8 are unchanged."""
    return text.encode("utf-8", "surrogateescape")
