"""Makes tests/data/workspace_of_before, a workspace as `adjourn init` of 0.1.0 left it, and a session that worked in it.

    PYTHONPATH=tests /elsewhere/bin/python tests/make_workspace_of_before.py     with adjourn 0.1.0 installed in that Python

It was made once, by the commit before servers had names, and is not made again: that later versions take it over is what
tests/e2e/test_workspace_of_before.py holds. The private keys in it sign nothing else.

Owns: the story, and unpacking it. Must never: write with anything but the commands, and the proxy that `init` registered.
"""

from __future__ import annotations

import base64
import hmac
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import make_store_of_before as store
from make_store_of_before import WRITTEN, ElsewhereThen
from support.proxy import ECHO, NEW, Client, refused, wait_for

WRITTEN_AT, POLICY_FILE = "/tmp/adjourn-before/work", ".aex/policy.aex"
ARCHIVE = Path(__file__).parent / "data" / "workspace_of_before.tar.xz"
CHECKPOINT, NEXT = "half-way", "Write the second half"
DOUBTFUL, WAITING = {"seconds": 60, "path": "out/report.txt"}, {"path": "src/a.py", "text": "hello"}
POLICY = """policy work v1
# Ours: edited after init.
goal "Write the greeting"
allow echo, file.read, file.write, slow
deny secrets.*
confirm before file.write
budget calls=20
"""
BEFORE = {
    ".mcp.json": """{
  "mcpServers": {
    "files": {"command": "python3", "args": ["-I", "-S", "server.py", "."]}
  }
}
""",
    ".claude/settings.json": '{\n  "permissions": {"deny": ["WebFetch"]}\n}\n',
    ".codex/config.toml": '# ours\n[mcp_servers.files]\ncommand = "python3"\nargs = ["-I", "-S", "server.py", "."]\n',
}
"""What the files of the clients held before `adjourn init`."""


def home(work: ElsewhereThen) -> Path:
    """An empty home folder, and a folder for PATH in which this adjourn is."""
    place = work.root.parent / "home"
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "adjourn").symlink_to(Path(sys.executable).with_name("adjourn"))
    work.clock |= {"HOME": str(place), "PATH": f"{place}/bin:/usr/bin:/bin"}
    return place


def start(work: ElsewhereThen, name: str = "claude-code") -> Client:
    """A client that starts the server as .mcp.json says."""
    server = json.loads((work.root / ".mcp.json").read_text())["mcpServers"]["files"]
    client = Client([server["command"], *server["args"]], work.root, work.environment, NEW, name, {})
    work.clients.append(client)
    client.greet()
    return client


def write(work: ElsewhereThen) -> None:
    """A person sets the clients up and edits the policy; an agent works until it is killed in mid-call; a hook records a call."""
    subprocess.run(["git", "init", "--quiet"], cwd=work.root, check=True)
    for name, text in BEFORE.items():
        (work.root / name).parent.mkdir(exist_ok=True)
        (work.root / name).write_text(text)
    shutil.copy(ECHO, work.root / "server.py")
    work.adjourn("init", "--yes")
    work.policy_file.write_text(POLICY)
    client = start(work)
    client.tools()
    assert not refused(client.call("echo", {"text": "Größe 測る"}))
    assert refused(client.call("secrets.read"))
    client.meta("aex.checkpoint", name=CHECKPOINT, description="Half is written", resumptionPoint=NEXT)
    client.begin("file.write", WAITING)
    wait_for(lambda: bool(work.adjourn("approve", "--json").json["questions"]))
    client.begin("slow", DOUBTFUL)
    wait_for(lambda: "slow" in (work.root / "calls").read_text().split())
    client.kill()
    call = {
        "session_id": "s-1", "hook_event_name": "PreToolUse", "cwd": str(work.root), "tool_use_id": "t-1",
        "tool_name": "Read", "tool_input": {"file_path": str(work.root / "src" / "a.py")},
    }  # fmt: skip
    command = json.loads((work.root / ".claude/settings.json").read_text())["hooks"]["PreToolUse"][0]["hooks"][0][
        "command"
    ]
    subprocess.run(
        ["sh", "-c", command], input=json.dumps(call), cwd=work.root, env=work.environment, text=True, check=True
    )


def unpack(folder: Path) -> ElsewhereThen:
    """The workspace again, ten minutes later, on another machine with the adjourn that runs the tests."""
    work = store.unpack(folder, ARCHIVE)
    home(work)
    _move_undo(work)
    return work


def _move_undo(work: ElsewhereThen) -> None:
    """Seal what `init --undo` restores for the place that the workspace has now, as 0.1.0 sealed it."""
    secret = base64.b64decode((work.config / "keys" / "secret").read_bytes())
    file = work.root / ".aex" / "undo" / "1" / "manifest.json"
    manifest = json.loads(file.read_bytes())

    def seal(root: str) -> str:
        told = json.dumps(["adjourn/undo/1", root, "1", manifest["files"]], separators=(",", ":"), ensure_ascii=False)
        return hmac.digest(secret, told.encode(), "sha256").hex()

    assert manifest["files"][0]["path"] == f"{WRITTEN_AT}/{POLICY_FILE}"
    assert manifest["seal"] == seal(WRITTEN_AT)
    for entry in manifest["files"]:
        entry["path"] = entry["path"].replace(WRITTEN_AT, str(work.root))
    file.write_text(json.dumps(manifest | {"seal": seal(str(work.root))}))


def main() -> None:
    with ElsewhereThen(Path(WRITTEN_AT).parent, shown=WRITTEN, host="elsewhere") as work:
        home(work)
        write(work)
        ARCHIVE.write_bytes(store.pack(work))
    print(f"{ARCHIVE}: {ARCHIVE.stat().st_size} bytes")


if __name__ == "__main__":
    os.environ["XDG_RUNTIME_DIR"] = "/proc/nowhere"
    main()
