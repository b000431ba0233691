"""Rules that name no known tool, and allows that may mean the tools of two servers."""

from __future__ import annotations

import time

import pytest

from adjourn.aex import OWN_TOOLS, KnownTool, KnownTools, unmatched_rules
from adjourn.aex.match import META_TOOLS
from adjourn.hooks.claude_code import TOOLS
from adjourn.policy.calls import READING_VERBS
from support.cases import for_each
from support.policies import policy_of

KNOWN = KnownTools({
    "inv": tuple(map(KnownTool, ("list_items", "remove_item", "search", "git.status"))),
    "notes_2": tuple(map(KnownTool, ("publish", "search"))),
})  # fmt: skip


def told(line: str, *, is_complete: bool = False, known: KnownTools = KNOWN) -> list[tuple[str, str, str]]:
    policy = policy_of(line, version="v1")
    found = unmatched_rules(policy, known, is_complete=is_complete)
    assert all((one.severity, one.source, one.span.line) == ("warning", "p.aex", 4) for one in found)
    return [(one.code, one.message, one.help) for one in found]


@for_each(
    "line",
    [
        "use inv.remove_item",
        "use inv.*, notes_2.publish, notes-2.publish",
        "use remove_item, publish",
        "use *",
        "deny INV.Remove-Item",
        "deny remove.item",
        "confirm before notes-2.*",
        "limit inv.search 3 per hour",
        "once publish by id",
        "checkpoint before inv.*",
        "deny search",
        "use file.read, shell.exec:git *, git.*, tests.run, todo.*, network.fetch",
        "deny secrets.read, network.*",
        "confirm before mcp.resources.read, aex.*, adjourn.*, unknown.Odd",
        "use elsewhere.*, other.thing",  # a server that has not listed its tools yet
        "use quite_another_name",
    ],
)
def test_a_rule_that_names_a_tool_or_may_do_so_is_fine(line: str) -> None:
    """Nothing is found about rules for known tools, for tools that are of no server, and for servers that are not known."""
    assert told(line) == []


@for_each(
    ("line", "message", "help_text"),
    [
        ("use inv.remove_itm", "`inv.remove_itm` names no tool of the server inv", "did you mean inv.remove_item?"),
        ("deny inv.delete", "`inv.delete` names no tool of the server inv", "it lists list_items, remove_item, search, git.status"),
        ("use Inv.search", "`Inv.search` names no tool of the known servers: inv, notes_2", "did you mean inv.search?"),
        ("use notes-2.publsh", "`notes-2.publsh` names no tool of the server notes_2", "did you mean notes_2.publish?"),
        ("confirm before note2.publish", "`note2.publish` names no tool of the known servers: inv, notes_2", "did you mean notes_2.publish?"),
        ("deny ivn.*", "`ivn.*` names no tool of the known servers: inv, notes_2", "did you mean inv.*?"),
        ("use remove_itme:a", "`remove_itme` names no tool of the known servers: inv, notes_2", "did you mean remove_item?"),
        ("limit serch 1 per day", "`serch` names no tool of the known servers: inv, notes_2", "did you mean search?"),
    ],
)  # fmt: skip
def test_a_typing_error_is_found_with_the_nearest_name(line: str, message: str, help_text: str) -> None:
    """A rule that names no tool of a known server, or a name near one, is a finding that says which tool was meant."""
    assert told(line) == [("AEX170", message, help_text)]


@pytest.mark.parametrize("line", ["use elsewhere.*", "deny quite_another_name"])
def test_where_all_servers_are_known_a_rule_for_another_is_found(line: str) -> None:
    """If there are no servers but the known ones, a rule for another one is a finding."""
    (code, message, _), = told(line, is_complete=True)  # fmt: skip
    assert code == "AEX170"
    assert message.endswith("names no tool of the known servers: inv, notes_2")


@pytest.mark.parametrize("line", ["use search", "use search, inv.search", "use search:x"])
def test_an_allow_that_may_mean_two_servers_is_found(line: str) -> None:
    """An allow without a server, for a tool that two servers have, is a finding that says what to write."""
    message = "`search` may mean a tool of inv, notes_2, so it allows none of them"
    assert told(line) == [("AEX171", message, "write inv.search or notes_2.search")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("use git.*", "`git.*` is for tools of no server, so it allows none of the server git"),
        ("use git.status, git.push", "`git.status` is for tools of no server, so it allows none of the server git"),
    ],
)
def test_an_allow_for_tools_of_no_server_beside_a_server_of_that_name_is_found(line: str, message: str) -> None:
    """The finding says what to write. An exact name counts only where the server has a tool of it."""
    known = KnownTools({"git": (KnownTool("status"), KnownTool("push"))})
    assert told(line, known=known) == [("AEX172", message, "write git.push")]
    assert told("use git.diff, git.push, *", known=known) == []


def test_a_server_that_has_listed_nothing_yet_counts_for_a_wildcard() -> None:
    """Settings name the server; what it lists is not known."""
    found = unmatched_rules(policy_of("use git.*, git.status", version="v1"), KnownTools(), listed=["git", "inv"])
    assert [(one.code, one.span.line) for one in found] == [("AEX172", 4)]


def test_without_known_tools_nothing_is_found() -> None:
    """As long as no server has listed its tools, nothing can be said."""
    assert told("use inv.remove_itm", known=KnownTools(), is_complete=True) == []


def test_a_long_policy_and_many_tools_take_little_time() -> None:
    """Thousands of rules and tools are compared without a look at each pair."""
    known = KnownTools({f"s{n}": tuple(KnownTool(f"t{m}") for m in range(1000)) for n in range(20)})
    policy = policy_of(*(f"deny s{n % 20}.t{n}" for n in range(1000)))
    began = time.process_time()
    assert unmatched_rules(policy, known) == []
    assert time.process_time() - began < 5


def test_the_names_of_no_server_are_those_that_clients_and_runs_use() -> None:
    """Each name that a hook gives a client's tool begins as one of the tools that are of no server."""
    heads = {name.partition(".")[0] for name in OWN_TOOLS}
    assert set(TOOLS.values()) <= OWN_TOOLS
    assert {name.partition(".")[0] for name in (*META_TOOLS, *READING_VERBS)} <= heads
