"""Resuming: everything that the next session learns about its task.

Owns: the resume of a checkpoint, pending work and its brief, imports of folders, lists for agents. Must never: run a tool.
"""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.handover.foreign import (
        SOURCES,
        ForeignWork,
        ImportedWork,
        Source,
        detect,
        import_work,
        read_work,
    )
    from adjourn.handover.importing import import_folder, locate, vouched_for
    from adjourn.handover.listing import list_tasks, read_contract_file
    from adjourn.handover.pending import PendingWork, find_pending_work, notice
    from adjourn.handover.record_sections import describe_record, read_section_request
    from adjourn.handover.resumption import Handover, Preview, resume
    from adjourn.handover.session_brief import NewSession, brief_new_session

__all__ = [
    "SOURCES",
    "ForeignWork",
    "Handover",
    "ImportedWork",
    "NewSession",
    "PendingWork",
    "Preview",
    "Source",
    "brief_new_session",
    "describe_record",
    "detect",
    "find_pending_work",
    "import_folder",
    "import_work",
    "list_tasks",
    "locate",
    "notice",
    "read_contract_file",
    "read_section_request",
    "read_work",
    "resume",
    "vouched_for",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "foreign": (
                "ForeignWork",
                "ImportedWork",
                "SOURCES",
                "Source",
                "detect",
                "import_work",
                "read_work",
            ),
            "importing": ("import_folder", "locate", "vouched_for"),
            "listing": ("list_tasks", "read_contract_file"),
            "pending": ("PendingWork", "find_pending_work", "notice"),
            "record_sections": ("describe_record", "read_section_request"),
            "resumption": ("Handover", "Preview", "resume"),
            "session_brief": ("NewSession", "brief_new_session"),
        },
    )
