"""What `import adjourn` promises, and that it costs nothing."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

import adjourn
from house import product

NAMES = [
    "AdjournError", "AdjournSession", "Assumption", "Belief", "Branch", "CRAuthor", "CRBlocker", "CRDecision", "CRDiff", "CREvent", "CRInvariant",
    "CRLearning", "CRMergeResult", "CRQuestion", "CRResumePoint", "CRStore", "CRToolEffect", "Call",
    "CheckpointDiff", "CognitiveCheckpoint", "CognitiveNode", "CognitiveSession", "CognitiveStore", "ConflictError",
    "ContinuationRecord", "Dialect", "EffectCall", "EpistemicState", "Fact", "Goal", "IntegrityError", "IntentGraph", "InvalidError",
    "MemoryStore", "MessageHistory", "Middleware", "ModelReply", "NodePhase", "NodeStatus", "NodeType", "NotFoundError",
    "OpenQuestion", "PostgresStore", "RefusedError", "RestoredSession", "ResumableAnthropic", "ResumableOpenAI", "RunningEffect",
    "SessionOptions", "SqliteStore", "Store", "StoreError", "Strategy", "TaskRecord", "ToolBinding", "Trigger", "UsageError", "Validity", "WorkingState", "brief",
    "create_checkpoint", "diff_checkpoints", "estimate_tokens", "format_state_for_prompt", "move_goal", "open_store",
    "parse_reply", "restore_checkpoint", "validate_checkpoint",
]  # fmt: skip
ALIASES = {"Call", "NodePhase", "NodeStatus", "NodeType", "Strategy", "Trigger"}
"""Names of types that have no name of their own."""


def test_the_public_names_are_these() -> None:
    """A name is public by being in this list, and each leads somewhere."""
    assert adjourn.__all__ == sorted(NAMES)
    assert set(NAMES) <= set(dir(adjourn))
    for name in NAMES:
        assert name in ALIASES or getattr(adjourn, name).__name__ == name
        getattr(adjourn, name)


def test_a_name_that_is_not_there_is_told() -> None:
    """Unknown attributes raise AttributeError."""
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        adjourn.nothing  # type: ignore[attr-defined]  # noqa: B018  # that is the test


def test_importing_costs_nothing() -> None:
    """Importing the package imports no other module, and no SDK before it is used."""
    script = (
        "import sys; before = set(sys.modules); import adjourn; print(set(sys.modules) - before == {'adjourn'});"
        "adjourn.ResumableAnthropic, adjourn.ResumableOpenAI, adjourn.CRStore, adjourn.AdjournSession, adjourn.MessageHistory;"
        "print({'anthropic', 'openai', 'agents', 'pydantic_ai', 'httpx', 'psycopg', 'click', 'rich'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["True", "set()", ""]


def test_one_class_name_is_one_class() -> None:
    """No two modules have a class of the same name, so that a name alone says which class is meant."""
    homes: dict[str, list[str]] = {}
    for module in product().modules.values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(module.name)
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}
