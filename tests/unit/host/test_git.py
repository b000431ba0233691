"""No git command runs what a repository names, or works in another place than it seems to: run tools, snapshots, doctor."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from adjourn.checkpoints.git_restore import changes
from adjourn.checkpoints.git_snapshot import forget, keep
from adjourn.cli.doctor import doctor
from adjourn.errors import AdjournError, NotFoundError, RefusedError
from adjourn.policy.destructive import DEFAULT
from adjourn.runs.subprocesses import touched
from adjourn.runs.tools import built_in
from support.checkpoints import put_back
from support.hostile_git import arm, arm_filter, git, plain, program, submodule

PATIENT = msgspec.structs.replace(DEFAULT, keep_seconds=60.0)
PATCH = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-old\n+new\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository, and a home folder and a working folder of its own."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    work = plain(tmp_path / "work")
    monkeypatch.chdir(work)
    return work


def _kept(root: Path) -> None:
    keep(str(root), "t", 1, PATIENT)


def _put_back(root: Path) -> None:
    kept = keep(str(root), "t", 1, PATIENT)
    (root / "a.txt").write_text("spoilt\n")
    (root / "b.py").unlink()
    changes(str(root), kept.commit, PATIENT)
    _, before = put_back(str(root), kept.commit, "t", 2, PATIENT)
    assert (root / "a.txt").read_text() == "changed\n"
    forget(str(root), [kept.ref, before.ref])


def _apply(root: Path) -> None:
    (root / "a.txt").write_text("old\n")
    assert built_in(str(root))["git.apply"].run({"diff": PATCH}) == {"applied": True}
    assert (root / "a.txt").read_text() == "new\n"


CALLS: dict[str, Callable[[Path], object]] = {
    "status": lambda root: built_in(str(root))["git.status"].run({}),
    "diff": lambda root: built_in(str(root))["git.diff"].run({}),
    "diff of a path": lambda root: built_in(str(root))["git.diff"].run({"paths": ["b.py"]}),
    "apply": _apply,
    "touched": lambda root: touched(str(root), PATCH),
    "keep": _kept,
    "put back": _put_back,
    "doctor": lambda root: CliRunner().invoke(doctor, ["--json"]),
}
BY_CALL = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())


@BY_CALL
@pytest.mark.parametrize(
    "drivers", [(), ("filter.odd", 'filter.Ünï "code"', "filter.with.dots")], ids=["settings", "filters"]
)
def test_no_program_of_the_repository_is_run(
    root: Path, tmp_path: Path, call: Callable[[Path], object], drivers: tuple[str, ...]
) -> None:
    """Not by its settings, what they include, its hooks, its attributes, or those of a submodule; and the call does what it is for."""
    mark = tmp_path / "mark"
    submodule(root, mark)
    (root / "a.txt").write_text("changed\n")
    (root / "b.py").write_text("b = 2\n")
    arm(root, mark, filters=drivers)
    call(root)
    assert not mark.exists(), mark.read_text()


@BY_CALL
def test_a_filter_whose_name_cannot_be_switched_off_stops_the_call(
    root: Path, tmp_path: Path, call: Callable[[Path], object]
) -> None:
    """`-c filter.a=b.clean=` would set something else: the call is refused, and the filter does not run."""
    mark = tmp_path / "mark"
    arm_filter(root, "filter.a=b", program(tmp_path / "filter", mark))
    (root / ".gitattributes").write_text("* filter=a=b\n")
    (root / "a.txt").write_text("changed\n")
    if call is CALLS["doctor"]:  # looks into no file
        call(root)
    else:
        with pytest.raises(RefusedError, match="cannot be overridden"):
            call(root)
    assert not mark.exists()


@BY_CALL
def test_variables_of_git_lead_it_nowhere_else(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[[Path], object]
) -> None:
    """Those that name another repository, index or configuration, or a program, are not heeded."""
    other, mark = plain(tmp_path / "other"), tmp_path / "mark"
    path = program(tmp_path / "evil", mark)
    (root / "a.txt").write_text("changed\n")
    (root / "global").write_text(f'[core]\n\tfsmonitor = {path}\n[filter "g"]\n\tclean = {path}\n')
    (root / ".gitattributes").write_text("* filter=g\n")
    for name, value in {
        "GIT_DIR": f"{other}/.git", "GIT_WORK_TREE": str(other), "GIT_INDEX_FILE": f"{other}/.git/index",
        "GIT_OBJECT_DIRECTORY": f"{other}/.git/objects", "GIT_COMMON_DIR": f"{other}/.git", "GIT_EXTERNAL_DIFF": path,
        "GIT_PAGER": path, "GIT_EDITOR": path, "GIT_SSH_COMMAND": path, "GIT_ASKPASS": path, "GIT_EXEC_PATH": str(root),
        "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": path,
        "GIT_CONFIG_GLOBAL": f"{root}/global", "GIT_TRACE": f"{mark}.trace",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    call(root)
    assert not mark.exists(), mark.read_text()
    assert not os.path.exists(f"{mark}.trace")
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    assert git(other, "for-each-ref", "refs/adjourn") == ""


def elsewhere_by_setting(root: Path, other: Path) -> None:
    git(root, "config", "core.worktree", str(other))


def elsewhere_by_file(root: Path, other: Path) -> None:
    (root / ".git").rename(root / "was")
    (root / ".git").write_text(f"gitdir: {other}/.git\n")


def elsewhere_by_link(root: Path, other: Path) -> None:
    (root / ".git").rename(root / "was")
    (root / ".git").symlink_to(other / ".git")


def elsewhere_by_common_folder(root: Path, other: Path) -> None:
    (root / ".git" / "commondir").write_text(f"{other}/.git\n")


def as_another_work_tree(root: Path, other: Path) -> None:
    git(other, "worktree", "add", "-q", str(other.parent / "linked"))
    (root / ".git").rename(root / "was")
    (root / ".git").write_text(f"gitdir: {other}/.git/worktrees/linked\n")


def bare(root: Path, other: Path) -> None:
    """A repository without `.git`, with a work tree and a monitor in its settings."""
    git_folder = root / ".git"
    for entry in list(git_folder.iterdir()):
        entry.rename(root / entry.name)
    git_folder.rmdir()
    config = root / "config"
    git(root.parent, "config", "--file", str(config), "core.bare", "false")
    git(root.parent, "config", "--file", str(config), "core.worktree", str(root))
    git(root.parent, "config", "--file", str(config), "core.fsmonitor", program(root / "evil", other.parent / "mark"))


@pytest.mark.parametrize("call", [CALLS[name] for name in ("status", "diff", "keep", "put back", "apply")])
@pytest.mark.parametrize(
    "lead",
    [
        elsewhere_by_setting,
        elsewhere_by_file,
        elsewhere_by_link,
        elsewhere_by_common_folder,
        as_another_work_tree,
        bare,
    ],
)
def test_git_works_in_the_workspace_or_not_at_all(
    root: Path, tmp_path: Path, lead: Callable[[Path, Path], None], call: Callable[[Path], object]
) -> None:
    """Git reads, shows and changes nothing outside the workspace, wherever the repository leads."""
    other = plain(tmp_path / "private")
    (other / "a.txt").write_text("a secret\n")
    git(other, "commit", "-qam", "a secret")
    (other / "a.txt").write_text("another secret\n")
    (root / "a.txt").write_text("changed\n")
    lead(root, other)
    told = ""
    with suppress(RefusedError, NotFoundError):
        told = str(call(root))
    assert "secret" not in told
    assert not (tmp_path / "mark").exists()
    assert (other / "a.txt").read_text() == "another secret\n"
    assert "adjourn" not in git(other, "for-each-ref")
    assert git(other, "status", "--short") == " M a.txt\n"


# --- what continues as before


def test_linked_work_trees_and_submodules_are_repositories(root: Path, tmp_path: Path) -> None:
    """A `.git` file whose repository names the folder back is one, also in a folder of a larger workspace."""
    git(root, "worktree", "add", "-q", str(tmp_path / "linked"))
    git(root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(root), "sub")
    for place in (tmp_path / "linked", root / "sub"):
        (place / "a.txt").write_text("changed\n")
        tools = built_in(str(place))
        assert tools["git.status"].run({}) == [" M a.txt"]
        assert "+changed" in tools["git.diff"].run({})
        _put_back(place)
        _apply(place)


def test_a_repository_apart_that_names_the_folder_is_one(tmp_path: Path, root: Path) -> None:
    """`--separate-git-dir` writes no name back; the remedy is to write one."""
    place = tmp_path / "place"
    git(tmp_path, "init", "-q", "--separate-git-dir", str(tmp_path / "apart"), str(place))
    (place / "a.txt").write_text("new\n")
    with pytest.raises(RefusedError, match="does not name"):
        built_in(str(place))["git.status"].run({})
    git(place, "config", "core.worktree", str(place))
    assert built_in(str(place))["git.status"].run({}) == ["?? a.txt"]


def test_status_and_diff_are_those_of_git(root: Path) -> None:
    """Renames, names that are quoted, what is staged, a folder of the repository: as `git` itself prints them."""
    (root / "sub").mkdir()
    (root / "sub" / "ünï code").write_text("x\n")
    (root / "gone").write_text("gone\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "second")
    git(root, "mv", "gone", "moved")
    (root / "a.txt").write_text("changed\n")
    (root / "sub" / "ünï code").write_text("y\n")
    (root / "new").write_text("new\n")
    for place in (root, root / "sub"):
        tools = built_in(str(place))
        assert tools["git.status"].run({}) == git(place, "status", "--short").splitlines()
        assert tools["git.diff"].run({}) == git(place, "diff")
    assert built_in(str(root))["git.diff"].run({"paths": ["a.txt"]}) == git(root, "diff", "--", "a.txt")


def test_filters_of_the_person_run(root: Path, tmp_path: Path) -> None:
    """What somebody set up for all repositories, such as git-lfs, is theirs: a file that it knows is not shown as changed."""
    (root / ".gitattributes").write_text("*.big filter=up\n")
    git(root, "config", "--global", "filter.up.clean", "tr a-z A-Z")
    git(root, "config", "--global", "filter.up.smudge", "tr A-Z a-z")
    (root / "x.big").write_text("text\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "filtered")
    assert git(root, "show", ":x.big") == "TEXT\n"
    (root / "x.big").unlink()
    (root / "x.big").write_text("text\n")  # its time tells nothing now
    tools = built_in(str(root))
    assert tools["git.status"].run({}) == []
    kept = keep(str(root), "t", 1, PATIENT)
    (root / "x.big").write_text("spoilt\n")
    assert "-TEXT\n+SPOILT" in tools["git.diff"].run({})
    put_back(str(root), kept.commit, "t", 2, PATIENT)
    assert (root / "x.big").read_text() == "text\n"


@pytest.mark.parametrize("where", ["home", "link", "include"])
def test_filters_of_a_home_in_the_workspace_are_not_the_person_s(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Where the person's settings, or a file that they include, can be written by an agent, they count as the repository's."""
    mark, home = tmp_path / "mark", tmp_path / "home"
    path = program(tmp_path / "filter", mark)
    written = root / "dotfiles"
    written.write_text(f'[filter "mine"]\n\tclean = {path}\n\tsmudge = {path}\n')
    if where == "home":
        written.rename(root / ".gitconfig")
        monkeypatch.setenv("HOME", str(root))
    elif where == "link":
        (home / ".gitconfig").symlink_to(written)
    else:
        (home / ".gitconfig").write_text(f"[include]\n\tpath = {written}\n")
    (root / ".gitattributes").write_text("*.txt filter=mine\n")
    (root / "a.txt").write_text("changed\n")
    for name in ("status", "diff", "put back", "apply"):
        (root / "a.txt").write_text("changed\n")
        CALLS[name](root)
    assert not mark.exists()


def test_a_filter_of_the_person_is_given_no_program_by_the_repository(root: Path, tmp_path: Path) -> None:
    """git-lfs asks git's configuration for extensions and transfer agents: those of the repository are empty."""
    seen = tmp_path / "seen"
    filter_ = tmp_path / "lfs"
    keys = (
        "lfs.extension.e.clean",
        "lfs.customtransfer.t.path",
        "lfs.standalonetransferagent",
        "lfs.url",
        "core.sshCommand",
    )
    lines = [f"printf '%s=[%s]\\n' {key} \"$(git config {key})\" >>'{seen}'" for key in keys]
    filter_.write_text("\n".join(["#!/bin/sh", *lines, "cat", ""]))
    filter_.chmod(0o755)
    git(root, "config", "--global", "filter.lfs.clean", str(filter_))
    for key in keys:
        git(root, "config", key, "evil")
    (root / ".gitattributes").write_text("*.txt filter=lfs\n")
    (root / "a.txt").write_text("changed\n")
    built_in(str(root))["git.status"].run({})
    built_in(str(root))["git.diff"].run({})
    told = set(seen.read_text().splitlines())
    assert told == {
        "lfs.extension.e.clean=[]", "lfs.customtransfer.t.path=[]", "lfs.standalonetransferagent=[]", "lfs.url=[evil]",
        "core.sshCommand=[false]",
    }  # fmt: skip


def test_more_settings_than_can_be_told_stop_the_call(root: Path, tmp_path: Path) -> None:
    """A list of filters that was cut off would leave out the one that matters."""
    mark = tmp_path / "mark"
    path = program(tmp_path / "evil", mark)
    with open(root / ".git" / "config", "a", encoding="utf-8") as file:
        for number in range(20_000):
            name = f"{number:06d}" + "x" * 50
            file.write(f'[filter "{name}"]\n\tclean = {path}\n')
    (root / ".gitattributes").write_text(f"*.txt filter={10_000:06d}{'x' * 50}\n")
    (root / "a.txt").write_text("changed\n")
    with pytest.raises(AdjournError):
        built_in(str(root))["git.status"].run({})
    assert not mark.exists()


def test_doctor_finds_what_it_found(root: Path) -> None:
    """That git tracks the store, and does not ignore it."""
    (root / ".aex").mkdir()
    (root / ".aex" / "adjourn.db").write_text("")
    told = json.loads(CliRunner().invoke(doctor, ["--json"]).output)["findings"]
    assert "store-not-ignored" in {one["code"] for one in told}
    git(root, "add", "-f", ".aex/adjourn.db")
    told = json.loads(CliRunner().invoke(doctor, ["--json"]).output)["findings"]
    assert "store-tracked" in {one["code"] for one in told}
