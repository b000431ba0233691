"""Record `adjourn demo` on a terminal, and draw docs/assets/session.svg from the recording.

    python docs/record_session.py            record and draw: takes half a minute, and a package index the first time
    python docs/record_session.py --draw     draw docs/assets/session.cast again
    python docs/record_session.py --check    fail if the picture is not drawn from that recording

The recording is an asciicast (version 2) of the real program. The picture plays it, shows its end where nothing moves, and is as wide
as a page.

Owns: the recording, and how it moves. Must never: add, leave out or reorder what the program printed.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import struct
import subprocess
import sys
import termios
import time
from itertools import pairwise
from pathlib import Path

from terminal_svg import LINE, THEME, picture

ROOT = Path(__file__).resolve().parents[1]
CAST = ROOT / "docs" / "assets" / "session.cast"
DRAWN = ROOT / "docs" / "assets" / "session.svg"
COLUMNS, ROWS = 80, 28
PROMPT = "\x1b[90m$\x1b[0m \x1b[1madjourn demo\x1b[0m\r\n"
IDLE_SECONDS = 2.0
"""A pause is shown no longer than this."""
READ_SECONDS = 0.35
"""A line stays at least as long before the next one comes: it has to be read."""
END_SECONDS = 8.0
"""How long the end stays before it begins again."""
_STYLE = re.compile(r"\x1b\[[0-9;]*m")


def record() -> str:
    """Run `adjourn demo` on a terminal; return what it printed, and when, as an asciicast."""
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith(("ADJOURN_", "NO_COLOR", "COLUMNS"))},
        "TERM": "xterm-256color", "USER": "you", "LOGNAME": "you",
    }  # fmt: skip
    command = [sys.executable, "-m", "adjourn", "demo"]
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)  # prepares what it needs
    ours, its = os.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    header = {"version": 2, "width": COLUMNS, "height": ROWS, "idle_time_limit": IDLE_SECONDS, "title": "adjourn demo"}
    events: list[tuple[float, str, str]] = [(0.0, "o", PROMPT)]
    with subprocess.Popen(
        command, env=environment, stdin=its, stdout=its, stderr=its, start_new_session=True
    ) as process:
        os.close(its)
        began, rest = time.monotonic(), b""
        while True:
            try:
                rest += os.read(ours, 65536)
            except OSError:  # the program has ended
                break
            whole = rest.rfind(b"\n") + 1
            if whole:
                events.append((round(time.monotonic() - began, 3), "o", rest[:whole].decode()))
                rest = rest[whole:]
    os.close(ours)
    if process.returncode:
        sys.exit("the demonstration failed")
    return "".join(json.dumps(part, ensure_ascii=False) + "\n" for part in (header, *events))


def frames(cast: str) -> tuple[str, list[tuple[float, int]], float]:
    """The text of a recording, how many lines are there from which second on, and when it ends."""
    _, *events = map(json.loads, cast.splitlines())
    text, shown, at, last = "", [(0.0, 0)], 0.0, 0.0
    for second, _, data in events:
        at += min(second - last, IDLE_SECONDS)
        last = second
        for line in data.replace("\r\n", "\n").splitlines(keepends=True):
            plain = _STYLE.sub("", line).rstrip("\n")
            if not plain.isprintable() or len(plain) > COLUMNS:
                raise ValueError(f"the picture knows only styles, and lines of {COLUMNS} columns: {line!r}")
            text += line
            shown.append((at, text.count("\n")))
            at += READ_SECONDS * bool(line.strip())
    return text, shown[1:], at + END_SECONDS


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
    label = "adjourn demo: a session is killed during a call, and another client resumes it"
    return picture(text, label, columns=COLUMNS, rows=ROWS, style=style, above=above)


def _scrolled(lines: int) -> float:
    """How far the text moves where the window has too few lines; letters reach a little below their line."""
    return -(lines - ROWS) * LINE - 2 if lines > ROWS else 0.0


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
