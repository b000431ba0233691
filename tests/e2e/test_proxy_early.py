"""A reading call that was forwarded before it is recorded, and something happens in between."""

from __future__ import annotations

import json
from pathlib import Path

from adjourn.log import kinds
from adjourn.tasks.task import NewEvent
from support.proxy import Client, ProxyWorkspace, refused, text_of, wait_for

POLICY = ("allow *",)
_WAITS = """
import sys, time
from pathlib import Path
from adjourn.relay.admission import Admission

forward = Admission._forward
waits = []

def forwarded(self, calls, session, admitted, *, at_once=False):
    forward(self, calls, session, admitted, at_once=at_once)
    if at_once and Path("wait").exists():
        Path("forwarded").touch()
        while Path("wait").exists():
            time.sleep(0.005)

Admission._forward = forwarded
from adjourn.__main__ import main
sys.argv = sys.argv[sys.argv.index("adjourn"):]
main()
"""


def _begin(work: ProxyWorkspace) -> tuple[Client, object]:
    """A client whose reading call was forwarded, and which waits before it is recorded."""
    client = work.client("--task", "early", python=("-c", _WAITS))
    client.tools()
    client.call("file.read", {"n": 1})
    (work.root / "wait").touch()
    request = client.begin("file.read", {"n": 2})
    wait_for((work.root / "forwarded").exists)
    wait_for(lambda: work.executed().count("file.read") == 2)
    return client, request


def test_a_call_that_was_forwarded_is_recorded_after_what_another_process_appended(tmp_path: Path) -> None:
    """It is forwarded once, recorded once, and stays allowed under a policy that was edited meanwhile."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client, request = _begin(work)
        with work.task("early") as task:
            task.commit(lambda _: [NewEvent(kinds.UsageReported(tokens=5))])
        work.write_policy("deny *")
        (work.root / "wait").unlink()
        assert json.loads(text_of(client.answer(request))) == {"n": 2}
        assert refused(client.call("file.read", {"n": 3}))
        assert work.executed() == ["file.read"] * 2
        assert client.close() == 0
        assert len(work.facts("tool.allowed")) == 2
        assert [fact.outcome for fact in work.facts("tool.settled")] == ["ok", "ok"]


def test_the_answer_of_a_call_is_withheld_if_another_client_took_the_task_meanwhile(tmp_path: Path) -> None:
    """The client gets one answer, a refusal, and the history does not have the call."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client, request = _begin(work)
        other = work.client("--task", "early", "--take-over", foreign=True)
        assert not refused(other.call("echo", {"n": 9}))
        (work.root / "wait").unlink()
        answer = client.answer(request)
        assert refused(answer)
        assert "taken over" in text_of(answer)
        client.close()
        assert len([line for line in client.received if json.loads(line).get("id") == request]) == 1
        assert len(work.facts("tool.allowed")) == 2  # the first reading, and the other client's


def test_a_withheld_call_without_an_answer_gets_no_second_one_at_the_end(tmp_path: Path) -> None:
    """The refusal was its answer, though the server never answers."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client("--task", "early", python=("-c", _WAITS), server=("--tools", "reading"))
        client.tools()
        client.call("slow", {"seconds": 0})  # a tool's first call is recorded before it is forwarded
        (work.root / "wait").touch()
        request = client.begin("slow", {"seconds": 60})
        wait_for((work.root / "forwarded").exists)
        other = work.client("--task", "early", "--take-over", foreign=True)
        assert not refused(other.call("echo", {"n": 9}))
        (work.root / "wait").unlink()
        assert refused(client.answer(request))
        client.stdin.close()
        client.process.wait(20)
        assert len([line for line in client.received if json.loads(line).get("id") == request]) == 1
