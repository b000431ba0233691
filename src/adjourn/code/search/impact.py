"""Estimates which files a change may affect (spec: impact analyzer)."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from adjourn.code.deadline import Deadline
from adjourn.code.index import ripgrep
from adjourn.code.index.analysis import open_source
from adjourn.code.index.codebase import Codebase
from adjourn.code.index.outline import CLASSES, FUNCTIONS
from adjourn.code.search.references import find_references
from adjourn.errors import AdjournError, InvalidError

_SECONDS = 20.0
_MAX_TARGETS = 50
_MAX_NAMES = 20
_MARKUP = (".html", ".htm", ".css", ".scss", ".sass", ".less", ".md", ".markdown")
_NOT_MARKUP = (".blade.php", ".vue", ".jsx", ".tsx")
_STYLES = (".css", ".scss", ".sass", ".less")
_PAGES = (".html", ".htm")
_IDENTIFIERS, _RELATED = 5, 10
_KEYWORDS, _DOCUMENTS, _SAMPLES, _SAMPLE = 10, 20, 3, 80
_DOCUMENTS_END = (".md", ".markdown", ".rst", ".txt")
_IDENTIFIER = re.compile(r"[^\W\d]\w*")
_QUOTED = re.compile(r"[\"'`「]([^\"'`「」\n]{2,60})[\"'`」]")
_CAMEL = re.compile(r"\b[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+\b")
_SNAKE = re.compile(r"\b[a-z0-9]+(?:_[a-z0-9]+)+\b")
_PLAIN = re.compile(r"[^\W\d_]{4,}")
_CSS_NAME = re.compile(r"[.#]([A-Za-z_][\w-]{2,})")
_HTML_NAME = re.compile(r"(?:class|id)\s*=\s*[\"']([^\"']+)[\"']")
_SCHEMA = {
    "verified_files": [{"file": "path", "status": "will_modify | no_change_needed | not_affected", "reason": "why"}],
    "inferred_from_rules": ["files that the project's rules make you look at"],
}


def analyze_impact(
    codebase: Codebase, target_files: Sequence[str], change_description: str = "", *, deadline: Deadline | None = None
) -> dict[str, Any]:
    """Callers that must be verified before these files change, and files that should be."""
    if not target_files:
        raise InvalidError("target_files is empty", "name the files that will change")
    if len(target_files) > _MAX_TARGETS:
        raise InvalidError(
            f"too many target files: {len(target_files)} (limit {_MAX_TARGETS})",
            f"name at most {_MAX_TARGETS} at a time",
        )
    deadline = deadline or Deadline(_SECONDS)
    targets = [codebase.repository.existing(path) for path in target_files]
    if all(path.lower().endswith(_MARKUP) and not path.lower().endswith(_NOT_MARKUP) for path in targets):
        return _markup(codebase, targets, change_description, deadline)
    bases = [_pascal(path) for path in targets]
    names = {target: _outer_names(codebase, target) for target in targets}
    described = set(_IDENTIFIER.findall(change_description)) & {name for each in names.values() for name in each}
    if described:
        names = {target: [name for name in each if name in described] for target, each in names.items()}
    else:
        public = {target: [name for name in each if not name.startswith("_")] for target, each in names.items()}
        names = {target: public[target] or [base] for target, base in zip(targets, bases, strict=True)}
    callers, type_hints = _callers(codebase, names, deadline)
    named = _naming_matches(codebase, targets, bases, deadline)
    keywords = sorted(described)[:_KEYWORDS] or _keywords(change_description, bases)
    documents = _documents(codebase, keywords, deadline)
    must = sorted({use["file"] for use in callers} - set(targets))
    should = sorted(({*named} | {use["file"] for use in documents}) - set(targets) - set(must))
    impact = {
        "mode": "standard",
        "depth": "direct_only",
        "static_references": {"callers": callers, "type_hints": type_hints},
        "naming_convention_matches": named,
        "document_mentions": {"files": documents, "keywords_searched": keywords},
    }
    if described:
        impact["reason"] = f"only uses of what the description names: {', '.join(sorted(described))}"
    return _answer(codebase, impact, must, should)


def _answer(codebase: Codebase, impact: dict[str, Any], must: list[str], should: list[str]) -> dict[str, Any]:
    return {
        "impact_analysis": impact,
        "confirmation_required": {
            "must_verify": must,
            "should_verify": should,
            "llm_should_infer": "Files that these lists cannot show: settings, generated code, names made at run time.",
            "indirect_note": "Only direct uses are listed; what uses the callers is not.",
            "schema": _SCHEMA,
        },
        "index_state": codebase.state(),
    }


def _callers(
    codebase: Codebase, names: Mapping[str, list[str]], deadline: Deadline
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Uses of each target's names in the code of other files.

    One entry per file and symbol: its first and most certain use, and the `count` of them.
    """
    callers: dict[tuple[str, str], dict[str, Any]] = {}
    type_hints: dict[tuple[str, str], dict[str, Any]] = {}
    for of_target in names.values():
        for name in of_target[:_MAX_NAMES]:
            if deadline.expired():
                return [*callers.values()], [*type_hints.values()]
            answer = find_references(
                codebase, name, deadline=Deadline(deadline.remaining(), cancelled=deadline.expired)
            )
            for use in answer["references"]:
                if (
                    use["file"] in names
                    or use["match"] in {"comment", "string"}
                    or use["file"].endswith(_DOCUMENTS_END)
                ):
                    continue
                entry = {
                    "file": use["file"],
                    "line": use["line"],
                    "symbol": name,
                    "content": use["content"][:_SAMPLE],
                    "match": use["match"],
                    "count": 0,
                }
                entries = type_hints if use["kind"] == "type" else callers
                entries.setdefault((use["file"], name), entry)["count"] += 1
    return [*callers.values()], [*type_hints.values()]


def _outer_names(codebase: Codebase, path: str) -> list[str]:
    try:
        source = open_source(codebase.repository, path)
    except AdjournError:
        return []
    outer = [s.name for s in source.outline.symbols if not s.scope and s.kind in CLASSES | FUNCTIONS]
    return list(dict.fromkeys(outer))


def _naming_matches(codebase: Codebase, targets: list[str], bases: list[str], deadline: Deadline) -> list[str]:
    """Tests, factories and seeders of the targets, found by file name."""
    wanted = []
    for target, base in zip(targets, bases, strict=True):
        stem, name = re.escape(os.path.basename(target).split(".")[0]), re.escape(base)
        wanted.append(rf"{name}(Test|Tests|Spec|Factory|Seeder)\..*|test_{stem}(_.*)?\..*|{stem}[._](test|spec)\..*")
    pattern = re.compile(rf"(.*/)?(?:{'|'.join(wanted)})")
    paths = ripgrep.files(["--sort=path"], cwd=codebase.repository.root, deadline=deadline)
    return [path for path in paths if path not in targets and pattern.fullmatch(path)]


def _keywords(description: str, bases: list[str]) -> list[str]:
    quoted = _QUOTED.findall(description)
    words = [*quoted, *_CAMEL.findall(description), *_SNAKE.findall(description), *_PLAIN.findall(description), *bases]
    return list(dict.fromkeys(words))[:_KEYWORDS]


def _documents(codebase: Codebase, keywords: list[str], deadline: Deadline) -> list[dict[str, Any]]:
    """Documents that mention the keywords, those with the most mentions first."""
    if not keywords:
        return []
    arguments = _mention_arguments(keywords, *(ending[1:] for ending in _DOCUMENTS_END))
    counts: Counter[str] = Counter()
    samples: dict[str, list[dict[str, Any]]] = {}
    for record in ripgrep.records(arguments, cwd=codebase.repository.root, deadline=deadline, enough=lambda: False):
        if record["type"] == "match" and "lines" in record["data"]:
            data = record["data"]
            file = ripgrep.path_of(data)
            counts[file] += 1
            if len(samples.setdefault(file, [])) < _SAMPLES:
                samples[file].append(
                    {"line": data["line_number"], "content": data["lines"].get("text", "").strip()[:_SAMPLE]}
                )
    top = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_DOCUMENTS]
    return [{"file": file, "count": count, "samples": samples[file]} for file, count in top]


def _mention_arguments(words: list[str], *endings: str) -> list[str]:
    """Arguments of rg: any of the words, in files with these endings. Unlike a glob, a type respects ignore files."""
    files = ["--type-add", f"wanted:*.{{{','.join(endings)}}}", "--type", "wanted"]
    return ["--fixed-strings", *files, *(part for word in words for part in ("-e", word))]


def _markup(codebase: Codebase, targets: list[str], description: str, deadline: Deadline) -> dict[str, Any]:
    """The impact of markup: styles affect pages that use their names; pages affect styles and scripts that use theirs."""
    related: list[str] = []
    for target in targets:
        endings = ("html", "htm") if target.lower().endswith(_STYLES) else ("css", "scss", "sass", "less", "js")
        names = _identifiers(codebase, target)
        if names:
            paths = ripgrep.files_with(
                _mention_arguments(names, *endings), cwd=codebase.repository.root, deadline=deadline
            )
            related += sorted(set(paths) - set(targets))[:_RELATED]
    keywords = _keywords(description, [])
    documents = _documents(codebase, keywords, deadline)
    impact = {
        "mode": "relaxed_markup",
        "depth": "direct_only",
        "static_references": {"callers": [], "type_hints": []},
        "naming_convention_matches": list(dict.fromkeys(related)),
        "document_mentions": {"files": documents, "keywords_searched": keywords},
        "reason": "all targets are markup or styles",
        "inference_hint": "Check the pages that use the changed names.",
    }
    should = sorted(({*related} | {use["file"] for use in documents}) - set(targets))
    return _answer(codebase, impact, [], should)


def _identifiers(codebase: Codebase, path: str) -> list[str]:
    try:
        text = open_source(codebase.repository, path).data.decode("utf-8", "replace")
    except AdjournError:
        return []
    if path.lower().endswith(_STYLES):
        matches = _CSS_NAME.findall(text)
    else:
        matches = (
            [name for names in _HTML_NAME.findall(text) for name in names.split()]
            if path.lower().endswith(_PAGES)
            else []
        )
    return list(dict.fromkeys(matches))[:_IDENTIFIERS]


def _pascal(path: str) -> str:
    stem = os.path.basename(path).split(".")[0]
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[_\-\s]+", stem))
