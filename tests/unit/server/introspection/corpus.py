"""The statements that clients ask of the catalog: those of corpus.sql."""

import re
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).parent / "corpus.sql"


class Asked(NamedTuple):
    """A statement of a client. `own` says why its rows differ from PostgreSQL's; or is empty."""

    name: str
    sql: str
    own: str


def corpus():
    _, *parts = re.split(r"\n(?=-- (?!own rows)[\w ]+: )", FILE.read_text())
    return [_asked(part) for part in parts]


def _asked(part):
    name = re.match(r"-- (.*)", part)[1]
    own = re.search(r"^-- own rows: (.*)$", part, re.MULTILINE)
    sql = "\n".join(line for line in part.splitlines() if not line.startswith("-- "))
    return Asked(name, sql.strip(), own[1] if own else "")
