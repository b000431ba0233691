"""Which transcripts a hook may read."""

from __future__ import annotations

from pathlib import Path

import pytest

from adjourn.checkpoints.transcript_facts import NO_FACTS, read_facts
from adjourn.hooks.claude_code import HookRequest
from adjourn.hooks.gate import follow_transcript
from adjourn.host.finding import Workspace, workspace_of
from adjourn.store.memory import MemoryStore
from adjourn.tasks.task import Task
from support.transcripts import ClaudeTranscript, bakery

OPTIONS = {"--client": "claude-code", "--no-transcripts": ""}


@pytest.fixture
def task() -> Task:
    return Task(MemoryStore(), "t1", clock=lambda: 1_790_000_000_000, secret=bytes(32))


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "work").mkdir()
    return workspace_of(str(tmp_path / "work"))


def test_folders_that_the_settings_ignore_are_not_read(
    task: Task, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once they are no longer ignored, the transcript is read; a second time there is nothing new."""
    monkeypatch.setattr("adjourn.host.own_settings.home", lambda: str(tmp_path))
    settings = tmp_path / ".config/adjourn/settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'ignore-transcripts = ["{workspace.root}"]\n')
    settings.chmod(0o600)
    path = bakery(ClaudeTranscript(folder=workspace.root)).save(tmp_path)
    request = HookRequest(transcript_path=str(path))
    assert not follow_transcript(OPTIONS, request, workspace, task)
    assert read_facts(task.store, task.id) == NO_FACTS
    settings.write_text('ignore-transcripts = ["/elsewhere"]\n')
    assert follow_transcript(OPTIONS, request, workspace, task)
    assert read_facts(task.store, task.id).session == path.stem
    assert not follow_transcript(OPTIONS, request, workspace, task)


@pytest.mark.parametrize("path", [7, None, "", "relative.jsonl", "/etc/passwd", "/nowhere/x.jsonl", "/a\0b.jsonl"])
def test_what_is_no_transcript_is_ignored(task: Task, workspace: Workspace, path: object) -> None:
    """Whatever a request names, the hook does its work."""
    assert not follow_transcript(OPTIONS, HookRequest(transcript_path=path), workspace, task)
    assert read_facts(task.store, task.id) == NO_FACTS
