"""A checkpoint folder in the published format: a person imports it, nothing of it is verified, and nothing of it is lost."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from adjourn.checkpoints import folder, folder_verification
from adjourn.errors import InvalidError, RefusedError
from adjourn.handover.foreign.reading import MAX_CALLS, MAX_LINE_BYTES, read_work
from adjourn.handover.foreign.work import MAX_ENTRIES, ImportedWork, import_work
from adjourn.log import kinds
from adjourn.log.canonical_json import digest
from adjourn.verification.verify import verify_store
from support.workspace import ANN, Workspace

PUBLISHED: dict[str, Any] = {
    "name": "fix-auth",
    "description": "Read auth files, identified the bug in token validation",
    "timestamp": "2026-05-02T15:30:12.345Z",
    "callsUsed": 5,
    "budget": 100,
    "toolHistory": [
        {"tool": "file.read", "timestamp": "2026-05-02T15:28:00Z", "decision": "forward"},
        {"tool": "tests.run", "timestamp": "2026-05-02T15:29:00Z", "decision": "forward"},
        {"tool": "network.fetch", "timestamp": "2026-05-02T15:29:30Z", "decision": "block", "reason": "deny_list"},
    ],
}  # fmt: skip


def published(workspace: Workspace, **changes: object) -> Path:
    workspace.folder().mkdir(parents=True, exist_ok=True)
    (workspace.folder() / "checkpoint.json").write_text(json.dumps(PUBLISHED | changes, indent=2))
    return workspace.folder()


def test_the_published_format_is_not_resumed_by_itself(memory_workspace: Workspace) -> None:
    """A folder in the published format needs a person's import, because nothing in it can be verified."""
    published(memory_workspace)
    with pytest.raises(InvalidError, match=r"published fields only.*adjourn checkpoint import"):
        memory_workspace.resume(memory_workspace.context())
    assert memory_workspace.everything()[0] == {}


def test_a_person_can_import_the_published_format(workspace: Workspace) -> None:
    """It becomes a task that says who took it in, from which file, with what it says is spent; then it can be resumed."""
    place = published(workspace)
    stored = (place / "checkpoint.json").read_bytes()
    made = import_work(workspace.task("t1"), str(workspace.root), read_work(str(place)), ANN).checkpoint
    opened, imported, *_ = workspace.events("t1")
    assert (opened.by, imported.by, made.event.by) == (ANN, ANN, ANN)
    assert workspace.facts("t1", kinds.TaskImported) == [
        kinds.TaskImported(at=PUBLISHED["timestamp"], budget=100, calls=5, document=digest(stored), source="aex")
    ]
    assert workspace.store.get_blob(digest(stored)) == stored
    assert made.data.trigger == "import"
    folder.write(workspace.store, made, str(workspace.root))
    answer = workspace.resume(workspace.context())
    assert (answer["callsUsed"], answer["budgetRemaining"]) == (5, 15)
    assert answer["description"] == PUBLISHED["description"]
    assert answer["imported"]["at"] == PUBLISHED["timestamp"], "an import keeps the age of what it imports"
    assert folder_verification.verify(str(place)).file.calls_used == 5


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"callsUsed": -1}, "callsUsed or budget is outside 0"),
        ({"callsUsed": MAX_CALLS + 1}, "callsUsed or budget is outside 0"),
        ({"callsUsed": 10**30}, "callsUsed or budget is outside 0"),
        ({"callsUsed": "5"}, r"at `\$.callsUsed`"),
        ({"callsUsed": 5.5}, r"at `\$.callsUsed`"),
        ({"budget": -1}, "callsUsed or budget is outside 0"),
        ({"budget": "no"}, r"at `\$.budget`"),
        ({"name": "../x"}, "not a checkpoint name"),
        ({"name": ["x"]}, r"at `\$.name`"),
        ({"description": {"x": 1}}, r"at `\$.description`"),
        ({"description": "x" * 10_001}, "the description is too long: 10001 characters"),
        ({"description": "x" * 100_000}, "the description is too long: 100000 characters"),
        ({"toolHistory": "none"}, r"at `\$.toolHistory`"),
    ],
)
def test_values_out_of_range_are_not_imported(
    memory_workspace: Workspace, changes: dict[str, Any], reason: str
) -> None:
    """They are refused by name, and no task is begun."""
    place = published(memory_workspace, **changes)
    with pytest.raises(InvalidError, match=reason):
        read_work(str(place))
    assert memory_workspace.everything() == ({}, {})


@pytest.mark.parametrize("used", [0, MAX_CALLS])
def test_the_ends_of_the_range_are_imported(memory_workspace: Workspace, used: int) -> None:
    """Nothing, and as much as may be."""
    work = read_work(str(published(memory_workspace, callsUsed=used, budget=MAX_CALLS)))
    made = import_work(memory_workspace.task("t1"), str(memory_workspace.root), work, ANN).checkpoint
    assert memory_workspace.task("t1").ledger.calls_used == max(used, 2)  # the history has two calls
    assert made.data.name == "fix-auth"


AUDIT = (
    {"event": "tools.filtered", "data": {"total": 9, "allowed": 3}, "timestamp": "2026-05-02T15:27:00.000Z"},
    {"event": "tool.allowed", "data": {"tool": "tests.run"}, "timestamp": "2026-05-02T15:29:00.001Z"},
    {"event": "tool.denied", "data": {"tool": "network.fetch", "reason": "deny_list"}, "timestamp": "2026-05-02T15:29:30Z"},
    {"event": "confirm.required", "data": {"tool": "deploy"}, "timestamp": "2026-05-02T15:29:40.000Z"},
    {"event": "upstream.crashed", "data": {"code": 3, "signal": None}, "timestamp": "2026-05-02T15:29:50.000Z"},
)  # fmt: skip


def with_audit(place: Path, *lines: object, end: str = "\n") -> Path:
    (place / "audit.jsonl").write_bytes("".join(json.dumps(line) + end for line in lines or AUDIT).encode())
    return place


def imported(workspace: Workspace, place: Path) -> ImportedWork:
    return import_work(workspace.task("t1"), str(workspace.root), read_work(str(place)), ANN)


def entries(workspace: Workspace) -> list[tuple[str, str, str, str]]:
    found = workspace.facts("t1", kinds.EntryImported)
    return [(one.entry, one.tool, one.decision, one.reason) for one in found]


def test_the_history_is_taken_in_and_marked_as_not_verified(memory_workspace: Workspace) -> None:
    """Entries of toolHistory and the audit lines beyond them become events in the order of time, each once."""
    place = with_audit(published(memory_workspace))
    audit = (place / "audit.jsonl").read_bytes()
    imported(memory_workspace, place)
    assert entries(memory_workspace) == [
        ("tools.filtered", "", "", '{"total":9,"allowed":3}'),
        ("tool.allowed", "file.read", "forward", ""),
        ("tool.allowed", "tests.run", "forward", ""),
        ("tool.denied", "network.fetch", "block", "deny_list"),
        ("confirm.required", "deploy", "block", "confirm_required"),
        ("upstream.crashed", "", "", '{"code":3,"signal":null}'),
    ]
    (fact,) = memory_workspace.facts("t1", kinds.TaskImported)
    assert memory_workspace.store.get_blob(fact.audit) == audit
    told = memory_workspace.resume(memory_workspace.context())
    assert told["toolsCalled"] == ["file.read", "tests.run"]
    assert (told["callsUsed"], told["budgetRemaining"]) == (5, 15)
    assert {entry["data"]["outcome"] for entry in told["auditSummary"]} == {"allowed there (imported, not verified)"}
    assert "network.fetch: refused there (imported, not verified): deny_list" in told["refused"]
    (warning,) = verify_store(memory_workspace.store).findings
    assert warning.finding.severity == "warning"
    assert warning.finding.message == "imported from aex, not verified: 6 entries"


def test_the_folder_written_after_an_import_has_the_same_tool_history(memory_workspace: Workspace) -> None:
    """Tools, times, decisions and reasons of toolHistory, the count and the budget are in the signed folder as they were."""
    place = published(memory_workspace)
    imported(memory_workspace, place)
    file = folder_verification.verify(str(place)).file
    assert file.tool_history == PUBLISHED["toolHistory"]
    assert (file.calls_used, file.budget) == (5, 100)


def test_the_original_files_are_kept_beside_the_folder(memory_workspace: Workspace) -> None:
    """In NAME.imported, byte for byte, and once; the import says where. A name like this is no checkpoint's."""
    place = with_audit(published(memory_workspace))
    before = {name: (place / name).read_bytes() for name in ("checkpoint.json", "audit.jsonl")}
    made = imported(memory_workspace, place)
    kept = place.parent / "fix-auth.imported"
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == before
    (note,) = made.notes
    assert note.endswith("did not write; a copy of them is in .aex/checkpoints/fix-auth.imported/")
    folder.write(memory_workspace.store, made.checkpoint, str(memory_workspace.root))
    assert sorted(path.name for path in place.parent.iterdir()) == ["fix-auth", "fix-auth.imported"]


def test_a_checkpoint_of_the_same_name_keeps_a_folder_that_nobody_imported(memory_workspace: Workspace) -> None:
    """An agent that saves under the name of a published folder does not destroy it; a second one gets a name of its own."""
    for number, description in ((1, "one"), (2, "two")):
        place = published(memory_workspace, description=description)
        original = (place / "checkpoint.json").read_bytes()
        context = memory_workspace.context()
        memory_workspace.work(context, "file.read")
        memory_workspace.save(context)
        copy = place.parent / ("fix-auth.imported" + (f"-{number}" if number > 1 else ""))
        assert (copy / "checkpoint.json").read_bytes() == original
    assert folder_verification.verify(str(place)).checkpoint.data.name == "fix-auth"


def test_a_link_in_place_of_the_copy_is_not_followed(memory_workspace: Workspace, tmp_path: Path) -> None:
    """The copy is refused, and neither the target of the link nor the folder changes."""
    place = published(memory_workspace)
    (tmp_path / "elsewhere").mkdir()
    os.symlink(tmp_path / "elsewhere", place.parent / "fix-auth.imported")
    context = memory_workspace.context()
    memory_workspace.work(context, "file.read")
    with pytest.raises(RefusedError):
        memory_workspace.save(context)
    assert not list((tmp_path / "elsewhere").iterdir())
    assert json.loads((place / "checkpoint.json").read_text()) == PUBLISHED


def test_calls_that_the_history_has_are_counted(memory_workspace: Workspace) -> None:
    """A count that is lower than the forwarded calls of the history refunds nothing, and the import says so."""
    place = with_audit(published(memory_workspace, callsUsed=0), *AUDIT, AUDIT[1])
    work = read_work(str(place))
    assert work.calls == 3
    assert "callsUsed 0: the history has 3 calls, which count" in work.left_out


def test_null_where_a_member_may_be_absent_is_absent(memory_workspace: Workspace) -> None:
    """A checkpoint.json with null for description, budget and reason reads as one without them."""
    history = [{"tool": "t", "timestamp": "x", "decision": "forward", "reason": None}]
    work = read_work(str(published(memory_workspace, description=None, budget=None, adjourn=None, toolHistory=history)))
    assert (work.description, work.budget, work.entries[0].reason) == ("", None, "")


def test_a_duplicate_key_is_refused_by_its_name(memory_workspace: Workspace) -> None:
    """Readers differ on which of the two counts, so neither does. So do keys that differ in case only."""
    place = published(memory_workspace)
    path = place / "checkpoint.json"
    for twice, reason in (
        ('"callsUsed": 0,', "key 'callsUsed' appears twice"),
        ('"callsused": 0,', "keys 'callsused' and 'callsUsed' of one object are the same"),
    ):
        path.write_text(json.dumps(PUBLISHED).replace("{", "{" + twice, 1))
        with pytest.raises(InvalidError, match=reason):
            read_work(str(place))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "line 2 of .*audit.jsonl is malformed"),
        (b"[1]", "line 2 of .*audit.jsonl is malformed"),
        (b'{"event": 5}', r"line 2 of .*audit.jsonl is malformed: .*`\$.event`"),
        (b'{"event": "a", "event": "b"}', "line 2 of .*: key 'event' appears twice"),
        (b'{"event": "\xff"}', "line 2 of .*audit.jsonl is malformed"),
        (b'{"event": "a", "data": ' + b"[" * 5000 + b"]" * 5000 + b"}", "line 2 of .*audit.jsonl is malformed"),
        (b'{"event": "' + b"a" * MAX_LINE_BYTES + b'"}', "line 2 of .*more than 65536 bytes"),
    ],
    ids=["cut", "list", "type", "twice", "utf-8", "deep", "long"],
)
def test_a_hostile_line_of_the_audit_log_is_refused(memory_workspace: Workspace, line: bytes, reason: str) -> None:
    """The refusal names the line, and no task is begun."""
    place = published(memory_workspace)
    (place / "audit.jsonl").write_bytes(b'{"event":"tool.allowed"}\n' + line + b"\n")
    with pytest.raises(InvalidError, match=reason):
        read_work(str(place))


def test_a_pipe_or_a_link_in_the_folder_is_refused(memory_workspace: Workspace, tmp_path: Path) -> None:
    """Nothing waits for a writer, and nothing outside of the folder is read."""
    place = published(memory_workspace)
    os.mkfifo(place / "audit.jsonl")
    with pytest.raises(InvalidError, match="not a regular file"):
        read_work(str(place))
    (place / "audit.jsonl").unlink()
    (tmp_path / "secret").write_text("{}")
    os.symlink(tmp_path / "secret", place / "audit.jsonl")
    with pytest.raises(InvalidError, match="symbolic link"):
        read_work(str(place))


def test_crlf_in_a_published_audit_log_is_read(memory_workspace: Workspace) -> None:
    """No hash covers these lines, so that converted line endings change nothing."""
    place = with_audit(published(memory_workspace), end="\r\n")
    assert len(read_work(str(place)).entries) == 6


def test_a_long_history_is_bounded(memory_workspace: Workspace) -> None:
    """The newest entries become events; the calls of the others are counted, and the import says how many are left out."""
    history = [{"tool": f"t{number}", "timestamp": "", "decision": "forward"} for number in range(MAX_ENTRIES + 7)]
    work = read_work(str(published(memory_workspace, toolHistory=history)))
    assert (len(work.entries), work.entries[0].tool, work.calls) == (MAX_ENTRIES, "t7", MAX_ENTRIES + 7)
    assert "7 oldest entries: only in the kept files" in work.left_out


def test_secrets_in_a_history_are_not_stored_in_events(memory_workspace: Workspace) -> None:
    """What has the shape of a secret is replaced in tools, reasons and descriptions."""
    secret = "ghp_" + "a1B2" * 9
    history = [{"tool": secret, "timestamp": secret, "decision": "block", "reason": f"token {secret}"}]
    place = published(memory_workspace, toolHistory=history, description=f"use {secret}")
    imported(memory_workspace, place)
    assert not any(secret.encode() in entry.data for entry in memory_workspace.entries("t1"))
