"""The supported languages, and the language of a file.

Owns: the table of languages and `language_of`. Must never: load a grammar.
"""

from __future__ import annotations

import os
from functools import cache

import msgspec

from adjourn.errors import InvalidError
from adjourn.text.near_words import did_you_mean


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
        "javascript",
        (".js", ".jsx", ".mjs", ".cjs"),
        "tree_sitter_javascript",
        ("javascript", "javascript_classes"),
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
        "vue",
        (".vue",),
        "tree_sitter_typescript",
        ("javascript", "typescript"),
        "language_typescript",
        scripted=True,
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
    known = language.name if language else name.strip().lower()
    if language is None and known != TEXT:
        names = sorted((*_BY_NAME, TEXT))
        meant = did_you_mean(known, (*names, *_ALIASES))
        raise InvalidError(f"unknown language {name[:50]!r}", meant or f"use one of {', '.join(names)}")
    return frozenset(_FAMILIES.get(known, (known,)))
