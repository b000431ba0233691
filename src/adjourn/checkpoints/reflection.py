"""Statistics over archived chains of checkpoints, and the heuristics that follow from them. Both depend on the chains only.

Each chain to which a statement applies supports it, or does not. The statement becomes a heuristic if at least `SUPPORT` chains support
it, and chains that support it with a chance of one half would be so many with a probability below `ERROR`, divided by the number of
statements that were examined (an exact binomial test: the lower bound of the share is above one half). It is examined for all chains, and
for those of each mission. A heuristic that loses its support is withdrawn.
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
"""Chains that a heuristic needs at least to support it, and a mission to be examined by itself."""
ERROR = 0.05
"""The probability of any false heuristic in a history without a pattern, at most."""
MANY_LOST = 10
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
    mission: str = ""
    todo: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()


class Statistic(NamedTuple):
    """A statistic over `n` chains, of which `support` support its statement (-1: it makes none): its `value` as text, the `heuristic`
    that follows ("" for none), ids of checkpoints as `evidence`, and `against` it.
    """

    name: str
    title: str
    n: int
    value: str
    support: int = -1
    heuristic: str = ""
    evidence: tuple[str, ...] = ()
    against: tuple[str, ...] = ()

    @property
    def rate(self) -> float:
        """The share of the chains that support the statement; -1 where there are none."""
        return self.support / self.n if self.n and self.support >= 0 else -1.0


Chain = Sequence[Indexed]


def chains_of(entries: Iterable[Indexed]) -> list[Chain]:
    """The entries by task, each chain in its order."""
    by_task: dict[str, dict[str, Indexed]] = defaultdict(dict)
    for entry in entries:
        by_task[entry.task][entry.id] = entry
    return [sorted(chain.values(), key=lambda one: (one.time, one.seq, one.id)) for _, chain in sorted(by_task.items())]


def statistics(chains: Sequence[Chain]) -> list[Statistic]:
    """The statistics over all chains, in a fixed order, and behind them the heuristics that hold for one mission only."""
    groups = _by_mission(chains)
    looked_at = len(STATEMENTS) * (1 + len(groups))
    over_all = [_best(chains, named, looked_at) for named in _by_name().values()]
    found = {statistic.name for statistic in over_all if statistic.heuristic}
    of_groups = [
        statistic._replace(heuristic=f'for "{_short(mission)}": {statistic.heuristic}')
        for mission, group in groups.items()
        for name, named in _by_name().items()
        if name not in found and (statistic := _best(group, named, looked_at)).heuristic
    ]
    return [*over_all, *of_groups, _resumes(chains)]


def _by_mission(chains: Sequence[Chain]) -> dict[str, list[Chain]]:
    """The chains of each mission that has enough of them, if there are several missions."""
    groups: dict[str, list[Chain]] = defaultdict(list)
    for chain in chains:
        groups[chain[-1].mission].append(chain)
    return {name: group for name, group in sorted(groups.items()) if name and SUPPORT <= len(group) < len(chains)}


def is_supported(support: int, n: int, looked_at: int) -> bool:
    """Whether more than half of all chains support a statement, as far as `support` of `n` tell."""
    if support < SUPPORT:
        return False
    by_chance = sum(math.comb(n, count) for count in range(support, n + 1))
    return by_chance * looked_at < ERROR * (1 << n)


# --- the statements


class CandidateRule(NamedTuple):
    """What chains may support. `vote` returns whether a chain does, None where it does not apply, and the checkpoints that say so; `then`
    the heuristic, given the chains that support it.
    """

    name: str
    title: str
    value: str
    vote: Callable[[Chain], tuple[bool | None, list[Indexed]]]
    then: Callable[[Sequence[Chain]], str]


def _best(chains: Sequence[Chain], statements: Sequence[CandidateRule], looked_at: int) -> Statistic:
    """The one of alternative statements that most chains support; of equal ones the middle."""
    examined = [_examined(chains, one, looked_at) for one in statements]
    most = max(one.support for one in examined)
    best = [one for one in examined if one.support == most]
    return best[(len(best) - 1) // 2]


def _examined(chains: Sequence[Chain], statement: CandidateRule, looked_at: int) -> Statistic:
    votes = [(chain, *statement.vote(chain)) for chain in chains]
    support = [(chain, proof) for chain, holds, proof in votes if holds]
    against = [page.id for _, holds, proof in votes if holds is False for page in proof]
    n = sum(holds is not None for _, holds, _ in votes)
    value = f"{len(support)} of {n} {statement.value}" if n else ""
    plain = Statistic(statement.name, statement.title, n, value, len(support))
    if not is_supported(len(support), n, looked_at):
        return plain
    evidence = [proof[-1].id for _, proof in support if proof]
    return plain._replace(
        heuristic=statement.then([chain for chain, _ in support]),
        evidence=tuple(evidence[-MAX_EVIDENCE:]),
        against=tuple(against[-MAX_EVIDENCE:]),
    )


def _at(middle: int) -> CandidateRule:
    """That most checkpoints of a task are made within ten points of a share of the budget."""

    def vote(chain: Chain) -> tuple[bool | None, list[Indexed]]:
        placed = [link for link in chain if _is_placed(link)]
        near = [link for link in placed if abs(link.used * 100 - middle * link.budget) <= 10 * link.budget]
        return (len(near) * 2 > len(placed), near or placed) if placed else (None, [])

    then = f"checkpoints are made at about {middle} % of the budget; make it a rule: `checkpoint at {middle}%`"
    value = f"make checkpoints at about {middle} % of the budget"
    return CandidateRule("position", "budget at checkpoint", value, vote, lambda _: then)


def _age(chain: Chain) -> tuple[bool | None, list[Indexed]]:
    resumed = [link for link in chain if link.resumes]
    old = [link for link in resumed if any(resume.age > DAY for resume in link.resumes)]
    return (not old, old or resumed) if resumed else (None, [])


def _rolled_back(chain: Chain) -> tuple[bool | None, list[Indexed]]:
    failed = [link for link in chain if link.failed]
    back = [link for link in failed if link.rolled_back]
    return (len(back) * 2 > len(failed), back or failed) if failed else (None, [])


def _prepare(chains: Sequence[Chain]) -> str:
    tools = Counter(link.trigger.removeprefix("before ") for chain in chains for link in chain if link.rolled_back)
    tool = min(tools, key=lambda name: (-tools[name], name))
    return f"failed destructive steps are rolled back, mostly {tool}: prepare the rollback before"


def _spent(chain: Chain) -> tuple[bool | None, list[Indexed]]:
    ended = [(link, end) for link in chain if link.budget > 0 for end in link.endings]
    spent = [link for link, end in ended if end.used >= link.budget]
    return (len(spent) * 2 > len(ended), spent or [link for link, _ in ended]) if ended else (None, [])


def _raise(chains: Sequence[Chain]) -> str:
    budgets = Counter(link.budget for chain in chains for link in chain if link.budget > 0)
    budget = min(budgets, key=lambda size: (-budgets[size], size))
    return f"the budget of {budget} calls ends the sessions: raise it, or plan the work for several sessions"


def _lost(chain: Chain) -> tuple[bool | None, list[Indexed]]:
    ended = [(link, end) for link in chain for end in link.endings]
    much = [link for link, end in ended if end.lost > MANY_LOST]
    return (len(much) * 2 > len(ended), much or [link for link, _ in ended]) if ended else (None, [])


def _lasting(
    chain: Chain, of: Callable[[Indexed], tuple[str, ...]], sessions: int
) -> tuple[bool | None, list[Indexed]]:
    """Whether the last pages of some sessions have one and the same item; only where there were so many sessions."""
    last = list({link.session: link for link in chain}.values())
    if len(last) < sessions or not any(map(of, last)):
        return None, []
    counts = Counter(item for page in last for item in of(page))
    lasting = {item for item, count in counts.items() if count >= sessions}
    return bool(lasting), [page for page in last if lasting.intersection(of(page))] or last[-1:]


def _recreated(chain: Chain) -> tuple[bool | None, list[Indexed]]:
    remade = [link for link in chain if link.recreated]
    return (bool(remade), remade or list(chain[-1:])) if len({link.session for link in chain}) > 1 else (None, [])


STATEMENTS = (
    *(_at(middle) for middle in range(10, 100, 10)),
    CandidateRule("age", "age at resume", "are resumed within 24 h only", _age,
        lambda _: "work is resumed within 24 hours; verify first what is older"),
    CandidateRule("rollback", "destructive failures", "roll failed destructive steps back", _rolled_back, _prepare),
    CandidateRule("budget", "budget spent", "end most sessions by it", _spent, _raise),
    CandidateRule("lost", "calls lost at the end", f"lose more than {MANY_LOST} calls at the end of most sessions", _lost,
        lambda _: f"make a checkpoint every {MANY_LOST} calls: sessions lose more at their end"),
    CandidateRule("stuck", "items stuck", "keep an item undone over three sessions",
        lambda chain: _lasting(chain, lambda link: link.todo, 3),
        lambda _: "items stay undone over three sessions: ask a person, or split them"),
    CandidateRule("question", "questions open", "keep a question open over two sessions",
        lambda chain: _lasting(chain, lambda link: link.questions, 2),
        lambda _: "questions stay open over sessions: raise them earlier, or set a default"),
    CandidateRule("artifacts", "artifacts remade", "make an artifact again", _recreated,
        lambda _: "artifacts are made again: read Artifacts Produced first"),
)  # fmt: skip
"""All statements that are examined. Those of one name are alternatives."""


def _by_name() -> dict[str, list[CandidateRule]]:
    named: dict[str, list[CandidateRule]] = defaultdict(list)
    for statement in STATEMENTS:
        named[statement.name].append(statement)
    return named


def _resumes(chains: Sequence[Chain]) -> Statistic:
    counts = [sum(len(link.resumes) for link in chain) for chain in chains]
    first = [r.first_action for chain in chains for link in chain for r in link.resumes if r.first_action >= 0]
    value = f"{sum(counts)} over all" if chains else ""
    if first:
        value += f", first call after {percentile(first, 50) / 1000:.0f} s (median)"
    return Statistic("resumes", "resumes", len(chains), value)


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
    evidence = " ".join(id_[:12] for id_ in statistic.evidence)
    against = f"; not: {' '.join(id_[:12] for id_ in statistic.against)}" if statistic.against else ""
    return f"- `{statistic.name}`: {statistic.heuristic} ({statistic.support} of {statistic.n} tasks; evidence: {evidence}{against})"
