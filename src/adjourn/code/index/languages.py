"""The supported languages, and parsing a file of each within bounds, whatever its author wants.

It never recurses over a tree, changes no place in a file, and fetches no grammar. Grammars are loaded when a file is first parsed.
"""

from __future__ import annotations

import codecs
import importlib
import importlib.util
import os
import re
import time
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from adjourn.errors import InvalidError
from adjourn.text.near_words import did_you_mean

if TYPE_CHECKING:
    import tree_sitter
    from tree_sitter import Node, Parser, Query, QueryCursor


class Language(msgspec.Struct, frozen=True):
    """One language. `module` and `grammar` say where its grammar is, `queries` which query files read it.

    `scripted`: its files are markup, of which only the scripts are code.
    """

    name: str
    extensions: tuple[str, ...]
    module: str
    queries: tuple[str, ...]
    grammar: str = "language"
    scripted: bool = False


LANGUAGES = (
    Language("python", (".py", ".pyi", ".pyw"), "tree_sitter_python", ("python",)),
    Language(
        "javascript", (".js", ".jsx", ".mjs", ".cjs"), "tree_sitter_javascript", ("javascript", "javascript_classes")
    ),
    Language(
        "typescript",
        (".ts", ".mts", ".cts"),
        "tree_sitter_typescript",
        ("javascript", "typescript"),
        "language_typescript",
    ),
    Language("tsx", (".tsx",), "tree_sitter_typescript", ("javascript", "typescript"), "language_tsx"),
    Language(
        "vue", (".vue",), "tree_sitter_typescript", ("javascript", "typescript"), "language_typescript", scripted=True
    ),
    Language(
        "svelte",
        (".svelte",),
        "tree_sitter_typescript",
        ("javascript", "typescript", "svelte"),
        "language_typescript",
        scripted=True,
    ),
    Language("go", (".go",), "tree_sitter_go", ("go",)),
    Language("rust", (".rs",), "tree_sitter_rust", ("rust",)),
    Language("java", (".java",), "tree_sitter_java", ("java",)),
    Language("c", (".c", ".h"), "tree_sitter_c", ("c",)),
    Language("cpp", (".cpp", ".cc", ".cxx", ".hpp", ".hh", ".hxx", ".ipp"), "tree_sitter_cpp", ("c", "cpp")),
    Language("csharp", (".cs",), "tree_sitter_c_sharp", ("csharp",)),
    Language("php", (".php", ".phtml"), "tree_sitter_php", ("php",), "language_php"),
    Language("ruby", (".rb", ".rake", ".gemspec"), "tree_sitter_ruby", ("ruby",)),
    Language("html", (".html", ".htm", ".xhtml"), "tree_sitter_html", ("html",)),
    Language("css", (".css",), "tree_sitter_css", ("css",)),
    Language("markdown", (".md", ".markdown"), "tree_sitter_markdown", ("markdown",)),
    Language("json", (".json",), "tree_sitter_json", ("json",)),
    Language("bash", (".sh", ".bash"), "tree_sitter_bash", ("bash",)),
    Language("swift", (".swift",), "tree_sitter_swift", ("swift",)),
    Language("kotlin", (".kt", ".kts"), "tree_sitter_kotlin", ("kotlin",)),
    Language("scala", (".scala", ".sc"), "tree_sitter_scala", ("scala",)),
    Language("dart", (".dart",), "tree_sitter_dart", ("dart",)),
    Language("lua", (".lua",), "tree_sitter_lua", ("lua",)),
    Language("elixir", (".ex", ".exs"), "tree_sitter_elixir", ("elixir",)),
    Language("zig", (".zig",), "tree_sitter_zig", ("zig",)),
    Language("sql", (".sql",), "tree_sitter_sql", ("sql",)),
    Language("terraform", (".tf", ".tfvars", ".hcl"), "tree_sitter_hcl", ("terraform",)),
)
TEXT = "text"
"""A text file without a grammar."""

_BY_EXTENSION = {extension: language for language in LANGUAGES for extension in language.extensions}
_BY_NAME = {language.name: language for language in LANGUAGES}
_ALIASES = {
    "py": "python", "js": "javascript", "jsx": "javascript", "ts": "typescript", "golang": "go", "rs": "rust",
    "c++": "cpp", "c#": "csharp", "cs": "csharp", "rb": "ruby", "md": "markdown", "sh": "bash", "shell": "bash",
    "htm": "html", "kt": "kotlin", "ex": "elixir", "hcl": "terraform", "tf": "terraform",
}  # fmt: skip
_FAMILIES = {"typescript": ("typescript", "tsx"), "c": ("c", "cpp"), "cpp": ("cpp", "c")}


def language_of(path: str) -> str:
    """The name of a file's language by its extension; `text` for an unknown extension."""
    language = _BY_EXTENSION.get(os.path.splitext(path)[1].lower())
    return language.name if language else TEXT


def by_name(name: str) -> Language | None:
    """A language by its name or one of the usual short forms."""
    folded = name.strip().lower()
    return _BY_NAME.get(_ALIASES.get(folded, folded))


@cache
def matching_languages(name: str | None) -> frozenset[str] | None:
    """Every language that a given name covers: `typescript` covers tsx, and C and C++ share headers.

    None covers all of them; `text` is any file without a grammar. Raises `InvalidError` for another name.
    """
    if not name:
        return None
    language = by_name(name)
    canonical = language.name if language else name.strip().lower()
    if language is None and canonical != TEXT:
        names = sorted((*_BY_NAME, TEXT))
        meant = did_you_mean(canonical, (*names, *_ALIASES))
        raise InvalidError(f"unknown language {name[:50]!r}", meant or f"use one of {', '.join(names)}")
    return frozenset(_FAMILIES.get(canonical, (canonical,)))


# --- parses a file within bounds, whatever its author wants

MAX_SECONDS = 5.0
_STEP = 1 << 12
"""Bytes given to the parser at once. A query asks again for the text of each node that it compares, so more costs more."""
_MAX_DEPTH = 2_000
_MAX_BROKEN = 5_000
_MAX_MENDED = 20
_SAMPLES = 256
_STATEMENT = re.compile(rb"[;{}]")
_CONSTRUCTOR = re.compile(
    rb"(\bclass\s+\w+(?:<[^<>(){}]{0,300}>)?)"
    rb"((?:\s+(?!(?:class|fun|interface|object|val|var)\b)@?[\w.:]+(?:\([^()]{0,200}\))?){0,8}?\s+constructor\s*)\("
)
_ON_ONE_LINE = re.compile(rb"(?<=[\w)\]}\"'?!]) \}")
"""The end of a Kotlin class on one line with its last member, which the grammar knows after a semicolon only."""
_WORD = re.compile(rb"\S")
_IN_PLACE = "adjourn.in_place"
codecs.register_error(_IN_PLACE, lambda error: ("?" * (error.end - error.start), error.end))  # type: ignore[attr-defined]


class Parsed(NamedTuple):
    """The root of a syntax tree, and the bytes that it is of: those of the file, or as many. `broken`: with syntax errors."""

    data: bytes
    root: Node
    broken: bool


def parse(data: bytes, language: str) -> Parsed | None:
    """The syntax tree of a file's bytes; None if it would take too long to make or to query."""
    data = _valid(data)  # a query decodes what it compares
    if language == "kotlin":
        data = _CONSTRUCTOR.sub(_plain_constructor, data)
    # So many `<` are open that a parser follows more readings than its time, or its stack, allows.
    if data.count(b"<") > _MAX_DEPTH and any(
        part.count(b"<") - part.count(b">") > _MAX_DEPTH for part in _STATEMENT.split(data)
    ):
        return None
    root = _tree(data, language)
    if language == "kotlin" and root is not None and root.has_error:
        data = _ON_ONE_LINE.sub(b";}", data)
        root = _tree(data, language)
    mended, root = _mended(data, root, language)
    if root is None or _is_hostile(root):
        return None
    return Parsed(mended, root, root.has_error or mended is not data)


def _tree(data: bytes, language: str) -> Node | None:
    """The root of a file's syntax tree; None after `MAX_SECONDS`."""
    grammar = load_grammar(language)
    deadline = time.monotonic() + MAX_SECONDS
    try:
        tree = grammar.parser(grammar.language).parse(
            lambda start, _: data[start : start + _STEP], progress_callback=lambda _, __: time.monotonic() > deadline
        )
    except ValueError:  # how the library says that it was stopped
        return None
    return tree.root_node


def _valid(data: bytes) -> bytes:
    """The same in UTF-8, each character at its place: what is none becomes question marks."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.decode(errors=_IN_PLACE).encode()
    return data


def _plain_constructor(match: re.Match[bytes]) -> bytes:
    """The head of a Kotlin class without `constructor` on a later line, which the grammar does not know."""
    head, keyword = match.groups()
    return head + b"(" + _WORD.sub(b" ", keyword) if b"\n" in keyword else match[0]


def _mended(data: bytes, root: Node | None, language: str) -> tuple[bytes, Node | None]:
    """A file and its tree. Lines after which a scanner took all that follows for a string (Kotlin, Lua) are blanked."""
    began = time.monotonic()
    for _ in range(_MAX_MENDED):
        place = _runaway(root) if root is not None and root.has_error else None
        if place is None or time.monotonic() - began > MAX_SECONDS:
            break
        start, end = data.rfind(b"\n", 0, place) + 1, data.find(b"\n", place)
        data = b"".join((data[:start], b" " * (end - start), data[end:]))
        root = _tree(data, language)
    return data, root


def _runaway(root: Node) -> int | None:
    """Where the text of a string begins that no string is around, if it is longer than a line."""
    broken = [root]
    while broken:
        node = broken.pop()
        for child in node.children:
            if node.is_error and child.type.endswith("_content") and child.end_point.row > child.start_point.row:
                return child.start_byte
        broken += [child for child in reversed(node.children) if child.has_error]
    return None


def _is_hostile(root: Node) -> bool:
    """Whether a tree is nested or broken beyond any real code: query time grows with the square of both."""
    cursor = root.walk()
    count = root.descendant_count
    for place in range(count - 1, 0, -max(count // _SAMPLES, 1)):
        cursor.goto_descendant(place)
        if cursor.depth > _MAX_DEPTH:
            return True
    broken = [root] if root.has_error else []
    while broken:
        node = broken.pop()
        if node.is_error and node.child_count > _MAX_BROKEN:
            return True
        broken += [child for child in node.children if child.has_error]
    return False


# --- grammars, loaded when first needed


@cache
def missing_grammars() -> dict[str, str]:
    """The languages whose files cannot be parsed here, each with a package that is not installed."""
    return {
        language.name: module.replace("_", "-")
        for language in LANGUAGES
        for module in (language.module, "tree_sitter")
        if importlib.util.find_spec(module) is None
    }


def has_grammar(name: str) -> bool:
    """Whether files of a language can be parsed here."""
    return by_name(name) is not None and name not in missing_grammars()


class Grammar(NamedTuple):
    """The grammar of a language, the query that reads its trees, and the library's classes that use them."""

    language: tree_sitter.Language
    query: Query
    parser: type[Parser]
    cursor: type[QueryCursor]


@cache
def load_grammar(name: str) -> Grammar:
    """The grammar of a language for which `has_grammar` holds."""
    import tree_sitter  # an extra

    entry = by_name(name)
    assert entry is not None, name
    grammar = tree_sitter.Language(getattr(importlib.import_module(entry.module), entry.grammar)())
    folder = resources.files("adjourn.code") / "queries"
    text = "\n".join((folder / f"{part}.scm").read_text("utf-8") for part in entry.queries)
    return Grammar(grammar, tree_sitter.Query(grammar, text), tree_sitter.Parser, tree_sitter.QueryCursor)


# --- the scripts in a file of markup (Vue, Svelte), at their places

_MARK = re.compile(rb"<!--|<script(?=[\s>])", re.IGNORECASE)
_ATTRIBUTES = re.compile(rb"""((?:[^>"']++|"[^"]*+"|'[^']*+')*+)>""")
_END = re.compile(rb"</script\s*+>", re.IGNORECASE)
_ATTRIBUTE = re.compile(rb"""(?<![^\s"'])(lang|type)\s*+=\s*+["']?([\w/+.-]*+)""", re.IGNORECASE)
_CODE = re.compile(rb"[^\r\n]")
_PLAIN = frozenset((
    b"", b"js", b"javascript", b"module", b"ts", b"typescript", b"text/javascript", b"application/javascript", b"text/typescript",
))  # fmt: skip
_WITH_MARKUP = frozenset((b"jsx", b"tsx"))


class Scripts(NamedTuple):
    """A file in which all that is not JavaScript or TypeScript is blank, and where the comments of its markup are.

    `has_markup`: there is markup in its scripts, too (JSX).
    """

    code: bytes
    has_markup: bool
    comments: list[tuple[int, int]]


def of_markup(data: bytes) -> Scripts:
    """The scripts of a file, with each character at its place."""
    comments: list[tuple[int, int]] = []
    code: list[bytes] = []
    place, has_markup = 0, False
    for start, end, kind in _parts(data):
        if kind is None:
            comments.append((start, end))
        elif kind in _PLAIN or kind in _WITH_MARKUP:
            code += (_CODE.sub(b" ", data[place:start]), data[start:end])
            place = end
            has_markup |= kind in _WITH_MARKUP
    code.append(_CODE.sub(b" ", data[place:]))
    return Scripts(b"".join(code), has_markup, comments)


def _parts(data: bytes) -> Iterator[tuple[int, int, bytes | None]]:
    """Where the comments (None) and the scripts are, and what language these say they are in."""
    place = 0
    while mark := _MARK.search(data, place):
        if mark[0] == b"<!--":
            end = data.find(b"-->", mark.end())
            place = end + 3 if end >= 0 else len(data)
            yield mark.start(), place, None
            continue
        opening = _ATTRIBUTES.match(data, mark.end())
        if opening is None:
            return
        place = opening.end()
        if opening[1].endswith(b"/"):
            continue
        closing = _END.search(data, place)
        end = closing.start() if closing else len(data)
        attributes = {name.lower(): value.lower() for name, value in _ATTRIBUTE.findall(opening[1])}
        yield place, end, attributes.get(b"lang") or attributes.get(b"type", b"")
        place = closing.end() if closing else end
