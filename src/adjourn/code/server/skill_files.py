"""The files that set a project up for coding sessions: the skill for each client, and the prompts of the phases.

Owns: which files there are, and their texts, put together from `skill/`. Must never: write a file.
"""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable

from adjourn.code.model.repository import FOLDER
from adjourn.code.workflow.flags import table

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


def files() -> dict[str, str]:
    """Path in the project → text."""
    skill = resources.files("adjourn.code") / "skill"
    procedure = _text(skill / "procedure.md").replace("{flags}", table()).rstrip()
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
