"""The languages with a fixture in tests/data/languages: a real-looking file, and the symbols that it has."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from adjourn.code.index import languages as grammars
from adjourn.code.index import languages as scripts
from adjourn.code.index.analysis import GRAMMAR, WORDS, analyse
from adjourn.code.index.codebase import Codebase
from adjourn.code.index.languages import LANGUAGES, language_of
from adjourn.code.index.outline import COMMENT, IMPORT, STRING, Outline, RegionMarks, outline
from adjourn.code.repository import CodeRepository
from adjourn.code.search.definitions import find_definitions
from adjourn.code.search.references import find_references
from adjourn.code.search.structure import analyze_structure, get_function_at_line
from adjourn.code.server.text_replies import ending
from adjourn.errors import InvalidError
from support.cases import for_each

FOLDER = Path(__file__).parents[2] / "data" / "languages"
FILES = {path.stem: path for path in sorted(FOLDER.iterdir()) if path.suffix != ".symbols"}
DOCUMENTED = {
    "dart": ("Track", "One track."),
    "elixir": ("reserve", "Reserve a seat."),
    "kotlin": ("add", "Adds a line, if the order is still open."),
    "lua": ("push", "Put a job at the end."),
    "scala": ("record", "Adds a reading."),
    "sql": ("price_of", "What a stay costs."),
    "svelte": ("Ticker", "Ticks once a second."),
    "swift": ("store", "Put one item away."),
    "terraform": ("files", "The bucket,\nin a comment"),
    "typescript": ("Ticket", "One ticket."),
    "vue": ("Selection", "What is picked."),
    "zig": ("Packet", "One packet."),
}
IMPORTS = {
    "dart": "dart:async", "elixir": "GenServer", "kotlin": "Instant", "lua": "dkjson", "scala": "mutable", "svelte": "onMount",
    "swift": "Foundation", "typescript": "EventEmitter", "vue": "computed", "zig": "std",
}  # fmt: skip
CODE = {
    "dart": "track.title}",
    "kotlin": "at.epochSecond",
    "scala": "name.trim",
    "terraform": "local.prefix",
    "vue": "sort.name",
}
"""What a string of the fixture computes."""


def outline_of(name: str) -> Outline:
    found = outline(FILES[name].read_bytes(), name)
    assert found is not None
    assert not found.broken
    return found


def marks_of(name: str) -> RegionMarks:
    return RegionMarks.of(outline_of(name).regions)


@pytest.fixture(scope="module")
def codebase(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Codebase]:
    folder = tmp_path_factory.mktemp("languages")
    for path in FILES.values():
        shutil.copy(path, folder)
    with Codebase(str(folder)) as found:
        found.sync()
        yield found


@for_each("name", FILES)
def test_the_symbols_are_those_of_the_file(name: str) -> None:
    """Each definition with its lines, kind, scope and signature; signatures have no comments and no bodies."""
    found = "".join(
        f"{one.line}-{one.end_line} {one.kind} {one.dotted} | {one.signature}\n" for one in outline_of(name).symbols
    )
    assert found == (FOLDER / f"{name}.symbols").read_text(encoding="utf-8")


@for_each("name", FILES)
def test_a_name_is_where_it_says(name: str) -> None:
    """The offset of a definition's name leads to that name, in quotes or behind a colon, too."""
    data = FILES[name].read_bytes()
    for one in outline_of(name).symbols:
        assert data[one.name_start :].startswith(one.name.encode())


@for_each("name", FILES)
def test_comments_and_strings_are_told_from_code(name: str) -> None:
    """Wherever the fixture says that it is in a comment or a string it is, and only there."""
    data, marks = FILES[name].read_bytes(), marks_of(name)
    for kind in (COMMENT, STRING):
        text = f"in a {kind}".encode()
        places = [at for at in range(len(data)) if data.startswith(text, at)]
        assert places
        assert {marks.at(at) & {COMMENT, STRING} for at in places} == {frozenset({kind})}


@for_each("name", IMPORTS)
def test_imports_are_marked(name: str) -> None:
    """What a file imports is known as such."""
    assert IMPORT in marks_of(name).at(FILES[name].read_bytes().index(IMPORTS[name].encode()))


@pytest.mark.parametrize("name", CODE)
def test_what_a_string_computes_is_code(name: str) -> None:
    """An expression inside a string is no part of it."""
    assert STRING not in marks_of(name).at(FILES[name].read_bytes().index(CODE[name].encode()))


@for_each("name", DOCUMENTED)
def test_documentation_belongs_to_its_definition(name: str) -> None:
    """The comment above a definition is its documentation, without delimiters, across its annotations."""
    symbol, text = DOCUMENTED[name]
    assert text in [one.doc for one in outline_of(name).symbols if one.name == symbol]


@pytest.mark.parametrize("name", FILES)
def test_every_fixture_is_found_in_the_index(name: str, codebase: Codebase) -> None:
    """A definition is found by its name in the file of each language, marked as found by a grammar."""
    symbol = next(one for one in outline_of(name).symbols if one.kind != "alias")
    found = find_definitions(codebase, symbol.name, language=name, exact_match=True)["definitions"]
    assert (FILES[name].name, symbol.line, "scoped") in [(one["file"], one["line"], one["match"]) for one in found]


def test_uses_are_found_beside_comments_and_strings(codebase: Codebase) -> None:
    """A use is resolved in code, also in what a string computes, and known as a comment in markup."""
    uses = {
        (one["file"], one["line"]): (one["match"], one["kind"])
        for name in ("settle", "allowed", "guests", "region", "MAX_ITEMS")
        for one in find_references(codebase, name)["references"]
    }
    assert uses == {
        ("dart.dart", 67): ("scoped", "call"),
        ("kotlin.kt", 54): ("scoped", "name"),
        ("kotlin.kt", 56): ("scoped", "call"),
        ("lua.lua", 33): ("scoped", "call"),
        ("lua.lua", 57): ("scoped", "name"),
        ("scala.scala", 48): ("scoped", "call"),
        ("sql.sql", 16): ("scoped", "call"),
        ("sql.sql", 35): ("scoped", "name"),
        ("sql.sql", 53): ("scoped", "call"),
        ("svelte.svelte", 33): ("scoped", "call"),
        ("svelte.svelte", 37): ("comment", "call"),
        ("svelte.svelte", 42): ("name", "name"),
        ("terraform.tf", 13): ("scoped", "name"),
        ("terraform.tf", 30): ("scoped", "name"),
        ("vue.vue", 1): ("comment", "call"),
        ("zig.zig", 79): ("scoped", "call"),
    }


@for_each("name", FILES)
def test_a_fixture_has_a_structure(name: str, tmp_path: Path) -> None:
    """`analyze_structure` tells something, and a line in a function leads to it."""
    repository = CodeRepository(str(tmp_path))
    shutil.copy(FILES[name], tmp_path)
    told = analyze_structure(repository, FILES[name].name)
    assert told["functions"] or told["classes"] or told["other"]
    for one in (one for one in outline_of(name).symbols if one.kind in {"function", "method"}):
        found = get_function_at_line(repository, FILES[name].name, one.end_line)
        assert found["start_line"] >= one.line


def test_every_language_has_a_sample() -> None:
    """A fixture is of the language that its name says, and one of the table."""
    assert {name: language_of(path.name) for name, path in FILES.items()} == {name: name for name in FILES}
    assert FILES.keys() <= {language.name for language in LANGUAGES}
    assert all(path.read_text(encoding="utf-8").count("\n") >= 40 for path in FILES.values())


def test_a_grammar_is_loaded_when_a_file_needs_it() -> None:
    """Reading Python leaves the grammars of other languages alone."""
    grammars.load_grammar.cache_clear()
    assert analyse(b"x = 1\n", "python").engine == GRAMMAR
    assert grammars.load_grammar.cache_info().currsize == 1


@for_each(
    ("text", "code"),
    [
        ("<script>a</script>x", "        a          "),
        ("<SCRIPT lang='ts'>a</SCRIPT >", "                  a          "),
        ("<!-- <script>a</script> -->", " " * 27),
        ("<script src='a.js'/>x", " " * 21),
        ("<script type='application/json'>{}</script>", " " * 43),
        ("<script lang='coffee'>a</script>", " " * 32),
        ("<script data-x='>'>a", "                   a"),
        ("<script data-x='>a", " " * 18),
        ("<script>a\r\n</script>\r\n<p>", "        a\r\n         \r\n   "),
        ("<scripts>a</scripts>", " " * 20),
    ],
)
def test_only_scripts_are_code(text: str, code: str) -> None:
    """What is not a script of a language that can be read is blank; lines and places stay."""
    assert scripts.of_markup(text.encode()).code == code.encode()


def test_a_script_with_markup_is_read_as_such() -> None:
    """JSX in a Vue file has its own grammar."""
    found = outline(b'<script lang="tsx">\nconst V = () => <p>{x}</p>\n</script>\n', "vue")
    assert found is not None
    assert ([(one.name, one.kind, one.line) for one in found.symbols], found.broken) == ([("V", "function", 2)], False)


@pytest.mark.parametrize(
    "text", [b"<script ", b"<script>", b"<!--", b'<script a="', b"<script></script ", b"<script>`"]
)
def test_hostile_markup_ends(text: bytes) -> None:
    """Markup that is opened again and again and never closed is read in one go."""
    began = time.process_time()
    scripts.of_markup(text * (1_000_000 // len(text)))
    assert time.process_time() - began < 5


@pytest.fixture
def without_kotlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "tree_sitter_kotlin", None)
    grammars.missing_grammars.cache_clear()
    yield
    monkeypatch.undo()
    grammars.missing_grammars.cache_clear()


@pytest.mark.usefixtures("without_kotlin")
def test_a_language_without_its_grammar_is_searched_as_text(tmp_path: Path) -> None:
    """The index, a reply and an error name the package that is not installed, once a file needs it."""
    data = FILES["kotlin"].read_bytes()
    assert analyse(data, "kotlin").engine == WORDS
    with Codebase(str(tmp_path)) as found:
        found.sync()
        assert "missing_grammars" not in found.state()
        shutil.copy(FILES["kotlin"], tmp_path)
        found.sync()
        assert found.state()["missing_grammars"] == {"kotlin": "tree-sitter-kotlin"}
        reply = find_references(found, "settle")
        assert [one["match"] for one in reply["references"]] == ["name"]
        assert "the package tree-sitter-kotlin is not installed: kotlin files are searched as text" in ending(reply)
        with pytest.raises(InvalidError, match="the package tree-sitter-kotlin is not installed"):
            analyze_structure(found.repository, "kotlin.kt")


@for_each(
    ("language", "text"),
    [
        ("bash", "f() { # c\n  :\n}\n"),
        ("c", "int f(int a, /* c */\n  int b // c\n) { }\n"),
        ("cpp", "class A { int f(int a, // c\n  int b); };\n"),
        ("csharp", "class A { void F(int a, /* c */ int b // c\n) {} }\n"),
        ("css", ".a /* c */ .b { }\n"),
        ("go", "func f(a int, // c\n  b int /* c */) int { return 1 }\n"),
        ("java", "interface A { void f(int a, // c\n  int b); }\n"),
        ("javascript", "function f(a, // c\n  b /* c */) {}\n"),
        ("php", "<?php function f($a, // c\n  # c\n  $b) {}\n"),
        ("python", "def f(\n    a, # c\n    # c\n    b,\n): pass\n"),
        ("ruby", "def f(a, # c\n  b)\nend\n"),
        ("rust", "fn f(a: u8, // c\n  /* c */ b: u8) {}\n"),
        ("tsx", "const f = (a: string, // c\n  b /* c */) => <p/>;\n"),
    ],
)
def test_a_signature_has_no_comments(language: str, text: str) -> None:
    """The signature of a definition goes over lines to its end, and what is said about its parts is left out."""
    found = outline(text.encode(), language)
    assert found is not None
    last = next(one for one in reversed(found.symbols) if one.kind not in {"variable", "field"})
    assert not {"c", "#", "//", "/*"} & set(last.signature.split())
    assert last.signature.count("(") == last.signature.count(")")
    assert language in {"bash", "css"} or "b" in re.findall(r"\w+", last.signature)


@pytest.mark.parametrize(
    ("language", "broken"), [("kotlin", "fun a() = foo bar ) baz =\n"), ("lua", "foo bar ) baz =\n")]
)
def test_what_follows_a_broken_line_is_found(language: str, broken: str) -> None:
    """A scanner that takes the rest of a file for a string is set right."""
    text = f"{broken}{FILES[language].read_text(encoding='utf-8')}"
    found = outline(text.encode(), language)
    assert found is not None
    assert found.broken
    assert {one.dotted for one in outline_of(language).symbols} <= {one.dotted for one in found.symbols}


def test_a_script_of_another_dialect_is_read_by_statement() -> None:
    """What the grammar does not know costs its own statement only; lines, places and documentation stay."""
    unknown = "EXEC run @all = (\nGO\nCREATE TABLE logs (id int) FILEGROUP !! ((\nGO\n"
    text = unknown + FILES["sql"].read_text(encoding="utf-8")
    found = outline(text.encode(), "sql")
    assert found is not None
    assert found.broken
    rows = unknown.count("\n")
    known = {(one.dotted, one.line + rows, one.end_line + rows, one.doc) for one in outline_of("sql").symbols}
    assert {(one.dotted, one.line, one.end_line, one.doc) for one in found.symbols if one.line > rows} == known
    assert "logs" in [one.name for one in found.symbols]
    assert all(text[one.name_start :].startswith(one.name) for one in found.symbols)
    marks = RegionMarks.of(found.regions)
    assert {marks.at(found.start()) & {STRING} for found in re.finditer("in a string", text)} == {frozenset({STRING})}


def test_a_constructor_may_stand_below_its_class() -> None:
    """A Kotlin class is read whole if `constructor` is on a later line than its name, as formatters put it."""
    text = (
        "class Model<T>\n    @Inject(by = 1)\n    internal constructor(\n        val id: Int, // c\n    ) : Base() {\n"
        "        fun load() = 1\n    }\nclass Next\nprivate class Other {\n    constructor(a: Int)\n}\n"
    )
    found = outline(text.encode(), "kotlin")
    assert found is not None
    assert not found.broken
    assert [(one.dotted, one.line, one.end_line) for one in found.symbols] == [
        ("Model", 1, 7), ("Model.id", 4, 4), ("Model.load", 6, 6), ("Next", 8, 8), ("Other", 9, 11), ("Other.constructor", 10, 10),
    ]  # fmt: skip


def test_a_class_may_stand_on_one_line() -> None:
    """A Kotlin class whose last member ends on the line of its brace is read whole, and so is what follows."""
    text = (
        'class A(val a: Int) { fun b() {} }\nobject C : D() { override fun e() = "f" }\ninterface G { val h: Int }\n'
        "fun i() { j.map { it.k }.filter { l -> m } }\n"
    )
    found = outline(text.encode(), "kotlin")
    assert found is not None
    assert not found.broken
    assert [one.dotted for one in found.symbols] == ["A", "A.a", "A.b", "C", "C.e", "G", "G.h", "i"]


@for_each("language", FILES)
def test_text_in_another_encoding_is_read(language: str) -> None:
    """Bytes that are not UTF-8 cost no definition around them."""
    data = FILES[language].read_bytes().replace(b"in a string", b"en fran\xe7ais").replace(b"in a comment", b"caf\xe9")
    found = outline(data, language)
    assert found is not None
    assert [one.name for one in found.symbols] == [one.name for one in outline_of(language).symbols]


@pytest.mark.parametrize("language", ["csharp", "kotlin"])
def test_a_file_of_open_brackets_is_not_parsed(language: str) -> None:
    """What has more readings than a parser can follow keeps its words only."""
    began = time.process_time()
    assert analyse(b"<import" * 30_000, language).engine == WORDS
    assert time.process_time() - began < 5
