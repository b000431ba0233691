"""Cognitive sessions, kept: what an agent knows, asks and intends, while it works and when it goes on.

`store` is the session as a program works with it, `pages` keeps it and its checkpoints in a `Store`.
"""

from adjourn.knowledge.cognition.store import CognitiveStore

__all__ = ["CognitiveStore"]
