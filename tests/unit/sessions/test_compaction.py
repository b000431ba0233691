"""What a compaction left in the agent's context is not lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from adjourn.sessions import catalog
from adjourn.sessions.claims import lost_orders
from adjourn.sessions.page import page
from support.cases import for_each
from support.transcripts import ClaudeTranscript, CodexTranscript


@for_each("writer", [ClaudeTranscript, CodexTranscript])
def test_a_prompt_that_a_compaction_kept_is_not_lost(
    writer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prompts that the client keeps in the agent's context word by word are not repeated as lost; an older one is."""
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    transcript = writer(id_="0a5e0000-0000-4000-8000-0000000000aa")
    transcript.ask("Never touch the sourdough starter.")
    transcript.ask("Keep the salt at 12 grams.")
    transcript.compact("The baker works on bread.", "Keep the salt at 12 grams.")
    transcript.ask("Bake.")
    transcript.save(tmp_path)
    file = catalog.named(transcript.id)
    account = catalog.account(file, str(tmp_path))
    assert [prompt.text for prompt in lost_orders(account.story)] == ["Never touch the sourdough starter."]
    assert page(account, 8192).count("(its summary does not have these words)") == 1
