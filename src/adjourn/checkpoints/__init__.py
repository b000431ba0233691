"""Checkpoints of a task: the signed event, its folder and its page, when one is due, and going back to one.

Owns: everything that a checkpoint writes outside of the event log. Must never: decide whether a call is permitted.
"""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.checkpoints.artifacts import changed
    from adjourn.checkpoints.attachments import is_knowledge
    from adjourn.checkpoints.builder import NO_REPORT, AgentReport, report_of
    from adjourn.checkpoints.checkpoint import (
        MAX_DESCRIPTION,
        TaskCheckpoint,
        as_checkpoint,
        check_signature,
        create,
        document,
        document_of,
        encode_document,
        find,
        known_to,
        trusted_signer,
    )
    from adjourn.checkpoints.commit import moved
    from adjourn.checkpoints.environment import recent
    from adjourn.checkpoints.folder import AUDIT_FILE, JSON_FILE, is_as_written, path_of, read_published
    from adjourn.checkpoints.folder_verification import VerifiedFolder, verify, verify_named
    from adjourn.checkpoints.histories import DAY, Freed, is_temporary, remove_temporaries, share_histories
    from adjourn.checkpoints.page import MAX_PAGE_BYTES
    from adjourn.checkpoints.page_files import (
        FoundPage,
        PageSummary,
        Search,
        changing,
        find_active,
        is_stale,
        names_of_pages,
        page_summary,
        read,
        search,
    )
    from adjourn.checkpoints.parser import parse
    from adjourn.checkpoints.reflect import Reflection
    from adjourn.checkpoints.rollback import RollbackPlan, RollbackResult, carry_out, plan, target_of
    from adjourn.checkpoints.save import (
        close_session,
        save_checkpoint,
        save_task_checkpoint,
        task_checkpoint_name,
    )
    from adjourn.checkpoints.shapes import AUDITED, audit_entry, shown_size
    from adjourn.checkpoints.triggers import GuardedSession

__all__ = [
    "AUDITED",
    "AUDIT_FILE",
    "DAY",
    "JSON_FILE",
    "MAX_DESCRIPTION",
    "MAX_PAGE_BYTES",
    "NO_REPORT",
    "AgentReport",
    "FoundPage",
    "Freed",
    "GuardedSession",
    "PageSummary",
    "Reflection",
    "RollbackPlan",
    "RollbackResult",
    "Search",
    "TaskCheckpoint",
    "VerifiedFolder",
    "as_checkpoint",
    "audit_entry",
    "carry_out",
    "changed",
    "changing",
    "check_signature",
    "close_session",
    "create",
    "document",
    "document_of",
    "encode_document",
    "find",
    "find_active",
    "is_as_written",
    "is_knowledge",
    "is_stale",
    "is_temporary",
    "known_to",
    "moved",
    "names_of_pages",
    "page_summary",
    "parse",
    "path_of",
    "plan",
    "read",
    "read_published",
    "recent",
    "remove_temporaries",
    "report_of",
    "save_checkpoint",
    "save_task_checkpoint",
    "search",
    "share_histories",
    "shown_size",
    "target_of",
    "task_checkpoint_name",
    "trusted_signer",
    "verify",
    "verify_named",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "artifacts": ("changed",),
            "attachments": ("is_knowledge",),
            "builder": ("AgentReport", "NO_REPORT", "report_of"),
            "checkpoint": (
                "MAX_DESCRIPTION",
                "TaskCheckpoint",
                "as_checkpoint",
                "check_signature",
                "create",
                "document",
                "document_of",
                "encode_document",
                "find",
                "known_to",
                "trusted_signer",
            ),
            "commit": ("moved",),
            "environment": ("recent",),
            "folder": ("AUDIT_FILE", "JSON_FILE", "is_as_written", "path_of", "read_published"),
            "folder_verification": ("VerifiedFolder", "verify", "verify_named"),
            "histories": ("DAY", "Freed", "is_temporary", "remove_temporaries", "share_histories"),
            "page": ("MAX_PAGE_BYTES",),
            "page_files": (
                "FoundPage",
                "PageSummary",
                "Search",
                "changing",
                "find_active",
                "is_stale",
                "names_of_pages",
                "page_summary",
                "read",
                "search",
            ),
            "parser": ("parse",),
            "reflect": ("Reflection",),
            "rollback": ("RollbackPlan", "RollbackResult", "carry_out", "plan", "target_of"),
            "save": ("close_session", "save_checkpoint", "save_task_checkpoint", "task_checkpoint_name"),
            "shapes": ("AUDITED", "audit_entry", "shown_size"),
            "triggers": ("GuardedSession",),
        },
    )
