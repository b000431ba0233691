"""The journal of a task and its meaning: ledger, decision, commit, sessions, leases, approvals, idempotency.

Owns: the one path by which events are appended. Must never: know a client's protocol or how a checkpoint is shown.
"""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.tasks.approvals import answer, settle_doubt
    from adjourn.tasks.decision import (
        APPROVAL_MILLISECONDS,
        Ask,
        Block,
        Claim,
        Continue,
        Decision,
        Forward,
        budgets_used,
        decide,
        usable_approval,
    )
    from adjourn.tasks.heads import KeptHeads
    from adjourn.tasks.idempotency import MAX_ANSWER
    from adjourn.tasks.lease import LEASE_MILLISECONDS, MovedError, Sitting, is_alive, lose_dead, seat
    from adjourn.tasks.ledger import AT_SHARE, Approval, Ledger, rate_of, rate_used
    from adjourn.tasks.methods import OF_CLIENT, OF_SERVER, is_vendors, judge, rule_name
    from adjourn.tasks.retry import PermanentConflictError, append_with_retry, wait_turn
    from adjourn.tasks.session import MAX_SHOWN_TOOL, Admitted, observed, question
    from adjourn.tasks.task import (
        SYSTEM,
        Builder,
        Fact,
        Task,
        Written,
        check_task_id,
        contradicted,
        existing,
        tasks_of,
    )
    from adjourn.tasks.verified import checked, following
    from adjourn.tasks.what_if import Stopped

__all__ = [
    "APPROVAL_MILLISECONDS",
    "AT_SHARE",
    "LEASE_MILLISECONDS",
    "MAX_ANSWER",
    "MAX_SHOWN_TOOL",
    "OF_CLIENT",
    "OF_SERVER",
    "SYSTEM",
    "Admitted",
    "Approval",
    "Ask",
    "Block",
    "Builder",
    "Claim",
    "Continue",
    "Decision",
    "Fact",
    "Forward",
    "KeptHeads",
    "Ledger",
    "MovedError",
    "PermanentConflictError",
    "Sitting",
    "Stopped",
    "Task",
    "Written",
    "answer",
    "append_with_retry",
    "budgets_used",
    "check_task_id",
    "checked",
    "contradicted",
    "decide",
    "existing",
    "following",
    "is_alive",
    "is_vendors",
    "judge",
    "lose_dead",
    "observed",
    "question",
    "rate_of",
    "rate_used",
    "rule_name",
    "seat",
    "settle_doubt",
    "tasks_of",
    "usable_approval",
    "wait_turn",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "APPROVAL_MILLISECONDS": "decision",
            "AT_SHARE": "ledger",
            "Admitted": "session",
            "Approval": "ledger",
            "Ask": "decision",
            "Block": "decision",
            "Builder": "task",
            "Claim": "decision",
            "Continue": "decision",
            "Decision": "decision",
            "Fact": "task",
            "Forward": "decision",
            "KeptHeads": "heads",
            "LEASE_MILLISECONDS": "lease",
            "Ledger": "ledger",
            "MAX_ANSWER": "idempotency",
            "MAX_SHOWN_TOOL": "session",
            "MovedError": "lease",
            "OF_CLIENT": "methods",
            "OF_SERVER": "methods",
            "PermanentConflictError": "retry",
            "SYSTEM": "task",
            "Sitting": "lease",
            "Stopped": "what_if",
            "Task": "task",
            "Written": "task",
            "answer": "approvals",
            "append_with_retry": "retry",
            "budgets_used": "decision",
            "check_task_id": "task",
            "checked": "verified",
            "contradicted": "task",
            "decide": "decision",
            "existing": "task",
            "following": "verified",
            "is_alive": "lease",
            "is_vendors": "methods",
            "judge": "methods",
            "lose_dead": "lease",
            "observed": "session",
            "question": "session",
            "rate_of": "ledger",
            "rate_used": "ledger",
            "rule_name": "methods",
            "seat": "lease",
            "settle_doubt": "approvals",
            "tasks_of": "task",
            "usable_approval": "decision",
            "wait_turn": "retry",
        },
    )
