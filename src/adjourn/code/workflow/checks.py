"""The checks that a verdict rests on: commands that the server runs, or that the client reports and the journal confirms.

A command counts if it tests or builds. A report is `unproved` unless hooks or the proxy recorded that very command, its success,
and no change after it.
"""

from __future__ import annotations

import os
import re
import shlex
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple

import msgspec

from adjourn.code import changes
from adjourn.code.deadline import Deadline
from adjourn.code.repository import CodeRepository
from adjourn.code.session_state import CheckRun, SessionState, stamp
from adjourn.code.workflow.payloads import VerifierVerdict
from adjourn.code.workflow.phases import mismatch
from adjourn.code.workflow.request import RecordedCommand, Worktree
from adjourn.errors import AdjournError
from adjourn.host import executables
from adjourn.host.executables import find, outside
from adjourn.log.canonical_json import digest
from adjourn.policy.shell.syntax import Compound, ShellWord, Simple, UnreadError, WordPart, parse
from adjourn.policy.shell.tables import only_reads
from adjourn.runs.subprocesses import ProgramError, run_program
from adjourn.text.redact import without_secrets

MAX_SECONDS = 1_800.0
"""How long a command may run."""
MAX_REPORTED = 50
_SHOWN = 2_000
_LOOK_SECONDS = 0.5
_NOT_RUN = 127
_LEAST_CUT = 200
"""Characters of a recorded command that was cut which are enough to recognize it."""
UNPROVED = "unproved: neither hooks nor the proxy record this client's commands; only the client says that they ran"
NOTHING_CHANGED = "nothing was changed: no file differs from the base"


class JudgedVerdict(NamedTuple):
    """A verdict, whether its checks are `proved`, and what the reply must say about them."""

    verdict: VerifierVerdict
    proved: bool = False
    warnings: tuple[str, ...] = ()


def judge(worktree: Worktree, state: SessionState, verdict: VerifierVerdict, deadline: Deadline) -> JudgedVerdict:
    """The verdict, now that its checks are recorded in `state`: a failure if a command of the user's fails.

    Raises `FlowError` if it says `passed` and nothing was tested, or something failed, or the journal contradicts it.
    """
    if len(verdict.evidence) > MAX_REPORTED:
        raise mismatch(f"`evidence` has {len(verdict.evidence)} commands: name at most {MAX_REPORTED}")
    if not all(check.command.strip() for check in verdict.evidence):
        raise mismatch("a `command` in `evidence` is empty: name what was run")
    state.check_runs = [
        _check_run(check.command, check.exit_code, check.output, ran_by="client") for check in verdict.evidence
    ]
    if not verdict.passed:
        return JudgedVerdict(verdict)
    if failed := [check for check in state.check_runs if check.exit_code]:
        raise mismatch(
            f"`passed` is true, but {failed[0].command} exited with {failed[0].exit_code}: submit `passed` as false,"
            " with the ids of the failed tasks"
        )
    warnings = [] if state.strictness == "lenient" else _check_reports(worktree, state)
    for number, words in enumerate(worktree.test_commands):
        run = _run_check(words, worktree.repository.root, deadline, number, len(worktree.test_commands))
        state.check_runs.append(run)
        if run.exit_code:
            details = f"{run.command} exited with {run.exit_code}:\n{run.output_end}"
            return JudgedVerdict(msgspec.structs.replace(verdict, passed=False, details=details))
    proved = any(run.proved for run in state.check_runs)
    return JudgedVerdict(verdict, proved, () if proved else tuple(warnings))


# --- what a client reports


def _check_reports(worktree: Worktree, state: SessionState) -> list[str]:
    """Mark the reported checks that the journal proves. Returns warnings about the others. Raises `FlowError`."""
    runs = state.check_runs
    kinds = [kind_of(run.command) for run in runs]
    counting = [run for run, kind in zip(runs, kinds, strict=True) if kind in ("checks", "other")]
    hidden = "hides" in kinds and "checks" not in kinds
    if hidden or not counting:
        if worktree.test_commands:
            return []
        suggested = suggested_checks(worktree.repository)
        what = f"{runs[0].command} only reads" if runs else "nothing was run"
        if hidden:
            what = f"{runs[kinds.index('hides')].command} succeeds even if its check fails"
        raise mismatch(
            f"`passed` is true, and {what}: run the project's tests or its build by themselves, and submit"
            " each command in `evidence`, as {command, exit_code, output}",
            **({"suggested_checks": suggested} if suggested else {}),
        )
    recorded = worktree.recorded(state)
    if recorded is None:
        return [UNPROVED] if counting else []
    since = _last_change_ms(worktree, state)
    for run in counting:
        if problem := _contradiction(run.command, recorded, since):
            raise mismatch(
                f"`passed` is true, but the journal of this client's calls says otherwise: {problem}. Run {run.command}"
                " by itself, and submit again"
            )
        run.proved = kind_of(run.command) == "checks"
    if failed := _failing(recorded, since):
        for run in counting:
            run.proved = False
        return [f"unproved: {failed} failed after the last change, and was not run again"]
    unclear = [run.command for run in counting if not run.proved]
    return [f"unproved: {command} is not known to test or build" for command in unclear]


def _failing(recorded: Sequence[RecordedCommand], since: int) -> str:
    """A check that failed after the last change and has not succeeded since; "" for none."""
    last = {_last_part(call.command): call for call in recorded if call.ended_ms >= since}
    return next((name for name, call in last.items() if not call.succeeded and kind_of(name) == "checks"), "")


def _contradiction(command: str, recorded: Sequence[RecordedCommand], since: int) -> str:
    """Why the journal does not prove a command; "" if it does."""
    wanted = _plain(command)
    calls = [call for call in recorded if _last_part(call.command) == wanted or _is_beginning(call.command, wanted)]
    if not calls:
        return f"{command} was not run"
    last = calls[-1]
    if not last.succeeded:
        return f"{command} failed"
    return f"files changed after {command} ran" if last.ended_ms < since else ""


def _last_part(command: str) -> str:
    """The last command of a chain: its exit code is that of the whole line."""
    plain = _plain(command)
    return plain.rpartition(" && ")[2] if not re.search(r"\|\||[;|]", plain) else plain


def _is_beginning(recorded: str, wanted: str) -> bool:
    """Whether a recorded line was cut, and the wanted one begins as it does."""
    return recorded.endswith("…") and len(recorded) > _LEAST_CUT and wanted.startswith(_plain(recorded[:-1]))


def _plain(command: str) -> str:
    return " ".join(without_secrets(command).split())


def _last_change_ms(worktree: Worktree, state: SessionState) -> int:
    """When a file of the session's changes was last written, in milliseconds since the epoch; 0 if none is there."""
    if not worktree.is_git or not worktree.git.commit():
        return 0
    latest = 0
    for change in changes.list_changes(worktree.git, worktree.base_commit(state) or "HEAD", state.dirty_before):
        with suppress(OSError):  # it was deleted
            latest = max(latest, os.lstat(worktree.git.path_of(change.path)).st_mtime_ns // 1_000_000)
    return latest


def is_unchanged(worktree: Worktree, state: SessionState) -> bool:
    """Whether no file differs from the session's base, apart from what the user had changed before."""
    if not worktree.is_git:
        return False
    try:
        base = worktree.base_commit(state) or worktree.git.commit()
        listed = changes.list_changes(worktree.git, base, state.dirty_before) if base else []
    except AdjournError:
        return False
    return bool(base) and all(change.before for change in listed)


def outcome_members(state: SessionState) -> dict[str, Any]:
    """What replies say about how far a session's change is verified."""
    warning = {"nothing_changed": NOTHING_CHANGED, "unproved": UNPROVED}.get(state.outcome)
    said = {"outcome": state.outcome} if state.outcome else {}
    return {**said, "warnings": [warning]} if warning else said


# --- which commands test or build

CommandKind = Literal["checks", "hides", "reads", "other"]
_CHECKERS = frozenset([
    "ava", "basedpyright", "bazel", "biome", "black", "buck2", "check", "cmake", "ctest", "cypress", "detox", "eslint", "flake8", "gradle", "gradlew",
    "jasmine", "jest", "just", "karma", "lein", "make", "mocha", "mvn", "mvnw", "mypy", "ninja", "nose2", "nox", "phpstan", "phpunit", "playwright",
    "prettier", "prove", "pylint", "pyright", "pytest", "rake", "rspec", "rubocop", "ruff", "sbt", "shellcheck", "stylelint", "tap", "task", "tox",
    "trial", "tsc", "unittest", "vitest", "vue-tsc", "xcodebuild",
])  # fmt: skip
"""Programs that test, build or check whatever their arguments are."""
_CHECKING = re.compile(
    r"(?:^|[-_:./])(?:tests?|spec|checks?|build|compile|lint|types?|typecheck|verify|vet|clippy|ci|bench|nextest|e2e)(?:$|[-_:./])"
)
"""A subcommand, target or script with one of these words in its name tests or builds."""
_BY_SUBCOMMAND = frozenset([
    "bun", "bundle", "cargo", "composer", "deno", "dotnet", "go", "hatch", "mix", "npm", "pdm", "pnpm", "poetry", "rye", "swift", "yarn", "zig", "stack",
    "cabal", "flutter", "dart",
])  # fmt: skip
_INTERPRETERS = frozenset([
    "bash", "sh", "zsh", "dash", "python", "python3", "node", "ruby", "perl", "php", "deno", "tsx", "ts-node",
])  # fmt: skip
_WRAPPERS = frozenset([
    "env", "nice", "time", "timeout", "nohup", "uv", "uvx", "poetry", "pipenv", "pdm", "hatch", "rye", "npx", "pnpx", "bunx", "xvfb-run", "run", "exec",
    "bundle", "sudo", "command",
])  # fmt: skip
_SHELLS = frozenset([
    "bash", "sh", "zsh", "dash",
])  # fmt: skip
_IDLE = frozenset(("true", ":", "false", "echo", "printf", "exit", "sleep", "cd", "test", "[", "git", "pwd", "ls"))
_ASKING = frozenset([
    "--version", "--help", "-h", "--collect-only", "--co", "--dry-run", "--setup-plan", "--fixtures", "--listTests",
])  # fmt: skip
"""Options with which a program tells something, and checks nothing."""
_MAKERS = frozenset([
    "make", "just", "rake", "task",
])  # fmt: skip
_TELLING = frozenset([
    "clean", "distclean", "mostlyclean", "help", "-n", "--just-print", "--recon", "-q", "--question", "-l", "--list", "-T", "--tasks",
])  # fmt: skip
"""Targets and options of these that build nothing."""
_NEGATED = re.compile(r"(?:^|[;&|({\n])\s*!\s")


def kind_of(command: str) -> CommandKind:
    """What a command is evidence of.

    It `checks` if it fails when something fails that tests or builds, and `hides` that if it does not (`pytest | tail`); or it only
    `reads`, or does something `other`.
    """
    try:
        line: Simple | Compound = parse(command)
    except UnreadError:
        words = tuple((WordPart("text", word),) for word in command.split())
        line = Compound("loop", (Simple((), words, ()),))
    found: list[tuple[CommandKind, bool]] = []
    _collect(line, not _NEGATED.search(command), set(), found)
    if ("checks", True) in found:
        return "checks"
    kinds = {kind for kind, _ in found}
    if kinds & {"checks", "hides"}:
        return "hides"
    return "reads" if kinds <= {"reads"} else "other"


def _collect(node: Simple | Compound, decides: bool, options: set[str], found: list[tuple[CommandKind, bool]]) -> None:
    """Add what each simple command is to `found`, with whether the line fails when it does."""
    if isinstance(node, Simple):
        words = ["".join(part.text for part in word) for word in node.words]
        if words[:1] == ["set"]:
            options.update(word for word in words if word == "pipefail")
            options.update("e" for word in words if re.fullmatch(r"-\w*e\w*", word))
        if words:
            found.append((_kind_of_part(words), decides))
        return
    first, last = node.parts[:1], node.parts[-1:]
    inner = set(options) if node.kind == "subshell" else options
    for part in node.parts:
        stops = "e" in options and not (isinstance(part, Compound) and part.kind == "and")
        own = {
            "list": (part,) == last or stops,
            "and": True,
            "or": (part,) == first and isinstance(last[0], Simple) and _program(last[0]) in ("exit", "false"),
            "pipe": (part,) == last or "pipefail" in options,
            "group": True,
            "subshell": isinstance(part, Compound) and part.kind == "list",  # else it runs in the background
        }.get(node.kind, False)
        _collect(part, decides and own, inner, found)


def _program(node: Simple) -> str:
    return node.words[0][0].text if node.words else ""


def _kind_of_part(words: list[str]) -> CommandKind:
    program = os.path.basename(words[0])
    if _ASKING & set(words) or (program in _MAKERS and words[1:] and set(words[1:]) & _TELLING):
        return "reads"
    if program in _SHELLS and len(words) > 2 and re.fullmatch(r"-\w*c", words[1]):
        return kind_of(words[2])
    if program in _WRAPPERS and len(words) > 1:
        rest = list(_wrapped(words[1:]))
        inner = _kind_of_part(rest) if rest else "other"
        if inner == "checks" or program not in _BY_SUBCOMMAND:
            return inner
    if program in _CHECKERS or (_CHECKING.search(os.path.splitext(program)[0]) and program not in _IDLE):
        return "checks"
    arguments = [word for word in words[1:] if not word.startswith("-")]
    if program.startswith(tuple(_INTERPRETERS)) and len(words) > 2 and words[1] == "-m":
        return _kind_of_part(words[2:])
    if program.startswith(tuple(_INTERPRETERS)) and words[1:2] in (["-c"], ["-e"]):
        return "other"
    if (program in _BY_SUBCOMMAND or program.startswith(tuple(_INTERPRETERS))) and any(
        map(_CHECKING.search, arguments[:2])
    ):
        return "checks"
    if program in _IDLE or only_reads(program, [ShellWord(word) for word in words[1:]]):
        return "reads"
    return "other"


def _wrapped(words: list[str]) -> Iterator[str]:
    """The words after those of a wrapper: its options, and numbers such as seconds."""
    started = False
    for word in words:
        started = started or not (
            word.startswith("-") or re.fullmatch(r"[\d.]+[smhd]?|run|exec|[A-Za-z_]\w*=.*", word, re.DOTALL)
        )
        if started:
            yield word


def suggested_checks(repository: CodeRepository) -> list[str]:
    """The commands that test or build a project, by what its own files declare. None of them is run."""
    return [command for name, find_in in _DECLARED.items() for command in find_in(_text(repository, name))]


def _text(repository: CodeRepository, name: str) -> str:
    try:
        return repository.read(name, 1 << 20).decode("utf-8", "replace")
    except AdjournError:
        return ""


def _scripts(text: str) -> list[str]:
    try:
        scripts = msgspec.json.decode(text.encode()).get("scripts", {})
    except (msgspec.DecodeError, AttributeError):
        return []
    return [f"npm run {name}" for name in scripts if _CHECKING.search(name)][:10] if isinstance(scripts, dict) else []


_DECLARED: dict[str, Any] = {
    "Makefile": lambda text: [
        f"make {target}" for target in re.findall(r"^([\w-]+):(?!=)", text, re.MULTILINE) if _CHECKING.search(target)
    ][:10],
    "pyproject.toml": lambda text: ["python -m pytest"] if "pytest" in text else [],
    "tox.ini": lambda text: ["tox"] if text else [],
    "package.json": _scripts,
    "go.mod": lambda text: ["go test ./...", "go build ./..."] if text else [],
    "Cargo.toml": lambda text: ["cargo test", "cargo build"] if text else [],
}

# --- what the server runs


def _run_check(words: tuple[str, ...], folder: str, deadline: Deadline, number: int, total: int) -> CheckRun:
    """Run a command to its end. It ends with this server, whatever way that ends."""
    began = time.monotonic()
    ended: list[tuple[int, str]] = []
    worker = threading.Thread(target=lambda: ended.append(_run_program(words, folder)), daemon=True)
    worker.start()
    while worker.is_alive():
        worker.join(_LOOK_SECONDS)
        part = min((time.monotonic() - began) / MAX_SECONDS, 1)
        deadline.report(int(1_000 * (number + part)), 1_000 * total)
    code, output = ended[0]
    seconds = round(time.monotonic() - began, 3)
    return _check_run(shlex.join(words), code, output, ran_by="server", seconds=seconds)


def _run_program(words: tuple[str, ...], folder: str) -> tuple[int, str]:
    """Exit code and output."""
    program = find(words[0])
    if program is None:
        return _NOT_RUN, f"{words[0]} is not on PATH"
    supervised = executables.python_command("-m", "adjourn.host.supervise", str(os.getpid()), program, *words[1:])
    try:
        done = run_program(supervised, folder, MAX_SECONDS, environment=outside(os.environ, folder))
    except ProgramError as error:
        return _NOT_RUN, error.message
    return done.code, done.output + done.errors


def _check_run(
    command: str, code: int, output: str, *, ran_by: Literal["server", "client"], seconds: float = 0.0
) -> CheckRun:
    return CheckRun(
        command=without_secrets(command)[:_SHOWN],
        exit_code=code,
        output_digest=digest(output.encode("utf-8", "replace")),
        output_end=without_secrets(output)[-_SHOWN:],
        seconds=seconds,
        ran_by=ran_by,
        proved=ran_by == "server",
        at=stamp(),
    )
