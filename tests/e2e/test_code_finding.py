"""What searching and symbols got wrong elsewhere, asked through a real MCP client over stdio: each test fails where it is wrong again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.code_server import Repo, Server

FILES = {
    "app/shapes.py": (
        '"""Flächen — shapes."""\n\n\ndef area(width, height):\n    # area of a rectangle\n    note = "area is width times height"\n'
        "    return width * height, note\n\n\nclass Circle:\n    def area(self):\n        return 3 * self.radius\n\n"
        '    def größe(self, ärger="ü"): return ärger\n\n\n'
        "def outer(value):\n    def inner():\n        return value\n\n    return inner\n"
    ),
    "app/use.py": "from app.shapes import area\n\nprint(area(1, 2))\nshare = 'a-b'\n--dashed\n",
    "services/Main.java": "class Main {\n    int twice(int value) { return 2 * value; }\n    int twice(long value) { return 2; }\n}\n",
    "services/main.go": "package main\n\nfunc Thrice(value int) int {\n\treturn 3 * value\n}\n",
    "services/lib.rs": "pub fn fourfold(value: i32) -> i32 {\n    4 * value\n}\n",
    "services/a.c": "int fivefold(int value) {\n    return 5 * value;\n}\n",
    "services/a.cpp": "namespace n { class Six { public: int sixfold(int v) { return 6 * v; } }; }\n",
    "services/a.cs": "class Seven { int Sevenfold(int v) { return 7 * v; } }\n",
    "services/a.php": "<?php\nfunction eightfold($v) { return 8 * $v; }\n",
    "services/a.rb": "def ninefold(v)\n  9 * v\nend\n",
    "services/a.tsx": "export function Tenfold(props: {v: number}) {\n  return <b>{10 * props.v}</b>\n}\n",
    "many.txt": "needle\n" * 50,
    "more.txt": "needle\n" * 50,
    ".gitignore": "ignored/\n",
    "ignored/x.py": "def hidden_thing():\n    pass\n",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(Repo(tmp_path_factory.mktemp("found"), FILES)) as server:
        server.call("sync_index")
        yield server


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[Server]:
    """A server of its own for a test that begins sessions: a session's phase limits which tools may be called."""
    with Server(Repo(tmp_path, {"app/shapes.py": FILES["app/shapes.py"]})) as server:
        yield server


# --- text


def test_context_lines_are_shown(server: Server) -> None:
    """What is around a match is in the answer."""
    (match,) = server.call("search_text", {"pattern": "3 \\* self", "context_lines": 1})["matches"]
    assert "def area(self)" in str(match)


def test_the_limit_is_of_all_files_together(server: Server) -> None:
    """max_results counts matches, not matches a file; the total says how many there are."""
    reply = server.call("search_text", {"pattern": "needle", "max_results": 60})
    assert (len(reply["matches"]), reply["total_matches"]) == (60, 100)


def test_a_pattern_that_begins_with_a_dash_is_a_pattern(server: Server) -> None:
    """It is searched for, and no option."""
    for pattern in ("--dashed", "-b"):
        assert server.call("search_text", {"pattern": pattern})["total_matches"] == 1


@pytest.mark.parametrize(
    ("asked", "word"), [({"pattern": "(open"}, "unclosed"), ({"pattern": "x", "file_type": "klingon"}, "klingon")]
)
def test_what_cannot_be_searched_for_is_an_error(server: Server, asked: dict[str, str], word: str) -> None:
    """An invalid expression or unknown file type is not `0 matches`: the reply says what is wrong with it."""
    reply = server.call("search_text", asked)
    assert reply["error"] == "invalid_arguments"
    assert word in reply["message"]


def test_too_many_patterns_are_refused(server: Server) -> None:
    """More than five at once are an error that says how many were given."""
    reply = server.call("search_text", {"pattern": list("abcdef")})
    assert (reply["error"], reply["provided_patterns"]) == ("too_many_patterns", 6)


# --- symbols


def test_references_tell_uses_from_mentions(server: Server) -> None:
    """A comment or string that has the word is said to be one; an expression is no expression here."""
    kinds = {
        (one["file"], one["line"]): one["match"]
        for one in server.call("find_references", {"symbol": "area"})["references"]
    }
    assert kinds["app/use.py", 3] in {"exact", "scoped", "name"}
    assert kinds["app/shapes.py", 5] == "comment"
    assert kinds["app/shapes.py", 6] == "string"
    assert server.call("find_references", {"symbol": "ar.a"})["total"] == 0


def test_the_innermost_function_is_found_and_names_are_whole(server: Server) -> None:
    """Of functions in functions the inner one; names and lines are right behind characters of several bytes."""
    found = server.call("get_function_at_line", {"file_path": "app/shapes.py", "line_number": 19})
    assert (found["name"], found["start_line"]) == ("inner", 18)
    found = server.call("get_function_at_line", {"file_path": "app/shapes.py", "line_number": 14})
    assert found["name"] == "größe"
    symbols = {one["name"] for one in server.call("get_symbols", {"path": "app/shapes.py"})["symbols"]}
    assert {"area", "Circle", "größe", "outer", "inner"} <= symbols


LANGUAGES = {
    "Main.java": "twice", "main.go": "Thrice", "lib.rs": "fourfold", "a.c": "fivefold", "a.cpp": "sixfold", "a.cs": "Sevenfold",
    "a.php": "eightfold", "a.rb": "ninefold", "a.tsx": "Tenfold",
}  # fmt: skip


@pytest.mark.parametrize(("file", "name"), LANGUAGES.items())
def test_structure_is_there_in_every_language(server: Server, file: str, name: str) -> None:
    """Functions are found by the grammars that come with the package, in any layout of folders."""
    structure = server.call("analyze_structure", {"file_path": f"services/{file}"})
    assert name in {one["name"] for one in structure["functions"]}
    (place, *_) = server.call("find_definitions", {"symbol": name, "exact_match": True})["definitions"]
    assert place["file"] == f"services/{file}"


# --- one question, and meaning


def test_one_question_keeps_what_every_tool_found(server: Server) -> None:
    """Lines, texts and symbols of all tools are in the list, also without a symbol being named."""
    results = server.call("query", {"question": "where is `fourfold` defined?"})["results"]
    by_tool = {one["source_tool"]: one for one in results}
    assert by_tool["find_definitions"]["symbol_name"] == "fourfold"
    assert all(one["start_line"] >= 1 and one["content_snippet"] for one in results)
    assert server.call("query", {"question": "what does fivefold return?", "show_plan": False})["total_results"] > 0


def test_every_layout_and_overload_has_its_chunk(server: Server) -> None:
    """Folders need no special names, and two functions of one name are two hits."""
    hits = server.call("semantic_search", {"query": "twice the value", "collection": "forest"})["hits"]
    lines = {hit["metadata"]["line_start"] for hit in hits if hit["metadata"]["file"] == "services/Main.java"}
    assert {2, 3} <= lines
    found = server.call("semantic_search", {"query": "thrice value", "collection": "forest"})["hits"]
    assert "services/main.go" in {hit["metadata"]["file"] for hit in found}
    assert not any("hidden_thing" in hit["content"] for hit in found)


def test_chunks_of_deleted_code_are_gone(server: Server) -> None:
    """What was deleted or changed is found no more."""
    repo = server.repo
    repo.write("services/gone.py", "def elevenfold(value):\n    return 11 * value\n")
    server.call("sync_index")
    asked = {"query": "elevenfold value", "collection": "forest"}
    (first, *_) = server.call("semantic_search", asked)["hits"]
    assert "elevenfold" in first["content"]
    (repo.root / "services/gone.py").unlink()
    server.call("sync_index")
    assert not any("elevenfold" in hit["content"] for hit in server.call("semantic_search", asked)["hits"])
    assert "error" in server.call("fetch_chunk_detail", {"chunk_id": first["id"]})


# --- impact and documents


def test_impact_names_callers_and_documents(server: Server) -> None:
    """Callers have to be verified, files that only speak of it should be; the targets themselves are neither."""
    server.repo.write("GUIDE.md", "How `area` works: see shapes.\n")
    server.call("sync_index")
    found = server.call(
        "analyze_impact", {"target_files": ["app/shapes.py"], "change_description": "`area` gets a unit"}
    )
    impact, asked = found["impact_analysis"], found["confirmation_required"]
    assert (impact["mode"], impact["depth"]) == ("standard", "direct_only")
    assert "app/use.py" in asked["must_verify"]
    assert "GUIDE.md" in asked["should_verify"]
    assert "app/shapes.py" not in {*asked["must_verify"], *asked["should_verify"]}
    assert "error" in server.call("analyze_impact", {"target_files": ["../outside.py"]})


def test_documents_are_summarised_once_and_again_when_they_change(begun: Server) -> None:
    """start_session asks for summaries of what is new, hands back what was kept, and asks again after a change."""
    server, repo = begun, begun.repo
    repo.write("docs/design.md", "# Design\n\nShapes are plain.\n")
    repo.write("CLAUDE.md", "- DO test.\n")

    def begin() -> Any:
        return server.start("why are shapes plain?", "QUESTION", flags="--no-doc")

    wanted = begin()["context_update_required"]
    assert [one["path"] for one in wanted["documents"]] == ["docs/design.md", "CLAUDE.md"]
    assert wanted["prompts"].keys() == {"design_doc", "project_rules"}
    summaries = [{"path": "docs/design.md", "file": "design.md", "summary": "Shapes are plain."}]
    kept = server.call("update_context", {"design_doc_summaries": summaries, "project_rules_summary": "DO test."})
    assert kept["updated"] == {"design_docs": 1, "project_rules": True}
    again = begin()
    assert "context_update_required" not in again
    assert again["essential_context"]["project_rules"] == "DO test."
    repo.write("docs/design.md", "# Design\n\nShapes are round.\n")
    assert [one["path"] for one in begin()["context_update_required"]["documents"]] == ["docs/design.md"]
