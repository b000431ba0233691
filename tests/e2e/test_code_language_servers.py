"""Real language servers behind `find_references`: what they resolve, that they learn of changes, and that none outlives the server."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support import tools
from support.code_server import Repo, Server
from support.processes import below

pytest.importorskip("basedpyright")
KILLS = 100 if os.environ.get("ADJOURN_CAMPAIGN") else 4
SECONDS = 60.0


class Project(NamedTuple):
    """Two classes with a method of one name, and a file that uses both, one after the other from line `used` on.

    `wrong`: a line with an error. `hostile`: files that a server might run, each of which would leave a file `ran`.
    """

    files: dict[str, str]
    user: str
    used: int
    wrong: str
    hostile: dict[str, str]


RUN_SHELL = "#!/bin/sh\ntouch '{ran}'\n"
RUN_NODE = (
    "require('fs').writeFileSync('{ran}', ''); module.exports = () => ({ create: (info) => info.languageService });\n"
)
PROJECTS = {
    "python": Project(
        {
            "shapes.py": "class Circle:\n    def area(self) -> int:\n        return 3\n\n\nclass Square:\n    def area(self) -> int:\n        return 4\n",
            "use.py": "from shapes import Circle, Square\n\none = Circle()\nother = Square()\nprint(one.area())\nprint(other.area())\n",
        },
        "use.py",
        5,
        'bad: int = "x"\n',
        {
            "pyrightconfig.json": '{"venvPath": ".", "venv": "venv", "pythonVersion": "3.11"}\n',
            "venv/bin/python": RUN_SHELL,
            ".venv/bin/python": RUN_SHELL,
            "venv/lib/python3.11/site-packages/evil.pth": "import pathlib; pathlib.Path('{ran}').touch()\n",
            "sitecustomize.py": "import pathlib; pathlib.Path('{ran}').touch()\n",
        },
    ),
    "typescript": Project(
        {
            "tsconfig.json": '{"compilerOptions": {"strict": true}}\n',
            "src/shapes.ts": "export class Circle {\n  area(): number { return 3; }\n}\n\nexport class Square {\n  area(): number { return 4; }\n}\n",
            "src/use.ts": 'import { Circle, Square } from "./shapes";\n\nconst one = new Circle();\nconst other = new Square();\nconsole.log(one.area());\nconsole.log(other.area());\n',
        },
        "src/use.ts",
        5,
        'const bad: number = "x";\n',
        {
            "tsconfig.json": '{"compilerOptions": {"strict": true, "plugins": [{"name": "evil"}, {"name": "./evil"}]}}\n',
            "evil.js": RUN_NODE,
            "node_modules/evil/index.js": RUN_NODE,
            "node_modules/evil/package.json": '{"name": "evil", "version": "1.0.0", "main": "index.js"}\n',
            "node_modules/typescript/lib/tsserver.js": RUN_NODE,
            "node_modules/typescript/lib/typescript.js": RUN_NODE,
            "node_modules/typescript/package.json": '{"name": "typescript", "version": "5.9.3"}\n',
        },
    ),
}


@pytest.fixture(params=sorted(PROJECTS))
def project(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Project:
    if request.param == "typescript":
        command = tools.npm_program("typescript-language-server")
        assert command, "python tests/support/tools.py"
        programs = Path(command[1]).parents[2] / ".bin"
        monkeypatch.setenv("PATH", f"{programs}:{Path(command[0]).parent}:{os.environ['PATH']}")
    return PROJECTS[request.param]


@pytest.fixture
def repo(tmp_path: Path, project: Project) -> Repo:
    return Repo(tmp_path, project.files)


def matches(server: Server) -> dict[tuple[str, int], str]:
    found = server.call("find_references", {"symbol": "Circle.area", "format": "json"})
    return {(one["file"], one["line"]): one["match"] for one in found["references"]}


def resolved(ask: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
    """An answer whose uses a language server has resolved, all of them."""
    found = ask()
    return found if found.get("language_servers") == {"basedpyright": "ready"} and "partial" not in found else None


def until(what: Callable[[], Any]) -> Any:
    ends_at = time.monotonic() + SECONDS
    while not (found := what()):
        assert time.monotonic() < ends_at
        time.sleep(0.1)
    return found


def gone(processes: list[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in processes)


def test_a_use_is_exact_when_the_server_resolved_it(project: Project, repo: Repo) -> None:
    """Of two methods of one name the asked one's use is exact, and the other's is left out; a new use counts once its file is written."""
    mine, other = (project.user, project.used), (project.user, project.used + 1)
    with Server(repo) as server:
        first = matches(server)
        assert set(first.values()) <= {"scoped", "name"}
        found = until(lambda: (got := matches(server)).get(mine) == "exact" and got)
        assert other not in found
        repo.write(project.user, "\n" + project.files[project.user])
        until(lambda: matches(server).get(other) == "exact")
        assert (project.user, project.used + 2) not in matches(server)


def test_a_new_and_a_deleted_file_are_known_to_the_server(project: Project, repo: Repo) -> None:
    """A use in a file that is written later is exact, and one in a file that was deleted is gone."""
    later = project.user.replace("use", "later")
    with Server(repo) as server:
        until(lambda: "exact" in matches(server).values())
        repo.write(later, project.files[project.user])
        until(lambda: matches(server).get((later, project.used)) == "exact")
        (repo.root / later).unlink()
        until(lambda: not any(file == later for file, _ in matches(server)))


def test_errors_are_those_of_the_file_as_it_is(project: Project, repo: Repo) -> None:
    """After each change the errors are those of the file as it is now: none, one, the same one, none."""
    text = project.files[project.user]

    def errors() -> int:
        while "error" in (found := server.call("diagnostics", {"paths": [project.user], "format": "json"})):
            time.sleep(0.1)
        return sum(one["severity"] == "error" for one in found["diagnostics"])

    with Server(repo, "--symbols") as server:
        server.call("sync_index")
        until(lambda: "exact" in matches(server).values())
        for more, expected in (("", 0), ("\n", 0), (project.wrong, 1), (project.wrong + "\n", 1), ("\n\n", 0)):
            repo.write(project.user, text + more)
            assert errors() == expected, more


def test_nothing_of_the_workspace_is_run(project: Project, repo: Repo) -> None:
    """Interpreters, plugins and a compiler that the workspace has, and names in its settings, are not run."""
    ran = repo.root / "ran"
    for name, text in project.hostile.items():
        repo.write(name, text.replace("{ran}", str(ran)))
        (repo.root / name).chmod(0o755)
    with Server(repo, "--symbols") as server:
        until(lambda: "exact" in matches(server).values())
        server.call("diagnostics", {"paths": [project.user]})
    assert not ran.exists()


@pytest.mark.timeout(1_200)
def test_a_killed_server_leaves_no_process(project: Project, repo: Repo) -> None:
    """However often the server is killed, while its language server starts or later, no process that it started is left."""
    chooser = random.Random(4)
    for kill in range(KILLS):
        with Server(repo) as server:
            started = until(lambda: matches(server) and below(server.pid))
            if kill % 2:
                until(lambda: "exact" in matches(server).values())
            time.sleep(chooser.uniform(0, 0.3))  # at any moment of the start
            started += below(server.pid)
            server.kill()
            until(partial(gone, started))


def test_a_server_that_the_user_names_resolves_a_language(tmp_path: Path) -> None:
    """`--language-server` starts it for that language, instead of the one that is known, and tells by what command it runs."""
    project = PROJECTS["python"]
    repo = Repo(tmp_path, project.files)
    program = Path(sys.executable).with_name("basedpyright-langserver")
    with Server(repo, "--language-server", f"py={program} --stdio") as server:
        server.call("sync_index")
        deadline = time.monotonic() + SECONDS
        while True:
            found = server.call("find_references", {"symbol": "Circle.area"})
            assert list(found["language_servers"]) == [f"{program.name} for python"]
            if any(use["match"] == "exact" for use in found["references"]):
                break
            assert time.monotonic() < deadline, found
            time.sleep(0.1)
        exact = [(use["file"], use["line"]) for use in found["references"] if use["match"] == "exact"]
        assert exact == [(project.user, project.used)]


def test_files_that_the_settings_leave_out_are_resolved(tmp_path: Path) -> None:
    """Uses in folders that `[tool.pyright]` does not include are found, also of what is local to a function there."""
    project = PROJECTS["python"]
    files = {f"src/{name}": text for name, text in project.files.items()}
    files["pyproject.toml"] = '[tool.pyright]\ninclude = ["src"]\nextraPaths = ["src"]\n'
    files["tests/test_use.py"] = (
        "from shapes import Circle\n\n\ndef test_area():\n    def radius():\n        return 3\n\n    assert Circle().area() == radius()\n"
    )
    with Server(Repo(tmp_path, files)) as server:
        for symbol, uses in (
            ("Circle.area", {("src/use.py", project.used), ("tests/test_use.py", 8)}),
            ("test_area.radius", {("tests/test_use.py", 8)}),
        ):
            ask = partial(server.call, "find_references", {"symbol": symbol, "format": "json"})
            found = until(partial(resolved, ask))
            assert {(one["file"], one["line"]) for one in found["references"]} == uses


@pytest.mark.parametrize("given", ["java", "klingon=x", "java=", "java='x"])
def test_a_language_server_that_is_none_is_an_error(tmp_path: Path, given: str) -> None:
    """The server does not start with an option that it cannot use."""
    assert "--language-server" in Repo(tmp_path, git=False).cli("code", "--language-server", given, code=2)
