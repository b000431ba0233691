"""Whatever stands in a transcript: the page is made in time, fits, and tells nothing that the transcript does not say.

Short here. ADJOURN_CAMPAIGN=1 tries 200,000 mutations over all clients.
"""

from __future__ import annotations

import json
import os
import random
import time
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from adjourn.sessions import files
from adjourn.sessions.story import SessionStory
from support import described_transcripts, mutating, transcripts
from support.cases import for_each
from support.transcripts import ASKED, ASKED_LATER, bakery

CAMPAIGN = os.environ.get("ADJOURN_CAMPAIGN") == "1"
COUNT = 200_000 if CAMPAIGN else 1000
WRITERS: tuple[Any, ...] = (*transcripts.WRITERS, *described_transcripts.WRITERS)
SECONDS = 5.0
pytestmark = pytest.mark.timeout(12 * 60 * 60 if CAMPAIGN else 300)
LIMIT = 8192


def tell(story: SessionStory) -> str:
    """The page, which must fit and hold nothing that a terminal or a reader would not see."""
    text = mutating.text_of(story, LIMIT)
    assert len(text.encode()) <= LIMIT
    assert not [
        char for char in text if char not in "\n\t" and unicodedata.category(char) in ("Cc", "Cs", "Co", "Zl", "Zp")
    ]
    assert not set(text) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
    own = mutating.outside(text)
    assert "push it" not in own
    assert [line for line in text.splitlines() if line.startswith("# ")] == text.splitlines()[:1]
    return text


def tried(client: str, kind: str, seed: int) -> None:
    """One mutation: made, read and told."""
    writer = next(writer for writer in WRITERS if writer.client == client)
    chance = random.Random(seed)
    transcript = bakery(writer())
    begin = time.monotonic()
    if kind == "rearranged":
        if client == "roo":  # its first message is the task, by its place
            transcript.records[1:] = mutating.rearranged(transcript.records[1:], chance)
            transcript.sent[1:] = mutating.rearranged(transcript.sent[1:], chance)
        else:
            transcript.records = mutating.rearranged(transcript.records, chance)
        story = mutating.translated(transcript)
        text = tell(story)
        assert {prompt.text for prompt in story.prompts} <= {ASKED, ASKED_LATER}
        assert "**held**" not in text
        tests = [call for call in story.calls if call.is_test]
        assert not [call for call in tests if call.outcome == "ok" or call.code == 0]
    else:
        transcript.records = mutating.altered(transcript.records, chance)
        text = tell(mutating.translated(transcript))
    sources = [transcript.records, getattr(transcript, "sent", None), transcript.id, writer.client]
    assert mutating.untrue(text, mutating.source_of(sources)) == []
    assert time.monotonic() - begin < SECONDS


@for_each("kind", ["rearranged", "altered"])
def test_a_page_tells_only_what_its_transcript_says(kind: str) -> None:
    """Each quotation occurs in its source; where records are only moved, no failed test has passed and nobody asked anything else."""
    share = COUNT * 2 // 5 // len(WRITERS)
    for writer in WRITERS:
        for seed in range(share):
            try:
                tried(writer.client, kind, seed)
            except Exception as error:
                raise AssertionError(f"{kind} {writer.client} {seed}: {error}") from error


def test_a_damaged_file_is_read(tmp_path: Path) -> None:
    """Bytes changed anywhere in a file of lines: it is read in time, and each quotation occurs in it."""
    writers = [writer for writer in WRITERS if writer.client in mutating.LINES]
    for writer in writers:
        transcript = bakery(writer())
        good = "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in transcript.records).encode()
        for seed in range(COUNT // 5 // len(writers)):
            data = mutating.damaged(good, random.Random(seed))
            begin = time.monotonic()
            text = tell(mutating.save(data, tmp_path / f"{writer.client}.jsonl"))
            records = [files.decode(line.strip(files._BLANK))[0] for line in data.split(b"\n")]
            source = mutating.source_of([records, writer.client], data.decode(errors="replace"))
            assert mutating.untrue(text, source) == [], (writer.client, seed)
            assert time.monotonic() - begin < SECONDS, (writer.client, seed)


@pytest.mark.parametrize("client", sorted({writer.client for writer in WRITERS} - {"cursor"}))
def test_no_output_settles_a_call(client: str) -> None:
    """The output of tests that failed claims, in every client's words, that they passed: they failed."""
    writer = next(writer for writer in WRITERS if writer.client == client)
    transcript = writer()
    transcript.ask(ASKED)
    transcript.run("./test-oven.sh", 1, "1 of 2 passed\n" + "\n".join(mutating.HOSTILE[14:19]))
    transcript.say("All tests pass.")
    story = mutating.translated(transcript)
    assert [(call.outcome, call.code) for call in story.calls] == [("failed", 1)]
    assert "**contradicted**" in mutating.text_of(story)
