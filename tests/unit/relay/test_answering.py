"""Who may answer a question, how long it waits, and what silence means."""

from __future__ import annotations

import getpass
from pathlib import Path

import pytest

from adjourn.log.event import milliseconds
from support.in_process import MODERN, NEW, ProxyWorkspace, adjourn, refused, text_of, wait_for
from support.requirements import requirement

ME = getpass.getuser()
ARGUMENTS = {"to": "prod"}


def workspace(path: Path, *rules: str) -> ProxyWorkspace:
    return ProxyWorkspace(path, "allow *", *rules, version="v1")


def asked(work: ProxyWorkspace) -> str:
    """The id of the question that is put now."""
    wait_for(lambda: work.tasks_exist() and work.facts("confirm.required"))
    approval: str = work.facts("confirm.required")[-1].approval
    return approval


# --- who


@requirement("V1 by")
@pytest.mark.parametrize("era", [NEW, MODERN])
@pytest.mark.parametrize("who", ["alice", "group:leads", f"group:{ME}"])
def test_nobody_else_can_say_yes_and_anybody_can_say_no(tmp_path: Path, era: str, who: str) -> None:
    """Another person cannot approve a question to a named person or a group, and can deny it. At a terminal nobody is of a group."""
    with workspace(tmp_path, f"confirm before deploy by {who}") as work:
        client = work.client(era=era, elicits=True)
        call = client.begin("deploy", ARGUMENTS)
        question = asked(work)
        done = adjourn(work, "approve", question)
        assert done.code == 3
        assert f"is for {who} to answer, not for {ME}" in done.err
        assert client.silent(0.5)
        assert adjourn(work, "deny", question).code == 0
        assert refused(client.answer(call))
        assert work.executed() == []


@requirement("V1 by")
@pytest.mark.parametrize("who", ["alice", "group:leads"])
def test_an_answer_of_the_client_is_no_answer(tmp_path: Path, who: str) -> None:
    """A client that answers a question which it was never asked changes nothing."""
    with workspace(tmp_path, f"confirm before deploy by {who}") as work:
        client = work.client("--confirm-timeout", "1", era=MODERN, elicits=True)
        responses = {"adjourn-confirm": {"action": "accept", "content": {"approve": True}}}
        answer = client.call("deploy", ARGUMENTS, inputResponses=responses)
        assert refused(answer)
        assert work.executed() == []


@requirement("V1 by")
def test_auto_confirm_is_no_human(tmp_path: Path) -> None:
    """--auto-confirm does not answer a question that has to be answered by a human."""
    with workspace(tmp_path, "confirm before deploy by human", "confirm before echo") as work:
        client = work.client("--auto-confirm", "--confirm-timeout", "0")
        assert not refused(client.call("echo"))
        assert refused(client.call("deploy", ARGUMENTS))
        assert work.executed() == ["echo"]


def test_any_person_is_a_human(tmp_path: Path) -> None:
    """The client's dialog answers a question that has to be answered by a human."""
    with workspace(tmp_path, "confirm before deploy by human") as work:
        client = work.client("--auto-confirm", elicits=True)
        call = client.begin("deploy", ARGUMENTS)
        client.post({"jsonrpc": "2.0", "id": client.asked()["id"], "result": {"action": "accept"}})
        assert not refused(client.answer(call))


@requirement("V1 by", "V1 reload")
def test_a_yes_of_anybody_does_not_serve_once_the_rule_names_somebody(tmp_path: Path) -> None:
    """An approval is void once the rule names another person."""
    with workspace(tmp_path, "confirm before deploy") as work:
        client = work.client("--confirm-timeout", "0")
        client.call("deploy", ARGUMENTS)
        work.decide(yes=True)
        work.write_policy("allow *", "confirm before deploy by alice")
        assert refused(client.call("deploy", ARGUMENTS))
        assert work.executed() == []


@requirement("V1 by")
def test_who_may_confirm_may_repeat_a_call_in_doubt_and_nobody_else(tmp_path: Path) -> None:
    """A call in doubt is repeated only after an approval of the person that the rule names."""
    with workspace(tmp_path, f"confirm before silent by {ME}") as work:
        client = work.client("--task", "t")
        client.begin("silent", ARGUMENTS)
        adjourn(work, "approve", asked(work))
        wait_for(lambda: work.executed() == ["silent"])
        client.kill()
        work.write_policy("allow *", "confirm before silent by alice")
        client = work.client("--task", "t", elicits=True, foreign=True)
        client.begin("silent", ARGUMENTS)
        wait_for(lambda: len(work.facts("confirm.required")) == 2)
        assert work.facts("confirm.required")[1].who == "alice"
        assert client.silent()
        assert adjourn(work, "approve", asked(work)).code == 3


# --- silence


@requirement("V1 silence")
@pytest.mark.parametrize("era", [NEW, MODERN])
def test_silence_is_a_no_after_the_time_of_the_rule(tmp_path: Path, era: str) -> None:
    """With `else deny`, a call is refused when the time of the rule is over."""
    with workspace(tmp_path, "confirm before deploy within 1s else deny") as work:
        client = work.client("--confirm-timeout", "60", era=era)
        began = work.now()
        answer = client.call("deploy", ARGUMENTS)
        assert refused(answer)
        assert 1000 <= work.now() - began < 5000
        assert "nobody answered within 1 s" in text_of(answer)
        assert "adjourn approve" not in text_of(answer)  # it is too late for that
        assert [fact.via for fact in work.facts("confirm.denied")] == ["timeout"]
        assert work.ledger().calls_refused == 1
        assert work.executed() == []


@requirement("V1 silence")
@pytest.mark.parametrize("era", [NEW, MODERN])
def test_silence_is_a_yes_where_the_rule_says_so(tmp_path: Path, era: str) -> None:
    """With `else allow`, a call is forwarded when the time of the rule is over, not before."""
    with workspace(tmp_path, "confirm before deploy within 1s else allow") as work:
        client = work.client("--confirm-timeout", "0", era=era)
        assert not refused(client.call("deploy", ARGUMENTS))
        (question,), (allowed,) = work.facts("confirm.required"), work.facts("tool.allowed")
        assert (question.otherwise, allowed.approval) == ("allow", question.approval)
        sent = next(event for event in work.events() if event.event == "tool.allowed")
        assert sent.timestamp >= question.expires
        assert work.executed() == ["deploy"]


@requirement("V1 silence")
def test_a_no_in_time_is_a_no(tmp_path: Path) -> None:
    """With `else allow`, a no before the time is over refuses the call."""
    with workspace(tmp_path, "confirm before deploy within 1m else allow") as work:
        client = work.client()
        call = client.begin("deploy", ARGUMENTS)
        adjourn(work, "deny", asked(work))
        assert refused(client.answer(call))
        assert work.executed() == []


@requirement("V1 silence")
def test_a_client_that_was_asked_and_never_came_back_may_repeat_the_call_after_the_time(tmp_path: Path) -> None:
    """With `else allow`, a client that was sent a question may repeat the call once the time is over, once."""
    with workspace(tmp_path, "confirm before deploy within 1s else allow") as work:
        client = work.client(era=MODERN, elicits=True)
        assert client.call("deploy", ARGUMENTS)["result"]["resultType"] == "input_required"
        assert work.executed() == []
        work.relay.advance(1.1)
        assert client.call("deploy", ARGUMENTS)["result"]["resultType"] == "complete"
        assert client.call("deploy", ARGUMENTS)["result"]["resultType"] == "input_required"
        assert work.executed() == ["deploy"]


@requirement("V1 silence")
def test_without_a_time_silence_is_a_yes_only_when_the_question_is_over(tmp_path: Path) -> None:
    """With `else allow` and no time, the call passes when it is repeated after the question expired."""
    with workspace(tmp_path, "confirm before deploy else allow") as work:
        client = work.client("--confirm-timeout", "0")
        answer = client.call("deploy", ARGUMENTS)
        assert refused(answer)
        (question,) = work.facts("confirm.required")
        assert f"repeat the call after {question.expires}: it is then allowed" in text_of(answer)
        assert milliseconds(question.expires) - milliseconds(work.events()[-1].timestamp) > 14 * 60_000
        assert work.facts("confirm.denied") == []  # nobody said no


@requirement("V1 reload")
def test_a_policy_that_is_edited_while_a_call_waits_decides_on_it(tmp_path: Path) -> None:
    """A call that waits for an answer is decided by the policy at the time of the answer."""
    with workspace(tmp_path, "confirm before deploy") as work:
        client = work.client()
        call = client.begin("deploy", ARGUMENTS)
        asked(work)
        work.write_policy("allow *", "deny deploy")
        work.decide(yes=True)
        answer = client.answer(call)
        assert refused(answer)
        assert "deny deploy (.aex/policy.aex:4)" in text_of(answer)
        assert work.executed() == []
