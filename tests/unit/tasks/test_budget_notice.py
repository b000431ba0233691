"""When an agent gets a notice of its budget."""

from __future__ import annotations

from adjourn.aex import from_text
from adjourn.aex.policy import Policy
from adjourn.tasks.budgets import BudgetNotice, notice_text
from adjourn.tasks.ledger import Ledger


def _policy(budget: str) -> Policy:
    lines = ["policy p v1", 'goal "g"', "allow *", *([f"budget {budget}"] if budget else []), ""]
    return from_text("\n".join(lines), "p.aex")[0]


def _shares(notice: BudgetNotice, policy: Policy, **members: int) -> list[tuple[str, int]]:
    shares = notice.due(policy, Ledger(task="t", **members))  # type: ignore[arg-type]
    notice.tell(shares)
    return [(one.budget, one.percent) for one in shares]


def test_each_share_is_due_once_and_the_number_below_which_nothing_is_due_is_known() -> None:
    """75 % and 90 % of the calls are due once each; `at` is the next number of calls to examine."""
    notice, policy = BudgetNotice(), _policy("calls=20")
    assert _shares(notice, policy, calls_used=3) == []
    assert notice.at == 15
    assert _shares(notice, policy, calls_used=15) == [("calls", 75)]
    assert _shares(notice, policy, calls_used=16) == []
    assert notice.at == 18
    assert _shares(notice, policy, calls_used=19) == [("calls", 90)]
    assert _shares(notice, policy, calls_used=20) == []
    assert notice.at == float("inf")


def test_without_a_budget_nothing_is_ever_due() -> None:
    """The number of calls is never reached."""
    notice = BudgetNotice()
    assert _shares(notice, _policy(""), calls_used=10**6) == []
    assert notice.at == float("inf")


def test_other_budgets_are_told_as_well() -> None:
    """Minutes, tokens and dollars have the same shares; they are examined after each call."""
    notice, policy = BudgetNotice(), _policy("calls=100, tokens=1000, usd=2")
    assert _shares(notice, policy, calls_used=1, tokens=800, micro_usd=1_900_000) == [("tokens", 75), ("usd", 90)]
    assert _shares(notice, policy, calls_used=2, tokens=950, micro_usd=1_900_000) == [("tokens", 90)]
    assert notice.at == 0


def test_a_raised_budget_has_shares_of_its_own() -> None:
    """After an edit of the policy the shares of the new limit are due, and `at` is computed again."""
    notice = BudgetNotice()
    assert _shares(notice, _policy("calls=4"), calls_used=4) == [("calls", 90)]
    notice.reset()
    assert _shares(notice, _policy("calls=5"), calls_used=4) == [("calls", 75)]


def test_a_budget_of_the_workspace_is_told_with_its_owner() -> None:
    """What all tasks spent together is examined after each call, and told beside what the task spent."""
    notice, policy = BudgetNotice(), _policy("calls=20 per day\nbudget calls=4")
    assert notice.due(policy, Ledger(task="t", calls_used=1), {"86400": 14}) == []
    assert notice.at == 0
    shares = notice.due(policy, Ledger(task="t", calls_used=3), {"86400": 15})
    assert notice_text(shares, "").startswith(
        "adjourn: 3 of 4 calls (75 %) of this task's budget and 15 of 20 calls per day (75 %) of this workspace's budget are spent."
    )
    notice.tell(shares)
    assert notice.due(policy, Ledger(task="t", calls_used=3), {"86400": 16}) == []


def test_the_line_says_what_to_do() -> None:
    """It names the numbers and the tool as the client spells it; without the tool it says to write down what comes next."""
    shares = BudgetNotice().due(_policy("calls=20"), Ledger(task="t", calls_used=15))
    assert notice_text(shares, "aex_checkpoint") == (
        "adjourn: 15 of 20 calls (75 %) of this task's budget are spent. Save the work now: call aex_checkpoint with your "
        "progress and a resumptionPoint, then continue."
    )
    assert "state what comes next" in notice_text(shares, "")
