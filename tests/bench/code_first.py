"""How long a new code server takes for its first answer in a repository that it has never seen, beside a whole run of Universal Ctags."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from sizes import Sizes
from tables import Table, median, ratio

_INDEX = ".code-intel"
_SECONDS = 120


def run(sizes: Sizes, folder: str) -> list[Table]:
    """One row for each repository in the folder of clones; no table without it."""
    del folder  # the clones are read where they are
    if sizes.clones is None:
        return []
    table = Table(
        "First answer beside ctags",
        ["repository", "files", "ctags, ms", "first answer, ms", "times ctags", "complete, ms", "times ctags"],
        "A folder without an index. ctags: `ctags -R` of all languages it knows, once. First answer: from the start of the process until "
        "`find_definitions` has named the definition of a class or function that is there; complete: until the same question is answered from the complete index. "
        "They take turns, medians. Targets: first answer 1.2 times ctags in repositories of more than 3,000 files, 1,000 ms in others.",
    )
    program = shutil.which("ctags")
    for clone in sorted(path for path in sizes.clones.iterdir() if (path / ".git").exists()):
        files = subprocess.run(
            ["git", "-C", str(clone), "ls-files", "-z"], capture_output=True, check=True
        ).stdout.count(b"\0")
        name = _wanted(clone)
        runs = []
        for _ in range(sizes.code_firsts):
            shutil.rmtree(clone / _INDEX, ignore_errors=True)
            runs.append((_tagged(program, clone), *_answered(clone, name)))
        shutil.rmtree(clone / _INDEX, ignore_errors=True)
        tags, first, complete = (median(list(column)) for column in zip(*runs, strict=True))
        table.add(clone.name, files, tags, first, ratio(first, tags), complete, ratio(complete, tags))
    return [table]


def _wanted(clone: Path) -> str:
    """A name that the repository defines: that of the last definition that git finds, which no walk in order meets first."""
    pattern = r"^(export )?(pub )?(async )?(class|def|func|fn|function|module) [A-Za-z]\w+"
    command = ["git", "-C", str(clone), "grep", "-hoP", pattern, "--", "*.py", "*.ts", "*.js", "*.go", "*.rs", "*.rb"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    return found[-2].split()[-1]


def _tagged(program: str | None, clone: Path) -> float:
    assert program is not None, "install Universal Ctags"
    began = time.perf_counter()
    # It exits with 1 where it cannot read some file of many.
    subprocess.run(
        [program, "--options=NONE", "-R", "-f", "/dev/null", "."], cwd=clone, stderr=subprocess.DEVNULL, check=False
    )
    return (time.perf_counter() - began) * 1e3


def _answered(clone: Path, name: str) -> tuple[float, float]:
    """Milliseconds until the first answer with the definition, and until an answer of the complete index."""
    began = time.perf_counter()
    first = 0.0
    command = [sys.executable, "-m", "adjourn", "code"]
    with subprocess.Popen(
        command, cwd=clone, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        greeting = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        }
        _call(process, 0, "initialize", greeting)
        question = {"name": "find_definitions", "arguments": {"symbol": name, "exact_match": True, "format": "json"}}
        for number in range(1, 10_000):
            answer = json.loads(_call(process, number, "tools/call", question)["content"][0]["text"])
            spent = (time.perf_counter() - began) * 1e3
            if answer["definitions"] and not first:
                first = spent
            if first and answer["index_state"]["state"] == "ready":
                break
            assert spent < _SECONDS * 1e3, answer
            time.sleep(0.05 if not first else 0.5)
        process.kill()
    return first, spent


def _call(process: subprocess.Popen[bytes], number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"
    )
    process.stdin.flush()
    while True:
        message = json.loads(process.stdout.readline())
        if message.get("id") == number:
            result: dict[str, Any] = message["result"]
            return result
