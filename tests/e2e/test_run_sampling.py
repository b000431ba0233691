"""`adjourn run --model mcp`: the connected client's model answers, through its proxy, when and as the client lets it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from support.proxy import MODERN, NEW, SECONDS, Client, Message, ProxyWorkspace, wait_for

POLICY = ("allow echo", "budget calls=9")
CONTRACT = """task poem v0
goal "a poem"
use echo
need topic: str
make poem: str from topic with:
  - two lines
return poem
"""
POEM = {"role": "assistant", "content": {"type": "text", "text": "two\nlines"}, "model": "small-1"}


def _run(work: ProxyWorkspace, *options: str, model: str = "mcp") -> subprocess.Popen[str]:
    (work.root / "poem.aex").write_text(CONTRACT)
    (work.root / "inputs.json").write_text('{"topic": "rain"}')
    command = ["run", "poem.aex", "--inputs", "inputs.json", "--model", model, "--json", *options]
    return subprocess.Popen(
        [sys.executable, "-m", "adjourn", *command], cwd=work.root, env=work.environment, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def _refs(work: ProxyWorkspace) -> list[str]:
    with work.store() as store:
        return [name for prefix in ("sampler/", "sampling/") for name in store.refs(prefix)]


def _sampling(work: ProxyWorkspace) -> Client:
    """A client that offers sampling, as soon as it can be asked."""
    client = work.client(era=NEW, capabilities={"sampling": {}})
    wait_for(lambda: _refs(work))
    return client


def _reply(client: Client, question: Message, **body: object) -> None:
    client.post({"jsonrpc": "2.0", "id": question["id"], **body})


def test_the_clients_model_makes_what_a_step_asks_for(tmp_path: Path) -> None:
    """The client gets the question as a sampling request, and its answer is the step's value; nothing of it stays in the box,
    nothing reaches the upstream, and the client's own calls continue meanwhile."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = _sampling(work)
        run = _run(work, model="mcp:small")
        question = client.asked("sampling/createMessage")
        params = question["params"]
        assert "rain" in params["messages"][0]["content"]["text"]
        assert "two lines" in params["messages"][0]["content"]["text"]
        assert "one step of a contract" in params["systemPrompt"]
        assert params["maxTokens"] > 0
        assert params["modelPreferences"] == {"hints": [{"name": "small"}]}
        assert client.call("echo", {"a": 1})["result"]
        _reply(client, question, result=POEM)
        out, errors = run.communicate(timeout=SECONDS)
        assert run.returncode == 0, errors
        outcome = json.loads(out)
        assert outcome["output"] == "two\nlines"
        assert [fact.model for fact in work.facts("make.result", outcome["task"])] == ["small-1"]
        assert [name.split("/")[0] for name in _refs(work)] == ["sampler"]
        assert not any(b"two\\nlines" in line or b"createMessage" in line for line in work.forwarded())
        client.close()
        assert _refs(work) == []


def test_a_client_that_refuses_blocks_the_run_which_can_then_be_resumed(tmp_path: Path) -> None:
    """The client's no is the reason that the run tells, and a resumed run asks again."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = _sampling(work)
        run = _run(work)
        error = {"code": -1, "message": "User rejected sampling request"}
        _reply(client, client.asked("sampling/createMessage"), error=error)
        out, _ = run.communicate(timeout=SECONDS)
        assert run.returncode == 1
        assert (
            "tester 1 returned an error instead of its model's answer: User rejected"
            in json.loads(out)["reason"]
        )
        again = subprocess.Popen(
            [sys.executable, "-m", "adjourn", "run", "--resume", "--model", "mcp", "--json"],
            cwd=work.root, env=work.environment, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        )  # fmt: skip
        _reply(client, client.asked("sampling/createMessage"), result=POEM | {"content": [POEM["content"]]})
        out, _ = again.communicate(timeout=SECONDS)
        assert json.loads(out)["output"] == "two\nlines"


def test_an_answer_that_is_no_message_or_was_cut_off_is_no_value(tmp_path: Path) -> None:
    """What the client answers is read strictly, and half a text is not taken for a whole one."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = _sampling(work)
        for result, told in (
            ({"content": "text"}, "is no message"),
            (POEM | {"stopReason": "maxTokens"}, "cut off"),
            (POEM | {"content": {"type": "image", "data": ""}}, "empty answer"),
        ):
            run = _run(work)
            _reply(client, client.asked("sampling/createMessage"), result=result)
            out, _ = run.communicate(timeout=SECONDS)
            assert told in json.loads(out)["reason"]


def test_nobody_to_ask_is_said_before_anything_is_written(tmp_path: Path) -> None:
    """Without a client, with one that does not offer sampling, and with one of the later era, the message says which it is
    and what to do instead; no run begins."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        for client, told in (
            (None, "no client is connected"),
            (NEW, "no connected client offers sampling: tester 1"),
            (MODERN, "only within a call"),
        ):
            if client is not None:
                work.client(era=client, capabilities={"sampling": {}} if client == MODERN else None).call(
                    "echo"
                )
            run = _run(work)
            _, errors = run.communicate(timeout=SECONDS)
            assert run.returncode == 1
            assert told in errors
            assert "--model anthropic" in errors
            with work.store() as store:
                assert store.refs("run/") == {}
            for one in work.clients:
                one.close()


def test_a_client_that_goes_ends_the_wait(tmp_path: Path) -> None:
    """A killed proxy is noticed at once; what it left is cleared away by the next one."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = _sampling(work)
        run = _run(work)
        client.asked("sampling/createMessage")
        os.kill(client.process.pid, signal.SIGKILL)
        client.process.wait()
        out, _ = run.communicate(timeout=SECONDS)
        assert "exited before its model answered" in json.loads(out)["reason"]
        left = _refs(work)
        assert [name.split("/")[0] for name in left] == ["sampler"]
        _sampling(work)
        wait_for(lambda: left[0] not in _refs(work))


def test_a_run_that_is_stopped_takes_its_question_back(tmp_path: Path) -> None:
    """The client learns that its answer is not waited for, and a late one goes nowhere."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = _sampling(work)
        run = _run(work)
        question = client.asked("sampling/createMessage")
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=SECONDS)
        assert run.returncode == 130
        assert client.asked("notifications/cancelled")["params"] == {"requestId": question["id"]}
        _reply(client, question, result=POEM)
        assert client.call("echo", {"a": 1})["result"]
        assert [name.split("/")[0] for name in _refs(work)] == ["sampler"]
        assert not any(b"small-1" in line for line in work.forwarded())
