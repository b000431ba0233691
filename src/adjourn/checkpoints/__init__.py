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
        Checkpoint,
        as_checkpoint,
        check_signature,
        create,
        document,
        document_of,
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
    "Checkpoint",
    "FoundPage",
    "Freed",
    "GuardedSession",
    "PageSummary",
    "Reflection",
    "RollbackPlan",
    "RollbackResult",
    "Search",
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
            "AUDITED": "shapes",
            "AUDIT_FILE": "folder",
            "AgentReport": "builder",
            "Checkpoint": "checkpoint",
            "DAY": "histories",
            "FoundPage": "page_files",
            "Freed": "histories",
            "GuardedSession": "triggers",
            "JSON_FILE": "folder",
            "MAX_DESCRIPTION": "checkpoint",
            "MAX_PAGE_BYTES": "page",
            "NO_REPORT": "builder",
            "PageSummary": "page_files",
            "Reflection": "reflect",
            "RollbackPlan": "rollback",
            "RollbackResult": "rollback",
            "Search": "page_files",
            "VerifiedFolder": "folder_verification",
            "as_checkpoint": "checkpoint",
            "audit_entry": "shapes",
            "carry_out": "rollback",
            "changed": "artifacts",
            "changing": "page_files",
            "check_signature": "checkpoint",
            "close_session": "save",
            "create": "checkpoint",
            "document": "checkpoint",
            "document_of": "checkpoint",
            "find": "checkpoint",
            "find_active": "page_files",
            "is_as_written": "folder",
            "is_knowledge": "attachments",
            "is_stale": "page_files",
            "is_temporary": "histories",
            "known_to": "checkpoint",
            "moved": "commit",
            "names_of_pages": "page_files",
            "page_summary": "page_files",
            "parse": "parser",
            "path_of": "folder",
            "plan": "rollback",
            "read": "page_files",
            "read_published": "folder",
            "recent": "environment",
            "remove_temporaries": "histories",
            "report_of": "builder",
            "save_checkpoint": "save",
            "save_task_checkpoint": "save",
            "search": "page_files",
            "share_histories": "histories",
            "shown_size": "shapes",
            "target_of": "rollback",
            "task_checkpoint_name": "save",
            "trusted_signer": "checkpoint",
            "verify": "folder_verification",
            "verify_named": "folder_verification",
        },
    )
