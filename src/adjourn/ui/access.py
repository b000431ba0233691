"""Who may use the page: the link that opens it once, the session of the browser that did, and the token of its forms.

Owns: these secrets. Must never: write one down, or open a second session.
"""

from __future__ import annotations

import hmac
from secrets import token_urlsafe

_BYTES = 32


class Access:
    """The secrets of one server. They end with its process."""

    def __init__(self) -> None:
        self.link_token = token_urlsafe(_BYTES)
        self.form_token = token_urlsafe(_BYTES)
        self._session = ""

    @property
    def is_open(self) -> bool:
        """Whether a browser has used the link."""
        return bool(self._session)

    def redeem(self, token: str) -> str:
        """The session that the link's token opens, once; "" for any other token, and from the second time on."""
        if self._session or not _same(token, self.link_token):
            return ""
        self._session = token_urlsafe(_BYTES)
        return self._session

    def admits(self, session: str) -> bool:
        """Whether a browser shows the session that was opened."""
        return bool(self._session) and _same(session, self._session)

    def is_form_token(self, token: str) -> bool:
        """Whether a form is one of ours."""
        return _same(token, self.form_token)


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(errors="replace"), other.encode())
