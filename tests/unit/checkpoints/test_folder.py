"""A checkpoint's folder: it says what the chain says, it verifies itself, and a kill or a race leaves one that holds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given

from adjourn.checkpoints import folder, folder_verification
from adjourn.checkpoints.checkpoint import TaskCheckpoint, create, document, find
from adjourn.checkpoints.folder import is_as_written, write, write_into
from adjourn.checkpoints.folder_verification import verify
from adjourn.errors import IntegrityError, NotFoundError
from adjourn.host import keys
from adjourn.host.workspace import write_file
from adjourn.knowledge.records.agent_notes import AgentNote, NotedDecision, add
from adjourn.log import kinds
from adjourn.log.event import decode
from adjourn.log.signing import fingerprint
from adjourn.store.base import EMPTY, Entry
from adjourn.store.memory import MemoryStore
from adjourn.tasks.task import Task
from support.clock import Clock
from support.events import TASK, chained
from support.forging import FILES
from support.kills import each_step
from support.strategies import histories
from support.workspace import Workspace, saved


def as_json(workspace: Workspace) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((workspace.folder() / FILES[0]).read_bytes())
    return value


# --- what is written


def test_a_folder_holds(workspace: Workspace) -> None:
    """What is written verifies, says who signed it, and gives back checkpoint, history and ledger."""
    context = workspace.context()
    session = workspace.work(context, "file.read", "tests.run")
    made = workspace.save(context)
    assert write(workspace.store, made, str(workspace.root)) == ".aex/checkpoints/fix-auth/"
    verified = verify(str(workspace.folder()))
    assert verified.checkpoint == made
    assert list(verified.audit.entries()) == workspace.entries(made.event.task)
    assert verified.ledger == session.task.refresh()
    assert (verified.signer, verified.trusted_as) == (fingerprint(keys.own_public_key()), "default")
    assert sorted(os.listdir(workspace.folder())) == sorted(FILES)


def test_the_published_fields_come_first(saved_workspace: Workspace) -> None:
    """checkpoint.json has the published fields in the published order, as published, and ours in one member after them."""
    value = as_json(saved_workspace)
    ours = value.pop("adjourn")
    assert list(value.items()) == [
        ("name", "fix-auth"),
        ("description", "read the auth files"),
        ("timestamp", "2026-05-02T15:30:16.345Z"),
        ("callsUsed", 2),
        ("budget", 20),
        (
            "toolHistory",
            [
                {"tool": "file.read", "timestamp": "2026-05-02T15:30:13.345Z", "decision": "forward"},
                {"tool": "tests.run", "timestamp": "2026-05-02T15:30:14.345Z", "decision": "forward"},
                {
                    "tool": "network.fetch",
                    "timestamp": "2026-05-02T15:30:15.345Z",
                    "decision": "block",
                    "reason": "deny_list",
                },
            ],
        ),
    ]
    assert [list(entry) for entry in value["toolHistory"]][2] == ["tool", "timestamp", "decision", "reason"]
    assert list(ours) == ["format", "task", "seq", "hash", "document", "publicKey", "policy"]
    assert ours["document"] == document(saved_workspace.store, find(saved_workspace.store, "fix-auth"))
    text = (saved_workspace.folder() / FILES[0]).read_text()
    assert text.startswith('{\n  "name": "fix-auth",\n')
    assert text.endswith("}\n")


def test_what_there_is_not_is_left_out(saved_workspace: Workspace) -> None:
    """No description and no limit: no such members, as published."""
    saved_workspace.write_policy("use file.read")
    context = saved_workspace.context("g2")
    saved_workspace.work(context, "file.read")
    saved_workspace.save(context, "plain", description="")
    assert [*json.loads((saved_workspace.folder("plain") / FILES[0]).read_bytes())] == [
        "name", "timestamp", "callsUsed", "toolHistory", "adjourn",
    ]  # fmt: skip
    assert verify(str(saved_workspace.folder("plain"))).file.budget is None


def test_the_audit_log_is_the_stored_bytes(workspace: Workspace) -> None:
    """One stored event a line, from the first to the checkpoint, each with the published members."""
    saved(workspace)
    made = find(workspace.store, "fix-auth")
    workspace.work(workspace.context(), "file.read")  # later events are not in it
    lines = (workspace.folder() / FILES[1]).read_bytes().split(b"\n")
    assert lines.pop() == b""
    assert lines == [entry.data for entry in workspace.store.read(made.event.task, 0, made.event.seq + 1)]
    for line in lines:
        assert {"event", "data", "timestamp"} <= json.loads(line).keys()
    assert decode(lines[-1]) == made.event


def test_texts_travel_with_it(saved_workspace: Workspace) -> None:
    """The policy's and the contract's text are in the folder, so that another machine knows both."""
    (saved_workspace.root / "task.aex").write_text('task t v0\ngoal "mend"\nuse file.read\nreturn 1\n')
    context = saved_workspace.context("g2", contract="task.aex")
    saved_workspace.work(context, "file.read")
    saved_workspace.save(context)
    extra = verify(str(saved_workspace.folder())).extra
    assert extra.contract == (saved_workspace.root / "task.aex").read_text()
    assert extra.policy == (saved_workspace.root / ".aex" / "policy.aex").read_text()


def test_without_a_policy_text_a_folder_holds(saved_workspace: Workspace) -> None:
    """A session that names no policy's text makes checkpoints that verify."""
    context = saved_workspace.context("g2")
    context.watch.contract = msgspec.structs.replace(context.watch.contract, policy_text="")
    saved_workspace.work(context, "file.read")
    saved_workspace.save(context)
    assert verify(str(saved_workspace.folder())).extra.policy == ""


def test_a_text_that_was_forgotten_is_missed_at_once(saved_workspace: Workspace) -> None:
    """Rather than writing a folder that cannot hold, writing says what is missing."""
    made = find(saved_workspace.store, "fix-auth")
    saved_workspace.store.forget(document(saved_workspace.store, made)["policy"])
    before = (saved_workspace.folder() / FILES[0]).read_bytes()
    with pytest.raises(IntegrityError, match=r"the contract or policy \w+ is not in the store"):
        write(saved_workspace.store, made, str(saved_workspace.root))
    assert (saved_workspace.folder() / FILES[0]).read_bytes() == before


def test_a_long_history_is_shown_by_its_end(saved_workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """toolHistory is bounded; how much it leaves out is said, and held to the chain."""
    for module in (folder, folder_verification):
        monkeypatch.setattr(module, "MAX_HISTORY", 3)
    monkeypatch.setattr(folder, "_PAGE", 2)
    context = saved_workspace.context()
    saved_workspace.work(context, *["file.read"] * 4)
    saved_workspace.save(context)
    value = as_json(saved_workspace)
    assert [entry["tool"] for entry in value["toolHistory"]] == ["file.read"] * 3
    assert value["adjourn"]["historyOmitted"] == 4
    verify(str(saved_workspace.folder()))
    for wrong in (3, 5, 0, -1):
        value["adjourn"]["historyOmitted"] = wrong
        (saved_workspace.folder() / FILES[0]).write_text(json.dumps(value))
        with pytest.raises(IntegrityError, match=r"adjourn\.historyOmitted differs from what was signed"):
            verify(str(saved_workspace.folder()))


def _plain(data: kinds.Data) -> kinds.Data:
    """Without texts that no store keeps, and sums that no JSON holds."""
    if isinstance(data, kinds.TaskOpened):
        return msgspec.structs.replace(data, contract="")
    if isinstance(data, kinds.SessionOpened | kinds.PolicyChanged):
        return msgspec.structs.replace(data, policy="")
    if isinstance(data, kinds.TaskImported):
        return msgspec.structs.replace(data, calls=min(data.calls, 7))
    return data


@given(histories)
def test_whatever_happened_the_folder_holds(
    saved_workspace: Workspace, tmp_path_factory: pytest.TempPathFactory, history: list[tuple[kinds.Data, str]]
) -> None:
    """Any history that a chain may hold can be checkpointed, written, and verified, with the same ledger."""
    store = MemoryStore()
    facts = [(_plain(data), session) for data, session in history] or [(kinds.TaskOpened(), "")]
    store.append(TASK, [Entry(name, stored) for _, name, stored in chained(facts)], expect=EMPTY)
    task = Task(store, TASK, clock=Clock(), secret=b"s" * 32)
    place = tmp_path_factory.mktemp("any")
    folder.write_into(store, create(task, "any"), str(place))
    assert verify(str(place)).ledger == task.refresh()


# --- as written, or not


def test_whether_it_is_as_written(workspace: Workspace) -> None:
    """Yes after writing; no after an edit, until it is written again; None when there is no such file."""
    saved(workspace)
    root, path = str(workspace.root), workspace.folder() / FILES[0]
    assert is_as_written(workspace.store, root, "fix-auth") is True
    path.write_bytes(path.read_bytes() + b"\n")
    assert is_as_written(workspace.store, root, "fix-auth") is False
    write(workspace.store, find(workspace.store, "fix-auth"), root)
    assert is_as_written(workspace.store, root, "fix-auth") is True
    path.unlink()
    assert is_as_written(workspace.store, root, "fix-auth") is None


def test_the_signer_must_be_known_to_write(saved_workspace: Workspace, tmp_path: Path) -> None:
    """Without the public key no folder can be made; the refusal says which key and how to have it."""
    made = find(saved_workspace.store, "fix-auth")
    Workspace(tmp_path / "elsewhere", saved_workspace.patch)
    with pytest.raises(NotFoundError, match=rf"signed by key {made.data.key}, .*trust it with `adjourn keys trust`"):
        write(saved_workspace.store, made, str(saved_workspace.root))


# --- crashes and races


def kill_at_each_step(saved_workspace: Workspace, check: Callable[[], object], begin: Callable[[], object]) -> int:
    """Write the checkpoint, killed before each step in turn."""
    made = find(saved_workspace.store, "fix-auth")
    return each_step(begin, lambda: write(saved_workspace.store, made, str(saved_workspace.root)), check)


def two_versions(
    saved_workspace: Workspace, group: str = "g1"
) -> tuple[TaskCheckpoint, TaskCheckpoint, Callable[[], None]]:
    """The checkpoint whose folder is there, a later one of that name, and what brings the folder back."""
    old = find(saved_workspace.store, "fix-auth")
    before = {name: (saved_workspace.folder() / name).read_bytes() for name in FILES}
    context = saved_workspace.context(group)
    saved_workspace.work(context, "file.read")
    session = context.sessions.open()

    def begin() -> None:
        for name, data in before.items():
            (saved_workspace.folder() / name).write_bytes(data)

    return old, create(session.task, "fix-auth", session=session), begin


def test_a_kill_leaves_the_old_version_or_the_new_one(saved_workspace: Workspace) -> None:
    """Killed at any step of overwriting a version of the same task, the folder holds and is one of the two."""
    old, new, begin = two_versions(saved_workspace)
    seen = set()

    def check() -> None:
        verified = verify(str(saved_workspace.folder()))
        assert verified.checkpoint in (old, new)
        seen.add(verified.checkpoint.hash)
        write(saved_workspace.store, new, str(saved_workspace.root))
        assert verify(str(saved_workspace.folder())).checkpoint == new

    assert kill_at_each_step(saved_workspace, check, begin) > 10
    assert seen == {old.hash, new.hash}


def test_a_kill_leaves_what_was_known_with_its_version(saved_workspace: Workspace) -> None:
    """A kill during overwriting leaves the old version with its old notes or the new version with its new notes, and no other notes."""
    context = saved_workspace.context()
    saved_workspace.work(context, "file.read")
    session = context.sessions.open()
    made = []
    for fact in ("the token is checked twice", "once is enough"):
        add(session, AgentNote(facts=(fact,), decisions=(NotedDecision(decision=fact),)))
        made.append(create(session.task, "fix-auth", session=session))
        if len(made) == 1:
            write(saved_workspace.store, made[0], str(saved_workspace.root))
    before = {path.name: path.read_bytes() for path in saved_workspace.folder().iterdir()}
    seen = set()

    def begin() -> None:
        for path in saved_workspace.folder().iterdir():
            path.unlink()
        for name, data in before.items():
            (saved_workspace.folder() / name).write_bytes(data)

    def check() -> None:
        verified = verify(str(saved_workspace.folder()))
        seen.add(verified.checkpoint.hash)
        assert verified.known.cognition is not None
        facts = [fact["content"] for fact in verified.known.cognition["epistemicState"]["facts"]]
        assert len(facts) == [made[0], made[1]].index(verified.checkpoint) + 1
        write(saved_workspace.store, made[1], str(saved_workspace.root))
        assert verify(str(saved_workspace.folder())).checkpoint == made[1]
        assert len([name for name in os.listdir(saved_workspace.folder()) if name[0] != "."]) == 4

    kill_at_each_step(saved_workspace, check, begin)
    assert seen == {made[0].hash, made[1].hash}


def test_a_kill_never_mixes_two_tasks(saved_workspace: Workspace) -> None:
    """Killed while a folder of another task is replaced, there is the old one, the new one, or none; never a mixture."""
    old, new, begin = two_versions(saved_workspace, "g2")
    seen = set()

    def check() -> None:
        try:
            verified = verify(str(saved_workspace.folder()))
        except NotFoundError:
            seen.add("none")
        else:
            assert verified.checkpoint in (old, new)
            seen.add(verified.checkpoint.hash)

    kill_at_each_step(saved_workspace, check, begin)
    assert seen == {old.hash, "none", new.hash}


def test_a_kill_never_mixes_a_longer_history_with_a_shorter_one(saved_workspace: Workspace) -> None:
    """A folder that was brought is ahead of the store: killed while it is written over, it is as it was, the store's, or none."""
    here = find(saved_workspace.store, "fix-auth")
    saved_workspace.work(context := saved_workspace.context(), "file.read")
    brought = create(context.sessions.open().task, "fix-auth", session=context.sessions.open())
    seen = set()

    def check() -> None:
        try:
            seen.add(verify(str(saved_workspace.folder())).checkpoint.hash)
        except NotFoundError:
            seen.add("none")

    each_step(
        begin=lambda: write(saved_workspace.store, brought, str(saved_workspace.root)),
        act=lambda: write_into(saved_workspace.store, here, str(saved_workspace.folder())),
        check=check,
    )
    assert seen == {brought.hash, "none", here.hash}


def test_a_kill_of_the_first_writing_leaves_nothing_or_all(saved_workspace: Workspace) -> None:
    """A kill during the first write leaves a whole folder or one that cannot be read, and the next write repairs it."""
    import shutil  # beside its only use

    made = find(saved_workspace.store, "fix-auth")
    outcomes = set()

    def check() -> None:
        try:
            outcomes.add(verify(str(saved_workspace.folder())).checkpoint.hash)
        except NotFoundError:
            outcomes.add("none")

    kill_at_each_step(
        saved_workspace, check, lambda: shutil.rmtree(saved_workspace.root / ".aex" / "checkpoints", ignore_errors=True)
    )
    assert outcomes == {"none", made.hash}


def test_two_writers_take_turns(saved_workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one process is between both files, another one waits; the newest version is what stays."""
    old = find(saved_workspace.store, "fix-auth")
    session = saved_workspace.context().sessions.open()
    between, go_on = threading.Event(), threading.Event()
    real = write_file

    def slow(place: str, name: str, chunks: object) -> None:
        if name == FILES[0] and not between.is_set():
            between.set()
            assert go_on.wait(10)
        real(place, name, chunks)

    monkeypatch.setattr(folder, "write_file", slow)
    first = threading.Thread(target=write, args=(saved_workspace.store, old, str(saved_workspace.root)))
    first.start()
    assert between.wait(10)
    new = create(session.task, "fix-auth", description="newer", session=session)
    second = threading.Thread(target=write, args=(saved_workspace.store, new, str(saved_workspace.root)))
    second.start()
    second.join(0.1)
    assert second.is_alive()
    go_on.set()
    first.join()
    second.join()
    assert verify(str(saved_workspace.folder())).checkpoint == new
    write(saved_workspace.store, old, str(saved_workspace.root))  # one that came late
    assert verify(str(saved_workspace.folder())).checkpoint == new
    assert is_as_written(saved_workspace.store, str(saved_workspace.root), "fix-auth") is True


RIVAL = """
import sys
from adjourn.checkpoints import folder
from adjourn.host import keys
from adjourn.host.clock import now
from adjourn.host.workspace_store import open_at
from adjourn.host.workspace import write_file
from adjourn.checkpoints.checkpoint import create
from adjourn.tasks.task import Task
root, name = sys.argv[1:]
store = open_at(root)
task = Task(store, name, clock=now, secret=keys.secret())
sys.stdin.readline()
for _ in range(15):
    folder.write(store, create(task, "fix-auth"), root)
"""


def test_two_processes_that_save_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After both have written the same name many times, the folder holds, and is the newest."""
    workspace = Workspace(tmp_path, monkeypatch, store="sqlite")
    saved(workspace)
    task = find(workspace.store, "fix-auth").event.task
    command = [sys.executable, "-c", RIVAL, str(workspace.root), task]
    rivals = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(2)]
    for rival in rivals:
        rival.communicate(b"go\n", timeout=60)
        assert rival.returncode == 0
    assert len(workspace.facts(task, kinds.CheckpointCreated)) == 31
    assert verify(str(workspace.folder())).checkpoint == find(workspace.store, "fix-auth")
    assert is_as_written(workspace.store, str(workspace.root), "fix-auth") is True
    assert sorted(os.listdir(workspace.folder())) == sorted(FILES)
    workspace.store.close()


def test_a_checkpoint_of_this_name(saved_workspace: Workspace) -> None:
    """A folder that was copied to another name is not a checkpoint of that name."""
    assert folder_verification.verify_named(str(saved_workspace.root), "fix-auth").checkpoint == find(
        saved_workspace.store, "fix-auth"
    )
    saved_workspace.folder().rename(saved_workspace.folder("safe"))
    with pytest.raises(IntegrityError, match=r'checkpoints/safe has checkpoint "fix-auth", not'):
        folder_verification.verify_named(str(saved_workspace.root), "safe")


def test_a_report_that_is_no_digest_is_none(tmp_path: Path) -> None:
    """A chain may name anything as what was stated: the folder is written without it, and verifies."""
    store = MemoryStore()
    made = kinds.CheckpointCreated(document="", key="", name="x", report="0", root="", signature="", trigger="agent")
    facts: list[tuple[kinds.Data, str]] = [(kinds.TaskOpened(), ""), (made, "")]
    store.append(TASK, [Entry(name, stored) for _, name, stored in chained(facts)], expect=EMPTY)
    task = Task(store, TASK, clock=Clock(), secret=b"s" * 32)
    folder.write_into(store, create(task, "any"), str(tmp_path))
    assert verify(str(tmp_path)).ledger == task.refresh()


@pytest.mark.parametrize("edited", [False, True], ids=["as written", "edited"])
def test_a_folder_that_a_killed_process_had_just_written_is_no_file_of_others(
    saved_workspace: Workspace, edited: bool
) -> None:
    """Before its digest was stored, another task's folder of the name is replaced without a copy; what a person edited is copied."""
    store, path = saved_workspace.store, saved_workspace.folder() / FILES[0]
    if edited:
        path.write_bytes(path.read_bytes() + b" ")
    written = store.ref("folder/fix-auth")
    store.swap("folder/fix-auth", None, expect=written)
    saved_workspace.write_policy('goal "Another."', "use file.read")
    context = saved_workspace.context("g2")
    saved_workspace.work(context, "file.read")
    saved_workspace.save(context)
    copies = [name for name in folder.names(str(saved_workspace.root)) if ".imported" in name]
    assert copies == (["fix-auth.imported"] if edited else [])
