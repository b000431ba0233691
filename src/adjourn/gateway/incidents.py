"""Errors as a gateway's clients are shown them: without addresses, users and files, but with an id that the log has."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from time import monotonic
from typing import Any, cast

from adjourn.errors import ConflictError, StoreError
from adjourn.gateway.http_pool import UnreachableError
from adjourn.host import clock, folders
from adjourn.relay.ports import StderrLog
from adjourn.store.base import Store

SAME_SECONDS = 1.0
"""How long a text has the same id, so that a store that is away does not fill the log."""
_REMEDY = "retry later; the operator finds the reason in the gateway's log by the id"


class Incidents:
    """Of one gateway that works in the folder `root`. `places` are folders and files of its own, elsewhere."""

    def __init__(self, report: StderrLog, root: str, places: Sequence[str]) -> None:
        self._report = report
        self._root = f"{root.rstrip('/')}/"
        elsewhere = {place.rstrip("/") for place in places if not f"{place}/".startswith(self._root)}
        named = "|".join(sorted(map(re.escape, filter(None, elsewhere)), reverse=True))
        self._places = re.compile(rf"(?:{named})[^\s'\",;:()]*") if named else None
        self._last = ("", 0.0, "")

    def id_of(self, text: str) -> str:
        """The id under which a text is in the log."""
        last, since, number = self._last
        if text != last or monotonic() - since > SAME_SECONDS:
            number = clock.short(8)
            self._last = (text, monotonic(), number)
            self._report.event("client.error", f"error {number}: {text}")
        return number

    def describe(self, error: UnreachableError) -> str:
        """Why a server cannot be reached, for a client."""
        if error.public == error.message:
            return error.message
        return f"{error.public} (error {self.id_of(error.message)})"

    def words(self, text: str) -> str:
        """A text for a client: files of the workspace are named from there, others of the gateway not at all."""
        if self._places is not None and self._places.search(text):
            text = f"{self._places.sub('a file of the gateway', text)} (error {self.id_of(text)})"
        return text.replace(self._root, "") if self._root in text else text

    def store(self, store: Store) -> Store:
        """The same store, with failures that do not reveal its location."""

        def wrap(_name: str, method: Callable[..., Any]) -> Callable[..., Any]:
            def discreet(*args: Any, **options: Any) -> Any:
                try:
                    outcome = method(*args, **options)
                except StoreError as error:
                    raise self._discreet(error) from error
                if isinstance(outcome, Iterator):
                    return self._read(outcome)
                if isinstance(outcome, list):  # of appends that were made together: some may have failed
                    return [self._discreet(result) if isinstance(result, StoreError) else result for result in outcome]
                return outcome

            return discreet

        return wrapped_store(store, wrap)

    def _read(self, entries: Iterator[Any]) -> Iterator[Any]:
        try:
            yield from entries
        except StoreError as error:
            raise self._discreet(error) from error

    def _discreet(self, error: StoreError) -> StoreError:
        if isinstance(error, ConflictError):
            return error
        discreet = type(error)(f"the store of the gateway failed (error {self.id_of(str(error))})", _REMEDY)
        discreet.__cause__ = error
        return discreet


def places_of_gateway(url: str, files: Sequence[str]) -> list[str]:
    """The places that no client needs to know of: the file of the store, the settings, and the folders of the keys."""
    path = url.removeprefix("sqlite:")
    store = [os.path.abspath(path)] if path and ":" not in path else []
    own = (folders.config(), folders.account())
    return [place for place in (*store, *files, *own) if len(place) > 1]


# --- a store in front of another


class _WrappedStore:
    """Passes everything on. Each method is wrapped when it is first used."""

    def __init__(self, store: Store, wrap: Callable[[str, Callable[..., Any]], Callable[..., Any]]) -> None:
        self._store = store
        self._wrap = wrap

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._store, name)
        if not callable(attribute) or name.startswith("_"):
            return attribute
        wrapped = wraps(attribute)(self._wrap(name, attribute))
        setattr(self, name, wrapped)
        return wrapped


def wrapped_store(store: Store, wrap: Callable[[str, Callable[..., Any]], Callable[..., Any]]) -> Store:
    """The same store. `wrap` gets the name of a method and the method, and returns what is called in its place."""
    return cast("Store", _WrappedStore(store, wrap))
