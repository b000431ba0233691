"""Work that other tools wrote down: published checkpoint folders, CONTINUUM documents, LangGraph checkpoints, hand-over pages.

Each format has a reader that returns a `ForeignWork`; `taking_in` makes a task of it. What they read is hostile input.
"""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.handover.foreign.reading import detect, read_work
    from adjourn.handover.foreign.taking_in import ImportedWork, import_work
    from adjourn.handover.foreign.work import SOURCES, ForeignWork, Source

__all__ = ["SOURCES", "ForeignWork", "ImportedWork", "Source", "detect", "import_work", "read_work"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "reading": ("detect", "read_work"),
            "taking_in": ("ImportedWork", "import_work"),
            "work": ("ForeignWork", "SOURCES", "Source"),
        },
    )
