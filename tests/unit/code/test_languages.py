"""The languages with a fixture in tests/data/languages: a real-looking file, and the symbols that it has."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from adjourn.code.index import grammars, scripts
from adjourn.code.index.analysis import GRAMMAR, analyse
from adjourn.code.index.codebase import Codebase
from adjourn.code.index.languages import LANGUAGES, language_of
from adjourn.code.index.outline import COMMENT, IMPORT, STRING, Outline, RegionMarks, outline
from adjourn.code.model.repository import CodeRepository
from adjourn.code.search.definitions import find_definitions
from adjourn.code.search.references import find_references
from adjourn.code.search.structure import analyze_structure, get_function_at_line

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


@pytest.mark.parametrize("name", FILES)
def test_the_symbols_are_those_of_the_file(name: str) -> None:
    """Each definition with its lines, kind, scope and signature; signatures have no comments and no bodies."""
    found = "".join(
        f"{one.line}-{one.end_line} {one.kind} {one.dotted} | {one.signature}\n"
        for one in outline_of(name).symbols
    )
    assert found == (FOLDER / f"{name}.symbols").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FILES)
def test_a_name_is_where_it_says(name: str) -> None:
    """The offset of a definition's name leads to that name, in quotes or behind a colon, too."""
    data = FILES[name].read_bytes()
    for one in outline_of(name).symbols:
        assert data[one.name_start :].startswith(one.name.encode())


@pytest.mark.parametrize("name", FILES)
def test_comments_and_strings_are_told_from_code(name: str) -> None:
    """Wherever the fixture says that it is in a comment or a string it is, and only there."""
    data, marks = FILES[name].read_bytes(), marks_of(name)
    for kind in (COMMENT, STRING):
        text = f"in a {kind}".encode()
        places = [at for at in range(len(data)) if data.startswith(text, at)]
        assert places
        assert {marks.at(at) & {COMMENT, STRING} for at in places} == {frozenset({kind})}


@pytest.mark.parametrize("name", IMPORTS)
def test_imports_are_marked(name: str) -> None:
    """What a file imports is known as such."""
    assert IMPORT in marks_of(name).at(FILES[name].read_bytes().index(IMPORTS[name].encode()))


@pytest.mark.parametrize("name", CODE)
def test_what_a_string_computes_is_code(name: str) -> None:
    """An expression inside a string is no part of it."""
    assert STRING not in marks_of(name).at(FILES[name].read_bytes().index(CODE[name].encode()))


@pytest.mark.parametrize("name", DOCUMENTED)
def test_documentation_belongs_to_its_definition(name: str) -> None:
    """The comment above a definition is its documentation, without delimiters, across its annotations."""
    symbol, text = DOCUMENTED[name]
    assert text in [one.doc for one in outline_of(name).symbols if one.name == symbol]


@pytest.mark.parametrize("name", FILES)
def test_every_fixture_is_found_in_the_index(name: str, codebase: Codebase) -> None:
    """A definition is found by its name in the file of each language, marked as found by a grammar."""
    symbol = next(one for one in outline_of(name).symbols if one.kind != "alias")
    found = find_definitions(codebase, symbol.name, language=name, exact_match=True)["definitions"]
    assert (FILES[name].name, symbol.line, "scoped") in [
        (one["file"], one["line"], one["match"]) for one in found
    ]


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


@pytest.mark.parametrize("name", FILES)
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
    grammars.load.cache_clear()
    assert analyse(b"x = 1\n", "python").engine == GRAMMAR
    assert grammars.load.cache_info().currsize == 1


@pytest.mark.parametrize(
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
    assert ([(one.name, one.kind, one.line) for one in found.symbols], found.broken) == (
        [("V", "function", 2)],
        False,
    )


@pytest.mark.parametrize(
    "text", [b"<script ", b"<script>", b"<!--", b'<script a="', b"<script></script ", b"<script>`"]
)
def test_hostile_markup_ends(text: bytes) -> None:
    """Markup that is opened again and again and never closed is read in one go."""
    began = time.process_time()
    scripts.of_markup(text * (1_000_000 // len(text)))
    assert time.process_time() - began < 5
