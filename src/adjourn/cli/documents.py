"""The documents that a command line names: files, folders with what is in them, and `-` for stdin.

No link is followed that is found in a folder.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from itertools import islice

from adjourn.aex.files import decoded, load
from adjourn.aex.layers import discover
from adjourn.errors import InvalidError, NotFoundError, UsageError
from adjourn.findings import MAX_DOCUMENT_BYTES, Finding
from adjourn.host.finding import workspace_of
from adjourn.host.workspace import open_plain, unreadable
from adjourn.policy.contract import BrokenContractError, Contract, read_contract

STDIN = "-"
ENDING = ".aex"
MAX_FILES = 10_000
_NOT_OURS = frozenset(("node_modules", "__pycache__"))


def named(arguments: Sequence[str]) -> list[str]:
    """The files that the arguments name, each once; a folder stands for the documents below it, in order of name.

    Raises `NotFoundError` for a folder without a document, so that the wrong folder does not pass for a good one.
    """
    paths: dict[str, None] = {}
    for argument in arguments:
        inside = list(islice(_below(argument), MAX_FILES + 1)) if os.path.isdir(argument) else [argument]
        if not inside:
            raise NotFoundError(f"there is no {ENDING} file in {argument}", "name a file, or another folder")
        if len(inside) > MAX_FILES:
            raise UsageError(f"{argument} has more than {MAX_FILES:,} {ENDING} files", "name a folder in it")
        paths |= dict.fromkeys(inside)
    return list(paths)


def read(path: str) -> tuple[str | None, list[Finding]]:
    """The text of a named document; else None and the finding that says why."""
    return (
        decoded(sys.stdin.buffer.read(MAX_DOCUMENT_BYTES + 1), path)
        if path == STDIN
        else load(path, root=workspace_of().root)
    )


def text_of(path: str, root: str = "") -> str:
    """The text of a file; of one in the workspace (`root`) through no link. Raises `InvalidError`."""
    text, findings = load(path, root=root or workspace_of().root)
    if text is None:
        raise InvalidError(f"{path}: {findings[0].message}", findings[0].help)
    return text


def check_plain(path: str) -> None:
    """Raise `InvalidError` for a file or folder that is reached through a link in the workspace."""
    try:
        os.close(open_plain(path, workspace_of().root))
    except OSError as error:
        raise unreadable(path, error) from error


def refuse_errors(path: str, text: str | None, findings: Sequence[Finding]) -> None:
    """Raise `BrokenContractError` when a finding is an error."""
    if any(finding.severity == "error" for finding in findings):
        raise BrokenContractError(list(findings), {path: text or ""})


def policy_for(named: str) -> Contract | None:
    """The policy in the file `named`, else that of the workspace if it has one. Raises `BrokenContractError`."""
    root = workspace_of().root
    path = from_here(named, root) if named else discover(root)
    return read_contract(root, os.path.normpath(path)) if path else None


def from_here(path: str, root: str) -> str:
    """A path that a person gave, in the current folder, as one for the workspace `root`: relative paths there are of that."""
    return path if not path or os.path.realpath(os.curdir) == root else os.path.abspath(path)


def _below(folder: str) -> Iterator[str]:
    """Skip hidden folders except `.aex`: other programs made them."""
    for place, folders, names in os.walk(folder, onerror=_stop):
        folders[:] = sorted(name for name in folders if name not in _NOT_OURS and (name[0] != "." or name == ".aex"))
        for name in sorted(names):
            path = os.path.normpath(os.path.join(place, name))
            if name.endswith(ENDING) and not os.path.islink(path):
                yield path


def _stop(error: OSError) -> None:
    """A folder that cannot be listed is not one without documents."""
    raise error
