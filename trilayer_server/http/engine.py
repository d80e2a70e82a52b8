"""What HTTP needs of the engine that answers questions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

import pyarrow as pa

from trilayer_server.engine.question import Question


class Answer(Protocol):
    """An answer that is being computed.

    Attributes:
        schema: Its columns.
        provenance: What it is based on, as a JSON document.
        rows: The number of its rows, once `chunks` has ended.
    """

    @property
    def schema(self) -> pa.Schema: ...  # noqa: D102

    @property
    def provenance(self) -> Mapping[str, Any]: ...  # noqa: D102

    @property
    def rows(self) -> int: ...  # noqa: D102

    def chunks(self) -> AsyncIterator[bytes]:
        """The answer, encoded as its question says.

        Raises:
            Refusal: It can't be completed.
        """
        ...


class Engine(Protocol):
    """Answers questions."""

    def ask(self, question: Question, who: str = ...) -> AbstractAsyncContextManager[Answer]:
        """Asks a question. Leaving the block before the answer is complete cancels it.

        Args:
            question: The question.
            who: The client that asks: a user, or an address. By default it is the server itself.

        Raises:
            Refusal: It has no answer.
        """
        ...

    async def key(self, sql: str, who: str) -> Sequence[str] | None:
        """The key of the view of which a statement selects all columns; None if it is another one.

        Args:
            sql: The statement.
            who: The client that asks: a user, or an address.

        Raises:
            Refusal: It takes too long.
        """
        ...

    async def state(self) -> int:
        """A number that changes whenever answers may have changed.

        Raises:
            Refusal: The store's answer can't be proven.
        """
        ...

    async def news(self) -> None:
        """Waits until the state may have changed. It does not notice every change."""
        ...


@asynccontextmanager
async def chunks_of(answer: Answer) -> AsyncIterator[AsyncIterator[bytes]]:
    """The chunks of an answer, which end with the block, before the question does."""
    chunks = answer.chunks()
    try:
        yield chunks
    finally:
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()
