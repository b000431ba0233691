"""The journal of a task and its meaning: ledger, decision, commit, sessions, leases, approvals, idempotency.

Owns: the one path by which events are appended. Must never: know a client's protocol or how a checkpoint is shown.
"""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.tasks.approvals import answer, settle_doubt, waiting_approvals
    from adjourn.tasks.decision import (
        APPROVAL_MILLISECONDS,
        Ask,
        Block,
        Continue,
        Decision,
        Forward,
        OnceClaim,
        RecordedAnswer,
        ToolRequest,
        budgets_used,
        decide,
        protected_refusal,
        usable_approval,
    )
    from adjourn.tasks.heads import KeptHeads
    from adjourn.tasks.idempotency import MAX_ANSWER
    from adjourn.tasks.lease import (
        LEASE_MILLISECONDS,
        SessionExpiredError,
        SessionIdentity,
        TaskSwitchedError,
        describe_holder,
        expire_dead_sessions,
        is_alive,
    )
    from adjourn.tasks.ledger import (
        AT_SHARE,
        Approval,
        Ledger,
        NotableCall,
        OpenCall,
        OpenSession,
        rate_of,
        rate_used,
    )
    from adjourn.tasks.methods import OF_CLIENT, OF_SERVER, is_vendors, judge, method_refusal, rule_name
    from adjourn.tasks.retry import PermanentConflictError, append_with_retry, wait_for_turn
    from adjourn.tasks.session import (
        MAX_SHOWN_TOOL,
        Admitted,
        Batch,
        Session,
        observed,
        question,
        refusal_event,
    )
    from adjourn.tasks.task import (
        SYSTEM,
        AppendedEvent,
        Builder,
        NewEvent,
        Task,
        check_task_id,
        contradicted,
        existing,
        tasks_of,
    )
    from adjourn.tasks.verified import checked, following
    from adjourn.tasks.what_if import Stopped, WhatIf

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
    "AppendedEvent",
    "Approval",
    "Ask",
    "Batch",
    "Block",
    "Builder",
    "Continue",
    "Decision",
    "Forward",
    "KeptHeads",
    "Ledger",
    "NewEvent",
    "NotableCall",
    "OnceClaim",
    "OpenCall",
    "OpenSession",
    "PermanentConflictError",
    "RecordedAnswer",
    "Session",
    "SessionExpiredError",
    "SessionIdentity",
    "Stopped",
    "Task",
    "TaskSwitchedError",
    "ToolRequest",
    "WhatIf",
    "answer",
    "append_with_retry",
    "budgets_used",
    "check_task_id",
    "checked",
    "contradicted",
    "decide",
    "describe_holder",
    "existing",
    "expire_dead_sessions",
    "following",
    "is_alive",
    "is_vendors",
    "judge",
    "method_refusal",
    "observed",
    "protected_refusal",
    "question",
    "rate_of",
    "rate_used",
    "refusal_event",
    "rule_name",
    "settle_doubt",
    "tasks_of",
    "usable_approval",
    "wait_for_turn",
    "waiting_approvals",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "approvals": ("answer", "settle_doubt", "waiting_approvals"),
            "decision": (
                "APPROVAL_MILLISECONDS",
                "Ask",
                "Block",
                "Continue",
                "Decision",
                "Forward",
                "OnceClaim",
                "RecordedAnswer",
                "ToolRequest",
                "budgets_used",
                "decide",
                "protected_refusal",
                "usable_approval",
            ),
            "heads": ("KeptHeads",),
            "idempotency": ("MAX_ANSWER",),
            "lease": (
                "LEASE_MILLISECONDS",
                "SessionExpiredError",
                "SessionIdentity",
                "TaskSwitchedError",
                "describe_holder",
                "expire_dead_sessions",
                "is_alive",
            ),
            "ledger": (
                "AT_SHARE",
                "Approval",
                "Ledger",
                "NotableCall",
                "OpenCall",
                "OpenSession",
                "rate_of",
                "rate_used",
            ),
            "methods": ("OF_CLIENT", "OF_SERVER", "is_vendors", "judge", "method_refusal", "rule_name"),
            "retry": ("PermanentConflictError", "append_with_retry", "wait_for_turn"),
            "session": (
                "Admitted",
                "Batch",
                "MAX_SHOWN_TOOL",
                "Session",
                "observed",
                "question",
                "refusal_event",
            ),
            "task": (
                "AppendedEvent",
                "Builder",
                "NewEvent",
                "SYSTEM",
                "Task",
                "check_task_id",
                "contradicted",
                "existing",
                "tasks_of",
            ),
            "verified": ("checked", "following"),
            "what_if": ("Stopped", "WhatIf"),
        },
    )
