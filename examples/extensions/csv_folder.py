"""A custom sink: a folder with a CSV file for each batch view."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pyarrow.csv

from trilayer import Delivery, Sink


@dataclass(frozen=True)
class CsvFolder(Sink):
    """Writes each publication into a folder of its own, and links `current` to the one in force.

    The link is replaced atomically, so a reader of `current` always sees one complete publication.
    """

    folder: Path
    name: str = "csv_folder"

    def deliver(self, publication: Delivery) -> None:
        """Writes the files, then moves the link. Repeating it has the same result."""
        target = self.folder / f"{publication.version:08d}"
        partial = target.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        for view in publication.views:
            pyarrow.csv.write_csv(publication.table(view), partial / f"{view}.csv")
        shutil.rmtree(target, ignore_errors=True)
        partial.rename(target)
        link = self.folder / "current.partial"
        link.unlink(missing_ok=True)
        link.symlink_to(target.name)
        os.replace(link, self.folder / "current")
