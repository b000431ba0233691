"""What a hook learns from the transcript that its client names: facts for the task's page, read from where the last hook stopped."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from adjourn.errors import AdjournError
from adjourn.hooks.claude_code import HookRequest
from adjourn.host.finding import Workspace
from adjourn.text.quoting import one_line, quoted

if TYPE_CHECKING:
    from adjourn.checkpoints.transcript_facts import TranscriptFacts
    from adjourn.clients.hook_client import HookClient
    from adjourn.tasks.task import Task

READERS = {"claude-code": "claude", "codex": "codex"}
"""The readers of the clients that have hooks."""
MAX_LOST, MAX_KNOWN, MAX_SHOWN = 600, 60, 8
NEWS = ("mission", "progress", "open_questions")
"""Parts of a page for which a turn without calls has a checkpoint."""


def path_of(options: dict[str, str], request: HookRequest, workspace: Workspace) -> str:
    """The transcript that a request names; "" for none that may be read. One in the workspace may be an agent's own."""
    path = request.transcript_path
    if options["--no-transcripts"] or not isinstance(path, str) or options["--client"] not in READERS:
        return ""
    if not os.path.isabs(path) or not path.endswith(".jsonl") or "\0" in path:
        return ""
    real = os.path.realpath(os.path.dirname(path))
    is_inside = any(f"{real}/".startswith(f"{tree.rstrip('/')}/") for tree in (workspace.root, workspace.tree))
    return "" if is_inside else os.path.join(real, os.path.basename(path))


def follow_transcript(options: dict[str, str], request: HookRequest, workspace: Workspace, task: Task) -> bool:
    """Take in what a transcript has more than the last hook read. Returns whether the page says something else because of it."""
    path = path_of(options, request, workspace)
    with suppress(AdjournError, OSError, ValueError):
        if path and (size := os.stat(path, follow_symlinks=False).st_size):
            return _take_in(READERS[options["--client"]], path, size, workspace.tree, task)
    return False


def _take_in(client: str, path: str, size: int, tree: str, task: Task) -> bool:
    from adjourn.checkpoints.transcript_facts import keep_facts, read_facts
    from adjourn.clients.person import read_waivers

    known = read_facts(task.store, task.id)
    if (known.file, known.end) == (path, size) or read_waivers().ignores(tree):
        return False
    from adjourn.sessions.following import follow  # only for a transcript that grew

    facts = follow(client, path, tree, known, task.clock())
    if facts is known:
        return False
    keep_facts(task.store, task.id, facts)
    return _is_news(known, facts)


def announce_transcript(options: dict[str, str], request: HookRequest, workspace: Workspace, task: Task) -> None:
    """Keep which transcript the session writes, so that the next session can read it where this one is killed."""
    path = path_of(options, request, workspace)
    if not path:
        return
    from adjourn.checkpoints.transcript_facts import keep_facts, read_facts

    known = read_facts(task.store, task.id)
    if known.latest != path:
        client = READERS[options["--client"]]
        keep_facts(task.store, task.id, msgspec.structs.replace(known, latest=path, latest_client=client))


def catch_up(options: dict[str, str], workspace: Workspace, task: Task) -> str:
    """Take in what the session before wrote until it was killed. Returns its transcript, "" for none."""
    from adjourn.checkpoints.transcript_facts import read_facts

    known = read_facts(task.store, task.id)
    if options["--no-transcripts"] or not known.latest:
        return ""
    with suppress(AdjournError, OSError, ValueError):
        if size := os.stat(known.latest, follow_symlinks=False).st_size:
            _take_in(known.latest_client, known.latest, size, workspace.tree, task)
    return known.latest


def transcripts_shown(client: HookClient) -> set[str]:
    """The transcripts of the tasks that a new session learns of by their names."""
    from adjourn.checkpoints.transcript_facts import read_facts
    from adjourn.handover.pending import listed_tasks

    return {read_facts(client.store, task).latest for task in listed_tasks(client)}


def lost_words(task: Task, brief: str) -> str:
    """What a person asked for and neither the summary of the client's compaction nor the `brief` has; "" for nothing."""
    from adjourn.checkpoints.transcript_facts import read_facts
    from adjourn.sessions.asked import lost_orders
    from adjourn.sessions.following import kept_story

    story = kept_story(read_facts(task.store, task.id))
    texts = [one_line(prompt.text, MAX_LOST) for prompt in lost_orders(story)] if story is not None else []
    lost = [text for text in texts if text[:MAX_KNOWN] not in brief]
    if not lost:
        return ""
    shown = lost[:1] + lost[1:][-MAX_SHOWN:]
    return "\n".join(
        ["adjourn: the person asked for this, in this order; the compaction's summary lacks it:", *map(quoted, shown)]
    )


def _is_news(known: TranscriptFacts, facts: TranscriptFacts) -> bool:
    return any(getattr(known.report, name) != getattr(facts.report, name) for name in NEWS)
