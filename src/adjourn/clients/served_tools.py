"""The server that a client's calls go to: by which name rules know it, and how it lists its tools.

Owns: which name it has, and what changed in its list. Must never: give it the name of another server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from adjourn.aex import NOTHING_KNOWN, KnownTool, Policy, canonical_server
from adjourn.checkpoints import GuardedSession
from adjourn.clients.listed_tools import forget_own_name, is_anothers, keep_tools, known_tools
from adjourn.store import Store

RESERVED = ("mcp", "aex", "adjourn")
"""Names that no server can give itself: rules have methods of the protocol and adjourn's own tools under them."""
UNNAMED = "_"
"""What a server without a name claims: a name that no server has."""
MAX_CHANGES = 1000
"""Changed tools that one proxy records when the server lists them; any other is recorded when it is used."""


class ServedTools:
    """`given` is the name that a person gave the server, `command` stands for the command that starts it. `name` is "" as long as it is
    not known; `known` are the tools of all servers; `definitions` has the digest of what each tool was last listed as.
    """

    def __init__(self, given: str, command: str, on_event: Callable[[str, str], None]) -> None:
        self.name = canonical_server(given)
        self.known = NOTHING_KNOWN
        self.definitions: dict[str, str] = {}
        self._given, self._command, self._on_event = given, command, on_event
        self._claim = self._said = ""
        """What the server calls itself, where no person gave it a name; and that of which was said that another one has it."""
        self._before: dict[str, str] = {}
        self._changes = 0

    def claim(self, name: str) -> bool:
        """Take note of what the server calls itself. Returns whether that may become its name."""
        canonical = canonical_server(name)
        if self._given or self.name or not canonical or canonical.lower() in RESERVED:
            return False
        self._claim = canonical
        return True

    def settle_name(self, store: Store) -> bool:
        """Give the server the name that it claims, or take it away, as another one has it or not. Returns whether that changed it.
        Raises `StoreError`.
        """
        if not self._claim:
            return False
        is_taken = is_anothers(store, self._claim, self._command)
        if is_taken and self._claim != self._said:
            self._said = self._claim
            self._on_event(
                "server.name",
                f"the server calls itself {self._claim}, as another one is named; give it a name with --name",
            )
        before, self.name = self.name, "" if is_taken else self._claim
        return self.name != before

    def forget_own_name(self, store: Store) -> None:
        """Have it known by the name that a person gave it alone. Raises `StoreError`."""
        if self._given:
            forget_own_name(store, self._command)

    def look(self, store: Store) -> bool:
        """Take in which tools all servers have listed. Returns whether they are others than before. Raises `StoreError`."""
        before, self.known = self.known, known_tools(store)
        return self.known != before

    def keep(self, store: Store, tools: Iterable[KnownTool]) -> None:
        """Keep the whole list of the server's tools. Raises `StoreError`."""
        keep_tools(store, self.name, tools, command=self._command, is_given=bool(self._given))

    def judged_by(self, policy: Policy) -> Policy:
        """The policy as it holds for the tools of the server."""
        name = self._given or self.name
        if name or not self._command:
            return policy.at_server(name, self.known)
        return policy.at_server("", self.known.without(self._command), claim=self._claim or UNNAMED)

    def listed(self, definitions: Mapping[str, str]) -> None:
        """Take in how the server lists its tools."""
        for tool, definition in definitions.items():
            if self.definitions.get(tool, definition) != definition:
                self._before.setdefault(tool, self.definitions[tool])
        self.definitions.update(definitions)

    def record_changes(self, session: GuardedSession) -> None:
        """Have a task know how the server lists its tools now. Raises what recording raises."""
        if self.definitions and self._changes < MAX_CHANGES:
            room = MAX_CHANGES - self._changes
            self._changes += session.listed(self._command, self.definitions, self._before, room)
            self._before.clear()
