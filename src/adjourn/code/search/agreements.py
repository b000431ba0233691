"""Agreements: which symbols a user's words meant in earlier sessions, one Markdown file each.

Owns: their files, `search`, `detail` and `write`. Must never: believe a file that is not shaped like one, or overwrite one of a person.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import Any

import msgspec

from adjourn.code.model.repository import FOLDER, CodeRepository
from adjourn.code.model.words import split
from adjourn.code.model.yaml_text import dump_yaml, load_yaml
from adjourn.errors import AdjournError, NotFoundError
from adjourn.host import make_folder, read_file, write_file

PREFIX = "agreement:"
_FOLDER = f"{FOLDER}/agreements"
_MAX_FILES = 5_000
_MAX_BYTES = 64 << 10
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


def write(
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
    name = f"{'-'.join(split(term))[:60] or 'agreement'}-{hashlib.sha256(term.casefold().encode()).hexdigest()[:8]}{_ENDING}"
    folder = make_folder(repository.home, _FOLDER)
    write_file(folder, name, f"---\n{front}---\n{chr(10).join(body)}".encode("utf-8", "replace"))
    return f"{_FOLDER}/{name}"


def read_all(repository: CodeRepository) -> dict[str, tuple[Agreement, str]]:
    """Agreements by file name, with their text. Other files are skipped."""
    folder = os.path.join(repository.home, _FOLDER)
    if os.path.islink(folder):
        return {}
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(_ENDING))[:_MAX_FILES]
    except OSError:
        return {}
    found = {}
    for name in names:
        if (one := _read(folder, name, repository.home)) is not None:
            found[name] = one
    return found


def search(repository: CodeRepository, query: str, target_feature: str | None) -> list[dict[str, Any]]:
    """Agreements that share words with the query, best first; the score is 1.0 for the same words."""
    wanted = [
        set(split(text))
        for text in (query, target_feature or "", f"{query} {target_feature or ''}")
        if split(text)
    ]
    hits = []
    for name, (agreement, text) in read_all(repository).items():
        own = set(split(agreement.nl_term))
        score = max((_alike(own, words) for words in wanted), default=0.0)
        if score > 0:
            metadata = {**msgspec.to_builtins(agreement), "file": f"{_FOLDER}/{name}"}
            hits.append(
                {
                    "id": PREFIX + name,
                    "content": text[:_SHOWN],
                    "score": round(score, 4),
                    "metadata": metadata,
                }
            )
    return sorted(hits, key=lambda hit: (-hit["score"], hit["id"]))


def detail(repository: CodeRepository, chunk_id: str) -> dict[str, Any]:
    """The whole text of one agreement."""
    name = chunk_id.removeprefix(PREFIX)
    found = (
        _read(os.path.join(repository.home, _FOLDER), name, repository.home)
        if "/" not in name and name.endswith(_ENDING)
        else None
    )
    if found is None:
        raise NotFoundError(f"agreement {name!r} does not exist", "search again")
    agreement, text = found
    return {
        "success": True,
        "chunk_id": chunk_id,
        "content": text,
        "metadata": msgspec.to_builtins(agreement),
    }


def _alike(one: set[str], other: set[str]) -> float:
    return 2 * len(one & other) / (len(one) + len(other)) if one and other else 0.0


def _read(folder: str, name: str, root: str) -> tuple[Agreement, str] | None:
    try:
        text = read_file(os.path.join(folder, name), _MAX_BYTES, root).decode("utf-8", "replace")
        front = text.split("---\n", 2)[1] if text.startswith("---\n") else ""
        fields = load_yaml(front)
        if isinstance(fields, dict) and "symbol" in fields and "symbols" not in fields:
            fields["symbols"] = [fields["symbol"]]
        return msgspec.convert(fields, Agreement, strict=False), text
    except (AdjournError, msgspec.ValidationError, IndexError):
        return None
