"""Every place in the source that starts a program: a Python only by the one helper, any other program by a reviewed call."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from house import PACKAGE, REPOSITORY, product

SOURCE = REPOSITORY / "src" / PACKAGE
MODULES = {"subprocess", "multiprocessing", "pty", "runpy", "concurrent.futures.process"}
OF_OS = ("exec", "spawn", "posix_spawn", "system", "popen", "startfile", "fork")
OF_ASYNCIO = ("create_subprocess_exec", "create_subprocess_shell", "subprocess_exec", "subprocess_shell")
STARTS = {"Popen", "run", "call", "check_call", "check_output", "getoutput", "getstatusoutput"}

REVIEWED = {
    ("cli/checkpoint.py", "subprocess.run"): "the user's editor, found outside of the workspace",
    ("cli/demo.py", "subprocess.run"): "Python by the helper; git found outside of the folder it was started in",
    ("cli/demo.py", "subprocess.Popen"): "Python by the helper",
    ("cli/terminal.py", "subprocess.Popen"): "the user's pager, found outside of the workspace",
    ("cli/doctor.py", "subprocess.run"): "git, by the one place that builds its commands",
    (
        "cli/doctor_tries.py",
        "subprocess.run",
    ): "hooks of the adjourn that runs here; the adjourn on PATH outside of the workspace",
    ("code/index/analysis.py", "subprocess.run"): "ctags, found outside of the workspace, reading no options of it",
    ("code/repository.py", "subprocess.Popen"): "git, by the one place that builds its commands",
    ("code/index/workers.py", "subprocess.Popen"): "Python by the helper",
    ("code/search/patterns.py", "subprocess.Popen"): "Python by the helper",
    ("code/index/ripgrep.py", "subprocess.Popen"): "rg, found outside of the workspace",
    ("code/language_servers/client.py", "subprocess.Popen"): "Python by the helper",
    (
        "host/supervise.py",
        "subprocess.Popen",
    ): "a language server of this Python's packages, or found outside of the workspace; the test command that the user names",
    ("runs/subprocesses.py", "subprocess.Popen"): "what a contract names, never by a relative entry of PATH; git",
    ("checkpoints/git_snapshot.py", "subprocess.run"): "git, by the one place that builds its commands",
    ("sessions/evidence.py", "subprocess.run"): "git, by the one place that builds its commands",
    ("cli/continue_session.py", "subprocess.run"): "what puts text on the clipboard, found outside of the workspace",
    ("cli/continue_session.py", "os.execve"): "the client that the person names, found outside of the workspace",
    ("hooks/standby.py", "os.posix_spawn"): "Python by the helper",
    ("hooks/standby_process.py", "os.fork"): "this program itself",
    (
        "notify/senders.py",
        "subprocess.Popen",
    ): "what the user's own settings name, found outside of the workspace, in the root folder",
    ("gateway/login_store.py", "asyncio.create_subprocess_exec"): "Python by the helper",
    (
        "gateway/links.py",
        "asyncio.create_subprocess_exec",
    ): "the server that the user's file names, never by a relative entry of PATH",
    (
        "proxy/launch.py",
        "os.execve",
    ): "the server that the user names, outside any workspace, never by a relative entry of PATH",
    ("proxy/upstream.py", "os.posix_spawn"): "the server that the user names, never by a relative entry of PATH",
    ("setup/probe.py", "subprocess.Popen"): "a server that the user's settings name, never by a relative entry of PATH",
    ("store/conformance/races.py", "multiprocessing"): "a store's own tests, in the process of who tests it",
}
"""(file, what is called) → why it may: what is started is none that an agent could have put in its place."""
PYTHONS = {
    "cli/demo.py",
    "clients/options.py",
    "code/index/workers.py",
    "code/search/patterns.py",
    "code/language_servers/client.py",
    "code/workflow/checks.py",
    "gateway/login_store.py",
    "gateway/preflight.py",
    "hooks/standby.py",
    "setup/servers.py",
}
"""The files that start a Python, or write down how one is started: each by `adjourn.host.executables`."""


def trees() -> Iterator[tuple[str, ast.Module]]:
    for module in product().modules.values():
        yield module.path.relative_to(SOURCE).as_posix(), module.tree


def starts(tree: ast.Module) -> Iterator[str]:
    """What a module calls, or imports by name, that starts a process."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = {alias.name for alias in node.names}
            if node.module.partition(".")[0] in MODULES or node.module in MODULES:
                yield node.module.partition(".")[0]
            elif node.module == "os" and any(name.startswith(OF_OS) for name in names):
                yield "os, by name"
            elif node.module.startswith("concurrent.futures") and "ProcessPoolExecutor" in names:
                yield "ProcessPoolExecutor"
        elif isinstance(node, ast.Import):
            bare = {alias.name for alias in node.names} & (MODULES - {"subprocess"})
            renamed = {alias.name for alias in node.names if alias.asname} & (MODULES | {"os"})
            yield from bare | renamed
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner, name = node.value.id, node.attr
            if owner == "subprocess" and name in STARTS:
                yield f"subprocess.{name}"
            elif (owner in ("os", "posix") and name.startswith(OF_OS)) or name in OF_ASYNCIO:
                yield f"{owner}.{name}"


def test_every_start_of_a_program_was_reviewed() -> None:
    """A new one fails here until somebody says why nothing that an agent wrote can be started by it; an old one is taken out."""
    found = {(name, start) for name, tree in trees() for start in starts(tree)}
    assert found == set(REVIEWED)


def test_python_is_started_by_the_one_helper() -> None:
    """No other module names the interpreter, `-m` included: the helper adds -P, and takes the workspace out of PYTHONPATH."""
    naming, using = set(), set()
    for name, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module == "sys":
                naming.add(name)
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and (node.value.id, node.attr) in (("sys", "executable"), ("sys", "_base_executable"))
            ):
                naming.add(name)
            if "python_command" in (getattr(node, "attr", ""), getattr(node, "id", "")):
                using.add(name)
    assert naming == {"host/executables.py", "setup/servers.py"}  # the second compares it with what a client starts
    assert not any(name == "setup/servers.py" for name, _ in REVIEWED)
    assert using == PYTHONS


def test_who_starts_a_python_gives_it_variables_of_the_helper() -> None:
    """PYTHONPATH and its kin may name the workspace: what is started does not see those entries."""
    for name, tree in trees():
        if name in PYTHONS - {"setup/servers.py", "clients/options.py"}:  # these write down how one is started
            text = ast.unparse(tree)
            assert "outside(" in text, name


def test_git_is_looked_up_in_the_one_place_that_builds_its_commands() -> None:
    """No other module finds git, or writes down a command that begins with it; the demonstration has a repository of its own."""
    found = set()
    for name, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.List | ast.Tuple) and node.elts:
                first = node.elts[0]
                if isinstance(first, ast.Constant) and first.value == "git":
                    found.add(name)
            if isinstance(node, ast.Call) and node.args and not isinstance(node.func, ast.Attribute):
                first = node.args[0]
                if isinstance(first, ast.Constant) and first.value == "git":
                    found.add(name)
    assert found == {"host/git.py", "cli/demo.py"}


def test_only_the_set_up_asks_what_is_on_path_without_regard_to_the_workspace() -> None:
    """`shutil.which` finds what a client would find; what is started by us is found by `adjourn.host.executables`."""
    found = {
        name
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "which"
    }
    assert found == {"setup/checks.py", "setup/places.py", "setup/servers.py"}
