"""Definitions and references, from an index that is kept by content, for branches and work trees, and never needed for an answer."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from adjourn.code.deadline import CancelledError, Deadline
from adjourn.code.index import analysis
from adjourn.code.index.codebase import Codebase
from adjourn.code.repository import CodeRepository
from adjourn.code.search.context import sync_index
from adjourn.code.search.definitions import find_definitions, get_symbols, near_name
from adjourn.code.search.references import find_references
from adjourn.code.search.relations import definition_at
from adjourn.code.search.structure import map_files
from adjourn.errors import InvalidError, RefusedError
from support.code_files import SHAPES, USER, git, repository, write


@pytest.fixture
def codebase(tmp_path: Path) -> Iterator[Codebase]:
    repository(
        tmp_path / "r", {"shapes.py": SHAPES, "use.py": USER, ".gitignore": "out/\n", "out/x.py": "class Out: pass\n"}
    )
    with Codebase(str(tmp_path / "r")) as found:
        found.sync()
        yield found


def _row(codebase: Codebase, statement: str) -> tuple[Any, ...] | None:
    assert codebase.index is not None
    return codebase.index.database.one(statement)


def _names(answer: dict[str, Any]) -> list[tuple[str, str, int]]:
    return [(one["name"], one["file"], one["line"]) for one in answer["definitions"]]


def test_definitions_have_the_published_shape(codebase: Codebase) -> None:
    """A definition says where it is, what it is, and that it comes from a grammar."""
    (found,) = find_definitions(codebase, "Circle", exact_match=True)["definitions"]
    assert found == {
        "name": "Circle", "file": "shapes.py", "line": 12, "end_line": 24, "kind": "class", "scope": "",
        "signature": "class Circle", "language": "python", "match": "scoped",
    }  # fmt: skip


def test_definitions_by_part_and_case(codebase: Codebase) -> None:
    """A part of a name in any case is enough; the nearest name comes first; `exact_match` wants it whole."""
    assert _names(find_definitions(codebase, "AREA"))[0][0] == "area"
    assert "total_area" in [name for name, _, _ in _names(find_definitions(codebase, "AREA"))]
    assert find_definitions(codebase, "AREA", exact_match=True)["total"] == 0
    assert [name for name, _, _ in _names(find_definitions(codebase, "sq"))] == ["squared"]


def test_definitions_by_scope_path_and_language(codebase: Codebase) -> None:
    """`Circle.area` is the circle's; a path and a language narrow the search."""
    assert [line for _, _, line in _names(find_definitions(codebase, "Circle.area", exact_match=True))] == [18]
    assert find_definitions(codebase, "area", "use.py")["total"] == 0
    assert find_definitions(codebase, "area", language="go")["total"] == 0
    with pytest.raises(RefusedError):
        find_definitions(codebase, "area", "../..")
    with pytest.raises(InvalidError, match="empty"):
        find_definitions(codebase, " ")


def test_references_say_how_sure_they_are(codebase: Codebase) -> None:
    """Uses are distinguished from definitions, comments and strings, with what kind of use each is."""
    answer = find_references(codebase, "total_area")
    found = {(one["file"], one["line"]): (one["match"], one["kind"]) for one in answer["references"]}
    comment = SHAPES.splitlines().index("    # total_area adds them up") + 1
    assert found == {
        ("use.py", 1): ("scoped", "import"),
        ("use.py", 3): ("scoped", "call"),
        ("shapes.py", comment): ("comment", "name"),
        ("shapes.py", len(SHAPES.splitlines())): ("string", "name"),
    }
    assert answer["by_match"] == {"exact": 0, "scoped": 2, "name": 0, "string": 1, "comment": 1}
    assert answer["references"][-1]["match"] == "comment"


def test_a_name_of_several_things_is_a_guess(codebase: Codebase) -> None:
    """A method's name on some object is only a name where two classes have it; a type hint is shown as one."""
    uses = find_references(codebase, "area")["references"]
    assert {one["match"] for one in uses if one["kind"] == "call"} == {"name"}
    kinds = {one["line"]: one["kind"] for one in find_references(codebase, "Circle")["references"]}
    assert kinds == {1: "import", 3: "call", 4: "type"}


def test_a_symbol_is_no_pattern(codebase: Codebase) -> None:
    """Characters that a regular expression would obey are plain, and a word inside a longer one is none."""
    write_and_sync(codebase, {"a.css": ".btn-primary { color: red }\n.btn-primary-x { }\n", "b.py": "x = totalXarea\n"})
    assert find_references(codebase, "total.area")["total"] == 0
    assert find_references(codebase, ".*")["total"] == 0
    assert find_references(codebase, "are")["total"] == 0


def write_and_sync(codebase: Codebase, files: Mapping[str, str | bytes]) -> None:
    write(Path(codebase.repository.root), files)
    codebase.sync()


def test_ignored_files_are_not_indexed(codebase: Codebase) -> None:
    """What `.gitignore` names is not there."""
    assert find_definitions(codebase, "Out")["total"] == 0


def test_only_what_changed_is_taken_in(codebase: Codebase, tmp_path: Path) -> None:
    """Changes are counted by file; a file touched without change is not analysed again."""
    root = tmp_path / "r"
    write(root, {"use.py": USER + "def fresh(): pass\n", "new.py": "def newest(): pass\n"})
    (root / "shapes.py").unlink()
    report = codebase.sync()
    assert (report.added, report.modified, report.deleted) == (1, 1, 1)
    assert _names(find_definitions(codebase, "fresh")) == [("fresh", "use.py", 5)]
    assert find_definitions(codebase, "Circle", exact_match=True)["total"] == 0
    os.utime(root / "new.py", ns=(1, 1))
    before = _row(codebase, "SELECT max(id) FROM content")
    assert codebase.sync().modified >= 1
    assert _row(codebase, "SELECT max(id) FROM content") == before


def test_lines_are_those_of_now(codebase: Codebase, tmp_path: Path) -> None:
    """A file that changed after it was indexed is shown with the lines it has now, before any sync."""
    path = tmp_path / "r" / "shapes.py"
    path.write_text("# one more line\n" + SHAPES)
    assert _names(find_definitions(codebase, "Circle", exact_match=True)) == [("Circle", "shapes.py", 13)]
    uses = find_references(codebase, "total_area", "shapes.py")["references"]
    assert {one["match"] for one in uses} == {"comment", "string"}
    symbols = get_symbols(codebase, "shapes.py", kind="class")["symbols"]
    assert [(one["name"], one["line"]) for one in symbols] == [("Shape", 7), ("Circle", 13)]


def test_a_change_within_the_clocks_step_is_seen(codebase: Codebase, tmp_path: Path) -> None:
    """Equal size and time do not hide a change that was made just after indexing."""
    path = tmp_path / "r" / "shapes.py"
    status = path.stat()
    path.write_text(SHAPES.replace("class Circle", "class Square"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    codebase.sync()
    assert find_definitions(codebase, "Square", exact_match=True)["total"] == 1


def test_a_branch_switch_costs_no_analysis(codebase: Codebase, tmp_path: Path) -> None:
    """Contents that were seen on another branch are known; the answers are of the branch that is there."""
    root = tmp_path / "r"
    git(root, "checkout", "--quiet", "-b", "other")
    write(root, {"shapes.py": "def only_here(): pass\n"})
    git(root, "commit", "--quiet", "--all", "--message", "other")
    codebase.sync()
    count = _row(codebase, "SELECT count(*) FROM content")
    git(root, "checkout", "--quiet", "main")
    codebase.sync()
    assert find_definitions(codebase, "only_here")["total"] == 0
    assert find_definitions(codebase, "Circle", exact_match=True)["total"] == 1
    git(root, "checkout", "--quiet", "other")
    codebase.sync()
    assert find_definitions(codebase, "only_here")["total"] == 1
    assert _row(codebase, "SELECT count(*) FROM content") == count


def test_work_trees_share_an_index_and_see_their_own_files(codebase: Codebase, tmp_path: Path) -> None:
    """A second work tree has the main one's index and its own answers."""
    root = tmp_path / "r"
    git(root, "worktree", "add", "--quiet", "-b", "side", "../side")
    write(tmp_path / "side", {"shapes.py": "class Triangle: pass\n"})
    with Codebase(str(tmp_path / "side")) as side:
        assert side.repository.home == codebase.repository.root
        side.sync()
        assert find_definitions(side, "Triangle")["total"] == 1
        assert find_definitions(side, "Circle", exact_match=True)["total"] == 0
        assert find_references(side, "Circle")["total"] == 3
    assert find_definitions(codebase, "Triangle")["total"] == 0
    assert not (tmp_path / "side" / ".code-intel").exists()
    shutil.rmtree(tmp_path / "side")
    codebase.sync()
    assert _row(codebase, "SELECT group_concat(root) FROM tree") == (str(root),)


def test_a_link_file_of_git_is_not_believed(tmp_path: Path) -> None:
    """A `.git` file that names a folder which does not point back leads the index nowhere."""
    write(tmp_path, {"elsewhere/.git/commondir": "..\n", "r/.git": f"gitdir: {tmp_path}/elsewhere/.git\n"})
    assert CodeRepository(str(tmp_path / "r")).home == str(tmp_path / "r")


def test_without_an_index_the_answers_come_from_the_files(tmp_path: Path) -> None:
    """Before the first sync, definitions and references are found all the same, and the reply says so."""
    repository(tmp_path, {"shapes.py": SHAPES, "use.py": USER})
    with Codebase(str(tmp_path)) as fresh:
        answer = find_definitions(fresh, "Circle", exact_match=True)
        assert _names(answer) == [("Circle", "shapes.py", 12)]
        assert (answer["index_state"], answer["cache_hit"]) == ({"state": "empty"}, False)
        assert find_references(fresh, "Circle")["total"] == 3
        assert get_symbols(fresh, "shapes.py")["total"] > 5


def test_a_folder_without_git_or_rights_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No git and no writable folder: searching works, and the state says why there is no index."""
    write(tmp_path, {"shapes.py": SHAPES, ".code-intel": "a file is in the way\n"})
    with Codebase(str(tmp_path)) as found:
        assert not found.repository.is_git
        answer = find_definitions(found, "Circle", exact_match=True)
        assert answer["total"] == 1
        assert answer["index_state"]["state"] == "unavailable"
        assert "not a folder" in answer["index_state"]["reason"]


def test_a_damaged_index_is_made_anew(codebase: Codebase, tmp_path: Path) -> None:
    """Bytes that are no database are thrown away, as is a schema of another version."""
    codebase.close()
    path = tmp_path / "r" / ".code-intel" / "index.db"
    for damage in (b"not a database" * 1000, None):
        path.write_bytes(damage) if damage else _version(path, 99)
        with Codebase(str(tmp_path / "r")) as again:
            assert again.sync().added == 2
            assert find_definitions(again, "Circle", exact_match=True)["total"] == 1


def _version(path: Path, number: int) -> None:
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {number}")
    connection.close()


def test_an_index_behind_a_link_is_refused(tmp_path: Path) -> None:
    """The index is never written through a link."""
    write(tmp_path, {"r/a.py": "x = 1\n", "victim": b"keep"})
    (tmp_path / "r" / ".code-intel").mkdir()
    (tmp_path / "r" / ".code-intel" / "index.db").symlink_to("../../victim")
    with Codebase(str(tmp_path / "r")) as found:
        assert found.state()["state"] == "unavailable"
    assert (tmp_path / "victim").read_bytes() == b"keep"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """Binary files, loops of links, pipes and lines of megabytes harm nothing."""
    write(
        tmp_path, {"a.py": "def ok(): pass\n", "bin.py": b"\0\1", "long.js": b"var x='" + b"y" * 3_000_000 + b" ok ';"}
    )
    os.symlink(".", tmp_path / "loop")
    os.symlink("/etc/passwd", tmp_path / "out.py")
    os.mkfifo(tmp_path / "pipe.py")
    with Codebase(str(tmp_path)) as found:
        assert found.sync().partial is False
        assert find_definitions(found, "ok")["total"] == 1
        assert [one["file"] for one in find_references(found, "ok")["references"]] == ["long.js"]
        assert _row(found, "SELECT count(*) FROM file") == (3,)


def test_sync_reports_and_can_be_stopped(codebase: Codebase, tmp_path: Path) -> None:
    """`sync_index` tells the counts; a deadline leaves a part for the next time; cancelling raises."""
    write(tmp_path / "r", {f"m{i}.py": f"def f{i}(): pass\n" for i in range(30)})
    told = []
    with pytest.raises(CancelledError):
        codebase.sync(Deadline(cancelled=lambda: True))
    partial = codebase.sync(Deadline(0))
    answer = sync_index(codebase, deadline=Deadline(progress=lambda done, total: told.append((done, total))))
    assert partial.partial or partial.added == 0
    assert answer["success"]
    assert answer["forest_sync"]["added"] == 30
    assert told[-1] == (32, 32)
    assert answer["stats"]["files"] == 32
    assert sync_index(codebase, force=True)["forest_sync"]["added"] == 32


def test_a_sync_without_time_forgets_nothing(codebase: Codebase) -> None:
    """What was not examined before the deadline is not therefore gone, and the next sync continues."""
    assert codebase.sync(Deadline(0)).partial
    assert find_definitions(codebase, "Circle", exact_match=True)["total"] == 1
    assert not codebase.sync().partial


@pytest.mark.skipif(analysis.ctags_program("") is None, reason="Universal Ctags is not installed")
def test_ctags_adds_languages_without_a_grammar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A language without a grammar has definitions where Universal Ctags is installed, marked as found by name."""
    write(tmp_path, {"a.pl": "sub greet {\n  return 1;\n}\n", ".ctags.d/evil.ctags": "--totals=yes\n"})
    with Codebase(str(tmp_path)) as found:
        found.sync()
        (one,) = find_definitions(found, "greet")["definitions"]
        assert (one["match"], one["line"], one["kind"]) == ("name", 1, "subroutine")
        (tmp_path / "a.pl").write_text("# moved\nsub greet {\n}\n")
        assert [one["line"] for one in find_definitions(found, "greet")["definitions"]] == [2]


def test_a_qualified_name_is_found_before_the_index(tmp_path: Path) -> None:
    """Without an index the uses of a method are read from the files, and the answer says that it is partial."""
    repository(
        tmp_path, {"core.py": "class Order:\n    def checkout(self): pass\n", "use.py": "def f(b):\n    b.checkout()\n"}
    )
    with Codebase(str(tmp_path)) as codebase:
        before = find_references(codebase, "Order.checkout")
        codebase.sync()
        after = find_references(codebase, "Order.checkout")
    assert (before["total"], after["total"]) == (1, 1)
    assert ("partial" in before, "partial" in after) == (True, False)


def test_a_map_begins_with_what_others_use(tmp_path: Path) -> None:
    """The files of a folder are ranked by the files that use their definitions; the session's come first, prose is left out."""
    users = {
        f"use{number}.py": "from core import base_order\n\n\ndef only_here():\n    base_order()\n"
        for number in range(5)
    }
    repository(
        tmp_path,
        {
            "a_lonely.py": "def nobody_calls(): pass\n",
            "core.py": "def base_order(): pass\n",
            "README.md": "# base_order\n",
            **users,
        },
    )
    with Codebase(str(tmp_path)) as codebase:
        codebase.sync()
        answer = map_files(codebase)
        near = map_files(codebase, of_session=["use3.py"])
    files = [entry["file"] for entry in answer["map"]]
    assert (files[0], answer["map"][0]["symbols"]) == ("core.py", [{"line": 1, "text": "def base_order()"}])
    assert "README.md" not in files
    assert [entry["file"] for entry in near["map"]][:2] == ["use3.py", "core.py"]


def test_a_type_that_everything_uses_leads_the_map(tmp_path: Path) -> None:
    """The one type of a capitalized name counts in full, also if it is one plain word that most files have."""
    users = {f"use{number:02}.py": f"def only_{number}(order: Order): parse_all()\n" for number in range(50)}
    repository(tmp_path, {"a_parse.py": "def parse_all(): pass\n", "order.py": "class Order: pass\n", **users})
    with Codebase(str(tmp_path)) as codebase:
        codebase.sync()
        first = map_files(codebase)["map"][0]
    assert (first["file"], first["used_by"]) == ("order.py", 50)


def test_a_map_puts_what_the_project_is_before_what_serves_it(tmp_path: Path) -> None:
    """Benchmarks and scripts come last, and names with `$` count as used; a copy in a test takes nothing from them."""
    users = {f"src/use{number:02}.ts": f"export let a{number}: $BaseSchema\n" for number in range(9)}
    files = {
        "bench/all.ts": "export function runMatrix() {}\n",
        "bench/by.ts": "runMatrix()\n" * 3,
        "scripts/triage.ts": "export function runMatrixOf() {}\n",
        "src/core.ts": "export interface $BaseSchema { a: 1 }\n",
        "src/tests/copy.test.ts": "interface $BaseSchema { a: 1 }\n",
        **users,
    }
    repository(tmp_path, files)
    with Codebase(str(tmp_path)) as codebase:
        codebase.sync()
        entries = map_files(codebase)["map"]
    assert (entries[0]["file"], entries[0]["used_by"]) == ("src/core.ts", 10)
    assert {entry["file"] for entry in entries[1:]} == {"bench/all.ts", "scripts/triage.ts", "src/tests/copy.test.ts"}


def test_a_symbol_that_is_not_there_has_a_near_name(codebase: Codebase) -> None:
    """A mistyped symbol is answered with the name that was most likely meant."""
    assert near_name(codebase, "total_aera") == "did you mean total_area?"
    assert near_name(codebase, "zz_nothing_like_it") == ""


def test_a_part_of_many_names_is_found_to_the_end(tmp_path: Path) -> None:
    """All of several thousand names that have a part in common are found, not the first thousand."""
    repository(tmp_path, {"many.py": "".join(f"def handler_{number}(): pass\n" for number in range(3_000))})
    with Codebase(str(tmp_path)) as codebase:
        codebase.sync()
        answer = find_definitions(codebase, "handler")
    assert (answer["total"], len(answer["definitions"]), "partial" in answer) == (3_000, 3_000, False)


def test_a_session_leaves_no_untracked_file(tmp_path: Path) -> None:
    """What adjourn writes into `.code-intel/` is not in the user's git status."""
    root = repository(tmp_path / "r", {"a.py": "x = 1\n"})
    folder = Path(CodeRepository(str(root)).index_folder())
    (folder / "agreements").mkdir()
    for name in ("context.yml", "index.db", "agreements/a.md"):
        (folder / name).write_text("x\n")
    assert git(root, "status", "--porcelain") == ""


def test_a_use_is_the_whole_word(codebase: Codebase) -> None:
    """`at` names a line where the symbol itself stands, not a longer name that contains it."""
    line = USER.splitlines().index(next(line for line in USER.splitlines() if "total_area(" in line)) + 1
    with pytest.raises(InvalidError, match="does not stand in line"):
        definition_at(codebase, "total", f"use.py:{line}", Deadline(1))
    with pytest.raises(InvalidError, match="no language server"):
        definition_at(codebase, "total_area", f"use.py:{line}", Deadline(1))
