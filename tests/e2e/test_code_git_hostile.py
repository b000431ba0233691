"""Git as it should not be: links, submodules, programs and repositories that lead elsewhere. Nothing of the user's
is lost, nothing foreign is run, and what was reported was done.

Through a real MCP client over stdio. Each test has a repository of its own; they share one server where they can.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from support.code_server import (
    FAST,
    FIX,
    FRAME,
    MESSAGE,
    Repo,
    Server,
    begin,
    changed,
    commit_all,
    ready_to_commit,
    shared_server,
    walk,
)
from support.hostile_git import arm

server = shared_server()


def program(repo: Repo, name: str) -> tuple[Path, Path]:
    """A program that leaves a mark when it is run, and the mark."""
    path, mark = repo.home / name, repo.home / f"{name}.ran"
    path.write_text(f"#!/bin/sh\necho \"$0 $*\" >>'{mark}'\ncat\n")
    path.chmod(0o755)
    return path, mark


# --- what is discarded


def test_what_is_discarded_is_kept_as_it_was(server: Server, repo: Repo) -> None:
    """Kept work has the bytes of the files themselves, whatever a filter or a setting of line ends makes of them; links and modes, too."""
    repo.write(".gitattributes", "*.nb filter=strip\n*.txt text eol=lf\n")
    repo.git("config", "filter.strip.clean", "sed /output/d")
    repo.commit("Attributes")
    ready_to_commit(server, repo)
    repo.write("a.nb", "code\noutput of an hour\n")
    (repo.root / "crlf.txt").write_bytes(b"one\r\ntwo\r\n")
    repo.write("run.sh", "true\n")
    (repo.root / "run.sh").chmod(0o755)
    (repo.root / "away").symlink_to("/etc/hostname")
    names = ["a.nb", "crlf.txt", "run.sh", "away"]
    assert set(names) <= set(changed(server))
    discard = [{"path": name, "decision": "discard", "reason": "no"} for name in names]
    reply = server.accepted({"reviewed_files": ["app/cart.py", "app/NOTES.md", *discard], "commit_message": MESSAGE})
    ref = reply["kept"]["ref"]
    assert repo.git("show", f"{ref}:a.nb") == "code\noutput of an hour"
    assert repo.git("cat-file", "-s", f"{ref}:crlf.txt") == "10"
    assert repo.git("show", f"{ref}:away") == "/etc/hostname"
    assert repo.git("ls-tree", "--format=%(objectmode)", ref, "run.sh", "away").split() == ["120000", "100755"]
    assert not any(os.path.lexists(repo.root / name) for name in names)


def test_a_link_is_discarded_and_not_what_it_leads_to(server: Server, repo: Repo) -> None:
    """Links out of the work tree are reviewed and discarded as links; nothing behind them is read or touched."""
    outside = repo.home / "outside"
    outside.mkdir()
    (outside / "secret").write_text("a secret\n")
    ready_to_commit(server, repo)
    (repo.root / "folder").symlink_to(outside)
    (repo.root / "file").symlink_to(outside / "secret")
    shown = {one["path"]: one for one in server.call("review_changes")["changes"]}
    assert "a secret" not in str(shown)
    assert {"folder", "file"} <= shown.keys()
    discard = [{"path": name, "decision": "discard", "reason": "no"} for name in ("folder", "file")]
    server.accepted({"reviewed_files": ["app/cart.py", "app/NOTES.md", *discard], "commit_message": MESSAGE})
    assert not (repo.root / "folder").is_symlink()
    assert (outside / "secret").read_text() == "a secret\n"


@pytest.mark.parametrize("ignored", [False, True])
def test_a_file_does_not_come_back_over_a_folder(server: Server, repo: Repo, ignored: bool) -> None:
    """Bringing back a file where a folder is now would delete what is in it: that is refused until it is decided on."""
    ready_to_commit(server, repo)
    (repo.root / "README.md").unlink()
    name = "README.md/note.pyc" if ignored else "README.md/note.txt"
    repo.write(name, "mine\n")
    files: list[Any] = [path for path in changed(server) if path != "README.md"]
    discard = {"path": "README.md", "decision": "discard", "reason": "it was not to go"}
    reply = server.submit({"reviewed_files": [*files, discard], "commit_message": MESSAGE})
    assert "README.md" in reply["message"]
    assert repo.read(name) == "mine\n"
    if not ignored:
        both = [{**discard, "path": path} for path in ("README.md", name)]
        rest = [path for path in files if path != name]
        assert server.accepted({"reviewed_files": [*rest, *both], "commit_message": MESSAGE})["kept"]
        assert repo.read("README.md").startswith("# Shop")


def test_a_folder_does_not_come_back_over_a_file(server: Server, repo: Repo) -> None:
    """The other way round it is the same."""
    ready_to_commit(server, repo)
    (repo.root / "lib/__init__.py").unlink()
    (repo.root / "lib").rmdir()
    repo.write("lib", "a file of this name, written for an hour\n")
    files: list[Any] = [path for path in changed(server) if path != "lib/__init__.py"]
    discard = {"path": "lib/__init__.py", "decision": "discard", "reason": "it was not to go"}
    reply = server.submit({"reviewed_files": [*files, discard], "commit_message": MESSAGE})
    assert "lib" in reply["message"]
    assert "for an hour" in repo.read("lib")


def test_an_error_names_what_was_kept_before_it(server: Server, repo: Repo) -> None:
    """When files were discarded and the commit then failed, the error says where they were put."""
    ready_to_commit(server, repo)
    hook = repo.root / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    changed(server)
    discard = {"path": "app/NOTES.md", "decision": "discard", "reason": "no"}
    reply = server.submit({"reviewed_files": ["app/cart.py", discard], "commit_message": MESSAGE})
    assert (reply["error"], reply["kept"]["files"]) == ("commit_execution_failed", ["app/NOTES.md"])
    assert "taken off" in repo.git("show", f"{reply['kept']['ref']}:app/NOTES.md")


# --- submodules


@pytest.fixture
def nested(repo: Repo, tmp_path: Path) -> Repo:
    other = Repo(tmp_path / "other", {"code.c": "int x;\n"})
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other.root), "vendor")
    repo.commit("With a submodule")
    return repo


@pytest.mark.parametrize("recurse", ["true", "false"])
def test_work_in_a_submodule_is_left_alone(server: Server, nested: Repo, recurse: str) -> None:
    """What is not committed in a submodule is no change of the session, which the review says, and survives it."""
    nested.git("config", "submodule.recurse", recurse)
    nested.write("vendor/code.c", "int mine;\n")
    nested.write("vendor/new.c", "int new;\n")
    ready_to_commit(server, nested)
    assert changed(server) == ["app/NOTES.md", "app/cart.py"]
    assert "files changed in vendor" in server.call("review_changes")["warnings"][0]
    commit_all(server)
    assert server.accepted({})["merged"] is True
    assert (nested.read("vendor/code.c"), nested.read("vendor/new.c")) == ("int mine;\n", "int new;\n")


def test_a_submodule_that_moved_is_kept_or_brought_back_by_hand(server: Server, nested: Repo) -> None:
    """Its commit can be taken into the session's; discarding it is the user's, and says how."""
    ready_to_commit(server, nested)
    nested.write("vendor/code.c", "int y;\n")
    nested.git("commit", "-q", "-a", "-m", "Moved", cwd=nested.root / "vendor")
    files: list[Any] = changed(server)
    assert "vendor" in files
    discard = {"path": "vendor", "decision": "discard", "reason": "no"}
    rest = [path for path in files if path != "vendor"]
    reply = server.submit({"reviewed_files": [*rest, discard], "commit_message": MESSAGE})
    assert "git submodule update" in reply["message"]
    assert nested.read("vendor/code.c") == "int y;\n"
    server.accepted({"reviewed_files": files, "commit_message": MESSAGE})
    assert server.accepted({})["merged"] is True
    assert nested.dirty == []


# --- what is run


def test_looking_runs_no_program_of_the_repository(server: Server, repo: Repo) -> None:
    """Settings that name programs are heeded where the user would expect it, by the commit; never by listing and showing."""
    marks = []
    repo.write(".gitattributes", "*.py diff=odd\n*.md diff=odd\n")
    repo.commit("Attributes")
    for key in ("core.fsmonitor", "diff.external", "diff.odd.textconv", "diff.odd.command", "core.pager"):
        path, mark = program(repo, key)
        repo.git("config", key, str(path))
        marks.append(mark)
    hooks = repo.root / ".git/hooks"
    for name in ("post-index-change", "fsmonitor-watchman", "post-checkout"):
        path, mark = program(repo, name)
        (hooks / name).symlink_to(path)
        if name != "post-checkout":
            marks.append(mark)
    repo.git("checkout", "-q", "-b", "llm_task_old_from_main")
    repo.git("checkout", "-q", "main")
    for mark in repo.home.glob("*.ran"):
        mark.unlink()
    begin(server, repo, FAST)
    reply = walk(server, repo, server.accepted({"choice": "continue"}), until="PRE_COMMIT")
    for mark in marks:  # making the branch writes the index
        mark.unlink(missing_ok=True)
    assert reply["phase"] == "PRE_COMMIT"
    server.status()
    diffs = [one["diff"] for one in server.call("review_changes")["changes"]]
    assert any(FIX[1] in diff for diff in diffs)
    assert [mark.name for mark in marks if mark.exists()] == []


def test_looking_runs_no_filter_of_the_repository(server: Server, repo: Repo) -> None:
    """Listing, showing and what a step looks up run nothing that the repository names, filters and a submodule's settings included."""
    mark = repo.home / "mark"
    ready_to_commit(server, repo)
    arm(repo.root, mark, filters=("filter.odd", "filter.with.dots"))
    repo.write("a.txt", "new\n")
    server.status()
    shown = {one["path"]: one["diff"] for one in server.call("review_changes")["changes"]}
    assert FIX[1] in shown["app/cart.py"]
    assert "new" in shown["a.txt"]
    assert not mark.exists(), mark.read_text()


def test_a_file_that_is_brought_back_is_written_by_its_filter(server: Server, repo: Repo) -> None:
    """Keeping what is discarded runs nothing; bringing it back runs what it does for the user, or a file of git-lfs would be a pointer."""
    mark, written = repo.home / "mark", repo.home / "written"
    ready_to_commit(server, repo)
    arm(repo.root, mark, filters=())
    repo.git("config", "--unset", "include.path")
    repo.git("config", "filter.odd.smudge", f"tee '{written}'")
    repo.write(".git/info/attributes", "*.md filter=odd\n")
    repo.edit("README.md", "prices", "PRICES")
    discard = [{"path": path, "decision": "discard", "reason": "no"} for path in changed(server)]
    assert not mark.exists()
    assert server.accepted({"reviewed_files": discard, "commit_message": MESSAGE})["kept"]
    assert "prices" in repo.read("README.md")
    assert written.exists()
    hooks = {line.split()[0].rpartition("/")[2] for line in mark.read_text().splitlines()} if mark.exists() else set()
    assert hooks <= {"post-index-change", "post-checkout"}


def test_a_change_that_a_filter_takes_out_is_no_commit(server: Server, repo: Repo) -> None:
    """A file that differs only in what its filter leaves out can be decided on; there is nothing of it to commit."""
    repo.write("a.nb", "code\n")
    repo.write(".gitattributes", "*.nb filter=strip\n")
    repo.git("config", "filter.strip.clean", "sed /output/d")
    repo.commit("Notebook")
    ready_to_commit(server, repo)
    repo.write("a.nb", "code\noutput of an hour\n")
    rest = [path for path in changed(server) if path != "a.nb"]
    discard = [{"path": path, "decision": "discard", "reason": "no"} for path in rest]
    server.accepted({"reviewed_files": ["a.nb", *discard], "commit_message": MESSAGE})
    assert server.accepted({})["merged"] is False
    assert repo.read("a.nb") == "code\noutput of an hour\n"


def elsewhere_by_setting(repo: Repo, other: Repo) -> None:
    repo.git("config", "core.worktree", str(other.root))


def elsewhere_by_file(repo: Repo, other: Repo) -> None:
    (repo.root / ".git").rename(repo.home / "was")
    repo.write(".git", f"gitdir: {other.root}/.git\n")


def elsewhere_by_common_folder(repo: Repo, other: Repo) -> None:
    repo.write(".git/commondir", f"{other.root}/.git\n")


@pytest.mark.parametrize("lead", [elsewhere_by_setting, elsewhere_by_file, elsewhere_by_common_folder])
def test_a_repository_that_leads_elsewhere_is_not_worked_in(tmp_path: Path, lead: Any) -> None:
    """Another repository, and the files of another work tree, are neither shown nor changed."""
    repo, other = Repo(tmp_path), Repo(tmp_path / "other")
    other.write("README.md", "a secret\n")
    other.commit("Private")
    other.write("README.md", "another secret\n")
    before = other.git("for-each-ref"), other.dirty, other.branch
    with Server(repo) as server:
        ready_to_commit(server, repo)
        lead(repo, other)
        told = json.dumps([server.status(), server.call("review_changes"), server.submit({"reviewed_files": []})])
        told += json.dumps(server.submit({"reviewed_files": ["app/cart.py"], "commit_message": MESSAGE}))
    assert "secret" not in told
    assert (other.git("for-each-ref"), other.dirty, other.branch) == before


def test_the_environment_does_not_lead_git_elsewhere(tmp_path: Path) -> None:
    """A server that was started by a hook, or with any variable of git's, works on its own repository all the same."""
    repo, other = Repo(tmp_path), Repo(tmp_path / "other")
    path, mark = program(repo, "diff")

    class Led(Repo):
        @property
        def environment(self) -> dict[str, str]:
            return super().environment | {
                "GIT_DIR": str(other.root / ".git"),
                "GIT_WORK_TREE": str(other.root),
                "GIT_INDEX_FILE": str(other.root / ".git/index"),
                "GIT_COMMON_DIR": str(other.root / ".git"),
                "GIT_OBJECT_DIRECTORY": str(other.root / ".git/objects"),
                "GIT_EXTERNAL_DIFF": str(path),
                "GIT_GLOB_PATHSPECS": "1",
                "GIT_CONFIG_COUNT": "1",
                "GIT_CONFIG_KEY_0": "core.hooksPath",
                "GIT_CONFIG_VALUE_0": "/nowhere",
                "GIT_TRACE": "1",
            }

    led = object.__new__(Led)
    led.root, led.home = repo.root, repo.home
    before = other.git("rev-parse", "HEAD"), other.branches, other.dirty
    with Server(led) as server:
        assert walk(server, repo, server.start(flags=FAST))["merged"] is True
    assert FIX[1] in repo.git("show", "main:app/cart.py")
    assert (other.git("rev-parse", "HEAD"), other.branches, other.dirty) == before
    assert not mark.exists()


def test_a_large_new_file_is_not_shown(server: Server, repo: Repo) -> None:
    """A file of many megabytes is a change like any other; its text is not read into the review."""
    ready_to_commit(server, repo)
    with open(repo.root / "big.log", "w", encoding="utf-8") as file:
        file.writelines("a line of a log\n" * 1000 for _ in range(2000))
    (big,) = [one for one in server.call("review_changes")["changes"] if one["path"] == "big.log"]
    assert big["diff"] == ""
    assert stat.S_ISREG(os.lstat(repo.root / "big.log").st_mode)


# --- where no branch can be made


@pytest.mark.parametrize("state", ["detached", "unborn", "empty"])
def test_why_there_is_no_branch_is_said_in_words(server: Server, tmp_path: Path, state: str) -> None:
    """On a detached HEAD and before the first commit the reply says so and what to do, and looking works."""
    repo = Repo(tmp_path, git=state != "empty")
    if state == "detached":
        repo.git("checkout", "-q", "--detach")
    elif state == "unborn":
        repo.git("checkout", "-q", "--orphan", "fresh")
    else:
        repo.git("init", "-q", "-b", "main")
    begin(server, repo, FAST)
    assert server.call("search_text", {"pattern": "apply_discount"})["total_matches"] == 1
    reply = server.submit(FRAME)
    words = {"detached": "HEAD is detached", "unborn": "no commit yet", "empty": "no commit yet"}
    assert words[state] in reply["message"]
    assert reply["error"] == "branch_creation_failed"
    done = walk(server, repo, begin(server, repo, "--quick --no-doc"))
    assert done["session_complete"] is True


def test_without_git_looking_works_and_the_reason_is_given(tmp_path: Path) -> None:
    """Where git is not installed, or will not work in the folder, questions can be worked on, and a change says why it cannot."""
    repo = Repo(tmp_path)

    class Without(Repo):
        @property
        def environment(self) -> dict[str, str]:
            return super().environment | {"PATH": "/nowhere"}

    bare = object.__new__(Without)
    bare.root, bare.home = repo.root, repo.home
    with Server(bare) as server:
        reply = server.start()
        assert reply["error"] == "branch_setup_failed"
        assert "git is not installed" in reply["message"]
        assert server.call("search_text", {"pattern": "apply_discount"})["total_matches"] == 1
        done = walk(server, repo, server.start("what is total?", "QUESTION", flags="--no-doc"))
        assert done["session_complete"] is True
