"""A session of the OpenAI Agents SDK in a store of adjourn. The SDK itself is not imported: its `Session` is a protocol."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from adjourn.adapters.conversation import Conversation
from adjourn.errors import UsageError
from adjourn.store.base import Store

if TYPE_CHECKING:
    from agents import TResponseInputItem
    from agents.memory import SessionSettings

_KIND = "openai-agents"


class AdjournSession:
    """A `Session` for `Runner.run`: its items outlive the process. Each session is a task that `adjourn verify` checks.

    Args:
        session_id: the name of the conversation.
        store: memory, SQLite or PostgreSQL; the caller closes it.
        session_settings: the SDK's: its `limit` is the number of newest items that a run receives.

    Methods raise `StoreError` where the store fails, and `IntegrityError` where a history or document was changed.

    Example:
        >>> import asyncio
        >>> from adjourn.adapters.openai_agents import AdjournSession
        >>> from adjourn.store import MemoryStore
        >>> session = AdjournSession("first", MemoryStore())
        >>> asyncio.run(session.add_items([{"role": "user", "content": "Hello"}]))
        >>> asyncio.run(session.get_items())
        [{'role': 'user', 'content': 'Hello'}]

    """

    def __init__(self, session_id: str, store: Store, session_settings: SessionSettings | None = None) -> None:
        self.session_id = session_id
        self.session_settings = session_settings
        self._store = store
        self._conversation = Conversation(store, session_id, _KIND)

    @property
    def task(self) -> str:
        """The id of the session's task."""
        return self._conversation.task

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The items, oldest first: the newest `limit` of them, by default those of the settings."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        items: list[TResponseInputItem] = await asyncio.to_thread(self._conversation.items)
        return items if limit is None else items[-limit:] if limit > 0 else []

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items, durably: all or none."""
        await asyncio.to_thread(self._conversation.append, items)

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the newest item, and return it; None without one."""
        item: TResponseInputItem | None = await asyncio.to_thread(self._conversation.pop)
        return item

    async def clear_session(self) -> None:
        """Delete all items with their documents."""
        await asyncio.to_thread(self._conversation.clear)

    async def branch(self, session_id: str, items: int | None = None) -> AdjournSession:
        """Another session that starts with the first `items` of this one, by default all. Calling it again changes nothing.

        Raises `UsageError` for a number that this session does not have, `InvalidError` if that session has other items.
        """
        own = await asyncio.to_thread(self._conversation.items)
        count = len(own) if items is None else items
        if not 0 <= count <= len(own):
            raise UsageError(f"session {self.session_id!r} has {len(own)} items, not {count}", "name a smaller number")
        other = AdjournSession(session_id, self._store, self.session_settings)
        await asyncio.to_thread(other._conversation.start_with, own[:count])
        return other
