"""A workspace full of files that take the place of programs and modules: none of them is ever started or imported by us.

Each trap leaves a mark when it runs.
"""

from __future__ import annotations

import json
import os
import pty
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.code_server import SECONDS, Repo, Server
from support.home import Home
from support.proxy import ProxyWorkspace

BIN = Path(sys.executable).parent
TRAPPED = (
    "adjourn/__init__.py", "adjourn/__main__.py", "msgspec.py", "click/__init__.py", "mcp/__init__.py", "pydantic.py",
    "tree_sitter.py", "tree_sitter_python.py", "watchfiles.py", "yaml.py", "sqlite3.py", "json.py", "numpy.py", "rfc8785.py",
    "sitecustomize.py", "usercustomize.py", "cryptography/__init__.py", "re2.py", "psycopg.py",
)  # fmt: skip


def trap(root: Path, mark: Path, names: tuple[str, ...] = TRAPPED) -> None:
    """Modules that leave a mark when they are imported."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"open({str(mark)!r}, 'a').write(__file__ + '\\n')\n")


def program(path: Path, mark: Path) -> Path:
    """A program that leaves a mark when it is run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho \"$0 $*\" >>'{mark}'\nexit 1\n")
    path.chmod(0o755)
    return path


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    assert condition()


class Hostile(Repo):
    """A repository with enough files for workers, and variables of its own."""

    more: dict[str, str]

    @property
    def environment(self) -> dict[str, str]:
        return super().environment | self.more


class Installed(Server):
    """Started as a client starts it: by the name of the program."""

    def __init__(self, repo: Repo) -> None:
        super().__init__(repo)
        self._command = [str(BIN / "adjourn"), "code"]


def hostile(path: Path, **more: str) -> Hostile:
    files = {f"src/module{number}.py": f"def function{number}():\n    return {number}\n" for number in range(70)}
    files |= {"table.lua": "function table_of_lua() end\n", "README.md": "# Shop\n"}
    repo = Hostile(path, files, git=False)
    repo.more = more
    repo.git("init", "-q", "-b", "main")
    repo.commit("Begin")
    return repo


# --- adjourn code


@pytest.mark.parametrize("variable", ["", "PYTHONPATH=.", "PYTHONPATH=:", "PYTHONPATH=src", "PYTHONUSERBASE=."])
def test_the_server_for_code_imports_nothing_of_the_workspace(tmp_path: Path, variable: str) -> None:
    """Neither the server nor its workers do, whatever the repository has, and wherever PYTHONPATH leads; and definitions are found."""
    name, _, value = variable.partition("=")
    repo = hostile(tmp_path, **{name: value} if name else {})
    mark = tmp_path / "mark"
    folder = repo.root / "src" if value == "src" else repo.root
    # what Python itself imports when it starts under PYTHONPATH is imported before any line of ours
    early = ("adjourn/__init__.py", "adjourn/__main__.py", "sitecustomize.py", "usercustomize.py", "json.py")
    names = tuple(each for each in TRAPPED if not (name == "PYTHONPATH" and each in early))
    trap(folder, mark, names)
    with Installed(repo) as server:
        found: dict[str, object] = {}

        def indexed() -> bool:
            found.update(server.call("find_definitions", {"symbol": "function7"}))
            return found.get("index_state") in ("fresh", "current", "ready") or bool(found.get("definitions"))

        until(indexed)
        server.call("sync_index", {"force": True})
        found = server.call("find_definitions", {"symbol": "function7", "exact_match": True})
        assert [one["file"] for one in found["definitions"]] == ["src/module7.py"]  # type: ignore[attr-defined]
    assert not mark.exists(), mark.read_text()


@pytest.mark.parametrize("where", [".", "", "tools", "{root}/tools"])
def test_programs_are_not_those_of_the_workspace(tmp_path: Path, where: str) -> None:
    """A relative entry of PATH, or one in the workspace, leads to no git, rg or ctags of an agent."""
    repo = hostile(tmp_path)
    mark = tmp_path / "mark"
    for name in ("git", "rg", "ctags", "universal-ctags"):
        program((repo.root if where in (".", "") else repo.root / "tools") / name, mark)
    path = where.format(root=repo.root) + os.pathsep + os.environ["PATH"]
    repo.more = {"PATH": path}
    command = [str(BIN / "adjourn")]
    with Installed(repo) as server:
        assert server.call("find_definitions", {"symbol": "function7"})["definitions"]
        assert server.start("what is function7?", "QUESTION", flags="--no-doc")["phase"]
        server.call("sync_index", {"force": True})
    for arguments in (["doctor", "--json"], ["init", "--yes"], ["status"]):
        subprocess.run([*command, *arguments], cwd=repo.root, env=repo.environment, check=False, timeout=SECONDS)
    assert not mark.exists(), mark.read_text()


def test_an_editor_of_the_workspace_is_not_opened(tmp_path: Path) -> None:
    """`checkpoint edit` looks its editor up outside of the workspace; where there is none, it says so."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        mark = tmp_path / "mark"
        client = work.client()
        client.call("aex.checkpoint", {"name": "n"})
        client.close()
        program(work.root / "vi", mark)
        program(tmp_path / "bin" / "vi", tmp_path / "opened")
        env = {**work.environment, "EDITOR": "vi", "PATH": f".:{work.root}:/nowhere"}
        edit = [str(BIN / "adjourn"), "page", "edit"]
        done = subprocess.run(edit, cwd=work.root, env=env, capture_output=True, text=True, check=False)
        assert (done.returncode, mark.exists()) == (2, False)
        assert "vi is not on PATH outside of" in done.stderr
        env["PATH"] += f":{tmp_path}/bin"
        subprocess.run(edit, cwd=work.root, env=env, capture_output=True, check=False)
        assert (mark.exists(), (tmp_path / "opened").exists()) == (False, True)


# --- the command line, the hook, the proxy


@pytest.mark.parametrize("arguments", [["status"], ["doctor"], ["verify"], ["init", "--yes"], ["log"]])
def test_commands_import_nothing_of_the_workspace(tmp_path: Path, arguments: list[str]) -> None:
    """Not by PYTHONPATH either, once the first line of ours has run."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        mark = tmp_path / "mark"
        trap(
            work.root, mark, tuple(name for name in TRAPPED if not name.startswith(("adjourn", "site", "user", "json")))
        )
        env = work.environment | {"PYTHONPATH": "."}
        done = subprocess.run(
            [str(BIN / "adjourn"), *arguments],
            cwd=work.root, env=env, capture_output=True, text=True, check=False, timeout=SECONDS,
        )  # fmt: skip
        assert "Traceback" not in done.stderr
        assert not mark.exists(), mark.read_text()


def test_a_module_started_in_the_workspace_leaves_it(tmp_path: Path) -> None:
    """`python -m adjourn` has the folder in front of everything; what is imported after its first line is not from there."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        mark = tmp_path / "mark"
        trap(work.root, mark, ("click/__init__.py", "msgspec.py", "rfc8785.py", "cryptography/__init__.py"))
        done = subprocess.run(
            [sys.executable, "-m", "adjourn", "doctor"],
            cwd=work.root, env=work.environment, capture_output=True, text=True, check=False, timeout=SECONDS,
        )  # fmt: skip
        assert done.stdout
        assert not mark.exists(), mark.read_text()


def test_a_command_for_another_folder_imports_nothing_of_it(tmp_path: Path) -> None:
    """With -C the workspace is that folder, and PYTHONPATH may lead there."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        mark = tmp_path / "mark"
        trap(work.root / "lib", mark, ("rfc8785.py", "cryptography/__init__.py", "sqlite3.py", "_sqlite3.py"))
        env = work.environment | {"PYTHONPATH": f"{work.root}/lib"}
        done = subprocess.run(
            [str(BIN / "adjourn"), "doctor", "-C", str(work.root)],
            cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=SECONDS,
        )  # fmt: skip
        assert "code-from-here" in done.stdout
        assert not mark.exists(), mark.read_text()


def test_a_server_named_by_a_relative_entry_of_path_is_not_started(tmp_path: Path) -> None:
    """The proxy's upstream by a bare name is looked up in the absolute entries of PATH alone."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        mark = tmp_path / "mark"
        program(work.root / "server", mark)
        env = work.environment | {"PATH": f".:{os.environ['PATH']}"}
        done = subprocess.run(
            [str(BIN / "adjourn"), "proxy", "--", "server"],
            cwd=work.root, env=env, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=SECONDS,
        )  # fmt: skip
        assert (done.returncode, mark.exists()) == (1, False)
        assert "cannot start the upstream 'server': it is not on PATH" in done.stderr


# --- what init writes, what doctor finds


def test_what_init_writes_starts_nothing_of_the_workspace(tmp_path: Path) -> None:
    """Where the name cannot be relied on, it is the interpreter by its whole path, with -P; and the hook answers as before."""
    at = Home(tmp_path)
    at.write("CLAUDE.md", "# Notes\n")
    at.write(".mcp.json", '{"mcpServers": {"files": {"command": "echo", "args": ["files"]}}}')
    mark = tmp_path / "mark"
    assert at.run("init", "--yes", PATH="/usr/bin:/bin").code == 0
    trap(at.root, mark, ("adjourn/__init__.py", "adjourn/__main__.py", "msgspec.py", "json.py"))
    settings = json.loads((at.root / ".claude/settings.json").read_text())
    words = shlex.split(settings["hooks"]["PreToolUse"][0]["hooks"][0]["command"])
    assert words[:4] == [sys.executable, "-P", "-m", "adjourn"]
    server = json.loads((at.root / ".mcp.json").read_text())["mcpServers"]["files"]
    assert [server["command"], *server["args"]] == [*words[:4], "proxy", "--name", "files", "--", "echo", "files"]
    request = json.dumps({"tool_name": "Read", "tool_input": {"file_path": "a"}, "cwd": str(at.root)})
    done = subprocess.run(
        [word for word in words if word != "--stay"],
        cwd=at.root, env=at.environment, input=request, capture_output=True, text=True, check=False, timeout=SECONDS,
    )  # fmt: skip
    assert "permissionDecision" in done.stdout
    assert not mark.exists()


@pytest.mark.parametrize("front", [".", "{root}/bin", ""])
def test_a_name_that_is_looked_up_in_the_workspace_first_is_not_written(tmp_path: Path, front: str) -> None:
    """An agent need only put a file there; so the interpreter is named, and doctor finds an entry that was written before."""
    at = Home(tmp_path)
    at.write("CLAUDE.md", "# Notes\n")
    at.write(".mcp.json", '{"mcpServers": {"files": {"command": "echo", "args": ["files"]}}}')
    path = front.format(root=at.root) + ":" + at.environment["PATH"]
    assert at.run("init", "--yes").code == 0
    assert '"adjourn"' in (at.root / ".mcp.json").read_text()
    found = [one["code"] for one in at.run("doctor", "--json", PATH=path).json["findings"]]
    assert found.count("client-start") >= 2
    assert at.run("init", "--yes", PATH=path).code == 0
    server = json.loads((at.root / ".mcp.json").read_text())["mcpServers"]["files"]
    assert [server["command"], *server["args"]] == [
        sys.executable, "-P", "-m", "adjourn", "proxy", "--name", "files", "--", "echo", "files",
    ]  # fmt: skip
    assert "client-start" not in at.run("doctor", PATH=path).out


@pytest.mark.parametrize(
    "start", [f"{sys.executable} -m adjourn", "./adjourn", ".venv/bin/python -P -m adjourn", "python -u -m adjourn"]
)
def test_doctor_finds_a_start_that_was_written_before_and_init_mends_it(tmp_path: Path, start: str) -> None:
    """`python -m adjourn` without -P and a relative command are errors, in hooks and in servers; init rewrites both."""
    at = Home(tmp_path)
    program(at.root / "adjourn", tmp_path / "mark")
    program(at.root / ".venv/bin/python", tmp_path / "mark")
    at.write("CLAUDE.md", "# Notes\n")
    at.write(".mcp.json", '{"mcpServers": {"files": {"command": "echo", "args": ["files"]}}}')
    at.run("init", "--yes")
    words = start.split()
    servers = {"files": {"command": words[0], "args": [*words[1:], "proxy", "--task", "t", "--", "echo", "files"]}}
    at.write(".mcp.json", json.dumps({"mcpServers": servers}))
    settings = at.root / ".claude/settings.json"
    settings.write_text(settings.read_text().replace("adjourn hook", f"{start} hook"))
    env = {"PATH": f"{BIN}:{at.environment['PATH']}"}
    done = at.run("doctor", "--json", **env)
    found = [one["source"] for one in done.json["findings"] if one["code"] == "client-start"]
    assert {".mcp.json", ".claude/settings.json"} <= set(found)
    assert done.code == 1
    assert at.run("init", "--yes", **env).code == 0
    assert [one for one in at.run("doctor", "--json", **env).json["findings"] if one["code"] == "client-start"] == []
    server = json.loads((at.root / ".mcp.json").read_text())["mcpServers"]["files"]
    assert [server["command"], *server["args"]] == [
        "adjourn", "proxy", "--name", "files", "--task", "t", "--", "echo", "files",
    ]  # fmt: skip
    assert "adjourn hook --settle" in settings.read_text()
    assert not (tmp_path / "mark").exists()


# --- servers that a repository brings


class Asking:
    """A workspace whose settings start a program of it by the name of a known one; a command with a terminal to answer on."""

    def __init__(self, path: Path) -> None:
        self.at = Home(path)
        self.mark = path / "mark"
        program(self.at.root / "bin" / "npx", self.mark)
        server = {
            "command": "npx",
            "args": ["-y", "docs\x1b[2K\r"],
            "env": {"PATH": str(self.at.root / "bin"), "NODE_OPTIONS": "--require ./x.js", "API_KEY": "hush"},
        }
        self.at.write(".mcp.json", json.dumps({"mcpServers": {"docs": server}}))

    def answered(self, *arguments: str, answer: str) -> str:
        """What the command wrote, with one answer to the question about servers, and none to any other."""
        main, other = pty.openpty()
        process = subprocess.Popen(
            [str(BIN / "adjourn"), *arguments],
            cwd=self.at.root, env=self.at.environment | {"TERM": "dumb", "COLUMNS": "400"}, stdin=other, stdout=other, stderr=other, start_new_session=True,
        )  # fmt: skip
        os.close(other)
        seen, asked = "", False
        while True:
            try:
                seen += os.read(main, 65536).decode()
            except OSError:  # the command has ended
                break
            if not asked and "Start them?" in seen:
                asked = True
                os.write(main, f"{answer}\n".encode())
            elif "Change these files?" in seen:
                process.terminate()
        process.wait(SECONDS)
        os.close(main)
        return seen


@pytest.mark.parametrize("command", ["init", "doctor"])
@pytest.mark.parametrize(("answer", "starts"), [("", False), ("n", False), ("y", True)])
def test_a_server_that_a_repository_brings_starts_after_an_approval_only(
    tmp_path: Path, command: str, answer: str, *, starts: bool
) -> None:
    """The default is no. Shown before are the file that would run, its arguments, and the variables that change what it runs."""
    asking = Asking(tmp_path)
    seen = asking.answered(command, answer=answer)
    assert f"{asking.at.root}/bin/npx (in this workspace)" in seen
    assert "NODE_OPTIONS=--require ./x.js" in seen
    assert f"PATH={asking.at.root}/bin" in seen
    assert "API_KEY=(value hidden)" in seen
    assert "hush" not in seen
    assert "\x1b[2K" not in seen
    assert "[y/N]" in seen
    assert asking.mark.exists() == starts


def test_a_script_can_set_up_a_repository_without_starting_its_servers(tmp_path: Path) -> None:
    """`--yes` agrees to the servers, too, as its help says; with `--no-start` nothing is started, and their tools are refused."""
    asking = Asking(tmp_path)
    done = asking.at.run("init", "--yes", "--no-start")
    assert (done.code, asking.mark.exists()) == (0, False)
    assert "no tools, it was not started" in done.out
    assert asking.at.run("init").code == 0
    assert not asking.mark.exists()
    assert asking.at.run("init", "--yes").code == 0
    assert asking.mark.exists()


@pytest.mark.parametrize(
    ("command", "args"), [("npx", ["-y", "docs"]), ("adjourn", ["proxy", "--name", "docs", "--", "npx", "-y", "docs"])]
)
def test_a_path_that_an_entry_sets_leads_to_no_adjourn_of_the_workspace(
    tmp_path: Path, command: str, args: list[str]
) -> None:
    """The client would look `adjourn` up with that PATH: init writes the interpreter's own path, and changes an earlier entry so."""
    at, mark = Home(tmp_path), tmp_path / "mark"
    for name in ("adjourn", "npx"):
        program(at.root / "bin" / name, mark)
    entry = {"command": command, "args": args, "env": {"PATH": str(at.root / "bin")}}
    at.write(".mcp.json", json.dumps({"mcpServers": {"docs": entry}}))
    assert at.run("init", "--yes", "--no-start").code == 0
    written = json.loads((at.root / ".mcp.json").read_text())["mcpServers"]["docs"]
    assert (written["command"], written["args"][:4]) == (sys.executable, ["-P", "-m", "adjourn", "proxy"])
    assert written["args"][-4:] == ["--", "npx", "-y", "docs"]
    again = at.run("init", "--yes", "--no-start")
    assert again.out.startswith("nothing to change")
    at.run("doctor", "--yes")
    assert str(at.root / "bin" / "adjourn") not in mark.read_text()


def test_doctor_runs_no_hook_that_a_repository_gave_another_store(tmp_path: Path) -> None:
    """Without asking, it tries only hooks that nothing in the settings leads elsewhere."""
    asking = Asking(tmp_path)
    elsewhere = tmp_path / "elsewhere.db"
    hook = {"type": "command", "command": f"adjourn hook --settle --store {elsewhere}"}
    asking.at.write(".claude/settings.json", json.dumps({"hooks": {"UserPromptSubmit": [{"hooks": [hook]}]}}))
    asking.at.write(".aex/policy.aex", "policy p v1\n\nuse *\n")
    found = asking.at.run("doctor", "--json").json["findings"]
    assert "client-weakened" in [one["code"] for one in found]
    assert not elsewhere.exists()
