"""Meaning, impact, context and the question router."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from adjourn.code.commands import Engines, installed_engines, missing_engines
from adjourn.code.index.codebase import Codebase
from adjourn.code.index.languages import LANGUAGES
from adjourn.code.search import context
from adjourn.code.search.context import sync_index
from adjourn.code.search.impact import analyze_impact
from adjourn.code.search.routing import Question, query
from adjourn.code.search.semantic import fetch_chunk_detail, semantic_search
from adjourn.errors import InvalidError, NotFoundError, RefusedError
from support.code_files import SHAPES, USER, repository

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


@pytest.fixture
def codebase(tmp_path: Path) -> Iterator[Codebase]:
    repository(
        tmp_path,
        {
            "shapes.py": SHAPES,
            "use.py": USER,
            "test_shapes.py": "from shapes import total_area\n\ndef test_it():\n    assert total_area([]) == 0\n",
            "docs/design.md": "# Areas\nThe total_area of shapes.\n\n## Rounding\nNone.\n",
            "CLAUDE.md": "- DO test\n",
            "page.html": '<div class="hero-banner" id="top">x</div>\n',
            "style.css": ".hero-banner { color: red }\n",
            ".gitignore": "dist/\n",
            "dist/page.html": '<div class="hero-banner"></div>\n',
        },
    )
    with Codebase(str(tmp_path)) as found:
        found.sync()
        yield found


def test_code_is_found_by_what_it_does(codebase: Codebase) -> None:
    """A description finds the function by its documentation and names; the hit can be fetched whole."""
    answer = semantic_search(codebase, "the surface a circle covers")
    assert (answer["source"], answer["skip_forest"], answer["confidence"]) == ("forest", False, "medium")
    first = answer["hits"][0]
    assert first["metadata"]["name"] == "Circle.area"
    assert 0 < first["score"] < 1
    detail = fetch_chunk_detail(codebase, first["id"])
    assert detail["content"].startswith("    def area(self)")
    assert detail["content"].rstrip().endswith("squared(self.radius)")


def test_meaning_is_looked_for_where_it_is_asked_for(codebase: Codebase) -> None:
    """A path narrows the search to a file or folder; one outside is refused."""
    words = "shape circle area total"
    files = {hit["metadata"]["file"] for hit in semantic_search(codebase, words)["hits"]}
    assert len(files) > 1
    for path in files:
        assert {hit["metadata"]["file"] for hit in semantic_search(codebase, words, path)["hits"]} == {path}
    with pytest.raises(RefusedError):
        semantic_search(codebase, words, "..")


def test_names_are_found_in_pieces_and_whole(codebase: Codebase) -> None:
    """Camel and snake case are split on both sides, and a name written together is found too."""
    for words in ("total area", "totalArea", "totalarea"):
        names = [hit["metadata"]["name"] for hit in semantic_search(codebase, words)["hits"]]
        assert "total_area" in names[:3]


def test_a_chunk_of_a_changed_file_is_read_anew(codebase: Codebase) -> None:
    """After an edit above it, a chunk is still the function it was."""
    before = semantic_search(codebase, "surface circle covers")["hits"][0]
    chunk = before["id"]
    path = Path(codebase.repository.root, "shapes.py")
    path.write_text("# new\n" * 7 + SHAPES)
    hit = semantic_search(codebase, "surface circle covers")["hits"][0]
    assert hit["metadata"]["line_start"] == before["metadata"]["line_start"] + 7
    assert hit["content"] == before["content"]
    assert fetch_chunk_detail(codebase, chunk)["content"].startswith("    def area(self)")
    path.unlink()
    with pytest.raises(NotFoundError):
        fetch_chunk_detail(codebase, chunk)
    files = {hit["metadata"]["file"] for hit in semantic_search(codebase, "surface circle covers")["hits"]}
    assert "shapes.py" not in files


@pytest.mark.parametrize("chunk", ["", "x", "nowhere.py:f:1", "../x:y:1", "shapes.py:f:one", "agreement:../../x.md"])
def test_a_made_up_chunk_is_not_found(codebase: Codebase, chunk: str) -> None:
    """An id that no search gave is an error."""
    with pytest.raises(NotFoundError):
        fetch_chunk_detail(codebase, chunk)


def test_bad_questions_are_errors(codebase: Codebase) -> None:
    """A query without words or with an unknown collection is an error."""
    with pytest.raises(InvalidError, match="no word"):
        semantic_search(codebase, "...")
    with pytest.raises(InvalidError, match="collection"):
        semantic_search(codebase, "x", collection="chroma")


def test_agreements_answer_first(codebase: Codebase) -> None:
    """What a merged session taught short-circuits the next search for it; another question goes to the code."""
    path = context.write_agreement(
        codebase.repository,
        context.Agreement("surface of round things", ["Circle.area"], "s1", "MODIFY", NOW.isoformat()),
        evidence="commit abc",
        related_files=["shapes.py"],
        frame={"desired_action": "fix"},
    )
    front = yaml.safe_load(Path(codebase.repository.root, path).read_text().split("---\n")[1])
    assert front["doc_type"] == "agreement"
    assert front["symbols"] == ["Circle.area"]
    answer = semantic_search(codebase, "Surface of round things")
    assert (answer["source"], answer["skip_forest"], answer["confidence"]) == ("map", True, "high")
    assert answer["hits"][0]["metadata"]["symbols"] == ["Circle.area"]
    assert "commit abc" in fetch_chunk_detail(codebase, answer["hits"][0]["id"])["content"]
    assert semantic_search(codebase, "total of shapes")["source"] == "forest"
    assert semantic_search(codebase, "anything", collection="map")["confidence"] == "low"


def test_foreign_files_among_agreements_harm_nothing(codebase: Codebase) -> None:
    """Files that are no agreement, links and YAML that would run code are passed over; a published one is read."""
    folder = Path(codebase.repository.root, ".code-intel/agreements")
    folder.mkdir()
    (folder / "a.md").write_text("no front matter")
    (folder / "b.md").write_text("---\n!!python/object/apply:os.system ['x']\n---\n")
    (folder / "c.md").symlink_to("/etc/passwd")
    (folder / "d.md").write_text("---\nnl_term: login form\nsymbol: LoginForm\nsimilarity: 0.9\nextra: 1\n---\nbody\n")
    assert [one.symbols for one, _ in context.read_agreements(codebase.repository).values()] == [["LoginForm"]]


def test_few_documents_are_asked_for_at_once(tmp_path: Path) -> None:
    """Of many documents one reply names six, with the rules, and says how many are left; the next asks for those."""
    repository(tmp_path, {"CLAUDE.md": "- DO test.\n", **{f"docs/{number}.md": f"# {number}\n" for number in range(8)}})
    with Codebase(str(tmp_path)) as codebase:
        context.initialise(codebase.repository)
        wanted = context.needed(codebase.repository)
        assert wanted is not None
        named = [one["path"] for one in wanted["documents"]]
        assert (len(named), named[-1], wanted["more"]) == (6, "CLAUDE.md", 3)
        summaries = [{"path": path, "summary": "s"} for path in named[:-1]]
        context.update_context(codebase.repository, summaries, "DO test", now=NOW)
        rest = context.needed(codebase.repository)
    assert rest is not None
    assert [one["path"] for one in rest["documents"]] == ["docs/0.md", "docs/1.md", "docs/2.md"]
    assert "more" not in rest


def test_impact_names_the_callers(codebase: Codebase) -> None:
    """Files that use what a target defines must be verified; tests and documents should be. A description that names symbols is heeded."""
    every = analyze_impact(codebase, ["shapes.py"])["impact_analysis"]["static_references"]
    assert [one["symbol"] for one in every["type_hints"]] == ["Circle"]
    answer = analyze_impact(codebase, ["shapes.py"], 'change "total_area" to round')
    impact, wanted = answer["impact_analysis"], answer["confirmation_required"]
    assert (impact["mode"], impact["depth"]) == ("standard", "direct_only")
    assert wanted["must_verify"] == ["test_shapes.py", "use.py"]
    assert impact["naming_convention_matches"] == ["test_shapes.py"]
    assert wanted["should_verify"] == ["docs/design.md"]
    assert {one["symbol"] for one in impact["static_references"]["callers"]} == {"total_area"}
    assert impact["static_references"]["type_hints"] == []
    assert impact["document_mentions"]["keywords_searched"][0] == "total_area"


def test_impact_of_markup_is_relaxed(codebase: Codebase) -> None:
    """Styles lead to the pages that use their names, not to ignored copies; nothing must be verified."""
    answer = analyze_impact(codebase, ["style.css"])
    assert answer["impact_analysis"]["mode"] == "relaxed_markup"
    assert answer["confirmation_required"]["must_verify"] == []
    assert answer["confirmation_required"]["should_verify"] == ["page.html"]
    assert analyze_impact(codebase, ["page.html"])["confirmation_required"]["should_verify"] == ["style.css"]


def test_impact_refuses_bad_targets(codebase: Codebase) -> None:
    """No target, or one outside, is an error."""
    with pytest.raises(InvalidError):
        analyze_impact(codebase, [])
    with pytest.raises(RefusedError):
        analyze_impact(codebase, ["../x.py"])


def test_the_router_keeps_what_every_tool_found(codebase: Codebase) -> None:
    """Definitions, references and text each bring results with real lines and content."""
    answer = query(codebase, Question("why does total_area return zero?"))
    assert answer["missing_slots"] == ["target_feature", "trigger_condition", "observed_issue", "desired_action"]
    assert answer["risk_level"] == "HIGH"
    assert [step["tool"] for step in answer["plan"]] == ["find_definitions", "search_text", "find_references"]
    tools = {one["source_tool"] for one in answer["results"]}
    assert {"find_definitions", "find_references", "search_text"} <= tools
    assert all(one["start_line"] > 0 and one["content_snippet"] for one in answer["results"])
    assert answer["total_results"] == len(answer["results"])


def test_the_router_asks_less_when_more_is_known(codebase: Codebase) -> None:
    """Known slots take their tools out of the plan; a file adds its structure."""
    frame = {"target_feature": "total_area", "trigger_condition": "always", "desired_action": "fix"}
    answer = query(codebase, Question("it is wrong", frame=frame, file_path="shapes.py", symbol="Circle"))
    assert [step["tool"] for step in answer["plan"]] == ["search_text", "analyze_structure"]
    assert answer["risk_level"] == "LOW"
    assert any(one["symbol_name"] == "squared" for one in answer["results"])


def test_a_question_is_answered_also_where_the_request_is_about_another(codebase: Codebase) -> None:
    """A question that does not name the feature of the session's request is searched for as a whole."""
    frame = {"target_feature": "total_area", "observed_issue": "wrong"}
    asked = Question("where is the radius squared?", frame=frame)
    assert next(step["tool"] for step in query(codebase, asked)["plan"]) == "semantic_search"
    asked = Question("who uses total_area?", frame=frame)
    assert "semantic_search" not in [step["tool"] for step in query(codebase, asked)["plan"]]


def test_context_is_asked_for_and_kept(codebase: Codebase) -> None:
    """New documents are asked for once, changed ones again, and a person's notes stay."""
    told = sync_index(codebase)
    assert told["context_initialized"]
    assert [one["path"] for one in told["context_update_required"]["documents"]] == ["docs/design.md", "CLAUDE.md"]
    done = context.update_context(
        codebase.repository, [{"path": "docs/design.md", "summary": "Areas."}], "DO test", now=NOW
    )
    assert done["updated"] == {"design_docs": 1, "project_rules": True}
    assert context.needed(codebase.repository) is None
    file = Path(codebase.repository.root, ".code-intel/context.yml")
    file.write_text(file.read_text().replace("summary: Areas.", "summary: Areas.\n    extra_notes: mine"))
    Path(codebase.repository.root, "docs/design.md").write_text("# Changed\n")
    wanted = context.needed(codebase.repository)
    assert wanted is not None
    assert [one["path"] for one in wanted["documents"]] == ["docs/design.md"]
    context.update_context(codebase.repository, [{"path": "docs/design.md", "summary": "New."}], now=NOW)
    (entry,) = context.load(codebase.repository)["essential_docs"]["summaries"]
    assert (entry["summary"], entry["extra_notes"]) == ("New.", "mine")


def test_context_refuses_what_is_not_there(codebase: Codebase) -> None:
    """A summary of a file outside, or of nothing, is an error; so is a file that is no YAML."""
    with pytest.raises(RefusedError):
        context.update_context(codebase.repository, [{"path": "../x", "summary": "s"}], now=NOW)
    with pytest.raises(InvalidError):
        context.update_context(codebase.repository, [{"path": "docs/design.md"}], now=NOW)
    Path(codebase.repository.root, ".code-intel/context.yml").write_text("- [")
    with pytest.raises(InvalidError, match="not YAML"):
        context.load(codebase.repository)


def test_engines_are_told() -> None:
    """Doctor learns which languages are read and what is missing."""
    found = installed_engines("/nowhere")
    assert found.ripgrep
    assert found.languages == {language.name: True for language in LANGUAGES}
    assert found.missing_packages == []


def test_doctor_says_what_cannot_be_searched_with() -> None:
    """Each thing that is missing is named with what it costs; only without ripgrep is it an error."""
    whole = Engines("/bin/rg", "/bin/ctags", {"python": True, "go": True}, [], watching=True)
    assert list(missing_engines(whole)) == []
    bare = Engines(None, None, {"python": True, "go": False}, ["tree-sitter-go"], watching=False)
    told = {one.code: one for one in missing_engines(bare)}
    assert [code for code, one in told.items() if one.severity == "error"] == ["code-ripgrep"]
    assert "go: packages not installed: tree-sitter-go" in told["code-grammars"].message
    assert told.keys() == {"code-ripgrep", "code-grammars", "code-watching", "code-ctags"}
    assert all(one.help for one in told.values())


def test_chunks_follow_the_files(codebase: Codebase) -> None:
    """Methods of one name, and functions defined twice, are all there; what was changed or deleted is not, nor is what is ignored."""
    root = Path(codebase.repository.root)
    one = "class {0}:\n    def render(self):\n        return 'zebra {0}'\n\n\n"
    twice = "def render(x):\n    return 'zebra'\n\n\ndef render(x, y):\n    return 'zebra'\n"
    (root / "dist" / "zebra.py").write_text(twice)
    (root / "zebra.py").write_text(one.format("Left") + one.format("Right") + twice)
    codebase.sync()

    def found() -> list[str]:
        hits = semantic_search(codebase, "zebra render", n_results=50)["hits"]
        return sorted(h["id"] for h in hits if "render" in h["metadata"]["name"])

    assert found() == [
        "zebra.py:Left.render:2", "zebra.py:Right.render:7", "zebra.py:render:11", "zebra.py:render:15",
    ]  # fmt: skip
    (root / "zebra.py").write_text(one.format("Left"))
    codebase.sync()
    assert found() == ["zebra.py:Left.render:2"]
    (root / "zebra.py").unlink()
    codebase.sync(force=True)
    assert found() == []


def test_paths_are_of_the_repository(codebase: Codebase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path means the repository's file wherever the server was started, and a folder means all below it."""
    monkeypatch.chdir("/")
    repository = codebase.repository
    assert repository.relative("docs/../shapes.py") == "shapes.py"
    assert repository.relative(str(tmp_path / "docs" / "design.md")) == "docs/design.md"
    assert repository.relative(".") == ""
    for outside in ("..", "/", str(tmp_path) + "x", "docs/../../x"):
        with pytest.raises(RefusedError):
            repository.relative(outside)


def test_impact_names_a_file_once_per_symbol(tmp_path: Path) -> None:
    """A file with many uses is one entry with their count, and an unknown target is an error with a near name."""
    files = {"conf.py": "def setting(): pass\n", "use.py": "from conf import setting\n" + "setting()\n" * 30}
    repository(tmp_path, files)
    with Codebase(str(tmp_path)) as codebase:
        codebase.sync()
        answer = analyze_impact(codebase, ["conf.py"])
        (caller,) = answer["impact_analysis"]["static_references"]["callers"]
        assert (caller["file"], caller["line"], caller["count"]) == ("use.py", 1, 31)
        with pytest.raises(NotFoundError) as unknown:
            analyze_impact(codebase, ["cofn.py"])
    assert unknown.value.remedy == "did you mean conf.py?"
