"""How much care a request needs, judged by its wording.

Owns: the word lists and the three answers. Must never: ask a model, or permit anything: it is advice.
"""

from __future__ import annotations

import string
from typing import Literal

import msgspec

Mode = Literal["contract_required", "contract_recommended", "exploratory"]

_RISKY = frozenset((
    "deploy", "production", "payment", "send", "email", "admin", "secrets", "migration", "publish", "release",
))  # fmt: skip
_EDITS = frozenset((
    "fix", "update", "modify", "edit", "write", "delete", "create", "add", "remove", "refactor", "change", "rename",
    "move", "install", "upgrade", "patch", "migrate",
))  # fmt: skip
_READS = frozenset((
    "explain", "summarize", "find", "inspect", "understand", "search", "describe", "what", "where", "how", "why",
    "show", "list", "read", "look", "check", "tell", "help",
))  # fmt: skip
_KINDS: tuple[tuple[frozenset[str], Mode, str], ...] = (
    (_RISKY, "contract_required", "its effects are hard to undo, or are seen by others"),
    (_EDITS, "contract_recommended", "it changes something"),
    (_READS, "exploratory", "it only asks to read"),
)


class Classification(msgspec.Struct, frozen=True):
    """`mode` is what to work under, `reason` why, in one sentence."""

    mode: Mode
    reason: str


def classify(request: str) -> Classification:
    """The care that a request asks for. The riskiest kind of word in it decides; with none, a contract is recommended.

    >>> classify("Delete the old backups").mode
    'contract_recommended'
    """
    words = [word.strip(string.punctuation) for word in request.lower().split()]
    for known, mode, why in _KINDS:
        found = next((word for word in words if word in known), None)
        if found:
            return Classification(mode, f'"{found}" says that {why}')
    return Classification("contract_recommended", "no word says what the request does")
