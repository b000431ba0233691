"""A repository with the project as it stands, what `python tests/dist.py` builds of it, and the Pythons to install that in.

Owns: those. Must never: publish, or change the repository that it copies.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from support.missing import is_missing

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(sys.executable).parent
COMMITTED = "2026-05-02T12:00:00+02:00"
SECONDS = 280.0
"""How long a build or an installation may take."""


def run(command: Sequence[str | Path], folder: Path, umask: int = -1, **environment: str) -> str:
    """The output of a command that has to succeed."""
    done = attempt(command, folder, umask, **environment)
    assert done.returncode == 0, done.stdout
    return done.stdout


def attempt(
    command: Sequence[str | Path], folder: Path, umask: int = -1, **environment: str
) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("GIT_", "ADJOURN_"))}
    return subprocess.run(
        command, cwd=folder, env=clean | environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False, timeout=SECONDS, umask=umask,
    )  # fmt: skip


def from_index(done: subprocess.CompletedProcess[str]) -> str:
    """The output of a command that needs a package index: without one the test is skipped, except in CI."""
    if done.returncode:
        is_missing(f"cannot be installed here:\n{done.stdout}")
    return done.stdout


def repository(folder: Path) -> Path:
    """The project's files, also those that are not committed yet, as one commit of a set time."""
    listed = run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"], ROOT).split("\0")
    for name in filter(None, listed):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    run(["git", "init", "--quiet", "."], folder)
    run(["git", "add", "--all"], folder)
    who = ("-c", "user.name=ann", "-c", "user.email=ann@example.org")
    commit = ["git", *who, "commit", "--quiet", "--message", "as it stands"]
    run(commit, folder, GIT_COMMITTER_DATE=COMMITTED, GIT_AUTHOR_DATE=COMMITTED)
    return folder


def build(repository: Path, *options: str, umask: int = 0o022, **environment: str) -> Path:
    """The folder with what is built of a repository."""
    run([sys.executable, "tests/dist.py", *options], repository, umask, **environment)
    return repository / "dist"


class Interpreter(NamedTuple):
    """A release of Python, and the program that runs it; "" where it is not installed."""

    release: str
    program: str


def interpreters(releases: Iterable[str]) -> list[Interpreter]:
    """Each release as PATH or pyenv has it."""
    return [Interpreter(release, next(_programs(release), "")) for release in releases]


def _programs(release: str) -> Iterator[str]:
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = [shutil.which(f"python{release}"), *map(str, versions.glob(f"{release}.*/bin/python{release}"))]
    for program in filter(None, found):
        asked = attempt([program, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], ROOT)
        if asked.stdout.strip() == release:  # a shim of pyenv may lead to no release, or to another one
            yield program
