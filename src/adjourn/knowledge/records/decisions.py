"""Decisions: who may override, contest and settle them.

Owns: the operations on decisions, and variants. Must never: lose a variant, or make a contested decision look settled.
"""

from __future__ import annotations

from typing import Literal

from adjourn.errors import InvalidError, RefusedError
from adjourn.knowledge.cognition.transitions import (
    RecordChange,
    Transition,
    find,
    path_of,
    put,
    require_edge,
    signed,
)
from adjourn.knowledge.model import CRAuthor, Tree, tree_of, without
from adjourn.knowledge.records.interventions import who
from adjourn.log import canonical


def override_decision(
    record: Tree, decision_id: str, new_decision: str, author: CRAuthor, now: int, *, rationale: str = ""
) -> Transition:
    """Replace a decision. The old text stays as a variant; the event names what to revisit.

    Raises `RefusedError` if the author may not override it.
    """
    decision = find(record, "decision", decision_id)
    _require_override(decision, author)
    changed = {
        **decision,
        "variants": with_variants(decision.get("variants", []), variant_of(decision)),
        "description": new_decision,
        "rationale": rationale or f"overridden by {author.id}",
        **signed("made", author, now),
        "status": "accepted",
    }
    detail = {"revisit": decision["affects"]}
    change = RecordChange("decision-overridden", path_of("decision", decision_id), detail)
    return Transition(put(record, "decision", changed), (change,))


def require_contested(record: Tree, decision_id: str) -> None:
    """Raise `RefusedError` for a decision that is settled: whoever answers a contested one must not undo another's answer."""
    status = find(record, "decision", decision_id)["status"]
    if status != "contested":
        raise RefusedError(f"decision {decision_id} is settled: {status}", "contest it to open it again")


def contest_decision(
    record: Tree, decision_id: str, decision_text: str, author: CRAuthor, now: int, *, rationale: str
) -> Transition:
    """Contest a decision: add another view. Anyone may. The decision is then open until it is settled."""
    decision = find(record, "decision", decision_id)
    variants = decision.get("variants", [])
    if decision["status"] != "contested":
        require_edge("decision", decision_id, decision["status"], "contested")
        variants = with_variants(variants, variant_of(decision))
    view = {"author": tree_of(author), "decision": decision_text, "rationale": rationale, "madeAt": now}
    changed = {**decision, "status": "contested", "variants": with_variants(variants, view)}
    change = RecordChange("decision-contested", path_of("decision", decision_id), {"decision": decision_text})
    return Transition(put(record, "decision", changed), (change,))


def settle_decision(
    record: Tree,
    decision_id: str,
    status: Literal["accepted", "rejected", "tentative"],
    author: CRAuthor,
    now: int,
    *,
    variant: int | None = None,
) -> Transition:
    """Set the status of a decision. Settling a contested one needs the right to override, and may take the text of a variant.

    Raises `RefusedError` without that right, `InvalidError` for an unknown `variant`.
    """
    decision = find(record, "decision", decision_id)
    require_edge("decision", decision_id, decision["status"], status)
    require_decider(decision, author)
    changed = {**decision, "status": status}
    if variant is not None:
        variants = decision.get("variants", [])
        if not 0 <= variant < len(variants):
            raise InvalidError(
                f"decision {decision_id} has no variant {variant}",
                f"give a number from 0 to {len(variants) - 1}",
            )
        chosen = variants[variant]
        changed |= {
            "description": chosen["decision"],
            "rationale": chosen["rationale"],
            **signed("made", author, now),
        }
        if decision["status"] != "contested":  # a contested one has its text among its variants
            changed["variants"] = with_variants(variants, variant_of(decision))
    change = RecordChange(
        "updated", path_of("decision", decision_id), {"status": status, "revisit": decision["affects"]}
    )
    return Transition(put(record, "decision", changed), (change,))


def require_decider(decision: Tree, author: CRAuthor) -> None:
    """Raise `RefusedError` unless the author made the decision and it is not contested, or may override it."""
    maker = decision["madeBy"]
    if decision["status"] == "contested" or (maker["id"], maker["type"]) != (author.id, author.type):
        _require_override(decision, author)


def _require_override(decision: Tree, author: CRAuthor) -> None:
    if author.type not in decision["overridableBy"]:
        allowed = " or ".join(decision["overridableBy"]) or "nobody"
        raise RefusedError(
            f"decision {decision['id']} can be changed by {allowed}; {author.id} is {who(author.type)}",
            "contest it instead: anyone may",
        )


def variant_of(decision: Tree) -> Tree:
    """The present text of a decision, as a variant."""
    return {
        "author": decision["madeBy"],
        "decision": decision["description"],
        "rationale": decision["rationale"],
        "madeAt": decision["madeAt"],
        **({} if decision["status"] == "contested" else {"status": decision["status"]}),
    }


def with_variants(variants: list[Tree], *more: Tree) -> list[Tree]:
    """Variants with others added, equal ones once."""
    result, seen = list(variants), {_side(variant) for variant in variants}
    for variant in more:
        side = _side(variant)
        if side not in seen:
            seen.add(side)
            result.append(variant)
    return result


def _side(variant: Tree) -> bytes:
    return canonical(without(variant, "madeAt"))
