"""How the gateway begins a session of its own with a server, for a client: in the one era or in the other.

Owns: what is said of the client, and whether a server's answer is a session. Must never: choose the era.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from adjourn.gateway.together.merging import REVISIONS, STATELESS
from adjourn.gateway.together.server_health import Era
from adjourn.gateway.together.task_handles import without
from adjourn.mcp import frames, object_of, value_of

Ask = Callable[[str, dict[str, Any], float, str], Awaitable[bytes]]
"""Asks the server: the method, its params, the seconds that it has, the revision that its headers name ("": none)."""


class NoSessionError(Exception):
    """The server accepted no session."""


class ClientFacts(msgspec.Struct):
    """What the client says of itself, for the server's eyes."""

    info: Any = None
    capabilities: Any = None
    revision: str = REVISIONS[-1]
    is_modern: bool = False
    is_met: bool = False
    is_ready: bool = False
    """Whether it has finished its own handshake."""

    def meet(self, params: Mapping[str, Any], *, is_modern: bool) -> None:
        """Take note of what a first message says."""
        meta = params.get("_meta") if is_modern else None
        self.is_modern = self.is_ready = is_modern
        self.is_met = True
        if isinstance(meta, dict):
            self.info, self.capabilities = meta.get(frames.META_CLIENT), meta.get(frames.META_CAPABILITIES)
        elif not is_modern:
            self.info, self.capabilities = params.get("clientInfo"), params.get("capabilities")
            revision = params.get("protocolVersion")
            self.revision = revision if isinstance(revision, str) else REVISIONS[-1]

    @property
    def offered(self) -> dict[str, Any]:
        """Its capabilities, but for tasks of its own: one server could ask for those that were made for another."""
        return without(self.capabilities, modern=False) if isinstance(self.capabilities, dict) else {}

    @property
    def _shown(self) -> Any:
        return self.info if isinstance(self.info, dict) else {"name": "adjourn", "version": "0"}

    def meta(self, level: str = "") -> dict[str, Any]:
        """What the stateless revision wants to know of it with each request."""
        told: dict[str, Any] = {
            frames.META_VERSION: STATELESS[0],
            frames.META_CLIENT: self._shown,
            frames.META_CAPABILITIES: self.offered,
        }
        return told | ({frames.META_LOG_LEVEL: level} if level else {})

    def hello(self) -> dict[str, Any]:
        """The params of initialize."""
        revision = REVISIONS[-1] if self.is_modern else self.revision
        return {"protocolVersion": revision, "capabilities": self.offered, "clientInfo": self._shown}


async def greet(
    ask: Ask, client: ClientFacts, era: Era, seconds: float
) -> tuple[str, dict[str, msgspec.Raw]]:
    """The revision and the result of a handshake in an era. Raises `NoSessionError`, and what `ask` raises."""
    if era == "modern":
        line = await ask("server/discover", {"_meta": client.meta()}, seconds, STATELESS[0])
    else:
        line = await ask("initialize", client.hello(), seconds, "")
    body = object_of(line)
    if "result" not in body:
        said = value_of(body["error"]) if "error" in body else {}
        text = said.get("message") if isinstance(said, dict) else ""
        raise NoSessionError(f"the server accepts no session: {text}")
    result = object_of(body["result"])
    member = "supportedVersions" if era == "modern" else "protocolVersion"
    told = value_of(result[member]) if member in result else None
    named = told if isinstance(told, list) else [told]
    version = next((one for one in (STATELESS if era == "modern" else REVISIONS) if one in named), "")
    if not version:
        raise NoSessionError("the server speaks no revision of the protocol that the gateway speaks")
    return version, result
