"""Automatic checkpoints: before calls that may destroy something, at shares of the budget and when it is spent, and at milestones.

A milestone is a commit, a merge, or tests that pass after they failed.

A checkpoint is made durably before a destructive call is decided on. If the call succeeds, another is made after it. If it
fails, the page of the checkpoint before becomes active again, with a note on what failed.

Must never: let a call pass whose checkpoint was not made, or use a new name for each: a later checkpoint takes the name
of the earlier one, which stays in the chain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from adjourn.aex.policy import Policy
from adjourn.aex.rule import SESSION_CALLS
from adjourn.checkpoints import anchors
from adjourn.errors import AdjournError, InvalidError
from adjourn.host.workspace import MAX_NAME
from adjourn.log import kinds
from adjourn.log.canonical_json import digest
from adjourn.log.event import decode
from adjourn.log.kinds import tool_name
from adjourn.policy.destructive import DEFAULT, Matcher, Settings, read_settings
from adjourn.tasks.budgets import BudgetNotice
from adjourn.tasks.decision import ToolRequest
from adjourn.tasks.ledger import AT_SHARE, BEFORE, MILESTONE, Ledger
from adjourn.tasks.session import Admitted, Session

AFTER, FAILED = "after ", "failed "
"""Prefixes of the triggers of checkpoints around calls: `before deploy.run`, `before shell.exec: rm`."""
SHARES = (75.0, 90.0)
"""Percents of the budget of calls at which a checkpoint is made, unless the policy names others."""
SPENT = 100.0


class Guarded(NamedTuple):
    """A call with a checkpoint before it: its tool, the label of the rule, and the checkpoint's hash."""

    tool: str
    label: str
    before: str


class _Watch:
    """The state of one session: its settings and policy, and its destructive calls."""

    def __init__(self, session: Session) -> None:
        self.notes: list[str] = []
        self.settings: Settings = DEFAULT
        try:
            self.settings = read_settings(session.identity.root) if session.identity.root else DEFAULT
        except InvalidError as error:
            self.notes.append(f"{error}; the default rules apply")
        self._matcher = Matcher(self.settings, session.identity.tree)
        self.policy: Policy | None = None
        self._tools: dict[str, tuple[bool, str]] = {}
        self.made: dict[tuple[str, str], Guarded] = {}
        """By tool and digest: calls whose decision is due."""
        self.guarded: dict[str, Guarded] = {}
        """By call: those that were allowed."""

    def look(self, policy: Policy) -> None:
        """Use another policy from now on."""
        self.policy = policy
        self._tools.clear()

    def label(self, call: ToolRequest) -> str:
        """The reason for a checkpoint before a call: a rule's label, "policy" or "hint"; "" for no checkpoint."""
        known = self._tools.get(call.tool)
        if known is None:
            if len(self._tools) > 1000:
                self._tools.clear()
            assert self.policy is not None  # `look` comes first
            named = self.policy.checkpoint_before(call.tool) is not None
            known = self._tools[call.tool] = (named, self._matcher.of_tool(call.tool))
        named, word = known
        if named:
            return "policy"
        if not call.effectful or call.named_only:
            return ""
        return ("hint" if call.destructive else word) or (self._matcher.of_arguments(call.given) if call.given else "")


class GuardedSession(Session):
    """A session that makes automatic checkpoints. Before it opens, it checks its task's history against the `anchors`."""

    _watch: _Watch | None = None
    observe: Callable[[], bool] = staticmethod(lambda: False)
    """Learn what the client's transcript says, before a page is written. Returns whether that is something new."""

    due_at = 0.0
    """The number of calls used before which no checkpoint is due for a budget."""

    @cached_property
    def notice(self) -> BudgetNotice:
        """The budget notices that the agent received."""
        return BudgetNotice()

    def change(self, policy: Policy, policy_text: bytes, contract_text: bytes) -> None:
        """Continue under an edited policy, as `TaskLease.change` does; its budgets may be others."""
        super().change(policy, policy_text, contract_text)
        self.notice.reset()
        self.due_at = 0.0

    def decide_under(self, policy: Policy) -> None:
        """Decide the next calls under `policy`, as `Session.decide_under` does."""
        super().decide_under(policy)
        self.due_at = 0.0

    def open(self, *, take_over: bool = False, also: Sequence[kinds.Data] = ()) -> None:
        """Open the session as `TaskLease.open` does. Raises `IntegrityError` where the history was cut."""
        anchors.check(self.task, self.identity.home or self.identity.root)
        super().open(take_over=take_over, also=also)

    def is_due_before(self, calls: Sequence[ToolRequest]) -> bool:
        """Whether something has to be done before these calls are decided on that takes long: make a checkpoint, read this
        session's rules or verify the history, which are both done once.
        """
        watch, policy = self._watch, self.policy
        if watch is None:
            return True
        if policy is not watch.policy:
            watch.look(policy)
        for call in calls:
            if call.effectful and not self.task.is_verified:
                return True
            if (call.effectful or policy.checkpoints) and watch.label(call):
                return True
        return bool(self.due_shares())

    def is_due_after(self, facts: Iterable[kinds.ToolSettled]) -> bool:
        """Whether `checkpoint_after` would make a checkpoint."""
        watch = self._watch
        if watch is None:
            return False
        if self.task.ledger.milestones or (watch.guarded and any(fact.call in watch.guarded for fact in facts)):
            return True
        return bool(self.due_shares())

    def due_shares(self) -> list[tuple[float, str, str]]:
        """Return what the function `due_shares` does; none before `due_at`."""
        ledger, policy = self.task.ledger, self.policy
        if ledger.calls_used < self.due_at:
            return []
        due = due_shares(ledger, policy)
        if not due and not policy.budgets:  # with calls alone, nothing is due before their next share
            reached = [share * (policy.budget or 0) / 100 for share in shares_of(policy, "calls")]
            self.due_at = min((at for at in reached if at > ledger.calls_used), default=float("inf"))
        return due

    def checkpoint_before(self, calls: Sequence[ToolRequest]) -> list[str]:
        """Make the checkpoints that are due before these calls are decided on. Returns notes on their pages, for the person.

        Raises what `checkpoint.create` raises.
        """
        watch, policy = self._watch, self.policy
        if watch is None:
            watch = self._watch = _Watch(self)
        if policy is not watch.policy:
            watch.look(policy)
        notes, watch.notes = watch.notes, []
        text = ""
        for call in calls:
            label = watch.label(call)
            if label and _may_pass(self, call):
                if not text:  # one checkpoint for all calls of a batch
                    text, texts = _make_before(self, tool_name(call), label, watch.settings)
                    notes += texts
                watch.made[call.tool, call.digest] = Guarded(tool_name(call), label, text)
        return notes + _make_due(self)

    def remember(self, calls: Sequence[ToolRequest], decided: Sequence[Admitted]) -> None:
        """Take in which of the calls that have a checkpoint before them were allowed."""
        watch = self._watch
        if watch is not None and watch.made:
            for call, decision in zip(calls, decided, strict=True):
                guarded = watch.made.get((call.tool, call.digest))
                if guarded is not None and decision.call:
                    watch.guarded[decision.call] = guarded
            watch.made.clear()

    def checkpoint_after(self, facts: Iterable[kinds.ToolSettled] = ()) -> list[str]:
        """Make the checkpoints that are due once calls are settled. Returns notes. Raises what `checkpoint.create` raises."""
        watch = self._watch
        if watch is None:
            return []
        notes: list[str] = []
        if watch.guarded:
            for fact in facts:
                guarded = watch.guarded.get(fact.call)
                if guarded is not None and fact.outcome != "input-required":
                    del watch.guarded[fact.call]
                    notes += _make_after(self, guarded, fact)
        if self.task.ledger.milestones:
            notes += _make_milestones(self, watch.settings)
        return notes + _make_due(self)

    def checkpoint_after_recorded(self, tool: str, intent: int, fact: kinds.ToolSettled) -> list[str]:
        """`checkpoint_after` for a call that another process admitted: its checkpoint is the one right before its `intent`."""
        notes: list[str] = []
        if self.task.ledger.milestones:
            notes = _make_milestones(self, (self._watch or _Watch(self)).settings)
        for entry in reversed(list(self.task.store.read(self.task.id, max(0, intent - 4), intent))):
            data = kinds.data_of(event := decode(entry.data))
            if isinstance(data, kinds.CheckpointCreated) and event.session == self.id:
                kind, _, label = data.trigger.partition(": ")
                guarded = Guarded(tool, label or "policy", entry.hash)
                return notes + (_make_after(self, guarded, fact) if kind == f"{BEFORE}{tool}" else [])
        return notes


def due_shares(ledger: Ledger, policy: Policy) -> list[tuple[float, str, str]]:
    """Of each budget the largest share (in percent) that is spent and has no checkpoint yet, the budget's key, and the trigger.

    The trigger names the budget's limit, so raising a budget makes its shares due again.
    """
    due: list[tuple[float, str, str]] = []
    for key, used, limit in ledger.budgets_used(policy):
        shares = shares_of(policy, key)
        share = max((share for share in shares if limit and used * 100 >= share * limit), default=0)
        trigger = f"{AT_SHARE}{share:g}% of {key}={limit:.15g}"
        made = ledger.marks.get(trigger, -1)
        if share and (made < ledger.sitting.since if key == SESSION_CALLS else made < 0):
            due.append((share, key, trigger))
    return due


def shares_of(policy: Policy, key: str) -> tuple[float, ...]:
    """The percents of a budget at which a checkpoint is made: those of the policy, else `SHARES` for calls; always 100."""
    return (*(policy.percents or (SHARES if key in ("calls", SESSION_CALLS) else ())), SPENT)


def _may_pass(session: Session, call: ToolRequest) -> bool:
    policy = session.policy
    return not call.protected and (
        policy.observe or policy.judge_call(call.tool, call.given, call.paths, call.matcher).effect == "allow"
    )


# --- making them


def _make_due(session: GuardedSession) -> list[str]:
    notes: list[str] = []
    for share, key, trigger in session.due_shares():
        what = "spent" if share == SPENT else f"at-{share:g}".replace(".", "-")
        what += f"-{key}".replace(" ", "-") if key != "calls" else ""
        notes += _make(session, what, trigger)[1]
    return notes


def _make_before(session: GuardedSession, tool: str, label: str, settings: Settings) -> tuple[str, list[str]]:
    from adjourn.checkpoints import git_snapshot  # not on the start path

    more, notes = git_snapshot.for_page(session.identity.tree, session.task.id, session.task.ledger.seq + 1, settings)
    named = label not in ("policy", "hint")
    text, texts = _make(
        session, "before", f"{BEFORE}{tool}{': ' * named}{label * named}", label=label if named else tool, more=more
    )
    return text, notes + texts


def _make_milestones(session: GuardedSession, settings: Settings) -> list[str]:
    """Keep the files, and a page for each step of the work that is done and has none yet."""
    from adjourn.checkpoints import git_snapshot  # not on the start path

    ledger, tree = session.task.ledger, session.identity.tree
    more, notes = git_snapshot.for_page(tree, session.task.id, ledger.seq + 1, settings)
    for done in ledger.milestones:
        notes += _make(session, "milestone", f"{MILESTONE}{done}", label=done, more=more)[1]
    return notes


def _make_after(session: GuardedSession, guarded: Guarded, fact: kinds.ToolSettled) -> list[str]:
    named = guarded.label not in ("policy", "hint")
    what = f"{guarded.tool}{': ' * named}{guarded.label * named}"
    if fact.outcome == "ok":
        return _make(session, "after", f"{AFTER}{what}")[1]
    outcome = "no answer came, its effect is in doubt" if fact.outcome == "no-answer" else "it answered with an error"
    return _make(session, "failed", f"{FAILED}{what}", failed=f"{what}: {outcome}", base=guarded.before)[1]


def _make(
    session: GuardedSession,
    what: str,
    trigger: str,
    *,
    label: str = "",
    failed: str = "",
    base: str = "",
    more: dict[str, object] | None = None,
) -> tuple[str, list[str]]:
    """Make a checkpoint and its page. Returns the hash and notes: a failed page write does not fail the checkpoint."""
    from adjourn.checkpoints import checkpoint, page_files, page_writer  # not on the start path

    session.hold()
    task, tree = session.task.id, session.identity.home or session.identity.tree
    if len(task) > MAX_NAME - len(what) - 1 or "." in task:
        task = digest(task.encode())[:16]
    task_checkpoint = checkpoint.create(session.task, f"{task}-{what}", trigger=trigger, session=session)
    if not tree:
        return task_checkpoint.hash, []
    opened = session.task.ledger.sessions.get(session.id)
    session.observe()
    try:
        page = page_files.by_id(tree, base) if base else None
        written = page_writer.write(
            session.task,
            task_checkpoint,
            tree,
            page_writer.PageOptions(
                began=opened.since if opened else "", failed=failed, label=label, base=page, more=more
            ),
        )
    except AdjournError as error:
        return task_checkpoint.hash, [f"checkpoint {task_checkpoint.data.name} has no page: {error}"]
    return task_checkpoint.hash, written.notes
