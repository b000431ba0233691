"""The tools of `--symbols`, and questions that only a language server answers, through a real server and a real language server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support import code_server
from support.code_server import Repo, Server, begin, walk

pytest.importorskip("basedpyright")
FILES = {
    "shapes.py": "class Shape:\n    def area(self) -> int:\n        raise NotImplementedError\n\n\nclass Circle(Shape):\n    def area(self) -> int:\n        return 3\n\n\ndef areas(shapes: list[Shape]) -> int:\n    return sum(one.area() for one in shapes)\n",
    "use.py": "from shapes import Circle, areas\n\n\ndef main() -> None:\n    text = 'é𝄞'; print(text, areas([Circle()]))\n",
    "both.py": "from shapes import Circle, Shape\n\n\ndef both(one: Shape, two: Circle) -> int:\n    return one.area() + two.area()\n",
    "note.txt": "areas is only a word here\n",
}
SECONDS = 60.0


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path, {**code_server.FILES, **FILES})


@pytest.fixture
def server(repo: Repo) -> Iterator[Server]:
    with Server(repo, "--symbols") as server:
        server.call("sync_index")
        yield server


def ready(ask: Callable[[], Any]) -> Any:
    """The reply once the language server has taken in the project."""
    ends_at = time.monotonic() + SECONDS
    while "error" in (reply := ask()) or not reply.get("total"):
        assert time.monotonic() < ends_at, reply
        time.sleep(0.1)
    return reply


def asked(server: Server, name: str, **given: Any) -> Any:
    return server.call(name, {"format": "json", **given})


def places(reply: Any, items: str = "references") -> set[tuple[str, int]]:
    return {(one["file"], one["line"]) for one in reply[items]}


def errors(reply: Any) -> list[tuple[str, int]]:
    return [(one["file"], one["line"]) for one in reply["diagnostics"] if one["severity"] == "error"]


def test_a_symbol_is_read_whole(server: Server, repo: Repo) -> None:
    """`read_symbol` returns the lines of one definition, as they are in the file now; an unknown name is an error."""
    assert server.text("read_symbol", {"symbol": "Circle.area"}) == "shapes.py\n7:    def area(self) -> int:\n8:        return 3"  # fmt: skip
    repo.edit("shapes.py", "return 3", "return 4")
    assert asked(server, "read_symbol", symbol="Circle.area")["bodies"][0]["content"].endswith("return 4")
    assert len(asked(server, "read_symbol", symbol="area")["bodies"]) == 2
    assert asked(server, "read_symbol", symbol="nothing")["error"] == "not_found"


def test_an_outline_is_a_tree(server: Server) -> None:
    """`outline` shows classes and functions by file, one level deeper in their class, down to the depth that is asked for."""
    ends_at = time.monotonic() + 30
    while "index updating" in (told := server.text("outline", {"path": "shapes.py"})):
        assert time.monotonic() < ends_at, told
        time.sleep(0.1)
    assert (
        told
        == "shapes.py\n1-3 class Shape\n  2-3 method area\n6-8 class Circle\n  7-8 method area\n11-12 function areas"
    )
    assert "method" not in server.text("outline", {"path": ".", "depth": 1})


def test_what_a_use_means_who_calls_and_what_overrides(server: Server) -> None:
    """The language server answers which definition each use in a line means, who calls a function, what it calls, and what overrides it."""
    meant = ready(lambda: asked(server, "find_definitions", symbol="areas", at="use.py:5"))
    assert places(meant, "definitions") == {("shapes.py", 11)}
    assert meant["definitions"][0]["match"] == "exact"
    both = asked(server, "find_definitions", symbol="area", at="both.py:5")
    assert places(both, "definitions") == {("shapes.py", 2), ("shapes.py", 7)}
    callers = ready(lambda: asked(server, "find_references", symbol="areas", relation="callers"))
    assert (places(callers), callers["references"][0]["kind"]) == ({("use.py", 5)}, "call main")
    callees = ready(lambda: asked(server, "find_references", symbol="areas", relation="callees"))
    assert ("shapes.py", 2) in places(callees)
    overriding = ready(lambda: asked(server, "find_references", symbol="Shape.area", relation="implementations"))
    assert ("shapes.py", 7) in places(overriding)
    assert "FILE:LINE" in asked(server, "find_definitions", symbol="areas", at="use.py")["message"]


def test_errors_are_listed_after_a_change(server: Server, repo: Repo) -> None:
    """`diagnostics` names what is wrong in a file as it is on disk, by line; a file without a server is said not to be checked."""
    repo.edit("use.py", "areas([Circle()])", "areas(5)")
    assert errors(ready(lambda: asked(server, "diagnostics", paths=["use.py"]))) == [("use.py", 5)]
    repo.edit("use.py", "areas(5)", "areas([])")
    assert errors(asked(server, "diagnostics", paths=["use.py"])) == []
    assert "note.txt was not checked" in server.text("diagnostics", {"paths": ["note.txt"]})


def test_a_renaming_is_shown_then_written(server: Server, repo: Repo) -> None:
    """In READY a renaming is shown first; it is written as shown, to explored files alone, and not after the code has changed."""
    walk(server, repo, begin(server, repo, "--no-doc"), until="12")
    wish = {"symbol": "areas", "new_name": "sum_of"}
    shown = ready(lambda: asked(server, "rename_symbol", **wish))
    assert shown["files"] == ["use.py", "shapes.py"]
    assert repo.dirty == []
    repo.edit("use.py", "é𝄞", "𝄞é𝄞")
    refused = asked(server, "rename_symbol", **wish, apply=shown["preview"])
    assert "changed since the preview" in refused["message"]
    shown = asked(server, "rename_symbol", **wish)
    refused = asked(server, "rename_symbol", **wish, apply=shown["preview"])
    assert "shapes.py was not explored" in refused["message"]
    server.call("add_explored_files", {"files": shown["files"]})
    assert asked(server, "rename_symbol", **wish, apply=shown["preview"])["applied"]
    assert "def sum_of(" in repo.read("shapes.py")
    assert repo.read("use.py") == FILES["use.py"].replace("areas", "sum_of").replace("é𝄞", "𝄞é𝄞")
    assert repo.read("note.txt") == FILES["note.txt"]


def test_a_renaming_that_was_interrupted_goes_on(server: Server, repo: Repo) -> None:
    """Where a kill left the definition as it was and other files renamed, the same call renames the rest."""
    walk(server, repo, begin(server, repo, "--no-doc"), until="12")
    server.call("add_explored_files", {"files": ["shapes.py", "use.py"]})
    repo.write("use.py", FILES["use.py"].replace("areas", "sum_of"))
    wish = {"symbol": "areas", "new_name": "sum_of"}
    shown = ready(lambda: asked(server, "rename_symbol", **wish))
    assert asked(server, "rename_symbol", **wish, apply=shown["preview"])["applied"]
    assert repo.read("shapes.py") == FILES["shapes.py"].replace("areas", "sum_of")
    assert repo.read("use.py") == FILES["use.py"].replace("areas", "sum_of")
