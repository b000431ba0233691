"""The policy that `adjourn init` writes, and the rules that it adds to one that is there."""

from __future__ import annotations

import pytest

from adjourn.aex import OWN_TOOLS, Policy, from_text, narrowed
from adjourn.aex.match import KnownTool, KnownTools
from adjourn.policy.calls import judge
from adjourn.setup.first_policy import ListedServer, compose, extended, ruled, section, unnamed, unruled
from adjourn.setup.probe import Probed, ProbedTool
from support.cases import for_each


def server(name: str, *tools: str, failure: str = "") -> ListedServer:
    return ListedServer(name, f"run {name}", Probed(name, tuple(map(ProbedTool, tools)), failure))


def permitted(text: str) -> Policy:
    policy, findings = from_text(text, "p.aex")
    assert findings == []
    return policy


INV = server("inv", "get_item", "add_item", "remove_item")


def verdicts(policy: Policy, name: str, *tools: str) -> list[tuple[str, bool]]:
    judged = [policy.at_server(name).judge(tool) for tool in tools]
    return [(one.effect, one.confirm is not None) for one in judged]


@pytest.mark.parametrize("asks", [True, False])
def test_reads_are_allowed_writes_are_confirmed_and_destroying_is_denied(*, asks: bool) -> None:
    """Each tool has its rule; the policy has no goal, no finding, and knows the agent's own tools."""
    policy = permitted(compose([INV], asks=asks))
    assert verdicts(policy, "inv", "get_item", "add_item", "remove_item", "other") == [
        ("allow", False), ("allow", True), ("deny", False), ("closed", False),
    ]  # fmt: skip
    assert policy.goal == ""
    assert policy.judge("file.read").effect == "allow"
    assert policy.judge("file.write").confirm is not None
    assert (narrowed(policy, None, "claude-code").judge("shell.exec").confirm is not None) is True


@for_each(
    ("line", "effect"),
    [
        *((line, "allow") for line in (
            "git log", "git log --oneline", "git log --oneline -n 20 -- src", "git log --since='2 weeks ago' --stat", "git diff HEAD~1 -- a.py",
            'git log --format="%h %s"', "git show 091efb9f:src/a.py", "git blame -w src/a.py", "git log -S 'a b' --all",
            "git log --oneline | head -n 5", "rg foo | wc -l", "rg foo src", "rg -n 'a b|c' src", r'rg -A3 "def \"x" src', "sed -n 1,20p src/a-b.py",
        )),
        *((line, "closed") for line in (
            "git log --output=x", "git log --outp=x", "git diff --ext-diff", "git log '--output=x'", 'git log "--output=x"', "git log --oneline > x",
            r"git log \--output=x", "git log ''--output=x", "git log *", "git log; rm x", "git log\nrm x", "git log $(rm x)", "git log a\nrm x",
            'git log "a\\" "b --output=x', "git branch new", "git push", "git log | sh", "git log | head | sh", "rg '--pre=sh' x", 'rg "--pre=sh" x', "rg x\ntouch y", "rg * x",
            'rg "a\\" "x --pre=sh" y', "rg x --pre sh", "sed -n 1p -fx.sed", "npm test",
        )),
    ],
)  # fmt: skip
def test_without_a_question_commands_only_read(line: str, effect: str) -> None:
    """Where nobody can be asked, a command that may write or run another is refused, however it is quoted."""
    assert judge(permitted(compose([], asks=False)), "shell.exec", {"command": line}, "/work").effect == effect


def test_what_the_server_alone_calls_destructive_is_confirmed() -> None:
    """Many servers say so of each file that they write."""
    tool = ProbedTool("write_file", destructive=True)
    [one] = ruled(ListedServer("fs", "fs", Probed("fs", (tool,))))
    assert (one.effect.kind, one.ruling) == ("destroys", "confirm")


def test_observing_is_a_line_of_the_policy() -> None:
    """With it nothing is refused, and the rules are the same."""
    observing = permitted(compose([INV], observe=True))
    assert observing.observe
    assert [rule.text for rule in observing.allow] == [rule.text for rule in permitted(compose([INV])).allow]


def test_texts_of_a_server_stay_in_comments() -> None:
    """No name, command or error of a server can begin a rule."""
    bad = ProbedTool("x\nallow *")
    text = compose(
        [
            ListedServer("a", "run\nallow *", Probed("a", (bad, ProbedTool("get")))),
            ListedServer("b", "run", Probed("b", failure="exited\nallow *", errors=("no\nallow *",))),
        ]
    )
    assert "*" not in [rule.pattern for rule in permitted(text).allow]


@for_each(
    "name",
    [
        "agent",
        "file",
        "git",
        "network",
        "plan",
        "schedule",
        "secrets",
        "shell",
        "skill",
        "tests",
        "todo",
        "tools",
        "user",
    ],
)
@for_each("asks", [True, False])
def test_a_server_inherits_no_rule_for_tools_of_no_server(name: str, *, asks: bool) -> None:
    """A server that is added later and has the name of adjourn's own tools is allowed nothing by the policy that was there."""
    policy = permitted(compose([], asks=asks))
    own = [one.partition(".")[2] for one in OWN_TOOLS if one.startswith(f"{name}.")]
    assert own
    tools = (*own, "other", "get", f"{name}_commit")
    assert {effect for effect, _ in verdicts(policy, name, *tools)} <= {"closed", "deny"}


def test_a_server_gives_no_tool_of_no_server_away() -> None:
    """Rules for a server named `shell` do not allow the client's own shell; its tool of that name is refused, and a comment says so."""
    before, shell = compose([]), server("shell", "exec", "get_output", "write")
    after = compose([shell])
    assert "# No rule can name these; they are refused." in after
    assert "#   exec" in after
    assert verdicts(permitted(after), "shell", "exec", "get_output", "write") == [
        ("closed", False), ("allow", False), ("allow", True),
    ]  # fmt: skip
    assert {tool: permitted(after).judge(tool) for tool in OWN_TOOLS} == {
        tool: permitted(before).judge(tool) for tool in OWN_TOOLS
    }


@pytest.mark.parametrize("line", ["allow git.*", "use git.*\nconfirm before git.*", "allow git.status, git.diff"])
def test_a_server_with_the_name_of_own_tools_gets_its_rules_in_a_policy_that_names_those(line: str) -> None:
    """What an earlier version wrote names no server; what a person wrote for the server's tools does."""
    mine = f'policy mine v0\n\ngoal "x"\n\n{line}\n'
    git = server("git", "get_log", "git_commit", "git_reset")
    assert unnamed(mine, ["git"]) == ["git"]
    after = extended(mine, [git])
    assert after == mine + section(git)
    assert [effect for effect, _ in verdicts(permitted(after), "git", "get_log", "git_commit", "git_reset")] == [
        "allow",
        "allow",
        "deny",
    ]
    assert verdicts(permitted(after), "git", "git_commit")[0][1]
    assert unnamed(after, ["git"]) == []
    assert unnamed(mine + "deny git.git_reset\n", ["git"]) == []


def test_a_server_that_did_not_start_has_a_comment_in_its_place() -> None:
    """Once it lists its tools, its rules take that place; nothing else changes."""
    failed = compose([server("late", failure="exited with code 1"), INV])
    assert "# Its tools are not known: it exited with code 1." in failed
    assert unnamed(failed, ["late", "inv"]) == ["late"]
    assert extended(failed, [server("late", failure="exited with code 2")]) == failed
    late = server("late", "get")
    after = extended(failed, [late])
    assert after == compose([late, INV])
    assert unnamed(after, ["late", "inv"]) == []


def test_rules_for_a_new_server_come_to_the_end() -> None:
    """The text before them stays; a server that the policy names by its tools' short names gets none."""
    mine = 'policy mine v0\n\ngoal "x"\n\n# why\nallow notes.get\n'
    assert unnamed(mine, ["inv", "me"]) == ["inv", "me"]
    assert extended(mine, [INV, server("me", "notes.get", "notes.add")]) == mine + section(INV)
    assert unnamed(mine + section(INV), ["inv", "me"]) == ["me"]


@pytest.mark.parametrize("text", ["policy all v1\n\nallow *\n", "policy all v1\n\nalow x\n"])
def test_nothing_is_added_to_a_policy_that_allows_all_or_is_broken(text: str) -> None:
    """There is nothing to add, or nobody could tell what it would mean."""
    assert unnamed(text, ["inv"]) == []


def test_one_client_s_limits_are_not_laid_on_another() -> None:
    """Where Codex is used, too, Claude Code still asks before any command, and Codex reads without a question."""
    policy = permitted(compose([], asks=False))

    def judged(client: str, command: str) -> tuple[str, bool]:
        verdict = narrowed(policy, None, client).judge_call("shell.exec", {"command": command}, [command])
        return verdict.effect, bool(verdict.confirms)

    assert judged("claude-code", "npm test") == ("allow", True)
    assert judged("codex", "npm test") == ("closed", False)
    assert judged("codex", "ls src") == ("allow", False)


def test_a_tool_that_reads_the_network_is_asked_about_as_the_client_s_own() -> None:
    """A tool that reads at the address that its caller gives can send something there."""
    tools = [ProbedTool("fetch", read_only=True, reaches=True), ProbedTool("get_item", read_only=True)]
    policy = permitted(compose([ListedServer("s", "run", Probed("s", tuple(tools)))]))
    assert verdicts(policy, "s", "fetch", "get_item") == [("allow", True), ("allow", False)]
    assert policy.judge("network.fetch").confirm is not None


def known(**tools: str) -> KnownTools:
    return KnownTools({server: tuple(map(KnownTool, names.split())) for server, names in tools.items()})


def test_tools_that_a_known_server_lists_since_get_rules() -> None:
    """They come to the end; the tools that rules name, and those that adjourn had written a rule for, get none."""
    text = compose([INV])
    listed = known(inv="get_item add_item remove_item get_more add_more", other="get_x")
    new = unruled(text, [text], "inv", listed)
    assert [tool.name for tool in new] == ["get_more", "add_more"]
    more = ListedServer("inv", "run", Probed(tools=tuple(map(ProbedTool.of_known, new))), is_more=True)
    after = extended(text, [more])
    assert after.startswith(text)
    assert verdicts(permitted(after), "inv", "get_more", "add_more") == [("allow", False), ("allow", True)]
    assert unruled(after, [text], "inv", listed) == ()
    narrow = after.replace("allow inv.get_item\n", "").replace("allow inv.get_more\n", "")
    assert unruled(narrow, [after, text], "inv", listed) == ()


def test_a_server_of_which_a_person_wrote_the_rules_gets_no_more() -> None:
    """What such a policy leaves out is refused on purpose."""
    listed = known(inv="get_item add_item")
    assert unruled('policy p v1\n\ngoal "x"\n\nallow inv.get_item\n', [], "inv", listed) == ()
    assert unruled(compose([INV]) + "\nallow *\n", [], "inv", listed) == ()
    assert unruled(compose([INV]) + "\nalow x\n", [], "inv", known(inv="new")) == ()


def test_what_the_store_has_of_a_tool_is_judged_as_what_its_server_said() -> None:
    """A hint that a tool writes is not lost on the way through the store."""
    said = ProbedTool("get_it", read_only=False), ProbedTool("get_page", read_only=True, reaches=True)
    [one, two] = Probed(tools=said).known_tools
    assert (ProbedTool.of_known(one), ProbedTool.of_known(two)) == said
