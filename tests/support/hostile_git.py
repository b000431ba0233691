"""Repositories that name a program wherever git lets one be named. Each program leaves a mark when it runs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

HOOKS = (
    "applypatch-msg", "commit-msg", "fsmonitor-watchman", "post-applypatch", "post-checkout", "post-commit",
    "post-index-change", "post-merge", "post-rewrite", "pre-applypatch", "pre-auto-gc", "pre-commit",
    "pre-merge-commit", "prepare-commit-msg", "reference-transaction",
)  # fmt: skip
LOOKED_AT = (
    "alias.apply", "alias.diff", "alias.status", "core.alternateRefsCommand", "core.askPass", "core.editor", "core.fsmonitor",
    "core.pager", "core.sshCommand", "credential.helper", "diff.external", "diff.odd.command", "diff.odd.textconv",
    "gpg.openpgp.program", "gpg.program", "gpg.ssh.defaultKeyCommand", "gpg.ssh.program", "interactive.diffFilter", "pager.diff",
    "pager.status", "sequence.editor",
)  # fmt: skip
"""Settings that are a program, and that nothing which only looks may heed. `{}` stands for it."""
FILTERS = ("filter.odd", "filter.a=b", 'filter.Ünï "code"', "filter.with.dots")


def git(root: Path, *arguments: str, **more: str) -> str:
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")} | more
    done = subprocess.run(["git", *who, *arguments], cwd=root, capture_output=True, text=True, check=True, env=env)
    return done.stdout


def plain(root: Path) -> Path:
    """A repository with a commit, and a file that was changed since."""
    root.mkdir(parents=True, exist_ok=True)
    git(root, "init", "-q", "-b", "main")
    (root / "a.txt").write_text("old\n")
    (root / "b.py").write_text("b = 1\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    return root


def program(path: Path, mark: Path) -> str:
    path.write_text(f"#!/bin/sh\necho \"$0 $*\" >>'{mark}'\ncat\n")
    path.chmod(0o755)
    return str(path)


def arm(root: Path, mark: Path, *, filters: tuple[str, ...] = FILTERS) -> None:
    """Name a program everywhere: in the configuration, in what it includes, in hooks, attributes and a submodule."""
    where = root / ".git" / "evil"
    where.mkdir(exist_ok=True)
    for key in LOOKED_AT:
        git(root, "config", key, program(where / key, mark))
    for driver in filters:
        arm_filter(root, driver, program(where / f"filter-{len(list(where.iterdir()))}", mark))
    included = where / "included"
    git(root, "config", "--file", str(included), "filter.included.clean", program(where / "in-clean", mark))
    git(root, "config", "--file", str(included), "filter.included.smudge", program(where / "in-smudge", mark))
    git(root, "config", "include.path", str(included))
    for key, value in (
        ("log.showSignature", "true"), ("commit.gpgSign", "true"), ("diff.submodule", "diff"),
        ("status.submoduleSummary", "true"), ("submodule.recurse", "true"),
    ):  # fmt: skip
        git(root, "config", key, value)
    hooks = where / "hooks"
    hooks.mkdir(exist_ok=True)
    (root / ".git" / "hooks").mkdir(exist_ok=True)
    for hook in HOOKS:
        program(hooks / hook, mark)
        program(root / ".git" / "hooks" / hook, mark)
    git(root, "config", "core.hooksPath", str(hooks))
    names = [driver.removeprefix("filter.") for driver in filters]
    lines = ["*.txt filter=included diff=odd", "*.py filter=odd diff=odd"]
    lines += [f"f{number} filter={name}" for number, name in enumerate(names) if " " not in name]
    attributes = where / "attributes"
    attributes.write_text("\n".join([*lines, ""]))
    git(root, "config", "core.attributesFile", str(attributes))
    mark.unlink(missing_ok=True)


def arm_filter(root: Path, driver: str, path: str, **more: str) -> None:
    for member in ("clean", "smudge", "process"):
        git(root, "config", f"{driver}.{member}", path, **more)
    git(root, "config", f"{driver}.required", "true", **more)


def submodule(root: Path, mark: Path) -> None:
    """A repository in the repository, which git looks into with the settings that it has itself."""
    inner = plain(root / "inner")
    git(root, "add", "inner")
    git(root, "commit", "-qm", "inner", "--no-verify")
    (inner / "b.py").write_text("b = 2\n")
    git(inner, "commit", "-qam", "moved")
    (inner / "a.txt").write_text("dirty\n")
    arm(inner, mark, filters=("filter.odd",))
