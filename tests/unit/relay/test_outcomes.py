"""Each outcome of a call reaches the next session, with its argument: by the tool, the proxy's greeting and the command."""

from __future__ import annotations

import json
from pathlib import Path

from support.in_process import ProxyWorkspace, refused, run, text_of, wait_for


def test_every_outcome_is_told_with_its_argument(tmp_path: Path) -> None:
    """Done, failed, refused by a rule, timed out, in doubt and settled calls are distinguished, in all three renderings."""
    policy = ("allow *", "confirm before file.write", "deny network.*", "budget calls=50")
    with ProxyWorkspace(tmp_path, *policy) as work:
        client = work.client("--task", "t", "--confirm-timeout", "0")
        client.call("echo", {"path": "src/done.py"})
        client.call("fail", {"command": "pytest -q"})
        assert refused(client.call("network.fetch", {"url": "https://example.org/x"}))
        assert refused(client.call("file.write", {"path": "src/late.py"}))
        client.begin("silent", {"order": "first"})
        wait_for(lambda: len(work.ledger("t").open_calls) == 1)
        client.kill()
        client = work.client("--task", "t", foreign=True)
        client.meta("aex.checkpoint", name="a", resumptionPoint="Go on with part two")
        [settled] = work.ledger("t").doubts
        assert run("settle", settled, "--done", cwd=work.root, env=work.environment).code == 0
        client.begin("silent", {"order": "second"})
        wait_for(lambda: len(work.ledger("t").open_calls) == 1)
        client.kill()
        client = work.client(foreign=True)
        greeting = client.greeting["result"]["instructions"]
        text = text_of(client.call("aex.resume", {"name": "a"}))
        told = json.loads(text)
        printed = " ".join(run("resume", "a", cwd=work.root, env=work.environment).out.split())
    assert "\n" not in text
    done = {entry["data"]["argument"]: entry["data"]["outcome"] for entry in told["auditSummary"]}
    by = done.pop("first")
    assert by.startswith("settled by ")
    assert by.endswith(" as done")
    assert done == {"src/done.py": "ok", "pytest -q": "error"}
    assert [call["arguments"] for call in told["inDoubt"]] == ['{"order":"second"}']
    trouble, step = told["nextStep"]
    assert trouble == "pytest -q failed: find out why, and run it again before you call the work done"
    assert step.startswith("Go on with part two (stated before these calls: ")
    for line in (
        "echo src/done.py: ok",
        'fail pytest -q: error: the server said: "failed"',
        "network.fetch https://example.org/x: refused by a rule: deny network.*",
        "file.write src/late.py: timed out: nobody answered the question",
        "silent first: settled by ",
        "silent second (call ",
        "Go on with part two",
    ):
        assert line in greeting
        assert line in printed
    refusals = [line.split(": ")[1] for line in told["refused"]]
    assert refusals == ["timed out", "refused by a rule"]


def test_the_room_of_an_answer_is_an_option(tmp_path: Path) -> None:
    """--brief-bytes bounds the answer of aex.resume and of adjourn resume; sizes out of range are refused."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client("--brief-bytes", "1024")
        for number in range(40):
            client.call("echo", {"path": f"src/part-{number}.py"})
        client.meta("adjourn.note", facts=[f"fact {number} " + "x" * 80 for number in range(40)])
        client.meta("aex.checkpoint", name="a", resumptionPoint="Go on with part two")
        text = text_of(client.call("aex.resume", {"name": "a"}))
        assert len(text.encode()) <= 1024
        assert json.loads(text)["nextStep"] == ["Go on with part two"]
        assert json.loads(text)["leftOut"]["facts"] > 30
        done = run("resume", "a", "--brief-bytes", "1024", cwd=work.root, env=work.environment)
        assert len(done.out.encode()) <= 1024
        assert "Go on with part two" in done.out
        assert run("resume", "a", "--brief-bytes", "1023", cwd=work.root, env=work.environment).code == 2
