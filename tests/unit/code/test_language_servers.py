"""A language server is hostile input: silence, floods and nonsense end in an error within its limits."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("lsprotocol")
from lsprotocol import types

from adjourn.code.language_servers import client
from adjourn.code.language_servers.client import LanguageClient, LanguageServerError
from adjourn.code.language_servers.kinds import KINDS, ServerKind

REPLY = "import sys\ndef say(text):\n    body = text.encode()\n    sys.stdout.buffer.write(b'Content-Length: %d\\r\\n\\r\\n' % len(body) + body)\n    sys.stdout.flush()\n"
INITIALIZED = 'say(\'{"jsonrpc":"2.0","id":1,"result":{"capabilities":{}}}\')\n'


@pytest.mark.parametrize(
    "program",
    [
        "print('Content-Length: 99999999999\\r\\n\\r')",
        "print('Content-Length: -1\\r\\n\\r')",
        "print('Content-Length: many\\r\\n\\r')",
        "print('x' * 100_000)",
        REPLY + "say('[1]')",
        REPLY + "say('{')",
        REPLY + "say('[' * 100_000)",
        "import sys; sys.exit(3)",
    ],
)
def test_nonsense_ends_the_server(program: str, tmp_path: Path) -> None:
    """A message without a believable length, or that is no JSON object, is the end of the process."""
    with pytest.raises(LanguageServerError, match="ended"):
        LanguageClient([sys.executable, "-c", program + "\nimport time; time.sleep(60)"], str(tmp_path))


def test_a_silent_server_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start has a deadline, and so has each request: the server lives on, and the answer is not waited for."""
    monkeypatch.setattr(client, "START_SECONDS", 0.5)
    with pytest.raises(LanguageServerError, match="too long"):
        LanguageClient([sys.executable, "-c", "import time; time.sleep(60)"], str(tmp_path))
    monkeypatch.setattr(client, "START_SECONDS", 30.0)
    server = LanguageClient(
        [sys.executable, "-c", REPLY + INITIALIZED + "import time; time.sleep(60)"], str(tmp_path)
    )
    began = time.monotonic()
    with pytest.raises(LanguageServerError, match="too long"):
        server.request(types.SHUTDOWN, None, 0.1)
    assert time.monotonic() - began < 5
    assert server.alive
    server.close()
    assert not server.alive


def test_a_server_that_grows_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server over its limit of memory is killed at the next request."""
    server = LanguageClient(
        [sys.executable, "-c", REPLY + INITIALIZED + "import time; time.sleep(60)"], str(tmp_path)
    )
    monkeypatch.setattr(client, "_MAX_MEMORY", 1)
    with pytest.raises(LanguageServerError, match="memory"):
        server.request(types.SHUTDOWN, None, 30.0)
    assert not server.alive


def test_no_program_of_the_workspace_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server on PATH counts only where the workspace cannot have put it."""
    program = tmp_path / "bin" / "some-server"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    kind = ServerKind("some", frozenset({"python"}), "some-server", "no_such_package", "x.js")
    assert kind.command("/elsewhere") == [str(program), "--stdio"]
    assert kind.command(str(tmp_path)) is None
    assert KINDS
