"""Makes tests/data/store_of_before, a workspace as adjourn 0.1.0 wrote it: `python tests/make_store_of_before.py NEW-FOLDER`.

It was made once, by the commit before the redesign of the modules, and is not made again: that later versions read what this
one wrote is what tests/e2e/test_store_of_before.py holds. The private keys in it sign nothing else.

Owns: the story that the store tells, unpacking it, asking it. Must never: write with anything but the commands, the proxy and
the public names. Its clock is set, and its machine has another name, so that it is the same history wherever it is read.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import io
import json
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

from support.proxy import Client, Done, ProxyWorkspace, refused, run, wait_for

HERE = Path(__file__).parent
FOLDER = HERE / "data" / "store_of_before"
ARCHIVE, ANSWERS = "store.tar.xz", "answers.json"
WRITTEN = 1_777_723_200_000_000_000
"""When the story begins, in ns: 2026-05-02T12:00:00Z."""
READ = WRITTEN + 600_000_000_000
"""When it is read: after all leases, before the end of an approval."""
FIRST, SECOND, CHECKPOINT = "first", "second", "half-way"
DOUBTFUL = {"seconds": 60, "path": "out/report.txt"}
WAITING = {"path": "src/a.py", "text": "hello"}
NOTED = "the parser is in p.py"
POLICY = (
    "allow echo, file.read, file.write, slow, fail, big, send, git.status",
    "deny secrets.read",
    "confirm before file.write",
    "limit network.fetch 3 per minute",
    "allow network.fetch",
    "once send by invoice",
    "budget calls=20",
)
RUN = """task tidy v1
goal "Tell how the work tree stands"
use git.status
need who: str
do git.status() -> found
check who has "ann"
return {who: who, status: "seen"}
"""
COGNITION = """
import sys
from adjourn import CognitiveStore, open_store
store = open_store(sys.argv[1])
memory = CognitiveStore(store, "job", goal="ship it")
memory.update_from_response("FACT: it has two parts\\nASSUMPTION: nobody else writes here")
memory.create_checkpoint("parts", "both are known")
memory.update_from_response("DECISION: use SQLite\\nFACT: the second part is done")
store.close()
"""
CLOCK = """
import collections, os, time
_begun, _shown = (int(os.environ[name]) for name in ("CLOCK_BEGUN", "CLOCK_SHOWN"))
_real = time.time_ns
time.time_ns = lambda: _real() - _begun + _shown
time.time = lambda: time.time_ns() / 1e9
if os.environ.get("CLOCK_HOST"):
    _Name = collections.namedtuple("_Name", "sysname nodename release version machine")
    _name = _Name(*os.uname())._replace(nodename=os.environ["CLOCK_HOST"])
    os.uname = lambda: _name
"""


class ElsewhereThen(ProxyWorkspace):
    """A workspace whose processes have another clock, and with `host` another machine's name."""

    def __init__(self, path: Path, *policy: str, shown: int, host: str = "") -> None:
        super().__init__(path, *policy, version="v1")
        clock = path / "clock"
        clock.mkdir()
        (clock / "sitecustomize.py").write_text(CLOCK)
        self.clock = {
            "PYTHONPATH": str(clock),
            "CLOCK_BEGUN": str(time.time_ns()),
            "CLOCK_SHOWN": str(shown),
            "CLOCK_HOST": host,
        }

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in super().environment.items() if not name.startswith(("AEX_", "GIT_"))}
        return kept | self.clock

    def adjourn(self, *words: str, code: int = 0) -> Done:
        done = run(*words, cwd=self.root, env=self.environment)
        assert done.code == code, (words, done)
        return done


# --- what is written ------------------------------------------------------------------------------------------------


def write(work: ElsewhereThen) -> None:
    """The story: two tasks, a run, a hook's call, a cognitive session, and what a person did."""
    subprocess.run(["git", "init", "--quiet"], cwd=work.root, check=True)
    (work.root / "src").mkdir()
    (work.root / "src" / "a.py").write_text("print('a')\n")
    (work.root / "tidy.aex").write_text(RUN)
    client = work.client("--confirm-timeout", "0", "--task", FIRST, name="claude-code")
    client.tools()
    _work(client)
    work.adjourn("answer", _question(work, "Keep the old file?"), "keep")
    client.meta("aex.checkpoint", name=CHECKPOINT, description="The parser reads; writing is next", **_PAGE)
    assert not refused(client.call("echo", {"after": "the checkpoint"}))
    before = len(work.executed())
    client.begin("slow", DOUBTFUL)
    wait_for(lambda: len(work.executed()) > before)
    client.kill()

    second = work.client("--task", SECOND, name="codex", era="2026-07-28", foreign=True)
    assert not refused(second.call("network.fetch", {"url": "https://example.org"}))
    assert not refused(second.call("send", {"lines": [_PAID], "invoice": "A-7"}))
    assert not refused(second.call("send", {"lines": [], "invoice": "A-7"}))  # from the record
    assert refused(second.call("fail"))
    assert second.close() == 0

    work.adjourn("sign", "tidy.aex")
    for name, code in (("ann", 0), ("bob", 1)):
        (work.root / "inputs.json").write_text(json.dumps({"who": name}))
        run_by_name = ("--inputs", "inputs.json", "--task", f"run-{name}")
        work.adjourn("run", "tidy.aex", *run_by_name, code=code)
    decision = work.adjourn("record", "show", "--json").json["decisions"][0]["id"]
    work.adjourn("decide", decision, "--override", "Use one file", "--because", "simpler")
    hook = {"session_id": "s-1", "hook_event_name": "PreToolUse", "cwd": str(work.root), "tool_use_id": "t-1"}
    call = {"tool_name": "Read", "tool_input": {"file_path": str(work.root / "src" / "a.py")}}
    subprocess.run(
        [sys.executable, "-m", "adjourn", "hook", "--settle"],
        input=json.dumps(hook | call), cwd=work.root, env=work.environment, text=True, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    subprocess.run([sys.executable, "-c", COGNITION, work.store_url], cwd=work.root, env=work.environment, check=True)


_PAID = '{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"paid \\u00e9"}]}}'
_PAGE: dict[str, Any] = {
    "progress": [
        {"text": "Read the parser", "status": "done"},
        {"text": "Write it anew", "status": "in_progress", "note": "half"},
        {"text": "Test it"},
    ],
    "currentState": ["p.py is open"],
    "artifacts": [{"path": "src/a.py", "note": "the example"}],
    "resumptionPoint": "Write the second half of p.py",
}


def _work(client: Client) -> None:
    assert not refused(client.call("echo", {"text": "Größe 測る"}))
    assert not refused(client.call("file.read", {"path": "src/a.py"}))
    assert refused(client.call("secrets.read"))
    assert refused(client.call("file.write", WAITING))  # a person has to say yes, and has not yet
    client.meta(
        "adjourn.note",
        facts=[NOTED],
        assumptions=["nobody uses the old one"],
        goals=["a parser that is quick"],
        decisions=[{"decision": "Use SQLite", "because": "one file"}],
        learnings=[{"content": "The tests need a terminal"}],
    )
    client.meta("adjourn.ask", question="Keep the old file?", options=["keep", "delete"], context="3 MB")
    client.meta("adjourn.ask", question="Which name?", priority="blocking")


def _question(work: ElsewhereThen, text: str) -> str:
    asked = work.adjourn("answer", "--json").json["questions"]
    return next(str(one["id"]) for one in asked if one["question"] == text)


# --- what is kept, and what it answers ------------------------------------------------------------------------------


def pack(work: ElsewhereThen) -> bytes:
    """The workspace and the keys, as an archive whose bytes depend on nothing else."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:xz", preset=9) as archive:
        parent = work.root.parent
        for path in sorted([*work.root.rglob("*"), *work.config.rglob("*")]):
            if ".git" in path.relative_to(parent).parts or not path.is_file():
                continue
            info = tarfile.TarInfo(path.relative_to(parent).as_posix())
            info.size, info.mode = path.stat().st_size, path.stat().st_mode & 0o777
            info.mtime = WRITTEN // 1_000_000_000
            archive.addfile(info, io.BytesIO(path.read_bytes()))
    return file.getvalue()


def unpack(folder: Path, kept: Path = FOLDER / ARCHIVE) -> ElsewhereThen:
    """The workspace again, ten minutes after it was left, on another machine."""
    with tarfile.open(kept) as archive:
        archive.extractall(folder, filter="data")
    work = ElsewhereThen(folder, shown=READ)
    subprocess.run(["git", "init", "--quiet"], cwd=work.root, check=True)
    _move_heads(work)
    return work


def _move_heads(work: ElsewhereThen) -> None:
    """Seal the heads that are kept beside the keys for the place that the store has now, as docs/reference/files.md tells."""
    secret = base64.b64decode((work.config / "keys" / "secret").read_bytes())
    (before,) = (work.config / "heads").iterdir()
    url = f"sqlite:{os.path.realpath(work.store_url)}"
    after = before.with_name(hashlib.sha256(url.encode()).hexdigest()[:32])

    def seal(place: str, name: str, text: bytes) -> bytes:
        return hmac.digest(secret, f"adjourn/head/1:{place}/{name}:".encode() + text, "sha256").hex().encode()

    for file in before.iterdir():
        sealed, _, text = file.read_bytes().partition(b":")
        assert sealed == seal(before.name, file.name, text)
        file.write_bytes(seal(after.name, file.name, text) + b":" + text)
    before.rename(after)


PROSE = ("advice", "next", "brief", "page", "pageNotes", "message", "remedy", "instruction", "changed")
"""Members of answers that are sentences of ours: what they say may be said better."""
QUESTIONS = (
    ("verify",), ("verify", FIRST), ("status", FIRST), ("status", SECOND), ("tasks",), ("checkpoint", "list"), ("checkpoint", "show", CHECKPOINT),
    ("resume", CHECKPOINT), ("approve",), ("answer",), ("settle",), ("record", "show"), ("record", "history"), ("record", "verify"),
    ("keys",), ("verify", "tidy.aex"), ("page", "lint"), ("log", FIRST), ("log", SECOND), ("log", "run-ann"),
    ("log", "run-bob"), ("status", "run-bob"),
)  # fmt: skip


def answers(work: ElsewhereThen) -> dict[str, Any]:
    """What the commands say of the store: exit code, and each line of JSON."""
    told = {}
    for words in QUESTIONS:
        done = run(*words, "--json", cwd=work.root, env=work.environment)
        text = done.out.replace(str(work.root.parent), "FOLDER")
        lines: Any = text.splitlines() if words[0] == "log" else without_prose(json.loads(text or "null"))
        told[" ".join(words)] = {"code": done.code, "said": lines}
    return told


def without_prose(answer: Any) -> Any:
    """An answer with the prose taken out, but for whether there is any."""
    if isinstance(answer, list):
        return [without_prose(one) for one in answer]
    if not isinstance(answer, dict):
        return answer
    return {name: bool(value) if name in PROSE else without_prose(value) for name, value in answer.items()}


def main(folder: Path) -> None:
    with ElsewhereThen(folder / "written", *POLICY, shown=WRITTEN, host="elsewhere") as work:
        write(work)
        FOLDER.mkdir(parents=True)  # it is made once
        (FOLDER / ARCHIVE).write_bytes(pack(work))
    (folder / "read").mkdir()
    with unpack(folder / "read") as work:
        text = json.dumps(answers(work), indent=1, ensure_ascii=False) + "\n"
        (FOLDER / ANSWERS).write_text(text, "utf-8")
    for path in sorted(FOLDER.iterdir()):
        print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    os.environ["XDG_RUNTIME_DIR"] = "/proc/nowhere"
    main(Path(sys.argv[1]).absolute())
