"""Secrets that pass the proxy are written down nowhere: not in the store, not in folders and pages, not on stderr."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.in_process import MODERN, NEW, ProxyWorkspace, refused
from support.secret_examples import ALNUM, HEX, Maker, examples

SHAPES = {f"{name} {number}": example for number, (name, example) in enumerate(examples()) if "\n" not in example.text}


def written(work: ProxyWorkspace) -> dict[str, bytes]:
    """Every file of the workspace, with its bytes. What the upstream writes lies elsewhere."""
    return {str(path): path.read_bytes() for path in work.root.rglob("*") if path.is_file()}


@pytest.fixture
def work(tmp_path: Path) -> Iterator[ProxyWorkspace]:
    with ProxyWorkspace(tmp_path, "use echo", "use send", "deny fail", "use ask", "confirm before ask") as work:
        yield work


class Secrets:
    """Makes one secret after another, each for one place."""

    def __init__(self) -> None:
        self.made: dict[str, str] = {}

    def __call__(self, place: str) -> str:
        self.made[place] = "gh" + "p_" + Maker(place).some(ALNUM, 36)
        return self.made[place]

    def leaked(self, files: dict[str, bytes]) -> list[str]:
        return [
            f"{place} in {name}"
            for place, secret in self.made.items()
            for name, data in files.items()
            if secret.encode() in data or secret[:20].encode() in data
        ]


@pytest.mark.parametrize("era", [NEW, MODERN])
def test_no_secret_of_a_session_is_written_down_anywhere(work: ProxyWorkspace, era: str) -> None:
    """Argument values and names, refused calls and messages, notes, questions, checkpoints with all their parts, the client's own
    name, and what the server says that is no message: none of their secrets is in any file of the workspace, or on stderr.
    """
    secret = Secrets()
    client = work.client(era=era, name=f"tester {secret('client')}")
    client.call("echo", {"text": f"see {secret('value')}", "deep": [{"a": secret("deep value")}]})
    client.call("echo", {secret("name"): 1, "deep": {secret("deep name"): [2]}})
    client.call("echo", {"text": "x" * 480 + f" {secret('cut value')}"})
    assert refused(client.call("fail", {"why": secret("denied")}))
    client.begin("ask", {"method": secret("asked")})
    client.call(f"no tool {secret('tool')}", {})
    client.send(f"this is no message: {secret('not JSON')}\n".encode())
    client.send(("x" * 100 + f" {secret('cut sample')}\n").encode())
    client.send(b'{"jsonrpc":"2.0","id":77,"method":"tools/call","a":1,"a":"%s"}\n' % secret("twice").encode())
    client.post({"jsonrpc": "2.0", "method": "tools/call", "params": {"name": secret("no id")}})
    client.call(
        "adjourn.note",
        {"facts": [f"the key is {secret('fact')}"], "decisions": [{"decision": "d", "because": secret("why")}]},
    )
    client.call("adjourn.note", {secret("odd member"): 1})
    client.call(
        "adjourn.ask",
        {"question": f"may I use {secret('question')}?", "context": secret("context"), "options": [secret("option")]},
    )
    client.meta(
        "aex.checkpoint",
        name="half",
        description=f"done with {secret('description')}",
        progress=[{"text": secret("step"), "note": secret("step note")}],
        currentState=[secret("state")],
        openQuestions=[secret("open question")],
        artifacts=[{"path": f"out/{secret('artifact')}", "note": secret("artifact note")}],
        resumptionPoint=f"use {secret('resumption')}",
    )
    assert refused(client.call("aex.checkpoint", {"name": secret("checkpoint name")}))
    told = json.dumps(client.meta("aex.resume", name="half"))
    assert "[redacted]" in told
    assert secret.leaked({"answer": told.encode()}) == []
    lines = [f"panic: {secret('upstream')}", "x" * 190 + f" {secret('cut line')}"]
    client.call("send", {"lines": [*lines, '{"jsonrpc":"2.0","id":$ID,"result":{}}']})
    client.close()
    [task] = [name for name in work.tasks() if "/" not in name]
    assert "done with [redacted]" in work.facts("checkpoint.created", task)[0].description
    assert work.facts("upstream.non_jsonrpc", task)[0].line == "panic: [redacted]\n"
    assert secret.leaked(written(work)) == []
    assert secret.leaked({"stderr": client.stderr().encode()}) == []
    assert len(work.forwarded_calls()) >= 4  # what is forwarded is forwarded as it was
    assert secret.made["value"] in json.dumps(work.forwarded_calls())


def test_a_secret_of_every_shape_is_kept_out_of_the_store(work: ProxyWorkspace) -> None:
    """Whatever its shape, a secret in a call's arguments is in no file, and reaches the server as it was."""
    client = work.client()
    for example in SHAPES.values():
        client.call("echo", {"text": f"use {example.text} now"})
    client.close()
    data = b"".join(written(work).values())
    assert [name for name, example in SHAPES.items() if example.secret.encode() in data] == []
    assert len(work.forwarded_calls()) == len(SHAPES)
    sent = {call["arguments"]["text"] for call in work.forwarded_calls()}
    assert sent == {f"use {example.text} now" for example in SHAPES.values()}


def test_what_is_no_secret_is_written_down_as_it_was(work: ProxyWorkspace) -> None:
    """Commits, digests and ordinary words in arguments stay readable in the history."""
    commit = Maker("commit").some(HEX, 40)
    client = work.client()
    client.call("echo", {"revision": commit, "path": "src/größe.py", "keyboard": "a monkey"})
    client.close()
    [allowed] = [fact for fact in work.facts("tool.allowed") if fact.tool == "echo"]
    assert json.loads(allowed.arguments) == {"revision": commit, "path": "src/größe.py", "keyboard": "a monkey"}
