"""Statistics over archived chains of checkpoints, and the heuristics that follow from them. Both depend on the chains only.

A statistic yields a heuristic if at least `SUPPORT` chains support it; a heuristic that loses its support is withdrawn.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from adjourn.tasks.ledger import AT_SHARE
from adjourn.text.fitting import fit_text

SUPPORT = 5
"""Chains that a heuristic needs."""
DAY = 86_400_000
HEADING = "## Checkpoint heuristics"
MAX_EVIDENCE = 5
_LINE = re.compile(r"- `([a-z-]+)`: ")


class ResumeFact(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A session that resumed from a checkpoint: when, the checkpoint's age, and the delay of the first call (-1: none), all in
    milliseconds.
    """

    at: int
    age: int
    first_action: int = -1


class SessionEnding(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A session that ended after a checkpoint: the calls used by then, and the calls since the checkpoint."""

    reason: str
    used: int
    lost: int


class Indexed(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A line of `index.jsonl`: an archived checkpoint and what came after it. `time` is in milliseconds, `session` counts
    from 0.
    """

    id: str
    task: str
    file: str
    time: int
    trigger: str
    status: str
    used: int
    resumed_count: int
    seq: int = -1
    parent: str = ""
    budget: int = -1
    session: int = 0
    failed: bool = False
    rolled_back: bool = False
    resumes: tuple[ResumeFact, ...] = ()
    endings: tuple[SessionEnding, ...] = ()
    recreated: tuple[str, ...] = ()
    todo: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()


class Statistic(NamedTuple):
    """A statistic over `n` chains: its `value` as text, the `rate` of cases (0 to 1; -1: not applicable), the `heuristic` that
    follows ("" for none), and ids of checkpoints as `evidence`.
    """

    name: str
    title: str
    n: int
    value: str
    rate: float = -1.0
    heuristic: str = ""
    evidence: tuple[str, ...] = ()


Chain = Sequence[Indexed]


def chains_of(entries: Iterable[Indexed]) -> list[Chain]:
    """The entries by task, each chain in its order."""
    by_task: dict[str, dict[str, Indexed]] = defaultdict(dict)
    for entry in entries:
        by_task[entry.task][entry.id] = entry
    return [sorted(chain.values(), key=lambda one: (one.time, one.seq, one.id)) for _, chain in sorted(by_task.items())]


def statistics(chains: Sequence[Chain]) -> list[Statistic]:
    """Every statistic, in a fixed order."""
    return [measure(chains) for measure in _MEASURES]


def _statistic(  # noqa: PLR0917  # a row of a table
    name: str, title: str, chains: Sequence[Chain], value: str, rate: float, then: str, evidence: Iterable[str]
) -> Statistic:
    """A statistic over the chains that it applies to. It has a heuristic only with `SUPPORT` chains or more."""
    holds = len(chains) >= SUPPORT
    return Statistic(
        name, title, len(chains), value, rate, then if holds else "", tuple(evidence)[-MAX_EVIDENCE:] if holds else ()
    )


# --- the measures


def _position(chains: Sequence[Chain]) -> Statistic:
    placed = positions(chains)
    values = [ratio for ratio, _ in placed]
    bearing = [chain for chain in chains if any(_is_placed(link) for link in chain)]
    title = "budget at checkpoint"
    if not values:
        return _statistic("position", title, bearing, "", -1, "", ())
    spread = percentile(values, 75) - percentile(values, 25)
    middle = round(percentile(values, 50) * 100)
    then = f"checkpoints are always taken at about {middle} % of the budget; make it a rule: `checkpoint at {middle}%`"
    holds = spread <= 0.1
    value = f"median {middle} %, middle half within {round(spread * 100)} %"
    return _statistic("position", title, bearing, value, -1, then * holds, (id_ for _, id_ in placed))


def _age(chains: Sequence[Chain]) -> Statistic:
    resumes = [(link, resume) for chain in chains for link in chain for resume in link.resumes]
    bearing = [chain for chain in chains if any(link.resumes for link in chain)]
    old = [resume for _, resume in resumes if resume.age > DAY]
    young = [resume for _, resume in resumes if resume.age <= DAY]
    rate = len(old) / len(resumes) if resumes else -1
    worse = bool(old) and bool(young) and _acted(old) < _acted(young)
    then = ""
    if resumes and not old:
        then = "work is never resumed after more than 24 hours; verify first what is older"
    elif worse:
        then = f"resumes after more than 24 hours succeed less often ({_acted(old):.0%}, else {_acted(young):.0%}); verify first"
    value = f"{len(old)} of {len(resumes)} resumes after more than 24 h" if resumes else ""
    return _statistic("age", "age at resume", bearing, value, rate, then, (page.id for page, _ in resumes))


def _acted(resumes: Sequence[ResumeFact]) -> float:
    return sum(resume.first_action >= 0 for resume in resumes) / len(resumes)


def _destructive(chains: Sequence[Chain]) -> Statistic:
    failed = [link for chain in chains for link in chain if link.failed]
    bearing = [chain for chain in chains if any(link.failed for link in chain)]
    back = [page for page in failed if page.rolled_back]
    rate = len(back) / len(failed) if failed else -1
    tools = Counter(page.trigger.removeprefix("before ") for page in back)
    tool = min(tools, key=lambda name: (-tools[name], name), default="")
    then = f"prepare the rollback before {tool}" if rate >= 0.5 else ""
    value = f"{len(back)} of {len(failed)} failed destructive steps rolled back" if failed else ""
    return _statistic("rollback", "destructive failures", bearing, value, rate, then, (page.id for page in back))


def _budget(chains: Sequence[Chain]) -> Statistic:
    endings = [(link, end) for chain in chains for link in chain if link.budget > 0 for end in link.endings]
    bearing = [chain for chain in chains if any(link.endings and link.budget > 0 for link in chain)]
    spent = [(page, end) for page, end in endings if end.used >= page.budget]
    rate = len(spent) / len(endings) if endings else -1
    typical = percentile([end.used / page.budget for page, end in endings], 50) if endings else 0
    need = math.ceil(percentile([max(link.used for link in chain) for chain in bearing], 90)) if bearing else 0
    need = max(need, max((end.used for _, end in spent), default=0))
    then = f"raise the budget: nine of ten tasks took up to {need} calls" if rate >= 0.5 and typical >= 1 else ""
    value = f"{len(spent)} of {len(endings)} sessions ended by it" if endings else ""
    return _statistic("budget", "budget spent", bearing, value, rate, then, (page.id for page, _ in spent))


def _lost(chains: Sequence[Chain]) -> Statistic:
    values = lost(chains)
    bearing = [chain for chain in chains if any(link.endings for link in chain)]
    if not values:
        return _statistic("lost", "calls lost at the end", bearing, "", -1, "", ())
    high, middle = percentile(values, 90), max(1, round(percentile(values, 50)))
    then = f"make a checkpoint every {middle} calls: sessions lose up to {high:.0f} at their end"
    evidence = (link.id for chain in chains for link in chain if any(end.lost for end in link.endings))
    value = f"median {percentile(values, 50):.0f}, nine of ten up to {high:.0f}"
    return _statistic("lost", "calls lost at the end", bearing, value, -1, then * (high > 10), evidence)


def _stuck(chains: Sequence[Chain]) -> Statistic:
    lasting = [(item, ids) for chain in chains for item, ids in _lasting(chain, lambda one: one.todo, 3)]
    return _lasting_statistic(
        "stuck", "items stuck", chains, lasting, "stuck on {}: ask a person, or split it", least=1
    )


def _unanswered(chains: Sequence[Chain]) -> Statistic:
    lasting = [(item, ids) for chain in chains for item, ids in _lasting(chain, lambda one: one.questions, 2)]
    return _lasting_statistic(
        "question", "questions open", chains, lasting,
        "questions stay open over sessions, such as {}: raise them earlier, or set a default", least=2,
    )  # fmt: skip


def _lasting(chain: Chain, of: Callable[[Indexed], tuple[str, ...]], sessions: int) -> list[tuple[str, list[str]]]:
    """The items that the last pages of at least `sessions` sessions have, each with the ids of those pages."""
    last = {link.session: link for link in chain}
    seen: dict[str, list[str]] = defaultdict(list)
    for page in last.values():
        for item in of(page):
            seen[item].append(page.id)
    return [(item, ids) for item, ids in seen.items() if len(ids) >= sessions]


def _lasting_statistic(
    name: str, title: str, chains: Sequence[Chain], lasting: list[tuple[str, list[str]]], then: str, *, least: int
) -> Statistic:
    items = Counter(item for item, _ in lasting)
    item = min(items, key=lambda other: (-items[other], other), default="")
    rate = len({id_ for _, ids in lasting for id_ in ids[:1]}) / len(chains) if chains else -1
    heuristic = then.format(f'"{_short(item)}"') if len(lasting) >= least else ""
    evidence = (id_ for other, ids in lasting if other == item for id_ in ids)
    return _statistic(name, title, chains, f"{len(lasting)}" if chains else "", rate, heuristic, evidence)


def _recreated(chains: Sequence[Chain]) -> Statistic:
    remade = [(link, path) for chain in chains for link in chain for path in link.recreated]
    rate = len({page.task for page, _ in remade}) / len(chains) if chains else -1
    then = "read Artifacts Produced first: what is listed there was made again" if remade else ""
    value = f"{len(remade)}" if chains else ""
    return _statistic("artifacts", "artifacts remade", chains, value, rate, then, (page.id for page, _ in remade))


def _resumes(chains: Sequence[Chain]) -> Statistic:
    counts = [sum(len(link.resumes) for link in chain) for chain in chains]
    first = [r.first_action for chain in chains for link in chain for r in link.resumes if r.first_action >= 0]
    value = f"{sum(counts)} over all" if chains else ""
    if first:
        value += f", first call after {percentile(first, 50) / 1000:.0f} s (median)"
    return Statistic("resumes", "resumes", len(chains), value)


_MEASURES = (_position, _age, _destructive, _budget, _lost, _stuck, _unanswered, _recreated, _resumes)


def _is_placed(page: Indexed) -> bool:
    """Whether a checkpoint was not made at a share of the budget."""
    return page.budget > 0 and not page.trigger.startswith(AT_SHARE)


def positions(chains: Sequence[Chain]) -> list[tuple[float, str]]:
    """The share of the budget that was used at each checkpoint, and its id, without checkpoints made at a share."""
    return [(link.used / link.budget, link.id) for chain in chains for link in chain if _is_placed(link)]


def ages(chains: Sequence[Chain]) -> list[float]:
    """Hours between a checkpoint and each resume from it."""
    return [resume.age / 3_600_000 for chain in chains for link in chain for resume in link.resumes]


def lost(chains: Sequence[Chain]) -> list[int]:
    """Calls between the last checkpoint and the end of each session."""
    return [end.lost for chain in chains for link in chain for end in link.endings]


def percentile(values: Sequence[float], percent: float) -> float:
    """A percentile (0 to 100), interpolated linearly between the closest ranks."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _short(text: str) -> str:
    return fit_text(" ".join(text.split()), 80)


# --- MEMORY.md


def remembered(text: str, statistics: Sequence[Statistic]) -> str:
    """The text of `MEMORY.md` with its heuristics updated: replaced, added, withdrawn. Everything else stays as it is."""
    lines = text.removesuffix("\n").split("\n") if text else []  # not splitlines: other separators stay as they are
    start = next((at for at, line in enumerate(lines) if line.strip() == HEADING), None)
    ours = [_line_of(statistic) for statistic in statistics if statistic.heuristic]
    if start is None and not ours:
        return text
    if start is None:
        gap = [""] if lines and lines[-1].strip() else []
        return _joined([*lines, *gap, HEADING, *ours])
    end = next((at for at in range(start + 1, len(lines)) if lines[at].startswith(("# ", "## "))), len(lines))
    names = {statistic.name for statistic in statistics}
    texts = [line for line in lines[start + 1 : end] if not ((match := _LINE.match(line)) and match[1] in names)]
    while texts and not texts[0].strip():
        texts.pop(0)
    section = [HEADING, *ours, *texts] if ours or texts else []
    return _joined(
        [
            *lines[:start],
            *section,
            *([""] if section and end < len(lines) and section[-1].strip() else []),
            *lines[end:],
        ]
    )


def _joined(lines: Sequence[str]) -> str:
    return "\n".join(lines).rstrip("\n") + "\n" if any(line.strip() for line in lines) else ""


def _line_of(statistic: Statistic) -> str:
    rate = f", {statistic.rate:.0%}" if statistic.rate >= 0 else ""
    evidence = " ".join(id_[:12] for id_ in statistic.evidence)
    return f"- `{statistic.name}`: {statistic.heuristic} (n={statistic.n}{rate}; evidence: {evidence})"
