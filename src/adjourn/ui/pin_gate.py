"""The PIN on the page: what speaks for a person asks for it, and this page's session may act on it for some minutes.

Owns: which forms ask, what the session remembers. Must never: show or pass on a PIN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock
from typing import NamedTuple

from adjourn.clients import person
from adjourn.errors import RefusedError
from adjourn.host import pin
from adjourn.store import Store

FIELD = "pin"
"""The name of the field in a form. No action gets it."""
_WORDS = {"not-done": "it did not", "done": "it happened"}


class PinQuestion(NamedTuple):
    """What a person is shown who has to give the PIN: where the form goes, its fields, and what was wrong."""

    path: str
    fields: Mapping[str, str]
    what: str
    problem: str


class PinGate:
    """The gate of one session of a browser: an application has one session."""

    def __init__(self, find_store: Callable[[], Store | None]) -> None:
        self._find_store = find_store
        self._memory = pin.PinMemory()
        self._trying = Lock()

    def check(self, path: str, form: Mapping[str, str]) -> tuple[PinQuestion | None, str]:
        """The question that comes before a form's action, if one does, and what to tell the person who answered it.

        Raises `RefusedError` where a PIN was set and is gone.
        """
        store = self._find_store()
        state = person.needed_pin(store)
        if state is None or self._memory.covers(state):
            return None, ""
        try:
            with self._trying:  # each try takes much memory
                if not form.get(FIELD):
                    person.account_pin().check_wait()
                    return _question(path, form, ""), ""
                before = person.give_pin(
                    form[FIELD], self._memory, store, action=path, task=form.get("task", ""), via="page"
                )
        except RefusedError as error:
            return _question(path, form, f"{error.message}; {error.remedy}"), ""
        return None, person.warning_of(before)


def _question(path: str, form: Mapping[str, str], problem: str) -> PinQuestion:
    fields = {name: value for name, value in form.items() if name != FIELD}
    what = form.get("action", "")
    return PinQuestion(path, fields, _WORDS.get(what, what), problem[:1].upper() + problem[1:])
