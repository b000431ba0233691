"""The folder editors/vscode, as VS Code reads it: its own tokeniser, its own packer.

What a document's lines are made of is kept in editors/*.tokens beside the documents.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from adjourn import __version__
from adjourn.aex import examine
from adjourn.aex.ast import known_type
from adjourn.aex.clauses import OPERATORS, UNITS
from adjourn.aex.tree import DECLARATIONS, STEPS, build
from support import tools
from support.missing import is_missing
from support.strategies import contract_lines

ROOT = Path(__file__).resolve().parents[2]
EXTENSION = ROOT / "editors" / "vscode"
GRAMMAR = EXTENSION / "syntaxes" / "aex.tmLanguage.json"
HERE = Path(__file__).parent / "editors"
DOCUMENTS = sorted(HERE.glob("*.aex"))
TYPES = ("str", "num", "int", "bool", "file", "url", "json", "list[str]", "file?")

Line = list[tuple[str, str]]
"""The pieces of a line that are not blank, each with its innermost scope."""
Tokenise = Callable[[Sequence[str]], list[list[Line]]]


def needed(command: list[str] | None, name: str) -> list[str]:
    """The command. In CI a tool that is not installed is a failure."""
    if command is None:
        missing = f"{name} is not installed: run `python tests/support/tools.py`"
        is_missing(missing)
    return command


@pytest.fixture(scope="module")
def tokenise() -> Tokenise:
    modules = tools.TOOLS / "editors" / "node_modules"
    runtime = tools.node()
    there = runtime is not None and (modules / "vscode-textmate").exists()
    command = needed([str(runtime)] if there else None, "vscode-textmate")

    def run(texts: Sequence[str]) -> list[list[Line]]:
        done = subprocess.run(
            [*command, HERE / "tokens.cjs", modules, GRAMMAR],
            input=json.dumps(texts), capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return [
            [[(piece.strip(), scope) for piece, scope in line if piece.strip()] for line in text]
            for text in json.loads(done.stdout)
        ]

    return run


def shown(text: list[Line]) -> str:
    return "".join(f"{number}: {piece}  {scope}\n" for number, line in enumerate(text, 1) for piece, scope in line)


def is_keyword(line: Line) -> bool:
    return bool(line) and line[0][1].startswith("keyword.")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_a_document_is_made_of_the_pieces_written_down(document: Path, tokenise: Tokenise, tmp_path: Path) -> None:
    """Each piece of each statement has the scope that it was seen to need."""
    written = document.with_suffix(".tokens")
    found = tmp_path / written.name
    found.write_text(shown(tokenise([document.read_text()])[0]))
    expected = written.read_text() if written.exists() else ""
    assert found.read_text() == expected, f"if that is meant: cp {found} {written.relative_to(ROOT)}"


def test_the_forms_of_version_1_are_those_of_the_parser() -> None:
    """What the editor is shown as version 1 is version 1, but for the last two lines."""
    text = (HERE / "version-1.aex").read_text()
    assert {found.span.line for found in examine(text).findings} == {18, 19}
    assert len(text.splitlines()) == 19


def test_every_keyword_of_the_parser_is_one_in_the_editor(tokenise: Tokenise) -> None:
    """A statement that the parser knows is highlighted, and a word behind which none begins is not; nothing else is."""
    keywords = sorted(DECLARATIONS | STEPS)
    highlighted = re.findall(r'"\^\\\\s\*\((?:\?:\()?([a-z|]+)\)(?: \|\(([a-z]+))?', GRAMMAR.read_text())
    assert sorted(word for words in highlighted for word in "|".join(words).split("|") if word) == keywords
    texts = [f"{word} {'before ' * (word == 'confirm')}x" for word in keywords]
    for word, [line] in zip(keywords, tokenise(texts), strict=True):
        assert line[0][0] == word
        assert is_keyword(line), word
    for [line] in tokenise([word + rest for word in keywords for rest in ("x y", "\ty", ":")]):
        assert not is_keyword(line), line


def test_every_word_within_a_statement_is_one_in_the_editor(tokenise: Tokenise) -> None:
    """Operators, units and types are those of the parser."""
    operators = tokenise([f"allow x where a {operator} 1" for operator in OPERATORS])
    assert [line[4][1].startswith("keyword.operator") for [line] in operators] == [True] * len(OPERATORS)
    units = tokenise([f"limit x 1 per {unit}" for unit in UNITS])
    assert [line[-1] for [line] in units] == [(unit, "constant.language.unit") for unit in UNITS]
    assert all(map(known_type, TYPES))
    for [line] in tokenise([f"need x: {name}" for name in TYPES]):
        assert line[3][1] == "support.type"
    assert tokenise(["need x: string"])[0][0][3:] == [("string", "source")]


@given(st.lists(contract_lines, min_size=100, max_size=200))
@settings(max_examples=3, deadline=None, phases=[Phase.generate])  # to shrink is to start Node for hours
def test_a_line_is_highlighted_where_the_parser_sees_a_statement(tokenise: Tokenise, statements: list[str]) -> None:
    """On lines of every sort, the editor's first word is a keyword exactly where the parser's is."""
    first = [statement.partition("\n")[0].replace("\ufeff", "").rstrip() for statement in statements]
    known = [build(text).nodes[0].kind not in ("unknown", "blank", "comment") for text in first]
    seen = [is_keyword(line) for [line] in tokenise(first)]
    assert [text for text, one, other in zip(first, known, seen, strict=True) if one != other] == []


def test_the_extension_packs_with_the_standard_tool(tmp_path: Path) -> None:
    """The packer takes the folder without a warning, and the package holds what the manifest names."""
    vsce = needed(tools.npm_program("@vscode/vsce", "editors"), "@vscode/vsce")
    folder, package = tmp_path / "vscode", tmp_path / "aex.vsix"
    shutil.copytree(EXTENSION, folder)
    done = subprocess.run(
        [*vsce, "package", "--allow-missing-repository", "--out", package],
        cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "WARN" not in done.stdout + done.stderr
    with zipfile.ZipFile(package) as packed:
        assert {name.removeprefix("extension/") for name in packed.namelist() if "extension/" in name} == {
            "package.json", "readme.md", "changelog.md", "LICENSE.txt",
            "language-configuration.json", "snippets.json", "syntaxes/aex.tmLanguage.json",
        }  # fmt: skip
        assert json.loads(packed.read("extension/syntaxes/aex.tmLanguage.json")) == json.loads(GRAMMAR.read_text())


def manifest() -> Any:
    return json.loads((EXTENSION / "package.json").read_text())


def test_the_manifest_names_files_that_are_there() -> None:
    """The extension has the version and the licence of the project, and every file that it contributes."""
    told = manifest()
    assert told["version"] == __version__
    assert (EXTENSION / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    [language], [grammar], [snippets] = (told["contributes"][what] for what in ("languages", "grammars", "snippets"))
    for path in (language["configuration"], grammar["path"], snippets["path"]):
        json.loads((EXTENSION / path).read_text())
    assert grammar["scopeName"] == json.loads(GRAMMAR.read_text())["scopeName"]
    assert f"adjourn-aex-{__version__}.vsix" in (EXTENSION / "README.md").read_text()


def snippets() -> dict[str, str]:
    """What each snippet writes when nothing is filled in, by its prefix."""
    told = json.loads((EXTENSION / "snippets.json").read_text()).values()
    return {one["prefix"]: filled("\n".join(one["body"])) for one in told}


def filled(body: str) -> str:
    body = re.sub(r"\$\{\d+\|([^,|]*)[^|]*\|\}", r"\1", body)
    body = re.sub(r"\$\{\d+:([^}]*)\}", r"\1", body)
    return re.sub(r"\$\d+", "", body)


@pytest.mark.parametrize("prefix", snippets())
def test_a_snippet_is_valid_as_it_comes(prefix: str) -> None:
    """A snippet is a valid document, or a statement that is valid in one."""
    text = snippets()[prefix]
    if prefix in ("where", "limit", "once", "checkpoint"):
        text = f'policy p v1\ngoal "g"\nallow network.*, payments.*, deploy.*\nbudget calls=9\n{text}\n'
    elif not prefix.startswith(("policy", "task")):
        text = f'task t v0\ngoal "g"\nuse file.*\nneed path: str\n{text}\nreturn path\n'
    assert examine(text, prefix).findings == []
    assert f"`{prefix}`" in (EXTENSION / "README.md").read_text()
