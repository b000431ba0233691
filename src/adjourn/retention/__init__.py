"""Deleting what is no longer needed: `prune` for old checkpoints, `gc` for data that nothing refers to."""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.retention.gc import collect
    from adjourn.retention.pruning import RetentionRules, plan, prune

__all__ = [
    "RetentionRules",
    "collect",
    "plan",
    "prune",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(
        __name__, {"gc": ("collect",), "pruning": ("RetentionRules", "plan", "prune")}
    )
