"""Makes the changes of a plan, and undoes them: every file is restored byte for byte.

    .aex/undo/NUMBER/manifest.json    which files were changed: their path, and the digests of their new and old content
    .aex/undo/NUMBER/0, 1, …          their old content
    .aex/undo/NUMBER/0.wrote, …       what was written

Both are written and durable before any file is changed, readable by their owner only (a client's file may hold secrets), and ignored by
git. Out of a file that was edited since, the pieces of the change are taken that still stand (`reversal`).

An agent can write in `.aex/undo`. So a manifest is sealed (HMAC-SHA256 under the user's secret, over the workspace, the run's number, and
of each file what it is and held), and nothing is restored that is not in the table of clients' files, or without showing it.

Neither what a file held nor what somebody else wrote gets lost.
"""

from __future__ import annotations

import hmac
import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import quote_from_bytes, unquote_to_bytes

import msgspec

from adjourn.errors import AdjournError, InvalidError, NotFoundError
from adjourn.host import keys
from adjourn.host.workspace import create_file, locked, make_folder, read_file, remove_file, sync_folder, write_file
from adjourn.log.canonical_json import digest
from adjourn.setup import jsonc, toml_text
from adjourn.setup.jsonc import MAX_BYTES
from adjourn.setup.places import (
    CLAUDE_HOOKS,
    CODEX_HOOKS,
    HOME_FILES,
    IGNORED,
    POLICY,
    SERVER_FILES,
    Home,
    bytes_or_none,
    check_way,
    in_home,
    replace,
    user_folder,
)
from adjourn.setup.planning import SettingsChange

FOLDER = ".aex/undo"
MANIFEST = "manifest.json"
MAX_RUNS = 1000
_WROTE = ".wrote"
_BY_HAND = "check the copies beside it, restore your files by hand, and remove the folder"


class UndoEntry(msgspec.Struct, frozen=True, rename="camel"):
    """A file that was changed. `now` is the digest of what it was changed to; `held` names its copy, "" if it was not there, `was`
    is the copy's digest.

    `made` is how many folders above it were not there either. `wrote` names a copy of what it was changed to; "" in older manifests.
    `is_quoted`: `path` is percent-encoded, because it is not UTF-8.
    """

    path: str
    now: str
    held: str = ""
    made: int = 0
    was: str = ""
    wrote: str = ""
    is_quoted: bool = False

    @property
    def place(self) -> str:
        """The path of the file."""
        return os.fsdecode(unquote_to_bytes(self.path)) if self.is_quoted else self.path


class Manifest(msgspec.Struct, frozen=True):
    files: list[UndoEntry]
    seal: str = ""


class RestoredFile(NamedTuple):
    """A file that can be restored: its content now, and its content before (None: it did not exist)."""

    path: str
    before: bytes | None
    after: bytes | None
    made: int = 0


class NotRestored(NamedTuple):
    """A file that was edited since it was set up, and where it is as it was before ("": it was not there).

    `pieces` are those of the change that stay in it, since they were edited; none: the whole change stays.
    """

    path: str
    copy: str
    pieces: tuple[str, ...] = ()


def make(changes: Iterable[SettingsChange], root: str) -> None:
    """Make all changes; if one cannot be made, make none."""
    wanted = list(changes)
    keys.check_outside(root)
    for change in wanted:
        check_way(change.path, root)
    with locked(root):
        number = _keep(wanted, root)
        done: list[SettingsChange] = []
        try:
            for change in wanted:
                replace(change.path, root, change.after.encode(), expect=_encoded(change.before))
                done.append(change)
        except (AdjournError, OSError):
            for change in reversed(done):
                replace(change.path, root, _encoded(change.before), expect=change.after.encode())
            _forget(root, number)
            raise


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _keep(changes: list[SettingsChange], root: str) -> str:
    missing = [_missing_folders(change.path) for change in changes]
    folder = make_folder(root, FOLDER)
    os.chmod(folder, 0o700)
    create_file(folder, ".gitignore", b"*\n", 0o600)
    number = str(max(map(int, _numbers(root)), default=0) + 1)
    path = make_folder(root, f"{FOLDER}/{number}")
    try:
        entries = [
            _copied(path, place, change, made)
            for place, (change, made) in enumerate(zip(changes, missing, strict=True))
        ]
        sealed = Manifest(entries, _seal(root, number, entries))
        manifest = msgspec.json.format(msgspec.json.encode(sealed), indent=2) + b"\n"
        write_file(path, MANIFEST, manifest, mode=0o600)  # whole or not at all: without it nothing was changed
    except (AdjournError, OSError):
        shutil.rmtree(path, ignore_errors=True)
        raise
    return number


def _copied(folder: str, place: int, change: SettingsChange, number: int) -> UndoEntry:
    """Copies of a file as it is and as it will be; what the manifest says of them."""
    wrote, was = change.after.encode(), _encoded(change.before)
    create_file(folder, f"{place}{_WROTE}", wrote, 0o600)
    if was is not None:
        create_file(folder, str(place), was, 0o600)
    is_quoted = not _is_utf8(change.path)
    return UndoEntry(
        path=quote_from_bytes(os.fsencode(change.path)) if is_quoted else change.path,
        now=digest(wrote),
        held="" if was is None else str(place),
        made=number,
        was="" if was is None else digest(was),
        wrote=f"{place}{_WROTE}",
        is_quoted=is_quoted,
    )


def _is_utf8(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _seal(root: str, number: str, files: list[UndoEntry]) -> str:
    added = ("wrote", "isQuoted")  # a manifest of before has none
    rows = [
        {name: value for name, value in msgspec.to_builtins(file).items() if value or name not in added}
        for file in files
    ]
    folder = root if _is_utf8(root) else {"bytes": os.fsencode(root).hex()}
    text = msgspec.json.encode(["adjourn/undo/1", folder, number, rows])
    return hmac.digest(keys.secret(), text, "sha256").hex()


def _missing_folders(path: str) -> int:
    count, folder = 0, os.path.dirname(path)
    while not os.path.lexists(folder):
        count, folder = count + 1, os.path.dirname(folder)
    return count


def _runs(root: str) -> list[str]:
    """The numbers of the runs that can be taken back, newest first. One without a manifest was cut off before it changed anything."""
    return [number for number in _numbers(root) if os.path.lexists(os.path.join(root, FOLDER, number, MANIFEST))]


def _numbers(root: str) -> list[str]:
    path = os.path.join(root, FOLDER)
    check_way(os.path.join(path, MANIFEST), root)
    with suppress(FileNotFoundError):
        numbers = [name for name in os.listdir(path) if name.isdecimal() and name.isascii()]
        return sorted(numbers, key=int, reverse=True)[:MAX_RUNS]
    return []


def _forget(root: str, number: str) -> None:
    """Delete an undone run; its manifest first, in case this is interrupted."""
    path = os.path.join(root, FOLDER, number)
    remove_file(path, MANIFEST)
    shutil.rmtree(path)
    sync_folder(os.path.join(root, FOLDER))


def written_policies(root: str) -> list[str]:
    """The policies that were written here and not taken back, newest first. None where one is not adjourn's any more."""
    texts = []
    with suppress(AdjournError):
        for number in _runs(root):
            for entry in _manifest(root, number).files:
                if entry.place == os.path.join(root, POLICY) and entry.wrote:
                    name = f"{number}/{os.path.basename(entry.wrote)}"
                    texts.append(_saved(root, name, entry.now, entry.place).decode(errors="replace"))
    return texts


# --- taking it back


def undoable(root: str, home: Home) -> tuple[list[RestoredFile], list[NotRestored]]:
    """Every file as it was before the first run that has not been taken back, and the files that were changed since.

    Raises `NotFoundError` when nothing was set up, `InvalidError` for a manifest that is not ours.
    """
    keys.check_outside(root)
    runs = _runs(root)
    if not runs:
        raise NotFoundError(
            "nothing to undo: adjourn has not changed client settings here", "set clients up: adjourn init"
        )
    places = _known(root, home)
    files: dict[str, RestoredFile] = {}
    left: dict[str, NotRestored] = {}
    changes: dict[str, list[tuple[str, UndoEntry]]] = {}
    for number in runs:
        for entry in _manifest(root, number).files:
            if not _is_known(entry.place, root, places) or (entry.held and not entry.held.isdecimal()):
                raise InvalidError(
                    f"{FOLDER}/{number} names {entry.place}, which adjourn never changes",
                    "remove that folder: it is not adjourn's",
                )
            path = entry.place
            changes.setdefault(path, []).append((number, entry))
            held = _held(root, number, entry)
            there = bytes_or_none(path, root)
            now = files[path].after if path in files else there
            if now == held or (now is not None and digest(now) == entry.now):
                files[path] = RestoredFile(path, there, held, entry.made)
                left.pop(path, None)  # what did not fit was taken back before a kill
            else:
                copy = f"{FOLDER}/{number}/{entry.held}" if entry.held else ""
                left.setdefault(path, NotRestored(path, copy))
    for path, place in list(left.items()):
        files.pop(path, None)
        restored, pieces = _reversed(root, changes[path])
        if restored is not None:
            files[path] = restored
            del left[path]
            if pieces:
                left[path] = NotRestored(path, place.copy, tuple(pieces))
    return [file for file in files.values() if file.before != file.after], list(left.values())


def _reversed(root: str, changes: list[tuple[str, UndoEntry]]) -> tuple[RestoredFile | None, list[str]]:
    """A file that was edited since, without the changes, as far as they still stand in it; and the pieces that do not."""
    path = changes[0][1].place
    there = now = bytes_or_none(path, root)
    pieces: list[str] = []
    for number, entry in changes:
        held = _held(root, number, entry)
        if now is None or not entry.wrote or (path.endswith(POLICY) and held is None):
            break  # gone, or a policy, which is there to be edited
        wrote = _saved(root, f"{number}/{os.path.basename(entry.wrote)}", entry.now, path)
        try:
            before = None if held is None else held.decode()
            reverted = reversal(path, now.decode(), wrote.decode(), before)
        except UnicodeDecodeError:
            break
        if reverted is not None:
            now = None if reverted.text is None else reverted.text.encode()
            pieces += reverted.left
    return (RestoredFile(path, there, now, changes[-1][1].made) if now != there else None), pieces


def _held(root: str, number: str, entry: UndoEntry) -> bytes | None:
    return _saved(root, f"{number}/{entry.held}", entry.was, entry.place) if entry.held else None


def _saved(root: str, name: str, text: str, path: str) -> bytes:
    """A copy that was made of a file. Raises `InvalidError` if it is another one by now."""
    place = os.path.join(root, FOLDER, name)
    held = read_file(place, MAX_BYTES, root)
    if digest(held) != text:
        raise InvalidError(
            f"{place} does not match the earlier {path}", "the saved copy was changed; restore the file by hand"
        )
    return held


def _manifest(root: str, number: str) -> Manifest:
    path = os.path.join(root, FOLDER, number, MANIFEST)
    try:
        manifest = msgspec.json.decode(read_file(path, MAX_BYTES, root), type=Manifest)
    except msgspec.DecodeError as error:
        raise InvalidError(f"{path}: {error}", _BY_HAND) from error
    if not hmac.compare_digest(manifest.seal.encode(), _seal(root, number, manifest.files).encode()):
        raise InvalidError(f"{path} fails verification: it was changed, or another user wrote it", _BY_HAND)
    return manifest


def _known(root: str, home: Home) -> set[str]:
    """The files that a set-up of this workspace, or of the user's own settings, may have changed."""
    if root == user_folder():
        return {home.claude_settings, home.codex_hooks, *(in_home(file, home) for file in HOME_FILES)}
    relative = [*(entry.path for entry in SERVER_FILES), CLAUDE_HOOKS, CODEX_HOOKS, IGNORED, POLICY]
    return {home.claude, *(os.path.join(root, path) for path in relative)}


def _is_known(path: str, root: str, places: Collection[str]) -> bool:
    """Whether a path is one of these places, or one of a client's settings in a folder of the workspace."""
    settings = (*(file.path for file in SERVER_FILES), CLAUDE_HOOKS, CODEX_HOOKS)
    inside = path.startswith(f"{root}/") and os.path.normpath(path) == path and root != user_folder()
    return path in places or (inside and path.endswith(tuple(f"/{name}" for name in settings)))


def take_back(files: Iterable[RestoredFile], root: str, *, keep: bool) -> None:
    """Restore the files. Files and folders that did not exist are removed. `keep` keeps the copies of files that are left."""
    with locked(root):
        for file in files:
            replace(file.path, root, file.after, expect=file.before)
            if file.after is None:
                _remove_empty(os.path.dirname(file.path), root, file.made)
        if not keep:
            # the newest first: of what a kill leaves, the oldest still has the files as they were at first
            for number in _runs(root):
                _forget(root, number)
            shutil.rmtree(os.path.join(root, FOLDER))
            _remove_empty(os.path.join(root, os.path.dirname(FOLDER)), root, 1)


def _remove_empty(folder: str, root: str, most: int) -> None:
    with suppress(OSError):
        while most > 0 and folder.startswith(root + "/"):
            os.rmdir(folder)
            folder, most = os.path.dirname(folder), most - 1


# --- takes an own change back out of a text that was edited since

MAX_LINES = 20_000
MAX_SHOWN = 60
_ABSENT = object()


class Reversal(NamedTuple):
    """The text without the change, None for no file; and the pieces that stay, since they were edited."""

    text: str | None
    left: list[str]


def reversal(path: str, now: str, wrote: str, before: str | None) -> Reversal | None:
    """The text of a file as it is `now` without the change from `before` to `wrote`; None if nothing of it can be taken back."""
    try:
        reverted = _json(now, wrote, before) if path.endswith(".json") else _lines(now, wrote, before)
        if reverted is not None and reverted.text is not None and path.endswith(".toml"):
            toml_text.read(reverted.text)
    except InvalidError:
        return None
    return None if reverted is None or reverted.text == now else reverted


# --- JSON


class _Piece(NamedTuple):
    """A place, with what was written there and what was there before (`_ABSENT`: nothing)."""

    path: tuple[jsonc.Step, ...]
    wrote: Any
    before: Any


def _json(now: str, wrote: str, before: str | None) -> Reversal:
    was = jsonc.read(before).value if before and before.strip() else _ABSENT
    left: list[str] = []
    text = now
    for piece in _pieces((), jsonc.read(wrote).value, {} if was is _ABSENT else was):
        text = _taken_back(text, piece, left)
    is_empty = jsonc.read(text).value == {}
    return Reversal(None if before is None and is_empty else text, left)


def _pieces(path: tuple[jsonc.Step, ...], wrote: Any, before: Any) -> Iterator[_Piece]:
    """What differs, as far down as both are objects."""
    if isinstance(wrote, dict) and isinstance(before, dict):
        for name in dict.fromkeys((*wrote, *before)):
            there, held = wrote.get(name, _ABSENT), before.get(name, _ABSENT)
            if there != held:
                yield from _pieces((*path, name), there, held)
    else:
        yield _Piece(path, wrote, before)


def _taken_back(text: str, piece: _Piece, left: list[str]) -> str:
    there = _at(jsonc.read(text).value, piece.path)
    if there is _ABSENT or there == piece.before:
        return text if piece.before is _ABSENT or there == piece.before else _set(text, piece, left)
    if there == piece.wrote:
        return _set(text, piece, left)
    if isinstance(there, dict) and isinstance(piece.wrote, dict):
        for name, value in piece.wrote.items():
            text = _taken_back(text, _Piece((*piece.path, name), value, _ABSENT), left)
        return _without_empty(text, piece.path)
    if isinstance(there, list) and isinstance(piece.wrote, list):
        return _without_elements(text, piece, left)
    left.append(_dotted(piece.path))
    return text


def _set(text: str, piece: _Piece, left: list[str]) -> str:
    try:
        if piece.before is _ABSENT:
            return jsonc.removed(text, piece.path)
        return jsonc.edited(text, piece.path, piece.before)
    except InvalidError:
        left.append(_dotted(piece.path))
        return text


def _without_elements(text: str, piece: _Piece, left: list[str]) -> str:
    """The text without the elements that were added to a list, wherever they stand by now; those before must still be there."""
    before = piece.before if isinstance(piece.before, list) else []
    added = [value for value in piece.wrote if value not in before]
    words = piece.path != ("permissions", "allow") and any(isinstance(value, str) for value in added)
    if words or any(value not in piece.wrote for value in before):
        left.append(_dotted(piece.path))  # it was changed, or the order of its words counts
        return text
    for value in added:
        values = _at(jsonc.read(text).value, piece.path)
        if value in values:
            text = jsonc.removed(text, (*piece.path, values.index(value)))
        else:
            left.append(_dotted(piece.path))
    return _without_empty(text, piece.path) if piece.before is _ABSENT else text


def _without_empty(text: str, path: tuple[jsonc.Step, ...]) -> str:
    """The text without an object or list that was made for what is gone again."""
    return jsonc.removed(text, path) if path and not _at(jsonc.read(text).value, path) else text


def _at(value: Any, path: Sequence[jsonc.Step]) -> Any:
    for step in path:
        if not isinstance(value, dict) or step not in value:
            return _ABSENT
        value = value[step]
    return value


def _dotted(path: Sequence[jsonc.Step]) -> str:
    return ".".join(map(str, path)) or "the whole file"


# --- lines


def _lines(now: str, wrote: str, before: str | None) -> Reversal | None:
    from difflib import SequenceMatcher  # 10 ms, only for a file that was edited since

    current, ours, held = (text.splitlines(keepends=True) for text in (now, wrote, before or ""))
    if max(map(len, (current, ours, held))) > MAX_LINES:
        return None
    blocks = [
        (block.a, block.a + block.size, block.b)
        for block in SequenceMatcher(None, ours, current, autojunk=False).get_matching_blocks()
    ]
    left: list[str] = []
    for kind, start, end, first, last in reversed(SequenceMatcher(None, ours, held, autojunk=False).get_opcodes()):
        if kind == "equal":
            continue
        near = max(start - 1, 0), min(end + 1, len(ours))
        place = next((to - a for a, b, to in blocks if a <= near[0] and near[1] <= b), None)
        if place is None:
            left.append(f"line {start + 1}: {''.join(ours[start : start + 1]).strip()[:MAX_SHOWN]}")
        else:
            current[start + place : end + place] = held[first:last]
    return Reversal(None if before is None and not current else "".join(current), left[::-1])
