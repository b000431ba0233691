"""Policy and contract files: what lies in a workspace is read through no link, and answers to an agent quote nothing of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from adjourn.aex.diagnostics import DIAGNOSTICS, finding, summary
from adjourn.aex.files import load
from adjourn.errors import InvalidError
from adjourn.findings import Span
from adjourn.policy.contract import BrokenContractError, read_contract, reread_policy
from adjourn.policy.destructive import read_settings

POLICY = 'policy work v0\ngoal "work"\nuse file.read\n'
TASK = 'task look v0\ngoal "look"\nuse file.read\nreturn 1\n'
SECRET = "root:$6$salt$hash:19000:0:99999:7:::"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "away").mkdir()
    (tmp_path / "work" / ".aex").mkdir(parents=True)
    (tmp_path / "work" / ".aex" / "policy.aex").write_text(POLICY)
    return tmp_path / "work"


def _link_to_file(path: Path, away: Path) -> None:
    (away / "it").write_text(path.read_text())
    path.unlink()
    path.symlink_to(away / "it")


def _link_inside(path: Path, away: Path) -> None:
    path.rename(path.with_name("other"))
    path.symlink_to("other")


def _linked_folder(path: Path, away: Path) -> None:
    path.parent.rename(away / "folder")
    path.parent.symlink_to(away / "folder")


def _pipe(path: Path, away: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _device(path: Path, away: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


ODD = [_link_to_file, _link_inside, _linked_folder, _pipe, _device]
Turn = Callable[[Path, Path], None]


@pytest.mark.parametrize("turn", ODD)
def test_a_policy_that_is_reached_through_a_link_or_is_no_file_is_refused(root: Path, turn: Turn) -> None:
    """Wherever the link leads, and whichever step of the path is one."""
    turn(root / ".aex" / "policy.aex", root.parent / "away")
    with pytest.raises(BrokenContractError) as refused:
        read_contract(str(root))
    assert [found.code for found in refused.value.findings] == ["AEX130"]


@pytest.mark.parametrize("turn", ODD)
def test_a_contract_that_is_reached_through_a_link_or_is_no_file_is_refused(root: Path, turn: Turn) -> None:
    """A contract in the workspace must be a plain file that no link leads to."""
    (root / "tasks").mkdir()
    (root / "tasks" / "look.aex").write_text(TASK)
    turn(root / "tasks" / "look.aex", root.parent / "away")
    with pytest.raises(BrokenContractError) as refused:
        read_contract(str(root), contract="tasks/look.aex")
    assert [(found.code, found.source) for found in refused.value.findings] == [("AEX130", "tasks/look.aex")]


@pytest.mark.parametrize("turn", ODD)
def test_a_policy_that_becomes_a_link_does_not_count(root: Path, turn: Turn) -> None:
    """The one that was read before it still does."""
    contract = read_contract(str(root))
    turn(root / ".aex" / "policy.aex", root.parent / "away")
    with pytest.raises(BrokenContractError):
        reread_policy(str(root), contract)


@pytest.mark.parametrize("turn", ODD)
def test_a_base_that_is_reached_through_a_link_or_is_no_file_is_refused(root: Path, turn: Turn) -> None:
    """The file that a JSON policy extends must be a plain file that no link leads to."""
    (root / "sub").mkdir()
    (root / "sub" / "base.json").write_text('{"allow": ["*"]}')
    (root / "p.json").write_text('{"extends": "sub/base.json"}')
    turn(root / "sub" / "base.json", root.parent / "away")
    with pytest.raises(BrokenContractError) as refused:
        read_contract(str(root), policy="p.json")
    assert [(found.code, found.source) for found in refused.value.findings] == [("AEX130", "sub/base.json")]


def test_a_policy_of_the_workspace_extends_nothing_outside_of_it(root: Path) -> None:
    """A workspace policy cannot extend a file outside the workspace, by dots or by an absolute path."""
    outside = root.parent / "away" / "base.json"
    outside.write_text('{"allow": ["*"]}')
    for base in (str(outside), "../away/base.json"):
        (root / "p.json").write_text(f'{{"extends": "{base}"}}')
        with pytest.raises(BrokenContractError) as refused:
            read_contract(str(root), policy="p.json")
        assert [found.code for found in refused.value.findings] == ["AEX161"]


def test_a_person_may_name_a_policy_elsewhere(root: Path) -> None:
    """By a path outside the workspace, also through a link; and that policy may name others outside of it."""
    away = root.parent / "away"
    (away / "policy.aex").write_text(POLICY)
    (away / "link.aex").symlink_to("policy.aex")
    (away / "base.json").write_text('{"allow": ["file.read"]}')
    (root.parent / "p.json").write_text(f'{{"extends": "{away}/base.json"}}')
    for named in (f"{away}/policy.aex", "../away/policy.aex", f"{away}/link.aex", f"{root.parent}/p.json"):
        assert [rule.pattern for rule in read_contract(str(root), policy=named).policy.allow] == ["file.read"]


def test_a_pipe_elsewhere_does_not_hold_anybody_up(root: Path) -> None:
    """A policy path outside the workspace that is a named pipe is refused without waiting."""
    os.mkfifo(root.parent / "away" / "pipe.aex")
    with pytest.raises(BrokenContractError):
        read_contract(str(root), policy=str(root.parent / "away" / "pipe.aex"))


def test_a_file_of_the_workspace_is_read_without_a_way_around(root: Path) -> None:
    """A path that leaves the workspace and comes back is the same path."""
    for path in (".aex/policy.aex", f"{root}/.aex/policy.aex", "../work/.aex/policy.aex", ".aex/../.aex/policy.aex"):
        assert load(os.path.join(root, path), root=str(root)) == (POLICY, [])


def test_the_discipline_is_reached_through_no_link(root: Path) -> None:
    """The settings of the discipline are not read through a linked `.aex` folder."""
    (root.parent / "away" / "discipline.json").write_text('{"off": ["rm"]}')
    os.rename(root / ".aex", root.parent / "away" / "aex")
    (root.parent / "away" / "discipline.json").rename(root.parent / "away" / "aex" / "discipline.json")
    (root / ".aex").symlink_to(root.parent / "away" / "aex")
    with pytest.raises(InvalidError):
        read_settings(str(root))


def test_a_summary_says_nothing_of_the_text() -> None:
    """Code, place, what the code stands for and the remedy; for each code whose messages may quote it."""
    for code in DIAGNOSTICS.keys() - {"AEX130", "AEX131", "AEX135", "AEX150"}:
        found = finding(code, f"unrecognized line `{SECRET}`", Span(3, 7, 2), source="policy.aex", help=SECRET)
        said = summary(found)
        assert SECRET not in said
        assert code in said
        assert "policy.aex:3:7" in said
        assert DIAGNOSTICS[code].title in said
