"""No command follows a link out of the workspace to what it reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from adjourn.aex import effective
from adjourn.cli import main as cli

SECRET = "TOPSECRET"
COMMANDS = [
    ["effective"],
    ["effective", "--json"],
    ["effective", "--policy", "linked.aex"],
    ["effective", "--policy", "linked.json"],
    ["effective", "--contract", "linked.aex"],
    ["effective", "--contract", "out/secret.aex"],
    ["effective", "--explain", "file.read"],
    ["effective", "--replay"],
    ["check", "linked.aex"],
    ["check", "linked.json"],
    ["check", "out/secret.json"],
    ["fmt", "--check", "linked.aex"],
    ["parse", "linked.aex"],
    ["compile", "linked.aex"],
    ["review", "linked.aex"],
    ["tighten"],
    ["draft", "--from-plan", "linked.aex", "--model", "none:none"],
    ["sign", "linked.aex"],
    ["verify", "linked.aex"],
    ["run", "linked.aex"],
    ["run", "task.aex", "--inputs", "linked.json"],
    ["page", "lint", "linked.aex"],
    ["page", "lint", "out/secret.aex"],
    ["checkpoint", "import", "linked.json"],
    ["checkpoint", "import", "out/secret.json"],
    ["record", "verify", "linked.json"],
    ["keys", "trust", "ann", "linked.aex"],
]


@pytest.fixture
def linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace whose policy and other files are links to files beside it, or behind a folder that is one."""
    root = tmp_path / "work"
    (root / ".aex").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.aex").write_text(f"[default]\nuse everything {SECRET}\n")
    (tmp_path / "outside" / "secret.json").write_text(f'{{"{SECRET}": 1}}')
    (root / ".aex" / "policy.aex").symlink_to("../../outside/secret.aex")
    for ending in ("aex", "json"):
        (root / f"linked.{ending}").symlink_to(f"../outside/secret.{ending}")
    (root / "out").symlink_to("../outside")
    (root / "task.aex").write_text('task t v0\ngoal "g"\nreturn 1\n')
    monkeypatch.chdir(root)
    return root


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_what_is_behind_a_link_is_not_shown(
    linked: Path, capfd: pytest.CaptureFixture[str], command: Sequence[str]
) -> None:
    """Neither a link nor a folder that is one leads a command to a file outside of the workspace."""
    del linked
    assert cli([*command]) != 0
    shown = capfd.readouterr()
    assert SECRET not in shown.out + shown.err


def test_a_policy_outside_that_a_person_names_may_be_a_link(linked: Path, tmp_path: Path) -> None:
    """Only what is in the workspace is reached through no link."""
    (tmp_path / "mine.aex").write_text('policy p v0\ngoal "g"\nallow file.read\n')
    (tmp_path / "link.aex").symlink_to("mine.aex")
    policy, findings = effective(str(tmp_path / "link.aex"), None, root=str(linked))
    assert [rule.pattern for rule in policy.allow] == ["file.read"]
    assert findings == []
