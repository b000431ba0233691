"""What may be written down of a call's arguments: a short text for people, without secrets.

Owns: `preview`. Must never: be taken for a guarantee. It knows the usual names and shapes of secrets, not all.
"""

from __future__ import annotations

import msgspec

MAX_PREVIEW = 500
"""Characters of arguments kept with an effect, so that a person can tell what it did."""
HIDDEN = "[redacted]"
_MAX_ITEMS = 50
_SECRET_NAMES = (
    "password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "authorization", "cookie",
    "privatekey", "credential", "bearer",
)  # fmt: skip
_SECRET_PREFIXES = (
    "sk-", "sk_live_", "rk_live_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xoxb-", "xoxp-",
    "xapp-", "AKIA", "ASIA", "AIza", "eyJ", "npm_", "pypi-", "Bearer ", "Basic ", "-----BEGIN",
)  # fmt: skip


def preview(arguments: object, limit: int = MAX_PREVIEW) -> str:
    """Compact JSON of arguments, secrets replaced, cut at `limit` characters (an ellipsis marks the cut)."""
    text = msgspec.json.encode(_redact(arguments, 0, limit)).decode()
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _redact(value: object, depth: int, limit: int) -> object:
    if isinstance(value, str):
        if value.startswith(_SECRET_PREFIXES):
            return HIDDEN
        return value if len(value) <= limit else value[:limit]
    if isinstance(value, dict):
        if depth > 8:
            return "…"
        return {
            str(key)[:limit]: HIDDEN if _is_secret(str(key)) else _redact(item, depth + 1, limit)
            for key, item in list(value.items())[:_MAX_ITEMS]
        }
    if isinstance(value, list):
        return "…" if depth > 8 else [_redact(item, depth + 1, limit) for item in value[:_MAX_ITEMS]]
    return value


def _is_secret(name: str) -> bool:
    flat = name.lower().replace("_", "").replace("-", "")
    return any(secret in flat for secret in _SECRET_NAMES)
