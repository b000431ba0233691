"""The message history of a pydantic-ai agent in a store of adjourn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from adjourn.adapters.conversation import Conversation
from adjourn.errors import IntegrityError
from adjourn.store.base import Store

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage


class MessageHistory:
    """The messages of one conversation, for `message_history=`. Each history is a task that `adjourn verify` checks.

    Args:
        name: the name of the conversation.
        store: memory, SQLite or PostgreSQL; the caller closes it.

    Methods raise `StoreError` where the store fails, and `IntegrityError` where a history or document was changed.

    Example:
        >>> import asyncio
        >>> from pydantic_ai import Agent
        >>> from pydantic_ai.models.test import TestModel
        >>> from adjourn import MemoryStore, MessageHistory
        >>> agent, history = Agent(TestModel()), MessageHistory("first", MemoryStore())
        >>> result = asyncio.run(agent.run("Hello", message_history=history.load()))
        >>> history.save(result.new_messages())
        >>> len(history.load())
        2

    """

    def __init__(self, name: str, store: Store) -> None:
        self._conversation = Conversation(store, name, "pydantic-ai")

    @property
    def task(self) -> str:
        """The id of the history's task."""
        return self._conversation.task

    def load(self) -> list[ModelMessage]:
        """The messages, oldest first."""
        from pydantic_ai.messages import ModelMessagesTypeAdapter

        items = self._conversation.items()
        try:
            return ModelMessagesTypeAdapter.validate_python(items)
        except ValueError as error:
            message = f"the history is not one of this version of pydantic-ai: {error}"
            raise IntegrityError(message, "use the version of pydantic-ai that wrote it") from error

    def save(self, messages: Sequence[ModelMessage]) -> None:
        """Add a run's messages, durably: all or none. Saving the newest messages again changes nothing."""
        from pydantic_ai.messages import ModelMessagesTypeAdapter

        self._conversation.append(ModelMessagesTypeAdapter.dump_python(list(messages), mode="json"), once=True)

    def clear(self) -> None:
        """Delete all messages with their documents."""
        self._conversation.clear()
