"""A real language server behind `find_references`: what it resolves, that it learns of changes, and that it never outlives the server."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.code_server import Repo, Server

pytest.importorskip("basedpyright")
FILES = {
    "shapes.py": "class Circle:\n    def area(self) -> int:\n        return 3\n\n\nclass Square:\n    def area(self) -> int:\n        return 4\n",
    "use.py": "from shapes import Circle, Square\n\none = Circle()\nother = Square()\nprint(one.area())\nprint(other.area())\n",
}
SECONDS = 30.0


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path, FILES)


def matches(server: Server, symbol: str) -> dict[tuple[str, int], str]:
    found = server.call("find_references", {"symbol": symbol, "format": "json"})
    return {(one["file"], one["line"]): one["match"] for one in found["references"]}


def until(what: Callable[[], Any]) -> Any:
    ends_at = time.monotonic() + SECONDS
    while not (found := what()):
        assert time.monotonic() < ends_at
        time.sleep(0.1)
    return found


def children(pid: int) -> set[int]:
    """The language servers that a process started."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            rest = status.read_text().rpartition(")")[2]
            command = status.with_name("cmdline").read_bytes()
        except OSError:
            continue
        if int(rest.split()[1]) == pid and b"langserver" in command:
            found.add(int(status.parent.name))
    return found


def test_a_use_is_exact_when_the_server_resolved_it(repo: Repo) -> None:
    """Of two methods of one name the asked one's use is exact, the other's only a name; a new use counts once its file is written."""
    with Server(repo) as server:
        first = matches(server, "Circle.area")
        assert set(first.values()) <= {"scoped", "name"}
        found = until(lambda: (got := matches(server, "Circle.area")).get(("use.py", 5)) == "exact" and got)
        assert found["use.py", 6] == "name"
        repo.write("use.py", "\n" + FILES["use.py"])
        until(lambda: matches(server, "Circle.area").get(("use.py", 6)) == "exact")
        assert matches(server, "Circle.area")["use.py", 7] == "name"


def test_a_killed_server_leaves_no_language_server(repo: Repo) -> None:
    """The language server is gone after kill -9 of the server, while it starts or later."""
    for warm in (False, True):
        with Server(repo) as server:
            if warm:
                until(lambda: "exact" in matches(server, "Circle.area").values())
            started = until(lambda: matches(server, "Circle.area") and children(server.pid))
            server.kill()
            until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started))  # noqa: B023
