"""What the checkpoint discipline costs: a call on which nothing is due, one that a checkpoint comes before, a long task's files,
and keeping the files of a repository.

python tests/bench/discipline.py [CALLS] [REPOSITORY ...]      CALLS (100,000): the calls of the long task

Of each REPOSITORY a clone is made, whose files are kept; nothing is written to it.
"""

from __future__ import annotations

import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from adjourn.checkpoints import git_snapshot
from adjourn.checkpoints.save import CheckpointRequest, close_session, save_checkpoint
from adjourn.clients.client import ClientContext
from adjourn.clients.client_process import ClientOptions
from adjourn.log import kinds
from adjourn.policy.contract import read_contract
from adjourn.policy.destructive import DEFAULT
from adjourn.tasks.decision import ToolRequest
from adjourn.tasks.task import NewEvent

POLICY = 'policy bench v1\ngoal "Measure it"\nallow *\nbudget calls=100000000\n'
CALLS = {
    "a tool without a command": ToolRequest(tool="notes.add", digest="1" * 64, given={"text": "milk", "path": "a.md"}),
    "a short command": ToolRequest(
        tool="shell.exec", digest="1" * 64, given={"command": "pytest -q tests/unit && git status"}
    ),
    "a command of 400 characters": ToolRequest(
        tool="shell.exec", digest="1" * 64, given={"command": "grep -rn 'git push' docs | sed -e s/a/b/ && " * 9}
    ),
    "a tool that only reads": ToolRequest(tool="file.read", digest="1" * 64, effectful=False, given={"path": "a.md"}),
}


def context_in(folder: str) -> ClientContext:
    root = os.path.join(os.path.realpath(folder), "work")
    os.makedirs(os.path.join(root, ".aex"))
    Path(root, ".aex", "policy.aex").write_text(POLICY)
    os.environ["ADJOURN_CONFIG"] = os.path.join(folder, "config")
    return ClientContext(ClientOptions(root=root, contract=read_contract(root)))


def microseconds(what: Callable[[], object], times: int) -> float:
    taken = []
    for _ in range(times):
        began = time.perf_counter_ns()
        what()
        taken.append(time.perf_counter_ns() - began)
    return statistics.median(taken) / 1000


def costs(context: ClientContext) -> None:
    session = context.sessions.open()
    for name, call in CALLS.items():

        def once(call: ToolRequest = call) -> None:
            session.checkpoint_before([call])
            session.checkpoint_after()

        taken = microseconds(once, 20_000)
        print(f"{taken:10.2f} µs  nothing is due: {name}")
    call = ToolRequest(tool="shell.exec", digest="1" * 64, given={"command": "rm -rf build"})
    taken = microseconds(lambda: session.checkpoint_before([call]), 200)
    print(f"{taken:10.0f} µs  a checkpoint and its page before a destructive call")


def sizes(context: ClientContext, calls: int) -> None:
    session = context.sessions.open()
    for number in range(calls):
        arguments = f'{{"path":"src/module_{number % 50}.py","text":"line {number}"}}'
        call = ToolRequest(tool="file.write", digest=f"{number:064x}", arguments=arguments)
        _, (admitted,) = context.sessions.admit([call])
        facts = [kinds.ToolSettled(call=admitted.call, outcome="ok", answer=f"{number:064x}", milliseconds=12)]
        session.task.deferred.extend(NewEvent(fact, session=session.id) for fact in facts)
        if number % max(1, calls // 20) == 0:
            save_checkpoint(session.task, context.options.root, CheckpointRequest(f"step-{number}"), session=session)
    close_session(session, "client-eof", context.options.root)
    context.close("client-eof")
    print(f"\n{calls:,} calls, 20 milestones, in {context.options.root.rpartition('/')[2]}:")
    for place in (".aex/adjourn.db", ".aex/checkpoints", "tmp"):
        print(f"{on_disk(Path(context.options.root, place)) / 1e6:10.1f} MB  {place}")


def kept_files(name: str, root: Path, edited: str) -> None:
    """Keep the files of an unchanged tree, and again with each of ten files changed."""
    snapshots = itertools.count(1)  # as in a task, each is of another event

    def keep() -> None:
        git_snapshot.keep(str(root), "bench", next(snapshots), DEFAULT)

    times = [microseconds(keep, 1) / 1000 for _ in range(9)]
    before = git_snapshot.kept_files(str(root)).size
    for number in range(10):
        with (root / edited).open("a") as file:
            file.write(f"changed {number}\n")
        times.append(microseconds(keep, 1) / 1000)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True).stdout
    grown = (git_snapshot.kept_files(str(root)).size - before) / 10 / 1000
    print(
        f"{statistics.median(times[:9]):10.0f} ms  {name}, {listed.count(bytes(1)):,} files, unchanged; "
        f"{statistics.median(times[9:]):.0f} ms and {grown:.1f} KB with a change"
    )


def git_in(root: Path, *arguments: str) -> None:
    who = ("-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "commit.gpgSign=false")
    subprocess.run(["git", *who, *arguments], cwd=root, capture_output=True, check=True)


def repositories(folder: Path, places: Sequence[str]) -> None:
    """A tree of 5,000 files, and clones of repositories."""
    plain = folder / "plain"
    for number in range(5_000):
        path = plain / f"part-{number // 100}" / f"module_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"value = {number}\n" * 40)
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
        git_in(plain, *arguments)
    time.sleep(1.1)  # git reads files again that are as young as its index
    git_in(plain, "status")
    print("\nkeeping the files of a repository:")
    kept_files("made here", plain, "part-0/module_0.py")
    for place in places:
        clone = folder / f"clone-{Path(place).name}"
        git_in(folder, "clone", "-q", "--no-hardlinks", place, str(clone))
        time.sleep(1.1)
        git_in(clone, "status")
        listed = subprocess.run(["git", "ls-files"], cwd=clone, capture_output=True, text=True, check=True).stdout
        edited = next(name for name in listed.splitlines() if name.endswith((".py", ".md", ".js", ".ts", ".txt")))
        kept_files(Path(place).name, clone, edited)


def on_disk(place: Path) -> int:
    """The bytes of a file, or of a folder's files: one with several names counts once."""
    files = [place] if place.is_file() else [path for path in place.rglob("*") if path.is_file()]
    return sum({path.stat().st_ino: path.stat().st_size for path in files}.values())


def main() -> None:
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as folder:
        costs(context_in(folder))
    with tempfile.TemporaryDirectory() as folder:
        sizes(context_in(folder), calls)
    with tempfile.TemporaryDirectory() as folder:
        repositories(Path(folder), sys.argv[2:])


if __name__ == "__main__":
    main()
