"""adjourn: an AI agent's work outlives the session that did it."""

__version__ = "0.1.0"
