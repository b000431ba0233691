"""Checking a store, a task or a checkpoint folder: hash chains, signatures and references, reported as findings."""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.verification.explaining import CheckedClaim, explained
    from adjourn.verification.report import CODES, Located, VerificationReport
    from adjourn.verification.verify import Around, verify_folder, verify_store, verify_task

__all__ = [
    "CODES",
    "Around",
    "CheckedClaim",
    "Located",
    "VerificationReport",
    "explained",
    "verify_folder",
    "verify_store",
    "verify_task",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "explaining": ("CheckedClaim", "explained"),
            "report": ("CODES", "Located", "VerificationReport"),
            "verify": ("Around", "verify_folder", "verify_store", "verify_task"),
        },
    )
