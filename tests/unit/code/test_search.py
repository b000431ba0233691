"""Text and file search: what is found, what is an error, and what never happens."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.code.deadline import CancelledError, Deadline
from adjourn.code.repository import CodeRepository
from adjourn.code.search.text import MAX_LINE, TextOptions, compile_glob, search_files, search_text
from adjourn.errors import InvalidError, NotFoundError, RefusedError
from support.cases import for_each
from support.code_files import write
from support.processes import children


@pytest.fixture
def repository(tmp_path: Path) -> CodeRepository:
    write(
        tmp_path / "r",
        {
            "a.py": "one\ntwo needle\nthree\nfour needle\nfive\n",
            "b.md": "needle in é text\n-needle\n",
            ".gitignore": "ignored/\n",
            "ignored/c.py": "needle\n",
            "latin.txt": b"caf\xe9 needle\n",
            "binary.dat": b"\0\1needle\n",
        },
    )
    write(tmp_path, {"outside.txt": "needle\n"})
    return CodeRepository(str(tmp_path / "r"))


def _places(answer: dict[str, Any]) -> list[tuple[str, int]]:
    return [(match["file"], match["line_number"]) for match in answer["matches"]]


def test_matches_have_the_published_shape(repository: CodeRepository) -> None:
    """A match says its file, line and submatches; ignored and binary files are left out."""
    answer = search_text(repository, "needle")
    assert _places(answer) == [("a.py", 2), ("a.py", 4), ("b.md", 1), ("b.md", 2), ("latin.txt", 1)]
    assert answer["matches"][0] == {
        "file": "a.py",
        "line_number": 2,
        "line_content": "two needle",
        "submatches": [{"match": "needle", "start": 4, "end": 10}],
    }
    assert answer["total_matches"] == 5


def test_context_lines_are_delivered(repository: CodeRepository) -> None:
    """The lines around a match come with it, each once."""
    first, second = search_text(repository, "needle", "a.py", TextOptions(context_lines=1))["matches"]
    assert [line["line_content"] for line in first["context_before"]] == ["one"]
    assert [line["line_content"] for line in first["context_after"]] == ["three"]
    assert "context_before" not in second
    assert [line["line_content"] for line in second["context_after"]] == ["five"]


@pytest.mark.parametrize("context", [0, 2])
def test_the_limit_is_of_the_whole_answer(repository: CodeRepository, context: int) -> None:
    """`max_results` is not of each file, and the total continues counting."""
    answer = search_text(repository, "needle", options=TextOptions(max_results=2, context_lines=context))
    assert len(answer["matches"]) == answer["returned_matches"] == 2
    assert answer["total_matches"] == 5


def test_a_flood_of_matches_is_counted_not_read(tmp_path: Path) -> None:
    """Where everything matches, the total is exact and the answer is quick."""
    write(tmp_path, {"big.txt": "abcdefghij" * 20 + "\n", "more.txt": ("x" * 100 + "\n") * 60_000})
    answer = search_text(CodeRepository(str(tmp_path)), ".", options=TextOptions(max_results=3))
    assert (len(answer["matches"]), answer["total_matches"]) == (3, 60_001)


def test_a_leading_dash_is_a_pattern(repository: CodeRepository) -> None:
    """A pattern or a glob that looks like an option is none."""
    assert _places(search_text(repository, "-needle")) == [("b.md", 2)]
    assert search_text(repository, "--files")["total_matches"] == 0
    assert search_files(repository, "-x")["total_files"] == 0


@pytest.mark.parametrize(
    ("pattern", "options", "reason"),
    [
        ("(", {}, "unclosed group"),
        ("a", {"file_type": "klingon"}, "unrecognized file type"),
        ("", {}, "invalid pattern"),
        ("a\0b", {}, "invalid pattern"),
        ([], {}, "patterns is empty"),
    ],
)
def test_errors_are_told_in_the_words_of_ripgrep(
    repository: CodeRepository, pattern: Any, options: dict[str, Any], reason: str
) -> None:
    """What cannot be searched for is an error with its reason, never "0 matches"."""
    with pytest.raises(InvalidError, match=reason):
        search_text(repository, pattern, options=TextOptions(**options))


def test_an_invalid_glob_is_an_error(repository: CodeRepository) -> None:
    """A glob with an open bracket is shown, as is an unknown type."""
    for glob in ("a[", "a{b", ""):
        with pytest.raises(InvalidError, match="glob"):
            search_files(repository, glob)
    with pytest.raises(InvalidError, match="unrecognized file type"):
        search_files(repository, "*", file_type="klingon")


def test_several_patterns_at_once(repository: CodeRepository) -> None:
    """Up to five patterns are answered each; more are refused with their number."""
    answer = search_text(repository, ["one", "five", "one"])
    assert answer["total_patterns"] == 2
    assert {pattern: one["total_matches"] for pattern, one in answer["results"].items()} == {"one": 1, "five": 1}
    refused = search_text(repository, list("abcdef"))
    assert (refused["error"], refused["provided_patterns"]) == ("too_many_patterns", 6)


@pytest.mark.parametrize("path", ["..", "../outside.txt", "/etc", "link", "a\0b"])
def test_paths_outside_are_refused(repository: CodeRepository, path: str) -> None:
    """No path leaves the repository, not by dots, not by a link, not absolute."""
    os.symlink("../outside.txt", os.path.join(repository.root, "link"))
    with pytest.raises(RefusedError):
        search_text(repository, "needle", path)
    with pytest.raises(RefusedError):
        search_files(repository, "*", path)


def test_a_missing_path_is_an_error(repository: CodeRepository) -> None:
    """A path that is not there is no empty result."""
    with pytest.raises(NotFoundError, match="nowhere does not exist"):
        search_text(repository, "needle", "nowhere")


def test_links_are_not_followed(repository: CodeRepository) -> None:
    """Loops of links and links to other places end nothing and show nothing."""
    os.symlink(".", os.path.join(repository.root, "loop"))
    os.symlink("../outside.txt", os.path.join(repository.root, "link"))
    assert search_text(repository, "needle")["total_matches"] == 5
    assert not any("loop" in path or "link" in path for path in search_files(repository, "*")["files"])


def test_files_by_glob_and_type(repository: CodeRepository) -> None:
    """Globs and types choose files; a glob's "!" does not turn it round."""
    assert search_files(repository, "*.py")["files"] == ["a.py"]
    assert search_files(repository, "*", file_type="md")["files"] == ["b.md"]
    assert search_files(repository, "!*.py")["files"] == []
    assert search_files(repository, "*.{py,md}")["files"] == ["a.py", "b.md"]
    assert search_files(repository, "ignored/*")["files"] == []


@for_each(
    ("glob", "path", "expected"),
    [
        ("*.py", "a/b.py", True),
        ("a/*.py", "a/b/c.py", False),
        ("a/**/*.py", "a/c.py", True),
        ("**/t?st.[ch]", "x/test.c", True),
        ("[!a]*", "abc", False),
        ("src/**", "src/a/b", True),
        ("a.b", "axb", False),
        ("[[]x", "[x", True),
    ],
)
def test_globs_mean_what_ripgrep_means(glob: str, path: str, expected: bool) -> None:
    """Names in any folder without a slash, whole paths with one; stars stay in their folder."""
    assert (compile_glob(glob).fullmatch(path) is not None) is expected


def test_a_line_of_fifty_megabytes(tmp_path: Path) -> None:
    """Of an endless line what is near the match is shown, with its number, and not held whole."""
    path = tmp_path / "long.txt"
    path.write_bytes(b"first\n" + b"x" * 30_000_000 + b" needle " + b"y" * 20_000_000 + b"\nneedle\n")
    answer = search_text(CodeRepository(str(tmp_path)), "needle")
    far, near = answer["matches"]
    assert (far["line_number"], near["line_number"]) == (2, 3)
    assert far["line_truncated"]
    assert len(far["line_content"]) <= MAX_LINE + 2
    (hit,) = far["submatches"]
    assert far["line_content"][hit["start"] : hit["end"]] == "needle"


def test_an_unreadable_file_is_a_warning(repository: CodeRepository) -> None:
    """A file that may not be read does not end the search of the others."""
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    os.chmod(os.path.join(repository.root, "a.py"), 0)
    answer = search_text(repository, "needle")
    assert answer["total_matches"] == 3
    assert "a.py" in answer["warnings"][0]


def test_a_search_is_cancelled_and_timed(repository: CodeRepository) -> None:
    """Cancelling raises; a deadline hands back what there is and says so."""
    with pytest.raises(CancelledError):
        search_text(repository, "needle", deadline=Deadline(cancelled=lambda: True))
    assert "partial" in search_text(repository, "needle", deadline=Deadline(0))


@given(before=st.text(alphabet="aé漢😀", max_size=400), after=st.text(alphabet="bü漢", max_size=400))
def test_submatches_are_offsets_of_what_is_shown(
    tmp_path_factory: pytest.TempPathFactory, before: str, after: str
) -> None:
    """However the line is written and wherever it is cut, start and end find the match in it."""
    root = tmp_path_factory.mktemp("r")
    write(root, {"f.txt": f"{before}needle{after}\n"})
    (match,) = search_text(CodeRepository(str(root)), "needle")["matches"]
    (hit,) = match["submatches"]
    assert match["line_content"][hit["start"] : hit["end"]] == "needle" == hit["match"]


def test_a_search_leaves_no_process(repository: CodeRepository) -> None:
    """When enough was found, rg is ended and waited for."""
    before = set(children(os.getpid()))
    for _ in range(3):
        search_text(repository, "needle", options=TextOptions(max_results=1))
    assert set(children(os.getpid())) <= before
