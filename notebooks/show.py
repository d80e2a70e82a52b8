"""Code that the notebooks share.

It finds the project, and shows tables as plain HTML that every viewer can display. If scripts are
enabled, a click on a column's header sorts the table.
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
    """Changes to the project's folder.

    This is the nearest folder with a `trilayer.toml`, from the notebook's folder upwards. If there
    is none, it is the notebook's folder, or the folder above if that is called `notebooks`.
    """
    here = Path.cwd()
    os.chdir(settings_folder() or (here.parent if here.name == "notebooks" else here))


class table:
    """A data frame as an HTML table, without its index.

    At most `rows` rows are shown; the caption says how many.
    """

    def __init__(self, frame: pd.DataFrame, caption: str = "", *, rows: int = 100) -> None:
        # Columns of whole numbers with missing values are whole numbers again.
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
    """Formats a value: numbers with separators, times to the second, missing values as nothing."""
    if not pd.api.types.is_scalar(value):
        return str(value)
    if pd.isna(value):
        return ""
    if isinstance(value, pd.Timestamp):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if pd.api.types.is_bool(value) or not pd.api.types.is_number(value):
        return str(value)
    return f"{value:,}" if pd.api.types.is_integer(value) else f"{value:,.2f}"
