"""The interactive inbox as lines: a list, the selected item in full, and what the keys do."""

from __future__ import annotations

from collections.abc import Iterator

from adjourn.cli.inbox_keys import DraftedReply, InboxKeys, PinDraft, actions_of
from adjourn.cli.output import cut, safe, safe_lines
from adjourn.cli.terminal import Spans, cells
from adjourn.handover.answering import ShownArguments
from adjourn.handover.inbox import WaitingItem
from adjourn.text.times import ago, left

KINDS = {"resume-point": "resume point", "in-doubt": "in doubt"}
_KIND = 13
_FACT = 10
_MARKS = {"added": ("+", "green"), "removed": ("-", "red"), "same": (" ", ""), "gap": (" ", "dim")}
_NOTICE_LINES = 3
_MAX_LINES = 2_000
"""Lines of an item in full."""
_HELP = (
    ("↑ ↓  k j", "select an item"),
    ("g G", "first, last item"),
    ("space b", "scroll the item by a page; J K by a line"),
    ("1 … 9", "choose an option or a variant"),
    ("a d", "the two answers of the item, as the last line names them"),
    ("z", "snooze an item for 1 h"),
    ("u", "undo the last answer within 10 s; then revoke the approval until the agent uses it"),
    ("n", "record the last answer now"),
    ("Tab", "also for the equal items, before Enter"),
    ("/", "show only items with a text; Esc shows all"),
    ("Enter", "record the answer"),
    ("Esc", "leave the answer unrecorded"),
    ("q", "quit; nothing is lost"),
)


def draw(state: InboxKeys, unreadable: int, now: int, columns: int, rows: int) -> list[Spans]:
    """The lines of the whole screen: exactly `rows`, none wider than `columns`."""
    footer = [*_footer(state, now, columns)]
    room = rows - 2 - len(footer)
    count = len(state.items)
    listed = min(count, max(1, room // 3))
    first = min(max(0, state.at - listed // 2), max(0, count - listed))
    visible = range(first, first + listed)
    lines: list[Spans] = [
        _head(state, unreadable, columns),
        *(_row(state.items[at], now, columns, is_selected=at == state.at) for at in visible),
        [("─" * columns, "dim")],
    ]
    lines += _below(state, now, columns, max(0, rows - len(lines) - len(footer)))
    return [_clipped(line, columns) for line in [*lines, *footer][:rows]]


def _clipped(line: Spans, columns: int) -> Spans:
    """The line without what is beyond the last column."""
    spans = []
    for text, style in line:
        part = cut(text, columns)
        columns -= cells(part)
        spans.append((part, style))
    return spans


def _head(state: InboxKeys, unreadable: int, columns: int) -> Spans:
    count = len(state.items)
    heading = f"{count:,} {'thing waits' if count == 1 else 'things wait'} for you" if count else "nothing waits"
    if state.filter:
        heading = f"{count:,} of {len(state.all):,} with {safe(state.filter)!r}"
    place = f"{state.at + 1:,} of {count:,}" if count else ""
    broken = f"{unreadable:,} cannot be read: adjourn verify" if unreadable else ""
    right = "  ".join(filter(None, (broken, place)))
    title = cut(heading, max(0, columns - cells(right) - 2))
    return [
        (title, "bold"),
        (" " * max(1, columns - cells(title) - cells(right)), ""),
        (right, "red" if unreadable else "dim"),
    ]


def _row(item: WaitingItem, now: int, columns: int, *, is_selected: bool) -> Spans:
    when = left(item.until, now) if item.until else ago(item.since, now)
    kind = KINDS.get(item.kind, item.kind)
    room = max(8, columns - _KIND - 4 - cells(when))
    about = f"  {one_line(item.context)}" if item.kind in ("approval", "in-doubt") else ""
    title = cut(safe(item.title) + about, room)
    mark, style = ("> ", "bold cyan") if is_selected else ("  ", "")
    return [
        (f"{mark}{kind:<{_KIND}}", style or "dim"),
        (title + " " * (room - cells(title)), style),
        (f"  {when}", "dim"),
    ]


def _below(state: InboxKeys, now: int, columns: int, room: int) -> list[Spans]:
    """What is below the list, in exactly `room` lines."""
    if state.helps:
        lines: list[Spans] = [[(f"  {keys:<10}", "bold"), (cut(text, columns - 12), "")] for keys, text in _HELP]
    elif (item := state.selected) is None:
        empty = (
            "No item has this text."
            if state.filter
            else "Questions, approvals and calls in doubt of all tasks show here as they come up."
        )
        lines = [[(f"  {text}", "dim")] for text in folded(empty, columns - 2)]
    else:
        lines = item_lines(item, state.arguments, state.option, now, columns)
        state_from = min(state.scrolled, max(0, len(lines) - room))
        hidden = len(lines) - state_from - room
        lines = lines[state_from : state_from + room]
        if hidden > 0 and lines:
            lines[-1] = [(f"  … {hidden + 1:,} more lines: space", "dim")]
    return [*lines[:room], *[[("", "")]] * (room - len(lines))]


def item_lines(item: WaitingItem, arguments: ShownArguments, option: int | None, now: int, columns: int) -> list[Spans]:
    """An item in full."""
    lines: list[Spans] = [[(f"  {text}", "bold")] for text in folded(safe_lines(item.title), columns - 2)]
    is_call = item.kind in ("approval", "in-doubt")
    for number, text in enumerate(item.options):
        mark = "●" if number == option else "○"
        for part, line in enumerate(folded(safe_lines(text), columns - 8)):
            head = f"  {mark} {number + 1}. " if not part else " " * 7
            lines.append([(head, "cyan"), (line, "bold" if number == option else "")])
    facts = (
        ("arguments" if is_call else "context", _arguments(arguments) if is_call else item.context),
        ("only", f"{item.who} can approve it" if item.who else ""),
        ("because", item.cause),
        ("note", "the call waits no more; it runs once the agent repeats it" if item.released else ""),
        ("priority", item.priority),
        ("then", "\n".join(item.steps)),
        ("goal", item.goal),
        ("task", item.task),
        ("since", ago(item.since, now) + (f", {left(item.until, now)}" if item.until else "")),
        ("or run", item.commands[0] if item.commands else ""),
    )
    for name, value in facts:
        for part, line in enumerate(folded(safe_lines(value), columns - _FACT - 3)) if value else ():
            lines.append([(f"  {name if not part else '':<{_FACT}} ", "dim"), (line, "")])
            if len(lines) >= _MAX_LINES:
                return [*lines, [("  … more is not shown", "dim")]]
        if name == "arguments":
            lines += _diff(arguments, columns)
    return lines[:_MAX_LINES]


def _arguments(arguments: ShownArguments) -> str:
    """Arguments as `name: value` lines."""
    rows = [
        f"{row.name}:\n  {row.value.replace(chr(10), chr(10) + '  ')}"
        if "\n" in row.value
        else f"{row.name}: {row.value}"
        for row in arguments.rows
    ]
    cut_off = ["(cut: the record has only the beginning; an answer covers all)"] * arguments.is_cut
    return "\n".join([*rows, *filter(None, [arguments.raw]), *cut_off])


def _diff(arguments: ShownArguments, columns: int) -> list[Spans]:
    """The change of a file, line by line."""
    lines: list[Spans] = []
    for line in arguments.diff:
        mark, style = _MARKS[line.kind]
        lines += [[(f"    {mark} {part}", style)] for part in folded(safe_lines(line.text), columns - 6)]
    return lines


def _footer(state: InboxKeys, now: int, columns: int) -> Iterator[Spans]:
    yield [("─" * columns, "dim")]
    notice: list[Spans] = [[(line, "yellow")] for line in folded(safe(state.notice), columns)[:_NOTICE_LINES]]
    if (unproven := state.unproven) is not None:
        yield _asked_for_pin(unproven, columns)
        typed = [("your PIN: ", "dim"), ("•" * min(len(unproven.pin), columns - 12), ""), ("█", "")]
        yield from notice if state.notice else [typed]
        return
    if (draft := state.draft) is not None:
        yield _asked(draft, columns)
        yield from notice if state.notice else [_written(draft, columns)]
        return
    if state.is_filtering:
        yield [("show items with: ", "dim"), (safe(state.filter)[-max(4, columns - 20) :], ""), ("█", "")]
        return
    yield from notice
    if state.held:
        _, kept = state.held[-1]
        more = f" (and {len(state.held) - 1} more)" if len(state.held) > 1 else ""
        yield [(cut(f"{safe(kept.text)}{more}: {left(kept.due, now)}, then it is recorded", columns), "yellow")]
    item = state.selected
    actions = actions_of(item) if item else ()
    named = [f"{key} {action.label}" for key, action in zip("ad", actions, strict=False)]
    choose = [f"1-{min(9, len(item.options))} choose"] if item and item.options else []
    undo = ["u undo", "n now"] if state.held else []
    yield [("  ".join(["↑↓ select", *undo, *choose, *named, "? help", "q quit"]), "dim")]


def _asked_for_pin(draft: PinDraft, columns: int) -> Spans:
    tail = "  Enter record, Esc back"
    title = cut(f"{draft.reply.action.capitalize()}: {safe(draft.title)}", max(8, columns - cells(tail)))
    return [(title, "bold"), (tail, "dim")]


def _asked(draft: DraftedReply, columns: int) -> Spans:
    chosen = f" {draft.item.options[draft.option]!r}" if draft.option is not None else ""
    label = draft.action.label.capitalize() + safe(chosen)
    tail = "  Enter record, Esc back"
    title = cut(f"{label}: {safe(draft.item.title)}", max(8, columns - cells(tail)))
    return [(title, "bold"), (tail, "dim")]


def _written(draft: DraftedReply, columns: int) -> Spans:
    also = ""
    if draft.equal:
        count = "the equal one" if len(draft.equal) == 1 else f"{len(draft.equal)} equal ones"
        also = f"{'[x]' if draft.is_for_all else '[ ]'} Tab: also for {count}  "
    if not draft.action.prompt:
        return [(cut(also, columns), "dim")]
    head = f"{also}{draft.action.prompt}: "
    text, room = safe(draft.text), max(4, columns - cells(head) - 2)
    while cells(text) > room:
        text = text[1:]
    return [(cut(head, columns - 6), "dim"), (text, ""), ("█", "")]


def one_line(text: str) -> str:
    """A text of others on one line."""
    return " ".join(safe(text[:400]).split())


def folded(text: str, room: int) -> list[str]:
    """The lines of a text, folded at words, or within those that are too long, to `room` columns."""
    room = max(room, 4)
    lines: list[str] = []
    for line in text.split("\n"):
        start = line[: len(line) - len(line.lstrip(" "))][: room // 2]
        remaining = line[len(start) :]
        while (at := _fit(remaining, room - len(start))) < len(remaining):
            space = remaining.rfind(" ", 0, at + 1)
            at = space if space > at // 2 else at
            lines.append(start + remaining[:at])
            remaining = remaining[at:].lstrip(" ")
        lines.append(start + remaining)
    return lines


def _fit(text: str, room: int) -> int:
    """How many characters of a text fit."""
    if text[: room + 1].isascii():
        return min(len(text), room)
    used = 0
    for number, char in enumerate(text):
        used += cells(char)
        if used > room:
            return max(1, number)
    return len(text)
