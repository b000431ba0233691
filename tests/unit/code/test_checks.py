"""What counts as evidence of a verified change: commands that test or build, and that the journal confirms."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from adjourn.code import commands
from adjourn.code.deadline import Deadline
from adjourn.code.repository import CodeRepository
from adjourn.code.session_state import SessionState
from adjourn.code.workflow import checks
from adjourn.code.workflow.payloads import ReportedCheck, VerifierVerdict
from adjourn.code.workflow.phases import FlowError
from adjourn.code.workflow.request import RecordedCommand, Worktree
from adjourn.code.workflow.tasks import command_in, recorded_commands
from adjourn.log import kinds
from adjourn.log.event import timestamp
from adjourn.store.memory import MemoryStore
from adjourn.tasks.task import NewEvent, Task
from support.cases import for_each
from support.code_files import repository, write

LATER = 2**53


@for_each(
    ("command", "kind"),
    [
        ("pytest -q", "checks"),
        ("cd app && python3 -m pytest tests", "checks"),
        ("CI=1 timeout 60 npm run test:unit", "checks"),
        ("npm test", "checks"),
        ("cargo nextest run", "checks"),
        ("go vet ./...", "checks"),
        ("make", "checks"),
        ("env CI=1 timeout 60 pytest", "checks"),
        ("make CC=gcc test", "checks"),
        ("uv run --frozen mypy src", "checks"),
        ("./gradlew build", "checks"),
        ("sh check.sh", "checks"),
        ("python tests/run.py", "checks"),
        ("git diff --stat", "reads"),
        ("git status && git log -1", "reads"),
        ("true", "reads"),
        ("echo all tests pass", "reads"),
        ("cat tests/test_cart.py | head", "reads"),
        ("pytest --version", "reads"),
        ("python -m pytest --collect-only -q", "reads"),
        ("make -n test", "reads"),
        ("make clean", "reads"),
        ("npm test -- --help", "reads"),
        ("sed -n 1,20p tests/test_cart.py", "reads"),
        ("(cd app && npm test)", "checks"),
        ("pytest -q 2>&1", "checks"),
        ("pytest -k 'cart || total' -q", "checks"),
        ("false || pytest; cd app && pytest", "checks"),
        ("set -o pipefail; pytest -q | tail -3", "checks"),
        ("set -e; pytest -q; echo ok", "checks"),
        ("test -d app || exit 1; make check", "checks"),
        ("bash -c 'cd app && pytest'", "checks"),
        ("pytest -q || true", "hides"),
        ("pytest -q | tail -3", "hides"),
        ("pytest -q; echo done", "hides"),
        ("pytest -q\ntrue", "hides"),
        ("pytest -q & true", "hides"),
        ("pytest -q &", "hides"),
        ("! pytest -q", "hides"),
        ("true || pytest -q", "hides"),
        ("(cd app && pytest -q) | cat", "hides"),
        ("if pytest -q; then echo ok; fi", "hides"),
        ("bash -c 'pytest -q || true'", "hides"),
        ("cd app && (pytest -q || :)", "hides"),
        ("python -c 'test'", "other"),
        ("grep -rn test .", "reads"),
        ("ls tests", "reads"),
        ("python app.py", "other"),
        ("npm install", "other"),
        ("curl localhost:8000", "other"),
        ("'", "other"),
    ],
)
def test_a_command_counts_if_it_tests_or_builds(command: str, kind: str) -> None:
    """Test runners, builds and linters check if the line fails when they do; what only reads or prints never does."""
    assert checks.kind_of(command) == kind


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return repository(
        tmp_path / "p", {"a.py": "x = 1\n", "Makefile": "test:\n\ttrue\ndeploy:\n\ttrue\n", "go.mod": "module m\n"}
    )


def _judge(
    project: Path, *commands: str, recorded: list[RecordedCommand] | None = None, **session: str
) -> checks.JudgedVerdict:
    worktree = Worktree(CodeRepository(str(project)), recorded=lambda _: recorded)
    state = SessionState(session_id="s", base_commit=worktree.git.commit(), **session)  # type: ignore[arg-type]
    evidence = [ReportedCheck(command=command, exit_code=0) for command in commands]
    return checks.judge(worktree, state, VerifierVerdict(passed=True, evidence=evidence), Deadline())


@for_each(
    "commands", [("git diff --stat",), ("true", "echo ok"), ("pytest -q || true",), ("make test | cat", "true"), ()]
)
def test_reading_is_no_evidence(commands: tuple[str, ...], project: Path) -> None:
    """A verdict that rests on reading commands is refused, with the project's own checks as suggestions."""
    with pytest.raises(FlowError) as refused:
        _judge(project, *commands)
    assert refused.value.more["suggested_checks"] == ["make test", "go test ./...", "go build ./..."]


def test_a_report_without_a_journal_is_unproved(project: Path) -> None:
    """Where nothing records the client's commands, a verdict passes with a warning."""
    judged = _judge(project, "pytest -q")
    assert (judged.proved, judged.warnings) == (False, (checks.UNPROVED,))


@for_each(
    ("recorded", "why"),
    [
        ([], "was not run"),
        ([RecordedCommand("pytest -q || true", True, LATER)], "was not run"),
        ([RecordedCommand("pytest -q", False, LATER)], "failed"),
        ([RecordedCommand("pytest -q", True, LATER), RecordedCommand("pytest -q", False, LATER)], "failed"),
        ([RecordedCommand("pytest -q", True, 1_000)], "files changed after"),
    ],
)
def test_a_report_that_the_journal_contradicts_is_refused(
    recorded: list[RecordedCommand], why: str, project: Path
) -> None:
    """A check that was not run, failed, or ran before the last change does not let a change pass."""
    (project / "a.py").write_text("x = 2\n")
    with pytest.raises(FlowError, match=why):
        _judge(project, "pytest -q", recorded=recorded)


@for_each("line", ["pytest -q", "cd app && pytest  -q"])
def test_a_report_that_the_journal_confirms_is_proved(line: str, project: Path) -> None:
    """A check that succeeded after the last change is proved, also at the end of a chain."""
    (project / "a.py").write_text("x = 2\n")
    judged = _judge(project, "pytest -q", recorded=[RecordedCommand(line, True, LATER)])
    assert (judged.proved, judged.warnings) == (True, ())


def test_a_failure_that_the_report_leaves_out_is_named(project: Path) -> None:
    """A check that failed after the last change and was not run again leaves the others unproved, until it succeeds."""
    (project / "a.py").write_text("x = 2\n")
    recorded = [RecordedCommand("make test", False, LATER), RecordedCommand("pytest -q", True, LATER)]
    judged = _judge(project, "pytest -q", recorded=recorded)
    assert (judged.proved, judged.warnings) == (
        False,
        ("unproved: make test failed after the last change, and was not run again",),
    )
    assert _judge(project, "pytest -q", recorded=[*recorded, RecordedCommand("make test", True, LATER)]).proved


def test_a_session_without_a_change_is_unchanged(project: Path) -> None:
    """A session is unchanged until a file differs from its base."""
    worktree = Worktree(CodeRepository(str(project)))
    state = SessionState(session_id="s", base_commit=worktree.git.commit())
    assert checks.is_unchanged(worktree, state)
    (project / "a.py").write_text("x = 2\n")
    assert not checks.is_unchanged(worktree, state)


def test_a_cut_command_is_recognized(project: Path) -> None:
    """A long command that the journal cut is compared by its beginning."""
    long = "pytest " + " ".join(f"tests/test_{number}.py" for number in range(60))
    recorded = RecordedCommand(command_in('{"command":"' + long[:480] + "…"), True, LATER)
    assert recorded.command.endswith("…")
    assert _judge(project, long, recorded=[recorded]).proved
    assert os.path.isdir(project)


class Journal:
    """A task of a store, with calls as hooks and the proxy record them, all at the same time."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self._task = Task(self.store, "t", clock=lambda: 5_000, secret=b"s" * 32)
        self._calls = 0

    def add(
        self, tool: str, arguments: object, outcome: str = "ok", *, answer: str = "a" * 64, server: str = ""
    ) -> None:
        self._calls += 1
        call = f"c{self._calls}"
        text = msgspec.json.encode(arguments).decode()
        allowed = kinds.ToolAllowed(arguments=text, call=call, digest=call, effectful=True, server=server, tool=tool)
        settled = kinds.ToolSettled(answer=answer, call=call, outcome=outcome)  # type: ignore[arg-type]
        self._task.commit([NewEvent(allowed), NewEvent(settled)])


def test_the_journal_has_what_hooks_recorded(tmp_path: Path) -> None:
    """The commands of a client's shell are read from its tasks, each with its outcome; without any such call, nothing is known."""
    journal = Journal()
    assert recorded_commands(journal.store, str(tmp_path), "some-client", timestamp(1_000)) is None
    journal.add("shell.exec", {"command": "pytest -q"})
    journal.add("shell.exec", {"command": "make"}, "tool-error")
    recorded = recorded_commands(journal.store, str(tmp_path), "some-client", timestamp(1_000))
    assert recorded == [RecordedCommand("pytest -q", True, 5_000), RecordedCommand("make", False, 5_000)]
    assert recorded_commands(journal.store, str(tmp_path), "some-client", timestamp(6_000)) is None


def test_the_journal_has_what_shells_behind_the_proxy_ran(tmp_path: Path) -> None:
    """A command is a text, a list of words, or a program with its arguments; other tools and members prove nothing."""
    journal = Journal()
    journal.add("notes.add", {"command": "pytest -q"}, server="notes")
    journal.add("submit_phase", {"data": {"evidence": [{"command": "pytest -q"}]}}, server="code")
    assert recorded_commands(journal.store, str(tmp_path), "cursor", timestamp(0)) is None
    journal.add("run_command", {"command": "pytest -q"}, server="shell")
    journal.add("shell_execute", {"command": ["pytest", "a b.py"]}, server="shell")
    journal.add("executeCommand", {"command": "go", "args": ["test", "./..."]}, "error", server="shell")
    journal.add("bash", {"data": {"command": "pytest -q"}}, server="shell")
    journal.add("bash", {"command": "pytest", "run_in_background": True}, server="shell")
    journal.add("bash", {"cmd": 7, "args": "x"}, server="shell")
    recorded = recorded_commands(journal.store, str(tmp_path), "cursor", timestamp(0))
    assert recorded == [
        RecordedCommand("pytest -q", True, 5_000),
        RecordedCommand("pytest 'a b.py'", True, 5_000),
        RecordedCommand("go test ./...", False, 5_000),
    ]


def test_a_call_without_an_answer_proves_nothing(tmp_path: Path) -> None:
    """A call that was closed because its turn was over ended in a way that nobody saw."""
    journal = Journal()
    journal.add("shell.exec", {"command": "pytest -q"}, answer="")
    assert recorded_commands(journal.store, str(tmp_path), "some-client", timestamp(1_000)) == []


@for_each(
    ("arguments", "command"),
    [
        ('{"cwd":"/p","timeout_ms":5000,"command":"pytest -q","text":"aaaa…', "pytest -q"),
        ('{"command":"pytest -q aaaa…', "pytest -q aaaa…"),
        ('{"data":{"command":"pytest -q","text":"aaaa…', ""),
        ('{"text":"\\"command\\":\\"pytest\\"aaaa…', ""),
        ('{"text":"x"} with {"command":"pytest"}', ""),
        ('["command"]', ""),
    ],
)
def test_only_a_member_of_the_arguments_is_a_command(arguments: str, command: str) -> None:
    """Of arguments that were cut, only a member of the object itself is a command, never one inside of another value."""
    assert command_in(arguments) == command


def test_a_client_with_hooks_is_recorded_before_its_first_command(tmp_path: Path) -> None:
    """Where the workspace has hooks for the client, a journal without its commands proves that none was run."""
    hook = {"type": "command", "command": "adjourn hook"}
    settings = {"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [hook]}]}}
    write(tmp_path, {".claude/settings.json": msgspec.json.encode(settings)})
    assert recorded_commands(MemoryStore(), str(tmp_path), "claude-code", timestamp(0)) == []
    assert recorded_commands(MemoryStore(), str(tmp_path), "cursor", timestamp(0)) is None


def test_the_server_entry_has_the_check_that_a_person_agreed_to(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`init --code` proposes the project's own check; it writes it once approved at a terminal, and none otherwise."""
    monkeypatch.chdir(project)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    asked: list[str] = []

    def agree(question: str, **_: object) -> bool:
        asked.append(question)
        return True

    monkeypatch.setattr("click.confirm", agree)
    entry = msgspec.json.decode(commands.files()[".mcp.json"])["mcpServers"]["code-intel"]
    assert entry["args"] == ["code", "--test-command", "make test"]
    assert "make test" in asked[0]
    monkeypatch.setattr("click.confirm", lambda *_, **__: False)
    assert msgspec.json.decode(commands.files()[".mcp.json"])["mcpServers"]["code-intel"]["args"] == ["code"]
