"""Whatever line a client sends: what the gate forwards is one and the same call to every reader of JSON.

Short here. ADJOURN_CAMPAIGN=1 sends 1,000,000 lines through the real gate, with the wire and the store left out, and holds
100,000 objects of arguments against other readers. `make fuzz TARGET=frames` looks for more with coverage as its guide.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from adjourn.clients.client import ClientContext
from adjourn.clients.client_process import ClientOptions
from adjourn.clients.session_pool import SessionPool
from adjourn.log.canonical_json import MAX_SAFE_INTEGER, digest
from adjourn.mcp import frames
from adjourn.mcp.frames import FrameError, Message
from adjourn.policy.calls import arguments_digest, call_paths, encode_sorted, paths_of
from adjourn.policy.contract import read_contract
from adjourn.policy.protected.calls import protected_path
from adjourn.policy.protected.places import places_of
from adjourn.policy.protected.words import ambiguous
from adjourn.proxy.loop import Loop, PipeWriter
from adjourn.relay.relay import Gate, Relay, RelayOptions
from adjourn.relay.request import Connection
from adjourn.tasks.decision import Circumstances, Forward, ToolRequest, decide
from adjourn.tasks.idempotency import key_of
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.session import Admitted
from adjourn.text.strict_json import fold_key
from support import tools
from support.clock import NOON
from support.hostile_lines import Hostile
from support.policies import policy_of

CAMPAIGN = os.environ.get("ADJOURN_CAMPAIGN") == "1"
LINES = 1_000_000 if CAMPAIGN else 6_000
OBJECTS = 100_000 if CAMPAIGN else 2_000
CHUNK = 50
SEED = int(os.environ.get("ADJOURN_SEED", "0"))
RULES = ("allow echo", "allow file.*", "deny secrets.*", "deny aex.*", "deny adjourn.*", "deny file.* where a > 100")
CONDITIONS = policy_of(
    "allow t where a > 100", "deny t where a is 1", 'deny t where b matches "x*"', "confirm before t where name <= 0",
    'allow u where path in ["x", 1]', "once t by a", "once u by text", "allow file.write:src/**", version="v1",
)  # fmt: skip
POLICY = policy_of(*RULES, version="v1")
ROOT = "/nowhere/work"


# --- readers of JSON that are not ours


class TwiceError(Exception):
    """A key stands twice in one object."""


def _strict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise TwiceError
    return dict(pairs)


def _first(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(reversed(pairs))


def _like_go(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Keys go by any case of letters, and the last one counts."""
    return {key.casefold(): value for key, value in pairs}


def _lenient(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {fold_key(key): value for key, value in pairs}


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def read(line: bytes, keys: Callable[[list[tuple[str, Any]]], dict[str, Any]]) -> Any:
    return json.loads(line.decode(), object_pairs_hook=keys, parse_constant=_no_constant)


def folded(value: Any, fold: Callable[[str], str]) -> Any:
    """A value with its keys folded; raises `TwiceError` where two become one."""
    if isinstance(value, dict):
        return _strict([(fold(key), folded(item, fold)) for key, item in value.items()])
    return [folded(item, fold) for item in value] if isinstance(value, list) else value


def envelope(message: Any) -> Any:
    """What is read of every message: its members, and those of its params and of their `_meta`, without the data in them."""
    if not isinstance(message, dict):
        return None
    params = message.get("params")
    levels = [message, params, params.get("_meta") if isinstance(params, dict) else None]
    return [
        {key: None if isinstance(value, dict | list) else value for key, value in level.items()}
        for level in levels
        if isinstance(level, dict)
    ]


# --- the gate, without its processes


class Kept(PipeWriter):
    """A pipe that keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__(Loop(print), -1, lambda _unread: None)
        self.lines: list[bytes] = []

    def send(self, data: bytes, about: Any = None) -> None:
        del about
        self.lines += [line + b"\n" for line in data.split(b"\n")[:-1]]


class Decided(SessionPool):
    """Sessions that decide by the rules, on an empty ledger, and write nothing down."""

    ledger = Ledger(task="t")

    def open(self, task: str = "", *, also: Any = ()) -> Any:
        del task, also
        nothing = SimpleNamespace(ledger=self.ledger)
        return SimpleNamespace(
            note=lambda *_data: None,
            settle=lambda *_data, **_more: None,
            commit_calls=lambda _pending: None,
            task=nothing,
        )

    def admit(self, calls: Sequence[ToolRequest], task: str = "") -> Any:
        del task
        admitted = []
        for call in calls:
            options = self._client.options
            paths, matcher = call_paths(
                self.policy, call.tool, call.given, options.tree, options.start, around=options.root
            )
            placed = msgspec.structs.replace(call, paths=paths, matcher=matcher)
            decision = decide(self.policy, self.ledger, placed, Circumstances(now=NOON))
            admitted.append(Admitted(decision, "c1" if isinstance(decision, Forward) else ""))
        return self.open(), admitted

    def admitting(self, calls: Sequence[ToolRequest], task: str, forward: Any) -> Any:
        del forward
        session, decided = self.admit(calls, task)
        return session, SimpleNamespace(is_sent=False, decided=decided)


def gate_of(folder: Path) -> tuple[Gate, Connection]:
    (folder / ".aex").mkdir()
    (folder / ".aex" / "policy.aex").write_text("\n".join(("policy p v1", 'goal "a test"', *RULES, "")))
    report: Any = SimpleNamespace(event=lambda *_a, **_k: None, routine=lambda *_a, **_k: None)
    root = os.path.realpath(folder)
    context = ClientContext(ClientOptions(root=root, contract=read_contract(root)))
    context.sessions = Decided(context, context.task, context.watch, context.served)
    relay = Relay(Loop(print), context, report, RelayOptions(tool_names="dotted", confirm_seconds=0))
    relay.connection.server, relay.connection.client = Kept(), Kept()
    return relay.gate, relay.connection


def check_forwarded(line: bytes) -> str:
    """Hold a forwarded line against every reader; returns the tool that it calls, if it calls one."""
    assert b"\r" not in line.rstrip(b"\r\n ")
    message = frames.read(line, Message)
    assert isinstance(message, Message)
    strict = read(line, _strict)
    assert strict == message.body
    assert read(line, _first) == read(line, dict) == strict
    assert envelope(read(line, _like_go)) == folded(envelope(strict), str.casefold)
    assert envelope(read(line, _lenient)) == folded(envelope(strict), fold_key)
    if strict.get("method") != "tools/call":
        assert str(strict.get("method", "")).strip().casefold() != "tools/call"
        return ""
    tool = str(message.params["name"])
    mine = message.params.get("arguments") or {}
    for reader in (_first, dict, _like_go, _lenient):
        params = read(line, reader)["params"]
        assert params["name"] == tool
        theirs = params.get("arguments") or {}
        # what a rule examines is the same to each reader, also where keys of other data are alike
        assert POLICY.judge_call(tool, theirs).effect == POLICY.judge_call(tool, mine).effect == "allow"
        if not ambiguous(CONDITIONS, "t", mine):
            assert _judged(theirs)[0] == _judged(mine)[0]
    return tool


def test_what_is_forwarded_is_the_same_to_every_reader(tmp_path: Path) -> None:
    """The gate never fails, and each line that it forwards is one allowed call that every JSON reader reads alike."""
    hostile = Hostile(seed=11 + SEED)
    gate, connection = gate_of(tmp_path)
    forwarded_lines = connection.server.lines  # type: ignore[attr-defined]  # kept
    forwarded = calls = 0
    for _ in range(LINES // CHUNK):
        lines = [hostile.client_line() + b"\n" for _ in range(CHUNK)]
        gate.handle([line for line in lines if line.count(b"\n") == 1])
        for line in forwarded_lines:
            tool = check_forwarded(line)
            forwarded, calls = forwarded + 1, calls + bool(tool)
            assert tool in ("", "echo") or tool.startswith("file."), line
        forwarded_lines.clear()
        connection.requests.clear()
    assert calls > LINES / 20, "too few calls got through to say anything"
    print(f"{LINES} lines, {forwarded} forwarded, {calls} of them calls")


def test_lines_are_decoded_or_refused() -> None:
    """Decoding raises nothing but a refusal, and a decoded line is read alike by a reader that knows no mercy."""
    hostile = Hostile(seed=29 + SEED)
    decoded = 0
    for _ in range(LINES // 10):
        line = hostile.client_line()
        try:
            message = frames.read(line, Message)
        except FrameError:
            continue
        if isinstance(message, Message):
            decoded += 1
            assert read(line, _strict) == message.body
            assert folded(envelope(read(line, _strict)), fold_key) == folded(envelope(message.body), fold_key)
    assert decoded > LINES / 100


def _objects(count: int) -> list[bytes]:
    """Texts of arguments that the gate would take."""
    hostile = Hostile(seed=47 + SEED)
    found: list[bytes] = []
    while len(found) < count:
        text = hostile.arguments()
        if hostile.chance(0.5):
            text = f'{{"b":{text},"a":{hostile.value()},"more":[{hostile.value()},{hostile.arguments()}]}}'
        line = f'{{"id":1,"method":"tools/call","params":{{"name":"t","arguments":{text}}}}}'
        try:
            frames.read(line.encode("utf-8", "surrogatepass"), Message)
        except FrameError:
            continue
        found.append(text.encode())
    return found


def _is_exact(value: Any) -> bool:
    """Whether all its whole numbers are in the range that every reader has."""
    if isinstance(value, dict | list):
        return all(map(_is_exact, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, int) or abs(value) <= MAX_SAFE_INTEGER


def _judged(given: dict[str, Any]) -> list[Any]:
    """All that rules make of arguments."""
    verdicts = [
        CONDITIONS.judge_call(tool, given, *call_paths(CONDITIONS, tool, given, ROOT))
        for tool in ("t", "u", "file.write")
    ]
    found: list[Any] = [(verdict.effect, str(verdict.rule), str(verdict.confirm)) for verdict in verdicts]
    found += [key_of(rule, given) for tool in ("t", "u") for rule in CONDITIONS.once_of(tool)]
    return [*found, paths_of(given, ROOT), protected_path(given, places_of(ROOT), tool="t")]


def _agree(texts: list[bytes], others: list[Any]) -> int:
    """Hold our reading of each text against another one; returns how many have the same digest."""
    same = 0
    for text, other in zip(texts, others, strict=True):
        line = b'{"id":1,"method":"tools/call","params":{"name":"t","arguments":' + text + b"}}"
        message = frames.read(line, Message)
        assert isinstance(message, Message)
        given = message.params["arguments"]
        exact = _is_exact(given)
        if message.plain:
            assert digest(encode_sorted(given)) == arguments_digest(given), text
        for mine, theirs in zip(_judged(given), _judged(other), strict=True):
            assert mine == theirs or (mine == "" and not exact), text  # a number that names no effect for us
        if exact:
            assert arguments_digest(given) == arguments_digest(other), text
            same += 1
    return same


def test_another_reader_of_the_arguments_comes_to_the_same_verdict() -> None:
    """Digest, conditions, the name under `once` and the places of a call are those of Python's own reader."""
    texts = _objects(OBJECTS)
    same = _agree(texts, [read(text, _strict) for text in texts])
    assert same > OBJECTS * 0.8
    print(f"{OBJECTS} objects, {same} with numbers that all readers have")


def test_node_comes_to_the_same_verdict(tmp_path: Path) -> None:
    """JSON.parse reads what was allowed, also where it rounds a number that no rule may go by."""
    node = tools.node()
    if node is None:
        pytest.fail("there is no Node.js: make tools")
    texts = _objects(OBJECTS)
    (tmp_path / "in").write_bytes(b"\n".join(texts))
    script = "for (const l of require('fs').readFileSync(process.argv[1],'utf8').split('\\n')) console.log(JSON.stringify(JSON.parse(l)))"
    done = subprocess.run([str(node), "-e", script, str(tmp_path / "in")], check=True, capture_output=True, timeout=600)
    same = _agree(texts, [json.loads(line) for line in done.stdout.decode().split("\n")[:-1]])
    assert same > OBJECTS * 0.8
