"""What the agent claimed, compared with the evidence: held, contradicted or unproved.

Claims are looked for in the agent's last answers and in its plan. Evidence is the exit code of a command, the result of an edit, and
what is there now; a sentence of the agent is evidence of nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

import msgspec

from adjourn.sessions.evidence import Evidence
from adjourn.sessions.story import MAX_ANSWERS, MAX_PROMPTS, AgentAnswer, Prompt, SessionCall, SessionStory

ANSWERS = 6
"""Last answers in which claims are looked for: more than the page quotes."""
MAX_VERDICTS = 12

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_NOT = re.compile(
    r"(?i)\b(?:not|no|never|cannot|failed|fails|failing|unless|until|once|if|should|would|will|must|next|todo|to be|before|remaining|unknown|whether)\b|n't\b"
)
_TESTS = re.compile(
    r"(?i)\btests?\b.{0,40}\b(?:pass(?:es|ed|ing)?|green|succeed(?:s|ed)?)\b|\b(?:suite|build|everything) (?:is |are )?(?:green|passing)\b|\b(?:pass|passed|passing) all\b.{0,20}\btests?\b"
)
_DONE = re.compile(
    r"(?i)\b(?:is|are|was|were|now|all|have been|has been)\s+(?:\w+\s+)?(?:complete|completed|done|finished|fixed|implemented|ready|working|warm|migrated|renamed|deployed|released|published|installed)\b|^(?:done|finished|completed|fixed)\b"
)
_PUSHED = re.compile(r"(?i)\bpushed\b")
_COMMITTED = re.compile(r"(?i)\bcommitted\b")
_FILE = re.compile(
    r"(?i)\b(?:created|wrote|added|written|updated|saved)\s+(?:the file\s+)?[`'\"]?([\w][\w./-]{0,200}\.\w{1,8})\b"
)
_PUSH_CALL = re.compile(r"\bgit\b[^|;&]*\bpush\b")
_COMMIT_CALL = re.compile(r"\bgit\b[^|;&]*\bcommit\b")


class Verdict(msgspec.Struct, kw_only=True):
    """What adjourn says of one claim. `claim` is the agent's sentence where `is_quoted`, else what adjourn calls it; `about` is the agent's
    text that it is about.
    """

    verdict: Literal["held", "contradicted", "unproved"]
    claim: str
    evidence: str
    words: str = ""
    about: str = ""
    is_quoted: bool = False
    step: int = 0


def judge(story: SessionStory, world: Evidence) -> list[Verdict]:
    """The verdicts, contradictions first."""
    verdicts = [*_of_answers(story, world), *_of_plan(story), *_of_files(story, world)]
    order = ("contradicted", "unproved", "held")
    return sorted(verdicts, key=lambda verdict: order.index(verdict.verdict))[:MAX_VERDICTS]


def last_test(story: SessionStory, before: int = 0) -> SessionCall | None:
    """The last run of the tests; before a step, if one is given."""
    tests = [call for call in story.calls if call.is_test and (not before or call.step < before)]
    return tests[-1] if tests else None


def edited_after(story: SessionStory, step: int, before: int = 0) -> list[str]:
    """The files whose edits worked after a step."""
    return [
        os.path.basename(change.path.replace("\\", "/"))
        for change in story.changes.values()
        if change.last > step and (not before or change.last < before)
    ]


@lru_cache(maxsize=MAX_ANSWERS)
def sentences(text: str) -> tuple[str, ...]:
    """The sentences of a text."""
    return tuple(sentence.strip() for sentence in _SENTENCE.split(text[:8000])[:200] if sentence.strip())


def _of_answers(story: SessionStory, world: Evidence) -> Iterator[Verdict]:
    answers = [answer for answer in story.answers if not answer.is_summary and len(answer.text) > 3]
    told: set[str] = set()
    for answer in reversed(answers[-ANSWERS:]):
        has_claim = False
        for sentence in sentences(answer.text):
            if _NOT.search(sentence):
                continue
            for verdict in _of_sentence(sentence, answer, story, world):
                has_claim = True
                if verdict.evidence not in told:
                    told.add(verdict.evidence)
                    yield verdict
        if not has_claim and (call := _last_call(story, answer.step)) and call.outcome != "ok" and not call.is_test:
            evidence = f"the call before that answer {_ended(call)}"
            if evidence not in told and answer is answers[-1] and call.outcome in ("refused", "failed"):
                told.add(evidence)
                yield Verdict(
                    verdict="unproved", claim="what the agent said last", evidence=evidence, words=call.what, step=answer.step
                )  # fmt: skip


def _of_sentence(sentence: str, answer: AgentAnswer, story: SessionStory, world: Evidence) -> Iterator[Verdict]:
    if _TESTS.search(sentence):
        yield _tests(sentence, answer, story)
    elif _PUSHED.search(sentence):
        yield _command(sentence, answer, story, _PUSH_CALL, "a push")
    elif _COMMITTED.search(sentence):
        yield _command(sentence, answer, story, _COMMIT_CALL, "a commit")
    elif match := _FILE.search(sentence):
        yield _named_file(sentence, match[1], answer, world)
    elif _DONE.search(sentence):
        yield _done(answer, story)


def _tests(sentence: str, answer: AgentAnswer, story: SessionStory) -> Verdict:
    test = last_test(story, answer.step)
    if test is None:
        return Verdict(
            verdict="unproved",
            claim=sentence,
            is_quoted=True,
            evidence="no run of the tests is recorded before it",
            step=answer.step,
        )
    if test.outcome != "ok":
        return Verdict(
            verdict=_against(test), claim=sentence, is_quoted=True, evidence=f"the last run of the tests before it {_ended(test)}",
            words=_last_words(test), step=answer.step,
        )  # fmt: skip
    if later := edited_after(story, test.step, answer.step):
        return Verdict(
            verdict="unproved", claim=sentence, is_quoted=True, step=answer.step,
            evidence=f"the last run of the tests is older than the code: edited after it: {', '.join(map(_code, later[:5]))}",
        )  # fmt: skip
    return Verdict(
        verdict="held",
        claim=sentence,
        is_quoted=True,
        evidence=f"the last run of the tests {_ended(test)}",
        step=answer.step,
    )


def _command(sentence: str, answer: AgentAnswer, story: SessionStory, pattern: re.Pattern[str], what: str) -> Verdict:
    calls = [
        call for call in story.calls if call.kind == "run" and call.step < answer.step and pattern.search(call.what)
    ]
    if not calls:
        return Verdict(
            verdict="unproved",
            claim=sentence,
            is_quoted=True,
            evidence=f"{what} is not recorded before it",
            step=answer.step,
        )
    last = calls[-1]
    return Verdict(
        verdict="held" if last.outcome == "ok" else _against(last), claim=sentence, is_quoted=True, evidence=f"it {_ended(last)}",
        words="" if last.outcome == "ok" else last.what, step=answer.step,
    )  # fmt: skip


def _named_file(sentence: str, name: str, answer: AgentAnswer, world: Evidence) -> Verdict:
    files = [file for file in world.files.values() if file.name == name or file.name.endswith(f"/{name}")]
    if not files:
        return Verdict(
            verdict="unproved",
            claim=sentence,
            is_quoted=True,
            evidence=f"no edit of {_code(name)} is recorded",
            step=answer.step,
        )
    is_there = any(file.is_there for file in files)
    return Verdict(
        verdict="held" if is_there else "contradicted", claim=sentence, is_quoted=True, step=answer.step,
        evidence=f"{_code(name)} is {'there' if is_there else 'not there'} now",
    )  # fmt: skip


def _done(answer: AgentAnswer, story: SessionStory) -> Verdict:
    claim = "The agent said that the work is done."
    call = _last_call(story, answer.step)
    if call is not None and call.outcome not in ("ok", "unrecorded"):
        return Verdict(
            verdict="contradicted",
            claim=claim,
            evidence=f"the last call before that {_ended(call)}",
            words=call.what,
            step=answer.step,
        )
    test = last_test(story, answer.step)
    if test is not None and test.outcome != "ok":
        return Verdict(
            verdict=_against(test), claim=claim, evidence=f"the last run of the tests {_ended(test)}", step=answer.step
        )
    failed = [change for change in story.changes.values() if change.failed and not (change.edits or change.unrecorded)]
    if failed:
        return Verdict(
            verdict="contradicted",
            claim=claim,
            evidence=f"no edit of {_code(_name(failed[0].path))} worked",
            step=answer.step,
        )
    evidence = (
        "no run of the tests is recorded"
        if test is None
        else "the tests' last run ended with exit code 0; no other evidence"
    )
    return Verdict(verdict="unproved", claim=claim, evidence=evidence, step=answer.step)


def _of_plan(story: SessionStory) -> Iterator[Verdict]:
    for item in story.plan:
        if item.state != "done":
            continue
        for change in story.changes.values():
            if (
                change.failed
                and not (change.edits or change.unrecorded)
                and _name(change.path).lower() in item.text.lower()
            ):
                yield Verdict(
                    verdict="contradicted", claim="Plan item marked done:", about=item.text, step=story.plan_step,
                    evidence=f"no edit of {_code(_name(change.path))} worked ({change.failed} failed)",
                )  # fmt: skip
        if re.search(r"(?i)\btests?\b", item.text) and re.search(r"(?i)\b(?:run|pass|green|execute)", item.text):
            test = last_test(story, story.plan_step)
            if test is None:
                yield Verdict(
                    verdict="unproved",
                    claim="Plan item marked done:",
                    about=item.text,
                    evidence="no run of the tests is recorded",
                    step=story.plan_step,
                )
            elif test.outcome != "ok":
                yield Verdict(
                    verdict=_against(test),
                    claim="Plan item marked done:",
                    about=item.text,
                    evidence=f"the last run of the tests {_ended(test)}",
                    step=story.plan_step,
                )


def _of_files(story: SessionStory, world: Evidence) -> Iterator[Verdict]:
    for path, file in world.files.items():
        change = story.changes[path]
        if change.edits and not file.is_there and not change.is_deleted:
            yield Verdict(
                verdict="contradicted", claim=f"The transcript says that {_code(file.name)} was written.", evidence="the file is not there now",
                step=change.last,
            )  # fmt: skip


def _last_call(story: SessionStory, before: int) -> SessionCall | None:
    """The last call with effects before a step, in the same turn."""
    asked = max((prompt.step for prompt in story.prompts if prompt.step < before), default=0)
    calls = [call for call in story.calls if asked < call.step < before and call.has_effects and call.kind != "list"]
    return calls[-1] if calls else None


def _against(call: SessionCall) -> Literal["contradicted", "unproved"]:
    """The verdict on a claim whose call did not end well, as far as that is recorded."""
    return "unproved" if call.outcome == "unrecorded" else "contradicted"


def _ended(call: SessionCall) -> str:
    if call.code is not None:
        return f"ended with exit code {call.code}"
    return {
        "ok": "ended without an error", "failed": "failed", "refused": "was refused: it did not run",
        "stopped": "was stopped while it ran", "unknown": "has no recorded result",
        "unrecorded": "came back, and the client does not record how it ended",
    }[call.outcome]  # fmt: skip


def _last_words(call: SessionCall) -> str:
    lines = [line.strip() for line in call.words.splitlines() if line.strip()]
    return " / ".join(lines[-2:])


def _code(name: str) -> str:
    """A file's name, which the transcript chose, as code."""
    return "`" + name[:200].replace("`", "'") + "`"


def _name(path: str) -> str:
    return os.path.basename(path.replace("\\", "/"))


# --- what the person asked for in a session, and the next step that its agent stated

_CORRECTION = re.compile(r"(?i)\b(?:no|not|don't|do not|never|instead|keep|stop|only|must|wrong|rather|undo|revert)\b")
_FILLER = re.compile(r"(?i)^(?:continue|go[ ]on|yes|y|ok|okay|proceed|go ahead|please continue|weiter)[.!]?$")
_NEXT = re.compile(
    r"(?i)\b(?:next|remaining|still (?:uses|needs|has|to)|todo|left to do|then I (?:will|would)|unknown)\b"
)


_WORD = re.compile(r"[\w./-]{4,}")
KNOWN = 0.8
"""The share of a prompt's words that a summary has which repeats it."""


def orders_of(story: SessionStory) -> list[Prompt]:
    """The delivered prompts that say more than to continue; all of them where none does."""
    prompts = [prompt for prompt in story.prompts if prompt.is_delivered]
    return [prompt for prompt in prompts if not _FILLER.match(prompt.text.strip())] or prompts


@lru_cache(maxsize=MAX_PROMPTS)
def corrects(prompt: str) -> bool:
    """Whether a prompt has a word of somebody who corrects or forbids."""
    return _CORRECTION.search(prompt) is not None


def newest_sentences(story: SessionStory, pattern: re.Pattern[str]) -> Iterator[tuple[str, int]]:
    """The agent's sentences in which a pattern occurs, and their answer's step, the newest first."""
    for answer in reversed(story.answers):
        for sentence in reversed(sentences(answer.text) if not answer.is_summary else ()):
            if pattern.search(sentence):
                yield sentence, answer.step


def stated_next(story: SessionStory) -> tuple[str, int] | None:
    """The agent's newest sentence about a next step, and its answer's step; None for none."""
    return next(newest_sentences(story, _NEXT), None)


def lost_orders(story: SessionStory) -> list[Prompt]:
    """The prompts that the last compaction removed and its summary does not have: too few of their words occur in it."""
    summary = next((answer for answer in reversed(story.answers) if answer.is_summary), None)
    known = set(_words(summary.text)) if summary is not None else set()
    lost = []
    for prompt in orders_of(story):
        words = _words(prompt.text)
        if prompt.is_kept:
            continue
        if (summary is None or prompt.step < summary.step) and len(known.intersection(words)) < KNOWN * len(words):
            lost.append(prompt)
    return lost


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}


def last_order(story: SessionStory) -> int:
    """The step of the last delivered prompt; 0 for none."""
    return max((prompt.step for prompt in story.prompts if prompt.is_delivered), default=0)
