r"""Repositories as they are found: names of any bytes, very long lines, hooks that stage, many branches and changes, bare ones.

Through a real MCP client over stdio.
"""

from __future__ import annotations

import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from support.code_server import FAST, FRAME, MESSAGE, Repo, Server, begin, changed, ready_to_commit, shared_server, walk

server = shared_server()

ODD = {b"caf\xe9.py": "caf\\xe9.py", b"two\nlines.py": "two\\x0alines.py", b"back\\xe9.py": "back\\x5cxe9.py"}


def test_a_name_that_is_not_utf_8_is_a_name(tmp_path: Path) -> None:
    r"""Files of any name are indexed and found, by a text such as `caf\xe9.py`, which every tool takes for the file."""
    repo = Repo(tmp_path)
    folder = os.path.join(os.fsencode(repo.root), b"d\xff")
    os.mkdir(folder)
    for number, name in enumerate(ODD):
        with open(os.path.join(folder, name), "w") as file:
            file.write(f"def odd{number}():\n    return total([{number}])\n")
    repo.commit("Odd names")
    paths = [f"d\\xff/{text}" for text in ODD.values()]
    with Server(repo, "--symbols") as server:
        assert server.call("sync_index")["forest_sync"]["errors"] == []
        found = server.call("search_files", {"pattern": "d*/*.py"})
        assert sorted(found["files"]) == sorted(paths)
        hits = server.call("search_text", {"pattern": "def odd"})["matches"]
        assert sorted(hit["file"] for hit in hits) == sorted(paths)
        uses = server.call("find_references", {"symbol": "total"})
        assert {use["file"] for use in uses["references"]} > set(paths)
        assert uses["index_state"]["state"] == "ready"
        for number, path in enumerate(paths):
            (one,) = server.call("find_definitions", {"symbol": f"odd{number}"})["definitions"]
            assert one["file"] == path
            (one,) = server.call("get_symbols", {"path": path})["symbols"]
            assert (one["name"], one["file"]) == (f"odd{number}", path)
            assert server.call("analyze_structure", {"file_path": path})["functions"][0]["name"] == f"odd{number}"
            at = {"file_path": path, "line_number": 2}
            assert server.call("get_function_at_line", at)["name"] == f"odd{number}"
            (body,) = server.call("read_symbol", {"symbol": f"odd{number}"})["bodies"]
            assert (body["file"], "total" in body["content"]) == (path, True)
            (hit,) = server.call("search_text", {"pattern": "return", "path": path})["matches"]
            assert hit["file"] == path
            assert path in server.text("search_text", {"pattern": f"odd{number}"}).splitlines()
        assert server.call("search_text", {"pattern": "odd", "path": "d\\xff"})["total_matches"] == len(ODD)


def test_what_changes_in_a_file_of_any_name_is_found(tmp_path: Path) -> None:
    """The watcher and the next comparison know such a file as the index does: it is read again, and forgotten once it is gone."""
    repo = Repo(tmp_path)
    path = os.path.join(os.fsencode(repo.root), b"caf\xe9.py")
    with open(path, "w") as file:
        file.write("def first(): ...\n")
    with Server(repo) as server:
        server.call("sync_index")
        with open(path, "w") as file:
            file.write("def second(): ...\n")
        server.call("sync_index")
        (one,) = server.call("find_definitions", {"symbol": "second"})["definitions"]
        assert one["file"] == "caf\\xe9.py"
        assert server.call("find_definitions", {"symbol": "first"})["total"] == 0
        os.unlink(path)
        assert server.call("sync_index")["forest_sync"]["deleted"] == 1


def test_three_thousand_changes_are_reviewed_page_by_page(server: Server, repo: Repo) -> None:
    """Every change is on one page, with the diff that git has, whatever kind of change it is."""
    for number in range(1_500):
        repo.write(f"old/f{number}.txt", f"{number}\n" * 5)
    repo.write("old/link", "a file\n")
    repo.write('old/quoted "name".txt', "one\n")
    (repo.root / "old/picture").write_bytes(b"\0\1")
    repo.commit("Many files")
    ready_to_commit(server, repo)
    for number in range(0, 1_500, 3):
        repo.write(f"old/f{number}.txt", f"{number}\n" * 4 + "changed\n")
        (repo.root / f"old/f{number + 1}.txt").unlink()
    for number in range(2_000):
        repo.write(f"new/f{number}.txt", f"line of {number}\nsecond\n")
    repo.write("new/no end.txt", "one\ntwo")
    repo.write("new/empty.txt", "")
    repo.write("new/run.sh", "true\n")
    (repo.root / "new/run.sh").chmod(0o755)
    (repo.root / "new/binary").write_bytes(b"a\0b")
    (repo.root / "new/away").symlink_to("../README.md")
    (repo.root / "old/link").unlink()
    (repo.root / "old/link").symlink_to("f2.txt")
    repo.write('old/quoted "name".txt', "two\n")
    (repo.root / "old/picture").write_bytes(b"\0\2")
    found: dict[str, Any] = {}
    cursor, pages = "", 0
    while pages == 0 or cursor:
        reply = server.call("review_changes", {"cursor": cursor} if cursor else {})
        assert not found.keys() & {one["path"] for one in reply["changes"]}
        found |= {one["path"]: one for one in reply["changes"]}
        cursor, pages = reply.get("cursor", ""), pages + 1
    base = repo.git("merge-base", "main", "HEAD")
    repo.git("add", "-A", "-N", ".")
    paths = repo.git("diff", "--name-only", "-z", base, "--", ":!.code-intel").split("\0")
    assert sorted(found) == sorted(path for path in paths if path)
    assert len(found) == reply["total_changes"] > 3_000
    odd = ["new/no end.txt", "new/empty.txt", "new/run.sh", "new/away", "old/link", 'old/quoted "name".txt']
    for path in [*odd, "new/f7.txt", "old/f3.txt", "old/f4.txt"]:
        told = repo.git("diff", base, "--", path)
        lines = [line for line in told.split("\n") if not line.startswith("index ")]
        shown = [line for line in found[path]["diff"].split("\n") if line and not line.startswith("index ")]
        assert shown == lines, path
    for path in ("new/binary", "old/picture"):
        assert (found[path]["is_binary"], found[path]["diff"]) == (True, "")


def test_a_file_that_was_refused_is_marked(server: Server, repo: Repo) -> None:
    """The review says which of the changed files the agent was refused, unless it read them since."""
    reply = walk(server, repo, begin(server, repo, "--no-doc"), until="13")
    for path in ("README.md", "lib/__init__.py"):
        assert server.call("check_write_target", {"file_path": path})["allowed"] is False
    assert server.call("add_explored_files", {"files": ["lib/__init__.py"]})["success"] is True
    repo.edit("README.md", "prices", "costs")
    repo.write("lib/__init__.py", "x = 1\n")
    walk(server, repo, reply, until="PRE_COMMIT")
    shown = {one["path"]: one["refused"] for one in server.call("review_changes")["changes"]}
    assert shown == {
        "README.md": True, "lib/__init__.py": False, "app/cart.py": False, "app/NOTES.md": False,
    }  # fmt: skip


def test_six_hundred_branches_of_earlier_sessions(server: Server, repo: Repo) -> None:
    """The newest are named and all are counted; they are deleted together, and what has commits of its own is kept."""
    repo.git("checkout", "-q", "-b", "work")
    repo.write("work.txt", "work\n")
    commit = repo.commit("Work")
    repo.git("checkout", "-q", "main")
    repo.git("branch", "-q", "-D", "work")
    names = [f"llm_task_session_{number:04}_from_main" for number in range(600)]
    for number, name in enumerate(names):
        at = repo.root / ".git/refs/heads" / name
        at.write_text(f"{commit if number % 2 else repo.git('rev-parse', 'main')}\n")
    reply = begin(server, repo, "--no-doc")
    assert (reply["phase"], reply["stale_branches_total"]) == ("BRANCH_INTERVENTION", 600)
    assert [one["name"] for one in reply["stale_branches"]] == names[-20:]
    assert [one["commit_count"] for one in reply["stale_branches"]] == [0, 1] * 10
    result = server.accepted({"choice": "delete"})["cleanup_result"]
    assert result["deleted_branches"] == names
    assert [one["why"] for one in result["kept"]] == [f"branch {name}" for name in names[1::2]]
    assert {repo.git("rev-parse", one["ref"]) for one in result["kept"]} == {commit}
    assert len({one["ref"] for one in result["kept"]}) == 300
    assert repo.branches == ["main"]


def test_a_bare_repository_is_refused(server: Server, tmp_path: Path) -> None:
    """No tool works in a folder that has no files to work on, and nothing is written there."""
    repo = Repo(tmp_path)
    bare = tmp_path / "bare.git"
    repo.git("clone", "-q", "--bare", str(repo.root), str(bare))
    before = sorted(bare.rglob("*"))
    for folder in (bare, bare / "refs"):
        reply = server.start(repo_path=str(folder))
        assert (reply["error"], reply["message"][: len(str(bare))]) == ("invalid_arguments", str(bare))
        with Server(repo, root=folder) as inside:
            for tool, given in (
                ("start_session", {"intent": "QUESTION", "query": "x"}),
                ("search_text", {"pattern": "x"}),
                ("find_definitions", {"symbol": "x"}),
                ("get_session_status", {}),
                ("cleanup_stale_branches", {}),
                ("sync_index", {}),
                ("update_context", {}),
            ):
                assert "bare git repository" in inside.call(tool, given)["message"], tool
    assert sorted(bare.rglob("*")) == before
    tree = bare / "tree"
    repo.git("worktree", "add", "-q", str(tree), "main", cwd=bare)
    assert server.start(repo_path=str(tree), flags="--no-doc")["success"] is True


def test_a_work_tree_that_was_deleted(tmp_path: Path) -> None:
    """Each call says that the folder is gone; nothing is written in its place, and another one can be worked on."""
    repo = Repo(tmp_path)
    tree = tmp_path / "tree"
    repo.git("worktree", "add", "-q", "-b", "side", str(tree))
    with Server(repo, root=tree) as server:
        assert server.start(flags=FAST)["success"] is True
        server.call("sync_index")
        shutil.rmtree(tree)
        assert server.submit(FRAME)["error"]
        for tool, given in (
            ("search_text", {"pattern": "x"}),
            ("find_definitions", {"symbol": "total"}),
            ("find_references", {"symbol": "total"}),
            ("get_symbols", {"path": "app"}),
            ("sync_index", {}),
            ("start_session", {"intent": "QUESTION", "query": "x"}),
        ):
            assert str(tree) in server.call(tool, given)["message"], tool
        assert not tree.exists()
        assert server.start(repo_path=str(repo.root), flags=FAST)["success"] is True


def test_a_folder_that_the_client_has_not_opened_is_refused(tmp_path: Path) -> None:
    """A client with roots works in them and in the server's own repository, and nowhere else."""
    repo, other, third = (Repo(tmp_path / name) for name in ("own", "other", "third"))
    (tmp_path / "other/link").symlink_to(third.root)
    with Server(repo, opened=[other.root.parent]) as server:
        for folder in (repo.root, repo.root / "app", other.root):
            assert server.start(repo_path=str(folder), flags="--no-doc")["success"] is True
        for path in (str(third.root), "/", "..", str(tmp_path / "other/link"), str(tmp_path / "other2")):
            for tool in ("start_session", "get_session_status", "cleanup_stale_branches"):
                asked = {"intent": "QUESTION", "query": "x"} if tool == "start_session" else {}
                reply = server.call(tool, {"repo_path": path, **asked})
                assert (reply["error"], path in reply["message"]) == ("refused", True), (tool, path)
    assert sorted(path.name for path in third.root.iterdir()) == sorted(
        {".git", ".gitignore", "README.md", "app", "lib"}
    )


def hook(repo: Repo, script: str) -> None:
    path = repo.root / ".git/hooks/pre-commit"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize(
    "script",
    [
        "sed -i 's/price/cost/g' app/cart.py && git add app/cart.py",
        "sed -i 's/price/cost/g' app/cart.py && git add -A",
        "echo formatted >>app/NOTES.md && echo new >made.txt && git add app/NOTES.md made.txt",
        "git rm -q --cached -f app/NOTES.md && rm app/NOTES.md",
    ],
)
def test_a_hook_that_stages_is_as_if_the_user_had_committed(
    server: Server, repo: Repo, script: str, staged: bool
) -> None:
    """What a hook staged is in the commit and in the index; the session merges, and what the user had staged stays so."""
    if staged:
        repo.edit("README.md", "prices", "PRICES")
        repo.git("add", "README.md")
    ready_to_commit(server, repo)
    hook(repo, script)
    server.accepted({"reviewed_files": ["app/cart.py", "app/NOTES.md"], "commit_message": MESSAGE})
    taken = not staged or "-A" in script
    left = [] if taken else ["M  README.md"]
    assert repo.dirty == left
    assert server.accepted({})["merged"] is True
    assert repo.dirty == left
    assert ("PRICES" in repo.git("show", "main:README.md")) is (staged and taken)


def test_what_a_hook_only_writes_is_left_to_the_user(server: Server, repo: Repo) -> None:
    """A change that a hook makes and does not stage is in no commit, and is not lost; the reply of the merge names it."""
    ready_to_commit(server, repo)
    hook(repo, "echo '# later' >>app/cart.py")
    server.accepted({"reviewed_files": changed(server), "commit_message": MESSAGE})
    reply = server.submit({})
    assert reply["error"] == "merge_failed"
    assert "app/cart.py" in reply["message"]
    assert repo.read("app/cart.py").endswith("# later\n")


def test_a_kill_after_the_commit_leaves_no_stale_index(repo: Repo) -> None:
    """A server that is killed while git finishes a commit whose hook staged: the next one commits nothing twice, and merges."""
    with Server(repo) as server:
        ready_to_commit(server, repo)
        hook(repo, "sed -i s/price/cost/g app/cart.py && git add app/cart.py")
        post = repo.root / ".git/hooks/post-commit"
        post.write_text("#!/bin/sh\ntouch .git/committed\nsleep 3\n")
        post.chmod(0o755)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(server.submit, {"reviewed_files": ["app/cart.py", "app/NOTES.md"], "commit_message": MESSAGE})
            while not (repo.root / ".git/committed").exists():
                time.sleep(0.01)
            server.kill()
    post.unlink()
    with Server(repo) as server:
        assert server.status()["recovered_from_checkpoint"] is True
        server.accepted({"reviewed_files": changed(server), "commit_message": MESSAGE})
        assert server.accepted({})["merged"] is True
    assert repo.dirty == []
    assert repo.git("rev-list", "--count", "--no-merges", "main") == "2"
