"""Sessions of hostile lines, of a client and of a server, over any workspace of `proxy` or `in_process`.

Owns: `fuzz_client`, `fuzz_server`. Must never: start a proxy.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from contextlib import suppress
from typing import Any

from adjourn.log.chain import verify_chain
from support.hostile_lines import ALLOWED, Hostile, called_tools, messages
from support.proxy import NEW

CAMPAIGN = os.environ.get("ADJOURN_CAMPAIGN") == "1"
CLIENT_LINES = 34_000 if CAMPAIGN else 1_700
UPSTREAM_LINES = 10_000 if CAMPAIGN else 500
CHUNK = 100
CLIENT_POLICY = ("allow echo", "allow file.*", "deny secrets.*")


def _key(value: object) -> str:
    return json.dumps(value)


def _sent_ids(line: bytes) -> list[str]:
    """The id of each request in a line, as the strictest and the most lenient parser read it."""
    try:
        body = json.loads(line)
    except (ValueError, RecursionError):
        body = None
    found = body if isinstance(body, list) else [body]
    ids = [_key(message.get("id")) for message in found if isinstance(message, dict)]
    ids = ids or [_key(message.get("id")) for message in messages(line)][:1]
    text = re.sub(r"\\u00([0-9a-f]{2})", lambda found: chr(int(found[1], 16)), line.decode(errors="replace"))
    named = re.findall(r'"id"\s*:\s*("[^"\\]*"|-?[\d.]+(?:[eE]\d+)?)', text)
    for one in named:
        with suppress(ValueError):
            ids += {_key(json.loads(one))} - set(ids)
    return ids


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line.decode(), parse_constant=lambda _: 1 / 0)
    except (ValueError, RecursionError, ZeroDivisionError):
        return False
    return True


def fuzz_client(work: Any, era: str) -> None:
    """Send the hostile lines of a client. Only permitted messages are forwarded, and the proxy answers throughout."""
    hostile = Hostile(seed=hash_of(era))
    client = work.client(era=era)
    sent: Counter[str] = Counter(json.dumps(json.loads(line)["id"]) for line in client.received)
    garbage = 0
    for number in range(CLIENT_LINES // CHUNK):
        lines = [hostile.client_line() for _ in range(CHUNK - 1)]
        probe = client.call_message("echo", {"probe": number})
        probe["id"] = f"probe-{number}"
        for line in lines:
            sent.update(_sent_ids(line))
            garbage += not _is_json(line) and not line.isspace() and line != b""
        sent[_key(probe["id"])] += 1
        place = hostile.random.randrange(CHUNK)
        body = [*lines[:place], json.dumps(probe).encode(), *lines[place:]]
        client.send(b"\n".join(body) + b"\n")
        answer = client.answer(probe["id"])
        assert json.loads(answer["result"]["content"][0]["text"]) == {"probe": number}
        client.forget()
        if number % 20 == 0:
            assert "proxy.bug" not in client.stderr()
    assert client.close() == 0
    _check_forwarded(work)
    _check_answers(client.received, sent, garbage)
    assert "proxy.bug" not in client.stderr()
    with work.store() as store:
        for task in store.streams():
            assert verify_chain(store.read(task)).valid
    print(f"{era}: {CLIENT_LINES} lines, {garbage} no JSON, {len(work.forwarded())} forwarded, "
          f"{len(client.received)} answers")  # fmt: skip


def hash_of(text: str) -> int:
    return sum(map(ord, text)) + (int(os.environ.get("ADJOURN_SEED", "0")))


def _check_forwarded(work: Any) -> None:
    for line in work.forwarded():
        assert _is_json(line), line
        tools = called_tools(line)
        assert all(tool in ALLOWED or tool.startswith("file.") for tool in tools), line
        assert not line.lstrip().startswith(b"["), line
    executed = set(work.executed())
    assert all(tool in ALLOWED or tool.startswith("file.") for tool in executed), executed


def _check_answers(received: list[bytes], sent: Counter[str], garbage: int) -> None:
    answered: Counter[str] = Counter()
    parse_errors = 0
    for line in received:
        body = json.loads(line)
        for answer in body if isinstance(body, list) else [body]:
            assert "method" not in answer, line
            assert ("result" in answer) != ("error" in answer), line
            answered[_key(answer["id"])] += 1
            parse_errors += answer.get("error", {}).get("code") in (-32700, -32600)
    del answered["null"]
    extra = answered - sent
    assert not extra, extra
    assert parse_errors >= garbage


def fuzz_server(work: Any) -> None:
    """Send the hostile lines of a server. Only answers to open requests reach the client."""
    hostile = Hostile(seed=7 + int(os.environ.get("ADJOURN_SEED", "0")))
    client = work.client(era=NEW)
    good = '{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}'
    for _ in range(UPSTREAM_LINES // CHUNK):
        first = len(client.received)
        lines = [hostile.upstream_line() for _ in range(CHUNK)]
        request = client.begin("send", {"lines": [*lines, good]})
        ping = client.message("ping")
        client.post(ping)
        answers = _until(client, ping["id"])
        assert answers[-1]["id"] == ping["id"]
        mine = [answer for answer in answers[:-1] if answer.get("id") is not None]
        assert [answer["id"] for answer in mine] == [request], client.received[first:]
    assert client.ask("tools/list")["result"]["tools"]
    assert client.close() == 0
    assert "proxy.bug" not in client.stderr()
    assert not work.ledger().open_calls
    assert not work.ledger().doubts


def _until(client: Any, request_id: object) -> list[dict[str, Any]]:
    """Every answer that arrives, up to that of a request. Lines that are no message are skipped."""
    answers: list[dict[str, Any]] = []
    while True:
        line = client.line()
        assert line is not None, client.stderr()[-2000:]
        for body in list(messages(line))[:1]:
            if type(body.get("method")) is not str and ("result" in body or "error" in body):
                answers.append(body)
                if body.get("id") == request_id and type(body["id"]) is type(request_id):
                    return answers
