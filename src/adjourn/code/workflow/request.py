"""What a session starts with: the flags of `/code` in one table, the request, and the work tree.

A flag that is not in the table is an error.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from adjourn.code.repository import FOLDER, CodeRepository, Git
from adjourn.code.session_state import GateLevel, Intent, SessionState, Strictness, stamp
from adjourn.code.workflow.phases import FlowError
from adjourn.errors import AdjournError


class Flag(NamedTuple):
    """A row. `key` is the member in `flags` of start_session; `instead` names the call to make if the flag starts no session."""

    name: str
    short: str
    key: str
    effect: str
    instead: str = ""


FLAGS = (
    Flag("--gate=full|auto", "-g=f|a", "", "full: no phase is skipped, whatever Q1 to Q3 say"),
    Flag("--no-verify", "", "no_verify", "skip the verification after implementing"),
    Flag(
        "--only-verify",
        "-v",
        "",
        "run the verifier on the code as it is, and report",
        "no session: run a verifier of .code-intel/verifiers/",
    ),
    Flag("--only-explore", "-e", "only_explore", "end after exploring; change nothing"),
    Flag("--quick", "-q", "quick", "no exploration, no branch, no commit: change, verify, done"),
    Flag("--fast", "-f", "fast", "no exploration and no quality review, but a branch, a commit and a merge"),
    Flag("--no-doc-research", "", "no_doc", "skip the reading of design documents; also --no-doc"),
    Flag("--doc-research=A,B", "", "", "read by these prompts of .code-intel/doc_research/"),
    Flag("--no-quality", "", "no_quality", "skip the quality review before the commit"),
    Flag("--no-intervention", "-ni", "no_intervention", "never step in when verification keeps failing"),
    Flag("--resume", "-r", "", "resume the interrupted session; only alone", "get_session_status"),
    Flag(
        "--clean",
        "-c",
        "",
        "delete the branches and checkpoints of earlier sessions, then stop",
        "cleanup_stale_branches",
    ),
    Flag("--rebuild", "", "", "rebuild the index, then stop", "sync_index with force"),
)
_ALIASES = {"--no-doc": "--no-doc-research"}
_GATES: dict[str, GateLevel] = {"full": "full", "f": "full", "auto": "auto", "a": "auto"}


class Flags(msgspec.Struct, forbid_unknown_fields=True):
    """The flags of a session. `resume` exists only to be rejected: it starts no session."""

    no_verify: bool = False
    no_quality: bool = False
    fast: bool = False
    quick: bool = False
    no_doc: bool = False
    no_intervention: bool = False
    only_explore: bool = False
    resume: bool = False


def parse_flags(text: str, gate: GateLevel) -> tuple[Flags, GateLevel]:
    """Parse typed flags. Returns them and the gate level. Raises `FlowError` for an unknown flag, or one that starts no session."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise FlowError("invalid_flags", f"{text[:200]!r}: {error}") from error
    flags = Flags()
    typed: list[Flag] = []
    for word in words:
        name, _, value = word.partition("=")
        flag = _flag_named(name)
        typed.append(flag)
        if flag.name.startswith("--gate"):
            if value not in _GATES:
                raise FlowError("invalid_flags", f"invalid gate in {word}: use full or auto")
            gate = _GATES[value]
        elif flag.key:
            setattr(flags, flag.key, True)
    for flag in typed:
        if flag.name == "--resume" and len(typed) > 1:
            raise resume_not_alone()
        if flag.instead:
            raise FlowError("invalid_flags", f"{flag.name} does not start a session: call {flag.instead}")
    return flags, gate


def resume_not_alone() -> FlowError:
    return FlowError(
        "invalid_flags",
        "--resume must be used alone: call get_session_status instead; the flags of the session come from its checkpoint",
    )


def flag_table() -> str:
    """The flags as Markdown."""
    rows = [f"| `{flag.name}` | {f'`{flag.short}`' if flag.short else ''} | {flag.effect} |" for flag in FLAGS]
    return "\n".join(
        [
            "| flag | short | what it does |",
            "|---|---|---|",
            *(row.replace("full|auto", "full\\|auto").replace("f|a", "f\\|a") for row in rows),
        ]
    )


def _flag_named(name: str) -> Flag:
    name = _ALIASES.get(name, name)
    for flag in FLAGS:
        if name in (flag.name.partition("=")[0], flag.short.partition("=")[0]) and name:
            return flag
    raise FlowError("invalid_flags", f"unknown flag {name[:80]}", known_flags=[flag.name for flag in FLAGS])


MAX_QUERY = 100_000


class SessionRequest(msgspec.Struct, frozen=True):
    """What the user asks for, and how to do it."""

    intent: Intent
    query: str
    gate_level: GateLevel
    flags: Flags

    @property
    def needs_branch(self) -> bool:
        """Whether the session will work on a branch of its own."""
        looks_only = self.flags.only_explore or self.intent in ("INVESTIGATE", "QUESTION")
        return not (self.flags.quick or looks_only)

    def state(self, session: str, root: str, strictness: Strictness) -> SessionState:
        """A new session's state, not yet in a phase."""
        flags = self.flags
        return SessionState(
            session_id=session,
            intent=self.intent,
            query=self.query[:MAX_QUERY],
            created_at=stamp(),
            repo_path=root,
            gate_level=self.gate_level,
            skip_implementation=flags.only_explore,
            only_explore=flags.only_explore,
            no_verify=flags.no_verify,
            no_quality=flags.no_quality,
            quality_review_enabled=not flags.no_quality,
            fast_mode=flags.fast,
            quick_mode=flags.quick,
            no_doc=flags.no_doc,
            no_intervention=flags.no_intervention,
            strictness=strictness,
        )

    def summary(self) -> dict[str, Any]:
        """The members that the reply repeats; of the flags, those that are set."""
        flags = {name: on for name, on in msgspec.to_builtins(self.flags).items() if on}
        return {"intent": self.intent, "gate_level": self.gate_level, "flags": flags}


# --- the work tree of a session

QUALITY_REVIEW = "review_prompts/quality_review.md"
GARBAGE = "review_prompts/garbage_detection.md"
PLANNING = "task_planning.md"
MAX_PROMPT = 1 << 20


class RecordedCommand(NamedTuple):
    """A command of the client's shell, as the journal has it: whether it succeeded, and when it ended, in milliseconds since the epoch."""

    command: str
    succeeded: bool
    ended_ms: int


class Worktree:
    """A work tree. `excluded_sessions` returns the sessions that others hold; `on_merged` is called after a merge.

    `test_commands` are run before a change counts as verified. `recorded` returns the commands that the client ran during a session, in
    order; None if nothing records them.
    """

    def __init__(
        self,
        repository: CodeRepository,
        *,
        excluded_sessions: Callable[[], frozenset[str]] = frozenset,
        on_merged: Callable[[Worktree, SessionState], None] = lambda _, __: None,
        test_commands: Sequence[tuple[str, ...]] = (),
        recorded: Callable[[SessionState], Sequence[RecordedCommand] | None] = lambda _: None,
    ) -> None:
        self.repository = repository
        self.git = Git(repository.root)
        self.excluded_sessions = excluded_sessions
        self.on_merged = on_merged
        self.test_commands = test_commands
        self.recorded = recorded

    @property
    def server_runs(self) -> list[str]:
        """The test commands, as a shell would take them."""
        return [shlex.join(words) for words in self.test_commands]

    @property
    def is_git(self) -> bool:
        return not self.why_no_git

    @cached_property
    def why_no_git(self) -> str:
        """Why no branch can be created here, and the remedy; "" if one can."""
        root = self.repository.root
        if not self.repository.is_git:
            return f"{root} is not a git repository: run `git init` and commit"
        try:
            inside = self.git.line("rev-parse", "--is-inside-work-tree") == "true"
        except AdjournError as error:
            return f"git fails in {root}: {error.message}"
        return "" if inside else f"{root} is not a work tree of git"

    def prompt(self, name: str) -> str:
        """A prompt file of `.code-intel/`; "" if the project has none."""
        try:
            return self.repository.read(f"{FOLDER}/{name}", MAX_PROMPT).decode("utf-8", "replace")
        except AdjournError:
            return ""

    def base_commit(self, state: SessionState) -> str:
        """The commit that the session's changes are compared with: the merge base of its branch and its base."""
        if not state.base_branch:
            return state.base_commit
        return self.git.line("merge-base", f"refs/heads/{state.base_branch}", "HEAD")

    def check_branch(self, state: SessionState) -> None:
        """Raise `FlowError` unless the session's branch is checked out."""
        if not (state.task_branch_enabled and state.task_branch_name):
            raise FlowError("task_branch_not_enabled", "this session has no branch: nothing to review or commit")
        if (here := self.git.branch()) != state.task_branch_name:
            raise FlowError(
                "branch_operation_failed",
                f"{here or 'no branch'} is checked out, not {state.task_branch_name}: check it out, then submit again",
                requires_user_intervention=True,
            )
