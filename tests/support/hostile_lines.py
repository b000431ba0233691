"""Hostile lines for both sides of the proxy, and a reader more lenient than any peer. Deterministic by seed.

Owns: the generators and the lenient reading. Must never: know what the proxy does with them.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

ALLOWED = ("echo", "file.read", "file.write")
NAMES = (
    '"echo"', '"file.read"', '"file.write"', '"secrets.read"', '"Secrets.Read"', '"secrets/read"', '" secrets.read"',
    '"secrets.read "', '"secrets.read\\u0000"', '"\\u0073ecrets.read"', '"file.read\\n"', '"echo","secrets.read"',
    '["echo"]', '["secrets.read"]', '{"name":"echo"}', "null", "5", "true", '""', '"%s"' % ("x" * 129), '"\\ud800"',
    '"\u017fecrets.read"', '"crash"', '"aex.list_tasks"', '"aex_resume"', '"aex.checkpoint"', '"AEX.resume"',
)  # fmt: skip
METHODS = (
    '"tools/call"', '"tools/call"', '"tools/call"', '"tools/call"', '"tools/list"', '"ping"', '"initialize"',
    '"Tools/Call"', '"tools/call "', '"tools\\/call"', '"\\u0074ools/call"', '"notifications/cancelled"',
    '"notifications/x"', '"resources/read"', '"x/y"', '"server/discover"', "null", "5", '""', '["tools/call"]',
    '"tools/call\\u0000"', '"tool\u017f/call"', '"completion/complete"',
)  # fmt: skip
VALUES = (
    "null", "true", "0", "-0", "1.0", "1e2", "1e999", "-1E-999", "NaN", "Infinity", "-Infinity", "12345678901234567890123",
    "9" * 5000, "01", "0x1", "+1", ".5", "1.", '"\\ud800"', '"\\udc00\\ud800"', '"\\u0000"', '"\t"', '"\x7f"', '"a:b"',
    '":x"', '"\\":"', '"{\\"name\\":\\"secrets.read\\"}"', "[]", "{}", "[[[[]]]]", '{"a":{"a":{"a":1}}}', '{"":""}',
    '{"name":"secrets.read"}', '{"a":1,"a":2}', '{"a":1,"A":2}', "[1,]", '{"a":1,}', "'a'", "undefined", "tru",
    '"' + "x" * 3000 + '"', "\u2028", '"\u2028\u0085\ufeff"', '".aex/policy.aex"', '{"path":".aex/adjourn.db"}',
)  # fmt: skip
IDS = (
    "1",
    "0",
    "-1",
    '"a"',
    '""',
    "null",
    "true",
    "1.5",
    "1.0",
    "[]",
    "{}",
    '"\\u0061"',
    "12345678901234567890123",
    "1e3",
)
KEYS = (
    "jsonrpc",
    "id",
    "method",
    "params",
    "name",
    "arguments",
    "result",
    "error",
    "_meta",
    "uri",
    "requestState",
    "x",
)
META = '{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}'


class Hostile:
    """Generates lines. `ids` numbers the requests, so that most have an id of their own."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def pick(self, choices: tuple[str, ...]) -> str:
        return self.random.choice(choices)

    # --- from the client

    def client_line(self) -> bytes:
        """One line without a line feed, from valid to absurd."""
        kind = self.random.random()
        if kind < 0.04:
            text = self.pick(VALUES)
        elif kind < 0.10:
            inner = [self.message() for _ in range(self.random.randrange(4))]
            text = "[" + ",".join(inner) + "]" * (1 if self.chance(0.9) else 2)
        elif kind < 0.12:
            depth = self.random.choice([10, 190, 199, 200, 201, 500, 990, 1000, 1001, 3000, 50_000])
            opening, closing = self.random.choice([("[", "]"), ('{"a":', "}"), ('{"params":', "}")])
            nested = opening * depth + "1" + closing * depth
            text = nested if self.chance(0.3) else self.message(arguments=nested)
        else:
            text = self.message()
        line = text.encode("utf-8", "surrogatepass")
        if self.chance(0.25):
            line = self.damaged(line)
        return line.replace(b"\n", b" ")

    def message(self, arguments: str = "") -> str:
        self.count += 1
        own_id = f'"f{self.count}"' if self.chance(0.5) else str(1_000_000 + self.count)
        params = [("name", self.pick(NAMES) if self.chance(0.4) else '"echo"')]
        if self.chance(0.7):
            params.append(("arguments", arguments or self.arguments()))
        if self.chance(0.1):
            params.append(("_meta", META if self.chance(0.5) else self.pick(VALUES)))
        if self.chance(0.05):
            params.append(("requestState", self.pick(('"adjourn1.x.y"', '"up"', "5", '"adjourn1.é."'))))
        if self.chance(0.05):
            params.append((self.pick(("requestId", "uri", "cursor", "protocolVersion")), self.pick(VALUES)))
        pairs = [
            ("jsonrpc", '"2.0"'),
            ("id", self.pick(IDS) if self.chance(0.1) else own_id),
            ("method", self.pick(METHODS) if self.chance(0.4) else '"tools/call"'),
            ("params", self.object(params) if self.chance(0.95) else self.pick(VALUES)),
        ]
        if self.chance(0.1):
            pairs = [pair for pair in pairs if self.chance(0.7)]
        if self.chance(0.05):
            pairs.append((self.pick(("result", "error")), self.pick(VALUES)))
        return self.object(pairs)

    def arguments(self) -> str:
        return self.object([(self.pick(("a", "b", "path", "name", "text", "a")), self.value()) for _ in range(2)])

    def value(self) -> str:
        return self.pick(VALUES) if self.chance(0.15) else self.pick(("1", '"x"', "null", "[1,2]", '{"k":"v"}'))

    def object(self, pairs: list[tuple[str, str]]) -> str:
        """An object as text, now and then with a key twice, in another case, or hidden by an escape."""
        pairs = list(pairs)
        if pairs and self.chance(0.12):
            key, value = self.random.choice(pairs)
            other = {"name": '"secrets.read"', "method": '"tools/call"', "params": '{"name":"secrets.read"}'}
            value = other.get(key, value)
            pairs.insert(self.random.randrange(len(pairs) + 1), (self.spelled(key), value))
        if self.chance(0.03):
            pairs.append((self.pick(KEYS), self.pick(VALUES)))
        if self.chance(0.2):
            self.random.shuffle(pairs)
        space = " " if self.chance(0.1) else ""
        return "{" + ",".join(f'"{key}"{space}:{space}{value}' for key, value in pairs) + "}"

    def spelled(self, key: str) -> str:
        way = self.random.randrange(6)
        if way == 0:
            return key.upper()
        if way == 1:
            return key.capitalize()
        if way == 2:
            place = self.random.randrange(len(key))
            return f"{key[:place]}\\u{ord(key[place]):04x}{key[place + 1 :]}"
        if way == 3:
            return key.replace("s", "\u017f").replace("k", "\u212a")
        return key

    def damaged(self, line: bytes) -> bytes:
        data = bytearray(line)
        for _ in range(self.random.randrange(1, 4)):
            place = self.random.randrange(len(data) + 1)
            way = self.random.randrange(9)
            if way == 0 and data:
                data[place % len(data)] ^= 1 << self.random.randrange(8)
            elif way == 1:
                data[place:place] = bytes([self.random.randrange(256)])
            elif way == 2:
                del data[place : place + self.random.randrange(5)]
            elif way == 3:
                del data[place:]
            elif way == 4:
                data[place:place] = self.random.choice(
                    [b"\r", b"\0", b"\xef\xbb\xbf", b"\xff", b"\xed\xa0\x80", b"\x1e"]
                )
            elif way == 5:
                data[place:place] = b'"name":"secrets.read",'
            elif way == 6:
                other = bytes(data[place : place + 20])
                data[place:place] = other
            elif way == 7:
                data += self.random.choice([b" {}", b"\r", b" ", b"x", b"\r{}", b"\0", b","])
            else:
                data = bytearray(bytes(data).decode("latin-1").encode("utf-16" if self.chance(0.5) else "utf-8"))
        return bytes(data)

    # --- from the upstream

    def upstream_line(self) -> str:
        """One line in latin-1; $ID stands for the id of the request that is open."""
        ids = (
            "$ID", '"$ID"', "$ID.0", "999999", '"f1"', "null", "true", "[]", "{}", "[$ID]", "-1", '"adjourn-0-1"',
            "12345678901234567890123", '"\\ud800"',
        )  # fmt: skip
        kind = self.random.random()
        result = self.pick(('{"content":[]}', '{"tools":[]}', *VALUES)).encode().decode("latin-1")
        pairs = [("jsonrpc", '"2.0"'), ("id", self.pick(ids)), (self.pick(("result", "error")), result)]
        if kind < 0.1:
            text = self.pick(VALUES).encode().decode("latin-1")
        elif kind < 0.2:
            text = "[" + ",".join(self.object(pairs) for _ in range(self.random.randrange(4))) + "]"
        elif kind < 0.25:
            depth = self.random.choice([5, 100, 900, 1100, 20_000])
            text = "[" * depth + self.object(pairs) + "]" * depth
        elif kind < 0.35:
            text = self.object([*pairs, ("method", self.pick(METHODS).encode().decode("latin-1"))])
        elif kind < 0.4:
            text = self.object([pair for pair in pairs if self.chance(0.6)])
        else:
            text = self.object(pairs)
        if self.chance(0.2):
            text = self.damaged(text.encode("latin-1", "replace")).decode("latin-1")
        return text.replace("\n", " ").replace("$ID", "$ID")


# --- reading more leniently than any peer


def readings(line: bytes) -> Iterator[Any]:
    """Every value that some parser might take a line for: first or last of double keys, keys in any case."""
    text = line.decode("utf-8", "replace")
    for last_wins in (True, False):
        for fold in (False, True):
            try:
                hook = _hook(last_wins=last_wins, fold=fold)
                yield json.loads(text, strict=False, object_pairs_hook=hook, parse_int=_integer)
            except (ValueError, RecursionError):
                return


def _integer(text: str) -> int | float:
    return int(text) if len(text) < 1000 else float(text)  # Python does not convert more than 4300 digits


def _hook(*, last_wins: bool, fold: bool) -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            name = key.casefold() if fold else key
            if last_wins or name not in found:
                found[name] = value
        return found

    return build


def messages(line: bytes) -> Iterator[dict[str, Any]]:
    """Every message in every reading of a line."""
    for body in readings(line):
        for message in body if isinstance(body, list) else [body]:
            if isinstance(message, dict):
                yield message


def called_tools(line: bytes) -> set[str]:
    """Every tool that some reading of a line calls, as text."""
    return {
        str((message.get("params") or {}).get("name") if isinstance(message.get("params"), dict) else None)
        for message in messages(line)
        if isinstance(message.get("method"), str) and message["method"].strip(" \t\r\0").casefold() == "tools/call"
    }
