"""Checkpoints of a task: the signed event, its folder and its page, automatic ones, and rolling back to one.

Owns: everything that a checkpoint writes outside of the event log. Must never: decide whether a call is permitted.
"""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
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
    from adjourn.checkpoints.finishing import finish, reopen
    from adjourn.checkpoints.folder_verification import VerifiedFolder
    from adjourn.checkpoints.git_restore import RollbackChange
    from adjourn.checkpoints.histories import Freed
    from adjourn.checkpoints.page import MAX_PAGE_BYTES
    from adjourn.checkpoints.page_files import FoundPage
    from adjourn.checkpoints.page_writer import edit_page
    from adjourn.checkpoints.parser import parse
    from adjourn.checkpoints.plans import is_replanned, plan_summary, read_report
    from adjourn.checkpoints.report import (
        NO_REPORT,
        AgentReport,
        ReportedArtifact,
        ReportedStep,
        report_of,
        statements_of,
    )
    from adjourn.checkpoints.save import (
        CheckpointRequest,
        close_session,
        refresh_page,
        save_checkpoint,
        save_task_checkpoint,
        task_checkpoint_name,
    )
    from adjourn.checkpoints.shapes import AUDITED, audit_entry, imported_history, shown_size
    from adjourn.checkpoints.triggers import GuardedSession

__all__ = [
    "AUDITED",
    "MAX_DESCRIPTION",
    "MAX_PAGE_BYTES",
    "NO_REPORT",
    "AgentReport",
    "CheckpointRequest",
    "FoundPage",
    "Freed",
    "GuardedSession",
    "ReportedArtifact",
    "ReportedStep",
    "RollbackChange",
    "TaskCheckpoint",
    "VerifiedFolder",
    "as_checkpoint",
    "audit_entry",
    "check_signature",
    "close_session",
    "create",
    "document",
    "document_of",
    "edit_page",
    "encode_document",
    "find",
    "finish",
    "imported_history",
    "is_replanned",
    "known_to",
    "parse",
    "plan_summary",
    "read_report",
    "refresh_page",
    "reopen",
    "report_of",
    "save_checkpoint",
    "save_task_checkpoint",
    "shown_size",
    "statements_of",
    "task_checkpoint_name",
    "trusted_signer",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(
        __name__,
        {
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
            "finishing": ("finish", "reopen"),
            "folder_verification": ("VerifiedFolder",),
            "git_restore": ("RollbackChange",),
            "histories": ("Freed",),
            "page": ("MAX_PAGE_BYTES",),
            "page_files": ("FoundPage",),
            "page_writer": ("edit_page",),
            "parser": ("parse",),
            "plans": ("is_replanned", "plan_summary", "read_report"),
            "report": (
                "AgentReport",
                "NO_REPORT",
                "ReportedArtifact",
                "ReportedStep",
                "report_of",
                "statements_of",
            ),
            "save": (
                "CheckpointRequest",
                "close_session",
                "refresh_page",
                "save_checkpoint",
                "save_task_checkpoint",
                "task_checkpoint_name",
            ),
            "shapes": ("AUDITED", "audit_entry", "imported_history", "shown_size"),
            "triggers": ("GuardedSession",),
        },
    )
