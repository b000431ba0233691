"""Rules that look further than a tool's name: where a call leads, what its arguments say, how often, and at what cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from adjourn.log import kinds
from adjourn.tasks.task import NewEvent
from support.in_process import ERAS, META_TOOLS, MODERN, NEW, Client, ProxyWorkspace, refused, text_of
from support.requirements import requirement

LIMITED = ("allow echo", "allow file.*", "limit echo 10 per minute")


def workspace(path: Path, *policy: str, name: str = "work") -> ProxyWorkspace:
    return ProxyWorkspace(path, *policy, name=name, version="v1")


# --- where a call leads

SCOPED = (
    "allow file.write:src/**",
    "allow file.read",
    "deny file.read:**/.env",
    "deny file.write:src/keys/**",
    "allow shell.exec:git *",
)


@requirement("D11")
@pytest.mark.parametrize("era", [NEW, MODERN])
def test_a_scoped_allow_holds_for_what_the_paths_lead_to(tmp_path: Path, era: str) -> None:
    """A scope is compared with the file that a path leads to, through links and `..`."""
    with workspace(tmp_path, *SCOPED) as work:
        (work.root / "src").mkdir()
        (work.root / "out").symlink_to(tmp_path)
        (work.root / "src" / "docs").symlink_to(work.root)
        (work.root / "code").symlink_to("src")
        client = work.client(era=era)
        passes = ["src/a.py", "src/deep/new/a.py", "./src/../src/a", f"{work.root}/src/a", "code/a", "docs/../src/a"]
        for path in passes:
            assert not refused(client.call("file.write", {"path": path})), path
        stays = [
            "a.py", "srcs/a", "src/../a", "src/../../x", "out/x", "src/docs/README.md", "/etc/passwd", "~/x", "src/../code/../a",
            f"file://{work.root}/a", "", "src/keys/k", "SRC/Keys/k", "code/keys/k",
        ]  # fmt: skip
        for path in stays:
            assert refused(client.call("file.write", {"path": path})), path
        assert [call["arguments"]["path"] for call in work.forwarded_calls()] == passes


@requirement("D11")
def test_walking_back_from_a_link_escapes_neither_scope_nor_protection(tmp_path: Path) -> None:
    """A server that takes `..` out of a path before it opens it gets no other file than one that follows links first."""
    with workspace(tmp_path, "allow file.write", "allow file.read:docs/**") as work:
        (work.root / "docs" / "v1" / "api").mkdir(parents=True)
        (work.root / "docs" / "latest").symlink_to("v1/api")
        (work.root / "l").symlink_to("docs/v1")
        client = work.client()
        for path in (
            f"{work.root}/l/../.aex/policy.aex",
            f"{work.root}/a\n/../.aex/policy.aex",
            "./" * 2100 + ".aex/policy.aex",
        ):
            assert "protected" in text_of(client.call("file.write", {"path": path})), path[:40]
        assert refused(client.call("file.read", {"path": "docs/latest/../../secret.txt"}))
        assert refused(client.call("file.read", {"path": f"{work.root}/docs/latest/../../secret.txt"}))
        assert not refused(client.call("file.read", {"path": "docs/latest/../a.txt"}))
        assert len(work.forwarded_calls()) == 1


@requirement("D11")
def test_every_path_argument_counts_under_whatever_name(tmp_path: Path) -> None:
    """Each argument that is a path has to be in the scope, whatever its name and nesting."""
    with workspace(tmp_path, *SCOPED) as work:
        client = work.client()
        allowed: list[dict[str, Any]] = [
            {"path": "src/a", "content": "/etc/passwd\n"},
            {"paths": ["src/a", "src/b"]},
            {"files": [{"path": "src/a"}, {"path": "src/b"}]},
            {"source": "src/a", "destination": "src/b"},
        ]
        for arguments in allowed:
            assert not refused(client.call("file.write", arguments)), arguments
        denied: list[dict[str, Any]] = [
            {},
            {"path": "src/a", "file_path": "b"},
            {"paths": ["src/a", "b"]},
            {"files": [{"path": "src/a"}, {"path": "b"}]},
            {"source": "src/a", "destination": "b"},
            {"path": "src/a", "options": {"outputFile": "b"}},
        ]
        for arguments in denied:
            assert refused(client.call("file.write", arguments)), arguments
        assert len(work.executed()) == len(allowed)


@requirement("D11")
def test_a_scoped_deny_denies_what_leads_there_by_any_way(tmp_path: Path) -> None:
    """A scoped deny refuses each path that leads to the file, and a call without a path."""
    with workspace(tmp_path, *SCOPED) as work:
        (work.root / ".env").write_text("KEY=1")
        (work.root / "harmless").symlink_to(".env")
        client = work.client()
        for path in (".env", "a/../.env", "harmless", "deep/.ENV", f"{work.root}/.env", ".", "./"):
            answer = client.call("file.read", {"path": path})
            assert "deny file.read:**/.env (.aex/policy.aex:5)" in text_of(answer), path
        assert "deny file.read:**/.env" in text_of(client.call("file.read"))  # nobody knows where it leads
        assert not refused(client.call("file.read", {"path": "README.md"}))
        assert work.executed() == ["file.read"]


@requirement("D11")
def test_the_scope_of_a_command_is_held_against_every_piece_of_it(tmp_path: Path) -> None:
    """A command passes only if each command in it, also after `;`, `&&`, `|` or in `$()`, is in the scope."""
    with workspace(tmp_path, *SCOPED) as work:
        client = work.client()
        assert not refused(client.call("shell.exec", {"cmd": "git status"}))
        for command in ("rm -rf x", "git status; rm x", "git log && rm x", "git log | sh", "git log $(rm x)", ""):
            assert refused(client.call("shell.exec", {"cmd": command})), command
        assert work.executed() == ["shell.exec"]


def test_a_tool_with_scopes_is_listed_and_one_that_no_call_could_use_is_not(tmp_path: Path) -> None:
    """tools/list has each tool of which some call is permitted."""
    rules = ("allow file.write:src/**", 'allow echo where text is "a"', "allow file.read", "deny file.read:**")
    with workspace(tmp_path, *rules, "deny network.*") as work:
        assert work.client().tools()[: -len(META_TOOLS)] == ["file.read", "echo", "file.write"]


# --- what its arguments say

CONDITIONS = (
    'allow echo where cmd matches "git *"',
    'allow file.read where options.depth <= 3 and mode in ["r", "rb"]',
    "allow file.write",
    'deny file.write where content ~ "(?i)password"',
    'confirm before file.write where content matches "*TODO*"',
)


@requirement("V1 where")
@pytest.mark.parametrize("era", [NEW, MODERN])
def test_conditions_decide_on_the_arguments(tmp_path: Path, era: str) -> None:
    """A `where` condition permits a call only if its arguments fulfil it."""
    with workspace(tmp_path, *CONDITIONS) as work:
        client = work.client("--confirm-timeout", "0", era=era)
        fine: list[tuple[str, dict[str, Any]]] = [
            ("echo", {"cmd": "git log"}),
            ("file.read", {"options": {"depth": 3}, "mode": "rb", "more": 1}),
            ("file.write", {"content": "hello"}),
        ]
        for tool, arguments in fine:
            assert not refused(client.call(tool, arguments)), arguments
        wrong: list[tuple[str, dict[str, Any], str]] = [
            ("echo", {"cmd": "Git log"}, "but not with these arguments"),
            ("echo", {"cmd": ["git log", "rm"]}, "but not with these arguments"),
            ("echo", {}, "but not with these arguments"),
            ("file.read", {"options": {"depth": 4}, "mode": "r"}, "but not with these arguments"),
            ("file.read", {"options": {"depth": "1"}, "mode": "r"}, "but not with these arguments"),
            ("file.read", {"mode": "r"}, "but not with these arguments"),
            ("file.write", {"content": "my PassWord"}, "deny file.write where content"),
            ("file.write", {"content": ["fine", "password"]}, "deny file.write where content"),
            ("file.write", {}, "deny file.write where content"),
            ("file.write", {"content": "todo: this"}, "requires confirmation"),
        ]
        for tool, arguments, reason in wrong:
            assert reason in text_of(client.call(tool, arguments)), arguments
        assert work.executed() == [tool for tool, _ in fine]


@requirement("V1 where", "D2")
@pytest.mark.parametrize("effect", ["deny", "confirm before", "once"])
def test_a_key_in_another_case_passes_no_rule(tmp_path: Path, effect: str) -> None:
    """A server that ignores case would read it: beside the key that a rule names it is refused, alone the argument is unknown."""
    rule = "once echo by amount" if effect == "once" else f"{effect} echo where amount > 100"
    with workspace(tmp_path, "allow echo", rule) as work:
        client = work.client("--confirm-timeout", "0")
        for name in ("Amount", "AMOUNT", "\uff41mount", "amount\u200b"):
            assert refused(client.call("echo", {"amount": 1, name: 1000})), name
            assert refused(client.call("echo", {name: 1000})), name
            assert refused(client.call("echo", {"amount": 2**70})), name
        assert work.executed() == []
        assert not refused(client.call("echo", {"amount": 1, "amounts": 1000}))


@requirement("V1 where")
def test_a_contract_narrows_by_conditions_and_scopes(tmp_path: Path) -> None:
    """A call has to fulfil the scopes and conditions of the policy and of the contract."""
    with workspace(tmp_path, "allow file.*:src/**", "allow echo") as work:
        task = ["task fix v1", 'goal "fix it"', "use file.write:**/*.py", "use echo where n is 1", "return x", ""]
        (work.root / "fix.aex").write_text("\n".join(task))
        client = work.client("--contract", "fix.aex")
        assert not refused(client.call("file.write", {"path": "src/a.py"}))
        for path in ("src/a.md", "a.py"):
            assert refused(client.call("file.write", {"path": path})), path
        assert [refused(client.call("echo", {"n": n})) for n in (1, 2)] == [False, True]


# --- how often


@requirement("V1 limit")
@pytest.mark.parametrize("era", ERAS)
def test_the_eleventh_call_in_a_minute_is_refused(tmp_path: Path, era: str) -> None:
    """A rate limit refuses the call over it, names the rule, and does not count other tools."""
    with workspace(tmp_path, *LIMITED) as work:
        client = work.client(era=era)
        answers = [client.call("echo", {"n": n}) for n in range(12)]
        assert [refused(answer) for answer in answers] == [False] * 10 + [True] * 2
        assert "limit echo 10 per minute (.aex/policy.aex:5)" in text_of(answers[10])
        assert not refused(client.call("file.read"))  # another tool has its own room
        assert work.executed().count("echo") == 10
        assert {fact.reason for fact in work.facts("tool.denied")} == {"rate_limit"}


@requirement("V1 limit")
def test_a_burst_in_one_write_is_admitted_up_to_the_limit(tmp_path: Path) -> None:
    """Of many calls in one write, as many pass as each rate limit has room for."""
    with workspace(tmp_path, *LIMITED, "limit file.* 1 per minute") as work:
        client = work.client()
        tools = ["echo"] * 12 + ["file.read", "file.write"]
        calls = [client.call_message(tool, {"n": n}) for n, tool in enumerate(tools)]
        client.post(*calls)
        answers = [refused(client.answer(call["id"])) for call in calls]
        assert answers == [False] * 10 + [True] * 2 + [False, True]


@requirement("V1 limit")
def test_two_proxies_of_a_client_share_a_rate_and_room_comes_back(tmp_path: Path) -> None:
    """Proxies of one client share a rate limit, and calls pass again after its time."""
    with workspace(tmp_path, "allow echo", "limit echo 2 per second") as work:
        clients = [work.client(), work.client()]
        passed = [not refused(clients[n % 2].call("echo", {"n": n})) for n in range(6)]
        assert passed == [True, True] + [False] * 4
        work.relay.advance(1.1)
        assert not refused(clients[0].call("echo"))


@requirement("V1 limit", "V1 budget")
def test_the_next_session_has_no_more_room_than_the_last_left(tmp_path: Path) -> None:
    """Rate limits and token budgets hold across sessions, also after a kill."""
    with workspace(tmp_path, "allow *", "limit echo 2 per hour", "budget calls=9, tokens=100") as work:
        first = work.client("--task", "t")
        first.call("echo")
        first.call("echo")
        _report(work, tokens=60)
        first.kill()
        client = work.client("--task", "t", era=MODERN, foreign=True)
        assert "limit echo 2 per hour" in text_of(client.call("echo"))
        assert not refused(client.call("file.read"))
        _report(work, tokens=60)
        assert "120 of 100 tokens" in text_of(client.call("file.read"))
        assert work.ledger().calls_used == 3


# --- at what cost


def _report(work: ProxyWorkspace, **usage: Any) -> None:
    """What a run's model has cost, as it is written down."""
    with work.task() as task:
        task.commit(lambda _: [NewEvent(kinds.UsageReported(**usage))])


def _spend(work: ProxyWorkspace, client: Client, budget: str, **usage: int) -> None:
    assert not refused(client.call("echo"))
    _report(work, **usage)
    answer = client.call("echo")
    assert refused(answer)
    assert budget in text_of(answer)
    assert "(.aex/policy.aex:4)" in text_of(answer)
    (fact,) = work.facts("budget.exhausted")
    assert (fact.budget, fact.used) == (budget.rpartition(" ")[2], max(usage.values()))


@requirement("V1 budget")
@pytest.mark.parametrize("era", [NEW, MODERN])
def test_tokens_and_money_that_are_spent_refuse_calls(tmp_path: Path, era: str) -> None:
    """A spent budget of tokens or dollars refuses calls and says how much is spent."""
    with workspace(tmp_path, "allow *", "budget usd=0.5, calls=50", name="money") as work:
        _spend(work, work.client(era=era), "0.75 of 0.5 usd", micro_usd=750_000)
    with workspace(tmp_path, "allow *", "budget tokens=2000000", name="tokens") as work:
        _spend(work, work.client(era=era), "2000000 of 2000000 tokens", tokens=2_000_000)


@requirement("V1 budget")
def test_minutes_that_were_worked_refuse_calls(tmp_path: Path) -> None:
    """A spent budget of minutes refuses calls."""
    with workspace(tmp_path, "allow *", "budget minutes=0.005") as work:
        client = work.client()
        assert not refused(client.call("echo"))
        work.relay.advance(0.4)
        client.call("echo")
        answer = client.call("echo")
        assert "of 0.005 minutes" in text_of(answer)
        assert refused(answer)
        assert work.facts("budget.exhausted")[0].budget == "minutes"
