"""`adjourn hook --stay`: the standby process answers as the hook itself would, and never blocks it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import adjourn
from support.processes import command, processes
from support.proxy import ProxyWorkspace

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/ns/mnt"), reason="no /proc: nobody stands by")


class Standing(ProxyWorkspace):
    """A workspace whose hooks leave a process behind, in a folder of its own."""

    package = ""
    runtime: Path
    """A short path: a socket's has at most 108 bytes."""

    @property
    def environment(self) -> dict[str, str]:
        kept = {key: value for key, value in super().environment.items() if not key.startswith("CLAUDE")}
        kept |= {"PYTHONPATH": self.package} if self.package else {}
        return kept | {"XDG_RUNTIME_DIR": str(self.runtime)}

    def start(
        self, *options: str, python: tuple[str, ...] = (), env: dict[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, *python, "-m", "adjourn", "hook", "--stay", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.root,
            env=self.environment | (env or {}),
        )

    def ask(self, *options: str, tool: str = "Read", **more: str) -> tuple[int, str, str]:
        """Exit code, decision and what is on stderr."""
        done = self.start(*options, env=more)
        out, err = done.communicate(self.request(tool), timeout=60)
        output = json.loads(out)["hookSpecificOutput"] if out else {}
        return done.returncode, output.get("permissionDecision", ""), err.decode()

    def request(self, tool: str = "Read") -> bytes:
        return json.dumps({"tool_name": tool, "tool_input": {"file_path": "a"}, "cwd": str(self.root)}).encode()

    def standing(self) -> list[int]:
        """The processes that stand by here, and those that answer for them."""
        found = []
        for one in processes():
            words = command(one.pid)  # a zombie has none
            if b"adjourn.hooks.standby_process" in words and os.fsencode(self.runtime) in words[-1]:
                found.append(one.pid)
        return sorted(found)

    def wait_for(self, number: int) -> list[int]:
        deadline = time.monotonic() + 30
        while True:
            sockets = [path for path in self.runtime.glob("adjourn-hook/*") if path.is_socket()]
            found = self.standing()
            if len(found) == number and bool(sockets) == bool(number):
                return found
            assert time.monotonic() < deadline, (found, sockets)
            time.sleep(0.02)

    def forks(self, server: int, hook: subprocess.Popen[bytes]) -> set[int]:
        """The processes that answer for a hook, once one of them has taken over its standard input."""
        deadline = time.monotonic() + 30
        theirs = os.readlink(f"/proc/{hook.pid}/fd/0")
        while True:
            found = set(self.standing()) - {server}
            with suppress(FileNotFoundError):
                if theirs in {os.readlink(f"/proc/{pid}/fd/0") for pid in found}:
                    return found
            assert time.monotonic() < deadline, found
            time.sleep(0.01)

    def wait_until_gone(self, pid: int) -> None:
        deadline = time.monotonic() + 30
        while pid in self.standing():
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Standing]:
    with (
        Standing(tmp_path, "use file.*", "budget calls=50") as work,
        TemporaryDirectory(prefix="adjourn-", dir="/tmp") as runtime,
    ):
        work.runtime = Path(runtime)
        try:
            yield work
        finally:
            for pid in work.standing():
                os.kill(pid, signal.SIGKILL)


def test_the_second_hook_is_answered_without_loading_anything(work: Standing) -> None:
    """The first leaves a process behind; the next gives the same answer, and has not even loaded msgspec."""
    first = work.ask()
    assert first == (0, "allow", "")
    work.wait_for(1)
    process = work.start(python=("-X", "importtime"))
    out, err = process.communicate(work.request(), timeout=60)
    assert (process.returncode, json.loads(out)["hookSpecificOutput"]["permissionDecision"]) == (0, "allow")
    loaded = {line.rpartition("|")[2].strip() for line in err.decode().splitlines()}
    assert "adjourn.hooks.standby" in loaded
    assert not loaded & {"msgspec", "adjourn.hooks.main", "sqlite3", "hashlib", "socket", "typing"}
    assert work.ask(tool="WebFetch")[:2] == (0, "deny")


def test_both_ways_are_one_session_of_one_task(work: Standing) -> None:
    """A call that the process decided on is counted with those that the hook itself did, for the same client."""
    work.ask()
    work.wait_for(1)
    work.ask()
    work.ask()
    [task] = work.tasks()
    assert work.ledger(task).calls_used == 3
    assert len(work.facts("session.opened", task)) == 1


def test_options_environment_and_folder_are_the_hooks_own(work: Standing, tmp_path: Path) -> None:
    """The standby process was started by another hook, with other settings: they have no effect."""
    work.ask()
    work.wait_for(1)
    elsewhere = tmp_path / "elsewhere.db"
    assert work.ask("--task", "mine", ADJOURN_STORE=str(elsewhere))[1] == "allow"
    assert elsewhere.exists()
    assert work.ask("--format", "wrong")[0] == 2
    assert "--format takes" in work.ask("--format", "wrong")[2]
    assert work.ledger(work.tasks()[0]).calls_used == 1


def test_a_process_that_was_killed_is_replaced(work: Standing) -> None:
    """The standby process has exited: the hook answers itself, and starts another one."""
    work.ask()
    [pid] = work.wait_for(1)
    os.kill(pid, signal.SIGKILL)
    work.wait_until_gone(pid)
    assert work.ask() == (0, "allow", "")
    work.wait_for(1)
    assert work.ask() == (0, "allow", "")
    [task] = work.tasks()
    assert work.ledger(task).calls_used == 3


def test_a_hook_whose_answer_dies_is_refused(work: Standing) -> None:
    """The process that decides is killed while it reads the call: exit code 2, for the call was not decided on."""
    work.ask()
    [server] = work.wait_for(1)
    hook = work.start()  # nothing is on its standard input yet
    forks = work.forks(server, hook)
    for pid in forks:
        os.kill(pid, signal.SIGKILL)
    _, err = hook.communicate(work.request(), timeout=60)
    assert hook.returncode == 2
    assert b"exited or timed out" in err
    assert work.ask() == (0, "allow", "")


def test_a_process_that_is_stopped_keeps_nobody(work: Standing) -> None:
    """It does not come to answer: the hook answers itself, and leaves it nothing that a client would wait for."""
    work.ask()
    [server] = work.wait_for(1)
    os.kill(server, signal.SIGSTOP)
    assert work.ask() == (0, "allow", "")
    os.kill(server, signal.SIGCONT)
    assert work.ask() == (0, "allow", "")
    assert work.ledger(work.tasks()[0]).calls_used == 3


def test_a_fork_ends_with_its_hook(work: Standing) -> None:
    """A hook that was interrupted leaves nobody behind who would read what was meant for it."""
    work.ask()
    [server] = work.wait_for(1)
    hook = work.start()
    forks = work.forks(server, hook)
    hook.send_signal(signal.SIGINT)
    assert hook.wait(timeout=30) == 2
    for pid in forks:
        work.wait_until_gone(pid)
    hook.communicate(timeout=30)


def test_a_sandbox_is_not_left(work: Standing) -> None:
    """A hook with fewer rights than the standby process answers itself: it gains no permissions."""
    work.ask()
    work.wait_for(1)
    confine = "import ctypes, os, sys; ctypes.CDLL(None).prctl(38, 1, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])"
    hook = [sys.executable, "-X", "importtime", "-m", "adjourn", "hook", "--stay"]
    done = subprocess.run(
        [sys.executable, "-c", confine, *hook],
        input=work.request(),
        capture_output=True,
        cwd=work.root,
        env=work.environment,
        timeout=60,
        check=True,
    )
    assert b"msgspec" in done.stderr
    assert json.loads(done.stdout)["hookSpecificOutput"]["permissionDecision"] == "allow"


def test_an_update_ends_it(work: Standing, tmp_path: Path) -> None:
    """When a file of adjourn has changed, the hook that asks answers itself, by the new code."""
    work.package = str(tmp_path / "package")
    shutil.copytree(Path(adjourn.__file__).parent, tmp_path / "package/adjourn", ignore=lambda *_: ["__pycache__"])
    work.ask()
    [old] = work.wait_for(1)
    assert work.ask()[1] == "allow"  # it has loaded what it needs by then
    policy = tmp_path / "package/adjourn/hooks/claude_code.py"
    policy.write_text(policy.read_text().replace('"Read": "file.read"', '"Read": "other.read"'))
    assert work.ask()[1] == "deny"
    work.wait_until_gone(old)


def test_a_folder_that_others_may_enter_is_not_used(work: Standing) -> None:
    """Who can put a socket there could answer for us: the hook answers itself, and leaves nothing there."""
    folder = work.runtime / "adjourn-hook"
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    assert work.ask() == (0, "allow", "")
    assert work.ask() == (0, "allow", "")
    time.sleep(0.3)
    assert (work.standing(), list(folder.iterdir())) == ([], [])


def test_hooks_at_once_are_all_answered_and_counted(work: Standing) -> None:
    """Twelve hooks at once, without and with a standby process: one standby process remains, and no call is lost or counted twice."""
    with ThreadPoolExecutor(12) as pool:
        cold = list(pool.map(lambda _: work.ask(), range(12)))
        work.wait_for(1)
        warm = list(pool.map(lambda _: work.ask(), range(12)))
    assert cold + warm == [(0, "allow", "")] * 24
    assert work.ledger(work.tasks()[0]).calls_used == 24


def test_it_imports_nothing_of_the_workspace_that_began_it(work: Standing) -> None:
    """It answers in every workspace, so no PYTHONPATH of one may lead it: not to a relative folder, nor to one of the workspace."""
    mark = work.runtime / "mark"
    for folder in (work.root, work.root / "lib"):
        folder.mkdir(exist_ok=True)
        for name in ("sitecustomize.py", "msgspec.py", "sqlite3.py"):
            (folder / name).write_text(f"open({str(mark)!r}, 'a').write(__file__)\n")
    led = {"PYTHONPATH": f"{work.root}/lib:lib:.", "PYTHONUSERBASE": str(work.root)}
    # the hook itself does not see it (-E): only what it starts could be led
    done = work.start(python=("-P", "-E"), env=led)
    done.communicate(work.request(), timeout=60)
    work.wait_for(1)
    assert work.ask()[0] == 0
    assert not mark.exists(), mark.read_text()


IMPOSTOR = """
import fcntl, os, socket, sys, time
path = sys.argv[-1]
folder = os.path.dirname(path)
lock = os.open(path + ".lock", os.O_RDWR | os.O_CREAT, 0o600)
fcntl.flock(lock, fcntl.LOCK_EX)
if os.path.lexists(path):
    os.unlink(path)
started = open(f"/proc/{os.getpid()}/stat").read().rpartition(")")[2].split()[19]
os.ftruncate(lock, 0)
os.pwrite(lock, f"{os.getpid()} {started}".encode(), 0)
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen(64)
print("ready", flush=True)
while True:
    connection, _ = listener.accept()
    try:
        connection.sendall(b"r")
        got = connection.recv(65536)
        with open(folder + "/got", "ab") as file:
            file.write(got)
        connection.sendall(b"c\\0")
    except OSError:
        pass
    connection.close()
"""


def test_who_merely_listens_there_is_told_nothing(work: Standing) -> None:
    """Another program of the same user takes lock and socket: the hook decides itself, and hands over neither call nor secrets."""
    work.ask()
    [server] = work.wait_for(1)
    [path] = [path for path in work.runtime.glob("adjourn-hook/*") if path.is_socket()]
    os.kill(server, signal.SIGKILL)
    work.wait_until_gone(server)
    with subprocess.Popen(
        [sys.executable, "-c", IMPOSTOR, str(path)], stdout=subprocess.PIPE, env=work.environment
    ) as impostor:
        assert impostor.stdout is not None
        try:
            assert impostor.stdout.readline() == b"ready\n"
            assert work.ask(tool="WebFetch", ADJOURN_STORE=work.store_url)[:2] == (0, "deny")
            assert work.ask()[:2] == (0, "allow")
            assert not (path.parent / "got").exists()
        finally:
            impostor.kill()


def test_a_stopped_answer_is_a_refusal(work: Standing) -> None:
    """A client takes a hook that does not end in time for leave to continue, so the hook ends before that."""
    work.ask()
    [server] = work.wait_for(1)
    hook = work.start()
    forks = work.forks(server, hook)
    for pid in forks:
        os.kill(pid, signal.SIGSTOP)
    _, err = hook.communicate(work.request(), timeout=60)
    assert (hook.returncode, b"exited or timed out" in err) == (2, True)
    for pid in forks:
        work.wait_until_gone(pid)
