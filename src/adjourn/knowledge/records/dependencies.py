"""What noted facts depend on: files of the workspace, environment variables and versions; and which facts are stale.

A fact is stored with what it depends on as that was when it was noted. Each hand-over compares that with the world. Only regular files
of the workspace are read, through no link that leads out of it. Of a variable only a keyed digest is stored, never the value.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from adjourn.errors import AdjournError, InvalidError
from adjourn.host.workspace import read_inside, resolve_inside
from adjourn.knowledge.model.cognition import FactBasis, NotedFile, normalised
from adjourn.knowledge.model.documents import Tree, tree_of
from adjourn.log.canonical_json import digest
from adjourn.text.quoting import one_line
from adjourn.text.redact import without_secrets

MAX_DEPENDENCIES = 20
"""Dependencies of one kind that a fact may name."""
MAX_READ = 16 * 1024 * 1024
"""Bytes of files that are read to note facts, and as many to compare them."""
MAX_COMPARED = 500
"""Files that are compared in one hand-over."""
MAX_GUESSED = 64 * 1024
"""Bytes of a file that is not measured if it has secrets."""
_MAX_NAMED = 3

Path = Annotated[str, Meta(min_length=1, max_length=500)]
Variable = Annotated[str, Meta(pattern="^[A-Za-z_][A-Za-z0-9_]{0,99}$")]
Versioned = Annotated[str, Meta(pattern=r"^[\w@./+-]{1,100}$")]
Version = Annotated[str, Meta(min_length=1, max_length=100)]


class NotedFact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fact, and what it depends on: paths of the workspace, names of environment variables, and versions by the names of what has
    them.
    """

    fact: Annotated[str, Meta(min_length=1, max_length=2_000)]
    files: Annotated[tuple[Path, ...], Meta(max_length=MAX_DEPENDENCIES)] = ()
    env: Annotated[tuple[Variable, ...], Meta(max_length=MAX_DEPENDENCIES)] = ()
    versions: Annotated[dict[Versioned, Version], Meta(max_length=MAX_DEPENDENCIES)] = {}


class Surroundings(NamedTuple):
    """Where facts hold: the work tree ("" where its files are elsewhere), the variables, and the secret that keys their digests."""

    tree: str
    variables: Mapping[str, str]
    secret: bytes


def around_here(tree: str, secret: bytes) -> Surroundings:
    """The surroundings of this process. A `tree` that is no folder has no files to compare."""
    return Surroundings(tree if os.path.isdir(tree) else "", os.environ, secret)


NO_SURROUNDINGS = Surroundings("", {}, b"")


class _Files:
    """Reads the states of files, each once, at most `MAX_READ` bytes and `MAX_COMPARED` files."""

    def __init__(self, tree: str) -> None:
        self._tree = tree
        self._room = MAX_READ
        self._states: dict[str, NotedFile] = {}

    def state(self, path: str, *, noting: bool = False) -> NotedFile:
        """The state of a regular file. Raises `AdjournError` for anything else; when `noting`, for a small file with a secret, too."""
        if path not in self._states:
            data = read_inside(self._tree, path, self._room)
            # the digest is kept, and of a short file one can guess the secret until the digest fits
            if noting and len(data) <= MAX_GUESSED and without_secrets(text := data.decode(errors="replace")) != text:
                raise InvalidError("it has secrets")
            self._room -= len(data)
            self._states[path] = NotedFile(size=len(data), sha256=digest(data))
        return self._states[path]

    def change(self, path: str, was: NotedFile) -> str:
        """How a file differs from what it was, in words; "" if it does not."""
        try:
            real = resolve_inside(self._tree, path)
            if not os.path.lexists(real):
                return f"{path} is gone"
            if os.lstat(real).st_size == was.size and path not in self._states:
                if was.size > self._room or len(self._states) >= MAX_COMPARED:
                    return f"{path} was not compared"
                self.state(path)
        except (AdjournError, OSError):
            return f"{path} changed"
        return "" if self._states.get(path) == was else f"{path} changed"


# --- noting


def measure(facts: Iterable[NotedFact], around: Surroundings, now: int) -> dict[str, Tree]:
    """What each fact depends on, as it is at `now` (milliseconds), by the fact's words (`normalised`), without those that name nothing.

    Raises `InvalidError` for what is not there, or cannot be read.
    """
    files = _Files(around.tree)
    measured: dict[str, Tree] = {}
    for fact in facts:
        if not (fact.files or fact.env or fact.versions):
            continue
        basis = FactBasis(
            at=now,
            files={path: _measured(files, path, around.tree) for path in fact.files},
            env={name: _variable(name, around) for name in fact.env},
            versions=fact.versions,
        )
        measured[normalised(fact.fact)] = tree_of(basis)
    return measured


def noted_again(fact: Tree, measured: Mapping[str, Tree], around: Surroundings, now: int) -> Tree:
    """A stored fact after a note in its words: with what it was `measured` to depend on. A note that names nothing confirms it: what it
    depended on is measured again, and dropped if it is gone.
    """
    text = normalised(fact["content"])
    before = _basis(fact)
    if (basis := measured.get(text)) is None and before is not None:
        again = NotedFact(fact=text, files=tuple(before.files), env=tuple(before.env), versions=before.versions)
        with suppress(InvalidError):
            basis = measure([again], around, now).get(text)
    if basis is None:
        return {name: value for name, value in fact.items() if name != "dependsOn"} if "dependsOn" in fact else fact
    return {**fact, "dependsOn": basis}


def _measured(files: _Files, path: str, tree: str) -> NotedFile:
    if not tree:
        raise InvalidError(
            f"{path!r} cannot be read: the files of this workspace are elsewhere", "name versions instead"
        )
    try:
        return files.state(path, noting=True)
    except AdjournError as error:
        raise InvalidError(
            f"a fact depends on {path!r}, which cannot be read: {error.message}",
            f"name regular files of the workspace without secrets, with at most {MAX_READ >> 20} MiB together",
        ) from error


def _variable(name: str, around: Surroundings) -> str:
    if name not in around.variables:
        raise InvalidError(
            f"a fact depends on ${name}, which adjourn does not have", "name variables that it has, or files"
        )
    return _keyed(name, around)


def _keyed(name: str, around: Surroundings) -> str:
    value = around.variables[name].encode(errors="surrogateescape")
    return hmac.digest(around.secret, b"adjourn/fact/1:" + name.encode() + b"=" + value, "sha256").hex()


# --- comparing


def stale_facts(facts: Iterable[Tree], around: Surroundings) -> dict[str, str]:
    """Why facts are stale, by their ids: what they depend on differs from what it was when they were noted, or is gone.

    Of the versions that facts state, the one that was noted last is the present one. What a fact names is text of an agent.
    """
    based = [(fact["id"], basis) for fact in facts if (basis := _basis(fact)) is not None]
    versions: dict[str, tuple[int, str]] = {}
    for _, basis in based:
        for name, version in basis.versions.items():
            versions[name] = max(versions.get(name, (-1, "")), (basis.at, version))
    files = _Files(around.tree)
    reasons: dict[str, str] = {}
    for fact_id, basis in based:
        changes = list(_changes(basis, files, versions, around))
        if changes:
            more = f" and {len(changes) - _MAX_NAMED} more" if len(changes) > _MAX_NAMED else ""
            reasons[fact_id] = one_line(", ".join(changes[:_MAX_NAMED]) + more)
    return reasons


def shown_fact(fact: Tree, stale: Mapping[str, str]) -> Tree:
    """A fact as an agent is shown it: what it depends on by name, and why it is stale."""
    if (basis := _basis(fact)) is None:
        return fact
    names: Tree = {"files": [*basis.files], "env": [*basis.env], "versions": basis.versions}
    shown = {**fact, "dependsOn": {name: value for name, value in names.items() if value}}
    return shown | ({"stale": stale[fact["id"]]} if fact["id"] in stale else {})


def _basis(fact: Tree) -> FactBasis | None:
    with suppress(msgspec.ValidationError):  # a document of another program
        return msgspec.convert(fact["dependsOn"], FactBasis) if "dependsOn" in fact else None
    return None


def _changes(
    basis: FactBasis, files: _Files, versions: Mapping[str, tuple[int, str]], around: Surroundings
) -> Iterator[str]:
    for name, version in basis.versions.items():
        if versions[name][1] != version and versions[name][0] > basis.at:
            yield f"{name} is {versions[name][1]} now, was {version}"
    if not around.tree:
        return
    for path, was in basis.files.items():
        if change := files.change(path, was):
            yield change
    for name, keyed in basis.env.items():
        if name not in around.variables:
            yield f"${name} is not set"
        elif not hmac.compare_digest(_keyed(name, around), keyed):
            yield f"${name} changed"
