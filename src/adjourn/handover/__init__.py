"""Resuming: everything that the next session is told about a task, collected in one place.

Owns: choosing and ordering what is told. Must never: write a page or a folder of a checkpoint.
"""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.handover.pending import notice, waiting
    from adjourn.handover.resume import import_folder, import_published, locate, vouched_for

__all__ = [
    "import_folder",
    "import_published",
    "locate",
    "notice",
    "vouched_for",
    "waiting",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "import_folder": "resume",
            "import_published": "resume",
            "locate": "resume",
            "notice": "pending",
            "vouched_for": "resume",
            "waiting": "pending",
        },
    )
