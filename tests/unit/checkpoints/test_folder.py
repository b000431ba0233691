"""A checkpoint's folder: it says what the chain says, it verifies itself, and nothing that was changed is taken for it."""

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
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adjourn.checkpoints import folder, folder_verification
from adjourn.checkpoints.audit_log import MAX_AUDIT_BYTES
from adjourn.checkpoints.checkpoint import create, document, find
from adjourn.checkpoints.folder import MAX_JSON_BYTES, is_as_written, path_of, write, write_into
from adjourn.checkpoints.folder_verification import verify
from adjourn.errors import AdjournError, IntegrityError, InvalidError, NotFoundError, RefusedError
from adjourn.host import keys, write_file
from adjourn.knowledge.records.agent_notes import AgentNote, NotedDecision, add
from adjourn.log import kinds
from adjourn.log.event import decode
from adjourn.log.signing import encode_bytes, fingerprint, public_key
from adjourn.store.base import EMPTY, Entry
from adjourn.store.memory import MemoryStore
from adjourn.tasks.task import Task
from support.clock import Clock
from support.events import TASK, chained
from support.forging import EDITS, FILES, Edit, Forger, put
from support.kills import each_step
from support.strategies import histories
from support.workspace import Workspace, saved


@pytest.fixture
def saved_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A machine for what is alike over every store, with a checkpoint."""
    workspace = Workspace(tmp_path, monkeypatch)
    saved(workspace)
    return workspace


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
    context.contract = msgspec.structs.replace(context.contract, policy_text="")
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


def test_a_long_history_is_shown_by_its_end(
    saved_workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
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


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(histories)
def test_whatever_happened_the_folder_holds(
    saved_workspace: Workspace,
    tmp_path_factory: pytest.TempPathFactory,
    history: list[tuple[kinds.Data, str]],
) -> None:
    """Any history that a chain may hold can be checkpointed, written, and verified, with the same ledger."""
    store = MemoryStore()
    facts = [(_plain(data), session) for data, session in history] or [(kinds.TaskOpened(), "")]
    store.append(TASK, [Entry(name, stored) for _, name, stored in chained(facts)], expect=EMPTY)
    task = Task(store, TASK, clock=Clock(), secret=b"s" * 32)
    place = tmp_path_factory.mktemp("any")
    folder.write_into(store, create(task, "any"), str(place))
    assert verify(str(place)).ledger == task.refresh()


# --- what was changed by a byte


def holds_as_it_was(place: Path, before: dict[str, Any]) -> bool:
    """Whether a folder is refused, or says in other spelling what it said before."""
    try:
        verify(str(place))
    except AdjournError:
        return True
    return bool(json.loads((place / FILES[0]).read_bytes()) == before)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.sampled_from(FILES), st.floats(0, 1, exclude_max=True), st.integers(0, 255), st.integers(0, 2))
def test_a_changed_byte_is_found(
    saved_workspace: Workspace, name: str, where: float, byte: int, how: int
) -> None:
    """Any byte replaced, inserted or removed: refused, or the same JSON; and in the audit log always refused."""
    place, before = saved_workspace.folder(), as_json(saved_workspace)
    path = place / name
    stored = path.read_bytes()
    at = int(where * len(stored))
    changed = stored[:at] + [bytes([byte]), bytes([byte]) + stored[at : at + 1], b""][how] + stored[at + 1 :]
    path.write_bytes(changed)
    try:
        assert holds_as_it_was(place, before)
        if name == FILES[1] and changed != stored:
            with pytest.raises(AdjournError):
                verify(str(place))
    finally:
        path.write_bytes(stored)


@pytest.mark.parametrize("name", FILES)
def test_each_byte_counts(saved_workspace: Workspace, name: str) -> None:
    """A folder with one byte changed is refused or verifies as it was: every byte in a campaign, every 41st otherwise."""
    place, before = saved_workspace.folder(), as_json(saved_workspace)
    path = place / name
    stored = path.read_bytes()
    step = 1 if os.environ.get("ADJOURN_CAMPAIGN") else 41
    for at in range(0, len(stored), step):
        for bit in (0x01, 0x20):
            path.write_bytes(stored[:at] + bytes([stored[at] ^ bit]) + stored[at + 1 :])
            assert holds_as_it_was(place, before), at


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_was_cut_short_is_refused(saved_workspace: Workspace, name: str) -> None:
    """Wherever it was cut, be it between two lines."""
    path = saved_workspace.folder() / name
    stored = path.read_bytes()
    lines = [at + 1 for at in range(len(stored) - 1) if stored[at] == 10]
    for end in [0, 1, len(stored) // 2, len(stored) - 2, *lines]:
        path.write_bytes(stored[:end])
        with pytest.raises(AdjournError, match=name):
            verify(str(saved_workspace.folder()))


# --- what was changed by hand


@pytest.mark.parametrize(("edit", "reason"), [row[1:] for row in EDITS], ids=[row[0] for row in EDITS])
def test_an_edited_field_is_refused_by_name(saved_workspace: Workspace, edit: Edit, reason: str) -> None:
    """Each field is held to its type and to the chain, and the refusal says which it was."""
    value = as_json(saved_workspace)
    edit(value)
    (saved_workspace.folder() / FILES[0]).write_text(json.dumps(value))
    with pytest.raises(InvalidError, match=reason) as refusal:
        verify(str(saved_workspace.folder()))
    assert refusal.value.remedy or "task id" in reason


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "7", '"x"', "null", "{}", "[" * 100_000, '{"name":"\\ud800"}', '{"a":1}x', "\ufeff{}"],
)
def test_what_is_no_checkpoint_is_refused(saved_workspace: Workspace, text: str) -> None:
    """Other JSON, and what is none, is said to be no checkpoint."""
    (saved_workspace.folder() / FILES[0]).write_text(text)
    with pytest.raises(InvalidError, match=r"checkpoint\.json is not a checkpoint"):
        verify(str(saved_workspace.folder()))


def test_the_rules_are_tested_in_their_order(saved_workspace: Workspace) -> None:
    """Of several faults the one is told whose rule comes first (spec/events.md, rule 7.7)."""
    path = saved_workspace.folder() / FILES[0]
    faults: list[tuple[Edit, str]] = [
        (put("adjourn", "policy", value="use *"), r"adjourn\.policy differs"),
        (put("adjourn", "contract", value="use *"), r"adjourn\.contract differs"),
        (put("adjourn", "document", "goal", value="another"), r"adjourn\.document differs"),
        (put("adjourn", "historyOmitted", value=1), r"adjourn\.historyOmitted differs"),
        (put("toolHistory", value=[]), "toolHistory differs"),
        (put("budget", value=1), "budget differs"),
        (put("callsUsed", value=1), "callsUsed differs"),
        (put("timestamp", value=""), "timestamp differs"),
        (put("description", value=""), "description differs"),
        (put("name", value="another"), "name differs"),
        (put("adjourn", "publicKey", value=encode_bytes(b"x" * 32)), "was not signed by"),
        (put("adjourn", "task", value="another"), r"adjourn\.task does not match"),
        (put("adjourn", "hash", value="f" * 64), r"adjourn\.hash does not match"),
        (put("adjourn", "task", value=".."), "not a task id"),
        (put("adjourn", "format", value="adjourn/checkpoint/9"), "has format"),
        (put("callsUsed", value=None), r"at `\$\.callsUsed`"),
    ]
    value = as_json(saved_workspace)
    for edit, reason in faults:
        edit(value)
        path.write_text(json.dumps(value))
        with pytest.raises(AdjournError, match=reason):
            verify(str(saved_workspace.folder()))


def test_another_layout_is_the_same_checkpoint(saved_workspace: Workspace) -> None:
    """White space and the order of members say nothing."""
    value = as_json(saved_workspace)
    (saved_workspace.folder() / FILES[0]).write_text(json.dumps(dict(reversed(value.items())), indent=7))
    assert verify(str(saved_workspace.folder())).checkpoint == find(saved_workspace.store, "fix-auth")


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda lines: lines[:-1], "has 7 events, and must have 8"),
        (lambda lines: [], "has 0 events"),
        (lambda lines: [*lines[:3], *lines[4:]], "fails verification at line 4: .*parent-mismatch"),
        (lambda lines: [*lines[:3], *lines[4:], b"{}"], "fails verification at line 4: .*parent-mismatch"),
        (
            lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]],
            "fails verification at line 3: .*parent-mismatch",
        ),
        (lambda lines: [lines[0], *lines], "fails verification at line 2: .*parent-mismatch"),
        (lambda lines: [*lines, b""], "fails verification at line 9: .*parent-mismatch"),
        (lambda lines: [*lines, b"{}"], "fails verification at line 9: .*parent-mismatch"),
        (lambda lines: [*lines, lines[-1]], "fails verification at line 9: .*parent-mismatch"),
        (lambda lines: [line + b"\r" for line in lines], "fails verification at line 2: .*parent-mismatch"),
    ],
    ids=[
        "truncated",
        "empty",
        "dropped",
        "replaced",
        "swapped",
        "twice",
        "blank",
        "more",
        "last twice",
        "crlf",
    ],
)
def test_an_edited_audit_log_is_refused(
    saved_workspace: Workspace, edit: Callable[[list[bytes]], list[bytes]], reason: str
) -> None:
    """Lines that are missing, moved or added are found, and the refusal says where."""
    path = saved_workspace.folder() / FILES[1]
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"".join(line + b"\n" for line in edit(lines)))
    with pytest.raises(IntegrityError, match=rf"audit\.jsonl.*{reason}"):
        verify(str(saved_workspace.folder()))


def test_the_audit_log_of_another_task_is_refused(saved_workspace: Workspace) -> None:
    """Both files must be of one task, however well each of them holds."""
    context = saved_workspace.context("g2")
    saved_workspace.work(context, *["file.read"] * 3)
    saved_workspace.save(context, "other")
    stored = (saved_workspace.folder("other") / FILES[1]).read_bytes()
    (saved_workspace.folder() / FILES[1]).write_bytes(stored)
    with pytest.raises(IntegrityError, match=r"adjourn\.hash does not match event 7 of audit\.jsonl"):
        verify(str(saved_workspace.folder()))


def test_later_events_of_the_chain_do_not_count(saved_workspace: Workspace) -> None:
    """A crash between both files leaves a longer audit log: the checkpoint is what it was."""
    before = verify(str(saved_workspace.folder()))
    saved_workspace.work(saved_workspace.context(), "file.read")
    more = b"".join(entry.data + b"\n" for entry in saved_workspace.entries(before.extra.task))
    (saved_workspace.folder() / FILES[1]).write_bytes(more)
    after = verify(str(saved_workspace.folder()))
    assert after == before


def test_a_forgery_that_holds_is_not_trusted(saved_workspace: Workspace) -> None:
    """Signed anew with another key, all of it holds; but that key is nobody's here."""
    forger = Forger(saved_workspace.folder())
    forger.write(forger.extra.document)
    verified = verify(str(saved_workspace.folder()))
    assert (verified.signer, verified.trusted_as) == (fingerprint(public_key(b"f" * 32)), "")


def test_even_a_signer_cannot_state_what_did_not_happen(saved_workspace: Workspace) -> None:
    """A signed document that refunds calls is refused: it does not follow from the events that were signed with it."""
    forger = Forger(saved_workspace.folder())
    forger.write(forger.extra.document | {"callsUsed": 0})
    with pytest.raises(IntegrityError, match=r"adjourn\.document differs from what was signed"):
        verify(str(saved_workspace.folder()))
    forger.write(forger.extra.document | {"callsUsed": 0}, calls_used=0)
    with pytest.raises(IntegrityError, match="callsUsed differs from what was signed"):
        verify(str(saved_workspace.folder()))


def test_a_signed_root_is_held_to_the_events(
    saved_workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signature over another root than that of the audit log is refused."""
    forger = Forger(saved_workspace.folder())
    monkeypatch.setattr("adjourn.log.merkle.root", lambda leaves: b"r" * 32)
    forger.write(forger.extra.document)
    with pytest.raises(IntegrityError, match=r"the signed Merkle root does not match audit\.jsonl"):
        verify(str(saved_workspace.folder()))


# --- what is no plain file


@pytest.mark.parametrize("name", FILES)
def test_only_plain_files_of_a_sane_size_are_read(saved_workspace: Workspace, name: str) -> None:
    """A link, a pipe, a folder and a huge file in the place of either file are refused, and nothing hangs."""
    path = saved_workspace.folder() / name
    kept = saved_workspace.root / "kept"
    path.rename(kept)
    with pytest.raises(NotFoundError, match=f"{name} does not exist"):
        verify(str(saved_workspace.folder()))
    path.symlink_to(kept)
    with pytest.raises(InvalidError, match=f"cannot read .*{name}"):
        verify(str(saved_workspace.folder()))
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InvalidError, match=f"{name} is not a regular file"):
        verify(str(saved_workspace.folder()))
    path.unlink()
    path.mkdir()
    with pytest.raises(InvalidError, match=f"{name} is not a regular file"):
        verify(str(saved_workspace.folder()))
    path.rmdir()
    with path.open("wb") as file:
        file.truncate(1 + (MAX_JSON_BYTES if name == FILES[0] else MAX_AUDIT_BYTES))
    with pytest.raises(InvalidError, match=f"{name} is not a regular file of at most"):
        verify(str(saved_workspace.folder()))


@pytest.mark.parametrize("place", [".aex/checkpoints/fix-auth", ".aex/checkpoints", ".aex"])
@pytest.mark.parametrize("target", ["inside", "outside"])
def test_no_folder_is_reached_by_a_link(
    saved_workspace: Workspace, tmp_path: Path, place: str, target: str
) -> None:
    """A folder behind a link is neither read nor written, wherever the link leads."""
    made = find(saved_workspace.store, "fix-auth")
    real = saved_workspace.root / place
    moved = (saved_workspace.root if target == "inside" else tmp_path) / "moved"
    real.rename(moved)
    real.symlink_to(moved)
    for attempt in (
        lambda: path_of(str(saved_workspace.root), "fix-auth"),
        lambda: is_as_written(saved_workspace.store, str(saved_workspace.root), "fix-auth"),
        lambda: write(saved_workspace.store, made, str(saved_workspace.root)),
    ):
        with pytest.raises(RefusedError, match=r"(is reached through|is a|is outside)"):
            attempt()


def test_a_link_in_the_place_of_a_file_is_replaced(saved_workspace: Workspace) -> None:
    """Writing touches nothing that a link points at."""
    target = saved_workspace.root / "precious"
    target.write_text("mine")
    for name in FILES:
        (saved_workspace.folder() / name).unlink()
        (saved_workspace.folder() / name).symlink_to(target)
    write(saved_workspace.store, find(saved_workspace.store, "fix-auth"), str(saved_workspace.root))
    assert target.read_text() == "mine"
    verify(str(saved_workspace.folder()))


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
    with pytest.raises(
        NotFoundError, match=rf"signed by key {made.data.key}, .*trust it with `adjourn keys trust`"
    ):
        write(saved_workspace.store, made, str(saved_workspace.root))


# --- crashes and races


def kill_at_each_step(
    saved_workspace: Workspace, check: Callable[[], object], begin: Callable[[], object]
) -> int:
    """Write the checkpoint, killed before each step in turn."""
    made = find(saved_workspace.store, "fix-auth")
    return each_step(begin, lambda: write(saved_workspace.store, made, str(saved_workspace.root)), check)


def test_a_kill_leaves_the_old_version_or_the_new_one(saved_workspace: Workspace) -> None:
    """Killed at any step of overwriting a version of the same task, the folder holds and is one of the two."""
    old = find(saved_workspace.store, "fix-auth")
    before = {name: (saved_workspace.folder() / name).read_bytes() for name in FILES}
    context = saved_workspace.context()
    saved_workspace.work(context, "file.read")
    session = context.session()
    new = create(session.task, "fix-auth", sitting=session)
    seen = set()

    def begin() -> None:
        for name, data in before.items():
            (saved_workspace.folder() / name).write_bytes(data)

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
    session = context.session()
    made = []
    for fact in ("the token is checked twice", "once is enough"):
        add(session, AgentNote(facts=(fact,), decisions=(NotedDecision(decision=fact),)))
        made.append(create(session.task, "fix-auth", sitting=session))
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
    old = find(saved_workspace.store, "fix-auth")
    before = {name: (saved_workspace.folder() / name).read_bytes() for name in FILES}
    context = saved_workspace.context("g2")
    saved_workspace.work(context, "file.read")
    session = context.session()
    new = create(session.task, "fix-auth", sitting=session)
    seen = set()

    def begin() -> None:
        for name, data in before.items():
            (saved_workspace.folder() / name).write_bytes(data)

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
    brought = create(context.session().task, "fix-auth", sitting=context.session())
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
    import shutil  # noqa: PLC0415  # beside its only use

    made = find(saved_workspace.store, "fix-auth")
    outcomes = set()

    def check() -> None:
        try:
            outcomes.add(verify(str(saved_workspace.folder())).checkpoint.hash)
        except NotFoundError:
            outcomes.add("none")

    kill_at_each_step(
        saved_workspace,
        check,
        lambda: shutil.rmtree(saved_workspace.root / ".aex" / "checkpoints", ignore_errors=True),
    )
    assert outcomes == {"none", made.hash}


def test_two_writers_take_turns(saved_workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one process is between both files, another one waits; the newest version is what stays."""
    old = find(saved_workspace.store, "fix-auth")
    session = saved_workspace.context().session()
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
    new = create(session.task, "fix-auth", description="newer", sitting=session)
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
from adjourn.clients import client as context; from adjourn.checkpoints import folder; from adjourn.host import keys
from adjourn.host import write_file
from adjourn.checkpoints.checkpoint import create
from adjourn.tasks.task import Task
root, name = sys.argv[1:]
store = context.open_at(root)
task = Task(store, name, clock=context.now, secret=keys.secret())
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
