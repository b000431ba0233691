"""What a project knows of itself: summaries of its documents (`context.yml`), and agreements on words.

The client writes the summaries. An agreement says which symbols a user's words meant in an earlier session.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import ModuleType
from typing import Any

import msgspec

from adjourn.code.deadline import Deadline
from adjourn.code.index.analysis import text_words
from adjourn.code.index.codebase import Codebase
from adjourn.code.repository import FOLDER, CodeRepository
from adjourn.errors import AdjournError, InvalidError, NotFoundError, StoreError
from adjourn.host.workspace import locked, make_folder, read_file, write_file

FILE = "context.yml"
_DOCUMENT_FOLDERS = ("docs/アーキテクチャ", "docs/architecture", "docs/design", "docs")
_RULES = (".claude/CLAUDE.md", "CLAUDE.md", ".cursor/rules.md", "CONTRIBUTING.md")
_MAX_BYTES = 1 << 20
_MAX_DOCUMENTS = 100
_MAX_NAMED = 6
"""Documents that one reply asks for: the next session asks for the others."""
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
        document = load_yaml(data)
    except InvalidError as error:
        raise InvalidError(f"{path} is not YAML", "fix it, or delete it: adjourn creates it again") from error
    if document is not None and not isinstance(document, dict):
        raise InvalidError(f"{path} is not a mapping", "fix it, or delete it: adjourn creates it again")
    return document or {}


def initialise(repository: CodeRepository) -> dict[str, Any] | None:
    """Create `context.yml` from the repository's documents; None if it exists."""
    if os.path.lexists(os.path.join(repository.root, FOLDER, FILE)):
        return None
    folder = next((folder for folder in _DOCUMENT_FOLDERS if _markdown_in(repository, folder)), None)
    rules = next((path for path in _RULES if os.path.isfile(repository.absolute(path))), None)
    document: dict[str, Any] = {
        "essential_docs": {"source": folder, "summaries": []},
        "project_rules": {"source": rules, "summary": "", "content_hash": None},
        "document_search": {"include_patterns": ["**/*.md"], "exclude_patterns": ["**/node_modules/**"]},
        "doc_research": {"enabled": True, "docs_path": _research_paths(repository), "default_prompts": ["default.md"]},
        "last_synced": None,
    }
    _save(repository, document)
    return document


def needed(repository: CodeRepository) -> dict[str, Any] | None:
    """The documents that are new or changed since their summary; None if there are none."""
    context = load(repository)
    summaries = {summary.get("path"): summary for summary in _summaries(context)}
    folder = _mapping(context, "essential_docs").get("source")
    documents = []
    for path in _markdown_in(repository, folder)[:_MAX_DOCUMENTS] if isinstance(folder, str) else ():
        digest = _hash(repository, path)
        if digest and summaries.get(path, {}).get("content_hash") != digest:
            documents.append({"type": "design_doc", "path": path})
    rules = _mapping(context, "project_rules")
    source = rules.get("source")
    if isinstance(source, str) and (digest := _hash(repository, source)) and rules.get("content_hash") != digest:
        documents.append({"type": "project_rules", "path": source})
    if not documents:
        return None
    more = {"more": len(documents) - _MAX_NAMED} if len(documents) > _MAX_NAMED else {}
    return {
        "documents": documents[-_MAX_NAMED:],
        **more,
        "prompts": {kind: _PROMPTS[kind] for kind in sorted({one["type"] for one in documents})},
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
        return _update(repository, design_doc_summaries, project_rules_summary, now)


def _update(
    repository: CodeRepository,
    design_doc_summaries: Sequence[Mapping[str, str]],
    project_rules_summary: str | None,
    now: datetime,
) -> dict[str, Any]:
    initialise(repository)
    context = load(repository)
    essential = context["essential_docs"] = _mapping(context, "essential_docs")
    by_path = {given_summary.get("path"): given_summary for given_summary in _summaries(context)}
    for given_summary in design_doc_summaries:
        path, summary = given_summary.get("path"), given_summary.get("summary")
        if not isinstance(path, str) or not isinstance(summary, str) or not summary.strip():
            raise InvalidError("a summary lacks its path or text", "give the path and summary of each document")
        relative = repository.existing(path)
        entry = {
            "file": given_summary.get("file") or os.path.basename(relative),
            "path": relative,
            "summary": summary[:_MAX_SUMMARY],
            "content_hash": _hash(repository, relative),
        }
        notes = by_path.get(relative, {}).get("extra_notes")
        by_path[relative] = {**entry, "extra_notes": notes} if notes else entry
    essential["summaries"] = list(by_path.values())
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
    text = dump_yaml(context).encode("utf-8", "replace")
    write_file(make_folder(repository.root, FOLDER), FILE, text)


def _mapping(context: dict[str, Any], key: str) -> dict[str, Any]:
    value = context.get(key)
    return value if isinstance(value, dict) else {}


def _summaries(context: dict[str, Any]) -> list[dict[str, Any]]:
    listed = _mapping(context, "essential_docs").get("summaries")
    return [summary for summary in listed if isinstance(summary, dict)] if isinstance(listed, list) else []


def _research_paths(repository: CodeRepository) -> list[str]:
    if _markdown_in(repository, "docs"):
        return ["docs/"]
    designs = sorted(name for name in os.listdir(repository.root) if name.startswith("DESIGN") and name.endswith(".md"))
    return designs or (["README.md"] if os.path.isfile(repository.absolute("README.md")) else [])


def _markdown_in(repository: CodeRepository, folder: str) -> list[str]:
    try:
        relative = repository.relative(folder)
        names = sorted(os.listdir(repository.absolute(relative)))
    except (OSError, AdjournError):
        return []
    return [f"{relative}/{name}" for name in names if name.endswith((".md", ".markdown"))]


def _hash(repository: CodeRepository, path: str) -> str | None:
    try:
        return hashlib.sha256(repository.read(path, _MAX_BYTES)).hexdigest()[:16]
    except AdjournError:
        return None


# --- YAML, whose package comes with the extra `code`


def load_yaml(text: bytes | str) -> Any:
    """The value of a YAML document. Raises `InvalidError`."""
    yaml = _package()
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidError(f"not YAML: {error}", "fix the syntax") from error


def dump_yaml(value: Any) -> str:
    """A value as a YAML document, its keys in their order."""
    text: str = _package().safe_dump(value, allow_unicode=True, sort_keys=False)
    return text


def _package() -> ModuleType:
    import yaml  # an extra

    return yaml


# --- agreements

PREFIX = "agreement:"
_FOLDER = f"{FOLDER}/agreements"
_MAX_FILES = 5_000
_MAX_AGREEMENT_BYTES = 64 << 10
_SHOWN = 500
_ENDING = ".md"


class Agreement(msgspec.Struct, frozen=True):
    """A term and the symbols that it means."""

    nl_term: str
    symbols: list[str]
    session_id: str = ""
    intent: str = ""
    learned_at: str = ""
    similarity: float = 1.0
    doc_type: str = "agreement"


def write_agreement(
    repository: CodeRepository,
    agreement: Agreement,
    *,
    evidence: str,
    related_files: Sequence[str] = (),
    frame: dict[str, str] | None = None,
) -> str:
    """Write the agreement of a finished session. Returns its path, relative to the repository.

    An earlier agreement on the same words is overwritten.
    """
    term = " ".join(agreement.nl_term.split())
    head = msgspec.structs.replace(agreement, nl_term=term, symbols=list(dict.fromkeys(agreement.symbols)))
    body = [
        f"# {term}", "", "## Evidence", "", evidence.strip() or "None given.", "",
        "## Related files", "", *(f"- {path}" for path in related_files), "",
        "## Frame", "", *(f"- {slot}: {' '.join(str(value).split())}" for slot, value in (frame or {}).items()), "",
    ]  # fmt: skip
    front = dump_yaml(msgspec.to_builtins(head))
    name = f"{'-'.join(text_words(term))[:60] or 'agreement'}-{hashlib.sha256(term.casefold().encode()).hexdigest()[:8]}{_ENDING}"
    folder = make_folder(repository.home, _FOLDER)
    write_file(folder, name, f"---\n{front}---\n{chr(10).join(body)}".encode("utf-8", "replace"))
    return f"{_FOLDER}/{name}"


def read_agreements(repository: CodeRepository) -> dict[str, tuple[Agreement, str]]:
    """Agreements by file name, with their text. Other files are skipped."""
    folder = os.path.join(repository.home, _FOLDER)
    if os.path.islink(folder):
        return {}
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(_ENDING))[:_MAX_FILES]
    except OSError:
        return {}
    agreements = {}
    for name in names:
        if (agreement := _read(folder, name, repository.home)) is not None:
            agreements[name] = agreement
    return agreements


def search_agreements(repository: CodeRepository, query: str, target_feature: str | None) -> list[dict[str, Any]]:
    """Agreements that share words with the query, best first; the score is 1.0 for the same words."""
    wanted = [
        set(text_words(text))
        for text in (query, target_feature or "", f"{query} {target_feature or ''}")
        if text_words(text)
    ]
    hits = []
    for name, (agreement, text) in read_agreements(repository).items():
        own = set(text_words(agreement.nl_term))
        # Dice's coefficient: twice the common words, by the words of both
        score = max((2 * len(own & words) / (len(own) + len(words)) for words in wanted), default=0.0)
        if score > 0:
            metadata = {**msgspec.to_builtins(agreement), "file": f"{_FOLDER}/{name}"}
            content = text[:_SHOWN]
            hits.append({"id": PREFIX + name, "content": content, "score": round(score, 4), "metadata": metadata})
    return sorted(hits, key=lambda hit: (-hit["score"], hit["id"]))


def agreement_detail(repository: CodeRepository, chunk_id: str) -> dict[str, Any]:
    """The whole text of one agreement."""
    name = chunk_id.removeprefix(PREFIX)
    stored = (
        _read(os.path.join(repository.home, _FOLDER), name, repository.home)
        if "/" not in name and name.endswith(_ENDING)
        else None
    )
    if stored is None:
        raise NotFoundError(f"agreement {name!r} does not exist", "search again")
    agreement, text = stored
    metadata = msgspec.to_builtins(agreement)
    return {"success": True, "chunk_id": chunk_id, "content": text, "metadata": metadata}


def _read(folder: str, name: str, root: str) -> tuple[Agreement, str] | None:
    try:
        text = read_file(os.path.join(folder, name), _MAX_AGREEMENT_BYTES, root).decode("utf-8", "replace")
        front = text.split("---\n", 2)[1] if text.startswith("---\n") else ""
        fields = load_yaml(front)
        if isinstance(fields, dict) and "symbol" in fields and "symbols" not in fields:
            fields["symbols"] = [fields["symbol"]]
        return msgspec.convert(fields, Agreement, strict=False), text
    except (AdjournError, msgspec.ValidationError, IndexError):
        return None


# --- updates the index and the project context on request


def sync_index(
    codebase: Codebase, path: str = ".", *, force: bool = False, sync_map: bool = True, deadline: Deadline | None = None
) -> dict[str, Any]:
    """Index changed files (all files with `force`) of the whole work tree, and return statistics."""
    codebase.repository.existing(path)
    if codebase.index is None:
        raise StoreError(f"the index is unavailable: {codebase.state()['reason']}", "make .code-intel/ writable")
    report = codebase.sync(deadline, force=force)
    answer: dict[str, Any] = {
        "success": not report.partial,
        "forest_sync": msgspec.to_builtins(report),
        "map_sync": {"agreements": len(read_agreements(codebase.repository))} if sync_map else None,
        "stats": codebase.index.stats(),
        "index_state": codebase.state(),
    }
    if codebase.language_servers is not None and (running := codebase.language_servers.running()):
        answer["language_servers"] = running
    if initialise(codebase.repository) is not None:
        answer["context_initialized"] = True
    if (wanted := needed(codebase.repository)) is not None:
        answer["context_update_required"] = wanted
    return answer
