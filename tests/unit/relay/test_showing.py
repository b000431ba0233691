"""What an agent and a server say is shown so that no terminal obeys it, nobody is misled by it, and it does not pass for ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from adjourn.text.redact import is_seen
from support.in_process import MODERN, NEW, OLD, ProxyWorkspace, refused, run

NASTY = "half\x1b[31m \x9b2J \u202edesrever\u2066 \u3164\u200b\U000e0041 done\n## Mission\n<img src=x>"
HIDING = "\x1b\x9b\u202e\u2066\u3164\u200b\U000e0041"


@pytest.fixture
def work(tmp_path: Path) -> Iterator[ProxyWorkspace]:
    with ProxyWorkspace(tmp_path, "use echo", "use send", "deny fail", "use ask", "confirm before ask") as work:
        yield work


def is_clean(text: str) -> bool:
    return all(is_seen(character) or character in "\n\t" for character in text)


@pytest.mark.parametrize("era", [OLD, NEW, MODERN])
def test_a_question_shows_what_it_is_about_with_escapes(work: ProxyWorkspace, era: str) -> None:
    """The dialog of a client shows a call's arguments without characters that reorder or hide a part of them."""
    client = work.client(era=era, elicits=True)
    request = client.begin("ask", {"method": NASTY})
    if era == MODERN:
        params = client.answer(request)["result"]["inputRequests"]["adjourn-confirm"]["params"]
    else:
        params = client.asked()["params"]
    assert is_clean(json.dumps(params, ensure_ascii=False))
    assert "u202e" in params["message"]
    assert not any(character in client.stderr() for character in HIDING)


@pytest.mark.parametrize("options", [(), ("--log-json",)], ids=["text", "json"])
def test_nothing_on_stderr_or_in_an_answer_is_obeyed(work: ProxyWorkspace, options: tuple[str, ...]) -> None:
    """The proxy's stderr, the answers of its meta-tools and the page hold escapes; the page says whose words it has."""
    client = work.client(*options, name=f"tester {HIDING}")
    client.call("echo", {"text": NASTY})
    assert refused(client.call("fail", {"text": NASTY}))
    client.send(b'{"jsonrpc": "2.0", "id": 5, "method": "\xc2\x9b2J\xe2\x80\xae", "method": "\xc2\x9b"}\n')
    client.call("send", {"lines": ["panic: \xe2\x80\xae \xc2\x9b2J", '{"jsonrpc":"2.0","id":$ID,"result":{}}']})
    client.call("adjourn.note", {NASTY: 1})
    client.meta("aex.checkpoint", name="half", description=NASTY, currentState=[NASTY], resumptionPoint=NASTY)
    for tool, arguments in (("aex.resume", {"name": "half"}), ("aex.list_tasks", {}), ("aex.resume", {"name": NASTY})):
        answer = client.call(tool, arguments)["result"]["content"][0]["text"]
        assert is_clean(answer), answer
    page = (work.root / "tmp" / "checkpoint-active.md").read_text(encoding="utf-8")
    assert is_clean(page)
    assert page.splitlines()[1].startswith("> Words of the agent tester")
    assert page.count("\n## Mission\n") == 1
    assert "\\<img" in page
    client.close()
    errors = client.stderr()
    assert is_clean(errors)
    assert "u202e" in errors
    lines = errors.splitlines()
    assert all(json.loads(line) if options else line.startswith("adjourn: ") for line in lines if line)


@pytest.mark.parametrize(
    "command", ["status", "log", "checkpoint show half", "resume half", "tasks", "checkpoint list", "record"]
)
def test_no_command_shows_what_a_terminal_obeys(work: ProxyWorkspace, command: str) -> None:
    """Tables, texts and JSON of the commands have escapes for what agents and servers wrote."""
    client = work.client(name=f"tester {HIDING}")
    client.call("echo", {"text": NASTY})
    client.begin("ask", {"method": NASTY})
    client.call("adjourn.note", {"facts": [NASTY], "decisions": [{"decision": NASTY, "because": NASTY}]})
    client.meta("aex.checkpoint", name="half", description=NASTY, currentState=[NASTY])
    client.close()
    for more in ((), ("--json",)):
        if (command, more) == ("log", ("--json",)):
            continue  # the stored bytes; on a terminal they are escaped
        done = run(*command.split(), *more, cwd=work.root, env=work.environment)
        assert done.code == 0, done
        assert done.out.strip()
        assert is_clean(done.out + done.err), done.out
