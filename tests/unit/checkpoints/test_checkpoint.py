"""Checkpoints: durable, signed, found again by name, and never taken for what they are not."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from adjourn.checkpoints import checkpoint, folder_verification, folder_writing
from adjourn.checkpoints.checkpoint import (
    Checkpoint,
    check_signature,
    create,
    document,
    find,
    names,
    trusted_signer,
)
from adjourn.clients.client import Desk, Setting
from adjourn.errors import AdjournError, HeldError, IntegrityError, InvalidError, NotFoundError
from adjourn.handover import resume
from adjourn.host import keys
from adjourn.host.workspace_store import open_at
from adjourn.log import kinds
from adjourn.log.canonical import canonical, digest
from adjourn.log.chain import verify_chain
from adjourn.log.event import Actor, Event, decode
from adjourn.log.merkle import root
from adjourn.log.signing import public_key
from adjourn.policy.contract import read_contract
from adjourn.store.base import Entry, Store
from adjourn.store.memory import MemoryStore
from adjourn.tasks.decision import Call
from adjourn.tasks.session import Session
from adjourn.tasks.task import Task
from strategies import Clock

POLICY = ("use file.read", "use file.write", "use tests.run", "deny network.*", "budget calls=20")
ANN = Actor("ann", "human")
READERS = frozenset(("file.read",))


class Machine:
    """A workspace with a policy and a store, keys of its own, and a clock that is moved by hand."""

    def __init__(self, path: Path, patch: pytest.MonkeyPatch, *, store: str = "memory") -> None:
        self.root = path / "work"
        self.config = path / "config"
        (self.root / ".aex").mkdir(parents=True)
        self.patch = patch
        patch.setattr(os, "fsync", lambda handle: None)  # nobody pulls the plug here, and disks are slow
        self.clock = Clock()
        self.write_policy(*POLICY)
        self.store: Store = MemoryStore() if store == "memory" else open_at(str(self.root))
        self.use()

    def use(self) -> None:
        """From now on everything runs with this machine's keys."""
        self.patch.setenv("ADJOURN_CONFIG", str(self.config))

    def write_policy(self, *lines: str) -> None:
        text = "\n".join(["policy work v0", 'goal "do it"', *lines, ""])
        (self.root / ".aex" / "policy.aex").write_text(text)

    def desk(
        self,
        group: str = "g1",
        *,
        contract: str = "",
        task: str = "",
        take_over: bool = False,
        on_event: Callable[[str, str], None] = lambda _event, _text: None,
    ) -> Desk:
        """A client's desk in this workspace. Desks of one group are proxies of one client."""
        read = read_contract(str(self.root), contract=contract)
        setting = Setting(root=str(self.root), contract=read, task=task, take_over=take_over)
        desk = Desk(setting, self.clock, on_event)
        desk.client, desk.group, desk._store = "tester", group, self.store
        return desk

    def task(self, task: str) -> Task:
        return Task(self.store, task, clock=self.clock, secret=keys.secret())

    def work(self, desk: Desk, *tools: str) -> Session:
        """Calls of tools, each a second after the one before, and answered when it was forwarded."""
        for tool in tools:
            self.clock.move(seconds=1)
            call = Call(
                tool=tool, digest="1" * 64, effectful=tool not in READERS, arguments=f'{{"of":"{tool}"}}'
            )
            session, (admitted,) = desk.admit([call])
            if admitted.call:
                session.settle([kinds.ToolSettled(call=admitted.call, outcome="ok")])
        return desk.session()

    def save(self, desk: Desk, name: str = "fix-auth", description: str = "found it") -> Checkpoint:
        """What `aex.checkpoint` does."""
        self.clock.move(seconds=1)
        session = desk.session()
        made = create(session.task, name, description=description, sitting=session)
        folder_writing.write(self.store, made, str(self.root))
        return made

    def resume(self, desk: Desk, name: str = "fix-auth", more: str = "") -> dict[str, Any]:
        """What `aex.resume` answers."""
        resumed = resume.resume(desk, name)
        ledger = resumed.session.task.refresh()
        budget = resumed.session.policy.budget
        return resume.answer(self.store, ledger, resumed.checkpoint, budget=budget, more=more)

    def leave(self, desk: Desk) -> None:
        """The client goes; the store stays open."""
        for session in desk.sessions:
            session.close("eof")

    def folder(self, name: str = "fix-auth") -> Path:
        return self.root / ".aex" / "checkpoints" / name

    def entries(self, task: str) -> list[Entry]:
        return list(self.store.read(task))

    def events(self, task: str) -> list[Event]:
        return [decode(entry.data) for entry in self.entries(task)]

    def facts(self, task: str, kind: type[kinds.Data]) -> list[Any]:
        return [kinds.data_of(event) for event in self.events(task) if event.event == kind.KIND]

    def everything(self) -> tuple[dict[str, list[Entry]], dict[str, str]]:
        """All that the store holds, but the blobs, which nobody finds without a name."""
        return {task: self.entries(task) for task in self.store.streams()}, self.store.refs()


@pytest.fixture(params=["memory", "sqlite"])
def machine(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Machine]:
    machine = Machine(tmp_path, monkeypatch, store=request.param)
    yield machine
    machine.store.close()


# --- making


def test_a_checkpoint_is_an_event(machine: Machine) -> None:
    """It names what it covers: the root of the events before it, the document, the key, the session that asked."""
    desk = machine.desk()
    session = machine.work(desk, "file.read", "network.fetch")
    before = machine.entries(session.task.id)
    made = machine.save(desk)
    event, data = made.event, made.data
    assert machine.events(session.task.id)[-1] == event
    assert (event.event, event.session, event.by) == (
        "checkpoint.created",
        session.id,
        Actor("tester", "agent"),
    )
    assert (data.name, data.description, data.trigger, data.previous) == ("fix-auth", "found it", "agent", "")
    assert data.root == root([bytes.fromhex(entry.hash) for entry in before]).hex()
    assert find(machine.store, "fix-auth") == made
    assert names(machine.store) == {"fix-auth": made}


def test_a_checkpoint_names_a_document(machine: Machine) -> None:
    """The document says how the task stood, and is kept under its digest."""
    desk = machine.desk()
    session = machine.work(desk, "file.read", "file.write", "network.fetch", "file.read")
    desk.admit([Call(tool="tests.run", digest="2" * 64)])
    machine.leave(desk)
    made = create(session.task, "late")
    assert document(machine.store, made) == {
        "format": "adjourn/checkpoint/1",
        "task": session.task.id,
        "name": "late",
        "description": "",
        "goal": "do it",
        "contract": "",
        "policy": digest((machine.root / ".aex" / "policy.aex").read_bytes()),
        "callsUsed": 4,
        "callsRefused": 1,
        "budget": 20,
        "tools": {"file.read": 2, "file.write": 1, "tests.run": 1},
        "inDoubt": [
            {
                "call": f"{session.id}.4",
                "tool": "tests.run",
                "digest": "2" * 64,
                "effectful": True,
                "session": session.id,
                "since": "2026-05-02T15:30:16.345Z",
            }
        ],
    }
    stored = machine.store.get_blob(made.data.document)
    assert stored == canonical(document(machine.store, made))


def test_a_task_without_a_limit_has_no_budget(machine: Machine) -> None:
    """Nothing is said of a budget that there is not."""
    machine.write_policy("use file.read")
    desk = machine.desk()
    machine.work(desk, "file.read")
    made = machine.save(desk)
    assert "budget" not in document(machine.store, made)
    assert "budget" not in machine.folder().joinpath("checkpoint.json").read_text().partition('"adjourn"')[0]


def test_settlements_that_wait_come_before_the_checkpoint(machine: Machine) -> None:
    """What was answered before is not shown as in flight."""
    desk = machine.desk()
    session, (admitted,) = desk.admit([Call(tool="file.read", digest="1" * 64, effectful=False)])
    session.settle([kinds.ToolSettled(call=admitted.call, outcome="ok")], later=True)
    machine.save(desk)
    assert [event.event for event in machine.events(session.task.id)[-2:]] == [
        "tool.settled",
        "checkpoint.created",
    ]


def test_a_name_that_is_used_again_keeps_the_earlier_version(machine: Machine) -> None:
    """The newest counts; it names the one before, which stays in the chain, even if that is of another task."""
    desk = machine.desk()
    machine.work(desk, "file.read")
    first, second = machine.save(desk), machine.save(desk, description="more")
    machine.leave(desk)
    other = machine.desk("g2")
    third = machine.save(other)
    assert [item.data.previous for item in (first, second, third)] == ["", first.hash, second.hash]
    assert find(machine.store, "fix-auth") == third
    assert machine.facts(first.event.task, kinds.CheckpointCreated) == [first.data, second.data]
    assert folder_verification.verify(str(machine.folder())).checkpoint == third


@pytest.mark.parametrize(
    ("name", "description", "reason"),
    [
        ("../x", "", "not a checkpoint name"),
        ("", "", "not a checkpoint name"),
        ("a", "x" * 10_001, "the description has 10001 characters"),
        ("a", "\ud800", "cannot be"),
    ],
)
def test_what_cannot_be_kept_is_refused(machine: Machine, name: str, description: str, reason: str) -> None:
    """Bad names and descriptions are refused before anything is written."""
    desk = machine.desk()
    machine.work(desk, "file.read")
    before = machine.everything()
    with pytest.raises(InvalidError, match=reason):
        create(desk.session().task, name, description=description)
    assert machine.everything() == before


@pytest.mark.parametrize("letter", ["x", "\x01", '"', "\N{GRINNING FACE}"])
def test_the_longest_description_fits(machine: Machine, letter: str) -> None:
    """10,000 characters fit into an event, however they are spelled, and come back."""
    desk = machine.desk()
    machine.work(desk, "file.read")
    machine.save(desk, description=letter * 10_000)
    assert folder_verification.verify(str(machine.folder())).file.description == letter * 10_000


def test_a_task_without_history_has_no_checkpoint(machine: Machine) -> None:
    """There is nothing to go on from."""
    with pytest.raises(NotFoundError, match="task t9 has no history yet"):
        create(machine.task("t9"), "early")
    assert machine.everything() == ({}, {})


def test_only_who_holds_the_task_makes_its_checkpoints(machine: Machine) -> None:
    """A client that was fenced off is refused, and the name does not move."""
    desk = machine.desk()
    session = machine.work(desk, "file.read")
    machine.desk("g2", task=session.task.id, take_over=True).session()
    with pytest.raises(HeldError, match="was taken over"):
        create(session.task, "mine", sitting=session)
    assert machine.store.refs("checkpoint/") == {}


def test_two_who_save_at_once(machine: Machine) -> None:
    """Sister processes that use one name at one moment make two versions in one unbroken chain."""
    desks = [machine.desk(), machine.desk()]
    sessions = [machine.work(desk, "file.read") for desk in desks]
    task = sessions[0].task.id
    start = threading.Barrier(2)

    def save(session: Session) -> None:
        start.wait()
        for _ in range(5):
            create(session.task, "both", sitting=session)

    threads = [threading.Thread(target=save, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made = machine.facts(task, kinds.CheckpointCreated)
    hashes = [entry.hash for entry in machine.entries(task) if b'"checkpoint.created"' in entry.data]
    assert verify_chain(machine.entries(task)).valid
    assert [data.previous for data in made] == ["", *hashes[:-1]]
    assert find(machine.store, "both").hash == hashes[-1]


def test_the_ledger_is_kept_with_a_checkpoint(machine: Machine) -> None:
    """The next loading of the task begins at the checkpoint."""
    desk = machine.desk()
    session = machine.work(desk, "file.read", "file.write")
    machine.save(desk)
    assert machine.store.ref(f"fold/{session.task.id}")
    assert machine.task(session.task.id).ledger == session.task.ledger


# --- finding


def saved(machine: Machine) -> Checkpoint:
    desk = machine.desk()
    machine.work(desk, "file.read")
    machine.save(desk, "other")
    return machine.save(desk)


def test_a_name_that_nothing_has(machine: Machine) -> None:
    """It says where to look."""
    with pytest.raises(NotFoundError, match=r'no checkpoint is named "lost" .*adjourn checkpoints'):
        find(machine.store, "lost")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("{task} 99 {hash}", "is not in the chain of task"),
        ("{task} 0 {hash}", "is not in the chain"),
        ("{task} x {hash}", "is not in the chain"),
        ("{task} -1 {hash}", "is not in the chain"),
        ("nowhere 0 {hash}", "is not in the chain"),
        ("{task} {seq} {zeros}", "is not in the chain"),
        ("{task} 0 {first}", "event 0 of task .* is no checkpoint"),
        ("{task} {before} {other}", 'the name "fix-auth" points at checkpoint "other"'),
    ],
)
def test_a_name_that_points_astray_is_refused(machine: Machine, value: str, reason: str) -> None:
    """A name in the store is believed only as far as the chain bears it out."""
    made = saved(machine)
    task = made.event.task
    other = find(machine.store, "other")
    place = {
        "task": task,
        "seq": made.event.seq,
        "hash": made.hash,
        "zeros": "0" * 64,
        "first": machine.entries(task)[0].hash,
        "before": other.event.seq,
        "other": other.hash,
    }
    ref = "checkpoint/fix-auth"
    machine.store.swap(ref, value.format(**place), expect=machine.store.ref(ref))
    with pytest.raises(InvalidError, match=reason):
        find(machine.store, "fix-auth")


# --- signatures and documents


def test_a_signature_holds_for_one_key_and_one_statement(machine: Machine) -> None:
    """Another key did not sign it, and nothing of what was signed can be another."""
    made = saved(machine)
    own = keys.own_public_key()
    check_signature(made, own)
    with pytest.raises(IntegrityError, match="was not signed by ed25519:"):
        check_signature(made, public_key(b"x" * 32))
    replace = [
        made._replace(event=_with(made.event, after="f" * 64)),
        made._replace(event=_with(made.event, seq=7)),
        made._replace(event=_with(made.event, task="another")),
        made._replace(event=_with(made.event, timestamp="2027-01-01T00:00:00.000Z")),
        made._replace(data=_with(made.data, document="f" * 64)),
        made._replace(data=_with(made.data, name="another")),
        made._replace(data=_with(made.data, root="f" * 64)),
        made._replace(data=_with(made.data, signature="A" * 86 + "==")),
        made._replace(data=_with(made.data, signature="not base64")),
    ]
    for changed in replace:
        with pytest.raises(IntegrityError, match="is not what ed25519:"):
            check_signature(changed, own)


def _with(value: Any, **changes: object) -> Any:
    from msgspec.structs import replace  # noqa: PLC0415  # beside its only use

    return replace(value, **changes)


def test_who_is_trusted(machine: Machine, tmp_path: Path) -> None:
    """One's own key is; another's is under its name once it was trusted; and no longer when it is not any more."""
    made = saved(machine)
    own = keys.own_public_key()
    assert trusted_signer(made) == "default"
    elsewhere = Machine(tmp_path / "elsewhere", machine.patch)
    assert trusted_signer(made) == ""
    keys.trust("ann", own)
    assert trusted_signer(made) == "ann"
    keys.distrust("ann")
    assert trusted_signer(made) == ""
    elsewhere.store.close()


def test_a_trusted_name_does_not_make_a_signature_hold(machine: Machine) -> None:
    """A checkpoint that only claims a trusted key is refused, not called untrusted."""
    made = saved(machine)
    with pytest.raises(IntegrityError):
        trusted_signer(made._replace(data=_with(made.data, root="f" * 64)))


def test_a_document_that_is_gone_is_missed(machine: Machine) -> None:
    """Without its document a checkpoint cannot be resumed."""
    made = saved(machine)
    machine.store.forget(made.data.document)
    with pytest.raises(IntegrityError, match='the document of checkpoint "fix-auth" is not in the store'):
        document(machine.store, made)


def test_a_document_that_changed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store in which somebody edited a document says so."""
    machine = Machine(tmp_path, monkeypatch)
    made = saved(machine)
    assert isinstance(machine.store, MemoryStore)
    machine.store._blobs[made.data.document] = b'{"callsUsed":0}'
    with pytest.raises(AdjournError, match="have changed"):
        document(machine.store, made)


def test_what_is_no_checkpoint_is_not_read_as_one(machine: Machine) -> None:
    """Any other event is refused."""
    made = saved(machine)
    with pytest.raises(InvalidError, match="is no checkpoint"):
        checkpoint.as_checkpoint(machine.entries(made.event.task)[1])
