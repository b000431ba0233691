"""The methods that pass unless a rule names them are those of the protocol, and no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from adjourn.aex.rule import CLOSED
from adjourn.tasks.methods import OF_CLIENT, OF_SERVER, UNGATED, is_vendors, judge, method_refusal, rule_name
from support.policies import policy_of

LITERAL = re.compile(r'\bmethod: (?:Annotated\[)?Literal\["([^"]+)"\]')


def test_every_method_of_the_sdk_is_known() -> None:
    """What the types of the protocol's SDK name, in all the revisions that it has, is in one of the lists."""
    types = pytest.importorskip("mcp_types")
    found = {
        name for file in Path(types.__file__).parent.rglob("*.py") for name in LITERAL.findall(file.read_text("utf-8"))
    }
    assert len(found) > 25
    assert found <= OF_CLIENT | OF_SERVER
    assert found >= {"sampling/createMessage", "tools/call", "server/discover", "tasks/result"}


def test_what_one_side_may_send_is_no_method_of_the_other() -> None:
    """A client that asks its server for sampling uses a method that the protocol does not have."""
    policy = policy_of("use echo")
    assert judge(policy, "sampling/createMessage", OF_SERVER).effect == "allow"
    assert judge(policy, "sampling/createMessage", OF_CLIENT) == CLOSED
    assert judge(policy, "resources/read", OF_CLIENT).effect == "allow"
    assert judge(policy, "resources/read", OF_SERVER) == CLOSED


@pytest.mark.parametrize("method", sorted(UNGATED))
def test_no_rule_stops_what_a_session_needs(method: str) -> None:
    """Even `deny *` leaves the greeting, the list of tools and the end of a request."""
    assert judge(policy_of("use a", "deny *"), method, OF_CLIENT).effect == "allow"


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        (["use a"], "not_allowed"),
        (["use mcp.x.*"], ""),
        (["use mcp.x.y"], ""),
        (["use *", "deny mcp.x.y"], "deny_list"),
        (["use *", "deny MCP.X/Y"], "deny_list"),
        (["use *", "confirm before mcp.x.y"], "confirm_required"),
        (["use *"], ""),
    ],
)
def test_a_method_of_a_vendor_follows_the_rules(rules: list[str], reason: str) -> None:
    """It is closed unless an allow names it; deny and confirm hold above that."""
    block = method_refusal(policy_of(*rules), "x/y", OF_SERVER, auto_confirm=False)
    assert (block.reason if block else "") == reason
    assert rule_name("x/y") == "mcp.x.y"


def test_automatic_confirmation_passes_what_no_person_is_named_for() -> None:
    """`by human` asks for a person; the flag does not replace one."""
    asks = policy_of("use *", "confirm before mcp.roots.list")
    named = policy_of("use *", "confirm before mcp.roots.list by human", version="v1")
    assert method_refusal(asks, "roots/list", OF_SERVER, auto_confirm=True) is None
    assert method_refusal(named, "roots/list", OF_SERVER, auto_confirm=True) is not None


def test_rules_tell_a_method_of_a_vendor_by_its_name() -> None:
    """The methods of the protocol are not a vendor's, and names outside `mcp.` are neither."""
    assert is_vendors("mcp.x.y")
    assert not any(is_vendors(rule_name(method)) for method in OF_CLIENT | OF_SERVER)
    assert not is_vendors("x.y")
