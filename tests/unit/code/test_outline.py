"""What the syntax of each language tells: definitions, scopes, comments, and the function around a line."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.code.index.analysis import GRAMMAR, MAX_PARSED, SKIPPED, analyse, as_utf8, text_words, word_parts
from adjourn.code.index.languages import LANGUAGES, has_grammar, language_of, matching_languages
from adjourn.code.index.languages import load_grammar as load
from adjourn.code.index.outline import COMMENT, REGIONS, STRING, Region, RegionMarks, outline
from adjourn.code.repository import CodeRepository
from adjourn.code.search.structure import analyze_structure, get_function_at_line, parameters
from adjourn.errors import InvalidError, NotFoundError, RefusedError
from support.cases import for_each
from support.code_files import SHAPES, write

SAMPLES = {
    "python": ("class A:\n    def m(self): pass\nX = 1\n", [("A", "class", ""), ("m", "method", "A"), ("X", "variable", "")]),
    "javascript": ("export const f = (a) => 1;\nclass A { m() {} }\n", [("f", "function", ""), ("A", "class", ""), ("m", "method", "A")]),
    "typescript": ("interface I { a: string }\nabstract class A<T> { abstract q(): void }\n", [("I", "interface", ""), ("a", "field", "I"), ("A", "class", ""), ("q", "method", "A")]),
    "tsx": ("const V = () => <p>x</p>;\nenum E { A }\n", [("V", "function", ""), ("E", "enum", ""), ("A", "constant", "E")]),
    "go": ("package p\ntype T struct{}\nfunc (t *T) M() {}\nfunc F() {}\n", [("T", "struct", ""), ("M", "method", "T"), ("F", "function", "")]),
    "rust": ("struct S;\nimpl<T> Q<T> { fn a(&self) {} }\ntrait R { fn z(); }\n", [("S", "struct", ""), ("a", "method", "Q"), ("R", "trait", ""), ("z", "method", "R")]),
    "java": ("class A { int x; A() {} void m() {} }\n", [("A", "class", ""), ("x", "field", "A"), ("A", "method", "A"), ("m", "method", "A")]),
    "c": ("#define X 1\nstruct s { int a; };\nint *f(char *p) { return 0; }\n", [("X", "macro", ""), ("s", "struct", ""), ("a", "field", "s"), ("f", "function", "")]),
    "cpp": ("namespace n { class A { void m(); }; }\nvoid n::A::m() {}\n", [("n", "namespace", ""), ("A", "class", "n"), ("m", "prototype", "n.A"), ("m", "method", "n.A")]),
    "csharp": ("namespace N { class A { public int P { get; } void M() {} } }\n", [("N", "namespace", ""), ("A", "class", "N"), ("P", "property", "N.A"), ("M", "method", "N.A")]),
    "php": ("<?php class A { public $x; function f() {} } function g() {}\n", [("A", "class", ""), ("x", "field", "A"), ("f", "method", "A"), ("g", "function", "")]),
    "ruby": ("module M\n  class A\n    def f; end\n    def self.g; end\n  end\nend\n", [("M", "module", ""), ("A", "class", "M"), ("f", "method", "M.A"), ("g", "method", "M.A")]),
    "html": ('<div id="top">x</div>\n', [("top", "id", "")]),
    "css": (".a { --c: 1; }\n", [(".a", "selector", ""), ("--c", "variable", ".a")]),
    "markdown": ("# A\ntext\n## B\n# C\n", [("A", "heading", ""), ("B", "heading", "A"), ("C", "heading", "")]),
    "json": ('{"a": {"b": 1}}\n', [("a", "key", ""), ("b", "key", "a")]),
    "bash": ("f() { :; }\nX=1\n", [("f", "function", ""), ("X", "variable", "")]),
}  # fmt: skip


@for_each("language", SAMPLES)
def test_definitions_of_each_language(language: str) -> None:
    """Every language of the table has a grammar whose queries find definitions with their kinds and scopes."""
    text, expected = SAMPLES[language]
    found = outline(text.encode(), language)
    assert found is not None
    assert [(s.name, s.kind, s.scope) for s in found.symbols] == expected


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        (
            "python",
            (
                "class A:\n    f: int\n    def m(self, o):\n        self.x = o.y = v = 1\n        self.f, self.z = 2, 3\n"
                "    def n(self):\n        def inner():\n            self.x = self.w = 4\n"
            ),
            [("A", 1, ""), ("f", 2, "A"), ("m", 3, "A"), ("x", 4, "A"), ("z", 5, "A"), ("n", 6, "A"), ("inner", 7, "A.n"),
             ("w", 8, "A")],
        ),
        (
            "javascript",
            "class A {\n  constructor() { this.x = 1; }\n  m() { this.x = 2; }\n}\nfunction B() { this.y = 1; }\n",
            [("A", 1, ""), ("constructor", 2, "A"), ("x", 2, "A"), ("m", 3, "A"), ("B", 5, ""), ("y", 5, "B")],
        ),
    ],
)  # fmt: skip
def test_a_field_belongs_to_its_class(language: str, text: str, expected: list[tuple[str, int, str]]) -> None:
    """What a method assigns to its object is the class's field, defined where that is first done."""
    found = outline(text.encode(), language)
    assert found is not None
    assert [(s.name, s.line, s.scope) for s in found.symbols] == expected


def test_a_definition_under_a_condition_is_one() -> None:
    """Variables of a module or class under `if` and `try` are found, and so are names that an import gives."""
    text = (
        "if A:\n  b = 1\nelif C:\n  d = 1\ntry:\n  e, e2 = 1, 2\nexcept F:\n  g = g2 = g3 = 1\nclass H:\n  if A:\n    i = 1\n"
        "import j as k\ndef f():\n  x = y = 1\n"
    )
    found = outline(text.encode(), "python")
    assert found is not None
    names = [s.name for s in found.symbols if s.kind in {"variable", "field", "alias"}]
    assert names == ["b", "d", "e", "e2", "g", "g2", "g3", "i", "k"]


@for_each("language", SAMPLES)
def test_a_structure_is_not_empty(language: str, tmp_path: Path) -> None:
    """`analyze_structure` tells something in every language, not only in the five of the published system."""
    told = analyze_structure(CodeRepository(str(tmp_path)), code=SAMPLES[language][0], language=language)
    assert told["functions"] or told["classes"] or told["other"]
    assert told["summary"]["total_lines"] == SAMPLES[language][0].count("\n")


def test_the_innermost_function_is_found(tmp_path: Path) -> None:
    """A line in a nested function belongs to that one, not to the one around it."""
    write(tmp_path, {"shapes.py": SHAPES})
    repository = CodeRepository(str(tmp_path))
    line = SHAPES.splitlines().index("            return value * value") + 1
    found = get_function_at_line(repository, "shapes.py", line)
    assert (found["name"], found["scope"]) == ("squared", "Circle.area")
    assert get_function_at_line(repository, "shapes.py", line + 2)["name"] == "area"
    with pytest.raises(NotFoundError, match="line 1 of"):
        get_function_at_line(repository, "shapes.py", 1)


@given(st.text(alphabet="aé漢😀\n '", max_size=30))
def test_names_after_text_beyond_ascii_are_whole(text: str) -> None:
    """Names are cut by bytes from bytes: what stands before them, in whatever script, shifts nothing."""
    before = "".join(f"# {line}\n" for line in text.split("\n"))
    found = outline(f"{before}def naïve_größe(x):\n    return x\n".encode(), "python")
    assert found is not None
    (symbol,) = found.symbols
    assert (symbol.name, symbol.line) == ("naïve_größe", before.count("\n") + 1)
    assert symbol.signature == "def naïve_größe(x)"


@given(st.binary(max_size=300))
def test_any_bytes_are_analysed(data: bytes) -> None:
    """Analysing any file ends and raises nothing."""
    for language in ("python", "cpp", "markdown", "text"):
        assert analyse(data, language).lines >= 0


@pytest.mark.parametrize("data", [b"(" * 100_000, b"x = " + b"[" * 50_000 + b"]" * 50_000, b"not " * 50_000])
def test_hostile_files_end(data: bytes) -> None:
    """A file nested or broken as no one writes keeps its words and is not parsed for minutes."""
    began = time.process_time()
    assert analyse(data, "python").engine in {GRAMMAR, "words"}
    assert time.process_time() - began < 10


def test_what_cannot_be_read_is_skipped() -> None:
    """Binary and overlong files are in the index as such, without symbols."""
    assert analyse(b"a\0b", "python").engine == SKIPPED
    assert analyse(b"x" * (MAX_PARSED + 1), "python").engine == SKIPPED


def test_other_encodings_keep_their_lines() -> None:
    """A file with a byte order mark is read as what it says it is."""
    text = "x = 'é'\ndef f(): pass\n"
    for data in (text.encode("utf-8-sig"), text.encode("utf-16")):
        assert as_utf8(data) == text.encode()
        assert [s.name for s in analyse(data, "python").symbols] == ["x", "f"]


def test_comments_strings_and_code_are_told_apart() -> None:
    """What is in a comment or a string is known as such; what an f-string computes is code."""
    code = b"a = f'in {name} it'  # name\n"
    found = outline(code, "python")
    assert found is not None
    marks = RegionMarks.unpacked(RegionMarks.of(found.regions).packed())
    assert marks.at(code.index(b"in ")) == {STRING}
    assert marks.at(code.index(b"name}")) == set()
    assert marks.at(code.index(b"# name")) == {COMMENT}


@given(
    st.lists(st.tuples(st.sampled_from(REGIONS), st.integers(0, 60), st.integers(0, 40)), max_size=30),
    st.integers(0, 110),
)
def test_marks_answer_as_the_regions_do(spans: list[tuple[str, int, int]], place: int) -> None:
    """However regions nest and overlap, a place is of those kinds that are around it, packed or not."""
    regions = [Region(kind, start, start + size) for kind, start, size in spans]
    marks = RegionMarks.of(regions)
    expected = {one.kind for one in regions if one.start <= place < one.end}
    assert marks.at(place) == RegionMarks.unpacked(marks.packed()).at(place) == expected


def test_words_come_apart() -> None:
    """Camel case, snake case, digits and scripts without spaces are found by their parts."""
    assert word_parts("HTTPServer_maxSize2") == ("http", "server", "max", "size", "2")
    assert text_words("CheckpointSaver.put_writes") == ["checkpoint", "saver", "put", "writes"]
    assert text_words("検索機能") == ["検索", "索機", "機能"]


def test_parameters_are_taken_apart() -> None:
    """Commas inside brackets and types separate nothing."""
    assert parameters("def f(a: dict[str, int], b=(1, 2), *c) -> int") == ["a: dict[str, int]", "b=(1, 2)", "*c"]
    assert parameters("func (s *Server) Handle(a int) string") == ["a int"]
    assert parameters("class A") == []


def test_languages_by_name_and_extension() -> None:
    """A caller's short names are understood, and families go together."""
    assert language_of("a/B.TSX") == "tsx"
    assert language_of("Makefile") == "text"
    assert matching_languages("ts") == frozenset({"typescript", "tsx"})
    assert matching_languages(None) is None
    assert all(has_grammar(language.name) and load(language.name) for language in LANGUAGES)


def test_structure_refuses_what_it_cannot_parse(tmp_path: Path) -> None:
    """An unknown language, a binary file and a path outside are errors that say so."""
    write(tmp_path, {"r/data.bin": b"\0\1", "r/a.txt": "x", "out.py": "x = 1"})
    repository = CodeRepository(str(tmp_path / "r"))
    with pytest.raises(InvalidError, match="no grammar for language 'klingon'"):
        analyze_structure(repository, code="x", language="klingon")
    with pytest.raises(InvalidError, match="binary"):
        analyze_structure(repository, "data.bin")
    with pytest.raises(InvalidError, match="has no grammar"):
        analyze_structure(repository, "a.txt")
    with pytest.raises(RefusedError, match="outside"):
        analyze_structure(repository, "../out.py")
    (tmp_path / "r" / "link.py").symlink_to(Path("../out.py"))
    with pytest.raises(RefusedError, match="outside"):
        analyze_structure(repository, "link.py")
