"""Record two coding agents and a person on a terminal, and draw docs/assets/session.svg from the recording.

    python docs/record_session.py            record and draw: a minute; needs `python tests/support/tools.py --clients`
    python docs/record_session.py --draw     draw docs/assets/session.cast
    python docs/record_session.py --check    fail if the picture is not drawn from that recording

Claude Code is killed in the middle of a commit, Codex continues, and a person answers. Clients, proxy, git server and terminal are real;
the models are scripts on loopback. The recording is an asciicast (version 2). The picture plays it line by line, shortens pauses, shows
its end where nothing moves, and is as wide as a page.

Owns: the story, the recording, and how it moves. Must never: add, leave out or reorder what the terminal was sent.
"""

from __future__ import annotations

import codecs
import fcntl
import json
import os
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import accumulate, cycle, pairwise
from pathlib import Path

from terminal_svg import LINE, THEME, picture

ROOT = Path(__file__).resolve().parents[1]
CAST = ROOT / "docs" / "assets" / "session.cast"
DRAWN = ROOT / "docs" / "assets" / "session.svg"
COLUMNS, ROWS = 80, 28
IDLE_SECONDS = 1.2
"""A pause is shown no longer than this."""
READ_SECONDS = 0.2
"""A line stays at least as long before the next one comes: it has to be read."""
SCREEN_SECONDS = 1.2
"""The same for a whole screen."""
END_SECONDS = 6.0
"""How long the end stays before it begins again."""
_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_MODE = re.compile(r"\x1b\[\?(?:25|2004)[hl]")
"""Shows or hides the cursor; reports what is pasted."""
_OTHER_SCREEN = re.compile(r"\x1b\[\?1049[hl]")

# --- the story

PROMPT = "\x1b[90m$\x1b[0;1m "
SHELL = r"""PS1='\[\e[90m\]$\[\e[0;1m\] ' PS0='\e[0m'"""
POLICY = """policy shop v1

goal "Commit what is ready."

use git_status, git_log, git_add, git_commit

budget calls=20
"""
HOOK = "#!/bin/sh\ntouch .git/hook-runs\nsleep 4\n"
"""Before a commit: in a real project, the tests."""
SERVER = {"command": "mcp-server-git", "args": ["--repository", "."]}
CLAUDE_SETTINGS = {"enableAllProjectMcpServers": True, "permissions": {"allow": ["mcp__git"]}}
CODEX_SERVER = """
[mcp_servers.git]
command = "mcp-server-git"
args = ["--repository", "."]
required = true
default_tools_approval_mode = "approve"

[projects."{project}"]
trust_level = "trusted"
"""


def record() -> str:
    """Play the story on a terminal; return what it was sent, and when, as an asciicast."""
    sys.path.append(str(ROOT / "tests"))
    from support import tools
    from support.real.clients import CLAUDE, CODEX
    from support.real.model import Use, running

    programs = {
        "claude": tools.claude(), "codex": tools.codex(), "mcp-server-git": tools.python_program("mcp-server-git"),
        "adjourn": [str(Path(sys.executable).parent / "adjourn")],
    }  # fmt: skip
    here = {"repo_path": "."}
    commit = Use("git_commit", here | {"message": "Raise the price of bolts"})
    begin = [Use("git_status", here), Use("git_add", here | {"files": ["prices.txt"]}), commit]
    continued = [Use("aex.resume", _checkpoint_in), Use("git_log", here), commit]
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="you-", ignore_cleanup_errors=True)))
        project, codex = home / "shop", home / ".codex"
        for folder in (project, codex, home / "bin", home / "tmp", home / ".claude"):
            folder.mkdir()
        for name, program in programs.items():
            if program is None:
                sys.exit(f"{name} is not installed: run python tests/support/tools.py --clients")
            (home / "bin" / name).symlink_to(program[0])
        first = stack.enter_context(running(begin, "git"))
        second = stack.enter_context(running(continued, "git", _last_word))
        (home / ".bashrc").write_text(SHELL)
        (home / ".inputrc").write_text("set enable-bracketed-paste off\n")
        (home / ".claude" / "settings.json").write_text(json.dumps(CLAUDE_SETTINGS))
        (codex / "servers.toml").write_text(CODEX_SERVER.format(project=project))
        CODEX.prepare(codex, second.address, [], {})
        _make(project)
        environment = CLAUDE.full_environment(home, first.address) | CODEX.environment(codex, "")
        environment |= {
            "PATH": f"{home}/bin:{os.defpath}", "TMPDIR": str(home / "tmp"), "TERM": "xterm-256color",
            "LANG": "C.UTF-8", "PAGER": "cat", "USER": "you", "LOGNAME": "you",
        }  # fmt: skip
        terminal = Terminal(project, environment, home / ".bashrc")
        terminal.type("adjourn init --yes")
        terminal.type('claude -p "Commit the new prices." &')
        terminal.read(lambda _: (project / ".git" / "hook-runs").exists())
        terminal.type("kill -9 %1")
        terminal.type("adjourn status")
        terminal.type('codex exec "Continue."')
        terminal.type("git log --oneline")
        terminal.type("adjourn inbox", lambda sent: sent.endswith("quit\x1b[0m                       "))
        terminal.press("d", lambda sent: "how you know" in sent)
        terminal.press("git log does not show it\r", lambda sent: "Recorded" in sent)
        terminal.press("q")
        terminal.type('codex exec "Continue." 2>/dev/null')
        terminal.type("adjourn log")
        versions = tools.SETS["clients"]
        terminal.close()
    title = (
        f"Claude Code {versions['@anthropic-ai/claude-code']} is killed, Codex {versions['@openai/codex']} continues"
    )
    header = {"version": 2, "width": COLUMNS, "height": ROWS, "idle_time_limit": IDLE_SECONDS, "title": title}
    return "".join(json.dumps(part, ensure_ascii=False) + "\n" for part in (header, *terminal.events))


def _make(project: Path) -> None:
    """A project of a person: a changed file, a policy, and a hook that takes a while."""

    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(project), *words], check=True, capture_output=True)

    git("init", "--initial-branch=main")
    git("config", "user.name", "you")
    git("config", "user.email", "you@example.org")
    prices = project / "prices.txt"
    prices.write_text("bolt 2\n")
    git("add", ".")
    git("commit", "--message", "Add the price list")
    prices.write_text("bolt 3\n")
    hook = project / ".git" / "hooks" / "pre-commit"
    hook.write_text(HOOK)
    hook.chmod(0o755)
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": {"git": SERVER}}, indent=2))
    (project / ".aex").mkdir()
    (project / ".aex" / "policy.aex").write_text(POLICY)


def _checkpoint_in(context: str) -> dict[str, object]:
    """What adjourn tells a new session to resume."""
    names = re.findall(r'"name": "([\w-]+)"\} before any other tool', context.replace("\\", ""))
    return {"name": names[-1]}


def _last_word(context: str) -> str:
    if "committed successfully" in context:
        return "The new prices are committed."
    return "The commit may have happened. I repeat it once you have answered: adjourn inbox"


def _is_prompt(sent: str) -> bool:
    return sent.endswith(PROMPT)


class Terminal:
    """A shell on a terminal of its own, a child of nobody here, and all that it was sent, with seconds."""

    def __init__(self, folder: Path, environment: dict[str, str], settings: Path) -> None:
        from support.terminal import command_apart

        self.events: list[tuple[float, str, str]] = []
        self._ours, its = os.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        report, status = os.pipe()
        command = command_apart(os.ttyname(its), status, ["bash", "--rcfile", str(settings), "-i"])
        self._shell = subprocess.Popen(
            command, cwd=folder, env=environment, pass_fds=(status,), stdin=its, stdout=its, stderr=its
        )
        for descriptor in (status, its):
            os.close(descriptor)
        self._report = report
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self._began = time.monotonic()
        self.read()

    def read(self, is_enough: Callable[[str], bool] = _is_prompt, seconds: float = 60) -> None:
        """Read until it is enough, by default until the prompt."""
        sent, end = "", time.monotonic() + seconds
        while not is_enough(sent):
            if time.monotonic() > end:
                sys.exit(f"nothing more came after: {sent[-500:]!r}")
            if select.select([self._ours], [], [], 0.1)[0]:
                data = self._decode(os.read(self._ours, 65536))
                sent += data
                self.events.append((round(time.monotonic() - self._began, 3), "o", data))

    def type(self, line: str, is_enough: Callable[[str], bool] = _is_prompt) -> None:
        """Type a command and wait for its end."""
        self.press(f"{line}\r", is_enough)

    def press(self, keys: str, is_enough: Callable[[str], bool] = _is_prompt) -> None:
        """Press keys, after as long as a person looks, and wait until it is enough."""
        time.sleep(1.5)
        os.write(self._ours, keys.encode())
        self.read(is_enough)

    def close(self) -> None:
        os.write(self._ours, b"exit\r")
        self._shell.wait()
        for descriptor in (self._ours, self._report):
            os.close(descriptor)


# --- the picture


def frames(cast: str) -> tuple[str, list[tuple[float, int]], float]:
    """The text of a recording, how many rows of it are there from which second on, and when it ends."""
    _, *events = map(json.loads, cast.splitlines())
    ends = list(accumulate(len(data) for _, _, data in events))
    pauses = [after - before for (before, *_), (after, *_) in pairwise([(0.0,), *events])]
    moments = list(accumulate(min(pause, IDLE_SECONDS) for pause in pauses))
    text: list[str] = []
    shown, at, rows = [], 0.0, 0
    for end, lines, seconds in _steps("".join(data for _, _, data in events)):
        at = max(at, moments[bisect_left(ends, end)])
        text += lines
        rows += sum(map(_rows, lines))
        shown.append((at, rows))
        at += seconds
    return "\n".join(text), shown, at + END_SECONDS


def _steps(sent: str) -> Iterator[tuple[int, list[str], float]]:
    """Where each step of the recording ends in what was sent, which lines it adds, and for how many seconds they are read.

    A screen that a program draws in place of the lines is so many rows more; after it, the lines that it covered come again.
    """
    text: list[str] = []
    end = 0
    for is_screen, part in zip(cycle((False, True)), _OTHER_SCREEN.split(sent)):
        if text and not is_screen:
            yield end, text[-ROWS:], 0.0
        mark = "\x1b[H" if is_screen else "\n"
        *ended, last = part.split(mark)
        for piece in [*ended, last]:
            end += len(piece) + len(mark)
            lines = [_line(line) for line in piece.split("\n")]
            if (is_screen or piece is last) and not any(_STYLE.sub("", line) for line in lines):
                continue
            if is_screen:
                yield end - len(mark), [*lines, *[""] * (ROWS - len(lines))], SCREEN_SECONDS
            else:
                yield end - len(mark), lines, READ_SECONDS * bool(lines[0])
                text += lines
        end += len("\x1b[?1049h") - len(mark)


def _line(sent: str) -> str:
    """What is left of a line at its end: a program may erase it while it waits."""
    return _MODE.sub("", sent.rstrip("\r").rpartition("\x1b[K")[2]).rstrip()


def _rows(line: str) -> int:
    """How many rows a line takes."""
    plain = _STYLE.sub("", line)
    if not plain.isprintable():
        raise ValueError(f"the picture knows only styles and whole screens: {line!r}")
    return max(1, -(-len(plain) // COLUMNS))


def draw(cast: str) -> str:
    """The recording as an SVG that moves: a cover over what is not printed yet, and a text that scrolls."""
    text, shown, seconds = frames(cast)
    cover, scroll = [], []
    for (at, lines), (following, _) in pairwise([*shown, (seconds, 0)]):
        if following > at:
            share = f"{100 * at / seconds:.2f}%"
            cover.append(f"{share}{{transform:translateY({min(lines, ROWS) * LINE + 2:.1f}px)}}")
            scroll.append(f"{share}{{transform:translateY({_scrolled(lines):.1f}px)}}")
    style = (
        f"@keyframes cover{{{''.join(cover)}}}\n@keyframes scroll{{{''.join(scroll)}}}\n"
        f".scroll{{transform:translateY({_scrolled(shown[-1][1]):.1f}px);animation:scroll {seconds:.1f}s step-end infinite}}\n"
        f".cover{{transform:translateY({ROWS * LINE + 2:.1f}px);animation:cover {seconds:.1f}s step-end infinite}}\n"
        "@media (prefers-reduced-motion:reduce){.scroll,.cover{animation:none}}\n"
    )
    above = f'<rect class="cover" width="100%" height="100%" fill="{THEME.background_color.hex}"/>\n'
    label = f"Recording: {json.loads(cast.splitlines()[0])['title']}, a person answers"
    return picture(text, label, columns=COLUMNS, rows=ROWS, style=style, above=above)


def _scrolled(lines: int) -> float:
    """How far the text moves where the window has too few lines."""
    return -(lines - ROWS) * LINE if lines > ROWS else 0.0


def main() -> int:
    """Record and draw; with --draw, only draw; with --check, return 1 if the picture is not drawn from the recording."""
    if "--check" in sys.argv[1:]:
        if DRAWN.read_text("utf-8") == draw(CAST.read_text("utf-8")):
            return 0
        print("not current: docs/assets/session.svg; run python docs/record_session.py --draw")
        return 1
    if "--draw" not in sys.argv[1:]:
        CAST.write_text(record(), encoding="utf-8")
    DRAWN.write_text(draw(CAST.read_text("utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
