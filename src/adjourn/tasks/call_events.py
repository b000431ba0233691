"""What the decision on a call, and how its server lists a tool, are as events.

Owns: which event says it, and with which of the call's facts. Must never: decide, or write.
"""

from __future__ import annotations

from collections.abc import Iterable

from adjourn.host import clock
from adjourn.log import kinds
from adjourn.log.canonical_json import digest
from adjourn.log.event import timestamp
from adjourn.tasks.decision import APPROVAL_MILLISECONDS, Ask, Block, RecordedAnswer, ToolRequest, shown_params
from adjourn.tasks.entries import Approval
from adjourn.tasks.ledger import MAX_LISTED_TOOLS, Ledger, definition_key, is_same_tool
from adjourn.text.fitting import ELLIPSIS
from adjourn.text.redact import preview

MAX_DOCUMENT = 128 * 1024
"""Characters of the arguments of a call that a person is asked about."""
MAX_SHOWN_TOOL = 200
CHANGED = "its description or schema changed since it was last confirmed or first used"


def question(
    call: ToolRequest, ask: Ask, known: Iterable[Approval], now: int
) -> tuple[Approval, kinds.ConfirmRequired | None, bytes]:
    """Of the known questions the one that is open for this very call; else a new one, the fact that it is asked, and the document of
    its arguments (empty: the fact has all of them).
    """
    stamp = timestamp(now)
    params = shown_params(call)
    for approval in known:
        same = (approval.digest, approval.doubt, approval.who, approval.otherwise, approval.params, approval.definition) == (
            call.digest, ask.doubt, ask.who, ask.otherwise, params, ask.definition,
        )  # fmt: skip
        if (
            same
            and is_same_tool(approval, call)
            and not approval.approved
            and not approval.refused
            and approval.expires > stamp
        ):
            return approval, None, b""
    arguments = call.arguments or (preview(call.given) if call.given else "")
    document = preview(call.given, MAX_DOCUMENT).encode() if ELLIPSIS in arguments and call.given else b""
    required = kinds.ConfirmRequired(
        approval=clock.short(6),
        arguments=arguments,
        cause=f"{ask.cause}; {CHANGED}" if ask.changed else ask.cause,
        definition=ask.definition,
        digest=call.digest,
        document=digest(document) if document else "",
        doubt=ask.doubt,
        expires=timestamp(now + (APPROVAL_MILLISECONDS if ask.within is None else ask.within)),
        otherwise=ask.otherwise,
        params=params,
        server=call.server,
        tool=call.tool,
        who=ask.who,
    )
    new = Approval(
        id=required.approval,
        server=call.server,
        tool=call.tool,
        digest=call.digest,
        expires=required.expires,
        cause=required.cause,
        asked=stamp,
        arguments=required.arguments,
        doubt=ask.doubt,
        who=ask.who,
        otherwise=ask.otherwise,
        params=params,
        definition=ask.definition,
        document=required.document,
    )
    return new, required, document


def listed_as(
    ledger: Ledger, server: str, tool: str, definition: str, before: str = ""
) -> kinds.ToolDefined | kinds.ToolChanged | None:
    """What is new about the definition of a tool; `before` is the one that the server gave before, for a tool that was not used."""
    text = ledger.definitions.get(definition_key(server, tool), before)
    if text == definition:
        return None
    if text:
        return kinds.ToolChanged(after=definition, before=text, server=server, tool=tool)
    if len(ledger.definitions) >= MAX_LISTED_TOOLS:
        return None
    return kinds.ToolDefined(definition=definition, server=server, tool=tool)


def refusal_event(call: ToolRequest, decision: Block | RecordedAnswer) -> kinds.Data:
    """That a call was not let through."""
    if isinstance(decision, RecordedAnswer):
        return kinds.ToolReplayed(call=decision.call, once=decision.once, server=call.server, tool=call.tool)
    arguments = call.arguments or (preview(call.given) if call.given else "")
    if decision.reason == "budget_exhausted":
        return kinds.BudgetExhausted(
            arguments=arguments,
            budget=decision.budget,
            digest=call.digest,
            limit=decision.limit,
            server=call.server,
            tool=call.tool,
            used=decision.used,
        )
    return kinds.ToolDenied(
        arguments=arguments,
        digest=call.digest,
        reason=decision.reason,
        rule=decision.rule,
        server=call.server,
        tool=call.tool[:MAX_SHOWN_TOOL],
    )


def observed(call: ToolRequest, decision: Block | Ask | RecordedAnswer) -> kinds.PolicyObserved:
    """What the policy would have done, had it not only observed."""
    if isinstance(decision, Block):
        return kinds.PolicyObserved(
            decision="block",
            reason=decision.reason,
            rule=decision.rule,
            server=call.server,
            tool=call.tool[:MAX_SHOWN_TOOL],
        )
    if isinstance(decision, Ask):
        return kinds.PolicyObserved(decision="ask", reason=decision.cause, rule=decision.cause, tool=call.tool)
    return kinds.PolicyObserved(decision="replay", reason=f"call {decision.call} had this effect", tool=call.tool)
