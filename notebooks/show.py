"""What the notebooks share.

The way to their project, and tables as plain HTML that reads anywhere and sorts by a click on a
column's head if scripts may run.
"""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd

from trilayer_core.runtime.settings import settings_folder

_SORT = (
    "(function(e){var"
    " h=e.target.closest('th'),b=h.closest('table').tBodies[0],i=h.cellIndex,d=h.dataset.down=-(h.dataset.down||-1),v=function(r){return"
    " r.cells[i].textContent.replace(/,/g,'')};Array.from(b.rows).sort(function(r,s){var"
    " x=v(r),y=v(s);return"
    " d*(isNaN(x-y)?x.localeCompare(y):x-y)}).forEach(function(r){b.appendChild(r)})})(event)"
)


def enter_project() -> None:
    """Goes to the folder whose settings count.

    It is the nearest one, from the notebook's upwards, that has a `trilayer.toml`.

    Without one, it is the notebook's own, or the one above where that is called `notebooks`.
    """
    here = Path.cwd()
    os.chdir(settings_folder() or (here.parent if here.name == "notebooks" else here))


class table:
    """A data frame as a table, without its index.

    At most `rows` rows are shown, and the caption says so.
    """

    def __init__(self, frame: pd.DataFrame, caption: str = "", *, rows: int = 100) -> None:
        # Whole numbers with gaps between them are whole numbers again.
        shown = frame.head(rows).convert_dtypes(convert_string=False).astype(object)
        self._shown = shown.map(_text)
        left = len(frame) - len(self._shown)
        self._caption = "; ".join(filter(None, [caption, f"the first {rows} of {len(frame):,} rows" if left else ""]))

    def __repr__(self) -> str:
        return "\n".join(filter(None, [self._caption, self._shown.to_string(index=False)]))

    def _repr_html_(self) -> str:
        html = self._shown.to_html(index=False, border=0, justify="right")
        head = f'<thead title="click to sort" style="cursor: pointer" onclick="{_SORT}">'
        caption = f'<caption style="text-align: left">{self._caption}</caption>' if self._caption else ""
        html = html.replace("<thead>", caption + head, 1)
        return f'<div style="max-height: 28em; overflow: auto; width: fit-content">{html}</div>'


def _text(value: object) -> str:
    """Numbers with separators, moments to the second, nothing for what is missing."""
    if not pd.api.types.is_scalar(value):
        return str(value)
    if pd.isna(value):
        return ""
    if isinstance(value, pd.Timestamp):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if pd.api.types.is_bool(value) or not pd.api.types.is_number(value):
        return str(value)
    return f"{value:,}" if pd.api.types.is_integer(value) else f"{value:,.2f}"
