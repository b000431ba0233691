"""What may be written down of a call's arguments, and of what an agent notes: without secrets.

Owns: `preview`, `without_secrets`. Must never: be taken for a guarantee. It knows the usual names and shapes of secrets, not all.
"""

from __future__ import annotations

import re

import msgspec

MAX_PREVIEW = 500
"""Characters of arguments kept with an effect, so that a person can tell what it did."""
HIDDEN = "[redacted]"
_MAX_DEPTH = 8
_LONGEST = 200
"""Characters looked at beyond the cut, so that a secret is not cut into a piece that is no longer known for one."""
_SECRET_NAMES = (
    "password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "authorization", "cookie",
    "privatekey", "credential", "bearer",
)  # fmt: skip
_SHAPES = (
    r"(?:\b(?:sk-|[sr]k_live_|gh[opusr]_|github_pat_|glpat-|xox[bp]-|xapp-|AKIA|ASIA|AIza|eyJ|npm_|pypi-)[\w.~+/=-]{8,}"
    r"|\b(?:Bearer|Basic)\s+[\w.~+/=-]{4,}|-----BEGIN[^\x00]*)"
)
"""Shapes of well-known secrets, wherever they stand in a text."""


def preview(arguments: object, limit: int = MAX_PREVIEW) -> str:
    """Compact JSON of arguments, secrets replaced, cut at `limit` characters (an ellipsis marks the cut).

    Looks at no more of the arguments than fits.
    """
    text = msgspec.json.encode(_redact(arguments, 0, [limit + 1])).decode()
    return text if len(text) <= limit else text[: limit - 1] + "…"


def without_secrets(text: str) -> str:
    """A text with what has the shape of a well-known secret replaced."""
    return re.sub(_SHAPES, HIDDEN, text)


def _redact(value: object, depth: int, room: list[int]) -> object:
    """What is shown of a value. `room[0]` counts down the characters that its JSON has at the least."""
    if isinstance(value, str):
        shown = without_secrets(value[: max(room[0], 0) + _LONGEST])[: max(room[0], 0)]
        room[0] -= len(shown) + 2
        return shown
    room[0] -= 1
    if isinstance(value, dict):
        if depth > _MAX_DEPTH:
            return "…"
        pairs: dict[str, object] = {}
        for key, item in value.items():
            if room[0] <= 0:
                break
            name = str(key)[: room[0]]
            room[0] -= len(name) + 3
            pairs[name] = HIDDEN if _is_secret(str(key)) else _redact(item, depth + 1, room)
        return pairs
    if isinstance(value, list):
        if depth > _MAX_DEPTH:
            return "…"
        items: list[object] = []
        for item in value:
            if room[0] <= 0:
                break
            items.append(_redact(item, depth + 1, room))
        return items
    return value


def _is_secret(name: str) -> bool:
    flat = name.lower().replace("_", "").replace("-", "")
    return any(secret in flat for secret in _SECRET_NAMES)
