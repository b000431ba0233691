"""What is known of a call before it is decided on: whether its tool has an effect or is adjourn's own, and by which digest its arguments go.

Owns: these, for every way that calls come in. Must never: decide.
"""

from __future__ import annotations

import msgspec

from adjourn.aex import fold
from adjourn.errors import InvalidError
from adjourn.log import canonical, digest

READING_VERBS = frozenset(("file.read", "git.status", "git.diff", "network.search", "todo.read"))
"""Tools of the contract vocabulary that have no effect."""
META_TOOLS = (
    "aex.checkpoint", "aex.resume", "aex.finish", "aex.list_tasks", "aex.review_task", "adjourn.note", "adjourn.record",
    "adjourn.ask",
)  # fmt: skip
"""The proxy's own tools, which it answers itself."""


def spellings(name: str) -> tuple[str, str]:
    """How a meta-tool may be called: by its name, and as clients spell it that take no dots."""
    return name, name.replace(".", "_")


encode_sorted = msgspec.json.Encoder(order="sorted").encode
"""The canonical JSON of a value that `text.survey` found to be plain."""
_OWN = {spelling: name for name in META_TOOLS for spelling in spellings(name)}
_FOLDED = frozenset(map(fold, META_TOOLS))


def meta_tool(tool: str) -> str:
    """The dotted name of a meta-tool in either spelling; "" for any other tool."""
    return _OWN.get(tool, "")


def imitates_meta_tool(tool: str) -> bool:
    """Whether a tool of a server has a meta-tool's name, in any letter case and with any separators: people and models mix them up."""
    return fold(tool) in _FOLDED


def arguments_digest(arguments: object) -> str:
    """SHA-256 of the canonical JSON; of a sorted encoding for the few values that RFC 8785 cannot hold.

    Raises `InvalidError` for what is no JSON.
    """
    try:
        return digest(canonical(arguments))
    except InvalidError:
        return digest(encoded(arguments, sort=True))


def encoded(value: object, *, sort: bool = False) -> bytes:
    """A value as JSON. Raises `InvalidError` for one that JSON cannot represent, or that is nested too deeply."""
    try:
        return msgspec.json.encode(value, order="sorted" if sort else None)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidError(
            f"not a JSON value: {error}", "answer with texts, numbers, lists and objects"
        ) from error
