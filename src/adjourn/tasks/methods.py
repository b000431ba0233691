"""The methods of the protocol by who sends them, from revision 2024-11-05 to 2026-07-28 with its extension for tasks.

A method that is here passes unless a rule names it, as `mcp.` and the method with dots. Any other is a vendor's, or of a later
revision: it passes only where a `use` or `allow` names it.

Owns: the lists and that rule. Must never: forward anything.
"""

from __future__ import annotations

from adjourn.aex.policy import Policy
from adjourn.aex.rule import RuleVerdict
from adjourn.tasks.decision import Block

UNGATED = frozenset((
    "initialize", "ping", "server/discover", "tools/list", "notifications/initialized", "notifications/cancelled",
))  # fmt: skip
"""Without these no session starts, ends a request, or gets the list of tools that the proxy edits."""
_TASKS = ("tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tasks/update")
_BOTH = ("ping", "notifications/cancelled", "notifications/progress", "notifications/tasks/status", *_TASKS)
OF_CLIENT = frozenset((
    *_BOTH, "initialize", "server/discover", "tools/list", "tools/call", "prompts/list", "prompts/get", "resources/list",
    "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe", "completion/complete",
    "logging/setLevel", "subscriptions/listen", "notifications/initialized", "notifications/roots/list_changed",
))  # fmt: skip
OF_SERVER = frozenset((
    *_BOTH, "sampling/createMessage", "elicitation/create", "roots/list", "notifications/message",
    "notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed",
    "notifications/resources/updated", "notifications/elicitation/complete", "notifications/subscriptions/acknowledged",
    "notifications/tasks",
))  # fmt: skip


def rule_name(method: str) -> str:
    """How rules name a method: `mcp.resources.read`."""
    return "mcp." + method.replace("/", ".")


_UNGATED_NAMES = frozenset(map(rule_name, UNGATED))
_NAMES = frozenset(map(rule_name, OF_CLIENT | OF_SERVER))


def is_vendors(name: str) -> bool:
    """Whether what rules name so is a method that the protocol does not have."""
    return name.startswith("mcp.") and name not in _NAMES


def always_passes(name: str) -> bool:
    """Whether what rules name so passes whatever they say."""
    return name in _UNGATED_NAMES


def judge(policy: Policy, method: str, known: frozenset[str]) -> RuleVerdict:
    """The verdict on a method whose params are not examined; `known` are those of the protocol that its sender may use."""
    if method in UNGATED and method in known:
        return RuleVerdict("allow")
    name = rule_name(method)
    return policy.judge_open(name) if method in known else policy.judge(name)


def method_refusal(policy: Policy, method: str, known: frozenset[str], *, auto_confirm: bool) -> Block | None:
    """Why a message may not pass about which nobody can be asked: a notification, or a request of the server."""
    verdict = judge(policy, method, known)
    confirm = verdict.confirm
    name, rule = rule_name(method), str(verdict.rule or "")
    if verdict.effect == "deny":
        return Block("deny_list", f"{name} is denied by policy: {rule}", "a person can change the rule", rule)
    if verdict.effect != "allow":
        return Block(
            "not_allowed",
            f"{name} is not a method of the protocol, and no rule allows it",
            f"a person can write: use {name}",
        )
    if confirm is None or (auto_confirm and not confirm.by):
        return None
    return Block(
        "confirm_required",
        f"{name} requires confirmation ({confirm}), and the proxy cannot ask about it",
        "a person can deny it, or remove the rule: a client asks its user about requests of a server itself",
        str(confirm),
    )
