"""Commands that read what a real proxy session left behind: as people see it, as scripts parse it, and writing nothing."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.command_line import PERSON_SECONDS, CommandLine, is_clean
from support.proxy import ProxyWorkspace, run

READING: dict[str, tuple[str, ...]] = {
    "tasks": ("tasks",),
    "status": ("status",),
    "log": ("log",),
    "checkpoints": ("checkpoint", "list"),
    "show": ("checkpoint", "show", "fix-auth"),
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
def test_reading_works_in_a_workspace_that_cannot_be_written(context: CommandLine, command: tuple[str, ...]) -> None:
    """Each reading command works in a workspace that is mounted read-only."""
    context.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    mount = subprocess.run(
        ["mount", "--bind", context.root, context.root], check=False, capture_output=True, stdin=subprocess.DEVNULL
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
        ("tasks",), ("status", "t1"), ("log",), ("checkpoint", "list"), ("checkpoint", "show", "x"), ("resume", "x"), ("verify",),
        ("approve",), ("approve", "abc"), ("deny", "abc"), ("settle",), ("settle", "a.1", "--done"), ("checkpoint", "export", "x"),
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


def test_status_before_the_first_session_says_so(tmp_path: Path) -> None:
    """`adjourn status` where no session has run is one sentence with the next step, and no failure; also as JSON."""
    empty = CommandLine(tmp_path / "empty", tmp_path / "config")
    empty.root.mkdir()
    done = empty.ok("status")
    assert done.out.startswith("no session has run here yet: ")
    assert (done.out.count("\n"), done.err) == (1, "")
    assert empty.ok("status", "--json").json["task"] is None
    assert list(empty.root.iterdir()) == []


def test_another_folder_and_another_store_can_be_named(left: CommandLine, tmp_path: Path) -> None:
    """A store is found by -C, by --store and by ADJOURN_STORE; a folder that does not exist is wrong usage."""
    assert left.run("tasks", "-C", str(left.root), "--json", cwd=tmp_path).code == 0
    assert left.run("tasks", "--store", f"sqlite:{left.database}", "--json", cwd=tmp_path).code == 0
    environment = left.environment | {"ADJOURN_STORE": str(left.database)}
    assert left.run("tasks", env=environment, cwd=tmp_path).code == 0
    assert left.run("tasks", "-C", str(tmp_path / "nowhere")).code == 2


# --- what they say


_FRAMEWORK = "import sys; from adjourn.cli import main; sys.exit(main(sys.argv[1:]))"


@pytest.mark.parametrize(
    "arguments",
    [[], ["--json"], ["nowhere"], ["--store", "none.db"], ["--store", "mysql://host/x"], ["-C", ".aex"], ["-C", "x"], ["--bad"], ["--help"]],
    ids=" ".join,
)  # fmt: skip
def test_status_is_the_same_with_and_without_the_framework(left: CommandLine, arguments: list[str]) -> None:
    """`adjourn status` prints the same, and ends with the same code, as the command of the framework."""
    fast = left.run("status", *arguments)
    whole = subprocess.run(
        [sys.executable, "-c", _FRAMEWORK, "status", *arguments],
        cwd=left.root,
        env=left.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    shown = [_without_times(text) for text in (fast.out, fast.err, whole.stdout, whole.stderr)]
    assert (fast.code, *shown[:2]) == (whole.returncode, *shown[2:])


def _without_times(text: str) -> str:
    return re.sub(r"just now|\d+ (s|min) ago|\d+ (s|min|h) left", "at a time", text)


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
    assert head.split() == ["TASK", "USED", "SESSIONS", "TOUCHED", "WAITS", "CLIENT", "GOAL"]
    assert row.startswith(f"{task}  4/20  1 dead")
    assert "claude-code" in row
    assert left.ok("tasks", "--json").json["tasks"][0]["client"].startswith("claude-code")


def test_log_has_one_line_for_a_call_with_its_outcome(left: CommandLine) -> None:
    """`adjourn log` shows each call once, with outcome and telling argument, under its day; --tail limits the lines."""
    heading, *lines = left.ok("log", "--full").out.splitlines()
    assert heading == "today"
    shown = [line[7:].split("  ", 1)[0].strip() + " " + line[18:].split()[0] for line in lines]
    assert shown[2:] == [
        "ok echo.echo", "ok echo.file.read", "refused echo.network.fetch", "saved fix-auth", "ok echo.file.write",
        "waits echo.secrets.read", "in doubt echo.silent",
    ]  # fmt: skip
    assert "x/y" in lines[6]
    assert "deny network.*" in lines[4]
    last = left.ok("log", "--full", "--tail", "2").out.splitlines()[1:]
    assert [line[7:].split() for line in last] == [line[7:].split() for line in lines[-2:]]
    assert left.ok("log", "--tail", "0").out == ""


def test_log_verbose_tells_who_did_what(left: CommandLine) -> None:
    """`adjourn log -v` shows each event without secrets; --tail limits the number of events."""
    lines = left.ok("log", "-v", "--full").out.splitlines()
    assert len(lines) == len(left.rows())
    assert "task.opened" in lines[0]
    assert any("tool.denied" in line and "network.fetch" in line for line in lines)
    assert "sk-secret" not in "\n".join(lines)
    assert left.ok("log", "-v", "--full", "--tail", "2").out.splitlines() == lines[-2:]
    assert left.ok("log", "-v", "--tail", "0").out == ""


def test_log_draws_sessions_as_branches(left: CommandLine) -> None:
    """`adjourn log --graph` shows a session as a branch with its calls, counted, and its checkpoints."""
    lines = left.ok("log", "--graph").out.splitlines()
    assert [line.split()[0] for line in lines] == ["today", "○", "├─╮", "│", "│", "│"]
    assert "3 calls: 2 ok, 1 refused" in lines[3]
    assert "◆" in lines[4]
    assert left.run("log", "--graph", "--follow").code == 2


def test_log_as_json_is_the_stored_bytes(left: CommandLine) -> None:
    """The lines of `adjourn log --json` have the hashes of the stored events."""
    lines = left.ok("log", "--json").out.encode().splitlines()
    assert [hashlib.sha256(line).hexdigest() for line in lines] == [row[1] for row in left.rows()]


def obey_ctrl_c() -> None:
    """A process started in the background of a script inherits that SIGINT is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_log_follows_what_others_write(context: CommandLine) -> None:
    """`adjourn log --follow` shows what another process's event changes, and exits with 130 at Ctrl-C."""
    follower = subprocess.Popen(
        [sys.executable, "-m", "adjourn", "log", "--follow", "--tail", "1"],
        cwd=context.root, env=context.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=obey_ctrl_c,  # noqa: PLW1509  # no thread of this test is at work yet
    )  # fmt: skip
    assert follower.stdout is not None
    assert follower.stdout.readline() == "today\n"
    assert "in doubt" in follower.stdout.readline()
    question = context.ok("approve", "--json").json["questions"][0]["approval"]
    context.ok("approve", question)
    assert "approved   echo.secrets.read" in follower.stdout.readline()
    follower.send_signal(signal.SIGINT)
    _, err = follower.communicate(timeout=PERSON_SECONDS)
    assert follower.returncode == 130
    assert "Traceback" not in err


def test_show_finds_a_checkpoint_by_name_by_hash_and_by_task(left: CommandLine, task: str) -> None:
    """`adjourn checkpoint show` finds a checkpoint by its name, by the start of its hash and by its task."""
    told = left.ok("checkpoint", "show", "fix-auth", "--json").json
    assert told["task"] == task
    assert told["signer"] == "default"
    assert (told["callsUsed"], told["callsRefused"], told["folder"]) == (2, 1, "as written")
    assert left.ok("checkpoint", "show", told["hash"][:10], "--json").json == told
    assert left.ok("checkpoint", "show", task, "--json").json == told
    assert "policyText" not in told
    assert (
        "confirm before secrets.read"
        in left.ok("checkpoint", "show", "fix-auth", "--policy", "--json").json["policyText"]
    )
    assert "confirm before secrets.read" in left.ok("checkpoint", "show", "fix-auth", "--policy").out


def test_show_and_resume_need_no_name_where_one_is_meant(context: CommandLine) -> None:
    """`adjourn checkpoint show` and `adjourn resume` without a name take the checkpoint of the only unfinished task that has one."""
    told = context.ok("checkpoint", "show", "fix-auth", "--json").json
    assert context.ok("checkpoint", "show", "--json").json == told
    assert context.ok("resume", "--json").json["name"] == "fix-auth"
    context.ok("tasks", "finish", told["task"])
    done = context.run("resume")
    assert (done.code, done.out) == (1, "")
    assert "adjourn checkpoint list" in done.err


def test_sections_of_a_resume_have_blank_lines_between_them(left: CommandLine) -> None:
    """`adjourn resume` separates its sections by blank lines."""
    lines = left.ok("resume").out.splitlines()
    assert all(lines[lines.index(title) - 1] == "" for title in ("Next step", "What was done", "Budget and rules"))
    assert "" not in (lines[0], lines[-1])


def test_resume_tells_what_a_session_is_told(context: CommandLine, task: str) -> None:
    """`adjourn resume --json` appends no event and has the same fields as the tool aex.resume."""
    before = context.rows()
    told = context.ok("resume", "fix-auth", "--json").json
    assert context.rows() == before
    with ProxyWorkspace(context.root.parent, name=context.root.name) as workspace:
        heard = workspace.client(name="other").meta("aex.resume", name="fix-auth")
    for key in ("name", "description", "task", "toolsCalled", "callsUsed", "budgetRemaining", "inDoubt", "advice"):
        assert told[key] == heard[key], key
    assert told["task"] == task


def test_checkpoints_without_a_store_lists_what_git_brought(context: CommandLine) -> None:
    """Without a store, checkpoints are listed, shown and resumed from their folders."""
    for path in (context.root / ".aex").glob("adjourn.db*"):
        path.unlink()
    told = context.ok("checkpoint", "list", "--json").json["checkpoints"]
    assert [(one["name"], one["source"]) for one in told] == [("fix-auth", "folder")]
    assert context.ok("resume", "fix-auth", "--json").json["callsUsed"] == 2
    assert context.ok("checkpoint", "show", "fix-auth").code == 0
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
    """A reading command on an empty PostgreSQL schema creates no tables; `adjourn checkpoint import` does."""
    import psycopg  # an extra

    context, url = CommandLine(tmp_path, Path(f"{tmp_path}-config")), new_postgres_url()
    done = context.run("tasks", "--store", url)
    assert done.code == 1
    assert "there is no store at postgresql://" in done.err
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT to_regclass('adjourn_event')").fetchone() == (None,)
    (tmp_path / "old").mkdir()
    published = {"name": "old", "timestamp": "2026-01-02T03:04:05.678Z", "callsUsed": 7, "toolHistory": []}
    (tmp_path / "old" / "checkpoint.json").write_text(json.dumps(published))
    context.ok("checkpoint", "import", "old", "--store", url)
    assert context.ok("status", "--store", url, "--json").json["callsUsed"] == 7
    assert context.ok("verify", "--store", url, "--json").json["checked"]["events"] == 3
