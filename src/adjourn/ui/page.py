"""What a page is: a path, a template, a query that reads, and actions that a person's forms call.

Owns: these types, the reading of forms. Must never: know a page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from adjourn.errors import UsageError
from adjourn.ui.site import Site

Form = Mapping[str, str]
"""The fields of a form, or of a page's address."""
MAX_FIELDS = 50
MAX_EDITED = 256 * 1024
"""Bytes of a text that is edited in a form."""


class Notice(NamedTuple):
    """What an action came to, for the person who asked for it. `tone` is `good`, `bad` or `plain`; `fields` are of the page it is shown on.

    `shown` are values of the action's own template, drawn at once: a preview, or what was typed and could not be used. Such an answer has no
    address, so its template has no `#live`. None: the browser goes to the page after the action.
    """

    text: str
    tone: str = "good"
    remedy: str = ""
    fields: Form = MappingProxyType({})
    shown: Mapping[str, Any] | None = None


class WebPage(NamedTuple):
    """A page. `query` gets the fields of the address and returns what the template shows; `actions` are at PATH/NAME.

    After an action without `shown` the browser goes to the page at `after` ("": this one). `is_listed`: in the navigation. Actions that are
    in `reading` change nothing; all others speak for a person.
    """

    path: str
    title: str
    template: str
    query: Callable[[Site, Form], Mapping[str, Any]]
    actions: Mapping[str, Callable[[Site, Form], Notice]] = MappingProxyType({})
    after: str = ""
    is_listed: bool = True
    reading: frozenset[str] = frozenset()


def read_form(text: str) -> Form:
    """The fields of a form or of an address; of several of one name the first. Raises `UsageError` for too many."""
    found: dict[str, str] = {}
    try:
        for name, value in parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS):
            found.setdefault(name, value)
    except ValueError:
        raise UsageError("the form has too many fields", "reload the page") from None
    return found
