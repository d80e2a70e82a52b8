"""Checks the budgets of the code: lines of the heart and of files, names of modules, words.

Run `python -m qa.budgets`, which `make lint` does. Numbers that are above their aim may only fall:
whoever lowers one lowers it here.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parents[1]
HEART = ("trilayer_core", "batch_layer", "speed_layer", "serving_layer")
PRODUCT = (*HEART, "trilayer", "trilayer_server", "trilayer_local", "dags")

LINES = {"heart": 15_400, "all": 37_650}
"""The most code lines of the heart without alerts, and of the product."""

FILE_LINES = 400
"""The most code lines of a file."""

LONGER: set[str] = set()
"""The files that are longer and are to be divided."""

WAY = {"files": 25, "lines": 4_500}
"""The most files, and code lines, of the two ways that docs/design.md follows through the code."""

WORDS = {"found": 16, "known": 16, "question": 0, "refusal": 0, "said": 0, "told": 0, "anew": 8}
"""The most identifiers that contain a word of the dialect that this code once had."""


def code_lines(path: Path) -> int:
    """Returns the number of lines that are no blank line, comment or docstring."""
    source = path.read_text()
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        first = body[0] if isinstance(body, list) and body else None
        match first:
            case ast.Expr(value=ast.Constant(value=str())):
                docstrings |= {*range(first.lineno, (first.end_lineno or 0) + 1)}
    skipped = {
        *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
        *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
    }
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in skipped:
            lines |= {*range(token.start[0], token.end[0] + 1)}
    return len(lines - docstrings)


def way() -> dict[str, int]:
    """Returns the files of both ways, with their code lines as docs/design.md states them."""
    page = (PROJECT / "docs/design.md").read_text()
    listed = page.split("## The files of both ways")[1].split("\n## ")[0]
    rows = re.findall(r"^\| \[([\w/.]+)\]\(.*\| (\d+) \|$", listed, re.MULTILINE)
    return {path: int(number) for path, number in rows}


def identifiers(path: Path) -> Counter[str]:
    """Returns how often each word occurs in names that a file defines or uses."""
    words: Counter[str] = Counter()
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type == tokenize.NAME:
            words.update(token.string.lower().strip("_").split("_"))
    return words


def violations() -> Iterator[str]:
    """Yields a sentence for each budget that is exceeded."""
    sizes = {
        path.relative_to(PROJECT): code_lines(path)
        for folder in PRODUCT
        for path in sorted((PROJECT / folder).rglob("*.py"))
    }
    alerts = {path for path in sizes if "alert" in str(path)}
    heart = sum(n for path, n in sizes.items() if path.parts[0] in HEART and path not in alerts)
    for name, number in {"heart": heart, "all": sum(sizes.values())}.items():
        if number > LINES[name]:
            yield f"{name}: must have at most {LINES[name]:,} code lines; got {number:,}"
    for path, number in sizes.items():
        if number > FILE_LINES and str(path) not in LONGER:
            yield f"{path}: must have at most {FILE_LINES} code lines; got {number}"
    for name in LONGER:
        if sizes.get(Path(name), 0) <= FILE_LINES:
            yield f"{name}: is short enough; remove it from LONGER in qa/budgets.py"
    stated_lines = way()
    of_way = {path: sizes.get(Path(path), 0) for path in stated_lines}
    for name, number in {"files": len(of_way), "lines": sum(of_way.values())}.items():
        if number > WAY[name]:
            yield f"docs/design.md: its ways must have at most {WAY[name]:,} {name}; got {number:,}"
    for name, stated in stated_lines.items():
        if abs(of_way[name] - stated) > 20:
            yield f"docs/design.md: {name} must be stated with {of_way[name]} lines; got {stated}"
    words: Counter[str] = Counter()
    for path in sizes:
        words += identifiers(PROJECT / path)
    for word, most in WORDS.items():
        if (number := words[word] + words[f"{word}s"]) > most:
            yield (
                f"the word {word!r} must stand in at most {most} identifiers; got {number};"
                " name the thing itself"
            )


def main() -> None:
    """Prints what is exceeded; the exit code is then 1."""
    if exceeded := [*violations()]:
        sys.exit("\n".join(exceeded))


if __name__ == "__main__":
    main()
