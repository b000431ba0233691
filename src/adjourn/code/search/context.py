"""`context.yml`: summaries of the project's documents and rules, renewed when those change.

Owns: finding the documents, `needed` and `update_context`. Must never: write a summary; the client does.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from adjourn.code.model.repository import FOLDER, CodeRepository
from adjourn.code.model.yaml_text import dump_yaml, load_yaml
from adjourn.errors import AdjournError, InvalidError
from adjourn.host import locked, make_folder, read_file, write_file

FILE = "context.yml"
_DOCUMENT_FOLDERS = ("docs/アーキテクチャ", "docs/architecture", "docs/design", "docs")
_RULES = (".claude/CLAUDE.md", "CLAUDE.md", ".cursor/rules.md", "CONTRIBUTING.md")
_MAX_BYTES = 1 << 20
_MAX_DOCUMENTS = 100
_MAX_SUMMARY = 20_000
_PROMPTS = {
    "design_doc": "Summarise this document for someone about to change the code: what it decides, and what must not be broken.",
    "project_rules": "List the rules of this file as DO and DON'T, each in one line, with its own words where they matter.",
}


def load(repository: CodeRepository) -> dict[str, Any]:
    """The content of `context.yml`; `{}` without one. Raises `InvalidError` if it is not a YAML mapping."""
    path = os.path.join(repository.root, FOLDER, FILE)
    if not os.path.lexists(path):
        return {}
    data = read_file(path, _MAX_BYTES, repository.root)
    try:
        found = load_yaml(data)
    except InvalidError as error:
        raise InvalidError(f"{path} is not YAML", "fix it, or delete it: adjourn creates it again") from error
    if found is not None and not isinstance(found, dict):
        raise InvalidError(f"{path} is not a mapping", "fix it, or delete it: adjourn creates it again")
    return found or {}


def initialise(repository: CodeRepository) -> dict[str, Any] | None:
    """Create `context.yml` from the repository's documents; None if it exists."""
    if os.path.lexists(os.path.join(repository.root, FOLDER, FILE)):
        return None
    folder, rules = _documents_folder(repository), _rules_file(repository)
    made: dict[str, Any] = {
        "essential_docs": {"source": folder, "summaries": []},
        "project_rules": {"source": rules, "summary": "", "content_hash": None},
        "document_search": {"include_patterns": ["**/*.md"], "exclude_patterns": ["**/node_modules/**"]},
        "doc_research": {
            "enabled": True,
            "docs_path": _research_paths(repository),
            "default_prompts": ["default.md"],
        },
        "last_synced": None,
    }
    _save(repository, made)
    return made


def needed(repository: CodeRepository) -> dict[str, Any] | None:
    """The documents that are new or changed since their summary; None if there are none."""
    context = load(repository)
    summaries = {one.get("path"): one for one in _summaries(context)}
    documents = []
    for path in _documents(repository, context):
        digest = _hash(repository, path)
        if digest and summaries.get(path, {}).get("content_hash") != digest:
            documents.append({"type": "design_doc", "path": path, "file": os.path.basename(path)})
    rules = _mapping(context, "project_rules")
    source = rules.get("source")
    if (
        isinstance(source, str)
        and (digest := _hash(repository, source))
        and rules.get("content_hash") != digest
    ):
        documents.append({"type": "project_rules", "path": source, "file": os.path.basename(source)})
    if not documents:
        return None
    return {
        "documents": documents,
        "prompts": dict(_PROMPTS),
        "instruction": "Read each document, summarize it with its prompt, and submit the summaries with update_context.",
    }


def update_context(
    repository: CodeRepository,
    design_doc_summaries: Sequence[Mapping[str, str]] = (),
    project_rules_summary: str | None = None,
    *,
    now: datetime,
) -> dict[str, Any]:
    """Store summaries with the hash of their documents, under a lock. Notes that a user added are kept."""
    with locked(make_folder(repository.root, FOLDER)):
        return _updated(repository, design_doc_summaries, project_rules_summary, now)


def _updated(
    repository: CodeRepository,
    design_doc_summaries: Sequence[Mapping[str, str]],
    project_rules_summary: str | None,
    now: datetime,
) -> dict[str, Any]:
    initialise(repository)
    context = load(repository)
    essential = context["essential_docs"] = _mapping(context, "essential_docs")
    kept = {one.get("path"): one for one in _summaries(context)}
    for one in design_doc_summaries:
        path, summary = one.get("path"), one.get("summary")
        if not isinstance(path, str) or not isinstance(summary, str) or not summary.strip():
            raise InvalidError(
                "a summary lacks its path or text", "give the path and summary of each document"
            )
        relative = repository.existing(path)
        entry = {
            "file": one.get("file") or os.path.basename(relative),
            "path": relative,
            "summary": summary[:_MAX_SUMMARY],
            "content_hash": _hash(repository, relative),
        }
        notes = kept.get(relative, {}).get("extra_notes")
        kept[relative] = {**entry, "extra_notes": notes} if notes else entry
    essential["summaries"] = list(kept.values())
    if project_rules_summary:
        rules = context["project_rules"] = _mapping(context, "project_rules")
        rules["summary"] = project_rules_summary[:_MAX_SUMMARY]
        if isinstance(rules.get("source"), str):
            rules["content_hash"] = _hash(repository, rules["source"])
    context["last_synced"] = now.isoformat()
    _save(repository, context)
    count = len(design_doc_summaries)
    return {
        "success": True,
        "updated": {"design_docs": count, "project_rules": bool(project_rules_summary)},
        "message": f"{count} design documents and {'the' if project_rules_summary else 'no'} project rules were kept",
    }


def _save(repository: CodeRepository, context: dict[str, Any]) -> None:
    text = dump_yaml(context)
    write_file(make_folder(repository.root, FOLDER), FILE, text.encode("utf-8", "replace"))


def _mapping(context: dict[str, Any], key: str) -> dict[str, Any]:
    found = context.get(key)
    return found if isinstance(found, dict) else {}


def _summaries(context: dict[str, Any]) -> list[dict[str, Any]]:
    found = _mapping(context, "essential_docs").get("summaries")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _documents_folder(repository: CodeRepository) -> str | None:
    return next((folder for folder in _DOCUMENT_FOLDERS if _markdown_in(repository, folder)), None)


def _rules_file(repository: CodeRepository) -> str | None:
    return next((path for path in _RULES if os.path.isfile(repository.absolute(path))), None)


def _research_paths(repository: CodeRepository) -> list[str]:
    if _markdown_in(repository, "docs"):
        return ["docs/"]
    designs = sorted(
        name for name in os.listdir(repository.root) if name.startswith("DESIGN") and name.endswith(".md")
    )
    return designs or (["README.md"] if os.path.isfile(repository.absolute("README.md")) else [])


def _markdown_in(repository: CodeRepository, folder: str) -> list[str]:
    try:
        relative = repository.relative(folder)
        names = sorted(os.listdir(repository.absolute(relative)))
    except (OSError, AdjournError):
        return []
    return [f"{relative}/{name}" for name in names if name.endswith((".md", ".markdown"))]


def _documents(repository: CodeRepository, context: dict[str, Any]) -> list[str]:
    source = _mapping(context, "essential_docs").get("source")
    return _markdown_in(repository, source)[:_MAX_DOCUMENTS] if isinstance(source, str) else []


def _hash(repository: CodeRepository, path: str) -> str | None:
    try:
        return hashlib.sha256(repository.read(path, _MAX_BYTES)).hexdigest()[:16]
    except AdjournError:
        return None
