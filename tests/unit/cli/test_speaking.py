"""Commands that speak for a person: their arguments are checked first, then who says it, and only then is anything written."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adjourn.checkpoints.save import CheckpointRequest, save_checkpoint
from adjourn.cli.app import main
from adjourn.clients import person
from adjourn.gateway import api_keys, login_store
from adjourn.host import keys
from adjourn.host import pin as secret_prompt
from adjourn.host.clock import now
from adjourn.host.pin import AccountPin, PinMemory
from adjourn.knowledge.records.store import RecordTrees
from adjourn.knowledge.records.transfer import export_record
from adjourn.log import kinds
from adjourn.log.event import Actor, decode
from adjourn.policy.person_commands import WHEN_SAID, WHEN_WRITING
from adjourn.store import Store
from adjourn.store.sqlite import SqliteStore
from adjourn.tasks.task import NewEvent, Task
from support import waiting
from support.record_folder import BY_AGENT, NOW
from support.task_sessions import SharedTask

PIN, WRONG = "tulip-42", "violet-42"
CHEAP = 1 << 4
FINISHED = "20260502-bbbbbbbb"
INVARIANT = {
    "id": "i1", "description": "no note is lost", "scope": [], "severity": "soft", "status": "unknown", "establishedBy": BY_AGENT,
    "establishedAt": NOW,
}  # fmt: skip
SAID: dict[str, tuple[str, ...]] = {
    "approve": ("k1",),
    "deny": ("k1",),
    "answer": ("q1", "Lock the table? yes"),
    "decide": ("d1", "--accept", "--variant", "1"),
    "settle": ("c9", "--done"),
    "tasks finish": ("t1",),
    "tasks reopen": (FINISHED,),
    "record resolve": ("b1", "it is there now"),
    "record check": ("i1", "--holding"),
    "record complete": (),
}
UNKNOWN = {name: ("nothing", *words[1:]) for name, words in SAID.items()}


class Workspace(SharedTask):
    """A workspace in which something waits for each of the commands, and the account of its person."""

    def __init__(self, root: Path, home: Path) -> None:
        (root / ".aex").mkdir(parents=True)
        self.root = root
        self.store: Store = SqliteStore(root / ".aex" / "adjourn.db")  # type: ignore[assignment]
        self.clock = now  # type: ignore[assignment]
        self.account = AccountPin(str(home / ".config" / "adjourn"))
        self.typed: list[str] = []
        task = waiting.opened(self)
        waiting.asked(task)
        waiting.in_doubt(task)
        ended = self.task(FINISHED)
        opened = kinds.TaskOpened(goal="Ended"), kinds.TaskFinished()
        ended.commit(lambda _: [NewEvent(data, Actor("claude-code", "agent")) for data in opened])
        records = waiting.noted(self)
        records.update(waiting.RECORD, {"invariants": [INVARIANT]}, waiting.CODEX)

    def task(self, name: str = "t1") -> Task:
        return Task(self.store, name, clock=now, secret=keys.secret())

    def state(self) -> dict[str, Any]:
        """All that a command could have changed in the store, but sealed caches."""
        refs = {name: value for name, value in self.store.refs().items() if not name.startswith("fold/")}
        return {"streams": self.store.streams(), "refs": refs}

    def wrong(self, task: str = "t1") -> list[kinds.PinRefused]:
        events = [kinds.data_of(decode(entry.data)) for entry in self.store.read(task)]
        return [data for data in events if isinstance(data, kinds.PinRefused)]

    def say(self, name: str, words: tuple[str, ...]) -> tuple[int, str]:
        out = io.StringIO()
        with contextlib.chdir(self.root), contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            code = main([*name.split(), *words])
        return code, out.getvalue()


@pytest.fixture
def work(tmp_path: Path, unattended: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    for name in ("ADJOURN_STORE", "ADJOURN_TASK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    made = Workspace(tmp_path / "work", unattended.parent.parent.parent)
    monkeypatch.setattr(person, "_given", PinMemory())
    monkeypatch.setattr(person, "_has_terminal", lambda: True)
    monkeypatch.setattr(secret_prompt, "ask_secret", lambda _prompt: made.typed.pop(0))
    monkeypatch.setattr(secret_prompt, "tell", lambda _text: None)
    yield made
    made.store.close()


def test_each_command_that_is_checked_when_it_writes_is_tried_here() -> None:
    """The table here has each command of the table there."""
    assert set(SAID) == WHEN_WRITING


OTHERS = {
    "keys trust": (("bob", "7sB1" + "A" * 39 + "="), ("bob", "nothing")),
    "policy sign": (("task.aex",), ("nothing.aex",)),
    "verify": (("t1", "--accept"), ("nothing", "--accept")),
    "rollback": (("first", "--yes"), ("nothing", "--yes")),
    "keys distrust": (("ann",), ("nothing",)),
    "checkpoint import": (("theirs.md", "--name", "theirs"), ("nothing.md",)),
    "record import": (("record.jsonl", "--as", "theirs"), ("nothing.jsonl",)),
    "record merge": (("line", "other", "--strategy", "prefer-a"), ("line", "nothing")),
    "serve login": (("http://127.0.0.1:9/mcp", "--no-browser"), ("https://h/mcp", "--scope", '"')),
    "store prune": (("--keep-last", "1", "--yes"), ("--older-than", "ages", "--yes")),
    "serve logout": (("https://tracker.example/mcp",), ("https://nothing.example/mcp",)),
}
"""Of the commands that have themselves checked: what they do here, and what does not exist."""


def files_of(folder: Path) -> dict[str, bytes]:
    """All files of a workspace but its store."""
    paths = [path for path in folder.rglob("*") if path.is_file() and ".db" not in path.name]
    return {str(path): path.read_bytes() for path in paths}


def filled(work: Workspace) -> str:
    """What each of the commands is about: a contract, checkpoints, records, a trusted key, a login, an API key, whose id is returned."""
    (work.root / "task.aex").write_text('task work v0\ngoal "do it"\nreturn 1\n')
    (work.root / "theirs.md").write_text("# Task: ship\n\n## Goal\n\nShip it.\n\n## Progress\n\n- [x] built\n")
    with contextlib.chdir(work.root):
        for name in ("first", "second"):
            save_checkpoint(work.task(), str(work.root), CheckpointRequest(name))
    records = RecordTrees(work.store, clock=now)
    records.create(
        {"task": {"id": "t1", "goal": "Ship it", "successCriteria": [], "status": "in-progress"}},
        author=waiting.CODEX,
        cr_id="other",
    )
    (work.root / "record.jsonl").write_bytes(b"".join(export_record(records, waiting.RECORD, keys.private_key())))
    keys.trust("ann", bytes(32))
    login_store.keep(login_store.Login(url="https://tracker.example/mcp", issuer="https://id.example", access="a"))
    return api_keys.add_key(work.store, keys.secret(), api_keys.KeyOptions("ci", "service", (), 90), now()).key.id


def test_each_command_that_has_itself_checked_is_tried_here() -> None:
    """The table here has each command of the table there."""
    assert set(OTHERS) == WHEN_SAID - {"serve keys revoke"}  # which a machine may do


@pytest.mark.parametrize("name", OTHERS)
def test_the_others_change_nothing_without_a_person_either(
    name: str, work: Workspace, unattended: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused without a terminal and with a wrong PIN, after the arguments were checked; carried out with the right PIN."""
    if name in ("serve login", "serve logout"):
        pytest.importorskip("httpx2")  # their package is the extra `gateway`
    filled(work)
    said, unknown = OTHERS[name]
    unattended.write_text("")
    monkeypatch.setattr(person, "_has_terminal", lambda: False)
    before, streams = files_of(tmp_path), work.store.streams()
    code, text = work.say(name, said)
    assert (code, "needs a terminal" in text) == (3, True), text
    code, text = work.say(name, unknown)
    assert (code in (1, 2), "speaks for a person" in text) == (True, False), text
    assert (files_of(tmp_path), work.store.streams()) == (before, streams)
    monkeypatch.setattr(person, "_has_terminal", lambda: True)
    work.account.set(PIN, expect=None, cost=CHEAP)
    work.typed = [WRONG] * 3
    assert work.say(name, said)[0] == 3
    assert files_of(work.root) == {path: data for path, data in before.items() if path in files_of(work.root)}
    work.account.set(PIN, expect=work.account.state(), cost=CHEAP)
    work.typed = [PIN]
    code, text = work.say(name, said)
    assert (code, work.typed) == (0, []) or "All connection attempts failed" in text, text


def test_a_key_that_does_not_exist_is_not_revoked_and_one_that_does_is(work: Workspace) -> None:
    """Whoever serves may be a machine: a key is revoked without a terminal, and an unknown one is reported as such."""
    key = filled(work)
    code, text = work.say("serve keys revoke", ("nothing",))
    assert (code, "no API key has the id" in text) == (1, True), text
    assert work.say("serve keys revoke", (key,))[0] == 0


@pytest.mark.parametrize("name", SAID)
def test_without_a_person_nothing_is_written(
    name: str, work: Workspace, unattended: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a terminal each command is refused, names the settings' file and key, and leaves the store as it was."""
    unattended.write_text("")
    monkeypatch.setattr(person, "_has_terminal", lambda: False)
    before = work.state()
    code, said = work.say(name, SAID[name])
    assert (code, work.state()) == (3, before), said
    assert f"`adjourn {name}` speaks for a person, and needs a terminal" in said
    assert f"allow-unattended = true in {unattended}" in " ".join(said.split())


@pytest.mark.parametrize("name", [name for name in SAID if name != "record complete"])
def test_what_is_unknown_is_said_before_who_asks(name: str, work: Workspace, unattended: Path) -> None:
    """An id that nothing has is reported as such, with a PIN that nobody is asked for and without one."""
    unattended.write_text("")
    code, said = work.say(name, UNKNOWN[name])
    assert code == 1, said
    assert "speaks for a person" not in said
    work.account.set(PIN, expect=None, cost=CHEAP)
    assert work.say(name, UNKNOWN[name])[0] == 1


@pytest.mark.parametrize("name", SAID)
def test_with_a_pin_each_command_asks_for_it_whatever_settings_say(name: str, work: Workspace) -> None:
    """The settings waive everything; a wrong PIN is refused all the same, counted in the history, and nothing else is written."""
    work.account.set(PIN, expect=None, cost=CHEAP)
    before = work.state()
    work.typed = [WRONG] * 3
    code, said = work.say(name, SAID[name])
    assert code == 3, said
    assert "the PIN is wrong (3 wrong since the last right one)" in said
    after = work.state()
    of_tasks = {stream: head for stream, head in after["streams"].items() if stream not in ("t1", FINISHED)}
    assert of_tasks == {stream: before["streams"][stream] for stream in of_tasks}
    assert after["refs"] == before["refs"]
    about = FINISHED if name == "tasks reopen" else "t1"
    counted = [] if name in ("answer", "decide") or name.startswith("record") else [1, 2, 3]
    assert [one.failures for one in work.wrong(about)] == counted
    assert all(head.seq == before["streams"][stream].seq + len(counted) * (stream == about) for stream, head in after["streams"].items())  # fmt: skip


@pytest.mark.parametrize("name", SAID)
def test_with_the_right_pin_each_command_does_what_it_says(name: str, work: Workspace) -> None:
    """One right PIN, and the store has the answer and knows which PIN the account has."""
    work.account.set(PIN, expect=None, cost=CHEAP)
    before = work.state()
    work.typed = [PIN]
    code, said = work.say(name, SAID[name])
    assert (code, work.typed) == (0, []), said
    assert work.state()["streams"] != before["streams"]
    assert list(work.store.refs(person.KNOWN_PIN).values()) == [work.account.state().id]  # type: ignore[union-attr]


def test_a_pin_that_was_just_given_is_not_asked_for_again(work: Workspace) -> None:
    """Within one process the PIN counts for some minutes."""
    work.account.set(PIN, expect=None, cost=CHEAP)
    work.typed = [PIN]
    assert work.say("approve", ("k1",))[0] == 0
    assert work.say("settle", ("c9", "--done"))[0] == 0


def test_no_file_that_is_deleted_removes_the_pin(work: Workspace) -> None:
    """Where the verifier, its mark, or both are gone, the store still knows: no command speaks, and the error names the file."""
    work.account.set(PIN, expect=None, cost=CHEAP)
    work.typed = [PIN]
    assert work.say("deny", ("k1",))[0] == 0
    person.given_pin().forget()
    for path in (work.account.path, work.account.mark):
        os.unlink(path)
        code, said = work.say("settle", ("c9", "--done"))
        assert (code, "a PIN was set, and its file is gone" in said, work.account.path in said) == (3, True, True)
    work.account.set("lilac-99", expect=None, cost=CHEAP)  # as an agent would
    work.typed = ["lilac-99"]
    code, said = work.say("settle", ("c9", "--done"))
    assert (code, "a PIN was set" in said, work.typed) == (3, True, ["lilac-99"])


def test_an_account_that_is_looked_for_elsewhere_has_no_missing_pin(
    work: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that knows the PIN lets nobody speak whose home folder has none, wherever that is said to be."""
    work.account.set(PIN, expect=None, cost=CHEAP)
    work.typed = [PIN]
    assert work.say("deny", ("k1",))[0] == 0
    monkeypatch.setattr("adjourn.host.own_settings.home", lambda: str(tmp_path / "elsewhere"))
    code, said = work.say("settle", ("c9", "--done"))
    assert (code, "a PIN was set" in said) == (3, True), said


def test_a_pin_that_was_removed_in_order_is_asked_for_no_more(work: Workspace) -> None:
    """After `adjourn keys pin --remove`, with the PIN, commands work as they did before; a new PIN counts again."""
    work.account.set(PIN, expect=None, cost=CHEAP)
    work.typed = [PIN]
    assert work.say("deny", ("k1",))[0] == 0
    code, said = work.say("keys pin", ("--remove",))
    assert (code, "no PIN is asked for any more" in said) == (0, True), said
    person.given_pin().forget()
    assert work.say("settle", ("c9", "--done"))[0] == 0
    assert work.account.active is None


def test_the_pin_is_in_no_file_of_workspace_or_account(work: Workspace, unattended: Path, tmp_path: Path) -> None:
    """Neither a right nor a wrong PIN is in the store, the keys, the heads, or anything printed."""
    work.account.set(PIN, expect=None, cost=CHEAP)
    work.typed = [WRONG, PIN]
    said = work.say("approve", ("k1",))[1] + work.say("keys", ())[1] + work.say("log", ("t1",))[1]
    files = [path for folder in (tmp_path, unattended.parents[2]) for path in folder.rglob("*") if path.is_file()]
    assert files
    assert work.wrong()
    for text in (PIN, WRONG):
        assert text not in said
        assert all(text.encode() not in path.read_bytes() for path in files)
