"""Definitions as the index finds them, beside what jedi says is meant.

A sample of names as they are used in the standard library; jedi follows each to where it is defined, and the index is asked for the
bare name. What is local to a function is nobody's question to a repository, and what is made in C has no place in it.
"""

from __future__ import annotations

import io
import keyword
import os
import random
import symtable
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from sizes import Sizes
from tables import Table

from adjourn.code.index.codebase import Codebase
from adjourn.code.search.definitions import find_definitions

ASKED = ("function or method", "class", "variable of a module", "field of a class")
_ASSIGNED = ASKED[2:]
_OUTSIDE, _MODULE, _LOCAL, _UNKNOWN = (
    "made in C, or typed in jedi's own stubs", "a module", "a name local to a function", "jedi does not know",
)  # fmt: skip
_SHOWN = 8


class _Use(NamedTuple):
    path: Path
    name: str
    line: int
    column: int


def table(sizes: Sizes, codebase: Codebase) -> Table:
    """One row for each kind of thing that a use can mean."""
    root = codebase.repository.root
    counts: Counter[str] = Counter()
    found: Counter[str] = Counter()
    first: Counter[str] = Counter()
    missed = []
    for use, kind, name, places in _resolved(root, sizes.code_symbols):
        counts[kind] += 1
        if kind not in ASKED:
            continue
        files = {file for file, _ in places}
        answer = find_definitions(codebase, name, exact_match=True, max_results=5_000)["definitions"]
        given = [(one["file"], one["line"]) for one in answer]
        # A variable has many assignments, of which jedi gives one or some and the index the first of each file.
        right = [place in places or (kind in _ASSIGNED and place[0] in files) for place in given]
        found[kind] += any(right)
        first[kind] += right[:1] == [True]
        if not any(right):
            missed.append(f"`{name}` ({os.path.relpath(use.path, root)}:{use.line})")
    result = Table(
        "Definitions beside jedi",
        ["what the use means", "uses", "of all, %", "found, %", "first of the answers, %"],
        f"Names used in the standard library, drawn until {sizes.code_symbols} mean something that the index should have, each followed by "
        "jedi (`goto`, imports followed) and asked for by its bare name (`find_definitions`, `exact_match`). Found: one of jedi's places is "
        "among the answers; for a variable or field, which is assigned in many, one in the same file. First: it is the first of them, though nothing said in which file the name was used."
        + (f" Missed: {', '.join(missed[:_SHOWN])}." if missed else ""),
    )
    asked = sum(counts[kind] for kind in ASKED)
    every = max(sum(counts.values()), 1)
    for kind in ASKED:
        if counts[kind]:
            share = 100 / counts[kind]
            result.add(kind, counts[kind], counts[kind] * 100 / every, found[kind] * share, first[kind] * share)
    share = 100 / max(asked, 1)
    result.add("**all of these**", asked, asked * 100 / every, found.total() * share, first.total() * share)
    for kind in (_OUTSIDE, _MODULE, _LOCAL, _UNKNOWN):
        if counts[kind]:
            result.add(kind, counts[kind], counts[kind] * 100 / every, None, None)
    return result


def _resolved(root: str, wanted: int) -> Iterator[tuple[_Use, str, str, set[tuple[str, int]]]]:
    """Uses with what jedi says of each: its kind, its own name, its places as (file, line)."""
    import jedi  # a peer

    folder = Path(root, "stdlib")
    uses = [use for path in sorted(folder.glob("*.py")) for use in _uses(path)]
    random.Random(1).shuffle(uses)
    project = jedi.Project(folder, sys_path=[str(folder)])
    scripts: dict[Path, Any] = {}
    for use in uses:
        script = scripts.setdefault(use.path, jedi.Script(path=use.path, project=project))
        names = script.goto(use.line, use.column, follow_imports=True)
        inside = [name for name in names if str(name.module_path).startswith(f"{root}{os.sep}")]
        if not inside:
            yield use, _OUTSIDE if names else _UNKNOWN, use.name, set()
            continue
        kind = _kind(inside[0])
        yield (
            use, kind, inside[0].name,
            {(os.path.relpath(name.module_path, root), name.line) for name in inside},
        )  # fmt: skip
        wanted -= kind in ASKED
        if not wanted:
            return


def _uses(path: Path) -> Iterator[_Use]:
    """Names that are not bound where they stand, attributes included, unless only a function can know them."""
    text = path.read_text(encoding="utf-8", errors="replace")
    known = set(symtable.symtable(text, path.name, "exec").get_identifiers())
    before = ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        seen = before == "." or (token.string in known and before not in {"def", "class"})
        if seen and token.type == tokenize.NAME and not keyword.iskeyword(token.string):
            yield _Use(path, token.string, *token.start)
        before = token.string


def _kind(name: Any) -> str:
    if name.type in {"function", "property"}:
        return ASKED[0]
    if name.type in {"class", "module"}:
        return ASKED[1] if name.type == "class" else _MODULE
    line = name.get_line_code().lstrip()
    if name.type == "param" or name.parent().type not in {"module", "class"}:
        return ASKED[3] if name.type != "param" and f"self.{name.name}" in line else _LOCAL
    return ASKED[2] if name.parent().type == "module" else ASKED[3]
