"""A client's hooks write the checkpoint page from its own transcript, for an agent that never saves a checkpoint itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.hooks import SETTLE, HookEventWorkspace
from support.transcripts import ASKED, ClaudeTranscript, CodexTranscript, bakery

PAGE = "tmp/checkpoint-active.md"


@pytest.fixture
def work(tmp_path: Path) -> Iterator[HookEventWorkspace]:
    with HookEventWorkspace(tmp_path, "use file.*, shell.exec, user.*") as work:
        yield work


class Followed:
    """A client at work: its transcript and its hooks."""

    def __init__(self, work: HookEventWorkspace, home: Path, kind: Any = ClaudeTranscript) -> None:
        self.work, self.home = work, home
        self.transcript = kind(folder=str(work.root))
        self.options = ["--client", "codex"] if kind is CodexTranscript else []

    def event(self, name: str, *options: str, **members: Any) -> Any:
        path = str(self.transcript.save(self.home))
        env = {"HOME": str(self.home)}
        told = self.work.tell(name, *self.options, *options, env=env, transcript_path=path, **members)
        assert (told.code, told.err) == (0, "")
        return told

    def begin(self, prompt: str = ASKED) -> None:
        self.event("UserPromptSubmit", prompt=prompt)

    def page(self) -> str:
        return (self.work.root / PAGE).read_text()


@pytest.fixture
def claude(work: HookEventWorkspace, tmp_path: Path) -> Followed:
    return Followed(work, tmp_path / "home")


@pytest.mark.parametrize("kind", [ClaudeTranscript, CodexTranscript])
@pytest.mark.parametrize("event", ["PreCompact", "Stop", "SubagentStop", "SessionEnd"])
def test_each_event_writes_the_page_of_what_was_asked_planned_and_done(
    work: HookEventWorkspace, tmp_path: Path, event: str, kind: Any
) -> None:
    """Mission with the later prompt, plan with its evidence, state, files; no secret, no contradicted claim as a fact."""
    client = Followed(work, tmp_path / "home", kind)
    client.begin()
    bakery(client.transcript)
    (work.root / "oven.py").write_text("heat = 10\n")
    work.run("Write", {"file_path": "oven.py", "content": "x"}, "call_0003", *client.options)
    client.event(event)
    page = client.page()
    mission = page.partition("## Mission\n")[2].partition("\n## ")[0]
    assert mission.startswith(ASKED)
    assert "Then: Then rename heat to preheat" in mission
    assert "- [x] Write the steps" in page
    assert "- [ ] Run the tests (marked done by the agent; contradicted: the last run of the tests ended" in page
    assert 'Contradicted: the agent said "All tests pass."' in page
    assert "Last command: ./test-oven.sh: exit code 1" in page
    assert "oven.py (1 edit)" in page
    assert "rye-and-salt" not in page
    assert "rye-and-salt" not in Path(work.store_url).read_bytes().decode("latin-1")


def test_the_next_session_receives_it(claude: Followed) -> None:
    """The brief has the mission, the open item and what the agent said, though the agent saved nothing."""
    claude.begin()
    bakery(claude.transcript)
    claude.work.run("Write", {"file_path": "a", "content": "x"}, "call_0003")
    claude.event("Stop")
    brief = claude.work.brief("--no-transcripts")
    for part in ("Let the oven preheat", "rename heat to preheat", "[ ] Run the tests", "The agent said last"):
        assert part in brief


def test_what_an_agent_stated_wins(claude: Followed) -> None:
    """Its plan and its next step stay, and what is derived comes in addition."""
    claude.begin()
    bakery(claude.transcript)
    claude.work.run("Write", {"file_path": "a", "content": "x"}, "call_0003")
    claude.event("Stop")
    text = (
        claude.page().replace("- [x] Write the steps", "- [x] Bake bread").replace("- [ ] Run the tests", "- [ ] Sell")
    )
    head, point, rest = text.partition("## Resumption Point\n")
    (claude.work.root / PAGE).write_text(f"{head}{point}Heat the oven.\n## {rest.partition('## ')[2]}")
    claude.transcript.plan(("Something else", "in_progress"))
    claude.transcript.say("Next step: sweep the floor.")
    claude.work.run("Write", {"file_path": "b", "content": "x"}, "call_0004")
    claude.event("Stop")
    page = claude.page()
    assert "- [x] Bake bread" in page
    assert "Something else" not in page
    assert "Heat the oven." in page
    assert 'The agent said last: "Next step: sweep the floor."' in page


def test_a_turn_of_words_alone_writes_a_page_if_the_person_asked_for_something(claude: Followed) -> None:
    """A correction is on the page, though no call was made; without news there is no checkpoint."""
    claude.begin()
    claude.transcript.ask(ASKED)
    claude.work.run("Read", {"file_path": "a"}, "call_0001")
    claude.event("Stop")
    claude.transcript.ask("No, do not touch the timer.")
    claude.transcript.say("Understood. Shall I keep the old name?")
    claude.event("Stop")
    assert "Then: No, do not touch the timer." in claude.page()
    assert 'The agent asked: "Shall I keep the old name?"' in claude.page()
    made = len(claude.work.facts("checkpoint.created"))
    claude.event("Stop")
    assert len(claude.work.facts("checkpoint.created")) == made == 2


def test_a_spent_share_of_the_budget_writes_it_too(work: HookEventWorkspace, tmp_path: Path) -> None:
    """No event but the call itself comes then."""
    work.policy_file.write_text('policy test v1\ngoal "a test"\nuse file.*\nbudget calls=4\n')
    claude = Followed(work, tmp_path / "home")
    claude.begin()
    bakery(claude.transcript)
    path = str(claude.transcript.save(claude.home))
    for number in range(4):
        asked = work.ask(
            "Read", {"file_path": "a"}, SETTLE, tool_use_id=f"r{number}", transcript_path=path, env={"HOME": str(claude.home)}
        )  # fmt: skip
        assert asked.decision == "allow"
        work.done("Read", {"file_path": "a"}, f"r{number}")
    assert "- [x] Write the steps" in claude.page()


@pytest.mark.parametrize("how", ["option", "in the workspace", "a link"])
def test_transcripts_that_nobody_may_read_are_not_read(claude: Followed, how: str) -> None:
    """By option, through a link, and where an agent could have written one."""
    claude.begin()
    bakery(claude.transcript)
    claude.work.run("Write", {"file_path": "a", "content": "x"}, "call_0003")
    options = ["--no-transcripts"] if how == "option" else []
    if how == "in the workspace":
        claude.home = claude.work.root
    elif how == "a link":
        path = claude.transcript.save(claude.home)
        path.rename(path.with_suffix(".real"))
        path.symlink_to(path.with_suffix(".real"))
        claude.work.tell("Stop", env={"HOME": str(claude.home)}, transcript_path=str(path))
    if how != "a link":
        claude.event("Stop", *options)
    assert "Run the tests" not in claude.page()
    assert "Last command" not in claude.page()


def test_after_a_compaction_the_client_gets_back_what_the_summary_lost(claude: Followed) -> None:
    """A correction that the summary lacks is there, once; what the summary repeats is not."""
    claude.begin()
    claude.transcript.ask(ASKED)
    claude.transcript.say("I begin.")
    claude.transcript.ask("No: never touch the timer module, the display team owns it.")
    claude.event("PreCompact")
    claude.transcript.record("system", subtype="compact_boundary")
    summary = f"This session is being continued from a previous conversation. The user asked: {ASKED}"
    claude.transcript.record("user", message={"role": "user", "content": summary}, isCompactSummary=True)
    text = json.loads(claude.event("SessionStart", source="compact").out)["hookSpecificOutput"]["additionalContext"]
    assert text.count("never touch the timer module") == 1
    assert "preheat" not in text
    assert claude.event("SessionStart", source="resume").out == ""


def test_a_client_that_is_killed_in_a_call_leaves_what_its_transcript_says(claude: Followed) -> None:
    """No event came after its last call. The next session reads the transcript, and learns of the session once."""
    claude.begin()
    bakery(claude.transcript)
    claude.transcript.save(claude.home)
    claude.work.ask("Write", {"file_path": "a", "content": "x"}, SETTLE, tool_use_id="call_0009")
    told = claude.work.tell("SessionStart", env={"HOME": str(claude.home)}, source="startup", session_id="s2")
    text = json.loads(told.out)["hookSpecificOutput"]["additionalContext"]
    assert "[ ] Run the tests" in text
    assert "rename heat to preheat" in text
    assert "left a session" not in text
    assert text.count("Let the oven preheat") == 1
