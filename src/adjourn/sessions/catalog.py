"""The sessions of all clients: those of a folder, folded and ranked, and the one that a person means."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from adjourn.errors import AdjournError, InvalidError, NotFoundError, RefusedError
from adjourn.host.finding import top_of
from adjourn.host.own_settings import SETTINGS, read_waivers
from adjourn.sessions import heads
from adjourn.sessions.amp import Amp
from adjourn.sessions.claude_code import ClaudeCode, processes
from adjourn.sessions.cline import Cline
from adjourn.sessions.cline_tasks import ClineTasks
from adjourn.sessions.codex import Codex
from adjourn.sessions.copilot_cli import CopilotCli
from adjourn.sessions.cursor import CursorAgent
from adjourn.sessions.files import edges
from adjourn.sessions.gemini_cli import GeminiCli
from adjourn.sessions.goose import Goose
from adjourn.sessions.opencode import OpenCode
from adjourn.sessions.reader import SessionFile, TranscriptReader
from adjourn.sessions.story import SessionStory
from adjourn.sessions.texts import Secrets

if TYPE_CHECKING:
    from adjourn.sessions.evidence import LedgerCall
    from adjourn.sessions.page import Account

_CLAUDE, _CODEX = ClaudeCode(), Codex()
READERS: Sequence[TranscriptReader] = (
    _CLAUDE, _CODEX, GeminiCli(), OpenCode(), CopilotCli(), Cline(), CursorAgent(), ClineTasks(), Amp(), Goose(),
)  # fmt: skip
_HEADS = {reader.key: reader.head for reader in (_CLAUDE, _CODEX)}
MAX_OTHERS = 5
MAX_SEARCHED = 500
"""Newest sessions that are searched for a text."""
MAX_READ = 20
"""Newest sessions of a folder that are read to tell what is unfinished in them."""
DAY = 24 * 60 * 60
MAX_LOOKED = 3
"""Newest sessions of other clients that are read when a session starts."""
RECENT = 60
"""Seconds after a write in which a session may still be at work."""
_MIN_NAME = 4


def trees_of(folder: str) -> list[str]:
    """The folder whose sessions count: the top of the git repository around it, else itself."""
    real = os.path.realpath(folder)
    return list(dict.fromkeys((top_of(real) or real, real)))


def sessions(trees: Sequence[str], since: float = 0.0) -> list[SessionFile]:
    """The sessions in these folders, or all, that were written to `since` (seconds), but for those that the settings ignore; the newest
    first, a fork folded into the session that it was made from.
    """
    found: list[SessionFile] = []
    settings = read_waivers()
    for reader in READERS:
        with suppress(AdjournError, OSError):
            found += (file for file in reader.find(trees, since=since) if not settings.ignores(file.folder))
    found.sort(key=lambda file: (file.touched, file.stamp, file.id), reverse=True)
    return _folded(found)


def listed(trees: Sequence[str]) -> list[SessionFile]:
    """As `sessions`, from what is kept of heads of files where there are many; `add_titles` adds the titles of those that are shown."""
    with heads.kept():
        return sessions(trees)


def add_titles(files: Iterable[SessionFile]) -> None:
    """Read the first prompt of sessions of which only a digest of it is kept."""
    for file in files:
        if not file.title and (head := _HEADS[file.client](file.path)):
            file.title = head.title


def _folded(found: Iterable[SessionFile]) -> list[SessionFile]:
    """A fork repeats its parent's first records: same client and folder, same first prompt, same time. The newest stands for all."""
    kept: dict[tuple[str, ...], SessionFile] = {}
    for file in found:
        first = kept.setdefault((file.folder, *_origin(file)), file)
        first.forks += first is not file
    return list(kept.values())


def _origin(file: SessionFile) -> tuple[str, str, str]:
    """What forks of one session have in common; a client that writes no times has none that could be known."""
    return file.client, file.started or file.id, file.mark or file.title


def reader_of(file: SessionFile) -> TranscriptReader:
    """The reader of a session's client."""
    return next(reader for reader in READERS if reader.key == file.client)


def named(name: str) -> SessionFile:
    """The session with this id, or the only one whose id starts so, in any folder. Raises `NotFoundError`, `InvalidError`."""
    found: list[SessionFile] = []
    if len(name) >= _MIN_NAME:
        for reader in READERS:
            with suppress(AdjournError, OSError):
                found += [file for file in reader.find((), name) if file.id.startswith(name)]
    exact = [file for file in found if file.id == name]
    if len(exact or found) == 1:
        file = (exact or found)[0]
        if read_waivers().ignores(file.folder):
            raise RefusedError(
                f"the transcripts of sessions in {file.folder} are not read", f"see ignore-transcripts in ~/{SETTINGS}"
            )
        return file
    if not found:
        raise NotFoundError(
            f"no session is named {name!r}", "list the sessions of this folder: adjourn continue --list"
        )
    raise InvalidError(f"{name!r} is the beginning of {len(found)} sessions", "write more of the id")


def others_of(file: SessionFile, files: Sequence[SessionFile]) -> list[SessionFile]:
    """The other sessions of its folder, the newest first; neither the session itself nor one that it was forked from."""
    return [other for other in files if _origin(other) != _origin(file)][:MAX_OTHERS]


def matching(files: Sequence[SessionFile], text: str) -> list[tuple[SessionFile, str]]:
    """The sessions in whose prompts or answers a text occurs, each with the last of them."""
    found = []
    wanted = text.casefold()
    for file in files[:MAX_SEARCHED]:
        with suppress(AdjournError):
            story = reader_of(file).read(file)
            words = [*(prompt.text for prompt in story.prompts), *(answer.text for answer in story.answers)]
            hits = [line for part in words for line in part.splitlines() if wanted in line.casefold()]
            if hits:
                found.append((file, Secrets(words).hide(hits[-1])))
    return found


def unfinished(files: Sequence[SessionFile]) -> list[tuple[SessionFile, SessionStory]]:
    """Those of the newest sessions that have something left to do, with their stories."""
    found = []
    for file in files[:MAX_READ]:
        with suppress(AdjournError):
            story = reader_of(file).read(file)
            if story.is_unfinished:
                found.append((file, story))
    return found


def left_unfinished(folder: str, client: str, session: str, known: Collection[str] = ()) -> list[SessionFile]:
    """The sessions in a folder that stopped unfinished within a day, of those that the client's newest session did not learn of when it
    began: itself, those of the client that were at work beside it, and the newest of another client. None that is at work now.

    `client` is the key of its reader, `session` its own session and `known` are transcripts; they do not count.
    """
    noted = processes()
    found_here = sessions(trees_of(folder), time.time() - DAY)
    files = [file for file in found_here if file.id != session and not noted.get(file.id)]
    own = [file for file in files if file.client == client]
    begun = own[0].started if own else ""
    since = [file for file in files if (file.touched > begun or file.id in noted) and not _is_told(file, own)]
    others = [file for file in since if file.client != client]
    beside = [file for file in since if file.client == client and file is not own[0]]
    found = [*unfinished(others[:MAX_LOOKED])[:1], *unfinished([*own[:1], *beside[: MAX_LOOKED - 1]])]
    return [file for file, _ in found if os.path.realpath(file.path) not in known]


def how_to_continue(file: SessionFile) -> str:
    """The command that a session receives as it starts, for a session that was left."""
    return f"adjourn continue {file.id[:13]} --print"


def _is_told(file: SessionFile, own: Sequence[SessionFile]) -> bool:
    """Whether a session of the client that began later has in its transcript that it learnt of this one."""
    told = how_to_continue(file).encode()
    later = [other for other in own[:MAX_LOOKED] if other.started > file.touched]
    return any(told in edges(other.path, os.path.dirname(other.path)).head for other in later)


def account(
    file: SessionFile,
    tree: str,
    calls: Sequence[LedgerCall] = (),
    others: Sequence[SessionFile] = (),
    story: SessionStory | None = None,
) -> Account:
    """All that is known of a session, to be continued in `tree`. Raises `NotFoundError`, `InvalidError`."""
    from adjourn.sessions.claims import judge  # a list needs none of them
    from adjourn.sessions.evidence import join, look
    from adjourn.sessions.page import Account

    reader = reader_of(file)
    story = reader.read(file) if story is None else story
    story.id = story.id or file.id
    place = _place(story, tree)
    doubts, joined = join(story, calls)
    world = look(story, place, doubts)
    return Account(
        story=story,
        world=world,
        verdicts=judge(story, world),
        client=reader.name,
        others=[_other(other) for other in others],
        notes=_notes(reader, story, file)
        + joined
        + ([] if place else ["its folder is not here, so its files were not looked at"]),
    )


def _place(story: SessionStory, tree: str) -> str:
    """The work tree of a session: its own folder, else this one if a file that it changed is here; "" for none."""
    from adjourn.sessions.evidence import relative

    if story.folder and os.path.isdir(story.folder):
        return story.folder
    names = [relative(path, story.folder) for path in story.changes]
    is_here = not names or any(name and os.path.lexists(os.path.join(tree, name)) for name in names)
    return tree if is_here else ""


def _other(file: SessionFile) -> tuple[str, str]:
    return f"{reader_of(file).name} {file.id}, last record {file.touched[:19]}", file.title


def _notes(reader: TranscriptReader, story: SessionStory, file: SessionFile) -> list[str]:
    notes = []
    if not reader.tried:
        notes.append(f"the format of {reader.name} is known from public sources only: no file of it was tried")
    elif story.version and _number(story.version) > max(map(_number, reader.tried)):
        notes.append(
            f"{reader.name} {story.version[:20]} is newer than the versions that this reader was tried with ({reader.tried[0]})"
        )
    if time.time() - file.stamp < RECENT:
        notes.append("its file was written less than a minute ago: it may still be at work")
    if file.forks:
        notes.append(
            f"{file.forks} other session{'s' if file.forks > 1 else ''} began with the same records (a fork); this page tells one"
        )
    return notes


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:4] if part.isdigit() and len(part) < 10)
