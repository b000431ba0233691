"""How much of a budget is spent: the calls of all tasks of a store, and the notices that an agent gets."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from adjourn.aex.policy import Policy
from adjourn.aex.rule import SESSION_CALLS, Rule
from adjourn.errors import AdjournError, IntegrityError
from adjourn.log.canonical_json import digest
from adjourn.store.base import Store, Swap
from adjourn.tasks.entries import NONE_SPENT, SLICES
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.task import Task

# --- the calls of all tasks of a store in a period

Counts = Mapping[str, str | None]
"""The values of the refs, by the counter of the rule."""
NO_COUNTS: Counts = MappingProxyType({})
_Slices = list[tuple[int, int]]


def name_of(counter: str) -> str:
    """The ref of a count; its first part is the seconds of the period."""
    return f"budget/calls/{counter}"


def counts_of(store: Store, budgets: Sequence[Rule]) -> Counts:
    """The refs that count for these budgets, by the counter of each."""
    return {counter: store.ref(name_of(counter)) for counter in {rule.counter: None for rule in budgets}}


def spent(counts: Counts, now: int) -> dict[str, int]:
    """How many calls each counter counts in its period that ends `now` (milliseconds).

    Raises `IntegrityError` where a count cannot be read: how much is left is not known then.
    """
    return {
        counter: sum(calls for _, calls in _recent(text, _seconds(counter), now)) for counter, text in counts.items()
    }


def workspace_spent(store: Store, budgets: Sequence[Rule], now: int) -> dict[str, int]:
    """`spent` of what the store says."""
    return spent(counts_of(store, budgets), now)


def counted(counts: Counts, now: int, calls: int) -> dict[str, Swap]:
    """The swaps by which some calls are counted, if nobody else counts any meanwhile. Raises as `spent`."""
    swaps = {}
    for counter, before in counts.items():
        seconds = _seconds(counter)
        slices = _recent(before, seconds, now)
        at = _slice(seconds, now)
        if slices and slices[-1][0] >= at:  # the clock may have been set back
            at, already = slices.pop()
            slices.append((at, already + calls))
        else:
            slices.append((at, calls))
        swaps[name_of(counter)] = Swap(before, msgspec.json.encode(slices).decode())
    return swaps


def _seconds(counter: str) -> int:
    return int(counter.partition("/")[0])


def _recent(text: str | None, seconds: int, now: int) -> _Slices:
    """The slices that are not older than the period."""
    if text is None:
        return []
    try:
        slices = msgspec.json.decode(text, type=_Slices)
    except msgspec.DecodeError as error:
        raise IntegrityError(
            f"the count of calls per {seconds} s in the store is unreadable: {error}",
            "restore the store from a backup, or take `budget calls=… per …` out of the policy",
        ) from error
    oldest = _slice(seconds, now) - SLICES
    return [part for part in slices if part[0] >= oldest]


def _slice(seconds: int, now: int) -> int:
    return now * SLICES // (seconds * 1000)


def last_policy(store: Store, ledger: Ledger) -> Policy | None:
    """The policy and contract that the last session worked under, as far as their texts are in the store."""
    from adjourn.aex.layers import merge
    from adjourn.aex.permissions import from_text

    policy = None
    for text in (ledger.contract, ledger.policy):
        if text and (blob := store.get_blob(text)) is not None:
            policy = merge(from_text(blob.decode(errors="replace"), "")[0], policy)
    return policy


# --- work that is started over


def spent_ref(goal: str, contract: str) -> str:
    """The ref that names the task of a goal and a contract whose calls were spent last; "" where nothing tells what the work is."""
    return f"budget/spent/{digest(f'{contract} {goal}'.encode())}" if goal or contract else ""


def spent_refs(ledger: Ledger) -> dict[str, str]:
    """What to write when the calls of a task are spent."""
    name = spent_ref(ledger.goal, ledger.contract)
    return {name: ledger.task} if name else {}


def started_over(task: Task, goal: str, contract: str, budget: int | None) -> tuple[str, int]:
    """The unfinished task with this goal and contract whose calls are spent, and how many it made; `("", 0)` for none."""
    name = spent_ref(goal, contract) if budget is not None else ""
    with suppress(AdjournError):
        if name and (other := task.store.ref(name)):
            ledger = Task(task.store, other, clock=task.clock, secret=task.secret).refresh()
            if ledger.exists and not ledger.finished and budget is not None and ledger.calls_used >= budget > 0:
                return other, ledger.calls_used
    return "", 0


# --- when an agent gets a notice of how much of a budget is spent

NOTICE_SHARES = (75, 90)
"""Percents of any budget at which the agent is informed."""
NEVER = float("inf")
_THESE = {"task": "this task", "session": "this session", "workspace": "this workspace"}


class SpentShare(NamedTuple):
    """A share of a budget that is spent: the budget's key, the percent that was reached, and how much is used of how much.

    `owner` is whose budget it is, for the agent: that of the task, of all tasks of the workspace, or of somebody by name.
    """

    budget: str
    percent: int
    used: float
    limit: float
    owner: str = "task"

    @property
    def mark(self) -> str:
        """Its name among the notices that were sent. A raised budget is another one."""
        mark = f"{self.percent}%{self.budget}={self.limit:.15g}"
        return mark.replace(" ", "_") if self.owner in _THESE else f"{mark}@{'_'.join(self.owner.split())}"


def spent_shares(
    policy: Policy, ledger: Ledger, told: Collection[str], workspace: Mapping[str, int] = NONE_SPENT
) -> list[SpentShare]:
    """Of each budget the largest share that is spent, unless it is among those `told`.

    `workspace` is what is spent of the budgets over all tasks, by their counters.
    """
    budgets = [
        (key, used, limit, "session" if key == SESSION_CALLS else "task")
        for key, used, limit in ledger.budgets_used(policy)
    ]
    for rule in policy.workspace_budgets:
        key = f"calls_{rule.period.replace(' ', '_')}"
        budgets.append((key, workspace.get(rule.counter, 0), rule.amount or 0, rule.owner or "workspace"))
    shares = []
    for key, used, limit, owner in budgets:
        reached = [percent for percent in NOTICE_SHARES if limit and used * 100 >= percent * limit]
        if reached and (share := SpentShare(key, reached[-1], used, limit, owner)).mark not in told:
            shares.append(share)
    return shares


def notice_text(shares: Collection[SpentShare], tool: str) -> str:
    """One line for the agent. `tool` is how it calls `aex.checkpoint`, "" where it cannot."""
    spent = " and ".join(
        f"{', '.join(_told(share) for share in shares if share.owner == owner)} of {_THESE.get(owner, owner)}'s budget"
        for owner in dict.fromkeys(share.owner for share in shares)
    )
    how = f"call {tool} with your progress and a resumptionPoint" if tool else "state what comes next"
    return f"adjourn: {spent} are spent. Save the work now: {how}, then continue."


def _told(share: SpentShare) -> str:
    unit = "calls" if share.owner == "session" else share.budget.replace("_", " ")
    return f"{round(share.used, 2):.15g} of {share.limit:.15g} {unit} ({share.used * 100 / share.limit:.0f} %)"


class BudgetNotice:
    """The notices that one session's agent received. `at` is the number of calls from which `due` has to be asked."""

    def __init__(self) -> None:
        self.at = 0.0
        self._told: set[str] = set()

    def reset(self) -> None:
        """The policy changed: other shares may be due."""
        self.at = 0.0

    def due(self, policy: Policy, ledger: Ledger, workspace: Mapping[str, int] = NONE_SPENT) -> list[SpentShare]:
        """What the next answer should say, as `spent_shares`. Computes `at` again."""
        if policy.budget is None and not (policy.budgets or policy.workspace_budgets):
            self.at = NEVER
            return []
        shares = spent_shares(policy, ledger, self._told, workspace)
        if not shares and policy.budgets.keys() <= {"calls", "legs"} and not policy.workspace_budgets:
            limit = policy.budget or 0
            later = (percent * limit / 100 for percent in NOTICE_SHARES)
            self.at = min((calls for calls in later if calls > ledger.calls_used), default=NEVER)
        return shares

    def tell(self, shares: Collection[SpentShare]) -> None:
        """Mark them as sent."""
        self._told.update(share.mark for share in shares)
