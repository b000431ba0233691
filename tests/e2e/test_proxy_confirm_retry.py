"""Protocol 2026-07-28: the answer of a call is a question, and the client repeats the call with the person's reply."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.confirming import ACCEPT, ARGUMENTS, POLICY
from support.proxy import MODERN, Client, Message, ProxyWorkspace, refused
from support.requirements import requirement


def _question(client: Client, tool: str = "file.write", arguments: Message | None = None) -> Message:
    result: Message = client.call(tool, ARGUMENTS if arguments is None else arguments)["result"]
    assert result["resultType"] == "input_required"
    return result


def _retry(client: Client, question: Message, reply: Any, **changes: Any) -> Message:
    params = {
        "name": "file.write",
        "arguments": ARGUMENTS,
        "inputResponses": dict.fromkeys(question["inputRequests"], reply),
        "requestState": question["requestState"],
    } | changes
    message = client.message("tools/call", params)
    client.post(message)
    return client.answer(message["id"])


@requirement("D40")
def test_a_pending_question_survives_a_restart_of_the_proxy(tmp_path: Path) -> None:
    """A question that a killed proxy asked can be answered to the next one, once."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client(era=MODERN, elicits=True)
        question = _question(client)
        client.kill()
        client = work.client(era=MODERN, elicits=True)
        assert not refused(_retry(client, question, ACCEPT))
        assert work.executed() == ["file.write"]
        client.kill()
        client = work.client(era=MODERN, elicits=True)
        assert refused(_retry(client, question, ACCEPT))
        assert work.executed() == ["file.write"]


def test_a_state_of_another_user_is_refused(tmp_path: Path) -> None:
    """A requestState that another user's secret signed is refused."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client("--task", "t", era=MODERN, elicits=True)
        question = _question(client)
        client.close()
        other = {"ADJOURN_CONFIG": str(tmp_path / "other")}
        client = work.client("--task", "t", era=MODERN, elicits=True, env=other)
        assert refused(_retry(client, question, ACCEPT))
        assert work.executed() == []
