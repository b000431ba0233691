"""Budgets of each principal, and of some together: who spends which, and whose is said to be spent."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from adjourn.aex import from_text, narrowed
from adjourn.host import process
from adjourn.policy.principal import Principal
from adjourn.store import MemoryStore
from adjourn.tasks.budgets import BudgetNotice, notice_text
from adjourn.tasks.decision import Block, Forward
from adjourn.tasks.lease import SessionIdentity
from adjourn.tasks.session import Session
from adjourn.tasks.task import Task
from support.clock import Clock
from support.task_sessions import READ, SECRET, WRITE, admit_one

ANN = Principal(id="a", name="ann", type="human", groups=("ops",))
BOB = Principal(id="b", name="bob", type="human", groups=("ops", "dev"))
CI = Principal(id="c", name="ci", type="service")
EACH = "policy p v1\nallow *\nbudget calls=2 per day each principal"
OPS = "policy p v1\nallow *\nfor group:ops\n  budget calls=3 per hour"


def sessions(text: str, *people: Principal | None) -> list[Session]:
    """A session on a task of their own for each of them, in one store."""
    store, clock = MemoryStore(), Clock()
    made = []
    for number, who in enumerate(people):
        task = Task(store, f"t{number}", clock=clock, secret=SECRET)
        identity = SessionIdentity(process.current(), f"g{number}", client="claude-code")
        made.append(Session(task, narrowed(from_text(text, "p.aex")[0], who), identity))
        made[-1].open()
    return made


def passed(session: Session, count: int) -> int:
    """How many of so many calls pass."""
    return sum(isinstance(one.decision, Forward) for _ in range(count) for one in session.admit([READ]))


def refusal(session: Session) -> Block:
    refused = admit_one(session, WRITE).decision
    assert isinstance(refused, Block)
    return refused


def test_each_principal_spends_a_budget_of_their_own() -> None:
    """What ann spent is not bob's; it is hers in any other task as well, and the refusal says whose budget is spent."""
    ann, bob, again = sessions(EACH, ANN, BOB, ANN)
    assert passed(ann, 1) == 1
    assert passed(bob, 1) == 1
    assert passed(again, 2) == 1
    told = refusal(ann)
    assert told.message == (
        "Call budget of ann exhausted: ann made 2 of 2 calls per day (budget calls=2 per day each principal (p.aex:3))"
    )
    assert (told.reason, told.budget, told.used, told.limit) == ("budget_exhausted", "calls per day of ann", 2, 2)
    assert passed(bob, 2) == 1


def test_clients_without_a_login_share_one_budget() -> None:
    """Coming without a name gives no budget of one's own."""
    one, other, ann = sessions(EACH, None, None, ANN)
    assert passed(one, 1) + passed(other, 2) == 2
    assert "Call budget of clients without a login exhausted" in refusal(one).message
    assert passed(ann, 1) == 1


def test_a_group_spends_its_budget_together_and_others_none_of_it() -> None:
    """The members' calls count for one another; a service that is not in the group is not counted."""
    ann, bob, ci = sessions(OPS, ANN, BOB, CI)
    assert passed(ci, 9) == 9
    assert passed(ann, 2) == 2
    assert passed(bob, 2) == 1
    assert "Call budget of group:ops exhausted: group:ops made 3 of 3 calls per hour" in refusal(ann).message


def test_the_first_budget_that_is_spent_refuses_and_a_refused_call_counts_for_none() -> None:
    """Of budgets of all, of a group and of each, each applies; what one refuses costs nothing of another."""
    text = f"{EACH}, calls=3 per day\nfor group:dev\n  budget calls=1 per day each principal"
    ann, bob, ci = sessions(text, ANN, BOB, CI)
    assert passed(bob, 3) == 1
    assert passed(ann, 3) == 2
    assert "of the workspace exhausted: its tasks made 3 of 3" in refusal(ci).message


def test_racing_tasks_of_one_principal_never_spend_more() -> None:
    """Threads on tasks of two people call at once: exactly as many pass as each has."""
    text = "policy p v1\nallow *\nbudget calls=12 per day each principal"
    people = [ANN, BOB, ANN, BOB]
    counts = dict.fromkeys("ab", 0)
    lock = threading.Lock()

    def call(session: Session, who: Principal) -> None:
        made = passed(session, 10)
        with lock:
            counts[who.id] += made

    threads = [threading.Thread(target=call, args=pair) for pair in zip(sessions(text, *people), people, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == {"a": 12, "b": 12}


def test_a_notice_says_whose_budget_is_nearly_spent() -> None:
    """At 75 % and 90 %, once each, for what is the principal's own as for what all share."""
    policy = narrowed(from_text(EACH.replace("=2", "=20") + ", calls=40 per day", "p.aex")[0], ANN)
    each, shared = sorted((rule.counter for rule in policy.workspace_budgets), key=len, reverse=True)
    (ann,) = sessions(EACH, ANN)
    notice = BudgetNotice()

    def due(own: int, of_all: int) -> Sequence[str]:
        shares = notice.due(policy, ann.task.ledger, {each: own, shared: of_all})
        notice.tell(shares)
        return notice_text(shares, "").partition(" are spent")[0] if shares else ""

    assert due(14, 14) == ""
    assert due(15, 30) == (
        "adjourn: 15 of 20 calls per day (75 %) of ann's budget and 30 of 40 calls per day (75 %) of this workspace's budget"
    )
    assert due(16, 31) == ""
    assert due(18, 32) == "adjourn: 18 of 20 calls per day (90 %) of ann's budget"
