"""Which of several servers a resource is read from: the one that has listed it, or a template that it fits.

Owns: this table of one client's session. Must never: ask a server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

import msgspec

from adjourn.gateway.together.merging import member_of

MAX_URIS, MAX_TEMPLATES, MAX_TEMPLATE = 100_000, 1000, 2000
_EXPRESSION = re.compile(r"\{([+#./;?&]?)[^{}]*\}")

_M = TypeVar("_M")


class ResourceOwners(Generic[_M]):
    """`_M` is what stands for a server."""

    def __init__(self) -> None:
        self._uris: dict[str, _M] = {}
        self._templates: list[tuple[str, re.Pattern[str], _M]] = []

    def listed(self, items: Mapping[_M, Iterable[msgspec.Raw]]) -> dict[str, _M]:
        """Take note of what servers list, in their order. Returns the URIs that an earlier one lists, too."""
        self._uris, again = {}, {}
        for owner, resources in items.items():
            for raw in resources:
                uri = member_of(raw, "uri")
                if uri and len(self._uris) < MAX_URIS and self._uris.setdefault(uri, owner) is not owner:
                    again[uri] = owner
        return again

    def listed_templates(self, items: Mapping[_M, Iterable[msgspec.Raw]]) -> None:
        """Take note of their templates."""
        found = [
            (template, _pattern(template), owner)
            for owner, templates in items.items()
            for raw in templates
            if 0 < len(template := member_of(raw, "uriTemplate")) <= MAX_TEMPLATE
        ]
        self._templates = found[:MAX_TEMPLATES]

    def of(self, uri: str) -> _M | None:
        """The server of a resource, or of a template; None where none has listed it."""
        if (owner := self._uris.get(uri)) is not None:
            return owner
        for template, pattern, owner in self._templates:
            if uri == template or pattern.fullmatch(uri):
                return owner
        return None


def _pattern(template: str) -> re.Pattern[str]:
    """What URIs of a template (RFC 6570) look like: an expression without `+` or `#` has no slash in it."""
    parts, end = [], 0
    for found in _EXPRESSION.finditer(template):
        parts.append(re.escape(template[end : found.start()]))
        parts.append("[^/?#]*" if found[1] in ("", ".", ";") else ".*")
        end = found.end()
    return re.compile("".join(parts) + re.escape(template[end:]), re.DOTALL)
