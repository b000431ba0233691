"""Which folder a hook takes for the workspace, and whose keys it uses: nothing that an agent can make there counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.hooks import HookWorkspace

WIDE = 'policy wide v0\ngoal "all"\nuse *\n'


@pytest.fixture
def work(tmp_path: Path) -> Iterator[HookWorkspace]:
    with HookWorkspace(tmp_path, "use file.read", "budget calls=2") as work:
        yield work


@pytest.mark.parametrize("place", [".aex/policy.aex", "aex.policy.aex"])
@pytest.mark.parametrize("mark", ["", ".git"])
def test_a_policy_beneath_the_workspace_counts_for_nothing(work: HookWorkspace, place: str, mark: str) -> None:
    """Wherever the agent's shell has gone, the outermost folder with a policy is the workspace."""
    nested = work.root / "sub" / "deep"
    (nested / place).parent.mkdir(parents=True)
    (nested / place).write_text(WIDE)
    if mark:
        (nested / mark).mkdir()
    for cwd in (nested, work.root / "sub"):
        assert work.ask("Bash", {"command": "make"}, cwd=str(cwd)).decision == "deny"
    assert work.ask("Read", {"file_path": "a"}, cwd=str(nested)).decision == "allow"
    assert not (nested / ".aex" / "adjourn.db").exists()


def test_one_budget_wherever_the_shell_has_gone(work: HookWorkspace) -> None:
    """A folder beneath the workspace is no workspace with a budget of its own, also under a policy that lies elsewhere."""
    policy = work.root.parent / "person.aex"
    work.policy_file.rename(policy)
    (work.root / "sub").mkdir()
    said = [
        work.ask("Read", {"file_path": str(number)}, "--policy", str(policy), cwd=str(cwd)).decision
        for number, cwd in enumerate((work.root, work.root / "sub", work.root / "sub"))
    ]
    assert said == ["allow", "allow", "deny"]


def test_a_policy_beneath_a_store_begins_no_budget_of_its_own(work: HookWorkspace) -> None:
    """Under a policy that lies elsewhere, the workspace has a store only; a policy beneath it counts for nothing either."""
    policy = work.root.parent / "person.aex"
    work.policy_file.rename(policy)
    nested = work.root / "sub"
    (nested / ".aex").mkdir(parents=True)
    (nested / ".aex" / "policy.aex").write_text(WIDE)
    said = [
        work.ask("Read", {"file_path": str(number)}, "--policy", str(policy), cwd=str(cwd)).decision
        for number, cwd in enumerate((work.root, nested, nested))
    ]
    assert said == ["allow", "allow", "deny"]
    assert work.ask("Bash", {"command": "make"}, cwd=str(nested)).decision != "allow"


def test_a_policy_where_everybody_may_write_does_not_count(work: HookWorkspace) -> None:
    """As in /tmp: nobody knows whose it is, so the call is refused, and the message names the folder."""
    work.root.parent.chmod(0o1777)
    (work.root.parent / "aex.policy.aex").write_text(WIDE)
    for cwd in (work.root, work.root.parent / "other"):
        cwd.mkdir(exist_ok=True)
        said = work.ask("Bash", {"command": "make"}, cwd=str(cwd))
        assert (said.code, said.out) == (2, "")
        assert str(work.root.parent) in said.err


def test_a_policy_of_the_home_folder_is_for_the_home_folder_alone(work: HookWorkspace) -> None:
    """A workspace in it has its own, or none."""
    home = work.root.parent
    (home / "aex.policy.aex").write_text(WIDE)
    env = {"HOME": str(home)}
    assert work.ask("Bash", {"command": "make"}, env=env).decision == "deny"
    assert work.ask("Bash", {"command": "make"}, env=env, cwd=str(home)).decision == "deny"  # its keys are in it
    elsewhere = env | {"ADJOURN_CONFIG": str(home.parent / f"{home.name}-config")}
    assert work.ask("Bash", {"command": "make"}, env=elsewhere, cwd=str(home)).decision == "allow"


def test_the_clients_project_is_the_workspace(work: HookWorkspace) -> None:
    """Where the client names it, nothing is looked for."""
    nested = work.root / "sub"
    (nested / ".aex").mkdir(parents=True)
    (nested / ".aex" / "policy.aex").write_text(WIDE)
    env = {"CLAUDE_PROJECT_DIR": str(nested)}
    assert work.ask("Bash", {"command": "make"}, env=env).decision == "allow"
    env = {"CLAUDE_PROJECT_DIR": str(work.root)}
    assert work.ask("Bash", {"command": "make"}, env=env, cwd=str(nested)).decision == "deny"


@pytest.mark.parametrize("name", ["ADJOURN_CONFIG", "XDG_CONFIG_HOME", "HOME"])
def test_keys_in_the_workspace_are_refused(work: HookWorkspace, name: str) -> None:
    """By hook and proxy, whichever variable leads to them, also through a link."""
    (work.root / "mine").mkdir()
    (work.root.parent / "link").symlink_to(work.root / "mine")
    for folder in (work.root / "mine", work.root.parent / "link"):
        env = {"ADJOURN_CONFIG": "", "XDG_CONFIG_HOME": "", "HOME": "/nowhere"} | {name: str(folder)}
        said = work.ask("Read", {"file_path": "a"}, env=env)
        assert said.decision == "deny"
        assert "keys are inside the workspace" in said.reason
        client = work.client(env=env)
        assert client.call("echo", {"a": 1})["result"]["isError"]
        client.kill()
    assert list((work.root / "mine").iterdir()) == []
    assert work.executed() == []
