"""Merging in repositories as they should not be: hostile settings, merges under way, kills, odd names.
Nothing of the user's is lost.

Through a real MCP client over stdio. Each test has a repository of its own; they share one server where they can.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.code_server import FAST, FIX, MESSAGE, Repo, Server, begin, changed, ready_to_commit, shared_server, walk

server = shared_server()


def committed(server: Server, repo: Repo) -> str:
    """A session whose commit is made and not merged; its branch."""
    ready_to_commit(server, repo)
    changed(server)
    server.accepted({"reviewed_files": ["app/cart.py", "app/NOTES.md"], "commit_message": MESSAGE})
    return repo.branch


def on_main(repo: Repo, branch: str, *edit: str) -> None:
    """A commit that the base gets meanwhile."""
    repo.git("checkout", "-q", "main")
    repo.edit(*edit)
    repo.git("commit", "-q", "-a", "-m", "Meanwhile")
    repo.git("checkout", "-q", branch)


# --- merging


def test_staged_work_survives_a_merge_that_conflicts(server: Server, repo: Repo) -> None:
    """What the user had staged, as it was staged, is there when a merge was undone."""
    branch = committed(server, repo)
    on_main(repo, branch, "app/cart.py", FIX[0], "return price - share")
    repo.write("staged.txt", "first\n")
    repo.edit("README.md", "prices", "PRICES")
    repo.git("add", "staged.txt", "README.md")
    repo.write("staged.txt", "second\n")
    assert server.submit({})["conflicts"] == ["app/cart.py"]
    assert (repo.branch, repo.dirty) == (branch, ["M  README.md", "AM staged.txt"])
    assert (repo.git("show", ":staged.txt"), repo.read("staged.txt")) == ("first", "second\n")
    assert "PRICES" in repo.read("README.md")


def test_a_merge_of_the_users_is_not_undone(server: Server, repo: Repo) -> None:
    """While the user is in the middle of a merge of their own, nothing is merged, and nothing of theirs is touched."""
    repo.git("checkout", "-q", "-b", "theirs")
    repo.edit("README.md", "prices", "PRICES")
    repo.commit("Theirs")
    repo.git("checkout", "-q", "main")
    committed(server, repo)
    repo.git("checkout", "-q", "main")
    repo.git("merge", "-q", "--no-ff", "--no-commit", "theirs")
    repo.write("README.md", "resolved by hand, for an hour\n")
    repo.git("add", "README.md")
    reply = server.submit({})
    assert (reply["error"], reply["requires_user_intervention"]) == ("merge_failed", True)
    assert "merge" in reply["message"]
    assert repo.read("README.md") == "resolved by hand, for an hour\n"
    assert repo.git("rev-parse", "MERGE_HEAD") == repo.git("rev-parse", "theirs")
    repo.git("commit", "-q", "-m", "Theirs, too")
    assert server.accepted({})["merged"] is True
    assert repo.dirty == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("branch.main.mergeOptions", "--no-commit"),
        ("branch.main.mergeOptions", "--squash --ff"),
        ("merge.ff", "only"),
        ("merge.autoStash", "true"),
    ],
)
def test_settings_of_merges_do_not_change_what_a_merge_is(server: Server, repo: Repo, key: str, value: str) -> None:
    """Whatever the user's settings say of their own merges, a session's ends in a merge commit, with what is not committed left alone."""
    committed(server, repo)
    repo.git("config", key, value)
    repo.edit("README.md", "prices", "PRICES")
    assert server.accepted({})["merged"] is True
    assert repo.git("log", "-1", "--format=%P", "main").count(" ") == 1
    assert (repo.branches, repo.dirty) == (["main"], ["M README.md"])
    assert repo.git("stash", "list") == ""


def test_a_tag_named_like_the_base_is_not_the_base(server: Server, repo: Repo) -> None:
    """The branch is merged into the branch, though a tag of its name has the commit already."""
    repo.git("tag", "main")
    branch = committed(server, repo)
    repo.git("tag", "-f", "main")
    done = server.accepted({})
    assert (done["merged"], done["from_branch"], done["to_branch"]) == (True, branch, "main")
    assert "1 - share" in repo.git("show", "refs/heads/main:app/cart.py")


def test_changes_in_the_way_of_the_base_stay(server: Server, repo: Repo) -> None:
    """Where what is not committed would be overwritten by going to the base, nothing is done and a person is asked."""
    branch = committed(server, repo)
    on_main(repo, branch, "README.md", "prices", "costs")
    repo.edit("README.md", "prices", "PRICES")
    reply = server.submit({})
    assert (reply["error"], reply["requires_user_intervention"]) == ("merge_failed", True)
    assert (repo.branch, "PRICES" in repo.read("README.md")) == (branch, True)


def test_an_ignored_file_in_the_way_stays(server: Server, repo: Repo) -> None:
    """A file that git ignores here, and the base has by now, is not overwritten."""
    branch = committed(server, repo)
    repo.git("checkout", "-q", "main")
    repo.write("secret.env", "theirs\n")
    repo.commit("Meanwhile")
    repo.git("checkout", "-q", branch)
    repo.write(".git/info/exclude", "*.env\n")
    repo.write("secret.env", "mine\n")
    reply = server.submit({})
    assert reply["error"] == "merge_failed"
    assert (repo.branch, repo.read("secret.env")) == (branch, "mine\n")


def test_a_merge_that_was_cut_off_is_done_again(server: Server, repo: Repo) -> None:
    """Half a merge of the session's own branch, as a power failure leaves it, is undone and done; what it held is kept and named."""
    branch = committed(server, repo)
    repo.git("checkout", "-q", "main")
    repo.git("merge", "-q", "--no-ff", "--no-commit", branch)
    reply = server.accepted({})
    assert (reply["merged"], repo.dirty, repo.branches) == (True, [], ["main"])
    assert "app/cart.py" in reply["kept"]["files"]
    assert FIX[1] in repo.git("show", f"{reply['kept']['ref']}:app/cart.py")


def test_a_server_killed_while_a_hook_of_the_merge_runs(repo: Repo) -> None:
    """git continues without the server; whatever the next one finds it in, submitting again ends in the one merge."""
    mark = repo.home / "hook.ran"
    with Server(repo) as server:
        committed(server, repo)
        hook = repo.root / ".git/hooks/pre-merge-commit"
        hook.write_text(f"#!/bin/sh\necho >>'{mark}'\nsleep 2\n")
        hook.chmod(0o755)
        with ThreadPoolExecutor() as pool:
            pool.submit(server.submit, {})
            while not mark.exists():
                time.sleep(0.01)
            server.kill()
    with Server(repo) as server:
        assert "warnings" not in server.status()
        reply = server.submit({})
        deadline = time.monotonic() + 60
        while "error" in reply and time.monotonic() < deadline:
            time.sleep(0.5)
            reply = server.submit({})
    assert (reply["merged"], repo.branches, repo.dirty) == (True, ["main"], [])
    assert repo.git("log", "--first-parent", "--format=%s", "main").count("Merge") == 1


def test_cleaning_up_does_not_leave_a_detached_head(server: Server, repo: Repo) -> None:
    """On a detached HEAD nothing is merged: its commits would be left behind without a name."""
    branch = committed(server, repo)
    repo.git("checkout", "-q", "--detach", "main")
    repo.write("mine.txt", "mine\n")
    commit = repo.commit("Mine")
    asked = {"repo_path": str(repo.root), "action": "merge"}
    cleaned = server.call("cleanup_stale_branches", asked)
    assert "HEAD is detached" in cleaned["errors"][0]
    assert (repo.git("rev-parse", "HEAD"), repo.branches) == (commit, [branch, "main"])


def test_work_that_a_cut_off_step_kept_is_named(repo: Repo) -> None:
    """When a server is killed between keeping work and answering, the next one names the ref."""
    with Server(repo) as server:
        ready_to_commit(server, repo)
        (path,) = repo.checkpoints()
        before = path.read_bytes()
        changed(server)
        discard = {"path": "app/NOTES.md", "decision": "discard", "reason": "not needed"}
        reply = server.accepted({"reviewed_files": ["app/cart.py", discard], "commit_message": MESSAGE})
        server.kill()
    path.write_bytes(before)
    with Server(repo) as server:
        (kept,) = server.status()["known"]["kept"]
        assert (kept["ref"], kept["files"]) == (reply["kept"]["ref"], ["app/NOTES.md"])


def test_a_session_that_committed_nothing_ends_after_a_kill(repo: Repo) -> None:
    """Its branch being gone already is no reason to ask for a person."""
    with Server(repo) as server:
        ready_to_commit(server, repo)
        changed(server)
        discard = [{"path": path, "decision": "discard", "reason": "no"} for path in ("app/cart.py", "app/NOTES.md")]
        server.accepted({"reviewed_files": discard, "commit_message": MESSAGE})
        (path,) = repo.checkpoints()
        before = path.read_bytes()
        server.accepted({})
        server.kill()
    path.write_bytes(before)
    with Server(repo) as server:
        server.status()
        assert server.accepted({})["merged"] is False


# --- names


def test_names_that_are_not_utf_8_are_names(server: Server, repo: Repo) -> None:
    """Files with any bytes in their names are noted, kept, shown, discarded and committed, by a name that can be written back."""
    names = [b"caf\xe9.py", b"a\nb.py", b"-", b"--force", b"tab\t.py", b"back\\xe9.py"]
    for name in names:
        with open(os.path.join(os.fsencode(repo.root), name), "wb") as file:
            file.write(b"x = 1\n")
    reply = walk(server, repo, begin(server, repo, FAST), until="12")
    assert len(reply["kept"]["files"]) == len(names)
    walk(server, repo, reply, until="PRE_COMMIT")
    with open(os.path.join(os.fsencode(repo.root), b"after\xff.py"), "wb") as file:
        file.write(b"x = 2\n")
    shown = {one["path"]: one for one in server.call("review_changes")["changes"]}
    assert all("+x = " in one["diff"] for path, one in shown.items() if not path.startswith("app/"))
    assert {path for path, one in shown.items() if one["before"]} == set(reply["kept"]["files"])
    reviewed = [
        {"path": path, "decision": "discard" if "caf" in path or path == "-" else "keep", "reason": "r"}
        for path in shown
    ]
    reply = server.accepted({"reviewed_files": reviewed, "commit_message": MESSAGE})
    assert server.accepted({})["merged"] is True
    left = os.listdir(os.fsencode(repo.root))
    assert b"caf\xe9.py" not in left
    assert b"-" not in left
    assert {b"after\xff.py", b"a\nb.py", b"--force", b"back\\xe9.py"} <= set(left)
    assert repo.dirty == []


def test_a_base_whose_name_is_not_utf_8(server: Server, repo: Repo) -> None:
    """A session of a branch with any bytes in its name goes back to that branch."""
    name = os.fsdecode(b"caf\xe9/-x")
    repo.git("checkout", "-q", "-b", name)
    walk(server, repo, begin(server, repo, FAST))
    assert os.fsencode(repo.git("symbolic-ref", "--short", "HEAD")) == b"caf\xe9/-x"
    assert FIX[1] in repo.git("show", "HEAD:app/cart.py")
