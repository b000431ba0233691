"""The `/code` skill: its flags (one table), the request that a session starts with, and the files that set it up.

A flag that is not in the table is an error.
"""

from __future__ import annotations

import shlex
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, NamedTuple

import msgspec

from adjourn.code.model.repository import FOLDER
from adjourn.code.model.session_state import GateLevel, Intent, SessionState, Strictness, stamp
from adjourn.code.workflow.phases import FlowError


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
    found: list[Flag] = []
    for word in words:
        name, _, value = word.partition("=")
        flag = _known(name)
        found.append(flag)
        if flag.name.startswith("--gate"):
            if value not in _GATES:
                raise FlowError("invalid_flags", f"invalid gate in {word}: use full or auto")
            gate = _GATES[value]
        elif flag.key:
            setattr(flags, flag.key, True)
    for flag in found:
        if flag.name == "--resume" and len(found) > 1:
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
    rows = [
        f"| `{flag.name}` | {f'`{flag.short}`' if flag.short else ''} | {flag.effect} |" for flag in FLAGS
    ]
    return "\n".join(
        [
            "| flag | short | what it does |",
            "|---|---|---|",
            *(row.replace("full|auto", "full\\|auto").replace("f|a", "f\\|a") for row in rows),
        ]
    )


def _known(name: str) -> Flag:
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
        """The members that the reply repeats."""
        flags = {name: on for name, on in msgspec.to_builtins(self.flags).items() if name != "resume"}
        return {"intent": self.intent, "gate_level": self.gate_level, "flags": flags}


# --- the files that set a project up for coding sessions

MCP_FILE = ".mcp.json"
MCP_ENTRY = """\
{
  "mcpServers": {
    "code-intel": {
      "command": "adjourn",
      "args": ["code"]
    }
  }
}
"""
_SKILLS = {
    ".claude/commands/code.md": "claude_command.md",
    ".claude/skills/code-session/SKILL.md": "claude_skill.md",
    ".agents/skills/code/SKILL.md": "codex_skill.md",
}


def skill_files() -> dict[str, str]:
    """Path in the project → text."""
    skill = resources.files("adjourn.code") / "skill"
    procedure = _text(skill / "procedure.md").replace("{flags}", flag_table()).rstrip()
    found = {path: _text(skill / name).replace("{procedure}", procedure) for path, name in _SKILLS.items()}
    found[MCP_FILE] = MCP_ENTRY
    return found | _prompts(skill / "prompts", FOLDER)


def _prompts(folder: Traversable, path: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        below = f"{path}/{entry.name}"
        found |= _prompts(entry, below) if entry.is_dir() else {below: _text(entry)}
    return found


def _text(file: Traversable) -> str:
    return file.read_text(encoding="utf-8")
