"""Every block of the documentation that can be run is run, as a reader would: in an empty HOME, in a scratch folder.

What a block is, its language and the HTML comments before it say:

    ```console              lines after `$ ` are run in one shell a page; what follows is what they print, loosely: `…` stands
                            for anything, white space counts once. Nothing shown: only the exit code counts
    ```python               is run; with a `file` comment it is written down instead, as are ```aex, ```json, ```toml
    ```json, ```toml, ```aex    are parsed
    ```yaml                 is checked by test_ci.py
    ```text                 is text

    <!-- file: NAME -->     the block is the content of NAME
    <!-- uses: PAGE -->     the files of another page are there, too; with names behind it, only those
    <!-- sample: A B -->    the page's names for what the product makes up: what stands there when A is first printed is A
    <!-- on: NAME -->       the block is run on another machine: with a HOME and a folder of its own
    <!-- needs: WHAT -->    not run without WHAT; a ```console block is then checked for its syntax only
    <!-- fails -->          the last command of the block exits with another code than 0
    <!-- setup ... -->      commands that are run, and not shown

Owns: that convention, links, and what reference pages must name. Must never: touch anything but its scratch folder.
"""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple, Self

import pytest

from adjourn.aex import examine
from adjourn.checkpoints import attachments as shapes
from adjourn.clients.options import options_of
from adjourn.log.kinds import REGISTRY
from adjourn.relay.meta import DEFINITIONS
from support.cases import for_each

ROOT = Path(__file__).resolve().parents[2]
NOT_OURS = {"docs/reference/diagnostics.md", "docs/STATUS.md"}
"""A page that a program makes, and one that the site does not have: only their links are examined."""
PAGES = sorted(
    [
        *(ROOT / name for name in ("README.md", "CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md")),
        *(ROOT / "docs").rglob("*.md"),
    ]
)
LANGUAGES = {"console", "python", "json", "toml", "yaml", "aex", "text"}
SECONDS = 30.0
MARK = "--- that was it:"

_FENCE = re.compile(r"^( *)```(\S*)\s*$")
_COMMENT = re.compile(r"^ *<!-- *(file|uses|sample|on|needs|fails)\b:? *(.*?) *-->$")
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.*)$", re.MULTILINE)


class Block(NamedTuple):
    """A fenced block (or a setup comment), with the comments before it by their first word."""

    line: int
    language: str
    text: str
    comments: dict[str, str]


class Page:
    """A page's blocks and its own words for what the product makes up."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = path.read_text(encoding="utf-8")
        self.samples: list[str] = []
        self.uses: list[list[str]] = []
        self.blocks = list(self._parse())

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @property
    def runs(self) -> bool:
        return any(block.language in ("console", "python") and "needs" not in block.comments for block in self.blocks)

    def _parse(self) -> Iterator[Block]:
        lines = iter(enumerate(self.text.splitlines(), 1))
        comments: dict[str, str] = {}
        for number, line in lines:
            if fence := _FENCE.match(line):
                body = _until(lines, "```")
                indent = len(fence[1])
                yield Block(number, fence[2], "".join(inner[indent:] + "\n" for inner in body), comments)
                comments = {}
            elif line.startswith("<!-- setup"):
                yield Block(number, "console", "".join(inner + "\n" for inner in _until(lines, "-->")), comments)
                comments = {}
            elif comment := _COMMENT.match(line):
                self._remark(comment[1], comment[2], comments)
            elif line.strip():
                comments = {}

    def _remark(self, word: str, rest: str, comments: dict[str, str]) -> None:
        if word == "sample":
            self.samples += rest.split()
        elif word == "uses":
            self.uses.append(rest.split())
        else:
            comments[word] = rest


def _until(lines: Iterator[tuple[int, str]], end: str) -> list[str]:
    return [line for _, line in takewhile(lambda numbered: numbered[1].strip() != end, lines)]


class Command(NamedTuple):
    """What is typed, and what is shown of what it prints."""

    text: str
    shown: list[str]


def commands(block: Block) -> list[Command]:
    found: list[Command] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:], []))
        elif line.startswith("> ") and found and not found[-1].shown:
            found[-1] = Command(f"{found[-1].text}\n{line[2:]}", [])
        elif found:
            found[-1].shown.append(line)
        else:
            raise AssertionError(f"line {block.line}: a console block begins with `$ `")
    return found


class Names:
    """What the page's samples stand for in this run."""

    def __init__(self, samples: list[str], known: dict[str, str]) -> None:
        self._samples = sorted(samples, key=len, reverse=True)
        self._known = dict(known)
        self._find = re.compile("|".join(map(re.escape, self._samples))) if samples else None

    def real(self, text: str) -> str:
        """A command with what its samples stand for."""
        return self._find.sub(lambda match: self._known[match[0]], text) if self._find else text

    def matches(self, shown: list[str], printed: str) -> bool:
        """Whether a command printed what is shown; samples met for the first time get their meaning."""
        new: list[str] = []
        lines = []
        for line in shown:
            pieces = re.split(f"(…|{self._find.pattern})" if self._find else "(…)", " ".join(line.split()))
            lines.append("".join(self._pattern(piece, new) for piece in pieces))
        pattern = "\n".join(lines).replace("\n.*", r"(?:\n.*)?")
        text = "\n".join(" ".join(line.split()) for line in printed.splitlines())
        found = re.fullmatch(pattern, text.strip(), re.DOTALL)
        if found is not None:
            self._known |= {sample: found[f"s{number}"] for number, sample in enumerate(new)}
        return found is not None

    def _pattern(self, piece: str, new: list[str]) -> str:
        if piece == "…":
            return ".*?"
        if piece not in self._samples:
            return re.escape(piece)
        if piece in self._known:
            return re.escape(self._known[piece])
        if piece in new:
            return f"(?P=s{new.index(piece)})"
        new.append(piece)
        return f"(?P<s{len(new) - 1}>{_shape(piece)})"


def _shape(sample: str) -> str:
    if sample.isdigit():
        return r"\d+"
    if re.fullmatch(r"[0-9a-z.-]+", sample):
        return "".join("[0-9a-z]" if char.isalnum() else re.escape(char) for char in sample)
    return r"\S+"


class Shell:
    """A shell with a HOME, a folder and a terminal of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.folder.mkdir(parents=True)
        (folder / "home").mkdir()
        kept = {key: os.environ[key] for key in ("LANG", "TMPDIR") if key in os.environ}
        self.environment = {
            **kept,
            "HOME": str(folder / "home"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "NO_COLOR": "1",
            "TZ": "UTC",
            "GIT_CONFIG_NOSYSTEM": "1",
            "PYTHONWARNINGS": "ignore",
        }
        self._shell = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._terminal = os.openpty()
        self.run(f": <> {os.ttyname(self._terminal[1])}")  # who leads a session takes it as its own

    def _read(self) -> None:
        assert self._shell.stdout is not None
        for line in self._shell.stdout:
            self._lines.put(line)

    def run(self, command: str) -> tuple[str, int]:
        """What a command prints on both streams, and its exit code."""
        assert self._shell.stdin is not None
        script = f"{{ {command}\n}} </dev/null\nprintf '\\n{MARK} %d\\n' $?\n"
        self._shell.stdin.write(script.encode())
        self._shell.stdin.flush()
        printed: list[str] = []
        end = time.monotonic() + SECONDS
        while True:
            try:
                line = self._lines.get(timeout=max(0.01, end - time.monotonic())).decode(errors="replace")
            except queue.Empty:
                raise AssertionError(f"$ {command}\ndid not end; it printed\n{''.join(printed)}") from None
            if line.startswith(MARK):
                return "".join(printed).removesuffix("\n"), int(line.split()[-1])
            printed.append(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        os.killpg(self._shell.pid, signal.SIGKILL)  # the shell, and what it left in the background
        self._shell.wait()
        self._reader.join(5)
        for stream in (self._shell.stdin, self._shell.stdout):
            assert stream is not None
            stream.close()
        for descriptor in self._terminal:
            os.close(descriptor)


class Reading:
    """One page, followed from top to bottom. `known` is what samples stand for, `has` what blocks may need."""

    def __init__(self, page: Page, folder: Path, known: dict[str, str], has: set[str]) -> None:
        self.page = page
        self.folder = folder
        self.names = Names(page.samples, known)
        self._has = has
        self._machines: dict[str, Shell] = {}

    def follow(self) -> None:
        try:
            for page, *names in self.page.uses:
                for block in Page(self.page.path.parent / page).blocks:
                    name = block.comments.get("file")
                    if name and (not names or name in names):
                        self._write(name, block)
            for block in self.page.blocks:
                self._block(block)
        finally:
            for machine in self._machines.values():
                machine.__exit__()

    def _machine(self, block: Block | None = None) -> Shell:
        name = block.comments.get("on", "here") if block else "here"
        if name not in self._machines:
            self._machines[name] = Shell(self.folder / name)
        return self._machines[name]

    def _write(self, name: str, block: Block) -> None:
        path = self._machine(block).folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")

    def _block(self, block: Block) -> None:
        needs = block.comments.get("needs")
        if needs is not None and needs not in self._has:
            return
        if name := block.comments.get("file"):
            self._write(name, block)
        elif block.language == "console":
            self._console(block)
        elif block.language == "python":
            self._write("block.py", block)
            printed, code = self._machine(block).run("python block.py")
            assert code == 0, f"{self.page.name}:{block.line}\n{printed}"

    def _console(self, block: Block) -> None:
        machine = self._machine(block)
        told = commands(block)
        for number, (command, shown) in enumerate(told):
            printed, code = machine.run(self.names.real(command))
            where = f"{self.page.name}:{block.line}\n$ {command}\nexit code {code}, printed\n{printed}"
            assert (code != 0) == ("fails" in block.comments and number == len(told) - 1), where
            if shown:
                assert self.names.matches(shown, printed), where + "\nwhere the page has\n" + "\n".join(shown)


PARSED = [Page(path) for path in PAGES]
RUN = [page for page in PARSED if page.runs and page.name not in NOT_OURS]


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_what_a_page_says_happens(page: Page, tmp_path: Path) -> None:
    """Following a page does what the page shows."""
    Reading(page, tmp_path, {}, set()).follow()


@pytest.mark.slow
def test_the_page_about_postgresql(new_postgres_url: Callable[[], str], tmp_path: Path) -> None:
    """With a server, what docs/how-to/postgresql.md says happens."""
    page = next(page for page in PARSED if page.path.stem == "postgresql")
    Reading(page, tmp_path, {page.samples[0]: new_postgres_url()}, {"postgresql"}).follow()


@for_each("page", PARSED, ids=lambda page: page.name)
def test_blocks_are_well_formed(page: Page, tmp_path: Path) -> None:
    """Blocks that are not run are at least of a known language, and parse."""
    for block in () if page.name in NOT_OURS else page.blocks:
        where = f"{page.name}:{block.line}"
        assert block.language in LANGUAGES, f"{where}: {block.language or 'no language'}"
        if block.language == "json":
            json.loads(block.text)
        elif block.language == "toml":
            tomllib.loads(block.text)
        elif block.language == "python":
            compile(block.text, where, "exec")
        elif block.language == "aex":
            findings = examine(block.text, where).findings
            assert not [found for found in findings if found.severity == "error"], where
        elif block.language == "console":
            for command, _ in commands(block):
                script = tmp_path / "script"
                script.write_text(command + "\n", encoding="utf-8")
                done = subprocess.run(["bash", "-n", script], capture_output=True, text=True, check=False)
                assert done.returncode == 0, f"{where}: {done.stderr}"


def anchors(text: str) -> set[str]:
    """What GitHub makes of headings."""
    plain = (re.sub(r"[`*]", "", heading).strip().lower() for heading in _HEADING.findall(text))
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


@for_each("page", PARSED, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Page) -> None:
    """A relative link names a file of the repository, and a heading that is in it."""
    prose = re.sub(r"^( *)```.*?^ *```", "", page.text, flags=re.DOTALL | re.MULTILINE)
    for link in _LINK.findall(prose):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        path = (page.path.parent / target).resolve() if target else page.path
        assert path.exists(), f"{page.name}: {link}"
        assert path.is_relative_to(ROOT), f"{page.name}: {link}"
        if anchor and path.suffix == ".md":
            assert anchor in anchors(path.read_text(encoding="utf-8")), f"{page.name}: {link}"


def test_every_page_can_be_found() -> None:
    """Every page under docs/ is linked from docs/README.md, or from the index of its own folder."""
    indexes = [ROOT / "docs" / "README.md", *(ROOT / "docs").glob("*/README.md")]
    linked = {
        (index.parent / link.partition("#")[0]).resolve()
        for index in indexes
        for link in _LINK.findall(index.read_text(encoding="utf-8"))
    }
    missing = {page.path.resolve() for page in PARSED if page.name.startswith("docs/")} - linked
    assert {path.relative_to(ROOT).as_posix() for path in missing} <= {"docs/README.md", *NOT_OURS}


@for_each("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_reader_sees_what_a_page_needs(page: Path) -> None:
    """The name of each file stands in the text above it, and a page whose files are used is linked near the top: comments are not shown."""
    above, lines = "", page.read_text(encoding="utf-8").splitlines()
    shown = [line for line in lines if not line.startswith("<!--")]
    for line in lines:
        if match := re.match(r"<!-- file: (.+?) -->$", line):
            assert match[1] in above, f"say above the block that it is `{match[1]}`"
        elif match := re.match(r"<!-- uses: (\S+)", line):
            assert any(f"{Path(match[1]).name})" in one for one in shown[:20]), f"link {match[1]} near the top"
        elif line.strip() and not line.startswith("<!--"):
            above = f"{above} {line}" if above and not line.startswith("#") else line
        if line.startswith("```"):
            above = ""


def test_lines_are_short() -> None:
    """Lines of prose are wrapped at 120."""
    for page in PARSED:
        if page.name in NOT_OURS or page.name == "docs/reference/store.md":
            continue
        fenced = False
        for number, line in enumerate(page.text.splitlines(), 1):
            fenced ^= bool(_FENCE.match(line))
            if not fenced and not line.startswith("|"):
                assert len(line) <= 120, f"{page.name}:{number}"


def reference(name: str) -> str:
    return (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")


def test_the_proxy_s_options_are_all_described() -> None:
    """docs/reference/proxy.md has a row for each option: its value, environment variable, default and choices."""
    rows = [line for line in reference("proxy.md").splitlines() if line.startswith("| `--")]
    named = {row.split("`")[1]: row for row in rows}
    due = {f"{option.flag} {option.metavar}".strip(): option for option in options_of("proxy")}
    assert set(named) == set(due)
    for spelled, option in due.items():
        for word in (
            option.environment,
            option.default,
            *(option.choices if isinstance(option.choices, tuple) else ()),
        ):
            assert f"`{word}`" in named[spelled] or not word, (spelled, word)


def test_the_meta_tools_are_all_described() -> None:
    """docs/reference/meta-tools.md has a heading for each meta-tool, and a row for each of its inputs."""
    text = reference("meta-tools.md")
    sections = dict(
        zip(
            re.findall(r"^## `(.*)`$", text, re.MULTILINE),
            re.split(r"^## `.*`$", text, flags=re.MULTILINE)[1:],
            strict=True,
        )
    )
    assert list(sections) == list(DEFINITIONS)
    for name, definition in DEFINITIONS.items():
        schema = definition["inputSchema"]
        rows = re.findall(r"^\| `(\w+)` \| \w+ \| (yes|no) \|", sections[name], re.MULTILINE)
        required = schema.get("required", [])
        assert rows == [(key, "yes" if key in required else "no") for key in schema["properties"]]


def test_what_an_agent_is_told_of_is_described() -> None:
    """docs/reference/meta-tools.md names every kind of event that a resume shows."""
    text = reference("meta-tools.md")
    assert {kind for kind in REGISTRY if f"`{kind}`" in text} >= shapes.AUDITED
