"""Names with servers: their spelling, and a policy that is bound to the tools of one server."""

from __future__ import annotations

import pytest

from adjourn.aex import NOTHING_KNOWN, KnownTool, KnownTools, Policy, canonical_server, from_text, merge
from adjourn.log.kinds import full_name
from support.cases import for_each


def policy(*lines: str) -> Policy:
    found, findings = from_text("\n".join(["policy p v1", 'goal "g"', *lines]), "p.aex")
    assert not [finding for finding in findings if finding.severity == "error"], findings
    return found


def known(**servers: str) -> KnownTools:
    return KnownTools({
        name: tuple(KnownTool(tool) for tool in tools.split()) for name, tools in servers.items()
    })  # fmt: skip


@for_each(
    ("name", "canonical"),
    [
        ("inv", "inv"),
        ("Inv_2", "Inv_2"),
        ("my-server", "my_server"),
        ("plugin:git hub/x", "plugin_git_hub_x"),
        ("Büro", "B_ro"),
        ("a" * 99, "a" * 64),
        ("", ""),
        ("--", ""),
        ("库存", "xn_q8sz8e"),
        ("да нет", "xn___7sblg3b5a"),
        ("库" * 99, "xn_dxt" + "a" * 58),
        ("…", ""),
    ],
)
def test_the_canonical_name_of_a_server(name: str, canonical: str) -> None:
    """A server's name keeps letters, digits and `_`; one in another script is its Punycode; without a letter or digit it names no server."""
    assert canonical_server(name) == canonical


def test_the_full_name_of_a_tool() -> None:
    """A tool has its server's name in front where the server is known, once."""
    assert full_name("notes", "notes.add") == "notes.add"
    assert (full_name("inv", "search"), full_name("", "search")) == ("inv.search", "search")


@for_each(
    ("line", "tool", "effect"),
    [
        ("use inv.remove_item", "remove_item", "allow"),
        ("use inv.*", "remove_item", "allow"),
        ("use remove_item", "remove_item", "allow"),
        ("use *", "remove_item", "allow"),
        ("use other.remove_item", "remove_item", "closed"),
        ("use Inv.remove_item", "remove_item", "closed"),
        ("use inv.deep.*", "deep.down", "allow"),
        ("use inv.*", "mcp.anything", "closed"),
        ("use mcp.anything", "mcp.anything", "allow"),
    ],
)
def test_an_allow_names_a_tool_by_either_form(line: str, tool: str, effect: str) -> None:
    """An allow counts by `SERVER.TOOL` and by `TOOL`, as written; a wildcard for a server allows no name of the protocol."""
    assert policy(line).at_server("inv").judge(tool).effect == effect


@pytest.mark.parametrize("pattern", ["inv.remove_item", "inv.*", "remove_item", "INV.Remove-Item", "*"])
def test_a_refusal_names_a_tool_by_either_form(pattern: str) -> None:
    """Refusals, questions, limits, `once` and checkpoint rules count by either form of a tool's name, in any spelling."""
    at = policy("use *", f"deny {pattern}").at_server("inv")
    assert at.judge("remove_item").effect == "deny"
    at = policy(
        "use *",
        f"confirm before {pattern}",
        f"limit {pattern} 3 per minute",
        f"once {pattern} by id",
        f"checkpoint before {pattern}",
    ).at_server("inv")
    assert at.judge("remove_item").confirm is not None
    assert [len(at.limits_of("remove_item")), len(at.once_of("remove_item"))] == [1, 1]
    assert at.checkpoint_before("remove_item") is not None


def test_a_server_is_known_by_its_name_with_dashes_too() -> None:
    """A server that a person named with `-` is named by that, and by its canonical name."""
    for line in ("use my-server.search", "use my_server.search"):
        assert policy(line).at_server("my-server").judge("search").effect == "allow"
    assert policy("use *").at_server("my-server").server == "my_server"


def test_without_a_name_rules_name_a_tool_by_the_short_form_alone() -> None:
    """A policy at a server whose name is not known judges its tools by the names that they have."""
    at = policy("use inv.remove_item, search").at_server("")
    assert [at.judge(tool).effect for tool in ("remove_item", "search")] == ["closed", "allow"]


@pytest.mark.parametrize(
    ("line", "servers", "effect"),
    [
        ("use search", {"inv": "search"}, "allow"),
        ("use search", {"inv": "search", "notes": "write"}, "allow"),
        ("use search", {"inv": "search", "notes": "search"}, "closed"),
        ("use inv.search", {"inv": "search", "notes": "search"}, "allow"),
        ("use notes.search", {"inv": "search", "notes": "search"}, "closed"),
        ("use *", {"inv": "search", "notes": "search"}, "allow"),
        ("use search, inv.*", {"inv": "search", "notes": "search"}, "allow"),
    ],
)
def test_an_allow_that_may_mean_two_servers_is_closed(line: str, servers: dict[str, str], effect: str) -> None:
    """An allow by the short form counts unless another known server has a tool of that name."""
    at = policy(line).at_server("inv", known(**servers))
    assert at.judge("search").effect == effect
    assert bool(at.unclear_for("search")) == ("use search" in line and "search" in servers.get("notes", ""))


def test_an_allow_for_another_known_server_is_none_for_a_tool_that_is_called_like_it() -> None:
    """A tool called `git.status` of one server gains nothing by an allow for the known server `git`."""
    found = policy("use git.status, git.*")
    assert found.at_server("inv").judge("git.status").effect == "allow"
    assert found.at_server("inv", known(git="status")).judge("git.status").effect == "closed"
    assert found.at_server("git", known(git="status")).judge("status").effect == "closed"


@for_each(
    ("line", "server", "tool"),
    [
        ("use git.*", "git", "reset"), ("use git.*", "git", "git_commit"), ("use git.*", "inv", "git.reset"), ("use file.read", "file", "read"),
        ("use shell.exec:ls*", "shell", "exec"), ("use agent.*", "agent", "spawn"), ("use tests.run", "tests", "run"),
        ("use network.*", "network", "post"), ("use unknown.Odd", "unknown", "Odd"), ("use unknown.*", "unknown", "x"),
        ("use mcp.*", "mcp", "x"), ("use aex.*", "aex", "x"), ("use tools.search", "tools", "search"),
    ],
)  # fmt: skip
def test_an_allow_for_tools_of_no_server_is_none_for_a_server_that_has_their_name(
    line: str, server: str, tool: str
) -> None:
    """No tool of a server is allowed by a rule for adjourn's own tools, with its list known or not; deny and confirm count for both."""
    found = policy(line)
    for tools in (NOTHING_KNOWN, known(**{server: tool})):
        assert found.at_server(server, tools).judge(tool).effect == "closed"
    assert found.at_server("", known(**{server: tool}), claim=server).judge(tool).effect == "closed"
    pattern = line.removeprefix("use ").partition(":")[0]
    assert policy("use *", f"deny {pattern}").at_server(server).judge(tool).effect == "deny"


def test_a_server_named_as_own_tools_are_has_rules_of_its_own() -> None:
    """A rule that names a tool of the server, and none of adjourn's, counts; and `*` counts for all."""
    at = policy("use git.git_status, git.branch.*, git.*").at_server("git")
    assert [at.judge(tool).effect for tool in ("git_status", "branch.list", "git_reset")] == [
        "allow",
        "allow",
        "closed",
    ]
    assert policy("use *").at_server("git").judge("git_reset").effect == "allow"
    own = policy("use git.*, file.read")
    assert [own.judge(tool).effect for tool in ("git.apply", "file.read")] == ["allow", "allow"]


def test_a_contract_gets_no_tool_of_a_server_by_an_allow_for_tools_of_none() -> None:
    """`use git.git_reset` of a contract is not granted by `allow git.*` of the policy, nor by a narrower rule below it."""
    outer = policy("use git.*")
    assert not outer.grants("git.git_reset")
    assert outer.grants("git.status")
    assert outer.grants("git.*")
    merged = merge(outer, policy("use git.git_reset, git.status"))
    assert merged.at_server("git").judge("git_reset").effect == "closed"
    assert merged.judge("git.status").effect == "allow"


def test_a_server_shadows_no_name_of_the_proxy() -> None:
    """`deny inv.*` and `confirm before inv.*` leave meta-tools and methods of the protocol alone."""
    at = policy("use *", "deny inv.*", "confirm before mcp.tools.list").at_server("inv")
    assert at.judge_open("aex.checkpoint").effect == "allow"
    assert at.judge_open("mcp.tools.list").confirm is not None
    assert at.judge("mcp.odd").effect == "deny"


def test_binding_keeps_the_rules_and_happens_once() -> None:
    """A policy at a server is the same permissions; binding it to that server again returns it as it is."""
    found = policy("use inv.*", "budget calls=3")
    at = found.at_server("inv", known(inv="a"))
    assert (at.allow, at.budget, at.server) == (found.allow, 3, "inv")
    assert at.at_server("inv", known(inv="a")) is at
    assert found.judge("a").effect == "closed"


def test_a_name_that_is_anothers_gains_no_allow_and_evades_no_refusal() -> None:
    """A server that claims another's name is named by it in refusals, questions and limits, and in no allow."""
    found = policy("use git.*, git.status, push, ping", "deny git.force", "limit git.push 3 per hour")
    at = found.at_server("", known(git="status push"), claim="git")
    effects = {tool: at.judge(tool).effect for tool in ("status", "git.status", "push", "ping", "force", "git.force")}
    closed = dict.fromkeys(("status", "git.status"), "closed")
    assert effects == closed | {"push": "allow", "ping": "allow", "force": "deny", "git.force": "deny"}
    assert len(at.limits_of("push")) == 1
    assert at.server == ""


def test_a_server_without_a_name_gains_no_allow_for_a_known_one() -> None:
    """A tool called `git.status`, or as one of the known server `git`, gains nothing where its server has no name at all."""
    found = policy("use git.status, status, ping")
    at = found.at_server("", known(git="status"), claim="_")
    assert [at.judge(tool).effect for tool in ("git.status", "status", "ping")] == ["closed", "closed", "allow"]
