"""The sixty scenarios: ten of each trade, from 10 to 5,000 calls, ten with troubles, ten with knowledge that changes, and ten long
sessions in which several of these come together.

A scenario is a list of sittings: `CLIENT: ACTS > END`. `work` makes its share of the calls.

Owns: which scenarios there are, and playing one. Must never: judge.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from evaluation.reader import USEFUL, VITAL, Needle, Trap, whole
from evaluation.stage import Stage
from evaluation.story import NEXT, REFUSED, Story
from evaluation.vocabulary import TRADES


class Plot(NamedTuple):
    """A scenario. `spare` are the calls that its budget has beyond those that are made."""

    trade: str
    title: str
    calls: int
    sittings: tuple[str, ...]
    spare: int = 100

    @property
    def has_troubles(self) -> bool:
        """Whether something is wrong at the end. Of no long session: there, what failed succeeds later."""
        return "long" not in self.title and bool({"broken", "red"} & set(" ".join(self.sittings).split()))


PLOTS = (
    Plot("coding", "small, orderly", 10, ("claude-code: work plan > eof",)),
    Plot("coding", "refused writes", 40, ("claude-code: work place tool fail plan work > eof",)),
    Plot("coding", "killed in mid-call", 60, ("claude-code: work fact decide plan work doubt > kill",)),
    Plot("coding", "two agents", 120, ("claude-code: work decide constrain plan > eof", "codex: work fail learn plan > kill")),
    Plot("coding", "a newer plan", 80, ("claude-code: work plan fact work plan work > term",)),
    Plot("coding", "page edited by a person", 50, ("claude-code: work decide plan > eof", "person: page")),
    Plot("coding", "forty facts", 300, ("claude-code: work facts facts constrain learn decide plan work > eof",)),
    Plot("coding", "5,000 calls", 5000, ("claude-code: work constrain decide plan work fail fact work > kill",), 1500),
    Plot("coding", "carried to another machine", 90, ("claude-code: work fact fact decide constrain plan > eof", "person: carry")),
    Plot("coding", "questions", 70, ("claude-code: work ask answered no plan work > term",)),
    Plot("research", "a few facts", 12, ("claude-code: work fact fact fact plan > eof",)),
    Plot("research", "decision overridden", 100, ("claude-code: work decide override fact plan work > eof",)),
    Plot(
        "research", "three clients", 150,
        ("claude-code: work fact plan > eof", "codex: work decide fail > kill", "cursor: work learn constrain plan work > eof"),
    ),
    Plot("research", "progress alone", 30, ("claude-code: work fact steps work > kill",)),
    Plot("research", "hostile texts", 40, ("claude-code: work hostile fact plan work fail > kill",)),
    Plot("research", "records merged", 60, ("claude-code: work fact decide constrain plan > eof", "person: merge")),
    Plot("research", "imported", 25, ("person: import",)),
    Plot(
        "research", "2,000 calls, refusals in the middle", 2000,
        ("claude-code: work place no tool decide work plan fact work > term",), 500,
    ),
    Plot(
        "research", "doubts settled", 80,
        ("claude-code: work plan doubt > kill", "codex: settled work doubt > kill", "claude-code: unhappened plan work > eof"),
    ),
    Plot("research", "another task beside it", 45, ("person: other", "claude-code: work fact plan work > kill")),
    Plot("operations", "waiting for approval", 20, ("claude-code: work fact plan waiting > kill",)),
    Plot("operations", "nobody answered", 35, ("claude-code: work constrain plan unanswered work > eof",)),
    Plot("operations", "three calls in doubt", 50, ("claude-code: work decide plan doubt doubt doubt > kill",)),
    Plot("operations", "budget nearly spent", 200, ("claude-code: work plan work > eof",), 7),
    Plot("operations", "one approved, one denied", 55, ("claude-code: work yes no plan work > term",)),
    Plot("operations", "no checkpoint", 30, ("claude-code: work fail fact doubt > kill",)),
    Plot(
        "operations", "1,000 calls, three clients", 1000,
        ("claude-code: work plan > kill", "codex: work constrain plan > term", "claude-code: work fact fail plan > eof"),
        300,
    ),
    Plot("operations", "in doubt, then carried", 65, ("claude-code: work plan doubt > kill", "codex: work > eof", "person: carry")),
    Plot(
        "operations", "many rules", 110,
        ("claude-code: work constrain constrain constrain constrain decide decide decide override answered facts plan work > term",),
    ),
    Plot(
        "operations", "everything", 3000,
        (
            "person: other",
            "claude-code: work fact place fail decide plan doubt > kill",
            "codex: settled work no override constrain answered facts > term",
            "cursor: work tool learn ask fail plan work doubt > kill",
        ),
        900,
    ),
    Plot("coding", "failed publication", 20, ("claude-code: work plan broken > eof",)),
    Plot("coding", "failed publication, killed", 40, ("claude-code: work broken work plan > kill", "codex: work > kill")),
    Plot("coding", "red tests", 30, ("claude-code: work red plan work > eof", "codex: work plan > term")),
    Plot("coding", "red tests and a failed publication", 50, ("claude-code: work plan red broken fact work > eof",)),
    Plot("research", "failed survey", 25, ("claude-code: work fact plan broken work > term",)),
    Plot("research", "one mended, one not", 35, ("claude-code: work broken broken plan > eof", "codex: mended work plan > eof")),
    Plot("research", "failed and in doubt", 30, ("claude-code: work broken plan doubt > kill",)),
    Plot("operations", "failed mail", 60, ("claude-code: work decide plan broken work > eof", "codex: work constrain > eof")),
    Plot("operations", "failed, then carried", 45, ("claude-code: work plan broken > eof", "person: carry")),
    Plot("operations", "two failed, a newer plan", 200, ("claude-code: work broken plan > kill", "codex: work broken plan work > term")),
    Plot("coding", "a stale fact", 40, ("claude-code: work fact stale plan work > eof",)),
    Plot("coding", "stale facts among others", 80, ("claude-code: work facts stale stale decide plan > kill", "codex: work fact > eof")),
    Plot("coding", "decisions revised", 50, ("claude-code: work decide revise revise contradict plan work > eof",)),
    Plot("coding", "a result that is gone", 30, ("claude-code: work fact plan gone > eof",)),
    Plot("research", "facts withdrawn", 40, ("claude-code: work facts withdraw withdraw plan work > term",)),
    Plot("research", "revised, withdrawn and stale", 90, ("claude-code: work revise withdraw contradict plan > kill", "codex: work stale outrun > eof")),
    Plot("research", "a reason", 30, ("claude-code: work fact plan reason work > eof",)),
    Plot("operations", "an effect claimed elsewhere", 25, ("claude-code: work fact plan claim > kill",)),
    Plot("operations", "claims and calls in doubt", 60, ("claude-code: work plan claim claim doubt > kill", "codex: work > eof")),
    Plot("operations", "reasons and a newer plan", 70, ("claude-code: work reason plan > kill", "codex: work constrain reason plan > eof")),
    Plot(
        "coding", "long: a plan that grew old", 400,
        ("claude-code: work decide outrun work fact work > eof", "codex: work outrun work learn work > term"), 200,
    ),
    Plot(
        "coding", "long: red, green, published", 300,
        ("claude-code: work red decide plan work > eof", "codex: work broken work plan > kill", "claude-code: mended work fact plan > eof"),
    ),
    Plot("coding", "long: between two tasks", 150, ("person: other", "claude-code: work fact plan work doubt > kill", "codex: settled work plan > eof")),
    Plot(
        "coding", "long: files that changed", 250,
        ("claude-code: work stale fact plan work > eof", "codex: work decide stale plan gone work > eof"),
    ),
    Plot("research", "long: a survey of many sources", 500, ("claude-code: work facts learn plan work facts withdraw work > term", "cursor: work constrain plan work > eof")),
    Plot(
        "research", "long: reasons and revisions", 200,
        ("claude-code: work reason revise plan work > term", "codex: work reason revise fact plan work > eof"),
    ),
    Plot("research", "long: questions and answers", 180, ("claude-code: work ask answered fact plan work > term", "codex: work answered decide plan > eof")),
    Plot(
        "operations", "long: certificates renewed", 700,
        ("claude-code: work fail fail constrain plan work fail work doubt > kill", "codex: settled work fail plan work > eof"), 200,
    ),
    Plot(
        "operations", "long: a migration over the weekend", 600,
        (
            "claude-code: work constrain decide plan work yes work > eof",
            "codex: work no fail override plan work > term",
            "cursor: work claim doubt > kill",
        ),
        300,
    ),
    Plot(
        "operations", "long: an incident, carried", 220,
        ("claude-code: work fact fail plan doubt > kill", "codex: settled work stale plan work > eof", "person: carry"),
    ),
)  # fmt: skip
SHORT = ("refused writes", "decision overridden", "three calls in doubt", "many rules")
"""The scenarios of the short form: one of each trade, and one whose needles hardly fit into a small room."""
FACTS = 20
_ACTS: dict[str, Callable[[Story], object]] = {
    "plan": lambda story: story.plans(),
    "steps": lambda story: story.plans(point=False),
    "place": lambda story: story.refused_place(),
    "tool": lambda story: story.refused_tool(),
    "fail": lambda story: story.fails(),
    "broken": lambda story: story.breaks(),
    "mended": lambda story: story.mends(),
    "red": lambda story: story.reddens(),
    "yes": lambda story: story.asks_for_approval("yes"),
    "no": lambda story: story.asks_for_approval("no"),
    "waiting": lambda story: story.asks_for_approval(""),
    "unanswered": lambda story: story.unanswered(),
    "doubt": lambda story: story.hangs(),
    "settled": lambda story: story.settles(happened=True),
    "unhappened": lambda story: story.settles(happened=False),
    "fact": lambda story: story.notes("facts"),
    "facts": lambda story: story.notes("facts", FACTS),
    "decide": lambda story: story.notes("decisions"),
    "constrain": lambda story: story.notes("constraints"),
    "learn": lambda story: story.notes("learnings"),
    "stale": lambda story: story.outdates(),
    "revise": lambda story: story.revises(),
    "contradict": lambda story: story.contradicts(),
    "outrun": lambda story: story.outruns(),
    "withdraw": lambda story: story.withdraws(),
    "gone": lambda story: story.loses_result(),
    "claim": lambda story: story.claims(),
    "reason": lambda story: story.denies(),
    "override": lambda story: story.overrides(),
    "ask": lambda story: story.asks(answered=False),
    "answered": lambda story: story.asks(answered=True),
    "hostile": lambda story: story.is_hostile(),
    "other": lambda story: story.other_task(),
    "page": lambda story: story.person_edits_page(),
}
_CALLS = re.compile(r"\b(fail|yes|doubt|hostile|broken|mended|red|outrun)\b")
"""Acts that count a call beside those of `work`."""


class Played(NamedTuple):
    """A scenario that has ended: where a successor finds it, where its history is, and what must be known of it."""

    plot: Plot
    stage: Stage
    home: Stage
    checkpoint: str
    needles: list[Needle]
    traps: list[Trap]


def play(plot: Plot, seed: int, folder: Path) -> Played:
    """Play a scenario in a folder of its own. The same seed gives the same texts."""
    trade = TRADES[plot.trade]
    rng = random.Random(f"{seed} {plot.trade} {plot.title}")
    folder.mkdir()
    is_broken = any("broken" in sitting for sitting in plot.sittings)
    rules = [f"checkpoint before {trade.sends.name}"] if is_broken else []
    stage = Stage(folder, trade.tools, [*trade.policy(), *rules])
    used = plot.calls + sum(len(_CALLS.findall(sitting)) for sitting in plot.sittings)
    story = Story(stage, trade, rng, used + plot.spare)
    with stage:
        if "import" not in plot.sittings[0]:
            story.goal()
        works = sum(sitting.split().count("work") for sitting in plot.sittings)
        shares = [plot.calls // works + (number < plot.calls % works) for number in range(works)]
        for sitting in plot.sittings:
            _sit(story, sitting, shares)
        story.spent(used)
    if not story.checkpoint:  # nobody saved one: the next session start does
        story.stage.told_by_hook()
        story.checkpoint = story.stage.checkpoints()[0]
    return Played(plot, story.stage, story.home, story.checkpoint, story.needles, story.traps)


def _sit(story: Story, sitting: str, shares: list[int]) -> None:
    client, _, rest = sitting.partition(": ")
    acts, _, end = rest.partition(" > ")
    words = acts.split()
    if client == "person":
        for word in words:
            _BY_PERSON.get(word, _ACTS.get(word, _nothing))(story)
        return
    story.begin(client, *(("--confirm-timeout", "1") if "unanswered" in words else ()))
    for word in words:
        if word == "work":
            story.work(shares.pop(0))
        else:
            _ACTS[word](story)
    story.end(end)


def _nothing(story: Story) -> None:
    raise AssertionError("no such act")


# --- what people do between sessions


def _carry(story: Story) -> None:
    """The workspace without its store goes to another machine, whose user trusts the key of the first."""
    here = story.stage
    there = Stage(_beside(here), story.trade.tools, story.trade.policy())  # its policy is copied, too
    shutil.copytree(here.root, there.root, dirs_exist_ok=True, ignore=shutil.ignore_patterns("adjourn.db*"))
    there.person("keys", "trust", "colleague", here.person("keys", "show").out.strip())
    story.stage = there


def _merge(story: Story) -> None:
    """The record goes to another machine, is changed there and here, and is merged."""
    here = story.stage
    there = Stage(_beside(here), story.trade.tools, story.trade.policy())
    sent, back = here.base / "sent.jsonl", here.base / "back.jsonl"
    here.person("record", "export", "--to", str(sent))
    there.person("record", "import", str(sent))
    shown = there.person("record", "show", "--json").json
    story.stage = there
    story.replaces_decision(shown)
    there.person("record", "export", "--to", str(back))
    story.stage = here
    story.begin("codex")
    story.notes("facts")
    story.end("eof")
    here.person("record", "import", str(back), "--as", "theirs")
    here.person("record", "merge", story.record(), "theirs")


def _import(story: Story) -> None:
    """A checkpoint in the published format, made by another program, is imported."""
    trade, author = story.trade, story.author
    story.checkpoint = author.name()
    step, path = author.say("steps"), author.path()
    used = 25
    stamp = "2026-01-02T03:04:05.678Z"
    history = [{"tool": trade.writes.name, "timestamp": stamp, "decision": "forward"} for _ in range(used - 1)]
    history.append({"tool": trade.checks.name, "timestamp": stamp, "decision": "forward"})
    history.append({"tool": trade.banned.name, "timestamp": stamp, "decision": "block", "reason": "deny_list"})
    published = {
        "name": story.checkpoint, "description": f"Wrote {path}. Next: {step.text}", "timestamp": stamp,
        "callsUsed": used, "budget": story.budget, "toolHistory": history,
    }  # fmt: skip
    story.stage.write_policy(*trade.policy(story.budget))
    folder = story.stage.base / "published" / story.checkpoint
    folder.mkdir(parents=True)
    (folder / "checkpoint.json").write_text(json.dumps(published, indent=2))
    kinds = {"forward": "tool.allowed", "block": "tool.denied"}
    lines = [
        {
            "event": kinds[str(one["decision"])],
            "data": {name: one[name] for name in ("tool", "reason") if name in one},
            "timestamp": stamp,
        }
        for one in history
    ]
    (folder / "audit.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    story.stage.person("checkpoint", "import", str(folder))
    within = rf"{NEXT}|descri|\bsaid\b"
    story.needles += [
        Needle("next step", VITAL, step.keys, within, ("Next step", step.text)),
        Needle("artifact", USEFUL, (whole(path),), "", ("Artifacts", path)),
        Needle("tool used", USEFUL, (re.escape(trade.checks.name),), "", ("What was done", trade.checks.name)),
        Needle("refusal of a tool", VITAL, (re.escape(trade.banned.name),), REFUSED, ("Refused", f"{trade.banned.name}: denied")),
    ]  # fmt: skip


def _beside(stage: Stage) -> Path:
    folder = stage.base / "elsewhere"
    folder.mkdir()
    return folder


_BY_PERSON: dict[str, Callable[[Story], object]] = {"carry": _carry, "merge": _merge, "import": _import}


def named(titles: Sequence[str]) -> list[Plot]:
    """The scenarios of these titles; all of them for none."""
    return [plot for plot in PLOTS if not titles or plot.title in titles]
