"""What a code server works on: its options, the work trees that it has open, and the folders of its client.

A call may name a folder outside of the server's own repository only if it is in one of the client's folders (MCP roots). A client
without roots may name any.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from adjourn.code.git.repository import native
from adjourn.code.index.codebase import Codebase
from adjourn.code.index.languages import by_name
from adjourn.code.search import context
from adjourn.code.session_state import Strictness
from adjourn.errors import AdjournError, RefusedError, UsageError
from adjourn.host.finding import top_of

MAX_TREES = 16
"""Maximum number of open work trees; the least recently used one is closed."""
_NOTE = "summaries of the project's documents and rules; read the files themselves for details"


class Codebases:
    """Codebases by root, opened when first used."""

    def __init__(self, options: CodeOptions) -> None:
        self._options = options
        self._open: dict[str, Codebase] = {}
        self._lock = Lock()

    def of(self, root: str) -> Codebase:
        """The codebase of the work tree that contains `root`, indexed in the background."""
        with self._lock:
            codebase = self._open.pop(root, None)
            if codebase is None:
                if len(self._open) >= MAX_TREES:
                    self._open.pop(next(iter(self._open))).close()
                codebase = Codebase(root, language_servers=self._options.language_servers)
                codebase.start()
            self._open[root] = codebase  # the most recently used one is last
            return codebase

    def context_of(self, root: str) -> dict[str, Any]:
        """The state of the index, and the summaries of the project's documents and rules."""
        tree = self.of(root)
        state = tree.state()
        available = tree.index is not None
        reply: dict[str, Any] = {
            "chromadb": {
                "available": available,
                "stats": tree.index.stats() if tree.index is not None else {},
                "needs_sync": not tree.complete(),
                "auto_sync": {"started": True} if available else None,
                **({} if available else {"error": state.get("reason", "")}),
            },
            "index_state": state,
        }
        try:
            if context.initialise(tree.repository) is not None:
                reply["context_initialized"] = True
            if (wanted := context.needed(tree.repository)) is not None:
                reply["context_update_required"] = wanted
            stored = context.load(tree.repository)
        except AdjournError as error:
            return {**reply, "context_error": str(error)}
        essential, rules = stored.get("essential_docs") or {}, stored.get("project_rules") or {}
        if isinstance(essential, dict) and isinstance(rules, dict):
            reply["essential_context"] = {
                "design_docs": essential.get("summaries") or [],
                "project_rules": rules.get("summary") or "",
            }
            reply["essential_context_note"] = _NOTE
        return reply

    def close(self) -> None:
        with self._lock:
            for tree in self._open.values():
                tree.close()
            self._open.clear()


# --- what a code server is started with


class CodeOptions(NamedTuple):
    """`search_only` serves the tools that search, and no sessions; `symbols`, those that read and rename symbols, too.

    `test_commands` are run before a change counts as verified.
    `language_servers`: by language, the command of the server that the user names for it. `store`: its URL ("": the workspace's).
    """

    strictness: Strictness = "standard"
    store: str = ""
    search_only: bool = False
    symbols: bool = False
    test_commands: Sequence[tuple[str, ...]] = ()
    language_servers: Mapping[str, tuple[str, ...]] = MappingProxyType({})


def command_words(option: str, text: str) -> tuple[str, ...]:
    """The words of a command that the user names; no shell reads it. Raises `UsageError`."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"{option} {text!r}: {error}", "close the quote") from error
    if not words:
        raise UsageError(f"{option} is empty", "name a command, such as 'make test'")
    return words


def named_server(text: str) -> tuple[str, tuple[str, ...]]:
    """Language and command in `LANGUAGE=COMMAND`. Raises `UsageError`."""
    name, equals, command = text.partition("=")
    language = by_name(name)
    if not equals or language is None:
        raise UsageError(
            f"--language-server {text[:100]!r} names no language", "write it as in 'java=jdtls -data /tmp/jdtls'"
        )
    return language.name, command_words("--language-server", command)


# --- the folders that a client has opened for its servers (MCP roots)

ROOTS_KEY = "roots"
"""What our one question is called where a client answers it by repeating its call."""
ROOTS_METHOD = "roots/list"
_MAX_ROOTS = 1_000

ClientRoots = Callable[[], list[str] | None]
"""Asks a client for its folders; None if it has no roots. Raises `RootsNeededError`."""


class RootsNeededError(Exception):
    """The client has to repeat its call with its roots: in its protocol a server sends no requests."""


class _Root(msgspec.Struct):
    uri: str


class _Roots(msgspec.Struct):
    roots: list[_Root]


def no_roots() -> list[str] | None:
    return None


def folders_of(answer: Any) -> list[str]:
    """The folders in a client's answer, as real paths; none if it is malformed."""
    try:
        listed = msgspec.convert(answer, _Roots).roots[:_MAX_ROOTS]
    except msgspec.ValidationError:
        return []
    parts = [urlsplit(root.uri) for root in listed]
    paths = [unquote(part.path, errors="surrogateescape") for part in parts if part.scheme == "file"]
    return [os.path.realpath(path) for path in paths if os.path.isabs(path) and "\0" not in path]


def check_folder(home: str, path: str, roots: ClientRoots) -> str:
    """A folder that a call names, relative to the server's folder `home`. Raises `RefusedError`, `RootsNeededError`."""
    full = os.path.realpath(os.path.join(home, native(path)))
    if "\0" in path or _is_inside(full, top_of(home) or home):
        return path
    opened = roots()
    if opened is None or any(_is_inside(full, root) for root in opened):
        return path
    raise RefusedError(
        f"{path} is outside of the folders that the client has opened",
        "open the folder in the client, or start a server there",
    )


def _is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
