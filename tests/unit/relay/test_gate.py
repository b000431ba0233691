"""The outcome of a call: forwarded, refused, counted. Asserted on what the upstream received and on the store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.in_process import ERAS, META_TOOLS, MODERN, NEW, ProxyWorkspace, refused, text_of
from support.requirements import requirement

POLICY = (
    "allow echo",
    "allow file.*",
    "allow secrets.*",
    "deny secrets.read",
    "deny network.*",
    "confirm before file.write",
)


@pytest.mark.parametrize("era", ERAS)
@requirement("D31")
def test_exactly_the_budget_is_forwarded_and_refused_calls_cost_nothing(tmp_path: Path, era: str) -> None:
    """The proxy forwards as many calls as the budget has; refused calls are not counted in it."""
    with ProxyWorkspace(tmp_path, *POLICY, "budget calls=3") as work:
        client = work.client("--confirm-timeout", "0", era=era)
        for tool in ("secrets.read", "nobody.allows", "file.write", "network.fetch"):
            assert refused(client.call(tool)), tool
        answers = [client.call("echo", {"n": n}) for n in range(5)]
        assert [refused(answer) for answer in answers] == [False, False, False, True, True]
        assert work.executed() == ["echo"] * 3
        ledger = work.ledger()
        assert (ledger.calls_used, ledger.calls_refused) == (3, 6)
        assert ledger.tools == {"echo.echo": 3}


def test_a_burst_in_one_write_is_admitted_up_to_the_budget_in_order(tmp_path: Path) -> None:
    """Of 50 calls in one write, the first 20 pass a budget of 20, in their order."""
    with ProxyWorkspace(tmp_path, "allow echo", "budget calls=20") as work:
        client = work.client()
        calls = [client.call_message("echo", {"n": n}) for n in range(50)]
        client.post(*calls)
        answers = [client.answer(call["id"]) for call in calls]
        assert [refused(answer) for answer in answers] == [False] * 20 + [True] * 30
        assert [call["arguments"]["n"] for call in work.forwarded_calls()] == list(range(20))
        assert work.ledger().calls_used == 20


def test_a_budget_of_nothing_forwards_nothing(tmp_path: Path) -> None:
    """A budget of zero calls refuses each call."""
    with ProxyWorkspace(tmp_path, "allow echo", "budget calls=0") as work:
        client = work.client()
        assert refused(client.call("echo"))
        assert work.executed() == []


REFUSALS = [
    ("secrets.read", "deny secrets.read (.aex/policy.aex:6)"),
    ("network.fetch", "deny network.* (.aex/policy.aex:7)"),
    ("git.push", 'tool "git.push" is not in the allow list'),
    ("file.write", "confirm file.write (.aex/policy.aex:8)"),
]


@pytest.mark.parametrize("era", [NEW, MODERN])
def test_a_refusal_is_a_tool_result_that_names_the_rule_and_its_line(tmp_path: Path, era: str) -> None:
    """A refused call has a tool result with `isError` and the rule, its file and its line."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client("--confirm-timeout", "0", era=era)
        for tool, reason in REFUSALS:
            answer = client.call(tool)
            assert set(answer) == {"jsonrpc", "id", "result"}
            assert answer["result"]["isError"] is True
            assert answer["result"].get("resultType") == ("complete" if era == MODERN else None)
            assert reason in text_of(answer)


def test_refusals_are_protocol_errors_on_request(tmp_path: Path) -> None:
    """With `--errors jsonrpc`, a refused call has a JSON-RPC error with the same text."""
    with ProxyWorkspace(tmp_path, *POLICY, "budget calls=1") as work:
        client = work.client("--errors", "jsonrpc", "--confirm-timeout", "0")
        for tool, reason in REFUSALS:
            error = client.call(tool)["error"]
            assert (error["code"], "data" in error) == (-32600, False)
            assert reason in error["message"]
        assert "result" in client.call("echo")
        error = client.call("echo")["error"]
        assert error["code"] == -32600
        assert "budget exhausted" in error["message"].lower()
        assert "calls=1 (.aex/policy.aex:9)" in error["message"]


def test_every_decision_is_in_the_history_with_its_reason(tmp_path: Path) -> None:
    """Each denied, questioned, refused and allowed call is an event with its reason."""
    with ProxyWorkspace(tmp_path, *POLICY, "budget calls=1") as work:
        client = work.client("--confirm-timeout", "0")
        for tool in ("secrets.read", "git.push", "file.write", "echo", "echo"):
            client.call(tool)
        assert [(fact.tool, fact.reason) for fact in work.facts("tool.denied")] == [
            ("secrets.read", "deny_list"),
            ("git.push", "not_allowed"),
        ]
        assert [fact.tool for fact in work.facts("confirm.required")] == ["file.write"]
        assert [(fact.used, fact.limit) for fact in work.facts("budget.exhausted")] == [(1, 1)]
        (allowed,) = work.facts("tool.allowed")
        assert (allowed.tool, allowed.effectful) == ("echo", True)


def test_what_came_of_a_call_is_written_down(tmp_path: Path) -> None:
    """Each answered call has an event with its outcome, and no call stays open."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client()
        client.tools()
        for tool in ("echo", "fail", "error", "file.read"):
            client.call(tool)
        client.close()
        outcomes = [fact.outcome for fact in work.facts("tool.settled")]
        assert outcomes == ["ok", "tool-error", "error", "ok"]
        assert [fact.effectful for fact in work.facts("tool.allowed")] == [True, True, True, False]
        assert not work.ledger().open_calls


def test_a_contract_narrows_the_policy(tmp_path: Path) -> None:
    """With a contract, only tools that it and the policy allow pass, within the smaller budget."""
    with ProxyWorkspace(tmp_path, *POLICY, "budget calls=9") as work:
        contract = work.root / "tasks" / "fix.aex"
        contract.parent.mkdir()
        contract.write_text('task fix v0\ngoal "fix it"\nuse echo\nbudget calls=2\nreturn x\n')
        client = work.client("--contract", "tasks/fix.aex")
        assert client.tools()[: -len(META_TOOLS)] == ["echo"]
        assert refused(client.call("file.read"))
        assert [refused(client.call("echo")) for _ in range(3)] == [False, False, True]
        assert work.ledger().goal == "fix it"


@requirement("D36")
def test_no_other_spelling_slips_past_a_deny(tmp_path: Path) -> None:
    """A deny matches every letter case and separator of a tool's name."""
    names = (
        "Network.fetch", "NETWORK.FETCH", "network/fetch", "network_fetch", "network-fetch", "network..fetch",
        "network._fetch", "nEtwork.deep.er", "network",
    )  # fmt: skip
    with ProxyWorkspace(tmp_path, "allow *", "deny network.*") as work:
        client = work.client()
        for name in names:
            assert "deny network.* (.aex/policy.aex:4)" in text_of(client.call(name)), name
        assert work.executed() == []


@requirement("D36", "D10")
def test_what_is_no_tool_name_is_refused_and_the_proxy_goes_on(tmp_path: Path) -> None:
    """A call whose name is missing, no text, or has odd characters is an error, and the next call passes."""
    with ProxyWorkspace(tmp_path, "allow *", "deny secrets.*") as work:
        client = work.client()
        names = [
            " secrets.read", "secrets.read ", "secrets.read\n", "\u017fecrets.read", "secrets.read\u200b", "", "x" * 129,
            ["secrets.read"], {"name": "echo"}, 5, 1.5, True, None, "e\u0301cho", "ec ho", "e\tcho", "echo\0",
        ]  # fmt: skip
        for name in names:
            message = client.message("tools/call", {"name": name, "arguments": {}})
            client.post(message)
            assert client.answer(message["id"])["error"]["code"] == -32602, name
        message = client.message("tools/call", {"arguments": {}})
        client.post(message)
        assert client.answer(message["id"])["error"]["code"] == -32602
        assert work.forwarded_calls() == []
        assert not refused(client.call("echo"))
        assert len(work.facts("message.refused")) == len(names) + 1


@requirement("D36")
def test_an_allow_matches_as_written_only(tmp_path: Path) -> None:
    """An allow does not match another letter case or separator of a tool's name."""
    with ProxyWorkspace(tmp_path, "allow file.*") as work:
        client = work.client()
        for name in ("File.read", "file/read", "file_read", "FILE.READ"):
            assert refused(client.call(name))
        assert not refused(client.call("file.read"))
        assert work.executed() == ["file.read"]


@requirement("D30")
@pytest.mark.parametrize("era", [NEW, MODERN])
def test_resources_prompts_and_completion_pass_unless_a_rule_names_them(tmp_path: Path, era: str) -> None:
    """MCP requests other than tool calls pass without cost, and are refused where a deny names them."""
    methods = ["resources/list", "resources/read", "prompts/get", "completion/complete", "resources/templates/list"]
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        client = work.client(era=era)
        for method in methods:
            assert client.ask(method, {"uri": "file:///a", "name": "p"})["result"]["method"] == method
        assert work.ledger().calls_used == 0 if work.tasks() else True
    rules = ("allow echo", "deny mcp.resources.*", "deny mcp.prompts.get", "deny MCP.Completion/complete")
    with ProxyWorkspace(tmp_path, *rules, name="ruled") as work:
        client = work.client(era=era)
        before = len(work.forwarded())
        for method in [*methods, "Resources/Read", "resources//read"]:
            error = client.ask(method, {"uri": "file:///a", "name": "p"})["error"]
            assert error["code"] == -32600
            assert ".aex/policy.aex:" in error["message"]
        assert len(work.forwarded()) == before
        assert client.ask("prompts/list")["result"]["method"] == "prompts/list"


@requirement("D30")
def test_notifications_can_be_denied(tmp_path: Path) -> None:
    """A notification that a deny names is not forwarded."""
    with ProxyWorkspace(tmp_path, "allow echo", "deny mcp.notifications.roots.*") as work:
        client = work.client()
        client.post({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})
        client.call("echo")
        assert not any(b"roots" in line for line in work.forwarded())


@requirement("D42")
def test_meta_tools_pass_and_cost_nothing_by_default(tmp_path: Path) -> None:
    """Meta-tools are answered by the proxy, are never forwarded and use no budget."""
    with ProxyWorkspace(tmp_path, "allow echo", "budget calls=2") as work:
        client = work.client()
        client.call("echo")
        assert client.meta("aex.list_tasks") == {"tasks": []}
        assert client.meta("aex.checkpoint", name="a")["path"] == ".aex/checkpoints/a/"
        assert client.meta("aex.resume", name="a")["callsUsed"] == 1
        assert work.ledger().calls_used == 1
        assert not any(b"aex." in line for line in work.forwarded())


@requirement("D42")
def test_meta_tools_can_be_denied_in_either_spelling(tmp_path: Path) -> None:
    """A deny of a meta-tool hides it and refuses it, with dots and with underscores."""
    with ProxyWorkspace(tmp_path, "allow *", "deny aex.resume", "deny aex.checkpoint") as work:
        client = work.client()
        assert "aex.resume" not in client.tools()
        for tool in ("aex.resume", "aex_resume", "aex.checkpoint"):
            assert "(.aex/policy.aex:" in text_of(client.call(tool, {"name": "a"}))
        assert client.meta("aex.list_tasks") == {"tasks": []}
    with ProxyWorkspace(tmp_path, "allow *", "deny *", name="all") as work:
        client = work.client()
        assert client.tools() == []


@requirement("D42")
def test_a_meta_tool_can_be_put_under_confirm(tmp_path: Path) -> None:
    """A meta-tool that a rule confirms runs after the person's yes, and uses no budget."""
    with ProxyWorkspace(tmp_path, "allow echo", "confirm before aex.resume") as work:
        client = work.client(elicits=True)
        client.call("echo")
        client.meta("aex.checkpoint", name="a")
        request = client.begin("aex.resume", {"name": "a"})
        client.post({"jsonrpc": "2.0", "id": client.asked()["id"], "result": {"action": "accept"}})
        assert json.loads(text_of(client.answer(request)))["name"] == "a"
        assert work.ledger().calls_used == 1
        assert not any(b"aex" in line for line in work.forwarded())
