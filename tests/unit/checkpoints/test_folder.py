"""A checkpoint's folder: it says what the chain says, it verifies itself, and nothing that was changed is taken for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adjourn.checkpoints import folder, folder_verification, folder_writing
from adjourn.checkpoints.audit_log import MAX_AUDIT_BYTES
from adjourn.checkpoints.checkpoint import create, document, find
from adjourn.checkpoints.folder import MAX_JSON_BYTES, is_as_written, path_of
from adjourn.checkpoints.folder_verification import verify
from adjourn.checkpoints.folder_writing import write, write_into
from adjourn.errors import AdjournError, IntegrityError, InvalidError, NotFoundError, RefusedError
from adjourn.host import keys, workspace
from adjourn.knowledge.records.agent_notes import AgentNote, NotedDecision, add
from adjourn.log import kinds
from adjourn.log.canonical import canonical, digest
from adjourn.log.event import Event, decode, encode
from adjourn.log.signing import SignedHead, encode_bytes, fingerprint, public_key, sign
from adjourn.store.base import EMPTY, Entry
from adjourn.store.memory import MemoryStore
from adjourn.tasks.task import Task
from strategies import TASK, Clock, chained, histories
from unit.checkpoints.test_checkpoint import Machine

FILES = ("checkpoint.json", "audit.jsonl")


@pytest.fixture(params=["memory", "sqlite"])
def machine(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Machine]:
    machine = Machine(tmp_path, monkeypatch, store=request.param)
    yield machine
    machine.store.close()


@pytest.fixture
def one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine for what is alike over every store, with a checkpoint."""
    machine = Machine(tmp_path, monkeypatch)
    saved(machine)
    return machine


def saved(machine: Machine) -> None:
    desk = machine.desk()
    machine.work(desk, "file.read", "tests.run", "network.fetch")
    machine.save(desk, description="read the auth files")


def as_json(machine: Machine) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((machine.folder() / FILES[0]).read_bytes())
    return value


# --- what is written


def test_a_folder_holds(machine: Machine) -> None:
    """What is written verifies, says who signed it, and gives back checkpoint, history and ledger."""
    desk = machine.desk()
    session = machine.work(desk, "file.read", "tests.run")
    made = machine.save(desk)
    assert write(machine.store, made, str(machine.root)) == ".aex/checkpoints/fix-auth/"
    verified = verify(str(machine.folder()))
    assert verified.checkpoint == made
    assert list(verified.audit.entries()) == machine.entries(made.event.task)
    assert verified.ledger == session.task.refresh()
    assert (verified.signer, verified.trusted_as) == (fingerprint(keys.own_public_key()), "default")
    assert sorted(os.listdir(machine.folder())) == sorted(FILES)


def test_the_published_fields_come_first(one: Machine) -> None:
    """checkpoint.json has the published fields in the published order, as published, and ours in one member after them."""
    value = as_json(one)
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
    assert ours["document"] == document(one.store, find(one.store, "fix-auth"))
    text = (one.folder() / FILES[0]).read_text()
    assert text.startswith('{\n  "name": "fix-auth",\n')
    assert text.endswith("}\n")


def test_what_there_is_not_is_left_out(one: Machine) -> None:
    """No description and no limit: no such members, as published."""
    one.write_policy("use file.read")
    desk = one.desk("g2")
    one.work(desk, "file.read")
    one.save(desk, "plain", description="")
    assert [*json.loads((one.folder("plain") / FILES[0]).read_bytes())] == [
        "name", "timestamp", "callsUsed", "toolHistory", "adjourn",
    ]  # fmt: skip
    assert verify(str(one.folder("plain"))).file.budget is None


def test_the_audit_log_is_the_stored_bytes(machine: Machine) -> None:
    """One stored event a line, from the first to the checkpoint, each with the published members."""
    saved(machine)
    made = find(machine.store, "fix-auth")
    machine.work(machine.desk(), "file.read")  # later events are not in it
    lines = (machine.folder() / FILES[1]).read_bytes().split(b"\n")
    assert lines.pop() == b""
    assert lines == [entry.data for entry in machine.store.read(made.event.task, 0, made.event.seq + 1)]
    for line in lines:
        assert {"event", "data", "timestamp"} <= json.loads(line).keys()
    assert decode(lines[-1]) == made.event


def test_texts_travel_with_it(one: Machine) -> None:
    """The policy's and the contract's text are in the folder, so that another machine knows both."""
    (one.root / "task.aex").write_text('task t v0\ngoal "mend"\nuse file.read\nreturn 1\n')
    desk = one.desk("g2", contract="task.aex")
    one.work(desk, "file.read")
    one.save(desk)
    extra = verify(str(one.folder())).extra
    assert extra.contract == (one.root / "task.aex").read_text()
    assert extra.policy == (one.root / ".aex" / "policy.aex").read_text()


def test_without_a_policy_text_a_folder_holds(one: Machine) -> None:
    """A session that names no policy's text makes checkpoints that verify."""
    desk = one.desk("g2")
    desk.contract = msgspec.structs.replace(desk.contract, policy_text="")
    one.work(desk, "file.read")
    one.save(desk)
    assert verify(str(one.folder())).extra.policy == ""


def test_a_text_that_was_forgotten_is_missed_at_once(one: Machine) -> None:
    """Rather than writing a folder that cannot hold, writing says what is missing."""
    made = find(one.store, "fix-auth")
    one.store.forget(document(one.store, made)["policy"])
    before = (one.folder() / FILES[0]).read_bytes()
    with pytest.raises(IntegrityError, match=r"the contract or policy \w+ is not in the store"):
        write(one.store, made, str(one.root))
    assert (one.folder() / FILES[0]).read_bytes() == before


def test_a_long_history_is_shown_by_its_end(one: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """toolHistory is bounded; how much it leaves out is said, and held to the chain."""
    for module in (folder, folder_writing, folder_verification):
        monkeypatch.setattr(module, "MAX_HISTORY", 3)
    monkeypatch.setattr(folder_writing, "_PAGE", 2)
    desk = one.desk()
    one.work(desk, *["file.read"] * 4)
    one.save(desk)
    value = as_json(one)
    assert [entry["tool"] for entry in value["toolHistory"]] == ["file.read"] * 3
    assert value["adjourn"]["historyOmitted"] == 4
    verify(str(one.folder()))
    for wrong in (3, 5, 0, -1):
        value["adjourn"]["historyOmitted"] = wrong
        (one.folder() / FILES[0]).write_text(json.dumps(value))
        with pytest.raises(IntegrityError, match=r"adjourn\.historyOmitted is not what was signed"):
            verify(str(one.folder()))


def _plain(data: kinds.Data) -> kinds.Data:
    """Without texts that no store keeps, and sums that no JSON holds."""
    if isinstance(data, kinds.TaskOpened):
        return msgspec.structs.replace(data, contract="")
    if isinstance(data, kinds.SessionOpened | kinds.PolicyChanged):
        return msgspec.structs.replace(data, policy="")
    if isinstance(data, kinds.TaskImported):
        return msgspec.structs.replace(data, calls=min(data.calls, 7))
    return data


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(histories)
def test_whatever_happened_the_folder_holds(
    one: Machine, tmp_path_factory: pytest.TempPathFactory, history: list[tuple[kinds.Data, str]]
) -> None:
    """Any history that a chain may hold can be checkpointed, written, and verified, with the same ledger."""
    store = MemoryStore()
    facts = [(_plain(data), session) for data, session in history] or [(kinds.TaskOpened(), "")]
    store.append(TASK, [Entry(name, stored) for _, name, stored in chained(facts)], expect=EMPTY)
    task = Task(store, TASK, clock=Clock(), secret=b"s" * 32)
    place = tmp_path_factory.mktemp("any")
    folder_writing.write_into(store, create(task, "any"), str(place))
    assert verify(str(place)).ledger == task.refresh()


# --- what was changed by a byte


def holds_as_it_was(place: Path, before: dict[str, Any]) -> bool:
    """Whether a folder is refused, or says in other spelling what it said before."""
    try:
        verify(str(place))
    except AdjournError:
        return True
    return bool(json.loads((place / FILES[0]).read_bytes()) == before)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(FILES), st.floats(0, 1, exclude_max=True), st.integers(0, 255), st.integers(0, 2))
def test_a_changed_byte_is_found(one: Machine, name: str, where: float, byte: int, how: int) -> None:
    """Any byte replaced, inserted or removed: refused, or the same JSON; and in the audit log always refused."""
    place, before = one.folder(), as_json(one)
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
def test_each_byte_counts(one: Machine, name: str) -> None:
    """The same, in order: every byte of a campaign, every 41st otherwise, with its lowest and its case bit flipped."""
    place, before = one.folder(), as_json(one)
    path = place / name
    stored = path.read_bytes()
    step = 1 if os.environ.get("ADJOURN_CAMPAIGN") else 41
    for at in range(0, len(stored), step):
        for bit in (0x01, 0x20):
            path.write_bytes(stored[:at] + bytes([stored[at] ^ bit]) + stored[at + 1 :])
            assert holds_as_it_was(place, before), at


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_was_cut_short_is_refused(one: Machine, name: str) -> None:
    """Wherever it was cut, be it between two lines."""
    path = one.folder() / name
    stored = path.read_bytes()
    lines = [at + 1 for at in range(len(stored) - 1) if stored[at] == 10]
    for end in [0, 1, len(stored) // 2, len(stored) - 2, *lines]:
        path.write_bytes(stored[:end])
        with pytest.raises(AdjournError, match=name):
            verify(str(one.folder()))


# --- what was changed by hand

Edit = Callable[[dict[str, Any]], object]


def put(*path: str, value: object) -> Edit:
    def edit(file: dict[str, Any]) -> None:
        for step in path[:-1]:
            file = file[step]
        file[path[-1]] = value

    return edit


def drop(*path: str) -> Edit:
    def edit(file: dict[str, Any]) -> None:
        for step in path[:-1]:
            file = file[step]
        del file[path[-1]]

    return edit


EDITS: list[tuple[str, Edit, str]] = [
    ("refund", put("callsUsed", value=0), "callsUsed is not what was signed: 0, where the history says 2"),
    ("negative", put("callsUsed", value=-5), "callsUsed is not what was signed: -5"),
    ("huge", put("callsUsed", value=10**12), "callsUsed is not what was signed"),
    ("huger", put("callsUsed", value=10**40), "callsUsed"),
    ("fraction", put("callsUsed", value=2.0), r"Expected `int`, got `float` - at `\$.callsUsed`"),
    ("text for number", put("callsUsed", value="2"), r"at `\$.callsUsed`"),
    ("true for number", put("callsUsed", value=True), r"at `\$.callsUsed`"),
    ("null for number", put("callsUsed", value=None), r"at `\$.callsUsed`"),
    ("no callsUsed", drop("callsUsed"), "missing required field `callsUsed`"),
    ("more budget", put("budget", value=10**6), "budget is not what was signed: 1000000"),
    ("negative budget", put("budget", value=-1), "budget is not what was signed"),
    ("no budget", drop("budget"), "budget is not what was signed"),
    ("text for budget", put("budget", value="20"), r"at `\$.budget`"),
    ("another name", put("name", value="other"), "name is not what was signed"),
    ("no name", drop("name"), "`name`"),
    ("number for name", put("name", value=7), r"at `\$.name`"),
    ("another description", put("description", value="tests pass"), "description is not what was signed"),
    ("no description", drop("description"), "description is not what was signed"),
    ("list for description", put("description", value=["x"]), r"at `\$.description`"),
    ("another time", put("timestamp", value="2027-01-01T00:00:00.000Z"), "timestamp is not what was signed"),
    ("no time", drop("timestamp"), "`timestamp`"),
    ("history dropped", put("toolHistory", value=[]), "toolHistory is not what was signed"),
    ("no history", drop("toolHistory"), "`toolHistory`"),
    ("object for history", put("toolHistory", value={}), r"at `\$.toolHistory`"),
    ("history cut", lambda file: file["toolHistory"].pop(), "toolHistory is not what was signed"),
    ("history whitewashed", lambda file: file["toolHistory"][2].pop("reason"), "toolHistory is not what"),
    ("history embellished", lambda file: file["toolHistory"][0].update(note="ok"), "toolHistory is not what"),
    ("history reordered", lambda file: file["toolHistory"].reverse(), "toolHistory is not what"),
    ("history omitted", put("adjourn", "historyOmitted", value=3), r"adjourn\.historyOmitted is not what"),
    ("not ours", drop("adjourn"), "has the published fields only"),
    ("null for ours", put("adjourn", value=None), "has the published fields only"),
    ("another format", put("adjourn", "format", value="adjourn/checkpoint/2"), "has format 'adjourn/checkpoint/2'"),
    ("another task", put("adjourn", "task", value="20260502-00000000"), r"adjourn\.task is not that of audit"),
    ("a path for task", put("adjourn", "task", value="../../etc"), "not a task id"),
    ("another hash", put("adjourn", "hash", value="f" * 64), r"adjourn\.hash is not that of event 7"),
    ("no hash", put("adjourn", "hash", value=""), r"adjourn\.hash is not that of event 7"),
    ("an earlier place", put("adjourn", "seq", value=6), r"adjourn\.hash is not that of event 6"),
    ("a later place", put("adjourn", "seq", value=8), "has 8 events, not the 9 that it must have"),
    ("no place", put("adjourn", "seq", value=-1), "has 8 events, not the 0"),
    ("a place far out", put("adjourn", "seq", value=10**30), "has 8 events, not the"),
    ("a document that refunds", put("adjourn", "document", "callsUsed", value=0), r"adjourn\.document is not what"),
    ("a document with more", put("adjourn", "document", "note", value=1), r"adjourn\.document is not what"),
    ("a document with less", drop("adjourn", "document", "tools"), r"adjourn\.document is not what"),
    ("a document no JSON holds", put("adjourn", "document", "x", value=2**60), r"adjourn\.document is not what"),
    ("a list for document", put("adjourn", "document", value=[]), r"at `\$.adjourn.document`"),
    ("another key", put("adjourn", "publicKey", value=encode_bytes(b"x" * 32)), "was not signed by ed25519:"),
    ("a short key", put("adjourn", "publicKey", value=encode_bytes(b"x")), r"adjourn\.publicKey is no key"),
    ("no key", put("adjourn", "publicKey", value=""), r"adjourn\.publicKey is no key"),
    ("a wider policy", put("adjourn", "policy", value="policy p v0\nuse *\n"), r"adjourn\.policy is not what"),
    ("no policy", drop("adjourn", "policy"), r"adjourn\.policy is not what"),
    ("a contract", put("adjourn", "contract", value="task t v0\nuse *\n"), r"adjourn\.contract is not what"),
]  # fmt: skip
"""What somebody may change in checkpoint.json, and the reason for which it is refused."""


@pytest.mark.parametrize(("edit", "reason"), [row[1:] for row in EDITS], ids=[row[0] for row in EDITS])
def test_an_edited_field_is_refused_by_name(one: Machine, edit: Edit, reason: str) -> None:
    """Each field is held to its type and to the chain, and the refusal says which it was."""
    value = as_json(one)
    edit(value)
    (one.folder() / FILES[0]).write_text(json.dumps(value))
    with pytest.raises(InvalidError, match=reason) as refusal:
        verify(str(one.folder()))
    assert refusal.value.remedy or "task id" in reason


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "7", '"x"', "null", "{}", "[" * 100_000, '{"name":"\\ud800"}', '{"a":1}x', "\ufeff{}"],
)
def test_what_is_no_checkpoint_is_refused(one: Machine, text: str) -> None:
    """Other JSON, and what is none, is said to be no checkpoint."""
    (one.folder() / FILES[0]).write_text(text)
    with pytest.raises(InvalidError, match=r"checkpoint\.json is not a checkpoint"):
        verify(str(one.folder()))


def test_the_rules_are_tested_in_their_order(one: Machine) -> None:
    """Of several faults the one is told whose rule comes first (spec/events.md, rule 7.7)."""
    path = one.folder() / FILES[0]
    faults: list[tuple[Edit, str]] = [
        (put("adjourn", "policy", value="use *"), r"adjourn\.policy is"),
        (put("adjourn", "contract", value="use *"), r"adjourn\.contract is"),
        (put("adjourn", "document", "goal", value="another"), r"adjourn\.document is"),
        (put("adjourn", "historyOmitted", value=1), r"adjourn\.historyOmitted is"),
        (put("toolHistory", value=[]), "toolHistory is"),
        (put("budget", value=1), "budget is"),
        (put("callsUsed", value=1), "callsUsed is"),
        (put("timestamp", value=""), "timestamp is"),
        (put("description", value=""), "description is"),
        (put("name", value="another"), "name is"),
        (put("adjourn", "publicKey", value=encode_bytes(b"x" * 32)), "was not signed by"),
        (put("adjourn", "task", value="another"), r"adjourn\.task is"),
        (put("adjourn", "hash", value="f" * 64), r"adjourn\.hash is"),
        (put("adjourn", "task", value=".."), "not a task id"),
        (put("adjourn", "format", value="adjourn/checkpoint/9"), "has format"),
        (put("callsUsed", value=None), r"at `\$\.callsUsed`"),
    ]
    value = as_json(one)
    for edit, reason in faults:
        edit(value)
        path.write_text(json.dumps(value))
        with pytest.raises(AdjournError, match=reason):
            verify(str(one.folder()))


def test_another_layout_is_the_same_checkpoint(one: Machine) -> None:
    """White space and the order of members say nothing."""
    value = as_json(one)
    (one.folder() / FILES[0]).write_text(json.dumps(dict(reversed(value.items())), indent=7))
    assert verify(str(one.folder())).checkpoint == find(one.store, "fix-auth")


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda lines: lines[:-1], "has 7 events, not the 8 that it must have"),
        (lambda lines: [], "has 0 events"),
        (lambda lines: [*lines[:3], *lines[4:]], "breaks at line 4: parent-mismatch"),
        (lambda lines: [*lines[:3], *lines[4:], b"{}"], "breaks at line 4: parent-mismatch"),
        (lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]], "breaks at line 3: parent-mismatch"),
        (lambda lines: [lines[0], *lines], "breaks at line 2: parent-mismatch"),
        (lambda lines: [*lines, b""], "breaks at line 9: parent-mismatch"),
        (lambda lines: [*lines, b"{}"], "breaks at line 9: parent-mismatch"),
        (lambda lines: [*lines, lines[-1]], "breaks at line 9: parent-mismatch"),
        (lambda lines: [line + b"\r" for line in lines], "breaks at line 2: parent-mismatch"),
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
    one: Machine, edit: Callable[[list[bytes]], list[bytes]], reason: str
) -> None:
    """Lines that are missing, moved or added are found, and the refusal says where."""
    path = one.folder() / FILES[1]
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"".join(line + b"\n" for line in edit(lines)))
    with pytest.raises(IntegrityError, match=rf"audit\.jsonl.*{reason}"):
        verify(str(one.folder()))


def test_the_audit_log_of_another_task_is_refused(one: Machine) -> None:
    """Both files must be of one task, however well each of them holds."""
    desk = one.desk("g2")
    one.work(desk, *["file.read"] * 3)
    one.save(desk, "other")
    stored = (one.folder("other") / FILES[1]).read_bytes()
    (one.folder() / FILES[1]).write_bytes(stored)
    with pytest.raises(IntegrityError, match=r"adjourn\.hash is not that of event 7 in audit\.jsonl"):
        verify(str(one.folder()))


def test_later_events_of_the_chain_do_not_count(one: Machine) -> None:
    """A crash between both files leaves a longer audit log: the checkpoint is what it was."""
    before = verify(str(one.folder()))
    one.work(one.desk(), "file.read")
    more = b"".join(entry.data + b"\n" for entry in one.entries(before.extra.task))
    (one.folder() / FILES[1]).write_bytes(more)
    after = verify(str(one.folder()))
    assert after == before


class Forger:
    """Someone with a key of their own who rewrites a folder until all of it holds together."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.private = b"f" * 32
        self.file = folder.read_published(str(place)).file
        assert self.file.adjourn is not None
        self.extra = self.file.adjourn
        self.events = [decode(line) for line in (place / FILES[1]).read_bytes().splitlines()]

    def write(self, stated: dict[str, Any], **changes: Any) -> None:
        lines: list[bytes] = []
        after = self.events[0].after
        for event in self.events[:-1]:
            after, stored = encode(msgspec.structs.replace(event, after=after))
            lines.append(stored)
        last = self._signed(after, stated, lines)
        head, stored = encode(last)
        extra = msgspec.structs.replace(
            self.extra,
            seq=last.seq,
            hash=head,
            document=stated,
            public_key=encode_bytes(public_key(self.private)),
        )
        file = msgspec.structs.replace(self.file, adjourn=extra, **changes)
        (self.place / FILES[1]).write_bytes(b"".join(line + b"\n" for line in [*lines, stored]))
        (self.place / FILES[0]).write_bytes(msgspec.json.encode(file))

    def _signed(self, after: str, stated: dict[str, Any], lines: list[bytes]) -> Event:
        from adjourn.log.merkle import root  # noqa: PLC0415  # beside its only use

        last = self.events[-1]
        data = kinds.data_of(last)
        assert isinstance(data, kinds.CheckpointCreated)
        top = root([bytes.fromhex(digest(line)) for line in lines]).hex()
        head = SignedHead(
            after=after,
            document=digest(canonical(stated)),
            name=data.name,
            root=top,
            seq=len(lines),
            task=last.task,
            timestamp=last.timestamp,
        )
        signed = msgspec.structs.replace(
            data,
            document=head.document,
            key=fingerprint(public_key(self.private)),
            root=top,
            signature=sign(self.private, head),
        )
        return msgspec.structs.replace(
            last, after=after, data=msgspec.Raw(msgspec.json.encode(signed)), seq=len(lines)
        )


def test_a_forgery_that_holds_is_not_trusted(one: Machine) -> None:
    """Signed anew with another key, all of it holds; but that key is nobody's here."""
    forger = Forger(one.folder())
    forger.write(forger.extra.document)
    verified = verify(str(one.folder()))
    assert (verified.signer, verified.trusted_as) == (fingerprint(public_key(b"f" * 32)), "")


def test_even_a_signer_cannot_state_what_did_not_happen(one: Machine) -> None:
    """A signed document that refunds calls is refused: it does not follow from the events that were signed with it."""
    forger = Forger(one.folder())
    forger.write(forger.extra.document | {"callsUsed": 0})
    with pytest.raises(IntegrityError, match=r"adjourn\.document is not what was signed"):
        verify(str(one.folder()))
    forger.write(forger.extra.document | {"callsUsed": 0}, calls_used=0)
    with pytest.raises(IntegrityError, match="callsUsed is not what was signed"):
        verify(str(one.folder()))


def test_a_signed_root_is_held_to_the_events(one: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signature over another root than that of the audit log is refused."""
    forger = Forger(one.folder())
    monkeypatch.setattr("adjourn.log.merkle.root", lambda leaves: b"r" * 32)
    forger.write(forger.extra.document)
    with pytest.raises(IntegrityError, match=r"the signed Merkle root is not that of audit\.jsonl"):
        verify(str(one.folder()))


# --- what is no plain file


@pytest.mark.parametrize("name", FILES)
def test_only_plain_files_of_a_sane_size_are_read(one: Machine, name: str) -> None:
    """A link, a pipe, a folder and a huge file in the place of either file are refused, and nothing hangs."""
    path = one.folder() / name
    kept = one.root / "kept"
    path.rename(kept)
    with pytest.raises(NotFoundError, match=f"{name} does not exist"):
        verify(str(one.folder()))
    path.symlink_to(kept)
    with pytest.raises(InvalidError, match=f"cannot read .*{name}"):
        verify(str(one.folder()))
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InvalidError, match=f"{name} is not a regular file"):
        verify(str(one.folder()))
    path.unlink()
    path.mkdir()
    with pytest.raises(InvalidError, match=f"{name} is not a regular file"):
        verify(str(one.folder()))
    path.rmdir()
    with path.open("wb") as file:
        file.truncate(1 + (MAX_JSON_BYTES if name == FILES[0] else MAX_AUDIT_BYTES))
    with pytest.raises(InvalidError, match=f"{name} is not a regular file of at most"):
        verify(str(one.folder()))


@pytest.mark.parametrize("place", [".aex/checkpoints/fix-auth", ".aex/checkpoints", ".aex"])
@pytest.mark.parametrize("target", ["inside", "outside"])
def test_no_folder_is_reached_by_a_link(one: Machine, tmp_path: Path, place: str, target: str) -> None:
    """Neither for reading nor for writing, wherever it leads."""
    made = find(one.store, "fix-auth")
    real = one.root / place
    moved = (one.root if target == "inside" else tmp_path) / "moved"
    real.rename(moved)
    real.symlink_to(moved)
    for attempt in (
        lambda: path_of(str(one.root), "fix-auth"),
        lambda: is_as_written(one.store, str(one.root), "fix-auth"),
        lambda: write(one.store, made, str(one.root)),
    ):
        with pytest.raises(RefusedError, match=r"(is reached by|is a|is outside)"):
            attempt()


def test_a_link_in_the_place_of_a_file_is_replaced(one: Machine) -> None:
    """Writing touches nothing that a link points at."""
    target = one.root / "precious"
    target.write_text("mine")
    for name in FILES:
        (one.folder() / name).unlink()
        (one.folder() / name).symlink_to(target)
    write(one.store, find(one.store, "fix-auth"), str(one.root))
    assert target.read_text() == "mine"
    verify(str(one.folder()))


# --- as written, or not


def test_whether_it_is_as_written(machine: Machine) -> None:
    """Yes after writing; no after an edit, until it is written again; None when there is no such file."""
    saved(machine)
    root, path = str(machine.root), machine.folder() / FILES[0]
    assert is_as_written(machine.store, root, "fix-auth") is True
    path.write_bytes(path.read_bytes() + b"\n")
    assert is_as_written(machine.store, root, "fix-auth") is False
    write(machine.store, find(machine.store, "fix-auth"), root)
    assert is_as_written(machine.store, root, "fix-auth") is True
    path.unlink()
    assert is_as_written(machine.store, root, "fix-auth") is None


def test_the_signer_must_be_known_to_write(one: Machine, tmp_path: Path) -> None:
    """Without the public key no folder can be made; the refusal says which key and how to have it."""
    made = find(one.store, "fix-auth")
    Machine(tmp_path / "elsewhere", one.patch)
    with pytest.raises(NotFoundError, match=rf"the key {made.data.key} .*`adjourn keys trust` adds it"):
        write(one.store, made, str(one.root))


# --- crashes and races


class Killed(BaseException):
    """The process is gone: nothing it still does reaches the disk."""


class Kill:
    """Ends the process, as far as the disk is concerned, before the n-th call that changes it."""

    CALLS = ("mkdir", "open", "fsync", "rename", "unlink", "rmdir")

    def __init__(self, patch: pytest.MonkeyPatch, after: int) -> None:
        self.left = after
        for name in self.CALLS:
            patch.setattr(os, name, self.killing(getattr(os, name)))

    def killing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **options: Any) -> Any:
            if self.left <= 0:
                raise Killed
            self.left -= 1
            return call(*args, **options)

        return step


def each_step(begin: Callable[[], object], act: Callable[[], object], check: Callable[[], object]) -> int:
    """Do something killed before each of its steps in turn, each time from the same beginning. Returns how many there are."""
    for step in range(300):
        begin()
        with pytest.MonkeyPatch.context() as patch:
            kill = Kill(patch, step)
            try:
                act()
            except Killed:
                pass
            else:
                if kill.left > 0:
                    return step
        check()
    raise AssertionError("it never ends")


def kill_at_each_step(one: Machine, check: Callable[[], object], begin: Callable[[], object]) -> int:
    """Write the checkpoint, killed before each step in turn."""
    made = find(one.store, "fix-auth")
    return each_step(begin, lambda: write(one.store, made, str(one.root)), check)


def test_a_kill_leaves_the_old_version_or_the_new_one(one: Machine) -> None:
    """Killed at any step of overwriting a version of the same task, the folder holds and is one of the two."""
    old = find(one.store, "fix-auth")
    before = {name: (one.folder() / name).read_bytes() for name in FILES}
    desk = one.desk()
    one.work(desk, "file.read")
    session = desk.session()
    new = create(session.task, "fix-auth", sitting=session)
    seen = set()

    def begin() -> None:
        for name, data in before.items():
            (one.folder() / name).write_bytes(data)

    def check() -> None:
        verified = verify(str(one.folder()))
        assert verified.checkpoint in (old, new)
        seen.add(verified.checkpoint.hash)
        write(one.store, new, str(one.root))
        assert verify(str(one.folder())).checkpoint == new

    assert kill_at_each_step(one, check, begin) > 10
    assert seen == {old.hash, new.hash}


def test_a_kill_leaves_what_was_known_with_its_version(one: Machine) -> None:
    """The same where notes go along: the old version with the old notes, or the new with the new, and no others stay."""
    desk = one.desk()
    one.work(desk, "file.read")
    session = desk.session()
    made = []
    for fact in ("the token is checked twice", "once is enough"):
        add(session, AgentNote(facts=(fact,), decisions=(NotedDecision(decision=fact),)))
        made.append(create(session.task, "fix-auth", sitting=session))
        if len(made) == 1:
            write(one.store, made[0], str(one.root))
    before = {path.name: path.read_bytes() for path in one.folder().iterdir()}
    seen = set()

    def begin() -> None:
        for path in one.folder().iterdir():
            path.unlink()
        for name, data in before.items():
            (one.folder() / name).write_bytes(data)

    def check() -> None:
        verified = verify(str(one.folder()))
        seen.add(verified.checkpoint.hash)
        assert verified.known.cognition is not None
        facts = [fact["content"] for fact in verified.known.cognition["epistemicState"]["facts"]]
        assert len(facts) == [made[0], made[1]].index(verified.checkpoint) + 1
        write(one.store, made[1], str(one.root))
        assert verify(str(one.folder())).checkpoint == made[1]
        assert len([name for name in os.listdir(one.folder()) if name[0] != "."]) == 4

    kill_at_each_step(one, check, begin)
    assert seen == {made[0].hash, made[1].hash}


def test_a_kill_never_mixes_two_tasks(one: Machine) -> None:
    """Killed while a folder of another task is replaced, there is the old one, the new one, or none; never a mixture."""
    old = find(one.store, "fix-auth")
    before = {name: (one.folder() / name).read_bytes() for name in FILES}
    desk = one.desk("g2")
    one.work(desk, "file.read")
    session = desk.session()
    new = create(session.task, "fix-auth", sitting=session)
    seen = set()

    def begin() -> None:
        for name, data in before.items():
            (one.folder() / name).write_bytes(data)

    def check() -> None:
        try:
            verified = verify(str(one.folder()))
        except NotFoundError:
            seen.add("none")
        else:
            assert verified.checkpoint in (old, new)
            seen.add(verified.checkpoint.hash)

    kill_at_each_step(one, check, begin)
    assert seen == {old.hash, "none", new.hash}


def test_a_kill_never_mixes_a_longer_history_with_a_shorter_one(one: Machine) -> None:
    """A folder that was brought is ahead of the store: killed while it is written over, it is as it was, the store's, or none."""
    here = find(one.store, "fix-auth")
    one.work(desk := one.desk(), "file.read")
    brought = create(desk.session().task, "fix-auth", sitting=desk.session())
    seen = set()

    def check() -> None:
        try:
            seen.add(verify(str(one.folder())).checkpoint.hash)
        except NotFoundError:
            seen.add("none")

    each_step(
        begin=lambda: write(one.store, brought, str(one.root)),
        act=lambda: write_into(one.store, here, str(one.folder())),
        check=check,
    )
    assert seen == {brought.hash, "none", here.hash}


def test_a_kill_of_the_first_writing_leaves_nothing_or_all(one: Machine) -> None:
    """Without an earlier version: a whole folder, or none that could be read; and the next writing mends it."""
    import shutil  # noqa: PLC0415  # beside its only use

    made = find(one.store, "fix-auth")
    outcomes = set()

    def check() -> None:
        try:
            outcomes.add(verify(str(one.folder())).checkpoint.hash)
        except NotFoundError:
            outcomes.add("none")

    kill_at_each_step(
        one, check, lambda: shutil.rmtree(one.root / ".aex" / "checkpoints", ignore_errors=True)
    )
    assert outcomes == {"none", made.hash}


def test_two_writers_take_turns(one: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one process is between both files, another one waits; the newest version is what stays."""
    old = find(one.store, "fix-auth")
    session = one.desk().session()
    between, go_on = threading.Event(), threading.Event()
    real = workspace.write_file

    def slow(place: str, name: str, chunks: object) -> None:
        if name == FILES[0] and not between.is_set():
            between.set()
            assert go_on.wait(10)
        real(place, name, chunks)

    monkeypatch.setattr(folder_writing, "write_file", slow)
    first = threading.Thread(target=write, args=(one.store, old, str(one.root)))
    first.start()
    assert between.wait(10)
    new = create(session.task, "fix-auth", description="newer", sitting=session)
    second = threading.Thread(target=write, args=(one.store, new, str(one.root)))
    second.start()
    second.join(0.1)
    assert second.is_alive()
    go_on.set()
    first.join()
    second.join()
    assert verify(str(one.folder())).checkpoint == new
    write(one.store, old, str(one.root))  # one that came late
    assert verify(str(one.folder())).checkpoint == new
    assert is_as_written(one.store, str(one.root), "fix-auth") is True


RIVAL = """
import sys
from adjourn.clients import client as desk; from adjourn.checkpoints import folder_writing; from adjourn.host import keys
from adjourn.checkpoints.checkpoint import create
from adjourn.tasks.task import Task
root, name = sys.argv[1:]
store = desk.open_at(root)
task = Task(store, name, clock=desk.now, secret=keys.secret())
sys.stdin.readline()
for _ in range(15):
    folder_writing.write(store, create(task, "fix-auth"), root)
"""


def test_two_processes_that_save_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After both have written the same name many times, the folder holds, and is the newest."""
    machine = Machine(tmp_path, monkeypatch, store="sqlite")
    saved(machine)
    task = find(machine.store, "fix-auth").event.task
    command = [sys.executable, "-c", RIVAL, str(machine.root), task]
    rivals = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(2)]
    for rival in rivals:
        rival.communicate(b"go\n", timeout=60)
        assert rival.returncode == 0
    assert len(machine.facts(task, kinds.CheckpointCreated)) == 31
    assert verify(str(machine.folder())).checkpoint == find(machine.store, "fix-auth")
    assert is_as_written(machine.store, str(machine.root), "fix-auth") is True
    assert sorted(os.listdir(machine.folder())) == sorted(FILES)
    machine.store.close()


def test_a_checkpoint_of_this_name(one: Machine) -> None:
    """A folder that was copied to another name is not a checkpoint of that name."""
    assert folder_verification.verify_named(str(one.root), "fix-auth").checkpoint == find(
        one.store, "fix-auth"
    )
    one.folder().rename(one.folder("safe"))
    with pytest.raises(IntegrityError, match=r'checkpoints/safe holds checkpoint "fix-auth"'):
        folder_verification.verify_named(str(one.root), "safe")
