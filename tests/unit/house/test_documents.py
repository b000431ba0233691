"""What documents say of the source is so: names of files, the picture of the packages, figures; and how long they are."""

from __future__ import annotations

import json
import re
import runpy
import sys
import tomllib
from itertools import chain
from pathlib import Path

import msgspec
import pytest

from adjourn import __version__
from adjourn.handover.rendering import ROOM
from adjourn.handover.session_brief import NOTICE_BYTES
from adjourn.mcp.frames import BATCH_REVISIONS
from adjourn.proxy.main import HEARTBEAT_SECONDS
from adjourn.relay.answers import SETTLE_SECONDS
from adjourn.relay.meta import DEFINITIONS
from adjourn.setup.places import CLIENTS as SET_UP
from adjourn.tasks import lease
from adjourn.tasks.budgets import NOTICE_SHARES
from adjourn.tasks.decision import MAX_LEGS
from support.cases import for_each

REPOSITORY = Path(__file__).parents[3]
PAGES = ("docs/explanation/architecture.md", "CONTRIBUTING.md")
_FILE = re.compile(r"`([\w./]+\.(?:py|md|toml))`")


@pytest.mark.parametrize("page", PAGES)
def test_the_files_that_a_page_names_exist(page: str) -> None:
    """A file is named by its path in the repository, or in the package."""
    names = _FILE.findall((REPOSITORY / page).read_text("utf-8"))
    assert names
    missing = [
        name
        for name in names
        if not (REPOSITORY / name).exists() and not (REPOSITORY / "src" / "adjourn" / name).exists()
    ]
    assert missing == []


def test_the_picture_of_the_packages_is_what_they_import(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/assets/architecture.svg is what `python docs/draw_architecture.py` draws now."""
    monkeypatch.setattr(sys, "path", [*sys.path])  # the program adds to it
    draw = runpy.run_path(str(REPOSITORY / "docs" / "draw_architecture.py"))
    assert draw["picture"]() == (REPOSITORY / "docs" / "assets" / "architecture.svg").read_text("utf-8")


def test_the_documentation_stays_within_its_budget() -> None:
    """All pages but the decisions have together at most the words that CONTRIBUTING.md names."""
    named = re.search(r"at most ([\d,]+) words", (REPOSITORY / "CONTRIBUTING.md").read_text("utf-8"))
    assert named
    pages = [path for path in (REPOSITORY / "docs").rglob("*.md") if path.parent.name != "adr"]
    pages += [REPOSITORY / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md")]
    words = {path.relative_to(REPOSITORY).as_posix(): len(path.read_text("utf-8").split()) for path in pages}
    most = sorted(words.items(), key=lambda item: -item[1])[:10]
    assert sum(words.values()) <= int(named[1].replace(",", "")), f"shorten: {most}"


def test_what_the_meta_tools_add_to_a_context() -> None:
    """docs/costs.md names the number of meta-tools, and their size in kB; README.md has that size, too."""
    text, head = ((REPOSITORY / name).read_text("utf-8") for name in ("docs/costs.md", "README.md"))
    size = sum(len(msgspec.json.encode({"name": name, **tool})) for name, tool in DEFINITIONS.items())
    assert len(DEFINITIONS) == 10
    assert f"ten meta-tools add {size / 1000:.1f} kB" in text
    assert f"[{size / 1000:.1f} kB to the list of tools]" in head


CONNECTING = {
    "cli/demo_client.py": "`adjourn demo`",
    "gateway/network_path.py": "`adjourn proxy --url`, `adjourn serve` with servers over HTTP",
    "gateway/login_flow.py": "`adjourn serve login`",
    "host/http.py": "what asks the next ones",
    "adapters/otlp.py": "traces and metrics of the gateway",
    "gateway/tokens.py": "the issuer of that server",
    "gateway/token_requests.py": "`exchange` and `introspection` of the gateway",
    "gateway/tracing.py": "traces and metrics of the gateway",
    "notify/senders.py": "`adjourn notify`",
    "runs/runner.py": "a run with a model",
    "store/postgres_link.py": "a store on PostgreSQL",
    "langgraph/importing.py": "a store on PostgreSQL",
}
"""Module → the feature of docs/what-leaves-my-machine.md that it connects for."""
_CONNECTS = re.compile(
    r"^\s*(?:from|import) (?:http\.client|urllib\.request|urllib3|httpx|aiohttp|requests|smtplib|ftplib|websockets|psycopg\b"
    r"|mcp\.client|adjourn\.host\.http)|\b(?:create_connection|open_connection)\(|\bsocket\.AF_INET",
    re.MULTILINE,
)


def test_what_connects_elsewhere_is_named() -> None:
    """Modules that can open a connection to another machine are few, and the page of what leaves a machine has what each is for."""
    source = REPOSITORY / "src" / "adjourn"
    found = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if _CONNECTS.search(path.read_text("utf-8"))
    }
    assert found == CONNECTING.keys()
    text = " ".join((REPOSITORY / "docs" / "what-leaves-my-machine.md").read_text("utf-8").split())
    assert [use for name, use in CONNECTING.items() if use not in text and name != "host/http.py"] == []


def _words(page: str) -> str:
    return " ".join((REPOSITORY / page).read_text("utf-8").split())


def _milliseconds(row: str) -> list[float]:
    """The figures of a row of the benchmarks' table of latencies: direct, pass-through, floor, adjourn."""
    found = re.search(rf"^\| {row} \|(.*)\|$", (REPOSITORY / "docs" / "benchmarks.md").read_text("utf-8"), re.MULTILINE)
    assert found, row
    return [int(cell.replace(",", "")) / 1000 for cell in found[1].split("|")]


READING, WRITING = _milliseconds("a call that reads"), _milliseconds("a call with effects, on disk before it is sent")
PYTHON = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]["requires-python"].removeprefix(
    ">="
)
TOOLS = [
    row.split("\t")[0]
    for row in (REPOSITORY / "tests" / "data" / "tool_effects.tsv").read_text("utf-8").splitlines()[1:]
]
CHANGED = [client for client in SET_UP if client.name != "Claude Desktop"]  # which starts no servers per project
COUNTED = ("nine", "ten", "eleven", "twelve")
RECORDED = json.loads((REPOSITORY / "docs" / "assets" / "session.cast").read_text("utf-8").partition("\n")[0])["title"]
CLIENTS = re.findall(r"(Claude Code|Codex) ([\d.]+)", RECORDED)


@for_each(
    ("page", "sentence"),
    [
        ("README.md", f"[{READING[-1]:.1f} ms to a reading call]"),
        ("README.md", "Recorded with {} {} and {} {}".format(*chain(*CLIENTS))),
        ("README.md", f"(Claude Code, Codex and {dict(enumerate(COUNTED, 9))[len(CHANGED) - 2]} more)"),
        ("README.md", f"Python {PYTHON} or newer"),
        ("SECURITY.md", f"of a killed session after {lease.LEASE_MILLISECONDS // 1000} s"),
        ("SECURITY.md", f"two gateways after about {lease.SILENCE_SECONDS + lease.RENEW_SECONDS:.0f} s"),
        ("SECURITY.md", f"reset by at most {HEARTBEAT_SECONDS:.0f} s"),
        ("SECURITY.md", f"of {len(TOOLS):,} tools of {len({*TOOLS})} real servers"),
        ("docs/explanation/trust.md", f"may lag by {HEARTBEAT_SECONDS:.0f} s"),
        ("docs/explanation/trust.md", f"reset by at most {HEARTBEAT_SECONDS:.0f} s"),
        ("docs/explanation/durability.md", f"at most {SETTLE_SECONDS:.0f} s"),
        ("docs/explanation/eras.md", f"A call can continue {MAX_LEGS} times"),
        ("docs/explanation/eras.md", f"in revisions {' and '.join(BATCH_REVISIONS)}"),
        ("docs/costs.md", f"{READING[-1]:.1f} ms instead of {READING[0]} ms"),
        ("docs/costs.md", f"on disk before it is sent | {WRITING[-1]:.1f} ms |"),
        (
            "docs/costs.md",
            f"at most {ROOM // 1024} KiB from the hook, or {NOTICE_BYTES // 1024} KiB in the server's instructions",
        ),
        ("docs/costs.md", "when {} % and {} % of a budget are spent".format(*NOTICE_SHARES)),
    ],
)
def test_a_figure_of_a_page_is_the_programs(page: str, sentence: str) -> None:
    """A figure that the program, a list or a measurement has is on a page as it is there."""
    assert sentence in _words(page)


_COMMAND = re.compile(r"`adjourn ([a-z][^`]*)`|^ *\$ adjourn ([a-z].*)$", re.MULTILINE)


def test_commands_that_pages_name_exist() -> None:
    """Each `adjourn COMMAND` that a page has in code is one, with its subcommand and the options behind it."""
    commands = json.loads((REPOSITORY / "tests" / "data" / "surface" / "commands.json").read_text("utf-8"))
    pages = [path for path in (REPOSITORY / "docs").rglob("*.md") if path.parent.name != "adr"]
    wrong, seen = [], set()
    for page in [*pages, REPOSITORY / "README.md", REPOSITORY / "SECURITY.md"]:
        for found in _COMMAND.finditer(page.read_text("utf-8")):
            line: str = re.sub(r"'[^']*'|\"[^\"]*\"", "TEXT", found[1] or found[2])
            name, *words = f"adjourn {re.split(r' -- | --$|[|<>;&]', line)[0]}".split()
            while words and f"{name} {words[0]}" in commands:
                name += f" {words.pop(0)}"
            seen.add(name)
            options = {word.partition("=")[0] for word in words if re.match(r"--\w", word)}
            is_odd = commands[name]["group"] and not commands[name]["arguments"] and bool(words) and words[0].isalpha()
            if name == "adjourn" or is_odd or options - commands[name]["options"].keys():
                wrong.append((page.name, found[0]))
    assert wrong == []
    assert len(seen) > 50


def test_nothing_is_called_published_before_a_release() -> None:
    """While CHANGELOG calls this version unreleased, README and the known limits say that nothing is published."""
    is_open = f"## [{__version__}] - unreleased" in (REPOSITORY / "CHANGELOG.md").read_text("utf-8")
    for page in ("README.md", "docs/known-limits.md"):
        assert ("Nothing is published yet" in _words(page)) == is_open


def test_pages_import_public_names() -> None:
    """Programs of the documentation import from public packages only."""
    imported = {
        found[1] or ""
        for path in (REPOSITORY / "docs").rglob("*.md")
        if path.parent.name != "adr"
        for found in re.finditer(r"^\s*from adjourn(?:\.([\w.]+))? import", path.read_text("utf-8"), re.MULTILINE)
    }
    assert imported <= {"", "aex", "store"}, "of others: from adjourn import testing, langgraph"
