"""A proxy between two sides of which one reads slowly, or not at all for a while: it waits, and keeps little of what passes."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from adjourn.relay.ports import MAX_WAITING
from support.processes import resident
from support.proxy import ProxyWorkspace

MIB = 1 << 20
TOTAL = 50 * MIB
SIZE = 64 * 1024
CALLS = TOTAL // SIZE
KEPT = 4 * MAX_WAITING
"""What a proxy may hold beside the memory of an idle one: what waits for both sides, and two messages."""


def _message(number: int) -> bytes:
    params = {"name": "file.read", "arguments": {"n": number, "text": "x" * SIZE}}
    body = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    return json.dumps(body).encode() + b"\n"


class _Sender(threading.Thread):
    """Writes all calls without looking at answers."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        super().__init__(daemon=True)
        self.process = process
        self.sent = 0

    def run(self) -> None:
        assert self.process.stdin is not None
        for number in range(CALLS):
            self.process.stdin.write(_message(number))
            self.process.stdin.flush()
            self.sent += 1


@pytest.mark.parametrize("who", ["client", "server"])
def test_fifty_mebibytes_each_way_pass_a_slow_reader_in_bounded_memory(tmp_path: Path, who: str) -> None:
    """Nothing is lost and nothing deadlocks, though one side does not read while the other has all of it to say."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        upstream = ["python3", "-I", "-S", "-c", _ECHO, "slow" if who == "server" else "quick"]
        command = work.command(upstream=upstream)
        process = subprocess.Popen(
            command, cwd=work.root, env=work.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            sender = _Sender(process)
            sender.start()
            most = 0
            if who == "client":
                before = -1
                while before != sender.sent or not before:  # until nobody can continue, once the proxy has started
                    before = sender.sent
                    time.sleep(0.5)
                assert 0 < before < CALLS
                most = resident(process.pid)
            assert process.stdout is not None
            seen = set()
            for _ in range(CALLS):
                body = json.loads(process.stdout.readline())
                assert len(body["result"]["content"][0]["text"]) == SIZE
                seen.add(body["id"])
                if len(seen) % 100 == 0:
                    most = max(most, resident(process.pid))
            assert seen == set(range(CALLS))
            assert most < 30 * MIB + KEPT, f"{most / MIB:.0f} MiB"
            sender.join(10)
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(20) == 0
            print(f"a slow {who}: at most {most / MIB:.1f} MiB")
        finally:
            process.kill()
            process.wait()
            for end in (process.stdin, process.stdout):
                with suppress(OSError):
                    end.close()  # type: ignore[union-attr]  # both are pipes
        (task,) = work.tasks()
        assert work.ledger(task).calls_used == CALLS


_ECHO = """
import json, sys, time
for number, line in enumerate(sys.stdin.buffer):
    message = json.loads(line)
    text = message["params"]["arguments"]["text"]
    answer = {"jsonrpc": "2.0", "id": message["id"], "result": {"content": [{"type": "text", "text": text}]}}
    sys.stdout.write(json.dumps(answer) + "\\n")
    sys.stdout.flush()
    if sys.argv[1] == "slow" and number % 200 == 0:
        time.sleep(0.5)
"""
