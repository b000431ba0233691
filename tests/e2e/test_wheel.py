"""The wheel as users get it: installed into an environment of its own, with each extra, by uvx, by pipx.

By default in the Python that runs the tests, with the versions of constraints.txt. `make test-wheel` (ADJOURN_CAMPAIGN=1): in every
supported release of Python that is found, with the newest versions of all dependencies; a release that is not found is named as skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adjourn import __version__
from support.home import Home
from support.proxy import ECHO, NEW, Client, Done, refused, wait_for
from support.proxy import run as run_at_terminal
from support.releasing import PROGRAMS, ROOT, Interpreter, attempt, build, from_index, interpreters, repository, run

IS_LONG = os.environ.get("ADJOURN_CAMPAIGN") == "1"
RUNNING = Interpreter("{}.{}".format(*sys.version_info), sys.executable)
PYTHONS = interpreters(["3.11", "3.12", "3.13", "3.14"]) if IS_LONG else [RUNNING]
EXTRAS = {
    "anthropic": "import anthropic, adjourn.adapters.anthropic",
    "openai": "import openai, adjourn.adapters.openai",
    "langgraph": "import adjourn.langgraph",
    "postgres": "import psycopg, adjourn.store.postgres",
    "code": "import tree_sitter, yaml, watchfiles, adjourn.code.server",
    "ui": "import adjourn.ui.server",
}
EVERY_NAME = "import adjourn; print(len([getattr(adjourn, name) for name in adjourn.__all__]))"
POLICY = 'policy work v1\ngoal "a test"\nallow echo, slow\nbudget calls=20\n'


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (found,) = build(repository(tmp_path_factory.mktemp("source")), "--bare").glob("*.whl")
    return found


class Installation:
    """An environment with the wheel, what it declares, and one extra."""

    def __init__(self, folder: Path, python: Interpreter, wheel: Path, extra: str = "") -> None:
        if not python.program:
            pytest.skip(f"Python {python.release} is not installed here")
        self.folder = folder / "env"
        run([PROGRAMS / "uv", "venv", "--quiet", "--python", python.program, self.folder], folder)
        versions = () if IS_LONG else ("--constraint", ROOT / "tests" / "constraints.txt")
        wanted = f"adjourn[{extra}] @ {wheel.as_uri()}" if extra else wheel
        install = [PROGRAMS / "uv", "pip", "install", "--quiet", "--python", self.folder, *versions, wanted]
        from_index(attempt(install, folder))
        self.python, self.adjourn = str(self.folder / "bin" / "python"), str(self.folder / "bin" / "adjourn")


@pytest.fixture
def clients() -> Iterator[list[Client]]:
    started: list[Client] = []
    yield started
    for client in started:
        client.kill()


@pytest.fixture(params=PYTHONS, ids=lambda python: python.release)
def python(request: pytest.FixtureRequest) -> Interpreter:
    found: Interpreter = request.param
    return found


def test_a_session_is_killed_and_resumed(
    python: Interpreter, wheel: Path, tmp_path: Path, clients: list[Client]
) -> None:
    """With nothing but what it declares: version, public names, init, doctor, a killed session, its resume, verify."""
    installed = Installation(tmp_path, python, wheel)
    at = Home(tmp_path, installed.adjourn)

    def adjourn(*words: str) -> Done:
        done = run_at_terminal(*words, cwd=at.root, env=at.environment, program=[installed.adjourn])
        assert done.code == 0, done
        return done

    def client() -> Client:
        server = json.loads((at.root / ".mcp.json").read_text())["mcpServers"]["echo"]
        clients.append(Client([server["command"], *server["args"]], at.root, at.environment, NEW, "tester", {}))
        clients[-1].greet()
        return clients[-1]

    told = adjourn("--version", "--json").json
    assert (told["version"], told["python"].rpartition(".")[0]) == (__version__, python.release)
    assert int(run([installed.python, "-I", "-c", EVERY_NAME], tmp_path)) > 50
    assert (installed.folder / "share" / "man" / "man1" / "adjourn.1").exists()
    assert "adjourn" in adjourn("completion", "bash").out

    received = tmp_path / "received"
    received.mkdir()
    echo = {"command": installed.python, "args": ["-I", "-S", str(ECHO), str(received)]}
    at.write(".mcp.json", json.dumps({"mcpServers": {"echo": echo}}))
    adjourn("init", "--yes")
    at.write(".aex/policy.aex", POLICY)
    first = client()
    assert not refused(first.call("echo"))
    first.meta("aex.checkpoint", name="half-way")
    first.begin("slow", {"seconds": 60})
    wait_for(lambda: "slow" in (received / "calls").read_text().split())
    first.kill()

    adjourn("doctor", "--yes")
    again = client().meta("aex.resume", name="half-way")
    assert (again["callsUsed"], again["budgetRemaining"]) == (2, 18)
    assert [doubt["tool"] for doubt in again["inDoubt"]] == ["slow"]
    assert adjourn("verify", "--json").json["valid"]


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_has_what_its_part_needs(
    python: Interpreter, extra: str, wheel: Path, tmp_path: Path, clients: list[Client]
) -> None:
    """Each extra alone lets its modules be imported; with `code` the server of coding sessions answers."""
    installed = Installation(tmp_path, python, wheel, extra)
    run([installed.python, "-I", "-c", EXTRAS[extra]], tmp_path)
    if extra == "code":
        at = Home(tmp_path, installed.adjourn)
        run(["git", "init", "--quiet"], at.root)
        clients.append(Client(["adjourn", "code"], at.root, at.environment, NEW, "tester", {}))
        clients[-1].greet()
        assert len(clients[-1].tools()) == 21


# --- uvx and pipx -----------------------------------------------------------------------------------------------------


class Tools:
    """uv and pipx with folders of their own, and a project with one server."""

    def __init__(self, path: Path, wheel: Path) -> None:
        self.wheel = str(wheel)
        self.root, self.bin, self.cache = path / "work", path / "local-bin", path / "cache"
        self.root.mkdir()
        certificates = {name: os.environ[name] for name in ("SSL_CERT_FILE", "PIP_CERT") if name in os.environ}
        self.environment = certificates | {
            "HOME": str(path), "LANG": "C.UTF-8", "PATH": f"{self.bin}:/usr/bin:/bin", "XDG_CACHE_HOME": str(self.cache),
            "PIPX_HOME": str(path / "pipx"), "PIPX_BIN_DIR": str(self.bin), "UV_TOOL_BIN_DIR": str(self.bin),
            "UV_PYTHON": sys.executable, "PIPX_DEFAULT_PYTHON": sys.executable,
        }  # fmt: skip
        listing = ["-I", "-S", str(ECHO.with_name("listing.py")), str(path / "called"), "list_items"]
        inv = {"command": sys.executable, "args": listing}
        (self.root / ".mcp.json").write_text(json.dumps({"mcpServers": {"inv": inv}}))

    def run(self, *words: str) -> Done:
        """A command that may need the package index, at a terminal."""
        program, *arguments = words
        place = PROGRAMS / program if program in {"uv", "uvx", "pipx"} else self.bin / program
        return run_at_terminal(*arguments, cwd=self.root, env=self.environment, program=[str(place)])

    def server(self) -> Any:
        return json.loads((self.root / ".mcp.json").read_text())["mcpServers"]["inv"]


@pytest.fixture
def tools(tmp_path: Path, wheel: Path) -> Tools:
    tools = Tools(tmp_path, wheel)
    from_index(
        attempt([PROGRAMS / "uvx", "--from", str(wheel), "adjourn", "--version"], tools.root, -1, **tools.environment)
    )
    return tools


@pytest.mark.parametrize("words", [("uvx", "--from"), ("pipx", "run", "--spec")], ids=["uvx", "pipx run"])
def test_what_runs_from_a_cache_is_not_registered(tools: Tools, words: tuple[str, ...]) -> None:
    """uvx and `pipx run` run adjourn, but `init` refuses: a client could not start it when the cache is gone."""
    command = (*words, tools.wheel, "adjourn")
    before = tools.server()
    assert tools.run(*command, "--version").out == f"adjourn {__version__}\n"
    done = tools.run(*command, "init", "--yes")
    assert done.code == 1
    assert f"in a cache only ({tools.root.parent}" in done.err
    assert "uv tool install adjourn" in done.err
    assert tools.server() == before
    assert not (tools.root / ".aex").exists()
    assert tools.run(*command, "init", "--policy", "--yes").code == 0, "a policy names no program"


@pytest.mark.parametrize("words", [("uv", "tool", "install"), ("pipx", "install")], ids=["uv tool", "pipx"])
def test_what_is_installed_as_a_tool_starts_without_the_cache(
    tools: Tools, words: tuple[str, ...], clients: list[Client]
) -> None:
    """What `init` registered starts after every cache is deleted."""
    done = tools.run(*words, tools.wheel)
    assert done.code == 0, done
    assert tools.run("adjourn", "init", "--yes").code == 0
    shutil.rmtree(tools.cache)
    server = tools.server()
    assert server["args"][0] == "proxy"
    clients.append(Client([server["command"], *server["args"]], tools.root, tools.environment, NEW, "tester", {}))
    clients[-1].greet()
    assert not refused(clients[-1].call("list_items"))
    assert tools.run("adjourn", "doctor", "--yes").code == 0
