"""A real `adjourn code` process, and the official MCP client that talks to it over stdio.

Owns: `Repo` (a git repository of its own), `Server` (process and client; can be killed; `shared_server` for the tests of a module), and
walking through phases. Must never: call the server's code.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Self

import anyio
import anyio.from_thread
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import ListRootsResult, ListToolsResult, Root

from adjourn.code.server.search_tools import TOOLS
from support.processes import is_running

Reply = dict[str, Any]
WITH_TEXT = {tool.name for tool in TOOLS}
FILES = {
    "app/cart.py": "def total(prices):\n    return sum(prices)\n\n\ndef apply_discount(price, share):\n    return price * share\n",
    "app/shop.py": "from app.cart import total\n\n\ndef checkout(prices):\n    return total(prices)\n",
    "app/__init__.py": "",
    "lib/__init__.py": "",
    "README.md": "# Shop\n\nThe cart adds up prices.\n",
    ".gitignore": "*.pyc\n",
}
LARGE = {f"src/big{number}.py": "value = 'needle needle'  # é\n" * 500 for number in range(20)}
"""More matches than one reply holds."""
QUERY = "apply_discount in the cart must take off the share, not multiply by it"
FIX = ("return price * share", "return price * (1 - share)")
FAST = "--fast --no-doc"
SECONDS = 60.0


class Repo:
    """A git repository with a small project, and a HOME of its own."""

    def __init__(self, folder: Path, files: dict[str, str] | None = None, *, git: bool = True) -> None:
        self.root = folder / "project"
        self.home = folder / "home"
        self.root.mkdir(parents=True)
        self.home.mkdir(exist_ok=True)
        for name, text in (FILES if files is None else files).items():
            self.write(name, text)
        if git:
            self.git("init", "-q", "-b", "main")
            self.commit("Begin")

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ADJOURN_", "GIT_"))}
        who = {
            f"GIT_{role}_{what}": value
            for role in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", "tester"), ("EMAIL", "tester@localhost"))
        }
        return {
            **kept,
            **who,
            "HOME": str(self.home),
            "ADJOURN_CONFIG": str(self.home / "config"),
            "GIT_CONFIG_NOSYSTEM": "1",
        }

    def git(self, *arguments: str, cwd: Path | None = None) -> str:
        done = subprocess.run(
            ["git", *arguments],
            cwd=cwd or self.root,
            env=self.environment,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            check=True,
        )
        return done.stdout.strip()

    def commit(self, message: str) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def read(self, name: str) -> str:
        return (self.root / name).read_text()

    def edit(self, name: str, old: str, new: str) -> None:
        text = self.read(name)
        assert old in text
        self.write(name, text.replace(old, new))

    def prompts(self) -> None:
        """What `adjourn init --code` writes, as far as the flow asks for it."""
        self.write(".code-intel/review_prompts/quality_review.md", "Look for what is wrong.\n")

    @property
    def branches(self) -> list[str]:
        return self.git("for-each-ref", "--format=%(refname:short)", "refs/heads/").split("\n")

    @property
    def branch(self) -> str:
        return self.git("branch", "--show-current")

    @property
    def dirty(self) -> list[str]:
        """What git would show as changed, without what adjourn keeps for itself."""
        lines = self.git("status", "--porcelain", "--untracked-files=all").split("\n")
        return [line for line in lines if line and ".code-intel/" not in line and ".aex/" not in line]

    def checkpoints(self, root: Path | None = None) -> list[Path]:
        return sorted(((root or self.root) / ".code-intel" / "sessions").glob("*.json"))

    def saved(self) -> Reply:
        """The newest checkpoint file."""
        found: list[Reply] = [json.loads(path.read_text()) for path in self.checkpoints()]
        return max(found, key=lambda each: str(each["checkpoint_at"]))

    def cli(self, *arguments: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "adjourn", *arguments],
            cwd=self.root,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr


class Server:
    """One server process with one client. Use it as a context manager."""

    def __init__(
        self,
        repo: Repo,
        *options: str,
        root: Path | None = None,
        client: str = "tests",
        opened: Sequence[Path] | None = None,
    ) -> None:
        """`opened`: the client's roots; None for a client without."""
        self.repo = repo
        self._opened = opened
        self.root = root or repo.root
        self._pid_file = repo.home / f"pid-{time.monotonic_ns()}"
        self._command = [sys.executable, "-m", "adjourn", "code", *options]
        self._client = client

    def __enter__(self) -> Self:
        self._portal_manager = anyio.from_thread.start_blocking_portal()
        self._portal = self._portal_manager.__enter__()
        self._connection = self._portal.wrap_async_context_manager(self._connected())
        try:
            self.session = self._connection.__enter__()
        except BaseException:
            self._portal_manager.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        with suppress(Exception):
            self._connection.__exit__(None, None, None)
        self._portal_manager.__exit__(None, None, None)

    def _connected(self) -> Any:
        async def told(context: Any) -> ListRootsResult:
            del context
            return ListRootsResult(roots=[Root(uri=path.as_uri()) for path in self._opened or ()])  # type: ignore[arg-type]

        roots = None if self._opened is None else told

        @asynccontextmanager
        async def connected() -> Any:
            shell = 'echo $$ >"$1"; shift; exec "$@"'
            parameters = StdioServerParameters(
                command="/bin/sh",
                args=["-c", shell, "sh", str(self._pid_file), *self._command],
                env=self.repo.environment,
                cwd=self.root,
            )
            with open(  # noqa: ASYNC230  # once, before anything runs
                self.repo.home / "stderr.log", "a", encoding="utf-8"
            ) as log:
                async with (
                    stdio_client(parameters, errlog=log) as (reading, writing),
                    ClientSession(reading, writing, list_roots_callback=roots) as session,
                ):
                    with anyio.fail_after(SECONDS):
                        self.greeting = await session.initialize()
                    yield session

        return connected()

    @property
    def pid(self) -> int:
        return int(self._pid_file.read_text())

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        os.kill(self.pid, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            if not is_running(self.pid):
                return
            time.sleep(0.01)
        raise AssertionError("it does not die")

    def tools(self) -> ListToolsResult:
        found: ListToolsResult = self._portal.call(self.session.list_tools)
        return found

    def call(
        self, name: str, arguments: Reply | None = None, *, progress: Callable[[float], None] | None = None
    ) -> Reply:
        """A tool's reply, as JSON."""
        if name in WITH_TEXT:
            arguments = {"format": "json", **(arguments or {})}
        return json.loads(self.text(name, arguments, progress=progress))  # type: ignore[no-any-return]

    def text(
        self, name: str, arguments: Reply | None = None, *, progress: Callable[[float], None] | None = None
    ) -> str:
        async def told(done: float, total: float | None, message: str | None) -> None:
            del total, message
            if progress:
                progress(done)

        async def ask() -> Any:
            with anyio.fail_after(SECONDS):
                return await self.session.call_tool(name, arguments or {}, progress_callback=told if progress else None)

        result = self._portal.call(ask)
        (content,) = result.content
        text: str = content.text
        return text

    def cancelled(self, name: str, arguments: Reply, *, after: float) -> bool:
        """Give a call up after some seconds. Whether it was still under way."""

        async def ask() -> bool:
            with anyio.move_on_after(after) as scope:
                await self.session.call_tool(name, arguments)
            return scope.cancelled_caught

        return self._portal.call(ask)

    def start(self, query: str = QUERY, intent: str = "IMPLEMENT", **more: Any) -> Reply:
        return self.call("start_session", {"intent": intent, "query": query, **more})

    def submit(self, data: Any) -> Reply:
        return self.call("submit_phase", {"data": data})

    def status(self) -> Reply:
        return self.call("get_session_status")

    def accepted(self, data: Any) -> Reply:
        """A submission that must go through."""
        reply = self.submit(data)
        assert reply.get("success") is True, reply
        return reply


def shared_server(*options: str) -> Any:
    """A fixture: one server for all tests of a module, with sessions in repositories of their own (`begin`)."""

    @pytest.fixture(scope="module")
    def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
        with Server(Repo(tmp_path_factory.mktemp("shared"), {}, git=False), *options) as server:
            yield server

    return server


def begin(server: Server, repo: Repo, flags: Any = "", **more: Any) -> Reply:
    """Start a session in a repository that need not be the server's."""
    return server.start(repo_path=str(repo.root), flags=flags, **more)


FRAME = {
    "action_type": "fix", "target_symbols": ["apply_discount"], "scope": "app", "constraints": "none",
    "target_feature": {"value": "apply_discount", "quote": "apply_discount in the cart"},
}  # fmt: skip


def look(server: Server) -> None:
    """The calls that an exploration rests on."""
    server.call("search_text", {"pattern": "discount"})
    server.call("find_definitions", {"symbol": "apply_discount"})


SIMPLE: dict[str, Reply] = {
    "BRANCH_INTERVENTION": {"choice": "continue"},
    "DOCUMENT_RESEARCH": {"documents_reviewed": ["README.md"]},
    "QUERY_FRAME": FRAME,
    "EXPLORATION": {
        "explored_files": ["app/cart.py", "app/shop.py"],
        "findings": ["apply_discount multiplies by the share"],
    },
    "Q1": {"needs_more_information": True, "reason": "how discounts are named elsewhere"},
    "SEMANTIC": {"search_results": ["app/cart.py: apply_discount"]},
    "Q2": {"has_unverified_hypotheses": True, "reason": "is the share a fraction?"},
    "VERIFICATION": {
        "hypotheses_verified": [
            {"hypothesis": "the share is a fraction", "result": "confirmed", "evidence": "app/cart.py:6"}
        ]
    },
    "Q3": {"needs_impact_analysis": True, "reason": "who calls apply_discount?"},
    "IMPACT_ANALYSIS": {"impact_summary": {"callers": "none"}},
    "12": {
        "tasks": [
            {"id": "t1", "description": "mend apply_discount", "status": "pending"},
            {"id": "t2", "description": "say so", "status": "pending"},
        ]
    },
    "14": {},
    "POST_IMPL_VERIFY": {
        "passed": True,
        "failed_tasks": [],
        "details": "ran it",
        "evidence": [{"command": "pytest -q", "exit_code": 0, "output": "3 passed"}],
    },
    "QUALITY_REVIEW": {"quality_score": "9", "issues": []},
    "MERGE": {},
}
"""What is submitted where nothing depends on what was replied before; steps of READY by their number."""
MESSAGE = "Take off the share"


def step(server: Server, reply: Reply, repo: Repo) -> Reply:
    """Do what a phase asks for, and submit it."""
    phase = reply["phase"]
    if phase == "EXPLORATION":
        look(server)
    elif phase == "SEMANTIC":
        server.call("semantic_search", {"query": "discount of a price"})
    elif phase == "IMPACT_ANALYSIS":
        server.call("analyze_impact", {"target_files": ["app/cart.py"], "change_description": "discount"})
    elif phase == "PRE_COMMIT":
        return commit_all(server)
    elif reply["step"] == 13:
        return implement(server, repo, reply)
    return server.accepted(SIMPLE[str(reply["step"]) if phase == "READY" else phase])


def changed(server: Server) -> list[str]:
    """The files that the review names."""
    return [change["path"] for change in server.call("review_changes")["changes"]]


def commit_all(server: Server, **more: Any) -> Reply:
    """Keep every change, and have it committed."""
    return server.accepted({"reviewed_files": changed(server), "commit_message": MESSAGE, **more})


def implement(server: Server, repo: Repo, reply: Reply) -> Reply:
    """The next task of the plan."""
    progress = reply.get("task_progress") or {}
    task = (reply.get("next_task") or progress["next_task"])["id"]
    name = {"t1": "app/cart.py", "t2": "app/NOTES.md"}[task]
    assert server.call("check_write_target", {"file_path": name})["allowed"] is True
    if task == "t1" and FIX[0] in repo.read("app/cart.py"):
        repo.edit("app/cart.py", *FIX)
    elif task == "t2":
        repo.write("app/NOTES.md", "A share is taken off.\n")
    return server.accepted({"task_id": task, "summary": f"did {task}"})


def walk(server: Server, repo: Repo, reply: Reply, until: str = "") -> Reply:
    """Continue until the session is in a phase, or at a step of READY by its number, or over."""
    while not reply.get("session_complete") and until not in (reply["phase"], str(reply["step"])):
        reply = step(server, reply, repo)
    return reply


def ready_to_commit(server: Server, repo: Repo, flags: str = FAST) -> Reply:
    """A session whose work is done, and now to be reviewed."""
    return walk(server, repo, begin(server, repo, flags), until="PRE_COMMIT")


def to(server: Server, repo: Repo, until: str, flags: str = "--no-doc", **more: Any) -> Any:
    return walk(server, repo, begin(server, repo, flags, **more), until=until)
