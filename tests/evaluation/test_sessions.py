"""The evaluation of `adjourn continue` tells a page that knows from one that does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.sessions import Truth, Words, _of_session, claim, killed
from support.described_transcripts import RooTranscript
from support.transcripts import ClaudeTranscript


@pytest.mark.parametrize("writer", [ClaudeTranscript, RooTranscript])
def test_a_session_tells_what_must_be_known(writer: type, tmp_path: Path) -> None:
    """All needles of a session that was killed are in ours, no trap is; its file, cut to that size, has less, and the password."""
    (tmp_path / "work").mkdir()
    ours, peer = _of_session(writer(folder=str(tmp_path / "work")), killed, 7, 8192, {})
    assert (ours.who, ours.missing, ours.sprung) == ("adjourn", [], [])
    assert ours.is_enough
    assert not peer.is_enough
    assert "password" in peer.sprung


def test_each_seed_has_other_words() -> None:
    """Two seeds share no mission, so that no text can know it in advance."""
    truths: list[Truth] = [claim(ClaudeTranscript(), Words.of(seed)) for seed in (1, 2)]
    assert truths[0].needles["mission"] != truths[1].needles["mission"]
