"""Splits the request into slots, each checked against the words of the request.

Owns: `build_frame` and the check of a value against its quote. Must never: keep a slot that the request does not bear out.
"""

from __future__ import annotations

import re

from adjourn.code.model.session_state import MappedSymbol, QueryFrame, SlotSource
from adjourn.code.workflow.payloads import QuotedValue, RequestFrame

_PARTICLES = frozenset("がをにではのとも")
_SHARE = 0.5
_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
PROMPT = """\
Split the request into its parts. Answer with one JSON object with the members target_feature (what to change or understand),
trigger_condition (when it happens), observed_issue (what happens now), desired_action (what should happen instead). Each is
{"value": "...", "quote": "..."}: the quote is copied verbatim from the request, the value restates it in a few words.
Use null for what the request does not say. Never guess.

The request:
"""


def build_frame(query: str, payload: RequestFrame) -> QueryFrame:
    """The frame of a request. A slot without a quote is a fact only if the request contains its value verbatim."""
    frame = QueryFrame(raw_query=query, scope=payload.scope, constraints=payload.constraints)
    slots = dict(payload.slots)
    if payload.action_type:
        slots["desired_action"] = payload.action_type
    for slot, given in slots.items():
        if isinstance(given, str):
            value, quote, source = given.strip(), "", _source(query, given)
        else:
            value, quote = _checked(query, given)
            source = "FACT"
        if value:
            setattr(frame, slot, value)
            frame.slot_source[slot] = source
            if quote:
                frame.slot_quotes[slot] = quote
    frame.mapped_symbols = [
        MappedSymbol(name, source=_source(query, name))
        for name in dict.fromkeys(payload.target_symbols)
        if name
    ]
    return frame


def _source(query: str, value: str) -> SlotSource:
    return "FACT" if value.strip() and value.strip() in query else "HYPOTHESIS"


def _checked(query: str, given: QuotedValue) -> tuple[str, str]:
    """Value and quote; both empty if the quote is not in the request, or unrelated to the value."""
    value, quote = (given.value or "").strip(), given.quote or ""
    if not value or not quote or quote not in query or not related(value, quote):
        return "", ""
    return value, quote


def related(value: str, quote: str) -> bool:
    """Whether a value relates to its quote: one contains the other, or they share a word or enough CJK characters."""
    one, other = value.casefold(), quote.casefold()
    if one in other or other in one or set(one.split()) & set(other.split()):
        return True
    if not (_CJK.search(one) and _CJK.search(other)):
        return False
    left, right = (set("".join(text.split())) - _PARTICLES for text in (one, other))
    smaller = min(len(left), len(right))
    return smaller > 0 and len(left & right) / smaller >= _SHARE
