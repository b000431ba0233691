"""What is known to be wrong with a task until somebody puts it right, ranked: more urgent than anything that was stated."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from adjourn.log.kinds import HasTool, tool_name
from adjourn.tasks.entries import OpenCall
from adjourn.tasks.ledger import Ledger
from adjourn.text.command_lines import command_of, step_of, telling_argument
from adjourn.text.fitting import fit_text

MAX_GONE = 3
"""Results that are gone of which the names are shown."""
_RAISE = "a person can raise the budget in the policy"
SHOWN = 120
"""Characters that are shown of the argument that says most of a call, and of why it failed."""


class OpenTrouble(NamedTuple):
    """A trouble: its kind, what happened, what to do next, its call ("": none), and what the server said. That is no part of
    `text`: a server does not say what comes next.

    Kinds: `failed`, `in doubt`, `tests failed`, `build failed`, `not listed`, `rolled back`, `gone`, `unchanged`, `not verified`, `spent`.
    """

    kind: str
    what: str
    then: str
    call: str = ""
    said: str = ""

    @property
    def text(self) -> str:
        """What happened and what to do, as one line."""
        return f"{self.what}: {self.then}"


def open_troubles(
    ledger: Ledger, gone: Sequence[str] = (), name_of: Callable[[HasTool], str] = tool_name
) -> list[OpenTrouble]:
    """All troubles of a task. Of a finished one: that nothing was changed, unless a person called it finished.

    `gone` are results that were there at the last checkpoint and are not now, for a caller who has looked. `name_of` gives the name by
    which the reader knows a call's tool: an agent, that of its list; a person, the full one.
    """
    return list(_troubles(ledger, gone, name_of) if not ledger.finished else _unchanged_at_finish(ledger))


def _unchanged_at_finish(ledger: Ledger) -> Iterator[OpenTrouble]:
    is_seen = (ledger.sees_edits or ledger.effects) and not (ledger.imported or ledger.over)
    if ledger.finished_by == "agent" and is_seen and not ledger.changes:
        then = "check what was to be done; `adjourn tasks reopen` opens it again, `adjourn tasks finish` confirms it"
        yield OpenTrouble("unchanged", "the agent called the task finished, and no call changed anything", then)


def _troubles(ledger: Ledger, gone: Sequence[str], name_of: Callable[[HasTool], str]) -> Iterator[OpenTrouble]:
    def shown(call: OpenCall) -> str:
        return f"{name_of(call)} {fit_text(telling_argument(call.arguments), SHOWN)}".strip()

    for failed in ledger.failed.values():
        yield OpenTrouble(
            "failed",
            f"{shown(failed.call)} failed",
            f"check which of its effects happened, then undo or repeat it{_way_back(failed.call)}",
            failed.call.call,
            fit_text(failed.why, SHOWN),
        )
    for call in ledger.doubts.values():
        then = f"check whether it took effect{_way_back(call)}"
        yield OpenTrouble("in doubt", f"{shown(call)} is in doubt", then, call.call)
    for red in ledger.red.values():
        what = command_of(red.call.arguments) or shown(red.call)
        then = "find out why, and run it again before you call the work done"
        kind = "build failed" if step_of(red.call.tool, red.call.arguments) == "build" else "tests failed"
        yield OpenTrouble(kind, f"{fit_text(what, 2 * SHOWN)} failed", then, red.call.call, fit_text(red.why, SHOWN))
    if more := ledger.failed_more + ledger.red_more:
        yield OpenTrouble(
            "not listed",
            f"{more} earlier steps failed, and it is not known whether they were made good",
            "find them with `adjourn log`",
        )
    if ledger.rolled_back:
        then = "effects outside the workspace were not undone; check them before you repeat a step"
        yield OpenTrouble("rolled back", f"the work was rolled back to {ledger.rolled_back}", then)
    if gone:
        yield gone_trouble(gone)
    for item in ledger.unchanged:
        what = f'"{item}" was called done, and nothing was changed since it began'
        yield OpenTrouble("unchanged", what, "check whether it is done")
    if ledger.unchecked and not any(
        step_of(red.call.tool, red.call.arguments) == "tests" for red in ledger.red.values()
    ):
        edits = "the last edit" if ledger.unchecked == 1 else f"the last {ledger.unchecked} edits"
        what = f"{ledger.checked} was not run after {edits}"
        yield OpenTrouble("not verified", what, "run it before you call the work done")
    yield from _spent(ledger)


def gone_trouble(gone: Sequence[str]) -> OpenTrouble:
    """That these results, one at least, are gone."""
    others = f" and {len(gone) - MAX_GONE} more" if len(gone) > MAX_GONE else ""
    listed = ", ".join(fit_text(path, SHOWN) for path in gone[:MAX_GONE])
    then = "find out why; restore what is still needed"
    return OpenTrouble("gone", f"a result of the work is gone: {listed}{others}", then)


def _spent(ledger: Ledger) -> Iterator[OpenTrouble]:
    if ledger.budget is not None and ledger.calls_used >= ledger.budget:
        spent = f"{ledger.calls_used} of {ledger.budget} calls are spent"
        yield OpenTrouble("spent", spent, _RAISE)
    elif ledger.session_budget is not None and ledger.sitting.used >= ledger.session_budget:
        spent = f"the {ledger.session_budget} calls of a session are spent"
        then = "another session can continue" if ledger.sitting.got_on else f"they had no result, so {_RAISE}"
        yield OpenTrouble("spent", spent, then)


def _way_back(call: OpenCall) -> str:
    """How to return to before a destructive call."""
    return f"; aex.rollback returns to {call.before}, the checkpoint before it" if call.before else ""
