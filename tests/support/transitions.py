"""Transitions of Continuation Records for tests: who asks for them, when, and a record with one member changed."""

from __future__ import annotations

import copy
from typing import Any

from adjourn.knowledge.cognition.invariants import check_record, require
from adjourn.knowledge.cognition.transitions import Transition
from adjourn.knowledge.model.documents import Tree, view, without, write
from adjourn.knowledge.model.record import CRAuthor, RecordContent
from support.documents import AGENT, ANN, NOW

PERSON, ROBOT = view(ANN, CRAuthor), view(AGENT, CRAuthor)
SYSTEM = CRAuthor(id="cron", type="system")
BY = {"human": PERSON, "agent": ROBOT, "system": SYSTEM}
LATER = NOW + 1000


def with_(record: Tree, collection: str, **members: Any) -> Tree:
    """A copy with the first item of a collection changed."""
    result = copy.deepcopy(record)
    result[collection][0].update(members)
    return result


def holds(step: Transition) -> Tree:
    """The record of a step, which is a record that holds."""
    write(without(step.record, "contentHash"), RecordContent)
    require(check_record(step.record))
    return step.record
