"""A checkpoint that is carried to another machine by git alone: no database goes along, and nothing is believed unsigned."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from adjourn.host import keys
from adjourn.knowledge.model.record import CRAuthor
from adjourn.knowledge.records.store import RecordTrees
from adjourn.log.signing import fingerprint
from support.machines import CONTRACT, FOLDER, POLICY, Machine, cloned
from support.proxy import Client, refused, text_of


def work(client: Client, *tools: str) -> None:
    for tool in tools:
        assert not refused(client.call(tool, {"path": "src/login.py"})), tool


def save(client: Client, description: str) -> None:
    told = client.meta("aex.checkpoint", name="fix-auth", description=description)
    assert told["path"] == f"{FOLDER}/"


def first_day(here: Machine) -> str:
    """Work under a contract, a checkpoint, a crash right after it, a commit; returns the task."""
    (here.root / "fix.aex").write_text(CONTRACT)
    with here:
        client = here.begun("--contract", "fix.aex")
        work(client, "file.read", "file.write")
        assert refused(client.call("network.fetch"))
        save(client, "found the bug")
        assert client.close() == 0
    (here.root / "fix.aex").unlink()
    here.commit("half-way")
    assert "adjourn.db" not in here.git("ls-files")
    task: str = here.carried()["adjourn"]["task"]
    return task


@pytest.fixture
def ann(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "ann", *POLICY)


def started(here: Machine) -> list[str]:
    """What a new session is shown unasked: by the proxy's greeting, and by the hook of a client without a proxy."""
    client = here.begun()
    said = str(client.greeting["result"].get("instructions", ""))
    client.close()
    request = {"hook_event_name": "SessionStart", "session_id": "s1", "cwd": str(here.root)}
    hook = subprocess.run(
        [sys.executable, "-m", "adjourn", "hook"],
        input=json.dumps(request), cwd=here.root, env=here.environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [said, hook.stdout]


def test_a_new_session_learns_of_work_that_came_by_git(ann: Machine, tmp_path: Path) -> None:
    """Of a signer nobody trusts it is shown the name, the key and the remedy alone; once the key is trusted, the work."""
    first_day(ann)
    bob = cloned(ann, tmp_path)
    with bob:
        for said in started(bob):
            assert "fix-auth" in said
            assert "adjourn keys trust" in said
            assert "found the bug" not in said
            assert "Fix the login" not in said
        bob.trust(ann)
        for said in started(bob):
            assert "found the bug" in said
            assert "network.fetch" in said


def test_a_checkpoint_is_carried_by_git(ann: Machine, tmp_path: Path) -> None:
    """Refused with key and remedy until a person trusts the key; then budget, history and contract are as they were;
    and what is done there comes back the same way.
    """
    task = first_day(ann)
    bob = cloned(ann, tmp_path)

    with bob:
        client = bob.begun()
        answer = client.call("aex.resume", {"name": "fix-auth"})
        assert refused(answer)
        key = re.search(r"signed by (ed25519:[0-9a-f]{32}), which is not trusted here", text_of(answer))
        assert key is not None
        assert "adjourn keys trust" in text_of(answer)
        listed = client.meta("aex.list_tasks")["tasks"]
        assert [(entry["name"], entry["type"]) for entry in listed] == [("fix-auth", "checkpoint")]
        with bob.store() as store:
            assert task not in store.streams()

        bob.trust(ann)
        assert key[1] in bob.adjourn("keys")
        told = client.meta("aex.resume", name="fix-auth")
        assert (told["task"], told["description"], told["goal"]) == (task, "found the bug", "Fix the login.")
        assert (told["callsUsed"], told["budgetRemaining"]) == (2, 7)
        assert told["toolsCalled"] == ["file.read", "file.write"]
        assert [line.split(":")[0] for line in told["refused"]] == ["network.fetch"]
        assert "inDoubt" not in told
        assert refused(client.call("echo"))  # the policy would, the contract does not
        bob.adjourn("verify")
        bob.adjourn("verify", FOLDER)

        work(client, "file.read", "file.write", "file.read")
        save(client, "mended it")
        assert client.close() == 0
    bob.commit("mended")

    ann.pull(bob)
    with ann:
        client = ann.begun()
        answer = client.call("aex.resume", {"name": "fix-auth"})
        assert fingerprint(_key_of(bob)) in text_of(answer)
        ann.trust(bob)
        told = client.meta("aex.resume", name="fix-auth")
        assert (told["task"], told["description"]) == (task, "mended it")
        assert (told["callsUsed"], told["budgetRemaining"]) == (5, 4)
        work(client, "file.read")
        ann.adjourn("verify")
        client.close()
    assert ann.ledger(task).calls_used == 6


def _key_of(machine: Machine) -> bytes:
    with machine._config():
        return keys.own_public_key()


def test_both_went_on(ann: Machine, tmp_path: Path) -> None:
    """When the same checkpoint continued at both machines, the second is shown where they part, and its own stays whole."""
    task = first_day(ann)
    bob = cloned(ann, tmp_path)
    bob.trust(ann)
    ann.trust(bob)
    with bob:
        client = bob.begun()
        client.meta("aex.resume", name="fix-auth")
        work(client, "file.read")
        save(client, "bob's way")
        client.close()
    bob.commit("bob's way")

    with ann:
        client = ann.begun()
        assert client.meta("aex.resume", name="fix-auth")["callsUsed"] == 2
        work(client, "file.write", "file.write")
        assert client.close() == 0
        before = ann.events(task)
    ann.pull(bob)
    with ann:
        client = ann.begun()
        answer = client.call("aex.resume", {"name": "fix-auth"})
        assert refused(answer)
        said = re.search(rf"task {task} has diverged: .* differ from event (\d+) on", text_of(answer))
        assert said is not None
        assert int(said[1]) == _parting(ann, bob, task)
        assert ann.events(task) == before
        ann.adjourn("checkpoint", "export", "fix-auth")  # its own version again
        told = client.meta("aex.resume", name="fix-auth")
        assert (told["callsUsed"], told["budgetRemaining"]) == (4, 5)
        client.close()


def _parting(here: Machine, there: Machine, task: str) -> int:
    pairs = zip(here.events(task), there.events(task), strict=False)
    return next(seq for seq, (mine, theirs) in enumerate(pairs) if mine != theirs)


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (("checkpoint.json", '"callsUsed": 2,', '"callsUsed": 0,'), "callsUsed differs from what was signed"),
        (("checkpoint.json", "use file.read, file.write", "use *"), r"adjourn\.contract differs from what was signed"),
        (("audit.jsonl", '"tool":"file.write"', '"tool":"file.read_"'), "fails verification at line"),
    ],
    ids=["refunded", "widened", "rewritten"],
)
def test_what_was_changed_on_the_way_is_refused(
    ann: Machine, tmp_path: Path, edit: tuple[str, str, str], reason: str
) -> None:
    """An edit in a commit, by whomever, is found before anything is taken in, though the signer is trusted."""
    file, old, new = edit
    first_day(ann)
    path = ann.root / FOLDER / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    ann.commit("looks harmless")
    bob = cloned(ann, tmp_path)
    bob.trust(ann)
    with bob:
        client = bob.begun()
        answer = client.call("aex.resume", {"name": "fix-auth"})
        assert refused(answer)
        assert re.search(reason, text_of(answer))
        assert "Restore it from version control" in text_of(answer)
        with bob.store() as store:
            assert store.refs("checkpoint/") == {}
            assert store.streams() == {}
        client.close()
    bob.adjourn("verify", FOLDER, code=1)


# --- what the work knows


NOTED = {
    "facts": ["the token is checked twice"],
    "goals": ["one check, in one place"],
    "decisions": [{"decision": "keep the middleware's check", "because": "it sees every request"}],
}


def noted_day(here: Machine, tmp_path: Path, **noted: Any) -> Machine:
    """Work that notes what it knows, and a checkpoint, carried to a machine that trusts the key."""
    with here:
        client = here.begun()
        work(client, "file.read")
        client.meta("adjourn.note", **NOTED, **noted)
        save(client, "found the bug")
        client.close()
    here.commit("half-way")
    there = Machine(tmp_path / "bob", clone=here)
    there.trust(here)
    return there


def carried(machine: Machine, what: str) -> Path:
    """The file of the folder that holds the record, or what is believed: its name ends in the hash that is signed."""
    [path] = (machine.root / FOLDER).glob(f"{what}-*")
    return path


def test_what_is_known_is_carried_too(ann: Machine, tmp_path: Path) -> None:
    """Facts, goals and decisions are in the folder; who continues elsewhere receives them, notes more, and carries that back."""
    bob = noted_day(ann, tmp_path)
    assert carried(bob, "record").suffix == ".jsonl"
    assert carried(bob, "cognition").suffix == ".json"
    with bob:
        client = bob.begun()
        told = json.dumps(client.meta("aex.resume", name="fix-auth"))
        for text in ("the token is checked twice", "one check, in one place", "keep the middleware"):
            assert text in told
        client.meta("adjourn.note", facts=["the second check is dead code"])
        save(client, "and its cause")
        client.close()
    bob.commit("more")
    ann.pull(bob)
    ann.trust(bob)
    with ann:
        client = ann.begun()
        told = json.dumps(client.meta("aex.resume", name="fix-auth"))
        assert "the token is checked twice" in told
        assert "the second check is dead code" in told
        client.close()


@pytest.mark.parametrize(("name", "what"), [("record", "keep the middleware"), ("cognition", "checked twice")])
def test_what_is_known_is_believed_only_as_it_was_signed(ann: Machine, tmp_path: Path, name: str, what: str) -> None:
    """A fact that somebody put in on the way is found, and nothing of the folder is taken in."""
    bob = noted_day(ann, tmp_path)
    file = carried(bob, name)
    text = file.read_text()
    assert what in text
    file.write_text(text.replace(what, what[::-1]))
    with bob:
        client = bob.begun()
        answer = client.call("aex.resume", {"name": "fix-auth"})
        assert refused(answer)
        assert file.name in text_of(answer)
        client.close()
        assert bob.adjourn("verify", f"{FOLDER}", code=1)


def test_without_what_is_known_the_rest_goes_on(ann: Machine, tmp_path: Path) -> None:
    """Somebody left the record out: budget and history are as they were, and the brief says what is missing."""
    bob = noted_day(ann, tmp_path)
    carried(bob, "record").unlink()
    carried(bob, "cognition").unlink()
    with bob:
        client = bob.begun()
        told = client.meta("aex.resume", name="fix-auth")
        assert told["callsUsed"] == 1
        assert "not in this store" in " ".join(told["pageNotes"])
        client.close()


def test_a_record_that_went_on_in_both_places_is_kept_twice(ann: Machine, tmp_path: Path) -> None:
    """A person decided here meanwhile, without a session: what is known there becomes a record of its own, to be merged."""
    bob = noted_day(ann, tmp_path)
    with bob:
        client = bob.begun()
        client.meta("aex.resume", name="fix-auth")
        client.meta("adjourn.note", decisions=[{"decision": "the way over there"}])
        save(client, "over there")
        client.close()
    task = ann.carried()["adjourn"]["task"]
    ann.trust(bob)
    with ann:
        with ann.store() as store:
            records = RecordTrees(store)
            metadata = records.resolve(task)["metadata"] | {"tags": ["here"]}
            records.update(task, {"metadata": metadata}, CRAuthor(id="ann", type="human"))
        said = ann.adjourn("checkpoint", "import", str(bob.root / FOLDER))
        assert "adjourn record merge" in said
        with ann.store() as store:
            records = RecordTrees(store)
            [other] = [name for name in store.refs("record/") if name.startswith(f"record/{task}-")]
            forked = records.get(other.removeprefix("record/"))
            assert forked is not None
            assert "the way over there" in [one["description"] for one in forked["decisions"]]
            own = records.get(task)
            assert own is not None
            assert own["metadata"]["tags"] == ["here"]
