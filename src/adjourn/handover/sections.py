"""The sections of a hand-over: which there are, in which order, and what each says.

Owns: the choice, the order and the wording; the share of the room of each. Must never: do I/O, read a clock, or decide how a section
is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from adjourn.aex.policy import Policy
from adjourn.checkpoints.page import AgentReport
from adjourn.handover.calls import UNANSWERED, CallReport, RecentCalls, Refusal
from adjourn.handover.names import ToolNames
from adjourn.handover.rendering import Section, SectionItem
from adjourn.knowledge.brief.lines import Recorded, RecordLine
from adjourn.log.event import milliseconds
from adjourn.tasks.entries import Approval, OpenCall
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.troubles import open_troubles
from adjourn.text.command_lines import telling_argument
from adjourn.text.quoting import said
from adjourn.text.redact import without_secrets

MAX_STEP, MAX_LINE, MAX_ASKED = 2000, 400, 1000
ASKED = "asked"
"""The section with what the person asked for after the task began."""
MAX_RULES = 12
"""Patterns of a policy that are listed of a kind."""
MAX_SHAPE = 40
"""Characters of a pattern of arguments that is listed."""
MAX_ALONE, ALONE_OF_MORE = 4, 2
"""Successes that are shown one by one, whatever the room: all where they are few, of more the newest."""
MAX_LISTED = 6
"""Arguments of repeated calls that are listed; of more, the first and the last."""
IN_FULL = (100, 50, 25, 12, 6, 0)
"""How many of the newest calls are shown one by one, in the wordings of what was done."""
NOTHING_SAID = "no next step was stated"
LAST_DONE = 3
"""Calls that are shown where no next step was stated."""
MAX_TOUCHING = 2
"""Kinds of calls that are shown beside a statement that is older than they are."""
OK, ERROR = "ok", "error"
TIMES = "\N{MULTIPLICATION SIGN}"
RECORD = "adjourn.record, section {}"


class Sources(msgspec.Struct, frozen=True):
    """What a hand-over is made of. `page` is what agent and person wrote on the page, without lines derived from the history.

    `stamp` is now, as a time stamp. `policy` is None where there is none. `stated` says when each part of the page was stated, in
    milliseconds; what is not in it was stated with the last checkpoint that somebody asked for. `others` are other open tasks,
    `gone` the results that are no longer there, `learnt` rules that earlier tasks support, `later` what the person asked for after the
    first prompt, in order.
    """

    ledger: Ledger
    recent: RecentCalls
    page: AgentReport
    recorded: Recorded
    stamp: str
    names: ToolNames
    policy: Policy | None = None
    description: str = ""
    stated: Mapping[str, int] = {}
    others: Sequence[str] = ()
    gone: Sequence[str] = ()
    learnt: Sequence[str] = ()
    later: Sequence[str] = ()

    def effects_after(self, part: str) -> list[CallReport]:
        """The calls with effects since a part of the page was stated that did not fail."""
        ledger, at = self.ledger, self.stated.get(part)
        if at is None or (ledger.stated and at == milliseconds(ledger.stated)):
            return [call for call in self._effects() if call.seq > ledger.stated_seq]
        return [call for call in self._effects() if call.at and milliseconds(call.at) > at]

    def _effects(self) -> Iterable[CallReport]:
        return (call for call in self.recent.made.values() if call.effectful and call.outcome != ERROR)


def sections(sources: Sources) -> tuple[Section, ...]:
    """The sections that are not empty, in their order. A higher floor says what matters more."""
    progress, done = _progress(sources)
    steps = _next_step(sources, progress)
    step_texts = {item.text for item in steps[0]}
    todo = [item for item in progress if item.text not in step_texts]
    summary = [SectionItem(f"[x] {len(done)} done")] if done else []
    known = sources.recorded
    all_sections = [
        Section("nextStep", "Next step", steps, 18),
        Section(
            ASKED, "Then the person asked, in order", (_lines(reversed(sources.later), MAX_ASKED),), 8, is_reversed=True
        ),
        _in_doubt(sources, 14),
        _unseen(sources, 13),
        _reasoned("waiting", "Waits for a person", _waiting(sources), 11),
        _refused(sources.recent.refused, 11),
        Section("progress", "Progress", (_once([*todo, *done]), _once([*todo, *summary])), 10),
        _done(sources, 10),
        _reasoned("decisions", "Decisions and constraints", _binding(sources), 12, "Decisions"),
        _reasoned("facts", "Facts and learnings", known.facts, 9, "Facts"),
        _section("alsoOpen", "Also open here, by the name to resume", _lines(sources.others), 4),
        _section("rules", "Budget and rules", _rules(sources), 3),
        _section("artifacts", "Files that it produced", _artifacts(sources.page), 0),
    ]
    return tuple(section for section in all_sections if section.items)


def _section(name: str, title: str, items: Iterable[SectionItem], floor: int) -> Section:
    return Section(name, title, (_once(items),), floor)


def _reasoned(name: str, title: str, lines: Iterable[RecordLine], floor: int, brief: str = "") -> Section:
    """Lines in full, and in a shorter wording what they say without the reasons."""
    in_full, short = list[SectionItem](), list[SectionItem]()
    for line in lines:
        text = said(line.text + line.more, MAX_LINE)
        if text and not any(text in other.text for other in in_full):
            in_full.append(SectionItem(text))
            short.append(SectionItem(said(line.text, MAX_LINE)))
    return Section(name, title, (in_full, short), floor, rest=RECORD.format(_RECORDED.get(name, name)), brief=brief)


_RECORDED = {"waiting": "questionsForUser"}
"""The section of the record, where it has another name."""


def _once(items: Iterable[SectionItem]) -> list[SectionItem]:
    """The items without those that an earlier one says as well."""
    section_items: list[SectionItem] = []
    for item in items:
        if not any(item.text in other.text for other in section_items):
            section_items.append(item)
    return section_items


def _lines(texts: Iterable[str], limit: int = MAX_LINE) -> list[SectionItem]:
    return [SectionItem(line) for text in texts if (line := said(text, limit))]


# --- what is next


def _next_step(
    sources: Sources, progress: Sequence[SectionItem]
) -> tuple[Sequence[SectionItem], Sequence[SectionItem]]:
    """The resumption point, marked with the effects since it was stated; else the first open item of the plan that no effect since
    concerns; else that no next step was stated, and what was done last. A description is no next step. The second wording leaves out
    which effects these are.
    """
    page, known = sources.page, sources.recorded
    known_wrong = open_troubles(sources.ledger, sources.gone, sources.names.of)
    troubles = _lines(trouble.text for trouble in known_wrong if trouble.kind != "in doubt")
    if known.is_finished or sources.ledger.finished:
        note = f": {sources.ledger.finish_note}" if sources.ledger.finish_note else ""
        return _alike([*troubles, *_lines([f"nothing: the task is finished{note}"])])
    point = page.resumption_point if isinstance(page.resumption_point, str) else ""
    points = [point, point]
    if point and (since := _touching(sources.effects_after("resumption_point"), sources)):
        marks = f"stated before these calls: {since}", "effects since"
        points = [f"{said(point, MAX_STEP)} ({mark}; is it done?)" for mark in marks]
    full, short = (_once(_lines(filter(None, [*known.steps, text]), MAX_STEP + MAX_LINE)) for text in points)
    if full:
        return [*troubles, *full], [*troubles, *short]
    todo = [item for item in progress if item.text.startswith("[ ]") and SINCE not in item.text][:1]
    if troubles or todo:
        return _alike([*troubles, *todo])
    last = list(sources.recent.made.values())[-LAST_DONE:]
    if not last:
        return _alike([SectionItem(NOTHING_SAID)])
    return _alike([SectionItem(f"{NOTHING_SAID}; the last calls were {_touching(last, sources)}")])


def _alike(items: Sequence[SectionItem]) -> tuple[Sequence[SectionItem], Sequence[SectionItem]]:
    """Items that are the same in both wordings."""
    return items, items


def _touching(calls: Sequence[CallReport], sources: Sources) -> str:
    """What calls were, folded, without what their servers said; "" for none."""
    groups: dict[tuple[str, str], list[CallReport]] = {}
    for call in calls:
        key = (said(call.tool, 200), "in doubt" if call.call in sources.ledger.doubts else call.outcome)
        group = groups[key] = groups.pop(key, [])  # the last one that grew comes last
        group.append(call)
    lines = [
        _line(msgspec.structs.replace(_Group.of(*group), message="", outcome=key[1])) for key, group in groups.items()
    ]
    more = [f"{len(lines) - MAX_TOUCHING} more before"] if len(lines) > MAX_TOUCHING else []
    return "; ".join([*lines[-MAX_TOUCHING:], *more])


SINCE = " (since then: "
_WORD = r"[\w.-]{4,}"


def _marked(text: str, effects: Sequence[CallReport]) -> str:
    """An open item of a plan, with the last call since it was stated whose file or command it names."""
    words = {word.strip(".").casefold() for word in re.findall(_WORD, text)}
    for call in reversed(effects):
        names = {call.argument.rpartition("/")[2].casefold(), call.argument.partition(" ")[0].casefold()}
        if call.argument and (call.argument in text or names & words):
            return f"{text}{SINCE}{_line(msgspec.structs.replace(_Group.of(call), message=''))})"
    return text


def _progress(sources: Sources) -> tuple[list[SectionItem], list[SectionItem]]:
    """What is open: the step in hand, the current state, what is to do, goals and criteria; and what is done, the last first."""
    page = sources.page
    steps = page.progress if isinstance(page.progress, tuple) else ()
    effects = sources.effects_after("progress")
    marked = []
    for step in steps:
        text = f"[{'x' if step.status == 'done' else ' '}] {step.text}" + (f" ({step.note})" if step.note else "")
        marked.append((step.status, text if step.status == "done" else _marked(text, effects)))
    state = page.current_state if isinstance(page.current_state, tuple) else ()
    order = [text for status, text in marked if status == "in_progress"]
    order += [text for status, text in marked if status == "pending"]
    done = [text for status, text in reversed(marked) if status == "done"]
    return _lines([*order[:1], *state, *order[1:], *sources.recorded.progress]), _lines(done)


# --- what must not be repeated, and what is open


def _in_doubt(sources: Sources, floor: int) -> Section:
    count = f"In doubt, {len(sources.ledger.doubts)}"
    title, brief = (
        f"{count}: sent, no answer seen; find out before you repeat one",
        f"{count}: check before you repeat one",
    )
    calls, names = list(sources.ledger.doubts.values()), sources.names
    in_full, shortest = [_doubt(call, names) for call in calls], [_brief_doubt(call, names) for call in calls]
    wordings = in_full, [*in_full[:1], *shortest[1:]], shortest
    return Section("inDoubt", title, wordings, floor, rest="`adjourn status`", brief=brief)


def _unseen(sources: Sources, floor: int) -> Section:
    """Calls that happened, and whose answers no client has, the newest first; older ones are folded by tool. A shorter wording is without
    times, the shortest has one line for each tool.
    """
    calls = _lost(sources.ledger)
    title = f"Done, {len(calls)}: the answer did not reach a client; do not repeat one unless you mean to"
    newest = calls[::-1][: None if len(calls) <= MAX_ALONE else ALONE_OF_MORE]
    short = [_brief_doubt(call, sources.names) for call in newest]
    in_full = [
        SectionItem(f"{item.text[:-1]}, done {call.ended})", dict(item.data or {}) | {"ended": call.ended})
        for call, item in zip(newest, short, strict=True)
    ]
    older = _by_tool(calls[: len(calls) - len(newest)], sources.names)
    wordings = [*in_full, *older], [*short, *older], _by_tool(calls, sources.names)
    return Section("doneUnseen", title, wordings, floor, rest="`adjourn log`")


def _by_tool(calls: Sequence[OpenCall], names: ToolNames) -> list[SectionItem]:
    """A line for each tool: how often it was called, and with what."""
    groups: dict[str, list[str]] = {}
    for call in calls:
        groups.setdefault(said(names.of(call), 200), []).append(telling_argument(call.arguments))
    return [
        SectionItem(_named(tool, len(given), list(dict.fromkeys(filter(None, given)))))
        for tool, given in groups.items()
    ]


def _lost(ledger: Ledger) -> list[OpenCall]:
    """The calls unseen, without those that a person settled: what was done has these, as settled."""
    return [call for call in ledger.unseen.values() if not call.by]


def _doubt(call: OpenCall, names: ToolNames) -> SectionItem:
    data = {"call": call.call, "tool": names.of(call)}
    data |= {"arguments": without_secrets(call.arguments)[:200]} if call.arguments else {}
    remedy = f"a person settles it: `adjourn settle {call.call} --done` (or --not-done)"
    return SectionItem(
        f"{_brief_doubt(call, names).text[:-1]}, since {call.since}); {remedy}", data | {"since": call.since}
    )


def _brief_doubt(call: OpenCall, names: ToolNames) -> SectionItem:
    """What the call was, without its remedy."""
    argument = telling_argument(call.arguments)
    data = {"call": call.call, "tool": names.of(call)} | ({"argument": argument} if argument else {})
    return SectionItem(f"{said(names.of(call), 200)}{_spaced(argument)} (call {call.call})", data)


def _waiting(sources: Sources) -> list[RecordLine]:
    """Questions to a person: about calls, then those of the record and of the page."""
    lines = [
        _question(approval, sources.names)
        for approval in sources.ledger.approvals.values()
        if approval.expires > sources.stamp and not approval.refused
    ]
    page = sources.page.open_questions
    return [*lines, *sources.recorded.waiting, *map(RecordLine, page if isinstance(page, tuple) else ())]


def _binding(sources: Sources) -> list[RecordLine]:
    """What persons said with their approvals, the newest first, then the decisions and constraints of the record."""
    consents = [RecordLine(consent.text) for consent in reversed(sources.recent.consents)]
    return [*consents, *sources.recorded.decisions]


def _question(approval: Approval, names: ToolNames) -> RecordLine:
    about = f"{names.of(approval)}{_spaced(telling_argument(approval.arguments))}"
    if approval.approved:
        return RecordLine(
            f"{about}: approved, and not made yet: repeat the very same call", f" before {approval.expires}"
        )
    who = approval.who or "a person"
    return RecordLine(
        f"{about}: not made, waits for `adjourn approve {approval.id}`; then repeat the very same call",
        f" ({who} is asked: {approval.cause})",
    )


_REFUSED = r"^refused:? "


def _refused(refusals: Sequence[Refusal], floor: int) -> Section:
    """The newest first; the same tool refused for the same reason, once.

    In a small room, each remedy once; in a smaller one, neither rules nor remedies, nor the word of the heading.
    """
    groups: dict[tuple[str, str], list[Refusal]] = {}
    for refusal in reversed(refusals):
        groups.setdefault((refusal.tool, refusal.reason.text), []).append(refusal)
    in_full, short, shortest = list[str](), list[str](), list[str]()
    names = set[str]()
    for (tool, text), group in groups.items():
        arguments = list(dict.fromkeys(refusal.argument for refusal in reversed(group) if refusal.argument))
        named, reason = _named(tool, len(group), arguments), group[0].reason
        line, remedy = f"{named}: {text}", reason.remedy
        remedied = f"{line}; {remedy}" if remedy else line
        in_full.append(remedied)
        short.append(line if remedy in names else remedied)
        shortest.append(f"{named}: {re.sub(_REFUSED, '', reason.brief)}")
        names.add(remedy)
    wordings = [_once(_lines(texts)) for texts in (in_full, short, shortest)]
    return Section("refused", "Refused, not done", wordings, floor, brief="Refused")


# --- what was done


class _Group(msgspec.Struct, frozen=True):
    """Calls of one tool with one outcome: how many, and their arguments, each once."""

    tool: str
    outcome: str
    message: str
    times: int
    arguments: tuple[str, ...]

    @classmethod
    def of(cls, *calls: CallReport) -> _Group:
        first = calls[0]
        arguments = tuple(dict.fromkeys(call.argument for call in calls if call.argument))
        return cls(said(first.tool, 200), first.outcome, said(first.message, 200), len(calls), arguments)


_SPEAKER = r"^the (?:server|tool) said: (?=\")"


def _done(sources: Sources, floor: int) -> Section:
    """Calls with an outcome, the newest first. Calls in doubt and unseen have sections of their own.

    Failures stand alone, and the newest of the last writes of each file and of the calls since the last statement; other successes are
    folded by tool and by how their arguments begin. In the shortest wording, all that failed or was settled comes first, with the quoted words alone, then the
    last call that simply succeeded.
    """
    apart = sources.ledger.doubts.keys() | {call.call for call in _lost(sources.ledger)}
    reports = [call for call in sources.recent.made.values() if call.call not in apart]
    alone, folded = _apart(reports, sources.ledger.stated_seq)
    wordings = [[*_grouped(alone, each=True), *_grouped(folded, each=False)]]
    for newest in IN_FULL:
        if newest < len(alone):
            old, new = alone[: len(alone) - newest], alone[len(alone) - newest :]
            wordings.append([*_grouped(new, each=True), *_grouped([*folded, *old], each=False)])
    failed = [call for call in reports if call.outcome != OK]
    failed = [msgspec.structs.replace(call, message=re.sub(_SPEAKER, "", call.message)) for call in failed]
    notable = _grouped(failed, each=False)
    wordings.append([*notable, *_last_of([call for call in reports if call.outcome == OK])])
    before = sum(sources.ledger.tools.values()) - sources.recent.calls
    return Section(
        "auditSummary",
        "What was done",
        wordings,
        floor,
        beyond=max(0, before),
        rest='aex.resume with "more"',
        is_reversed=True,
    )


def _apart(reports: Sequence[CallReport], stated_seq: int) -> tuple[list[CallReport], list[CallReport]]:
    """The calls that are shown one by one, and those that are folded."""
    last = {(call.tool, call.argument): call.seq for call in reports if call.effectful and call.outcome == OK}
    alone, folded = list[CallReport](), list[CallReport]()
    for call in reports:
        is_last_write = " " not in call.argument and last.get((call.tool, call.argument)) == call.seq
        is_alone = (
            not _is_plain(call) or (stated_seq >= 0 and call.seq > stated_seq) or (is_last_write and call.argument)
        )
        (alone if is_alone else folded).append(call)
    plain = [call.seq for call in alone if _is_plain(call)]
    crowd = set(plain[:-ALONE_OF_MORE] if len(plain) > MAX_ALONE else ())
    folded += [call for call in alone if call.seq in crowd]
    return [call for call in alone if call.seq not in crowd], sorted(folded, key=lambda call: call.seq)


def _is_plain(call: CallReport) -> bool:
    """Whether nothing has to be known of a call but that it was made: it succeeded, or only read."""
    return call.outcome == OK or (call.outcome == UNANSWERED and not call.effectful)


def _pattern(argument: str) -> str:
    """How an argument of several words begins: calls that share it are folded together."""
    words = argument.split()
    return " ".join(words[: min(2, len(words) - 1)])


def _last_of(calls: Sequence[CallReport]) -> list[SectionItem]:
    """The last of these calls, and how many there are; nothing for none."""
    if not calls:
        return []
    message = f"the last of {len(calls)}" if len(calls) > 1 else ""
    return [_item(msgspec.structs.replace(_Group.of(calls[-1]), message=message))]


def _grouped(calls: Sequence[CallReport], *, each: bool) -> list[SectionItem]:
    """Calls as lines, the newest first. `each`: only calls that say the very same are one line, else all of a tool and an outcome."""
    groups: dict[object, list[CallReport]] = {}
    for call in calls:
        key = (call.tool, call.outcome, call.message, call.argument if each else _pattern(call.argument))
        group = groups[key] = groups.pop(key, [])  # the last one that grew comes last
        group.append(call)
    return [_item(_Group.of(*group)) for group in reversed(groups.values())]


def _item(group: _Group) -> SectionItem:
    data = {
        "tool": group.tool,
        "times": group.times if group.times > 1 else None,
        "argument": _listed(group.arguments),
        "outcome": group.outcome,
        "message": group.message,
    }
    data = {name: value for name, value in data.items() if value}
    return SectionItem(_line(group), {"event": "tool.allowed", "data": data})


def _line(group: _Group) -> str:
    message = f": {group.message}" if group.message else ""
    return f"{_named(group.tool, group.times, group.arguments)}: {group.outcome}{message}"


def _named(tool: str, count: int, arguments: Sequence[str]) -> str:
    """A tool and its argument; how often it was called, and with which, if it was more than once."""
    if count == 1:
        return f"{tool}{_spaced(_listed(arguments))}"
    return f"{tool} {TIMES} {count}" + (f" ({_listed(arguments)})" if arguments else "")


def _listed(arguments: Sequence[str]) -> str:
    if len(arguments) > MAX_LISTED:
        return f"{arguments[0]} … {arguments[-1]}"
    return ", ".join(arguments)


def _spaced(text: str) -> str:
    return f" {text}" if text else ""


# --- what it may do, and what it made


def _rules(sources: Sources) -> list[SectionItem]:
    """The budget as one line, and what the policy refuses or asks about."""
    policy, ledger = sources.policy, sources.ledger
    learnt = _lines(f"from earlier tasks: {rule}" for rule in sources.learnt)
    if policy is None:
        return learnt
    used = [f"{used:.4g} of {limit:g} {key}" for key, used, limit in ledger.budgets_used(policy)]
    lines = _lines([*([f"budget: {', '.join(used)} used"] if used else ()), *surprising_rules(policy)])
    return [*lines, *learnt]


def surprising_rules(policy: Policy) -> list[str]:
    """What a policy refuses, asks about or permits in part, a line each. What it simply allows is no surprise."""
    partly: dict[str, list[str]] = {}
    for rule in policy.allow:
        tool, _, shape = rule.pattern.partition(":")
        if shape or rule.where:
            partly.setdefault(tool, []).append(shape if len(shape) <= MAX_SHAPE and not rule.where else "")
    texts = []
    for tool, shapes in partly.items():
        named = list(dict.fromkeys(filter(None, shapes)))
        more = len(shapes) - min(len(named), MAX_RULES)
        texts.append(f"{tool}: only {', '.join([*named[:MAX_RULES], *([f'{more} more rules'] if more else [])])}")
    for title, rules in (
        ("a person must confirm", policy.confirm),
        ("refused", policy.deny),
        ("at most once", policy.once),
    ):
        patterns = list(dict.fromkeys(rule.text for rule in rules))
        if patterns:
            more_patterns = f" and {len(patterns) - MAX_RULES} more" if len(patterns) > MAX_RULES else ""
            texts.append(f"{title}: {', '.join(patterns[:MAX_RULES])}{more_patterns}")
    return [*texts, *(f"limit: {rule.text}" for rule in policy.limits)]


def _artifacts(page: AgentReport) -> list[SectionItem]:
    artifacts = page.artifacts if isinstance(page.artifacts, tuple) else ()
    return _lines(file.path + (f" ({file.note})" if file.note else "") for file in reversed(artifacts))
