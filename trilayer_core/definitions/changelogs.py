"""Changelogs: topics that hold a merged view."""

from __future__ import annotations

from dataclasses import dataclass

from trilayer_core.definitions.expressions import check_name, check_topic
from trilayer_core.definitions.view import View
from trilayer_core.errors import DefinitionError, short_traceback


@short_traceback
@dataclass(frozen=True)
class Changelog:
    """A Kafka topic that holds the merged answer of a view.

    Whoever reads the committed records of the topic from its beginning, and keeps the last value of
    each key, holds the view. A record's key is a JSON object of the view's key columns, and its
    value is a JSON object of the whole row; a record without a value deletes the row. `trilayer
    changelog run` writes the topic, and `trilayer up` runs that.

    Attributes:
        name: Its name in commands and messages: lower-case letters, digits and single underscores.
        view: The view. Its answer must not depend on the moment of a query.
        topic: The topic; by default its name.
        partitions: The number of partitions with which the topic is created. More must not be added
            later, because the records of a key must stay in one partition.
        compacted: Whether Kafka may delete all values of a key but the last. If not, the topic
            keeps each change, and can be the stream of another catalog.
    """

    name: str
    view: View
    topic: str = ""
    partitions: int = 1
    compacted: bool = True

    def __post_init__(self) -> None:
        check_name(self.name, "name of a changelog")
        subject = f"changelog {self.name!r}"
        if not isinstance(self.view, View):
            raise DefinitionError(f"view of {subject} must be a View; got {self.view!r}")
        if self.view.as_of_query:
            raise DefinitionError(
                f"{subject} must be of a view whose answer does not depend on the moment of a"
                f" query; got {self.view.name!r}; use a tumbling or sliding window"
            )
        object.__setattr__(self, "topic", self.topic or self.name)
        check_topic(self.topic, subject)
        if not isinstance(self.compacted, bool):
            raise DefinitionError(
                f"compacted of {subject} must be True or False; got {self.compacted!r}"
            )
        if type(self.partitions) is not int or self.partitions < 1:
            raise DefinitionError(
                f"partitions of {subject} must be a whole number of at least 1; got"
                f" {self.partitions!r}"
            )
