"""Collects the members of the JSON that each command prints, asked of tests/data/store_of_before in one story of a person.

Owns: the story (every form of every command that has --json), and the shape of an answer: the names of its members and the types of
their values. Must never: keep a value, or the text of a sentence.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import make_store_of_before as before
from adjourn import CRStore, open_store
from adjourn.knowledge.model.record import CRAuthor
from make_store_of_before import CHECKPOINT, FIRST, ElsewhereThen
from support.code_checkpoint import FULL
from support.policies import POLICY
from support.proxy import run
from support.transcripts import ClaudeTranscript, bakery

DRAFT = 'task anything v0\ngoal "Read."\nuse file.read\nneed a: list[file]\ndo file.read(paths=a) -> b\nreturn b\n'
HANDLER = f"def good(system, prompt): return {DRAFT!r}\n"
BROKEN = 'policy p v0\n\ngoal "g"\nuse net_*\nnonsense\n'
CLIENT = '{"mcpServers": {"files": {"command": "npx", "args": ["files"]}}}'

SERVER = "http://127.0.0.1:9/mcp"
LOGIN = f"""
from adjourn.gateway.login_store import Login, alone, keep
with alone({SERVER!r}):
    keep(Login(url={SERVER!r}, issuer="http://127.0.0.1:9", access="a", refresh="r", scope="read"))
"""

_Ask = Callable[..., Any]
_Words = tuple[str, ...]


def collect() -> dict[str, Any]:
    """Each form of a command → the shape of its answer."""
    with tempfile.TemporaryDirectory() as folder, before.unpack(Path(folder)) as work:
        _prepare(work)
        found: dict[str, Any] = {}
        for form, more in _story(work):
            done = run(*more, "--json", cwd=work.root, env=_environment(work))
            lines = done.out.splitlines() if form[0] == "log" else [done.out]
            try:
                answers = [json.loads(line) for line in lines]
            except ValueError:
                raise AssertionError(f"adjourn {' '.join(more)} prints no JSON: {done}") from None
            name = " ".join(form)
            assert name not in found, f"the form is there twice: {name}"
            found[name] = _merged([shape(answer) for answer in answers])
        return found


def _environment(work: ElsewhereThen) -> dict[str, str]:
    return work.environment | {"HOME": str(work.root.parent / "home")}


def _prepare(work: ElsewhereThen) -> None:
    """What the story needs beside the store: a policy with an error, a model, a client to set up, a commit."""
    root = work.root
    home = root.parent / "home"
    home.mkdir()
    bakery(ClaudeTranscript(folder=str(root))).save(home)
    (root / "my_model.py").write_text(HANDLER)
    (root / "broken.aex").write_text(BROKEN)
    (root / "loose.aex").write_text(POLICY.replace("\n\n", "\n\n\n\n"))
    (root / "strict.aex").write_text('policy strict v1\ngoal "g"\nallow file.read\ndeny echo\n')
    (root / "ann.json").write_text('{"who": "ann"}')
    (root / ".mcp.json").write_text(CLIENT)
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run([*git, "add", "src"], cwd=root, check=True)
    subprocess.run([*git, "commit", "-q", "-m", "x"], cwd=root, check=True)


def _story(work: ElsewhereThen) -> Any:
    """Each form, and the words of a command of that form. What an earlier command changed is there for the later ones."""

    def ask(*words: str) -> Any:
        return json.loads(run(*words, "--json", cwd=work.root, env=_environment(work)).out)

    def plain(*words: str) -> tuple[_Words, _Words]:
        return words, words

    # reading
    yield plain("tasks", "list")
    yield plain("tasks", "spend")
    yield ("status", "TASK"), ("status", FIRST)
    yield ("log", "TASK"), ("log", FIRST)
    yield plain("checkpoint", "list")
    yield ("checkpoint", "show", "NAME"), ("checkpoint", "show", CHECKPOINT)
    yield ("checkpoint", "show", "NAME", "--policy"), ("checkpoint", "show", CHECKPOINT, "--policy")
    yield ("resume", "NAME"), ("resume", CHECKPOINT)
    yield plain("continue")
    yield plain("continue", "--list")
    yield plain("verify")
    yield ("verify", "TASK"), ("verify", FIRST)
    yield ("verify", "CONTRACT"), ("verify", "tidy.aex")
    yield ("verify", "FOLDER"), ("verify", f".aex/checkpoints/{CHECKPOINT}")
    yield plain("doctor")

    # pages
    yield plain("page", "list")
    yield plain("page", "show")
    yield plain("page", "lint")
    yield plain("checkpoint", "rules")
    yield ("checkpoint", "write", "-m", "TEXT", "TASK"), ("checkpoint", "write", "-m", "Tests first", FIRST)
    yield ("page", "archive", "TASK"), ("page", "archive", FIRST)
    yield plain("page", "restore")
    yield plain("reflect")
    yield plain("reflect", "--dry-run")
    yield ("rollback", "CHECKPOINT"), ("rollback", FIRST)
    yield ("rollback", "CHECKPOINT", "--yes"), ("rollback", FIRST, "--yes")

    # questions to a person
    yield plain("report")
    yield plain("inbox")
    yield plain("answer")
    question = ask("answer")["questions"][0]["id"]
    yield ("answer", "QUESTION", "ANSWER"), ("answer", question, "keep")
    yield plain("approve")
    yield plain("deny")
    asked = [one["approval"] for one in ask("approve")["questions"]]
    yield ("approve", "QUESTION"), ("approve", asked[0])
    yield ("deny", "QUESTION"), ("deny", asked[-1])
    decision = ask("record", "show")["decisions"][0]["id"]
    yield (
        ("decide", "DECISION", "--contest", "TEXT"),
        ("decide", decision, "--contest", "Use two", "--because", "faster"),
    )
    yield plain("decide")
    yield plain("settle")
    call = ask("settle")["inDoubt"][0]["call"]
    yield ("settle", "CALL", "--done"), ("settle", call, "--done")

    task = ask("tasks")["tasks"][0]["task"]
    yield ("tasks", "finish", "TASK"), ("tasks", "finish", task)
    yield ("tasks", "reopen", "TASK"), ("tasks", "reopen", task)

    # the gateway
    (work.root / "adjourn.toml").write_text(f'listen = "127.0.0.1:0"\n[servers.up]\nurl = "{SERVER}"\n')
    yield plain("serve", "init", "--yes")
    yield plain("serve", "--check")
    yield plain("serve", "keys")
    yield ("serve", "keys", "add", "NAME"), ("serve", "keys", "add", "ci")
    key = ask("api-keys")["keys"][0]["id"]
    yield ("serve", "keys", "revoke", "ID"), ("serve", "keys", "revoke", key)
    subprocess.run([sys.executable, "-c", LOGIN], env=_environment(work), check=True)
    yield plain("serve", "login")
    yield ("serve", "logout", "URL"), ("serve", "logout", SERVER)

    # records
    yield plain("record")
    yield plain("record", "show")
    yield plain("record", "history")
    yield plain("record", "diff")
    yield plain("record", "verify")
    yield plain("record", "prove")
    yield plain("record", "prove", "--sign")
    (work.root / "proof.json").write_text(json.dumps(ask("record", "prove")))
    yield ("record", "verify", "--proof", "FILE"), ("record", "verify", "--proof", "proof.json")
    yield ("record", "export", "--to", "FILE"), ("record", "export", "--to", "r.jsonl")
    yield ("record", "import", "FILE"), ("record", "import", "r.jsonl")
    _fork(work)
    yield ("record", "merge", "RECORD", "RECORD"), ("record", "merge", FIRST, "theirs")
    yield plain("record", "resolve")
    yield plain("record", "check")
    yield ("record", "complete", "RECORD"), ("record", "complete", FIRST)

    # trust
    yield plain("keys")
    yield plain("keys", "show")
    key = ask("keys", "show")["public"]
    yield ("keys", "trust", "NAME", "KEY"), ("keys", "trust", "ann", key)
    yield ("keys", "distrust", "NAME"), ("keys", "distrust", "ann")
    yield ("policy", "sign", "FILE"), ("policy", "sign", "tidy.aex")
    yield ("checkpoint", "export", "NAME"), ("checkpoint", "export", CHECKPOINT)
    yield ("checkpoint", "import", "FOLDER"), ("checkpoint", "import", f".aex/checkpoints/{CHECKPOINT}")

    # contracts
    yield ("policy", "check", "FILE"), ("policy", "check", "tidy.aex", "broken.aex")
    yield ("policy", "fmt", "--check", "FILE"), ("policy", "fmt", "--check", "loose.aex", "tidy.aex")
    yield ("policy", "fmt", "FILE"), ("policy", "fmt", "loose.aex")
    yield plain("policy", "explain")
    yield ("policy", "explain", "--contract", "FILE"), ("policy", "explain", "--contract", "tidy.aex")
    yield ("policy", "explain", "--explain", "TOOL"), ("policy", "explain", "--explain", "file.write")
    yield (
        ("policy", "explain", "--replay", "--policy", "FILE"),
        ("policy", "explain", "--replay", "--policy", "strict.aex"),
    )
    yield plain("policy", "tighten")
    yield ("policy", "review", "FILE"), ("policy", "review", "tidy.aex")
    yield ("policy", "draft", "PROMPT"), ("policy", "draft", "read", "--model-handler", "my_model:good")
    yield ("run", "FILE"), ("run", "tidy.aex", "--inputs", "ann.json", "--task", "run-cy")
    yield plain("init", "--policy")
    yield ("init", "--task", "NAME"), ("init", "--task", "fix")
    yield plain("init", "--code")
    yield plain("init", "--yes")
    yield plain("init", "--undo")
    for number in (1, 2):
        path = work.root / ".code-intel" / "sessions" / f"session_20260131_12345{number}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(FULL | {"session_id": path.stem}))
    yield plain("code", "--resume")

    # room
    for name in ("older", "newer"):
        ask("checkpoint", "write", FIRST, "--name", name)
    yield ("store", "prune", "--keep-last", "N"), ("store", "prune", "--keep-last", "1")
    yield ("store", "prune", "--keep-last", "N", "--yes"), ("store", "prune", "--keep-last", "1", "--yes")
    yield plain("store", "show")
    yield plain("store", "gc")
    yield plain("store", "migrate")
    shutil.copy(Path(__file__).parent / "data" / "imports" / "langgraph.sqlite", work.root / "checkpoints.sqlite")
    yield ("store", "import", "FILE"), ("store", "import", "checkpoints.sqlite")

    # what is broken
    history = work.root / ".aex" / "checkpoints" / "newer" / "audit.jsonl"
    history.write_bytes(history.read_bytes().replace(b"echo", b"ecHo"))
    yield ("verify", "CHANGED-FOLDER"), ("verify", ".aex/checkpoints/newer")
    yield ("verify", "CHANGED-CONTRACT"), ("verify", "loose.aex", "--signature", "tidy.aex.signature.json")


def _fork(work: ElsewhereThen) -> None:
    """A fork of the record with another goal, and a goal that differs from both in the record itself: a conflict."""
    store = open_store(work.store_url)
    try:
        records, author = CRStore(store), CRAuthor(id="ann", type="human")
        head = records.resolve(FIRST)
        records.fork(head.content_hash, {"task": head.task.replace(goal="theirs")}, author, cr_id="theirs")
        records.update(head.id, {"task": head.task.replace(goal="ours")}, author)
    finally:
        store.close()


def shape(answer: Any) -> Any:
    """The names of members and the types of values; a member with `?` is not in every item of a list."""
    if isinstance(answer, dict):
        return {name: shape(value) for name, value in sorted(answer.items())}
    if isinstance(answer, list):
        return [_merged([shape(item) for item in answer])] if answer else []
    if isinstance(answer, bool) or answer is None:
        return "null" if answer is None else "boolean"
    return "string" if isinstance(answer, str) else "number"


def _merged(shapes: list[Any]) -> Any:
    """One shape for several: the members of any, and each type that a value has."""
    objects = [one for one in shapes if isinstance(one, dict)]
    lists = [one for one in shapes if isinstance(one, list)]
    kinds: list[Any] = sorted({one for one in shapes if isinstance(one, str)})
    if objects:
        names = {name.removesuffix("?") for one in objects for name in one}
        made = {}
        for name in sorted(names):
            values = [one[key] for one in objects for key in (name, f"{name}?") if key in one]
            always = all(name in one for one in objects)
            made[name if always else f"{name}?"] = _merged(values)
        kinds.append(made)
    if lists:
        items = [one[0] for one in lists if one]
        kinds.append([_merged(items)] if items else [])
    return kinds[0] if len(kinds) == 1 else {"any of": kinds}
