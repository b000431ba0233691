"""What clients are shown of errors: no address, user or file of the gateway or its store, but an id that the log has."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from adjourn.errors import ConflictError, SchemaError, StoreError
from adjourn.gateway.http_pool import UnreachableError
from adjourn.gateway.incidents import Incidents, places_of_gateway
from adjourn.relay.ports import StderrLog
from adjourn.store import EMPTY, Append, MemoryStore

WHOLE = 'connection to server at "10.9.8.7", port 5432 failed: FATAL: password authentication failed for user "adj"'


class Log(StderrLog):
    """Keeps the lines."""

    def __init__(self) -> None:
        super().__init__(as_json=False)
        self.lines: list[str] = []

    def event(self, event: str, text: str = "", **data: Any) -> None:
        assert not data
        self.lines.append(f"{event} {text}")


class BrokenStore(MemoryStore):
    """Fails in every way that it can, with the same error."""

    def __init__(self, error: StoreError) -> None:
        super().__init__()
        self.error = error

    def ref(self, name: str) -> str | None:
        raise self.error

    def read(self, stream: str, start: int = 0, stop: int | None = None) -> Iterator[Any]:
        yield from ()
        raise self.error

    def append(self, *_given: Any, **_named: Any) -> Any:
        raise self.error

    def append_many(self, appends: Any, **_named: Any) -> Any:
        return [self.error for _ in appends]


def failures(error: StoreError, incidents: Incidents) -> list[StoreError]:
    """The error by each way that a store has."""
    store = incidents.store(BrokenStore(error))
    found = []
    for way in (lambda: store.ref("a"), lambda: list(store.read("a")), lambda: store.append("a", (), expect=EMPTY)):
        with pytest.raises(StoreError) as caught:
            way()
        found.append(caught.value)
    (outcome,) = store.append_many([Append("a", (), EMPTY)])
    assert isinstance(outcome, StoreError)
    return [*found, outcome]


@pytest.mark.parametrize("kind", [StoreError, SchemaError])
def test_a_store_that_fails_does_not_say_where_it_is(kind: type[StoreError]) -> None:
    """By whatever way; the error is of the same kind, and the log has the whole text once under the id that is shown."""
    log = Log()
    told = failures(kind(WHOLE, "start it: pg_ctl"), Incidents(log, "/srv/work", []))
    assert {type(error) for error in told} == {kind}
    assert {str(error) for error in told} == {str(told[0])}
    assert not [word for word in ("10.9.8.7", "5432", "adj", "pg_ctl") if word in str(told[0])]
    (line,) = log.lines
    number = told[0].message.partition("(error ")[2].strip(")")
    assert len(number) == 8
    assert line.startswith(f"client.error error {number}: {WHOLE}")


def test_a_conflict_is_passed_on_as_it_is() -> None:
    """What somebody else wrote first is no failure of the store."""
    log, error = Log(), ConflictError("the head moved", "read it again")
    assert all(one is error for one in failures(error, Incidents(log, "/srv/work", [])))
    assert log.lines == []


def test_a_store_that_works_is_the_same() -> None:
    """Answers and attributes come through."""
    below = MemoryStore()
    store = Incidents(Log(), "/srv/work", []).store(below)
    store.swap("a", "b", expect=None)
    assert store.ref("a") == below.ref("a") == "b"
    assert list(store.read("none")) == []


def test_a_server_that_cannot_be_reached_is_told_without_its_address() -> None:
    """An error without one is shown as it is."""
    log = Log()
    incidents = Incidents(log, "/srv/work", [])
    hidden = UnreachableError("cannot connect to 10.1.1.1:99: refused", was_sent=False, public="it cannot be reached")
    said = incidents.describe(hidden)
    assert said.startswith("it cannot be reached (error ")
    assert f"error {said[-9:-1]}: cannot connect to 10.1.1.1:99" in log.lines[0]
    assert incidents.describe(UnreachableError("it has ended", was_sent=True)) == "it has ended"
    assert len(log.lines) == 1


def test_files_of_the_gateway_are_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the workspace are named from there, those of the store, the settings and the keys not at all."""
    monkeypatch.setenv("ADJOURN_CONFIG", "/home/gw/keys")
    log = Log()
    incidents = Incidents(log, "/srv/work", places_of_gateway("sqlite:/var/lib/h.db", ["/etc/gw/other.toml"]))
    assert incidents.words("/srv/work/tasks/a.aex is broken; see /srv/work/b") == "tasks/a.aex is broken; see b"
    assert incidents.words("no rule names /data/x") == "no rule names /data/x"
    assert log.lines == []
    for path in ("/var/lib/h.db", "/var/lib/h.db-wal", "/etc/gw/other.toml", "/home/gw/keys/keys/a.key"):
        said = incidents.words(f"cannot open '{path}': denied")
        assert said.startswith("cannot open 'a file of the gateway': denied (error ")
        assert path in log.lines[-1]
    assert len(log.lines) == 4
    assert os.path.expanduser("~") not in places_of_gateway("postgresql://h/d", [])
