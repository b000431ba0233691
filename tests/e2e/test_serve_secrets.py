"""What a gateway keeps to itself: its settings and the files with secrets that they name, its variables, and where its store is."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
from mcp import Client

from support.gateway import SERVER, GatewayWorkspace, text_of
from support.in_process_gateway import InProcessGateway
from support.ports import free_port

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "client", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
ASKED = (
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "agent", "version": "1"}}},
    {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": META}},
    {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}},
    {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "_meta": META, "name": "gone.x", "arguments": {}}},
)  # fmt: skip
SPY = """import json, os, sys
def read(path):
    try:
        with open(path, "rb") as file:
            return file.read().decode(errors="replace")
    except OSError:
        return ""
seen = {"own": dict(os.environ), "parent": read(f"/proc/{os.getppid()}/environ"), "uid": os.getuid()}
with open(sys.argv[1], "w") as file:
    json.dump(seen, file)
os.execv(sys.argv[2], sys.argv[2:])
"""


def test_no_call_reads_or_writes_the_settings_that_the_gateway_runs_on(tmp_path: Path) -> None:
    """Wherever the file is, by whatever path; nor a file with a secret that it names. Other files can be named."""
    (tmp_path / "elsewhere").mkdir()
    settings = tmp_path / "elsewhere" / "gateway.toml"
    (tmp_path / "work").mkdir()
    token = tmp_path / "work" / "conf" / "tracker.dat"
    token.parent.mkdir()
    token.write_text("the token")
    (tmp_path / "work" / "link").symlink_to(settings)
    shutil.rmtree(tmp_path / "work" / ".aex", ignore_errors=True)
    more = f'[servers.more]\ncommand = ["true", "--token-file", "conf/{token.name}"]\n'
    with InProcessGateway(tmp_path, "allow *", settings=more, arguments=["--config", str(settings)]) as work:

        async def session(client: Client) -> dict[str, list[str]]:
            return {
                path: [text_of(await client.call_tool(tool, {"text": "x", "path": path})) for tool in ("echo", "write")]
                for path in (
                    str(settings), "../elsewhere/gateway.toml", "link", f"file://{settings}", str(token),
                    f"./conf/../conf/{token.name}", "notes.txt",
                )
            }  # fmt: skip

        said = work.run(session)
    assert said.pop("notes.txt") == ["x", "written"]
    assert all("may not touch the settings of the gateway" in text for texts in said.values() for text in texts), said


def test_a_command_has_its_own_variables_and_those_of_no_other_server(tmp_path: Path) -> None:
    """Neither in its environment nor, on Linux, in that of the gateway under /proc."""
    spy, seen = tmp_path / "spy.py", tmp_path / "seen"
    spy.write_text(SPY, encoding="utf-8")
    words = [
        sys.executable, str(spy), str(seen), sys.executable, str(SERVER), "0", str(tmp_path),
    ]  # fmt: skip
    more = (
        '[servers.tracker]\nurl = "http://127.0.0.1:9/"\nbearer_env = "TRACKER_TOKEN"\n'
        '[servers.other]\ncommand = ["true"]\nenv = {OTHER = "secret-of-other"}\nenv_from = {MORE = "MORE_OF_OTHER"}\n'
        f"[servers.spy]\ncommand = {json.dumps(words)}\n"
        'env = {MODE = "test"}\nenv_from = {TOKEN = "SPY_TOKEN"}\n'
    )
    secrets = {
        "TRACKER_TOKEN": "secret-of-tracker", "MORE_OF_OTHER": "secret-of-more", "SPY_TOKEN": "secret-of-spy",
        "PGPASSWORD": "secret-of-store", "ADJOURN_TASK": "secret-task", "AWS_SECRET_ACCESS_KEY": "secret-of-aws",
    }  # fmt: skip
    with GatewayWorkspace(tmp_path, "allow *", settings=more, variables=secrets) as work:

        async def session(client: Client) -> str:
            return text_of(await client.call_tool("echo", {"text": "x"}))

        assert work.run(session, path="/spy/mcp") == "x"
    found = json.loads(seen.read_text(encoding="utf-8"))
    own = found["own"]
    assert (own.pop("MODE"), own.pop("TOKEN")) == ("test", "secret-of-spy")
    assert not [name for name, value in own.items() if "secret" in value or name in secrets]
    assert not [name for name in own if name.startswith(("ADJOURN_", "PG"))]
    assert own["PATH"]
    assert "secret-" not in found["parent"].replace("secret-of-spy", "")
    if sys.platform == "linux":
        assert "PATH=" in found["parent"] or os.getuid() != 0  # who is not root may not open it at all


def test_a_variable_of_a_command_that_is_not_set_is_named_at_the_start(tmp_path: Path) -> None:
    """The gateway does not start without what a command needs."""
    (tmp_path / ".aex").mkdir()
    (tmp_path / ".aex" / "policy.aex").write_text("policy shop v1\nallow *\n", encoding="utf-8")
    (tmp_path / "adjourn.toml").write_text(
        f'listen = "127.0.0.1:{free_port()}"\n[servers.up]\ncommand = ["true"]\nenv_from = {{TOKEN = "NO_SUCH"}}\n',
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, "-m", "adjourn", "serve"], cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False,
        env={**os.environ, "ADJOURN_CONFIG": str(tmp_path.parent / "config")},
    )  # fmt: skip
    assert done.returncode == 2
    assert "the variable NO_SUCH of the server up is not set" in done.stderr


def test_an_error_names_neither_the_servers_address_nor_its_program(tmp_path: Path) -> None:
    """At the address of one server and of all; the log has the whole reason under the id that the client gets."""
    port = free_port()
    more = (
        f'[servers.gone]\nurl = "http://127.0.0.1:{port}/inner/mcp"\n'
        f'[servers.missing]\ncommand = ["{tmp_path}/no-such-program"]\n'
    )
    with InProcessGateway(tmp_path, "allow *", settings=more) as work:
        said = [work.post(message, at=path).text for path in ("/gone/mcp", "/missing/mcp", "/mcp") for message in ASKED]
        gateway = work.gateway
        assert gateway is not None
        gateway.terminate()
        log = gateway.communicate(timeout=30)[1]
    shown = "\n".join(said)
    assert not [word for word in (str(port), "inner", "no-such-program", str(tmp_path)) if word in shown], shown
    ids = set(re.findall(r"\(error ([0-9a-z]{8})\)", shown))
    assert len(ids) >= 2
    assert all(f"error {number}: " in log for number in ids)
    assert f"cannot connect to 127.0.0.1:{port}" in log
    assert "no-such-program" in log


def test_an_error_of_the_store_does_not_say_where_it_is(tmp_path: Path) -> None:
    """Neither in the answer to a call, of a meta-tool, or of the page, nor in a refusal; the log has the reason."""
    page = f"http://127.0.0.1:{free_port()}"
    settings = f'[auth]\nkeys = true\n[page]\nlisten = "{page.removeprefix("http://")}"\n'
    (tmp_path / "store").mkdir()
    store = tmp_path / "store" / "history.db"
    arguments = ["--store", f"sqlite:{store}"]
    variables = {"ADJOURN_STORE": f"sqlite:{store}"}  # of the commands of the test
    with InProcessGateway(tmp_path, "allow *", settings=settings, arguments=arguments, variables=variables) as work:
        key = work.key("ann", "--human")
        said: list[str] = []

        async def session(client: Client) -> None:
            assert text_of(await client.call_tool("write", {"text": "a"})) == "written"
            for file in store.parent.iterdir():
                file.write_bytes(b"no store" * 4096)
            for tool, given in (("write", {"text": "b"}), ("aex.checkpoint", {"name": "x"}), ("aex.list_tasks", {})):
                said.append(text_of(await client.call_tool(tool, given)))

        work.run(session, token=key)
        with httpx.Client(base_url=page, headers={"authorization": f"Bearer {key}"}, timeout=20) as browser:
            said += [browser.get(path).text for path in ("/", "/tasks", "/records")]
        gateway = work.gateway
        assert gateway is not None
        gateway.terminate()
        log = gateway.communicate(timeout=30)[1]
    shown = "\n".join(said)
    assert not [word for word in (str(tmp_path), "history.db", "malformed", "not a database") if word in shown], shown
    ids = set(re.findall(r"\(error ([0-9a-z]{8})\)", shown))
    assert ids
    assert all(f"error {number}: " in log for number in ids)
    assert str(store) in log
