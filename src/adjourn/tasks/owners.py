"""Who stands behind the events of a task: the principal that a session's opening names, for each event of the session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

import msgspec

from adjourn.errors import InvalidError
from adjourn.log import kinds
from adjourn.log.event import Event, decode, milliseconds
from adjourn.policy.principal import GROUP, Principal, Space, key_of_task, space_of
from adjourn.store.base import Entry, Head, Store
from adjourn.tasks.heads import verified_entries_from
from adjourn.tasks.task import tasks_of

_OPENED = b'"event":"%b"' % kinds.SessionOpened.KIND.encode()
_FIRST = 16
"""Events at the start of a task among which its first session is looked for."""
_DAY = 86_400_000


class Owner(NamedTuple):
    """A principal as the history has it: its id, and how it is shown. Both are empty where nobody is known."""

    id: str = ""
    shown: str = ""

    def is_called(self, person: str) -> bool:
        """Whether this id or name means it. What somebody calls itself (the label in `LABEL (NAME)`) does not count."""
        return person in self or self.shown.endswith(f" ({person})")


class OwnedEvent(NamedTuple):
    """An event, as it is stored and decoded, and who stands behind its session."""

    entry: Entry
    event: Event
    owner: Owner


class Period(NamedTuple):
    """A time from `since` on and before `until`, in milliseconds; None: without end."""

    since: int | None = None
    until: int | None = None

    def holds(self, event: Event) -> bool:
        """Whether an event happened in it."""
        at = milliseconds(event.timestamp)
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)


def owned_events(store: Store, task: str, head: Head, period: Period) -> Iterator[OwnedEvent]:
    """The events of a task up to `head` that are in a period. The whole history is verified before the first one is returned.

    Raises `IntegrityError`, and `InvalidError` for what is no event.
    """
    if period.since is not None and _ended_before(store, task, head, period.since):
        return
    owners: dict[str, Owner] = {}
    for entry in verified_entries_from(store, task, 0, head):
        if _OPENED in entry.data and (owner := _opened(event := decode(entry.data))) is not None:
            owners[event.session] = owner
    for entry in store.read(task, 0, head.seq + 1):
        event = decode(entry.data)
        if period.holds(event):
            yield OwnedEvent(entry, event, owners.get(event.session, Owner()))


def _ended_before(store: Store, task: str, head: Head, since: int) -> bool:
    """Whether the last event of a task is a day before `since`: clocks of machines differ by less."""
    last = next(iter(store.read(task, head.seq, head.seq + 1)), None)
    return last is not None and milliseconds(decode(last.data).timestamp) < since - _DAY


def _opened(event: Event) -> Owner | None:
    data = kinds.data_of(event) if event.event == kinds.SessionOpened.KIND else None
    return Owner(data.principal, data.principal_name) if isinstance(data, kinds.SessionOpened) else None


def owner_of(store: Store, task: str) -> Owner:
    """Who opened the first session of a task. Nobody, if that is not among its first events, or one of them cannot be read."""
    try:
        for entry in islice(store.read(task, 0, _FIRST), _FIRST):
            if _OPENED in entry.data and (owner := _opened(decode(entry.data))) is not None:
                return owner
    except InvalidError:
        pass
    return Owner()


def tasks_of_person(store: Store, person: str) -> list[str]:
    """The tasks of a person or service, by id or name; of `group:NAME`, those in the space that its members share.

    A space is its owner's alone or a group's. So one task of each person is read, and of groups each.
    """
    if person.startswith(GROUP):
        name = person.removeprefix(GROUP)
        space = space_of(Principal(id="", name="", type="human", groups=(name,)), (name,))
        return [task for task in tasks_of(store) if key_of_task(task) == space.home]
    own: dict[str, bool] = {}
    found = []
    for task in tasks_of(store):
        key = key_of_task(task)
        if key not in own:
            owner = owner_of(store, task)
            is_theirs = owner.is_called(person)
            if key and owner.id and _own_space(owner.id).own == key:
                own[key] = is_theirs
        else:
            is_theirs = own[key]
        found += [task] * is_theirs
    return found


def _own_space(principal: str) -> Space:
    return space_of(Principal(id=principal, name="", type="human"))


# --- what people have spent


class SpentCalls(msgspec.Struct, rename="camel"):
    """What somebody has spent: calls that count for budgets, those of them with an effect, refused ones, and usage of models."""

    principal: str
    principal_name: str
    calls: int = 0
    effects: int = 0
    refused: int = 0
    tasks: int = 0
    tokens: int = 0
    micro_usd: int = 0
    latest: str = ""

    def add(self, fact: kinds.Data | None) -> None:
        """Count a fact."""
        if isinstance(fact, kinds.ToolAllowed) and not fact.uncounted:
            self.calls += 1
            self.effects += fact.effectful
        elif isinstance(fact, kinds.ToolDenied | kinds.BudgetExhausted):
            self.refused += 1
        elif isinstance(fact, kinds.UsageReported):
            self.tokens += fact.tokens
            self.micro_usd += fact.micro_usd


def spent_by_person(
    store: Store, tasks: Mapping[str, Head], period: Period, progress: Callable[[int, int], None]
) -> list[SpentCalls]:
    """What each person has spent in these tasks, the most calls first. Raises as `owned_events`."""
    by_id: dict[str, SpentCalls] = {}
    for number, (task, head) in enumerate(tasks.items(), 1):
        counted: set[str] = set()
        for _, event, owner in owned_events(store, task, head, period):
            for fact in kinds.facts_of(event):
                data = kinds.data_of(fact)
                if not isinstance(data, _SPENDING):
                    continue
                spent = by_id.setdefault(owner.id, SpentCalls(principal=owner.id, principal_name=owner.shown))
                spent.tasks += owner.id not in counted
                counted.add(owner.id)
                if event.timestamp >= spent.latest:
                    spent.latest, spent.principal_name = event.timestamp, owner.shown
                spent.add(data)
        progress(number, len(tasks))
    return sorted(by_id.values(), key=lambda one: (-one.calls, one.principal))


_SPENDING = (kinds.ToolAllowed, kinds.ToolDenied, kinds.BudgetExhausted, kinds.UsageReported)
