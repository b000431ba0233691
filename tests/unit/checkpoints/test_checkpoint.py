"""Checkpoints: durable, signed, found again by name, and never taken for what they are not."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from adjourn.checkpoints import checkpoint, folder_verification
from adjourn.checkpoints.checkpoint import (
    Known,
    TaskCheckpoint,
    check_signature,
    create,
    document,
    document_of,
    encode_document,
    find,
    trusted_signer,
)
from adjourn.errors import AdjournError, HeldError, IntegrityError, InvalidError, NotFoundError
from adjourn.host import keys
from adjourn.log import kinds
from adjourn.log.canonical_json import canonical, digest
from adjourn.log.chain import verify_chain
from adjourn.log.event import Actor
from adjourn.log.merkle import root
from adjourn.log.signing import public_key
from adjourn.store.memory import MemoryStore
from adjourn.tasks.decision import ToolRequest
from adjourn.tasks.entries import OpenCall
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.session import Session
from adjourn.tasks.task import NewEvent, Task
from adjourn.verification.verify import verify_task
from support.checkpoints import named
from support.workspace import Workspace

# --- making


def test_a_checkpoint_is_an_event(workspace: Workspace) -> None:
    """It names what it covers: the root of the events before it, the document, the key, the session that asked."""
    context = workspace.context()
    session = workspace.work(context, "file.read", "network.fetch")
    before = workspace.entries(session.task.id)
    made = workspace.save(context)
    event, data = made.event, made.data
    assert workspace.events(session.task.id)[-1] == event
    assert (event.event, event.session, event.by) == ("checkpoint.created", session.id, Actor("tester", "agent"))
    assert (data.name, data.description, data.trigger, data.previous) == ("fix-auth", "found it", "agent", "")
    assert data.root == root([bytes.fromhex(entry.hash) for entry in before]).hex()
    assert find(workspace.store, "fix-auth") == made
    assert named(workspace.store) == ["fix-auth"]


def test_a_checkpoint_names_a_document(workspace: Workspace) -> None:
    """The document says how the task stood, and is kept under its digest."""
    context = workspace.context()
    session = workspace.work(context, "file.read", "file.write", "network.fetch", "file.read")
    context.sessions.admit([ToolRequest(tool="tests.run", digest="2" * 64)])
    workspace.leave(context)
    made = create(session.task, "late")
    assert document(workspace.store, made) == {
        "format": "adjourn/checkpoint/1",
        "task": session.task.id,
        "name": "late",
        "description": "",
        "goal": "do it",
        "contract": "",
        "policy": digest((workspace.root / ".aex" / "policy.aex").read_bytes()),
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
    stored = workspace.store.get_blob(made.data.document)
    assert stored == canonical(document(workspace.store, made))


def test_a_task_without_a_limit_has_no_budget(workspace: Workspace) -> None:
    """The document and folder of a task without a limit have no budget member."""
    workspace.write_policy("use file.read")
    context = workspace.context()
    workspace.work(context, "file.read")
    made = workspace.save(context)
    assert "budget" not in document(workspace.store, made)
    assert "budget" not in workspace.folder().joinpath("checkpoint.json").read_text().partition('"adjourn"')[0]


def test_settlements_that_wait_come_before_the_checkpoint(workspace: Workspace) -> None:
    """What was answered before is not shown as in flight."""
    context = workspace.context()
    session, (admitted,) = context.sessions.admit([ToolRequest(tool="file.read", digest="1" * 64, effectful=False)])
    session.task.deferred.append(NewEvent(kinds.ToolSettled(call=admitted.call, outcome="ok"), session=session.id))
    workspace.save(context)
    assert [event.event for event in workspace.events(session.task.id)[-2:]] == ["tool.settled", "checkpoint.created"]


def test_settlements_that_come_while_it_is_made_come_after_the_checkpoint(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread may defer them at any moment: the root is that of all events before the checkpoint's own."""
    context = workspace.context()
    session, (admitted,) = context.sessions.admit([ToolRequest(tool="file.read", digest="1" * 64, effectful=False)])
    settled = kinds.ToolSettled(call=admitted.call, outcome="ok")
    known = checkpoint._known

    def known_late(task: Task) -> checkpoint.Known:
        task.deferred.append(NewEvent(settled, session=session.id))
        return known(task)

    monkeypatch.setattr(checkpoint, "_known", known_late)
    workspace.save(context)
    assert verify_task(workspace.store, session.task.id).findings == []
    session.task.flush()
    assert [event.event for event in workspace.events(session.task.id)[-2:]] == ["checkpoint.created", "tool.settled"]
    assert verify_task(workspace.store, session.task.id).findings == []


def test_a_name_that_is_used_again_keeps_the_earlier_version(workspace: Workspace) -> None:
    """The newest counts; it names the one before, which stays in the chain, even if that is of another task."""
    context = workspace.context()
    workspace.work(context, "file.read")
    first, second = workspace.save(context), workspace.save(context, description="more")
    workspace.leave(context)
    other = workspace.context("g2")
    third = workspace.save(other)
    assert [item.data.previous for item in (first, second, third)] == ["", first.hash, second.hash]
    assert find(workspace.store, "fix-auth") == third
    assert workspace.facts(first.event.task, kinds.CheckpointCreated) == [first.data, second.data]
    assert folder_verification.verify(str(workspace.folder())).checkpoint == third


@pytest.mark.parametrize(
    ("name", "description", "reason"),
    [
        ("../x", "", "not a checkpoint name"),
        ("", "", "not a checkpoint name"),
        ("a", "x" * 10_001, "the description is too long: 10001 characters"),
        ("a", "\ud800", "cannot be"),
    ],
)
def test_what_cannot_be_kept_is_refused(workspace: Workspace, name: str, description: str, reason: str) -> None:
    """Bad names and descriptions are refused before anything is written."""
    context = workspace.context()
    workspace.work(context, "file.read")
    before = workspace.everything()
    with pytest.raises(InvalidError, match=reason):
        create(context.sessions.open().task, name, description=description)
    assert workspace.everything() == before


@pytest.mark.parametrize("letter", ["x", "\x01", '"', "\N{GRINNING FACE}"])
def test_the_longest_description_fits(workspace: Workspace, letter: str) -> None:
    """10,000 characters fit into an event, however they are spelled, and come back."""
    context = workspace.context()
    workspace.work(context, "file.read")
    workspace.save(context, description=letter * 10_000)
    assert folder_verification.verify(str(workspace.folder())).file.description == letter * 10_000


def test_a_task_without_history_has_no_checkpoint(workspace: Workspace) -> None:
    """Creating a checkpoint of a task without events is refused."""
    with pytest.raises(NotFoundError, match="task t9 has no events"):
        create(workspace.task("t9"), "early")
    assert workspace.everything() == ({}, {})


def test_only_who_holds_the_task_makes_its_checkpoints(workspace: Workspace) -> None:
    """A client that was fenced off is refused, and the name does not move."""
    context = workspace.context()
    session = workspace.work(context, "file.read")
    workspace.context("g2", task=session.task.id, take_over=True).sessions.open()
    with pytest.raises(HeldError, match="was taken over"):
        create(session.task, "mine", session=session)
    assert workspace.store.refs("checkpoint/") == {}


def test_two_who_save_at_once(workspace: Workspace) -> None:
    """Sister processes that use one name at one moment make two versions in one unbroken chain."""
    contexts = [workspace.context(), workspace.context()]
    sessions = [workspace.work(context, "file.read") for context in contexts]
    task = sessions[0].task.id
    start = threading.Barrier(2)

    def save(session: Session) -> None:
        start.wait()
        for _ in range(5):
            create(session.task, "both", session=session)

    threads = [threading.Thread(target=save, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made = workspace.facts(task, kinds.CheckpointCreated)
    hashes = [entry.hash for entry in workspace.entries(task) if b'"checkpoint.created"' in entry.data]
    assert verify_chain(workspace.entries(task)).valid
    assert [data.previous for data in made] == ["", *hashes[:-1]]
    assert find(workspace.store, "both").hash == hashes[-1]


def test_the_ledger_is_kept_with_a_checkpoint(workspace: Workspace) -> None:
    """The next loading of the task begins at the checkpoint."""
    context = workspace.context()
    session = workspace.work(context, "file.read", "file.write")
    workspace.save(context)
    assert workspace.store.ref(f"fold/{session.task.id}")
    assert workspace.task(session.task.id).ledger == session.task.ledger


def test_the_first_checkpoint_of_a_span_keeps_the_ledger(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loading reads at most a span of events before the checkpoint, and comes to the same ledger."""
    monkeypatch.setattr(checkpoint, "FOLD_SPAN", 16)
    context = workspace.context()
    session = workspace.work(context, "file.read")
    kept: list[int] = []
    for _ in range(40):
        made = workspace.save(context)
        text = (workspace.store.ref(f"fold/{session.task.id}") or "").partition(":")[2]
        fold = msgspec.json.decode(text, type=Ledger)
        assert 0 < made.event.seq - fold.seq <= 16
        kept.append(fold.seq)
        loaded = workspace.task(session.task.id)
        assert loaded.ledger == session.task.ledger
    assert 2 < len(set(kept)) < 6


# --- the document's bytes


@pytest.mark.parametrize(
    ("tools", "calls", "budget"),
    [
        ({"b.c": 2, "a.b": 1}, 3, None),
        ({"\ue000": 1, "\U00010000": 2}, 3, 20),  # UTF-16 has them in another order than UTF-8
        ({"a": 1}, 2**53 - 1, 2**53 - 1),
    ],
)
def test_a_document_is_canonical(tools: dict[str, int], calls: int, budget: int | None) -> None:
    """The shortcut of checkpoints gives the bytes of canonical JSON, whatever a tool is called."""
    ledger = Ledger(task="t1", tools=tools, calls_used=calls, budget=budget)
    ledger.doubts["c"] = OpenCall(call="c", tool="\u00e9", digest="2" * 64, effectful=True, session="s", since="x")
    stated = document_of(ledger, "fix-auth", 'a "quoted" \u20ac\x7f\n', Known())
    assert encode_document(stated) == canonical(stated)


@pytest.mark.parametrize(("calls", "budget", "description"), [(2**53, None, ""), (1, 2**53, ""), (1, None, "\ud800")])
def test_a_document_that_has_no_canonical_form(calls: int, budget: int | None, description: str) -> None:
    """A number beyond 2^53 - 1, and a lone surrogate, are refused."""
    stated = document_of(Ledger(task="t1", calls_used=calls, budget=budget), "n", description, Known())
    with pytest.raises(InvalidError, match="cannot be canonical JSON"):
        encode_document(stated)


# --- finding


def saved(workspace: Workspace) -> TaskCheckpoint:
    context = workspace.context()
    workspace.work(context, "file.read")
    workspace.save(context, "other")
    return workspace.save(context)


def test_a_name_that_nothing_has(workspace: Workspace) -> None:
    """The error for an unknown checkpoint name says where to look."""
    with pytest.raises(NotFoundError, match=r'no checkpoint is named "lost" .*adjourn checkpoint list'):
        find(workspace.store, "lost")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("{task} 99 {hash}", "is not in the chain of task"),
        ("{task} 0 {hash}", "is not in the chain"),
        ("{task} x {hash}", "is not in the chain"),
        ("{task} -1 {hash}", "is not in the chain"),
        ("nowhere 0 {hash}", "is not in the chain"),
        ("{task} {seq} {zeros}", "is not in the chain"),
        ("{task} 0 {first}", "event 0 of task .* is not a checkpoint"),
        ("{task} {before} {other}", 'the name "fix-auth" points at checkpoint "other"'),
    ],
)
def test_a_name_that_points_astray_is_refused(workspace: Workspace, value: str, reason: str) -> None:
    """A name in the store is believed only as far as the chain bears it out."""
    made = saved(workspace)
    task = made.event.task
    other = find(workspace.store, "other")
    place = {
        "task": task,
        "seq": made.event.seq,
        "hash": made.hash,
        "zeros": "0" * 64,
        "first": workspace.entries(task)[0].hash,
        "before": other.event.seq,
        "other": other.hash,
    }
    ref = "checkpoint/fix-auth"
    workspace.store.swap(ref, value.format(**place), expect=workspace.store.ref(ref))
    with pytest.raises(InvalidError, match=reason):
        find(workspace.store, "fix-auth")


# --- signatures and documents


def test_a_signature_holds_for_one_key_and_one_statement(workspace: Workspace) -> None:
    """Another key did not sign it, and nothing of what was signed can be another."""
    made = saved(workspace)
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
    from msgspec.structs import replace  # beside its only use

    return replace(value, **changes)


def test_who_is_trusted(workspace: Workspace, tmp_path: Path) -> None:
    """One's own key is; another's is under its name once it was trusted; and no longer when it is not any more."""
    made = saved(workspace)
    own = keys.own_public_key()
    assert trusted_signer(made) == "default"
    elsewhere = Workspace(tmp_path / "elsewhere", workspace.patch)
    assert trusted_signer(made) == ""
    keys.trust("ann", own)
    assert trusted_signer(made) == "ann"
    keys.distrust("ann")
    assert trusted_signer(made) == ""
    elsewhere.store.close()


def test_a_trusted_name_does_not_make_a_signature_hold(workspace: Workspace) -> None:
    """A checkpoint that only claims a trusted key is refused, not called untrusted."""
    made = saved(workspace)
    with pytest.raises(IntegrityError):
        trusted_signer(made._replace(data=_with(made.data, root="f" * 64)))


def test_a_document_that_is_gone_is_missed(workspace: Workspace) -> None:
    """Without its document a checkpoint cannot be resumed."""
    made = saved(workspace)
    workspace.store.forget(made.data.document)
    with pytest.raises(IntegrityError, match='the document of checkpoint "fix-auth" is not in the store'):
        document(workspace.store, made)


def test_a_document_that_changed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store in which somebody edited a document says so."""
    workspace = Workspace(tmp_path, monkeypatch)
    made = saved(workspace)
    assert isinstance(workspace.store, MemoryStore)
    workspace.store._blobs[made.data.document] = b'{"callsUsed":0}'
    with pytest.raises(AdjournError, match="have changed"):
        document(workspace.store, made)


def test_what_is_no_checkpoint_is_not_read_as_one(workspace: Workspace) -> None:
    """Reading any other event as a checkpoint is refused."""
    made = saved(workspace)
    with pytest.raises(InvalidError, match="is not a checkpoint"):
        checkpoint.as_checkpoint(workspace.entries(made.event.task)[1])
