"""Draw docs/assets/screens: what commands show on a terminal, as SVG. `python docs/draw_screens.py`; with --check, compare only.

The output is real: a scripted session works on a real store in a scratch folder, and the commands run on it as at a terminal of 80
columns. Clock, ids and machine are set, so that the pictures change only when the output does. `init` and `doctor` also show what is
installed; their pictures are drawn, and not compared.

Owns: the story, and the frame of the pictures. Must never: draw what no command printed.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adjourn.clients.client import ClientContext

# ruff: noqa: SLF001  # what is loaded is loaded after the stage is set; a killed session has no public way
sys.path.append(str(Path(__file__).parents[1] / "tests"))
SCREENS = Path(__file__).parent / "assets" / "screens"
COLUMNS = 80
BEGUN = 1_790_000_000_000
"""When the story begins, in milliseconds: in the afternoon of 21 September 2026, UTC."""
POLICY = """policy shop v1

goal "Keep the stock in order; a person publishes."

allow inv.list_items, inv.add_item, inv.count
allow inv.remove_item
allow site.preview, site.publish
deny inv.drop_all

confirm before site.publish
limit inv.add_item 10 per minute
budget calls=40, minutes=90
"""
SERVER = '''"""A server of an inventory, for pictures."""
import json
import sys

TOOLS = {"list_items": (True, False), "add_item": (False, False), "remove_item": (False, True)}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = {}
    if asked["method"] == "initialize":
        result = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "inv", "version": "1"}}
    elif asked["method"] == "tools/list":
        result = {"tools": [{"name": name, "inputSchema": {"type": "object"},
                             "annotations": {"readOnlyHint": reads, "destructiveHint": destroys}}
                            for name, (reads, destroys) in TOOLS.items()]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
'''
COMMANDS = {
    "status": ("status",),
    "log": ("log",),
    "log-graph": ("log", "--graph"),
    "tasks": ("tasks",),
    "checkpoints": ("checkpoint", "list"),
    "show": ("checkpoint", "show", "counted"),
    "resume": ("resume", "counted"),
    "inbox": ("inbox", "--list"),
    "verify": ("verify",),
}
OF_THIS_MACHINE = {"init": ("init",), "doctor": ("doctor", "--yes")}
TYPED = {"init": "y\ny\n"}
"""What a person answers to the questions of a command."""


class Clock:
    """Milliseconds that the story moves."""

    def __init__(self) -> None:
        self.now = BEGUN

    def __call__(self) -> int:
        return self.now

    def move(self, *, seconds: float) -> None:
        self.now += int(seconds * 1000)


def set_the_stage(clock: Clock, home: str) -> None:
    """Make time, chance and machine the same wherever this runs. Before anything of adjourn is loaded."""
    numbers = itertools.count()

    def chance(size: int) -> bytes:
        return hashlib.shake_128(f"adjourn {next(numbers)}".encode()).digest(size)

    os.urandom = chance
    time.time_ns = lambda: clock.now * 1_000_000
    for name in [name for name in os.environ if name.startswith("ADJOURN_")]:
        del os.environ[name]
    os.environ |= {
        "ADJOURN_CONFIG": f"{home}/.config/adjourn", "HOME": home, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "TZ": "UTC",
        "COLORTERM": "truecolor", "PAGER": "cat",
    }  # fmt: skip
    os.environ.pop("NO_COLOR", None)
    time.tzset()


class Story:
    """Two sessions in a shop's workspace: one that was killed during a call, and one that waits for a person."""

    def __init__(self, root: str, clock: Clock) -> None:
        self.root, self.clock = root, clock
        self.at_process(4711)

    def at_process(self, number: int) -> None:
        """What follows is done by another process of the same machine."""
        from adjourn.host import process

        machine = process.Process("laptop:1b4e28ba:4026531836", number, 90210 + number)
        process.current = lambda: machine

    def client(self, name: str, group: str, task: str = "", server: str = "inv") -> ClientContext:
        from adjourn.clients.client import ClientContext
        from adjourn.clients.client_process import ClientOptions
        from adjourn.policy.contract import read_contract

        options = ClientOptions(root=self.root, contract=read_contract(self.root), task=task, server=server)
        context = ClientContext(options, self.clock)
        context.client, context.group = name, group
        return context

    def call(
        self, context: ClientContext, tool: str, outcome: str = "ok", message: str = "", **arguments: object
    ) -> None:
        """A call a few seconds later; without an outcome it stays open."""
        from adjourn.log import kinds
        from adjourn.tasks.decision import ToolRequest

        self.clock.move(seconds=7)
        server, _, name = tool.partition(".")
        text = json.dumps(arguments, separators=(",", ":"))
        reads = name in ("list_items", "count", "preview")
        request = ToolRequest(
            tool=name, server=server, shown=tool, digest=hashlib.sha256(text.encode()).hexdigest(), effectful=not reads,
            arguments=text,
        )  # fmt: skip
        session, (admitted,) = context.sessions.admit([request])
        self.clock.move(seconds=2)
        if admitted.call and outcome:
            session.settle([kinds.ToolSettled(call=admitted.call, outcome=outcome, message=message, milliseconds=2000)])

    def save(self, context: ClientContext, name: str, description: str) -> None:
        from adjourn.checkpoints import folder
        from adjourn.checkpoints.checkpoint import create

        self.clock.move(seconds=5)
        session = context.sessions.open()
        folder.write(context.store, create(session.task, name, description=description, session=session), self.root)

    def tell(self) -> None:
        labels = self.client("claude-code", "g3")
        labels._task = "labels-2026"
        self.call(labels, "inv.list_items", shelf="all")
        self.save(labels, "labels", "Labels of shelf 1 are printed.")
        labels.close("client-eof")
        self.clock.move(seconds=80_000)

        first = self.client("claude-code", "g1")
        self.call(first, "inv.list_items", shelf="bolts")
        self.call(first, "inv.add_item", name="M8 bolt, 40 mm", count=200)
        self.call(first, "inv.add_item", name="M8 nut", count=200)
        self.call(first, "inv.add_item", "tool-error", "unknown unit: dozen", name="washers", unit="dozen")
        self.call(first, "inv.add_item", name="washer 8.4", count=500)
        self.call(first, "inv.drop_all", reason="start afresh")
        self.save(first, "counted", "Shelf 1 is counted. Next: shelf 2, then publish the price list.")
        self.call(first, "inv.list_items", shelf="screws")
        self.call(first, "inv.remove_item", "", name="M3 screw, rusty")
        self.clock.move(seconds=3600)  # it was killed, and its lease is over

        from adjourn.tasks.lease import expire_dead_sessions

        task = first.sessions.open().task
        first.sessions._sessions.clear()
        other = self.client("codex", "g2", task.id)
        expire_dead_sessions(task)
        self.call(other, "inv.list_items", shelf="screws")
        self.call(other, "inv.add_item", name="M3 screw, 16 mm", count=1000)
        self.call(other, "inv.count", shelf="screws")
        self.at_process(4712)
        site = self.client("codex", "g2", task.id, "site")  # the same client, by its proxy of another server
        self.call(site, "site.preview", page="prices")
        self.call(site, "site.publish", page="prices", title="Prices of autumn 2026")
        self.clock.move(seconds=20)


def shown(*arguments: str, typed: str = "") -> str:
    """What a terminal shows of a command, and of what a person types."""
    from adjourn.cli import main
    from support.kept_output import Terminal

    class Keyboard(Terminal):
        def readline(self, size: int | None = -1, /) -> str:
            line = super().readline(size)
            terminal.write(line)
            return line

    terminal = Terminal()
    if typed:
        sys.stdin = Keyboard(typed)
    with contextlib.redirect_stdout(terminal), contextlib.redirect_stderr(terminal):
        main(list(arguments))
    return terminal.getvalue()


def screen(command: tuple[str, ...], sent: str) -> str:
    """The picture of a terminal with a command and its output."""
    from terminal_svg import picture

    typed = f"adjourn {' '.join(command)}"
    return picture(f"\x1b[90m$\x1b[0m \x1b[1m{typed}\x1b[0m\n{sent}", typed, columns=COLUMNS)


def draw(*, machine: bool) -> Iterator[tuple[str, str]]:
    """The name and the picture of each screen; with `machine`, also those that show what is installed."""
    clock = Clock()
    with tempfile.TemporaryDirectory(prefix="adjourn-") as home:
        set_the_stage(clock, home)
        root = f"{home}/shop"
        os.makedirs(f"{root}/.aex")
        os.chdir(root)
        Path(".aex/policy.aex").write_text(POLICY)
        Story(root, clock).tell()
        for name, command in COMMANDS.items():
            yield name, screen(command, _plain(shown(*command), home))
        if machine:
            fresh = f"{home}/new"
            os.makedirs(f"{fresh}/.git")
            os.chdir(fresh)
            Path("server.py").write_text(SERVER)
            servers = {"inv": {"command": sys.executable, "args": ["server.py"]}}
            Path(".mcp.json").write_text(json.dumps({"mcpServers": servers}, indent=2))
            os.mkdir(".claude")
            for name, command in OF_THIS_MACHINE.items():
                yield name, screen(command, _plain(shown(*command, typed=TYPED.get(name, "")), home))
                with open(".aex/policy.aex", "a", encoding="utf-8") as policy:
                    policy.write("deny inv.remove_itm\n")  # what doctor finds
        os.chdir("/")


def _plain(text: str, home: str) -> str:
    """Paths as on a person's machine."""
    return (
        text.replace(sys.executable, "python3")
        .replace(home, "~")
        .replace(os.path.dirname(sys.executable), "~/.local/bin")
    )


def _masked(svg: str) -> str:
    """Without digests, which change with every member that an event gains."""
    return re.sub(r"[0-9a-f]{32,}", "…", svg)


def main() -> int:
    """Write the pictures; with --check, name those that are not current and return 1."""
    check = "--check" in sys.argv[1:]
    stale = []
    for name, svg in draw(machine=not check):
        path = SCREENS / f"{name}.svg"
        if check:
            if not path.exists() or _masked(path.read_text("utf-8")) != _masked(svg):
                stale.append(name)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(svg, encoding="utf-8")
    if stale:
        print(f"not current: {', '.join(stale)}; run python docs/draw_screens.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
