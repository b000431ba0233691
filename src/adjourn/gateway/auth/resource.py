"""What clients learn of the issuer whose tokens the gateway takes: protected-resource metadata (RFC 9728), and challenges.

Owns: these texts. Must never: depend on what a request says, beside its path.
"""

from __future__ import annotations

import msgspec

from adjourn.gateway.auth.settings import OAuthSettings

WELL_KNOWN = "/.well-known/oauth-protected-resource"
MAX_PATH = 200


class Resource:
    """The gateway as a protected resource."""

    def __init__(self, settings: OAuthSettings) -> None:
        self._settings = settings
        self._base = settings.resource.rstrip("/")

    def metadata(self, path: str) -> bytes | None:
        """The answer at an address; None for one that has no metadata."""
        if not (path == WELL_KNOWN or path.startswith(f"{WELL_KNOWN}/")) or len(path) > MAX_PATH:
            return None
        about = {
            "resource": self._base + path.removeprefix(WELL_KNOWN).rstrip("/"),
            "authorization_servers": [self._settings.issuer],
            "bearer_methods_supported": ["header"],
            "resource_name": "adjourn gateway",
        }
        if self._settings.scopes:
            about["scopes_supported"] = list(self._settings.scopes)
        return msgspec.json.encode(about)

    def audiences(self, path: str) -> frozenset[str]:
        """Whom a token must be for that is shown at a path."""
        base, path = self._base, path.rstrip("/")
        return frozenset((base, f"{base}/", f"{base}{path}", *self._settings.audience))

    def challenge(self, path: str, error: str = "", why: str = "") -> str:
        """The value of WWW-Authenticate. `error` is a code of RFC 6750, `why` a text without quotes."""
        shown = path.rstrip("/") if len(path) <= MAX_PATH - len(WELL_KNOWN) and _is_plain(path) else ""
        members = [("resource_metadata", f"{self._base}{WELL_KNOWN}{shown}")]
        if self._settings.scopes:
            members.append(("scope", " ".join(self._settings.scopes)))
        if error:
            members += [("error", error), ("error_description", why)]
        return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in members)


def _is_plain(path: str) -> bool:
    return path.isascii() and path.isprintable() and not set(path) & set('"\\ ')
