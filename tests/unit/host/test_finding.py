"""Finding the workspace: upwards, up to the git root, across linked work trees, and never by what a stranger wrote."""

from __future__ import annotations

import os
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from adjourn.aex.layers import PLACES
from adjourn.host.finding import DEFAULT_STORE, MARKS, workspace_of
from adjourn.store.base import EMPTY, Entry
from adjourn.store.sqlite import SqliteStore


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of its own, with nothing in it."""
    place = Path(os.path.realpath(tmp_path)) / "home"
    place.mkdir()
    monkeypatch.setenv("HOME", str(place))
    return place


def mark(folder: Path, name: str = ".aex/policy.aex") -> Path:
    """Make a workspace of a folder."""
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("policy p v0\n")
    return folder


def git(*words: str, cwd: Path) -> None:
    given = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *given, *words], cwd=cwd, check=True, capture_output=True)


def repository(folder: Path) -> Path:
    folder.mkdir(parents=True)
    git("init", cwd=folder)
    git("commit", "--allow-empty", "-m", "first", cwd=folder)
    return folder


def below(folder: Path, path: str = "a/b") -> Path:
    (folder / path).mkdir(parents=True)
    return folder / path


def test_the_marks_begin_with_the_places_of_a_policy() -> None:
    """Whatever `discover` takes for a policy makes a folder a workspace."""
    assert MARKS[: len(PLACES)] == PLACES


@pytest.mark.parametrize("name", MARKS)
def test_the_nearest_folder_upwards_is_the_workspace(home: Path, name: str) -> None:
    """A folder belongs to the nearest workspace above it, by a policy or by a store."""
    outer = mark(home / "work")
    inner = mark(outer / "inner", name)
    found = workspace_of(str(below(inner)))
    assert (found.root, found.tree, found.is_found) == (str(inner), str(inner), True)
    assert workspace_of(str(outer / "inner"), outermost=True).root == str(outer)


def test_a_store_above_a_policy_does_not_hide_it(home: Path) -> None:
    """A store without a policy and without an event is no workspace around a hook's folder, unless it is the last one that there is."""
    stray = home / "above"
    (stray / ".aex").mkdir(parents=True)
    SqliteStore(str(stray / DEFAULT_STORE)).close()
    outer = mark(stray / "outer")
    inner = mark(outer / "inner")
    assert workspace_of(str(inner), outermost=True).root == str(outer)
    assert workspace_of(str(below(stray, "other")), outermost=True).root == str(stray)
    with closing(SqliteStore(str(stray / DEFAULT_STORE))) as store:
        store.append("t", [Entry("0" * 64, b"{}")], expect=EMPTY)
    assert workspace_of(str(inner), outermost=True).root == str(stray)
    (stray / DEFAULT_STORE).write_bytes(b"not a database, and nobody knows what was in it" * 100)
    assert workspace_of(str(inner), outermost=True).root == str(stray)


def test_an_empty_aex_folder_makes_no_workspace(home: Path) -> None:
    """Only a policy or a store makes a folder a workspace."""
    outer = mark(home / "work")
    (outer / "sub" / ".aex" / "undo").mkdir(parents=True)
    assert workspace_of(str(outer / "sub")).root == str(outer)


def test_nothing_is_searched_above_the_git_root(home: Path) -> None:
    """A workspace above a git repository does not hold for the repository; the message names the folders."""
    mark(home / "work")
    inside = below(repository(home / "work" / "repository"))
    found = workspace_of(str(inside))
    assert (found.root, found.is_found) == (str(inside), False)
    assert found.searched() == f"in {inside} or above it, up to {home / 'work' / 'repository'}"
    assert workspace_of(str(inside), outermost=True).root == str(home / "work")


def test_the_home_folder_holds_for_itself_alone(home: Path) -> None:
    """A policy in the home folder is not that of a folder in it."""
    mark(home)
    inside = below(home)
    assert workspace_of(str(home)).root == str(home)
    assert not workspace_of(str(inside)).is_found
    git("init", cwd=home)
    assert not workspace_of(str(inside)).is_found


def test_a_folder_that_every_user_may_write_to_holds_for_itself_alone(home: Path) -> None:
    """Anybody may have put a policy there, as in /tmp; the reason is shown."""
    shared = mark(home / "shared")
    shared.chmod(0o1777)
    found = workspace_of(str(below(shared)))
    assert not found.is_found
    assert found.skipped == (f"{shared} does not count: it is writable by every user",)
    assert found.skipped[0] in found.searched()
    assert workspace_of(str(shared)).is_found


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_policy_of_another_user_does_not_count(home: Path) -> None:
    """The next workspace upwards counts in its place, and the message says whose it is."""
    outer = mark(home / "work")
    inner = mark(outer / "inner")
    os.chown(inner / ".aex", 12345, 12345)
    found = workspace_of(str(below(inner)))
    assert found.root == str(outer)
    assert found.skipped == (f".aex in {inner} does not count: it belongs to user 12345",)
    os.chown(inner / ".aex", 0, 0)
    os.chown(inner / ".aex" / "policy.aex", 12345, 12345)
    assert workspace_of(str(inner)).root == str(outer)
    os.chown(inner, 12345, 12345)  # root in the folder of a user, as in a container
    assert workspace_of(str(inner)).root == str(inner)


# --- linked work trees


def test_a_linked_work_tree_belongs_to_the_workspace_of_the_main_one(home: Path) -> None:
    """Policy and store are those of the main work tree; paths are those of the work tree that one works in."""
    main = mark(repository(home / "main"))
    git("worktree", "add", str(home / "linked"), cwd=main)
    for start in (home / "linked", below(home / "linked")):
        found = workspace_of(str(start))
        assert found[:4] == (str(start), str(main), str(home / "linked"), True)
        assert workspace_of(str(start), outermost=True)[:4] == found[:4]


def test_a_workspace_beneath_the_top_is_found_at_the_same_place(home: Path) -> None:
    """Where the workspace is a folder of the repository, that folder of the linked work tree stands for it."""
    main = repository(home / "main")
    mark(main / "pkg")
    git("worktree", "add", str(home / "linked"), cwd=main)
    inside = below(home / "linked", "pkg/src")
    assert workspace_of(str(inside))[1:3] == (str(main / "pkg"), str(home / "linked" / "pkg"))
    assert not workspace_of(str(home / "linked")).is_found


def test_a_policy_that_is_committed_makes_no_workspace_of_a_linked_work_tree(home: Path) -> None:
    """It would have a history and a budget of its own: whoever adds a work tree would escape both. One with a store does."""
    main = mark(repository(home / "main"))
    linked = home / "linked"
    git("worktree", "add", str(linked), cwd=main)
    mark(linked)
    for outermost in (False, True):
        found = workspace_of(str(below(linked, f"a{outermost}")), outermost=outermost)
        assert found[1:3] == (str(main), str(linked))
    (linked / ".aex" / "adjourn.db").write_bytes(b"x")
    assert workspace_of(str(linked))[1:3] == (str(linked),) * 2


def test_a_policy_of_a_linked_work_tree_alone_makes_it_a_workspace(home: Path) -> None:
    """Where the main work tree is none."""
    main = repository(home / "main")
    git("worktree", "add", str(home / "linked"), cwd=main)
    mark(home / "linked")
    assert workspace_of(str(home / "linked"))[1:3] == (str(home / "linked"),) * 2


def test_a_linked_work_tree_inside_the_main_one_has_paths_of_its_own(home: Path) -> None:
    """As those that clients keep in a folder of the workspace, whoever names the folder."""
    main = mark(repository(home / "main"))
    linked = main / ".claude" / "worktrees" / "one"
    git("worktree", "add", str(linked), cwd=main)
    for outermost in (False, True):
        found = workspace_of(str(below(linked, f"a{outermost}")), outermost=outermost)
        assert found[1:3] == (str(main), str(linked))


def test_a_git_file_that_is_not_named_back_leads_nowhere(home: Path) -> None:
    """A file `.git` alone makes no foreign folder the workspace: the work tree's entry must name that very file."""
    main = mark(repository(home / "main"))
    git("worktree", "add", str(home / "linked"), cwd=main)
    thief = home / "thief"
    thief.mkdir()
    entry = main / ".git" / "worktrees" / "linked"
    for text in (f"gitdir: {entry}", f"gitdir: {main / '.git'}", "gitdir: ", "x" * 9000, "\0", ""):
        (thief / ".git").write_text(text)
        found = workspace_of(str(thief))
        assert (found.root, found.is_found) == (str(thief), False), text
    (thief / ".git").unlink()
    (thief / ".git").symlink_to(home / "linked" / ".git")
    assert not workspace_of(str(thief)).is_found


@pytest.mark.parametrize("name", ["gitdir", "commondir"])
@pytest.mark.parametrize("text", ["", "/", "..", "\0", "x" * 9000, "../../../../elsewhere"])
def test_a_broken_entry_of_a_work_tree_leads_nowhere(home: Path, name: str, text: str) -> None:
    """Whatever the files of a repository say, only the main work tree that has the entry is taken."""
    main = mark(repository(home / "main"))
    git("worktree", "add", str(home / "linked"), cwd=main)
    (main / ".git" / "worktrees" / "linked" / name).write_text(text)
    assert not workspace_of(str(home / "linked")).is_found


def test_a_pipe_in_the_place_of_a_git_file_stops_nothing(home: Path) -> None:
    """Nothing is read that is not a regular file."""
    os.mkfifo(home / ".git")
    inside = mark(home / "work")
    assert workspace_of(str(inside)).is_found


@pytest.mark.parametrize("name", [b"na\xefve", b"two words", b"line\nend", "ünï".encode(), b"d" * 255])
def test_any_name_of_a_folder_will_do(home: Path, name: bytes) -> None:
    """Names that are not UTF-8, with spaces, line ends, or as long as they get."""
    folder = Path(os.fsdecode(os.fsencode(home) + b"/" + name))
    mark(folder)
    assert workspace_of(str(below(folder))).root == str(folder)


def test_few_folders_are_looked_at(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start in the workspace itself takes a handful of looks at files."""
    work = mark(repository(home / "work"))
    looked: list[object] = []
    whole = os.lstat

    def look(path: str) -> os.stat_result:
        looked.append(path)
        return whole(path)

    monkeypatch.setattr(os, "lstat", look)
    workspace_of(str(work))
    assert len([one for one in looked if str(one).startswith(f"{work}/")]) <= 8
