"""Print what adjourn says to people: `python tests/messages.py [PACKAGE ...]`, to be read from top to bottom.

Each package lists its errors, with their remedies, the texts of its commands and options, what it prints itself, and its other texts
(findings, reasons of refusals, hand-overs, prompts); then come the diagnostics of the contract language. Values are shown as
{placeholders}.

Owns: finding the texts in the source. Must never: judge them.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from house import Module, Source

REPOSITORY = Path(__file__).parents[1]
PRINTS = {"complain", "echo", "print", "say", "speak", "tell", "warn"}
"""Functions whose first arguments a person reads."""
HELP = {"epilog", "help", "metavar", "short_help", "summary"}
"""Keywords of commands and options."""
COMMANDS = {"command", "group"}
ENTRIES = {"CommandEntry", "Option"}
"""Rows of the tables of commands and options."""
WORD = re.compile(r"(?<![\w{.])[a-z]{2,}(?![\w}(])")
NO_PROSE = re.compile(r"\(\?|\\[bs]|^ *(?:SELECT|INSERT|UPDATE|DELETE|CREATE|PRAGMA|CAST)\b")
"""Regular expressions and SQL."""


def text_of(node: ast.expr) -> str:
    """A text as it is printed, with {placeholders}; empty if the expression is no text."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            f"{{{ast.unparse(part.value)}}}" if isinstance(part, ast.FormattedValue) else text_of(part)
            for part in node.values
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return "".join(text_of(side) or f"{{{ast.unparse(side)}}}" for side in (node.left, node.right))
    if isinstance(node, ast.IfExp):
        sides = [text for side in (node.body, node.orelse) if (text := text_of(side))]
        return " | ".join(sides)
    return ""


def called(node: ast.Call) -> str:
    """The last name of what is called."""
    return ast.unparse(node.func).rpartition(".")[2]


def messages(module: Module) -> Iterator[tuple[int, str, list[str]]]:
    """(line, kind, texts) of what a module says, in its order."""
    constants = {
        target.id: node.value
        for node in module.tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }

    def shown(node: ast.expr) -> str:
        return text_of(constants.get(node.id, node) if isinstance(node, ast.Name) else node)

    yield from summaries(constants.get("_TABLE"))
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call):
            name = called(node)
            words = {keyword.arg: shown(keyword.value) for keyword in node.keywords}
            if name.endswith("Error"):
                texts = [*map(shown, node.args), words.get("message", ""), words.get("remedy", "")]
                kind = name
            elif name in PRINTS:
                texts, kind = [*map(shown, node.args), *words.values()], name
            elif name in ENTRIES:
                texts, kind = [*map(shown, node.args), *words.values()], "help"
            else:
                texts, kind = [words[word] for word in sorted(HELP & words.keys())], "help"
            if texts := [text for text in texts if " " in text]:
                yield node.lineno, kind, texts
        elif isinstance(node, ast.FunctionDef) and any(
            isinstance(mark, ast.Call) and called(mark) in COMMANDS for mark in node.decorator_list
        ):
            yield node.lineno, f"help of {node.name}", [ast.get_docstring(node) or ""]


def others(module: Module, listed: str) -> Iterator[tuple[int, str, list[str]]]:
    """The same of the texts of three words or more that are not `listed`: what is put together elsewhere, such as findings."""
    statements = [node.value for node in ast.walk(module.tree) if isinstance(node, ast.Expr)]  # docstrings
    parts = [
        part
        for node in ast.walk(module.tree)
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
        if part is not node
    ]
    skipped = {id(node) for node in (*statements, *parts)}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in skipped:
            text = text_of(node)
            if text.count(" ") > 1 and len(WORD.findall(text)) > 1 and text not in listed and not NO_PROSE.search(text):
                yield node.lineno, "text", [text]


def summaries(table: ast.expr | None) -> Iterator[tuple[int, str, list[str]]]:
    """The same of a table of commands: title → name → (target, summary)."""
    for part in table.values if isinstance(table, ast.Dict) else []:
        for row in part.values if isinstance(part, ast.Dict) else []:
            if isinstance(row, ast.Tuple):
                yield row.lineno, "help", [text_of(row.elts[-1])]


def main() -> None:
    """Print the messages of some packages, or of all of them and the diagnostics."""
    source, packages = Source(REPOSITORY / "src"), sys.argv[1:]
    package = ""
    for module in source.modules.values():
        found = list(messages(module))
        found = sorted([*found, *others(module, "\n".join(text for _, _, texts in found for text in texts))])
        owner = ".".join(module.name.split(".")[1:2]) or "adjourn"
        if not found or (packages and owner not in packages):
            continue
        if owner != package:
            print(f"\n# {owner}")
            package = owner
        for line, kind, texts in found:
            print(f"\n{module.path.relative_to(REPOSITORY)}:{line} {kind}")
            for text in texts:
                print("\n".join(f"    {row}" for row in text.splitlines()))
    if packages:
        return
    from adjourn.aex import DIAGNOSTICS  # the only texts that are taken from a table, not from the source

    print("\n# diagnostics")
    for code, entry in sorted(DIAGNOSTICS.items()):
        print(f"\n{code}")
        print("\n".join(f"    {value}" for value in vars_of(entry) if value != code))


def vars_of(entry: object) -> list[str]:
    """The texts of a row of the table of diagnostics."""
    return [
        text
        for name in getattr(entry, "__struct_fields__", ())
        if isinstance(text := getattr(entry, name), str) and text
    ]


if __name__ == "__main__":
    main()
