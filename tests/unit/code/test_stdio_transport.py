"""The protocol that `adjourn code` speaks over stdio, message by message."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from adjourn.code.server.server import MAX_CALLS
from adjourn.code.server.stdio_transport import HANDSHAKE_VERSIONS, CallThreads
from support.code_stdio import BIG, CAPABILITIES, ENVELOPE, HELLO, INFO, SECONDS, SERVER, VERSION, Client, FakeTools


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with FakeTools(str(tmp_path)) as server:
        client = Client(server)
        yield client
        client.close()


@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
def test_a_handshake_version_is_taken_as_asked(client: Client, version: str) -> None:
    """`initialize` returns the version that the client asked for, the capability of tools, and who serves."""
    greeting = client.greet(version)
    assert greeting["protocolVersion"] == version
    assert greeting["capabilities"] == {"tools": {"listChanged": False}}
    assert (greeting["serverInfo"]["name"], greeting["serverInfo"]["title"]) == ("code-intel", "adjourn code")
    assert "start_session" in greeting["instructions"]


@pytest.mark.parametrize("version", ["2026-07-28", "1.0", "zzz", ""])
def test_another_version_gets_the_newest_one_with_a_handshake(client: Client, version: str) -> None:
    """A version that no handshake can agree on is answered with the newest that one can."""
    assert client.greet(version)["protocolVersion"] == HANDSHAKE_VERSIONS[-1]


@pytest.mark.parametrize(
    "params",
    [
        {},
        {**HELLO, "protocolVersion": 5},
        {**HELLO, "capabilities": []},
        {"protocolVersion": "2025-06-18", "capabilities": {}},
        {**HELLO, "clientInfo": {"name": "tests"}},
        {**HELLO, "clientInfo": {"name": 3, "version": "1"}},
    ],
)
def test_a_handshake_of_another_shape_is_refused(client: Client, params: dict[str, Any]) -> None:
    """An `initialize` without its members is -32602 and leaves the connection as it was."""
    client.ask(1, "initialize", params)
    assert client.error() == (1, -32602)
    client.ask(2, "tools/list")
    assert client.error() == (2, -32602)
    assert client.greet()["protocolVersion"] == "2025-06-18"


def test_before_the_handshake_only_ping_is_served(client: Client) -> None:
    """Requests before `initialize` are -32602, unknown methods -32601 at any time, ping is answered."""
    client.ask(1, "tools/list")
    client.call(2, "quick")
    client.ask(3, "ping")
    client.ask(4, "prompts/list")
    assert [client.error(), client.error()] == [(1, -32602), (2, -32602)]
    assert client.answer() == {"jsonrpc": "2.0", "id": 3, "result": {}}
    assert client.error() == (4, -32601)


@pytest.mark.parametrize("method", ["prompts/get", "resources/read", "logging/setLevel", "server/discover", "x"])
def test_a_method_that_is_not_served_is_named(client: Client, method: str) -> None:
    """An unknown method is -32601, with its name."""
    client.greet()
    client.ask("a", method)
    wanted = {"code": -32601, "message": "Method not found", "data": method}
    assert client.answer() == {"jsonrpc": "2.0", "id": "a", "error": wanted}


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/list", {"cursor": 5}),
        ("tools/list", {"_meta": 5}),
        ("tools/list", {"_meta": {"progressToken": 1.5}}),
        ("ping", {"_meta": {"progressToken": []}}),
        ("tools/call", {}),
        ("tools/call", {"name": 5}),
        ("tools/call", {"name": "quick", "arguments": []}),
    ],
)
def test_params_of_another_shape_are_refused(client: Client, method: str, params: dict[str, Any]) -> None:
    """Parameters of a served method that do not have its shape are -32602."""
    client.greet()
    client.ask(1, method, params)
    wanted = {"code": -32602, "message": "Invalid request parameters", "data": ""}
    assert client.answer() == {"jsonrpc": "2.0", "id": 1, "error": wanted}


def test_calls_without_arguments_and_with_null(client: Client) -> None:
    """`arguments` may be missing or null; a failed call is a result with isError."""
    client.greet()
    client.ask(1, "tools/call", {"name": "quick"})
    assert client.answer()["result"] == {"content": [{"type": "text", "text": '{"name": "quick"}'}], "isError": False}
    client.call(2, "refuse", arguments=None)
    assert client.answer()["result"]["isError"] is True
    assert client.server.clients == ["tests", "tests"]


@pytest.mark.parametrize(
    ("line", "number", "code"),
    [
        ("{", None, -32700),
        ("nope", None, -32700),
        (b'{"jsonrpc":"2.0","id":"\xff","method":"ping"}', None, -32700),
        ('{"jsonrpc":"2.0","id":1,"method":"ping","params":NaN}', 1, -32700),
        ("[" * 100_000, None, -32700),
        ("5", None, -32600),
        ("[]", None, -32600),
        ('[{"jsonrpc":"2.0","id":1,"method":"ping"}]', None, -32600),
        ('{"jsonrpc":"1.0","id":1,"method":"ping"}', 1, -32600),
        ('{"id":1,"method":"ping"}', 1, -32600),
        ('{"jsonrpc":"2.0","id":1.5,"method":"ping"}', 1.5, -32600),
        ('{"jsonrpc":"2.0","id":true,"method":"ping"}', None, -32600),
        ('{"jsonrpc":"2.0","id":1,"method":5}', 1, -32600),
        ('{"jsonrpc":"2.0","id":1,"method":"ping","params":5}', 1, -32600),
        ('{"jsonrpc":"2.0","id":1,"method":"ping","method":"ping"}', 1, -32600),
    ],
)
def test_a_line_that_is_no_message_is_an_error_and_the_connection_stays(
    client: Client, line: bytes | str, number: float | None, code: int
) -> None:
    """What is no JSON is -32700, what is no request -32600; the next line is served."""
    client.greet()
    client.send(line)
    assert client.error() == (number, code)
    client.ask(9, "ping")
    assert client.answer()["id"] == 9


def test_null_stands_for_no_params(client: Client) -> None:
    """Some clients send `"params": null`; any other flaw of such a line is refused as before."""
    client.greet()
    client.send('{"jsonrpc":"2.0","id":1,"method":"ping","params":null}')
    assert client.answer() == {"jsonrpc": "2.0", "id": 1, "result": {}}
    client.send('{"jsonrpc":"2.0","id":2,"method":"ping","method":"ping","params":null}')
    assert client.error()[1] == -32600


def test_a_line_beyond_the_limit_is_an_error(client: Client) -> None:
    """A message that is too long is answered with an error; the next line is served."""
    client.greet()
    client.send(b'{"jsonrpc":"2.0","id":1,"method":"ping"' + b" " * (64 << 20) + b"}")
    assert client.error() == (1, -32700)
    client.ask(2, "ping")
    assert client.answer()["id"] == 2


def test_blank_lines_answers_and_unknown_notifications_are_passed_over(client: Client) -> None:
    """What asks for nothing gets no answer."""
    client.greet()
    client.send("", "  ", '{"jsonrpc":"2.0","id":1,"result":{}}', '{"jsonrpc":"2.0","method":"tools/list"}')
    client.notify("notifications/cancelled")
    client.notify("notifications/cancelled", {"requestId": 77})
    client.notify("whatever", {"a": 1})
    client.ask(2, "ping")
    assert client.answer()["id"] == 2


def test_other_requests_are_answered_while_calls_run(client: Client) -> None:
    """As many calls as there are threads wait; ping and tools/list are answered meanwhile, later calls in turn."""
    client.greet()
    for number in range(MAX_CALLS + 5):
        client.call(number, "wait")
    for _ in range(MAX_CALLS):
        assert client.server.running.acquire(timeout=SECONDS)
    client.ask("ping", "ping")
    assert client.answer()["id"] == "ping"
    client.ask("list", "tools/list")
    assert len(client.answer()["result"]["tools"]) == 21
    assert not client.server.running.acquire(timeout=0.05)
    client.server.release.set()
    assert {client.answer()["id"] for _ in range(MAX_CALLS + 5)} == {*range(MAX_CALLS + 5)}


@pytest.mark.parametrize("named", [7, "7"])
def test_a_cancelled_call_stops_and_gets_no_answer(client: Client, named: object) -> None:
    """notifications/cancelled stops the call, whether its id comes as a number or as text; nothing is sent for it."""
    client.greet()
    client.call(7, "work")
    assert client.server.running.acquire(timeout=SECONDS)
    client.notify("notifications/cancelled", {"requestId": named, "reason": "no longer needed"})
    assert client.server.cancelled.acquire(timeout=SECONDS)
    client.ask(8, "ping")
    assert client.answer()["id"] == 8
    assert client.hang_up() == []


def test_progress_is_sent_with_the_token_until_the_answer(client: Client) -> None:
    """A call with a progress token gets rising numbers at most a few times a second; one without a token none."""
    client.greet()
    client.call("silent", "work")
    client.call("told", "work", _meta={"progressToken": "t"})
    told = [client.answer() for _ in range(3)]
    assert {one["method"] for one in told} == {"notifications/progress"}
    assert {one["params"]["progressToken"] for one in told} == {"t"}
    assert {one["params"]["total"] for one in told} == {2_000_000.0}
    done = [one["params"]["progress"] for one in told]
    assert done == sorted(set(done))
    client.server.release.set()
    later = [client.answer() for _ in range(2)]
    while later[-1].get("method"):
        later.append(client.answer())
    assert {one["id"] for one in later if "id" in one} <= {"silent", "told"}


def test_a_defect_of_a_call_is_an_internal_error(client: Client, capfd: pytest.CaptureFixture[str]) -> None:
    """An exception that no reply covers is -32603, with a traceback on stderr, and the server stays."""
    client.greet()
    client.call(1, "fail")
    assert client.error() == (1, -32603)
    assert "a defect" in capfd.readouterr().err
    client.call(2, "quick")
    assert client.answer()["id"] == 2


def test_big_results_arrive_whole(client: Client) -> None:
    """Several replies larger than a pipe, written by several threads, arrive as whole lines."""
    client.greet()
    for number in range(4):
        client.call(number, "big")
    answers = [client.answer() for _ in range(4)]
    assert {one["id"] for one in answers} == {0, 1, 2, 3}
    assert all(len(one["result"]["content"][0]["text"]) == BIG for one in answers)


def test_at_the_end_of_input_calls_in_flight_get_an_error(client: Client) -> None:
    """When the client closes its end, the server ends at once; what is still in flight is -32000."""
    client.greet()
    client.call(1, "wait")
    client.call(2, "work")
    for _ in range(2):
        assert client.server.running.acquire(timeout=SECONDS)
    left = client.hang_up()
    assert sorted((one["id"], one["error"]["code"]) for one in left) == [(1, -32000), (2, -32000)]


def test_a_client_that_reads_no_more_does_no_harm(client: Client) -> None:
    """Answers to a client that closed its reading end are dropped; the server ends with its input."""
    client.greet()
    client._answers.close()
    for number in range(20):
        client.ask(number, "ping")
    os.close(client._writing)
    client._writing = -1
    client._thread.join(SECONDS)
    assert not client._thread.is_alive()


# --- without a handshake


def test_a_stateless_connection(client: Client) -> None:
    """A first request with an envelope makes the connection stateless: results are complete, stamped, and not cached."""
    client.ask(1, "server/discover", {"_meta": ENVELOPE})
    found = client.answer()["result"]
    assert found["supportedVersions"] == ["2026-07-28"]
    assert (found["resultType"], found["ttlMs"], found["cacheScope"]) == ("complete", 0, "private")
    assert found["_meta"][SERVER]["name"] == "code-intel"
    client.ask(2, "tools/list", {"_meta": ENVELOPE})
    found = client.answer()["result"]
    assert (len(found["tools"]), found["resultType"], found["ttlMs"]) == (21, "complete", 0)
    client.call(3, "quick", _meta={**ENVELOPE, "progressToken": 3})
    found = client.answer()["result"]
    assert (found["isError"], found["resultType"]) == (False, "complete")
    assert client.server.clients == ["tests"]


@pytest.mark.parametrize(
    ("method", "meta", "code"),
    [
        ("initialize", ENVELOPE, -32022),
        ("ping", ENVELOPE, -32601),
        ("prompts/list", ENVELOPE, -32601),
        ("tools/list", None, -32602),
        ("x", None, -32602),
        ("tools/list", {VERSION: "2026-07-28"}, -32602),
        ("tools/list", {VERSION: 5, CAPABILITIES: {}}, -32602),
        ("tools/list", {VERSION: "2027-01-01", CAPABILITIES: {}}, -32022),
        ("tools/list", {VERSION: "2026-07-28", CAPABILITIES: 5}, -32602),
        ("tools/list", {**ENVELOPE, INFO: {}}, -32602),
        ("tools/call", ENVELOPE, -32602),
    ],
)
def test_what_a_stateless_connection_refuses(
    client: Client, method: str, meta: dict[str, Any] | None, code: int
) -> None:
    """Requests without an envelope, of another version, or of methods of the handshake are refused, each with its code."""
    client.ask(1, "server/discover", {"_meta": ENVELOPE})
    client.answer()
    client.ask(2, method, {} if meta is None else {"_meta": meta})
    answer = client.answer()
    assert (answer["id"], answer["error"]["code"]) == (2, code)
    if code == -32022:
        assert answer["error"]["data"]["supported"] == ["2026-07-28"]


def test_client_info_may_be_left_out(client: Client) -> None:
    """The envelope needs a version and capabilities only."""
    client.ask(1, "tools/list", {"_meta": {VERSION: "2026-07-28", CAPABILITIES: {}}})
    assert len(client.answer()["result"]["tools"]) == 21


def test_a_connection_keeps_to_its_first_form(client: Client) -> None:
    """After a handshake, requests with an envelope are -32600."""
    client.greet()
    client.ask(1, "tools/list", {"_meta": ENVELOPE})
    assert client.error() == (1, -32600)
    client.ask(2, "tools/list")
    assert client.answer()["id"] == 2


def test_a_bare_probe_leaves_the_handshake_open(client: Client) -> None:
    """server/discover without an envelope is -32601; the client then greets with `initialize`."""
    client.ask(1, "server/discover")
    assert client.error() == (1, -32601)
    assert client.greet()["protocolVersion"] == "2025-06-18"


def test_idle_threads_are_used_again() -> None:
    """A thread is started only when none is idle."""
    threads = CallThreads(4)
    used: SimpleQueue[int] = SimpleQueue()
    found = set()
    for _ in range(20):
        threads.run(lambda: used.put(threading.get_ident()))
        found.add(used.get(timeout=SECONDS))
        end = time.monotonic() + SECONDS
        while not threads._idle._value and time.monotonic() < end:
            time.sleep(0.001)
    assert len(found) == 1


_CLAIMED = """
import os
from adjourn.code.server import stdio_transport
reading, writing = stdio_transport._claim_stdio()
os.system("cat; echo stray")
os.write(writing, b"answer " + os.read(reading, 100))
"""


def test_what_a_tool_prints_does_not_reach_the_client() -> None:
    """The pipes are the connection's alone: a program that prints writes to stderr, and one that reads gets nothing."""
    done = subprocess.run([sys.executable, "-c", _CLAIMED], input=b"question", capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"answer question", b"stray\n")


def test_the_sdk_is_not_loaded() -> None:
    """Serving stdio imports neither the MCP SDK nor what it stands on."""
    script = "import json, sys, adjourn.code.server.stdio_transport; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in json.loads(done.stdout)}
    assert not loaded & {"mcp", "mcp_types", "pydantic", "anyio", "asyncio", "uvicorn", "tree_sitter"}
