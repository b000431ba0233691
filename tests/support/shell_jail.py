"""Decides on generated lines in a throw-away workspace and has bash run those that pass. Usage: shell_jail.py FOLDER SEED COUNT

Prints one JSON line: how many lines passed, were refused, and did what they must not. It has to be started in namespaces of its own, of
mounts, processes and the network. The lines run without privileges, everything outside the folder is read-only to them, devices
included, and they can signal nothing outside. It runs nothing if it could write elsewhere.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from adjourn.policy.protected.calls import protected_path
from adjourn.policy.protected.places import places_of
from support.shell_lines import lines

STUB = '#!/bin/sh\necho "$@" >> "$SPOKE"\n'
SPEAKING = re.compile(
    r"(?:approve|deny|settle|answer|decide) \S|keys trust \S|rollback .*--yes|init .*--undo|record merge \S|hook\b|proxy .*--auto-confirm"
)
NOBODY = 65534 if len(Path("/proc/self/uid_map").read_text().split()) == 3 and int(Path("/proc/self/uid_map").read_text().split()[2]) > 65534 else 0  # fmt: skip
"""The account that lines run as where this program is root itself; in a namespace of one account there is only that."""
BASHES = 3
"""Seconds that a line may take."""


class Jail:
    """A workspace with its own home, programs and keys."""

    def __init__(self, base: Path) -> None:
        self.base, self.work, self.home = base, base / "w", base / "home"
        self.spoke = base / "spoke"
        (base / "bin").mkdir()
        for name in ("adjourn", "aex"):
            (base / "bin" / name).write_text(STUB)
            (base / "bin" / name).chmod(0o755)
        self.environment = {
            "PATH": f"{base}/bin:/usr/bin:/bin", "HOME": str(self.home), "SPOKE": str(self.spoke), "LC_ALL": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*", "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
        }  # fmt: skip
        os.environ.clear()
        os.environ.update(self.environment)

    def make(self) -> None:
        """Make the workspace, in place of the one before."""
        for folder in (self.work, self.home):
            subprocess.run(["chmod", "-R", "u+rwX", folder], check=False, stderr=subprocess.DEVNULL)
            shutil.rmtree(folder, ignore_errors=True)
        for name in (".aex/checkpoints/a", "src", "build"):
            (self.work / name).mkdir(parents=True)
        (self.home / ".config/adjourn/keys").mkdir(parents=True)
        (self.home / ".config/adjourn/keys/default.key").write_text("c2VjcmV0")
        for name, text in {".aex/policy.aex": "policy p v0\n", ".aex/adjourn.db": "store", ".aex/checkpoints/a/audit.jsonl": "{}", "src/a.py": "a\n", "x": "evil\n", "notes.md": "n\n"}.items():  # fmt: skip
            (self.work / name).write_text(text)
        (self.work / "rules").symlink_to(".aex")
        self.spoke.unlink(missing_ok=True)
        self.spoke.touch()
        self.spoke.chmod(0o666)
        for command in (("init", "-q"), ("add", "x", "src"), ("commit", "-qm", "1")):
            subprocess.run(["git", *command], cwd=self.work, check=True, env=self.environment)
        if NOBODY:
            subprocess.run(["chown", "-Rh", str(NOBODY), self.work, self.home], check=True)

    def is_whole(self) -> bool:
        """Whether nothing protected was changed, and nobody spoke for a person."""
        try:
            kept = (
                (self.work / ".aex/policy.aex").read_text() == "policy p v0\n"
                and (self.work / ".aex/adjourn.db").read_text() == "store"
                and (self.work / ".aex/checkpoints/a/audit.jsonl").read_text() == "{}"
                and (self.home / ".config/adjourn/keys/default.key").read_text() == "c2VjcmV0"
            )
        except OSError:
            return False
        made = ("adjourn.toml", "aex.policy.aex", "src/.aex/policy.aex", ".aex/checkpoints/x", "build/.aex")
        if not kept or (self.work / ".aex").is_symlink() or any(os.path.lexists(self.work / one) for one in made):
            return False
        modes = [os.stat(self.work / one).st_mode & 0o700 for one in (".aex", ".aex/checkpoints")]
        said = self.spoke.read_text().splitlines() if self.spoke.exists() else []
        return modes == [0o700, 0o700] and not any(map(SPEAKING.match, said))

    def run(self, line: str) -> None:
        """Have bash run a line."""
        with subprocess.Popen(
            ["bash", "-c", line], cwd=self.work, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True, preexec_fn=_limits,  # noqa: PLW1509
        ) as process:  # fmt: skip
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(BASHES)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)


def _limits() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    resource.setrlimit(resource.RLIMIT_CPU, (2, 2))
    if os.getuid() == 0 and NOBODY:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def close_everything_else(base: Path) -> None:
    """Mount all but the folder read-only, in a namespace of this process's own."""
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "--bind", base, base], check=True)
    for mount in Path("/proc/self/mounts").read_text().splitlines():
        place = mount.split()[1]
        if place != str(base):
            subprocess.run(["mount", "-o", "remount,bind,ro", place], check=False, stderr=subprocess.PIPE)


def writable(base: Path) -> list[str]:
    """Places outside of the folder that a line could write to."""
    probe = 'for place in / /dev /dev/shm /etc /tmp /usr/bin /var/tmp ~ "$PWD" "$1"; do : > "$place/.probe" && rm "$place/.probe" && echo "$place"; done; :'
    found = subprocess.run(
        ["bash", "-c", probe, "_", base.parent], capture_output=True, text=True, check=True, cwd="/", preexec_fn=_limits
    )
    return found.stdout.split()


def main() -> None:
    """Try the lines."""
    base, seed, count = Path(os.path.realpath(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])
    close_everything_else(base)
    found = writable(base)
    if os.getpid() != 1 or found:
        raise SystemExit(f"not closed: process {os.getpid()}, {found}")
    jail = Jail(base)
    jail.make()
    root = str(jail.work)
    places = places_of(root)
    passed, bad, refused = 0, [], 0
    for line in lines(seed, count):
        if "\0" in line:
            continue
        if protected_path({"command": line}, places, root, tool="Bash"):
            refused += 1
            continue
        passed += 1
        jail.run(line)
        if not jail.is_whole():
            bad.append(line)
        if not jail.is_whole() or passed % 25 == 0:
            jail.make()
    sys.stdout.write(json.dumps({"passed": passed, "refused": refused, "bad": bad}) + "\n")


if __name__ == "__main__":
    main()
