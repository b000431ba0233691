"""The command line as people and scripts meet it: real processes, on what a real proxy session left behind."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from adjourn.log.event import GENESIS
from adjourn.proxy.options import OPTIONS
from support.command_line import CommandLine
from support.proxy import Done, ProxyWorkspace, run

NASTY = "half\x1b[31m done\x07 \u202edesrever\nnext: \x9b2J deploy"
PERSON_SECONDS = 10.0


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """What a session left that was killed while a call was on its way and a question open. Not to be changed."""
    policy = (
        "use echo, file.*, slow, secrets.read, silent",
        "deny network.*",
        "budget calls=20",
        "confirm before secrets.read",
    )
    path = tmp_path_factory.mktemp("cli")
    with ProxyWorkspace(path, *policy) as workspace:
        client = workspace.client(name="claude-code")
        client.call("echo", {"text": "hi"})
        client.call("file.read", {"path": "notes"})
        client.call("network.fetch")
        client.meta("aex.checkpoint", name="fix-auth", description=NASTY)
        client.call("file.write", {"path": "x/y", "text": "new", "token": "sk-secret"})
        client.begin("secrets.read", {"to": "ann@example.org"})
        client.begin("silent", {"release": "42"})
        deadline = time.monotonic() + PERSON_SECONDS
        while workspace.executed().count("silent") == 0 and time.monotonic() < deadline:
            time.sleep(0.02)
    return CommandLine(workspace.root, workspace.config)


@pytest.fixture
def context(left: CommandLine, tmp_path: Path) -> CommandLine:
    """A copy of `left` to do with as one likes."""
    return left.copy(tmp_path / "copy")


@pytest.fixture
def task(left: CommandLine) -> str:
    name: str = left.ok("tasks", "--json").json["tasks"][0]["task"]
    return name


READING: dict[str, tuple[str, ...]] = {
    "tasks": ("tasks",),
    "status": ("status",),
    "log": ("log",),
    "checkpoints": ("checkpoints",),
    "show": ("show", "fix-auth"),
    "resume": ("resume", "fix-auth"),
    "verify": ("verify",),
    "verify-quick": ("verify", "--quick"),
    "verify-folder": ("verify", ".aex/checkpoints/fix-auth"),
    "approve": ("approve",),
    "deny": ("deny",),
    "settle": ("settle",),
    "keys": ("keys",),
    "check": ("check", ".aex/policy.aex"),
    "effective": ("effective",),
    "doctor": ("doctor",),
}
reading = pytest.mark.parametrize("command", READING.values(), ids=READING)


def is_clean(text: str) -> bool:
    return all(char.isprintable() or char == "\n" for char in text)


# --- every reading command


@reading
def test_text_fits_80_columns_and_holds_nothing_a_terminal_would_obey(
    left: CommandLine, command: tuple[str, ...]
) -> None:
    """Each reading command prints printable lines of at most 80 columns, whatever the session wrote."""
    done = left.ok(*command)
    assert done.out.strip()
    assert is_clean(done.out + done.err)
    if command[0] not in ("effective", "doctor"):  # those print paths and remedies whole
        assert max(map(len, done.out.splitlines())) <= 80


@reading
def test_json_is_one_document(left: CommandLine, command: tuple[str, ...]) -> None:
    """Each reading command with --json prints one ASCII document; `log` prints one document for each event."""
    done = left.ok(*command, "--json")
    if command == ("log",):
        assert [json.loads(line)["seq"] for line in done.out.splitlines()] == list(range(len(left.rows())))
    else:
        assert isinstance(done.json, dict)
        assert done.out.isascii()


@reading
def test_reading_works_with_nothing_in_the_environment_and_writes_nothing(
    left: CommandLine, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """A reading command needs no configuration and creates none in the home folder."""
    home = tmp_path / "home"
    home.mkdir()
    done = left.run(*command, env={"HOME": str(home)})
    # Without the key the signer is a stranger, from whom nothing is resumed.
    assert done.code == (3 if command[0] == "resume" else 0), done
    assert list(home.iterdir()) == []


@reading
def test_reading_works_in_a_workspace_that_cannot_be_written(
    context: CommandLine, command: tuple[str, ...]
) -> None:
    """Each reading command works in a workspace that is mounted read-only."""
    context.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    mount = subprocess.run(
        ["mount", "--bind", context.root, context.root],
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
    )
    if mount.returncode != 0:
        pytest.skip("cannot mount here")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(context.root)], check=True)
        with pytest.raises(OSError, match="Read-only"):
            (context.root / "probe").touch()
        context.ok(*command)
    finally:
        subprocess.run(["umount", str(context.root)], check=True)


@pytest.mark.parametrize(
    "command",
    [
        ("tasks",), ("status",), ("log",), ("checkpoints",), ("show", "x"), ("resume", "x"), ("verify",),
        ("approve",), ("approve", "abc"), ("deny", "abc"), ("settle",), ("settle", "a.1", "--done"), ("export", "x"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_without_a_store_it_says_so_and_makes_none(tmp_path: Path, command: tuple[str, ...]) -> None:
    """A command without a store exits with 1, names the next step and creates nothing."""
    empty = CommandLine(tmp_path / "empty", tmp_path / "config")
    empty.root.mkdir()
    done = empty.run(*command)
    assert done.code == 1
    assert done.out == ""
    assert "store" in done.err
    assert "adjourn proxy" in done.err
    assert list(empty.root.iterdir()) == []


def test_another_folder_and_another_store_can_be_named(left: CommandLine, tmp_path: Path) -> None:
    """A store is found by -C, by --store and by ADJOURN_STORE; a folder that does not exist is wrong usage."""
    assert left.run("tasks", "-C", str(left.root), "--json", cwd=tmp_path).code == 0
    assert left.run("tasks", "--store", f"sqlite:{left.database}", "--json", cwd=tmp_path).code == 0
    environment = left.environment | {"ADJOURN_STORE": str(left.database)}
    assert left.run("tasks", env=environment, cwd=tmp_path).code == 0
    assert left.run("tasks", "-C", str(tmp_path / "nowhere")).code == 2


# --- what they say


def test_status_tells_budget_doubts_questions_and_the_next_step(left: CommandLine, task: str) -> None:
    """`adjourn status` shows the budget, calls in doubt, open questions and the next command, also as JSON."""
    first, *rest = left.ok("status").out.splitlines()
    assert first == f"{task}: 4 of 20 calls used, 16 left; 1 waiting, 1 in doubt"
    text = "\n".join(rest)
    assert "(dead)" in text
    assert "silent" in text
    assert "adjourn approve" in text
    told = left.ok("status", task[:11], "--json").json
    assert (told["task"], told["callsUsed"], told["budgetRemaining"]) == (task, 4, 16)
    assert [call["tool"] for call in told["inDoubt"]] == ["silent"]
    assert [asked["tool"] for asked in told["questions"]] == ["secrets.read"]
    assert told["sessions"][0]["alive"] is False
    assert told["next"].startswith("answer: adjourn approve ")


def test_tasks_lists_each_with_its_count(left: CommandLine, task: str) -> None:
    """`adjourn tasks` shows each task with its calls, sessions and goal."""
    head, row = left.ok("tasks").out.splitlines()
    assert head.split() == ["TASK", "USED", "SESSIONS", "TOUCHED", "IN", "DOUBT", "GOAL"]
    assert row.startswith(f"{task}  4/20  1 dead")


def test_log_tells_who_did_what(left: CommandLine) -> None:
    """`adjourn log` shows each event without secrets; --tail limits the number of lines."""
    lines = left.ok("log", "--full").out.splitlines()
    assert len(lines) == len(left.rows())
    assert "task.opened" in lines[0]
    assert any("tool.denied" in line and "network.fetch" in line for line in lines)
    assert "sk-secret" not in "\n".join(lines)
    assert left.ok("log", "--full", "--tail", "2").out.splitlines() == lines[-2:]
    assert left.ok("log", "--tail", "0").out == ""


def test_log_as_json_is_the_stored_bytes(left: CommandLine) -> None:
    """The lines of `adjourn log --json` have the hashes of the stored events."""
    lines = left.ok("log", "--json").out.encode().splitlines()
    assert [hashlib.sha256(line).hexdigest() for line in lines] == [row[1] for row in left.rows()]


def obey_ctrl_c() -> None:
    """A process started in the background of a script inherits that SIGINT is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_log_follows_what_others_write(context: CommandLine) -> None:
    """`adjourn log --follow` shows an event that another process appends, and exits with 130 at Ctrl-C."""
    follower = subprocess.Popen(
        [sys.executable, "-m", "adjourn", "log", "--follow", "--tail", "1"],
        cwd=context.root, env=context.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=obey_ctrl_c,  # noqa: PLW1509  # no thread of this test is at work yet
    )  # fmt: skip
    assert follower.stdout is not None
    assert follower.stdout.readline()
    question = context.ok("approve", "--json").json["questions"][0]["approval"]
    context.ok("approve", question)
    assert "confirm.approved" in follower.stdout.readline()
    follower.send_signal(signal.SIGINT)
    _, err = follower.communicate(timeout=PERSON_SECONDS)
    assert follower.returncode == 130
    assert "Traceback" not in err


def test_show_finds_a_checkpoint_by_name_by_hash_and_by_task(left: CommandLine, task: str) -> None:
    """`adjourn show` finds a checkpoint by its name, by the start of its hash and by its task."""
    told = left.ok("show", "fix-auth", "--json").json
    assert told["task"] == task
    assert told["signer"] == "default"
    assert (told["callsUsed"], told["callsRefused"], told["folder"]) == (2, 1, "as written")
    assert left.ok("show", told["hash"][:10], "--json").json == told
    assert left.ok("show", task, "--json").json == told
    assert "policyText" not in told
    assert (
        "confirm before secrets.read" in left.ok("show", "fix-auth", "--policy", "--json").json["policyText"]
    )
    assert "confirm before secrets.read" in left.ok("show", "fix-auth", "--policy").out


def test_resume_tells_what_a_session_is_told(context: CommandLine, task: str) -> None:
    """`adjourn resume --json` appends no event and has the same fields as the tool aex.resume."""
    before = context.rows()
    told = context.ok("resume", "fix-auth", "--json").json
    assert context.rows() == before
    with ProxyWorkspace(context.root.parent, name=context.root.name) as workspace:
        heard = workspace.client(name="other").meta("aex.resume", name="fix-auth")
    for key in (
        "name",
        "description",
        "task",
        "toolsCalled",
        "callsUsed",
        "budgetRemaining",
        "inDoubt",
        "advice",
    ):
        assert told[key] == heard[key], key
    assert told["task"] == task


def test_checkpoints_without_a_store_lists_what_git_brought(context: CommandLine) -> None:
    """Without a store, checkpoints are listed, shown and resumed from their folders."""
    for path in (context.root / ".aex").glob("adjourn.db*"):
        path.unlink()
    told = context.ok("checkpoints", "--json").json["checkpoints"]
    assert [(one["name"], one["source"]) for one in told] == [("fix-auth", "folder")]
    assert context.ok("resume", "fix-auth", "--json").json["callsUsed"] == 2
    assert context.ok("show", "fix-auth").code == 0
    assert not context.database.exists()


def test_without_a_name_it_is_the_task_of_the_client_that_runs_it(tmp_path: Path) -> None:
    """A command inside a client is about the client's task, and ADJOURN_TASK names another one."""
    with ProxyWorkspace(tmp_path, "use echo") as workspace:
        mine = workspace.client()
        mine.call("echo")
        task = workspace.tasks()[0]
        other = workspace.client("--task", "newer", foreign=True)
        other.call("echo")
        context = CommandLine(workspace.root, workspace.config)
        inside = run("status", "--json", cwd=context.root, env=context.environment, apart=False)
        assert inside.json["task"] == task
        environment = context.environment | {"ADJOURN_TASK": "newer"}
        assert context.run("status", "--json", env=environment).json["task"] == "newer"
        assert mine.close() == 0
        assert context.ok("status", "newer", "--json").json["sessions"][0]["alive"] is True
        assert context.ok("resume", task).err == ""
        other.meta("aex.checkpoint", name="theirs")
        assert "is held by" in context.ok("resume", "theirs").err


def test_reading_makes_no_tables(tmp_path: Path, new_postgres_url: Callable[[], str]) -> None:
    """A reading command on an empty PostgreSQL schema creates no tables; `adjourn import` does."""
    import psycopg  # noqa: PLC0415  # an extra

    context, url = CommandLine(tmp_path, Path(f"{tmp_path}-config")), new_postgres_url()
    done = context.run("tasks", "--store", url)
    assert done.code == 1
    assert "there is no store at postgresql://" in done.err
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT to_regclass('adjourn_event')").fetchone() == (None,)
    (tmp_path / "old").mkdir()
    published = {"name": "old", "timestamp": "2026-01-02T03:04:05.678Z", "callsUsed": 7, "toolHistory": []}
    (tmp_path / "old" / "checkpoint.json").write_text(json.dumps(published))
    context.ok("import", "old", "--store", url)
    assert context.ok("status", "--store", url, "--json").json["callsUsed"] == 7
    assert context.ok("verify", "--store", url, "--json").json["checked"]["events"] == 3


# --- a person decides


def question(context: CommandLine) -> str:
    name: str = context.ok("approve", "--json").json["questions"][0]["approval"]
    return name


def test_a_yes_lets_the_repeated_call_pass_once(context: CommandLine) -> None:
    """After `adjourn approve`, the same call passes in another session, and the event names a person."""
    listed = context.ok("approve").out
    assert "ann@example.org" in listed
    assert "confirm secrets.read" in listed
    assert "min left" in listed
    name = question(context)
    assert context.ok("approve", name[:3]).out.startswith('approved: secrets.read {"to":"ann@example.org"}')
    assert context.ok("approve").out == "nothing waits for an answer\n"
    with ProxyWorkspace(context.root.parent, name=context.root.name) as workspace:
        client = workspace.client(name="other")
        client.meta("aex.resume", name="fix-auth")
        assert not client.call("secrets.read", {"to": "ann@example.org"})["result"].get("isError")
        events = workspace.events()
    answered = [event for event in events if event.event == "confirm.approved"]
    assert [event.by.type for event in answered] == ["human"]


def test_a_yes_reaches_the_call_that_waits(tmp_path: Path) -> None:
    """`adjourn approve` releases a call that is waiting in the proxy."""
    with ProxyWorkspace(tmp_path, "use echo", "confirm before echo") as workspace:
        client = workspace.client()
        call = client.begin("echo", {"text": "x"})
        context = CommandLine(workspace.root, workspace.config)
        deadline = time.monotonic() + PERSON_SECONDS
        while not (context.database.exists() and context.run("approve", "--json").out.count("approval")):
            assert time.monotonic() < deadline
        context.ok("approve", question(context))
        assert not client.answer(call)["result"].get("isError")


def test_a_no_is_written_down(context: CommandLine) -> None:
    """`adjourn deny` appends an event, and an unknown question exits with 1."""
    done = context.ok("deny", question(context), "--json")
    assert done.json["answer"] == "denied"
    assert "confirm.denied" in context.ok("log", "--tail", "1").out
    assert context.run("approve", "zzzzzz").code == 1


def test_settling_ends_the_doubt(context: CommandLine) -> None:
    """`adjourn settle` needs exactly one outcome and leaves no call in doubt."""
    call = context.ok("settle", "--json").json["inDoubt"][0]["call"]
    assert context.run("settle", call).code == 2
    assert context.run("settle", call, "--done", "--not-done").code == 2
    assert context.run("settle", "zzz", "--done").code == 1
    done = context.ok("settle", call, "--not-done", "--note", "looked")
    assert done.out.startswith(f"settled as not-done: {call} silent")
    assert context.ok("settle").out == "no call is in doubt\n"
    assert context.ok("status", "--json").json["sessions"] == []
    assert context.ok("verify").code == 0


def test_an_ambiguous_or_unknown_id_is_refused_with_the_next_step(left: CommandLine) -> None:
    """An id that no task has exits with 1 and names the command that lists tasks."""
    done = left.run("status", "nope")
    assert done.code == 1
    assert "adjourn tasks" in done.err


# --- verify finds what was changed


def tampered(context: CommandLine, *, deep: bool = True) -> tuple[str, int | None]:
    done = context.run("verify", "--json", *(() if deep else ("--quick",)))
    assert done.code == 1, done
    text = context.run("verify")
    assert text.code == 1
    assert text.out.startswith("BROKEN: ")
    errors = [found for found in done.json["findings"] if found["severity"] == "error"]
    return errors[0]["code"], errors[0]["seq"]


@pytest.mark.parametrize("deep", [True, False])
def test_edited_bytes_are_found_where_they_are(context: CommandLine, *, deep: bool) -> None:
    """`adjourn verify` names the event whose bytes were edited, with and without --quick."""
    data = context.rows()[4][2].replace(b"file.read", b"file.rEad")
    context.sql("UPDATE event SET data = ? WHERE position & 1099511627775 = 4", data)
    assert tampered(context, deep=deep) == ("hash-mismatch", 4)
    assert context.run("tasks").code in (0, 1)


def test_bytes_that_became_text_are_found(context: CommandLine) -> None:
    """An event that was edited and stored as text is a hash mismatch."""
    context.sql(
        "UPDATE event SET data = replace(CAST(data AS TEXT), 'file.read', 'file.wait') WHERE position & 1099511627775 = 4"
    )
    assert tampered(context) == ("hash-mismatch", 4)


def test_an_edit_with_its_hash_is_found_at_the_next_event(context: CommandLine) -> None:
    """An edited event with a matching hash is a parent mismatch of the event after it."""
    data = context.rows()[4][2].replace(b"file.read", b"file.rEad")
    context.sql(
        "UPDATE event SET data = ?, hash = ? WHERE position & 1099511627775 = 4",
        data,
        hashlib.sha256(data).hexdigest(),
    )
    assert tampered(context) == ("parent-mismatch", 5)


def test_a_removed_event_is_found_where_it_was(context: CommandLine) -> None:
    """A deleted event is reported as missing at its position."""
    context.sql("DELETE FROM event WHERE position & 1099511627775 = 3")
    assert tampered(context) == ("missing-event", 3)


def test_a_missing_end_is_found_by_the_checkpoints_name(context: CommandLine) -> None:
    """A history that was cut before a checkpoint contradicts the checkpoint's name."""
    made = context.seq_of("checkpoint.created")
    context.sql("DELETE FROM event WHERE position & 1099511627775 >= ?", made)
    assert tampered(context) == ("ref-mismatch", made)


def test_a_missing_end_is_found_with_a_head_kept_elsewhere(context: CommandLine, task: str) -> None:
    """A history without its last event is valid, except against the head that --expect-head names."""
    head = context.ok("status", "--json").json["head"]
    assert context.ok("verify", task, "--expect-head", head).code == 0
    context.sql("DELETE FROM event WHERE position & 1099511627775 = ?", len(context.rows()) - 1)
    assert context.ok("verify", task).code == 0
    done = context.run("verify", task, "--expect-head", head, "--json")
    assert done.code == 1
    assert done.json["findings"][0]["code"] == "head-mismatch"
    assert context.run("verify", "--expect-head", head).code == 2


def test_a_head_that_was_built_upon_is_told_from_a_lost_one(left: CommandLine, task: str) -> None:
    """An expected head that is an earlier event of the history is reported with its position."""
    done = left.run("verify", task, "--expect-head", left.rows()[5][1])
    assert done.code == 1
    assert "event 5" in done.out


def test_a_history_written_anew_fails_at_the_signature(context: CommandLine) -> None:
    """A rewritten history with correct hashes fails at the signature of its checkpoint."""
    after = GENESIS
    for seq, _, data in context.rows():
        new = data.replace(b'"calls":20', b'"calls":99').replace(b"file.read", b"file.rEad")
        new = b'{"after":"' + after.encode() + new[10 + 64 :]
        after = hashlib.sha256(new).hexdigest()
        context.sql("UPDATE event SET data = ?, hash = ? WHERE position & 1099511627775 = ?", new, after, seq)
    made = context.seq_of("checkpoint.created")
    found = {one["code"] for one in context.run("verify", "--json").json["findings"] if one["seq"] == made}
    assert {"root-mismatch", "signature-mismatch"} <= found
    assert tampered(context)[1] == made


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("DELETE FROM blob WHERE CAST(data AS TEXT) LIKE '%adjourn/checkpoint/1%'", "document-missing"),
        (
            "UPDATE blob SET data = X'7B7D' WHERE CAST(data AS TEXT) LIKE '%adjourn/checkpoint/1%'",
            "document-changed",
        ),
        ("UPDATE ref SET name = 'checkpoint/other' WHERE name LIKE 'checkpoint/%'", "ref-mismatch"),
        ("INSERT INTO ref VALUES ('checkpoint/lost', 'gone 4 abc')", "ref-mismatch"),
        ("INSERT INTO ref VALUES ('checkpoint/junk', '\x1b[2J')", "ref-mismatch"),
    ],
)
def test_changed_documents_and_names_are_found(context: CommandLine, statement: str, code: str) -> None:
    """A document or a name of a checkpoint that was changed in the store is an error."""
    context.sql(statement)
    assert tampered(context)[0] == code
    assert is_clean(context.run("verify").out)


def test_a_wrong_cache_and_a_stranger_are_warnings(context: CommandLine, tmp_path: Path) -> None:
    """A stale fold and an untrusted signer are warnings, and the store is valid."""
    ((name, value),) = context.sql("SELECT name, value FROM ref WHERE name LIKE 'fold/%'")
    context.sql(
        "UPDATE ref SET value = ? WHERE name = ?", value.replace('"callsUsed":2', '"callsUsed":1'), name
    )
    done = context.ok("verify", "--json").json
    assert done["valid"]
    assert [found["code"] for found in done["findings"]] == ["stale-fold"]
    stranger = CommandLine(context.root, tmp_path / "other")
    codes = [found["code"] for found in stranger.ok("verify", "--json").json["findings"]]
    assert "unknown-signer" in codes


def test_a_folder_is_verified_whole(context: CommandLine) -> None:
    """`adjourn verify FOLDER` finds a change in either file of a checkpoint's folder."""
    folder = context.root / ".aex" / "checkpoints" / "fix-auth"
    assert context.ok("verify", str(folder)).out.startswith("valid: ")
    for name, old, new in (
        ("audit.jsonl", b"echo", b"ecHo"),
        ("checkpoint.json", b'"callsUsed": 2', b'"callsUsed": 1'),
    ):
        path = folder / name
        good = path.read_bytes()
        path.write_bytes(good.replace(old, new))
        done = context.run("verify", str(folder), "--json")
        assert done.code == 1
        assert done.json["findings"][0]["code"] == "folder-broken"
        path.write_bytes(good)
    assert context.run("verify", "./nowhere").code == 1


# --- to another place and back


@pytest.fixture
def colleague(tmp_path: Path) -> Iterator[CommandLine]:
    """Another person's workspace and keys."""
    with ProxyWorkspace(
        tmp_path / "colleague", "use echo, file.*, slow, secrets.read, silent", "budget calls=20"
    ) as workspace:
        yield CommandLine(workspace.root, workspace.config)


def resumed(context: CommandLine, name: str) -> dict[str, Any]:
    with ProxyWorkspace(context.root.parent, name=context.root.name) as workspace:
        result: dict[str, Any] = workspace.client(name="other").call("aex.resume", {"name": name})["result"]
    return result


@pytest.mark.parametrize("place", ["workspace", "elsewhere"])
def test_what_a_stranger_signed_is_resumed_only_after_a_person_vouched(
    context: CommandLine, colleague: CommandLine, tmp_path: Path, place: str
) -> None:
    """A checkpoint of an untrusted signer is resumed after `adjourn import`, and its description is marked."""
    folder = (
        colleague.root / ".aex" / "checkpoints" / "fix-auth" if place == "workspace" else tmp_path / "sent"
    )
    context.ok("export", "fix-auth", "--to", str(folder))
    assert resumed(colleague, "fix-auth").get("isError")
    assert colleague.run("resume", "fix-auth").code == (3 if place == "workspace" else 1)
    done = colleague.ok("import", str(folder))
    assert done.out.startswith("imported fix-auth: ")
    assert "vouched for by you" in done.out
    told = colleague.ok("resume", "fix-auth", "--json").json
    assert told["callsUsed"] == 2
    assert told["untrustedSigner"].startswith("ed25519:")
    shown = " ".join(colleague.ok("resume", "fix-auth").out.split())
    assert f"description (by an untrusted signer, {told['untrustedSigner']}) " in shown
    assert "description (by an untrusted signer, ed25519:" in " ".join(
        colleague.ok("show", "fix-auth").out.split()
    )
    assert "(by an untrusted signer)" in colleague.ok("checkpoints").out
    heard = resumed(colleague, "fix-auth")
    assert not heard.get("isError"), heard
    assert "untrustedSigner" in heard["content"][0]["text"]
    assert colleague.ok("verify", "--json").json["valid"]


def test_what_a_trusted_key_signed_is_resumed_without_more(
    context: CommandLine, colleague: CommandLine
) -> None:
    """A checkpoint of a trusted signer is resumed without an import, until the key is distrusted."""
    key = context.ok("keys", "show").out.strip()
    assert colleague.ok("keys", "trust", "ann", key).out.startswith("trusted as ann: ed25519:")
    context.ok("export", "fix-auth", "--to", str(colleague.root / ".aex" / "checkpoints" / "fix-auth"))
    assert not resumed(colleague, "fix-auth").get("isError")
    assert colleague.ok("checkpoints", "--json").json["checkpoints"][0]["signer"] == "ann"
    assert "untrusted" not in colleague.ok("resume", "fix-auth").out + colleague.ok("show", "fix-auth").out
    exported = colleague.ok("export", "fix-auth", "--json").json
    assert colleague.ok("verify", exported["path"]).code == 0
    colleague.ok("keys", "distrust", "ann")
    assert colleague.run("resume", "fix-auth").code == 3


def test_a_changed_folder_is_not_imported(
    context: CommandLine, colleague: CommandLine, tmp_path: Path
) -> None:
    """`adjourn import` refuses a folder whose checkpoint.json was edited, and imports nothing."""
    context.ok("export", "fix-auth", "--to", str(tmp_path / "sent"))
    path = tmp_path / "sent" / "checkpoint.json"
    path.write_bytes(path.read_bytes().replace(b'"callsUsed": 2', b'"callsUsed": 0'))
    done = colleague.run("import", str(tmp_path / "sent"))
    assert done.code == 1
    assert "callsUsed" in done.err
    assert colleague.run("tasks", "--json").json["tasks"] == []


@pytest.mark.parametrize("place", ["workspace", "elsewhere"])
def test_a_checkpoint_in_the_published_format_is_taken_at_a_persons_word(
    colleague: CommandLine, tmp_path: Path, place: str
) -> None:
    """A checkpoint without signature is resumed only after `adjourn import`, which records that a person vouched for it."""
    folder = colleague.root / ".aex" / "checkpoints" / "old" if place == "workspace" else tmp_path / "old"
    folder.mkdir(parents=True)
    published = {
        "name": "old", "description": "from before", "timestamp": "2026-01-02T03:04:05.678Z", "callsUsed": 7, "budget": 9,
        "toolHistory": [{"tool": "echo", "timestamp": "2026-01-02T03:04:05.678Z", "decision": "forward"}],
    }  # fmt: skip
    (folder / "checkpoint.json").write_text(json.dumps(published))
    assert colleague.run("resume", "old").code == 1
    done = colleague.ok("import", str(folder), "--json").json
    assert (done["kind"], done["vouched"], done["signer"]) == ("published", True, "default")
    assert colleague.ok("resume", "old", "--json").json["callsUsed"] == 7
    heard = resumed(colleague, "old")
    assert not heard.get("isError"), heard
    assert colleague.ok("verify").code == 0


def test_histories_that_parted_are_not_mixed(
    context: CommandLine, colleague: CommandLine, tmp_path: Path
) -> None:
    """`adjourn import` refuses a history that differs from the one of the same task here."""
    context.ok("export", "fix-auth", "--to", str(tmp_path / "sent"))
    colleague.ok("import", str(tmp_path / "sent"))
    assert not resumed(colleague, "fix-auth").get("isError")
    resumed(context, "fix-auth")
    with ProxyWorkspace(context.root.parent, name=context.root.name) as workspace:
        client = workspace.client(name="other")
        client.meta("aex.resume", name="fix-auth")
        client.meta("aex.checkpoint", name="later")
    context.ok("export", "later", "--to", str(tmp_path / "later"))
    before = colleague.rows()
    done = colleague.run("import", str(tmp_path / "later"))
    assert done.code == 1
    assert "has diverged" in done.err
    assert colleague.rows() == before


def test_export_leaves_other_files_alone(context: CommandLine, tmp_path: Path) -> None:
    """`adjourn export --to` refuses a folder with other files in it and writes nothing."""
    target = tmp_path / "full"
    target.mkdir()
    (target / "mine.txt").write_text("x")
    done = context.run("export", "fix-auth", "--to", str(target))
    assert done.code == 3
    assert [path.name for path in target.iterdir()] == ["mine.txt"]


# --- keys


def test_another_key_never_takes_a_trusted_name(left: CommandLine, tmp_path: Path) -> None:
    """`adjourn keys trust` refuses a second key for a name, and accepts the same key again."""
    me = CommandLine(left.root, tmp_path / "keys")
    other = CommandLine(left.root, tmp_path / "others").ok("keys", "show").out.strip()
    third = CommandLine(left.root, tmp_path / "third").ok("keys", "show").out.strip()
    (tmp_path / "ann.pub").write_text(other + "\n")
    me.ok("keys", "trust", "ann", str(tmp_path / "ann.pub"))
    me.ok("keys", "trust", "ann", other)
    assert me.run("keys", "trust", "ann", third).code == 1
    assert me.run("keys", "trust", "default", third).code == 1
    assert me.run("keys", "trust", "bob", "nonsense").code == 1
    assert [key["name"] for key in me.ok("keys", "--json").json["keys"]] == ["ann"]
    me.ok("keys", "show")
    assert [key["name"] for key in me.ok("keys", "--json").json["keys"]] == ["default", "ann"]
    assert me.run("keys", "distrust", "bob").code == 1


# --- contracts


def test_init_never_overwrites(tmp_path: Path) -> None:
    """`adjourn init` keeps files that exist, reports them as skipped, and makes file names out of task names."""
    context = CommandLine(tmp_path, tmp_path / "config")
    assert context.ok("init", "--policy").out.startswith("written: .aex/policy.aex")
    policy = tmp_path / ".aex" / "policy.aex"
    policy.write_text("mine")
    done = context.ok("init", "--policy", "--task", "a b/c", "--json").json
    assert policy.read_text() == "mine"
    assert done["skipped"] == [".aex/policy.aex"]
    assert done["written"] == ["tasks/a_b_c.aex", "tasks/a_b_c.inputs.json", "tasks/a_b_c.policy.json"]
    assert sorted(path.name for path in (tmp_path / "tasks").iterdir()) == sorted(
        path.partition("/")[2] for path in done["written"]
    )
    assert context.ok("check", "tasks/a_b_c.aex").out == "tasks/a_b_c.aex: valid task\n"
    assert "tasks/sample-task.aex" in context.ok("init", "--task", "sample-task").out


def test_what_init_writes_is_in_canonical_format(tmp_path: Path) -> None:
    """And valid, the JSON policy too; each policy lists the commands of the tests tool."""
    context = CommandLine(tmp_path, tmp_path / "config")
    context.ok("init", "--policy", "--task", "fix")
    assert context.ok("fmt", "--check", ".").out == "all formatted: 2 files\n"
    assert context.ok("check", "tasks/fix.policy.json").out == "tasks/fix.policy.json: valid policy\n"
    for option in ((), ("--policy", "tasks/fix.policy.json")):
        for command, code in (("npm test -- -t a", 0), ("sh -c x", 3)):
            arguments = ("--explain", "tests.run", "--args", json.dumps({"cmd": command}))
            assert context.run("effective", *option, *arguments).code == code, (option, command)


def test_init_writes_through_no_link(tmp_path: Path) -> None:
    """`adjourn init` refuses an `.aex` folder that is a link."""
    context = CommandLine(tmp_path / "work", tmp_path / "config")
    context.root.mkdir()
    (tmp_path / "outside").mkdir()
    (context.root / ".aex").symlink_to(tmp_path / "outside")
    assert context.run("init", "--policy").code == 3
    assert list((tmp_path / "outside").iterdir()) == []


def test_check_shows_every_finding_with_its_line(tmp_path: Path) -> None:
    """`adjourn check` reports each file, and each finding with its line, and exits with 1."""
    context = CommandLine(tmp_path, tmp_path / "config")
    (tmp_path / "bad.aex").write_text('policy p v0\n\ngoal "g"\nuse net_*\nnonsense\n')
    context.ok("init", "--policy")
    done = context.run("check", "bad.aex", ".aex/policy.aex", "missing.aex", "--json")
    assert done.code == 1
    assert [file["valid"] for file in done.json["files"]] == [False, True, False]
    text = context.run("check", "bad.aex")
    assert text.code == 1
    assert text.out.startswith("bad.aex: 2 errors")
    assert "bad.aex:4" in text.out
    assert "^" in text.out
    assert context.run("check").code == 2


def test_effective_names_the_line_of_each_rule(left: CommandLine, tmp_path: Path) -> None:
    """`adjourn effective` lists each rule with its file and line, merged with a contract if one is named."""
    told = left.ok("effective", "--json").json
    assert [rule["pattern"] for rule in told["allow"]] == ["echo", "file.*", "slow", "secrets.read", "silent"]
    assert told["deny"] == [{"pattern": "network.*", "source": ".aex/policy.aex", "line": 4}]
    assert (told["budget"], told["policy"]) == (20, ".aex/policy.aex")
    out = left.ok("effective").out
    assert out.startswith("Policy:   .aex/policy.aex\n\nAllowed:\n  echo ")
    contract = tmp_path / "task.aex"
    contract.write_text('task t v0\ngoal "g"\nuse echo, other\nbudget calls=5\nreturn 1\n')
    done = left.run("effective", "--contract", str(contract))
    assert "calls=5" in done.out
    assert "AEX134" in done.err
    assert done.code == 0


def test_effective_without_anything_says_so(tmp_path: Path) -> None:
    """`adjourn effective` without a policy and a contract exits with 1."""
    done = CommandLine(tmp_path, tmp_path / "config").run("effective")
    assert done.code == 1
    assert "AEX135" in done.err


# --- doctor


def codes(done: Done) -> set[str]:
    return {found["code"] for found in done.json["findings"]}


def test_doctor_names_what_waits_and_what_is_stale(left: CommandLine) -> None:
    """`adjourn doctor` reports dead sessions, calls in doubt and open questions, none of which is an error."""
    done = left.ok("doctor", "--json")
    assert {"stale-session", "in-doubt", "waiting"} <= codes(done)
    assert done.json["healthy"]
    assert left.ok("doctor").out.startswith("0 errors, ")


def test_doctor_finds_open_keys_a_broken_policy_and_a_tracked_store(context: CommandLine) -> None:
    """`adjourn doctor` reports readable keys, an invalid policy and a store in git as errors, with the remedy."""
    (context.config / "keys" / "default.key").chmod(0o644)
    (context.root / ".aex" / "policy.aex").write_text("nonsense")
    for command in (["init", "-q"], ["add", "-f", ".aex/adjourn.db"]):
        subprocess.run(["git", *command], cwd=context.root, check=True, capture_output=True)
    done = context.run("doctor", "--json")
    assert done.code == 1
    assert {"keys-open", "store-tracked", "AEX100"} <= codes(done)
    assert not done.json["healthy"]
    assert f"chmod 600 {context.config}/keys/default.key" in context.run("doctor").out


def test_doctor_finds_keys_in_the_workspace_and_a_damaged_store(context: CommandLine) -> None:
    """`adjourn doctor` reports keys inside the workspace and a store that is no database."""
    inside = CommandLine(context.root, context.root / "config")
    assert inside.run("doctor").code == 1
    assert "keys-in-workspace" in codes(inside.run("doctor", "--json"))
    context.database.write_bytes(b"this is no database, but it is long enough to be looked at" * 20)
    assert "store" in codes(context.run("doctor", "--json"))


def test_doctor_says_once_that_git_does_not_ignore_the_store(context: CommandLine) -> None:
    """One line of .gitignore is the remedy for the store and for the log beside it."""
    subprocess.run(["git", "init", "-q"], cwd=context.root, check=True)
    context.database.with_name("adjourn.db-wal").write_bytes(b"")
    told = [finding["code"] for finding in context.ok("doctor", "--json").json["findings"]]
    assert told.count("store-not-ignored") == 1


def test_doctor_in_an_empty_folder_makes_nothing(tmp_path: Path) -> None:
    """`adjourn doctor` in an empty folder reports what is missing and creates nothing."""
    context = CommandLine(tmp_path / "empty", tmp_path / "config")
    context.root.mkdir()
    assert codes(context.ok("doctor", "--json")) == {"no-store", "no-policy"}
    assert list(context.root.iterdir()) == []
    assert not context.config.exists()


# --- manners


@pytest.mark.parametrize(
    "command",
    [("nonsense",), ("taks",), ("tasks", "--nope"), ("show",), ("settle", "--done"), ("proxy",)],
    ids=" ".join,
)
def test_wrong_usage_is_2_with_a_way_on(left: CommandLine, command: tuple[str, ...]) -> None:
    """Wrong usage exits with 2, prints nothing on stdout and starts its message with `adjourn:`."""
    done = left.run(*command)
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("adjourn: ")


def test_a_slip_is_guessed(left: CommandLine) -> None:
    """A misspelled command is answered with the closest one."""
    assert "did you mean tasks?" in left.run("taks").err


def test_the_proxys_help_is_made_from_its_options(left: CommandLine) -> None:
    """`adjourn proxy --help` names each option that the proxy parses."""
    text = left.ok("proxy", "--help").out
    assert all(option.flag in text for option in OPTIONS)
    assert left.run("proxy", "--nope", "--", "true").code == 2


def test_the_proxy_behaves_the_same_when_it_is_reached_by_the_command_line(
    left: CommandLine, tmp_path: Path
) -> None:
    """`adjourn proxy` has the same exit codes and messages through click as through its fast start."""
    program = "import sys; from adjourn.cli import main; sys.exit(main(['proxy', *sys.argv[1:]]))"
    for arguments in (["--nope"], ["--policy", "none.aex", "--", "true"], ["--", "/no/such/program"]):
        direct, through = (
            subprocess.run(
                [sys.executable, *start, *arguments], check=False, cwd=tmp_path, env=left.environment,
                capture_output=True, stdin=subprocess.DEVNULL, timeout=30,
            )
            for start in (["-m", "adjourn", "proxy"], ["-c", program])
        )  # fmt: skip
        assert (direct.returncode, direct.stderr) == (through.returncode, through.stderr)


def on_a_terminal(context: CommandLine, *arguments: str, **extra: str) -> str:
    """What a terminal is sent."""
    pid, handle = pty.fork()
    if pid == 0:
        os.chdir(context.root)
        os.execve(
            sys.executable,
            [sys.executable, "-m", "adjourn", *arguments],
            context.environment | {"TERM": "xterm"} | extra,
        )
    shown = b""
    while True:
        try:
            part = os.read(handle, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(handle)
    os.waitpid(pid, 0)
    return shown.decode()


def test_colour_is_for_terminals_without_no_color(left: CommandLine) -> None:
    """`adjourn verify` prints colour on a terminal only, and none if NO_COLOR is set."""
    assert "\x1b[32m" in on_a_terminal(left, "verify")
    assert "\x1b" not in on_a_terminal(left, "verify", NO_COLOR="1")
    assert "\x1b" not in left.ok("verify").out


def test_raw_events_on_a_terminal_are_escaped(left: CommandLine) -> None:
    """`adjourn log --json` on a terminal escapes control characters and stays valid JSON."""
    shown = on_a_terminal(left, "log", "--json")
    assert "\x9b" not in shown
    assert "\\u009b" in shown
    assert [json.loads(line)["seq"] for line in shown.splitlines() if line] == list(range(len(left.rows())))


def test_a_reader_that_has_seen_enough_is_no_error(left: CommandLine) -> None:
    """A pipe that is closed early causes no message."""
    done = subprocess.run(
        ["sh", "-c", f'"{sys.executable}" -m adjourn log --json | head -n 1'],
        check=True, cwd=left.root, env=left.environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stderr == ""


@pytest.mark.parametrize("damage", [b"", b"not a database at all, but long enough to be one" * 50])
def test_a_store_that_is_none_is_said_so(context: CommandLine, damage: bytes) -> None:
    """A file that is no database exits with 1 and is not changed."""
    for path in (context.root / ".aex").glob("adjourn.db-*"):
        path.unlink()
    context.database.write_bytes(damage)
    done = context.run("tasks")
    assert done.code == 1
    assert "adjourn.db" in done.err
    assert context.database.read_bytes() == damage
