"""Resuming: everything that the next session learns about its task.

Owns: the resume of a checkpoint, pending work and its brief, imports of folders, lists for agents. Must never: run a tool.
"""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.handover.announced import find_pending_work, untrusted_work
    from adjourn.handover.answering import MAX_ANSWER, Answerer, ItemReply, ReplyOutcome, record_answer
    from adjourn.handover.arguments import DiffLine, ShownArguments, diff_lines
    from adjourn.handover.calls import (
        CallReport,
        CallsFold,
        RecentCalls,
        Refusal,
        recent_calls,
        said,
        telling_argument,
    )
    from adjourn.handover.clients import last_client
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
    from adjourn.handover.inbox import (
        Inbox,
        KnownStream,
        WaitingItem,
        WaitingKind,
        calls_in_doubt,
        find_waiting,
        waiting_in_record,
        waiting_in_task,
    )
    from adjourn.handover.listing import SHARED_FOLDER, list_tasks, read_contract_file
    from adjourn.handover.pending import PendingWork, older_work
    from adjourn.handover.record_sections import describe_record, read_section_request
    from adjourn.handover.rendering import MAX_ROOM, MIN_ROOM, ROOM, to_json, to_lines
    from adjourn.handover.resumption import Preview, Resumed, resume
    from adjourn.handover.session_brief import NewSession, brief_new_session, instructions
    from adjourn.handover.timeline import LABEL, Timeline, TimelineEntry, event_details
    from adjourn.handover.value import Handover, Section, SectionItem
    from adjourn.handover.waiting_call import arguments_of

__all__ = [
    "LABEL",
    "MAX_ANSWER",
    "MAX_ROOM",
    "MIN_ROOM",
    "ROOM",
    "SHARED_FOLDER",
    "SOURCES",
    "Answerer",
    "CallReport",
    "CallsFold",
    "DiffLine",
    "ForeignWork",
    "Handover",
    "ImportedWork",
    "Inbox",
    "ItemReply",
    "KnownStream",
    "NewSession",
    "PendingWork",
    "Preview",
    "RecentCalls",
    "Refusal",
    "ReplyOutcome",
    "Resumed",
    "Section",
    "SectionItem",
    "ShownArguments",
    "Source",
    "Timeline",
    "TimelineEntry",
    "WaitingItem",
    "WaitingKind",
    "arguments_of",
    "brief_new_session",
    "calls_in_doubt",
    "describe_record",
    "detect",
    "diff_lines",
    "event_details",
    "find_pending_work",
    "find_waiting",
    "import_folder",
    "import_work",
    "instructions",
    "last_client",
    "list_tasks",
    "locate",
    "older_work",
    "read_contract_file",
    "read_section_request",
    "read_work",
    "recent_calls",
    "record_answer",
    "resume",
    "said",
    "telling_argument",
    "to_json",
    "to_lines",
    "untrusted_work",
    "vouched_for",
    "waiting_in_record",
    "waiting_in_task",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "announced": ("find_pending_work", "untrusted_work"),
            "answering": ("Answerer", "ItemReply", "MAX_ANSWER", "ReplyOutcome", "record_answer"),
            "arguments": ("DiffLine", "ShownArguments", "diff_lines"),
            "calls": (
                "CallReport",
                "CallsFold",
                "RecentCalls",
                "Refusal",
                "recent_calls",
                "said",
                "telling_argument",
            ),
            "clients": ("last_client",),
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
            "inbox": (
                "Inbox",
                "KnownStream",
                "WaitingItem",
                "WaitingKind",
                "calls_in_doubt",
                "find_waiting",
                "waiting_in_record",
                "waiting_in_task",
            ),
            "listing": ("SHARED_FOLDER", "list_tasks", "read_contract_file"),
            "pending": ("PendingWork", "older_work"),
            "record_sections": ("describe_record", "read_section_request"),
            "rendering": ("MAX_ROOM", "MIN_ROOM", "ROOM", "to_json", "to_lines"),
            "resumption": ("Preview", "Resumed", "resume"),
            "session_brief": ("NewSession", "brief_new_session", "instructions"),
            "timeline": ("LABEL", "Timeline", "TimelineEntry", "event_details"),
            "value": ("Handover", "Section", "SectionItem"),
            "waiting_call": ("arguments_of",),
        },
    )
