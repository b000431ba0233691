"""Repositories as nobody would wish them, examined by a real client over stdio: nothing hangs, leaks or ends the server."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from support.code_server import Repo, Server

OUTSIDE = "a secret that no tool may tell"
NEEDLE = "needle_in_the_code"
LOOK: dict[str, dict[str, Any]] = {
    "search_text": {"pattern": "secret"},
    "search_files": {"pattern": "*"},
    "find_definitions": {"symbol": "secret"},
    "find_references": {"symbol": "secret"},
    "get_symbols": {},
    "sync_index": {},
    "semantic_search": {"query": "secret"},
}
"""Tools that take a `path`, with what else they need."""


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    folder = tmp_path_factory.mktemp("hostile")
    found = Repo(folder, {"app/good.py": f"def {NEEDLE}():\n    return 1\n\n\n{NEEDLE}()\n"})
    root = found.root
    (folder / "secret.py").write_text(f"def secret():\n    return '{OUTSIDE}'\n")
    (root / "binary.py").write_bytes(b"\0\1\2" + NEEDLE.encode() + b"\0" * 5_000)
    (root / "notes.txt").write_bytes(b"\xe9\x80 " + NEEDLE.encode() + b" \x80\n")
    (root / "long.py").write_bytes(b"x = '" + b"y" * 50_000_000 + b"'  # " + NEEDLE.encode() + b"\n")
    (root / "round").symlink_to(".")
    (root / "left").symlink_to("right")
    (root / "right").symlink_to("left")
    (root / "app" / "up").symlink_to("..")
    (root / "out.py").symlink_to(folder / "secret.py")
    (root / "away").symlink_to(folder)
    os.mkfifo(root / "pipe.py")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(root / "socket.py"))
    (root / "locked.py").write_text(f"{NEEDLE} = 1\n")
    (root / "closed").mkdir()
    (root / "closed" / "in.py").write_text(f"{NEEDLE} = 1\n")
    (root / "locked.py").chmod(0)
    (root / "closed").chmod(0)
    return found


@pytest.fixture(scope="module")
def server(repo: Repo) -> Iterator[Server]:
    server = Server(repo)
    if os.geteuid() == 0:  # who may read everything is no test of what cannot be read
        if not shutil.which("setpriv"):
            pytest.skip("root reads everything, and there is no setpriv to give that up")
        server._command[:0] = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    with server:
        server.call("sync_index")
        yield server
    (repo.root / "closed").chmod(0o700)


def test_text_is_found_whatever_lies_beside_it(server: Server) -> None:
    """Each file that can be read is searched once; those that cannot are named in a warning."""
    found = server.call("search_text", {"pattern": NEEDLE})
    assert {one["file"] for one in found["matches"]} == {"app/good.py", "notes.txt", "long.py"}
    assert found["total_matches"] == 4
    assert any("locked.py" in one for one in found["warnings"])


def test_a_line_of_fifty_megabytes_is_shown_near_the_match(server: Server) -> None:
    """A match far out in a line comes with what is around it, not with the line."""
    (one,) = server.call("search_text", {"pattern": NEEDLE, "path": "long.py"})["matches"]
    assert (one["line_number"], one["line_truncated"]) == (1, True)
    assert NEEDLE in one["line_content"]
    assert len(one["line_content"]) < 1_000
    uses = server.call("find_references", {"symbol": NEEDLE, "path": "long.py"})["references"]
    assert [(use["line"], use["match"]) for use in uses] == [(1, "name")]
    assert len(uses[0]["content"]) < 1_000


def test_symbols_come_from_what_can_be_read(server: Server) -> None:
    """Definitions and references are those of ordinary files; a file that cannot be read is an error of the index, not its end."""
    found = server.call("find_definitions", {"symbol": NEEDLE})
    assert [(one["file"], one["line"]) for one in found["definitions"]] == [("app/good.py", 1)]
    files = {one["file"] for one in server.call("find_references", {"symbol": NEEDLE})["references"]}
    assert "app/good.py" in files
    assert not files & {"binary.py", "locked.py", "out.py", "pipe.py", "socket.py"}
    report = server.call("sync_index", {"force": True})
    assert report["success"] is True
    assert [error.partition(":")[0] for error in report["forest_sync"]["errors"]] == ["locked.py"]


def test_links_lead_nowhere(server: Server) -> None:
    """Loops end, and what lies outside is in no list, search or index."""
    files = server.call("search_files", {"pattern": "*.py"})["files"]
    assert set(files) == {"app/good.py", "binary.py", "locked.py", "long.py"}
    for tool, more in LOOK.items():
        assert OUTSIDE not in server.text(tool, {"path": ".", **more}), tool
    for path in ("out.py", "away", "away/secret.py", "left", "round/away/secret.py"):
        reply = server.call("get_symbols", {"path": path})
        assert reply["error"], (path, reply)


@pytest.mark.parametrize("path", ["..", "../secret.py", "/etc", "app/../../secret.py", "away", "out.py", "a\0b"])
def test_paths_outside_are_refused(server: Server, path: str) -> None:
    """Every tool that takes a path refuses one outside the repository, however it is written, and says so."""
    for tool, more in LOOK.items():
        reply = server.call(tool, {**more, "path": path})
        assert reply.get("error"), (tool, reply)
        assert OUTSIDE not in str(reply)
    for tool in ("analyze_structure", "get_function_at_line"):
        reply = server.call(tool, {"file_path": path, **({"line_number": 1} if "line" in tool else {})})
        assert reply.get("error"), (tool, reply)
    assert server.call("analyze_impact", {"target_files": [path]}).get("error")
    assert server.call("fetch_chunk_detail", {"chunk_id": f"{path}:secret:1"}).get("error")


@pytest.mark.parametrize(
    "path", ["binary.py", "long.py", "pipe.py", "socket.py", "locked.py", "left", "app", "none.py"]
)
def test_a_file_that_has_no_structure_is_an_error(server: Server, path: str) -> None:
    """What is binary, too long, no file, a loop or not there is distinguished from a file without functions."""
    reply = server.call("analyze_structure", {"file_path": path})
    assert reply["error"]
    assert reply["message"]


def test_the_server_still_works(server: Server, repo: Repo) -> None:
    """After all of it a session begins, and nothing was written but what adjourn keeps for itself."""
    assert server.start("what is the needle?", "QUESTION", flags="--no-doc")["success"] is True
    made = "app binary.py notes.txt long.py round left right out.py away pipe.py socket.py locked.py closed .git"
    assert {entry.name for entry in repo.root.iterdir()} - set(made.split()) <= {".code-intel", ".aex"}
