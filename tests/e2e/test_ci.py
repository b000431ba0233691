"""The pre-commit hooks and the GitHub action of this repository, run as their hosts run them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from adjourn import __version__
from support.releasing import from_index

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ("pyproject.toml", "README.md", "LICENSE", ".pre-commit-hooks.yaml", "action.yml", "src")
PROGRAMS = Path(sys.executable).parent
GOOD = 'policy p v0\n\ngoal "g"\n\nallow file.read\n'
BAD = GOOD + "nonsense\n"
CROOKED = GOOD.replace("allow ", "allow   ")


def load(name: str) -> Any:
    return YAML(typ="safe").load((ROOT / name).read_text())


def run(command: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("GIT_", "GITHUB_"))}
    identity = {f"GIT_{who}_{what}": "t@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    return subprocess.run(
        command, cwd=folder, env={**clean, **identity, **environment, "PIP_NO_COMPILE": "1"}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=280,
    )  # fmt: skip


def done(command: list[str], folder: Path) -> None:
    told = run(command, folder)
    assert told.returncode == 0, told.stdout


def repository(folder: Path) -> Path:
    folder.mkdir()
    done(["git", "init", "--quiet", "--initial-branch=main", "."], folder)
    return folder


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This project as it stands, committed: what its users name as the repository of the hooks."""
    folder = repository(tmp_path_factory.mktemp("source") / "adjourn")
    for name in PACKAGE:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder / name)
    done(["git", "add", "."], folder)
    done(["git", "commit", "--quiet", "-m", "as it stands"], folder)
    done(["git", "tag", "v0"], folder)
    return folder


def test_the_hooks_stop_a_commit_that_must_not_be(source: Path, tmp_path: Path) -> None:
    """With both hooks installed by pre-commit itself, an invalid and an unformatted file stop the commit; a good one does not."""
    work, pre_commit = repository(tmp_path / "work"), str(PROGRAMS / "pre-commit")
    hooks = "[{id: adjourn-check}, {id: adjourn-fmt}]"
    (work / ".pre-commit-config.yaml").write_text(f"repos:\n- repo: {source}\n  rev: v0\n  hooks: {hooks}\n")
    (work / "p.aex").write_text(GOOD)
    done(["git", "add", "."], work)
    home = str(tmp_path / "home")
    from_index(run([pre_commit, "install", "--install-hooks"], work, PRE_COMMIT_HOME=home))

    def commit() -> subprocess.CompletedProcess[str]:
        return run(["git", "commit", "-a", "-m", "m"], work, PRE_COMMIT_HOME=home)

    good = commit()
    assert good.returncode == 0, good.stdout
    assert good.stdout.count("Passed") == 2
    (work / "p.aex").write_text(BAD)
    bad = commit()
    assert bad.returncode != 0
    assert "p.aex:6:1" in bad.stdout
    (work / "p.aex").write_text(CROOKED)
    crooked = commit()
    assert crooked.returncode != 0
    assert re.search(r"adjourn policy check\.+Passed\nadjourn policy fmt\.+Failed", crooked.stdout), crooked.stdout


def obeys(schema: str, file: Path) -> None:
    done([str(PROGRAMS / "check-jsonschema"), "--builtin-schema", schema, str(file)], ROOT)


def test_the_action_is_what_its_schema_asks_for() -> None:
    """The action's file obeys the schema of GitHub's action files."""
    obeys("vendor.github-actions", ROOT / "action.yml")


def test_what_the_page_says_to_write_is_valid(tmp_path: Path) -> None:
    """Each configuration in the page is one that its reader takes, with inputs and hooks that are there."""
    text = (ROOT / "docs" / "how-to" / "ci.md").read_text()
    blocks = re.findall(r"^```yaml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 3
    for block in blocks:
        file = tmp_path / "block.yaml"
        file.write_text(block)
        told = YAML(typ="safe").load(block)
        if "repos" in told:
            done([str(PROGRAMS / "pre-commit"), "validate-config", str(file)], tmp_path)
            named = {hook["id"] for hook in told["repos"][0]["hooks"]}
            assert named == {hook["id"] for hook in load(".pre-commit-hooks.yaml")}
            continue
        obeys("vendor.github-workflows", file)
        [step] = [one for one in told["jobs"]["check"]["steps"] if one["uses"].startswith("OWNER/")]
        assert set(step["with"]) <= set(load("action.yml")["inputs"])
    assert set(load("action.yml")["inputs"]) == set(re.findall(r"^\| `([a-z-]+)` \| .* \| .* \|$", text, re.MULTILINE))


def test_the_action_takes_no_input_into_a_script() -> None:
    """Inputs reach the shell as variables: a path with a quote in it is a path."""
    for step in load("action.yml")["runs"]["steps"]:
        assert "${{" not in step.get("run", "")


class Runner:
    """Runs the shell steps of the action as GitHub's runner does, in an environment of Python of its own."""

    def __init__(self, source: Path, folder: Path) -> None:
        self.source = source
        self.workspace = folder / "work"
        self.workspace.mkdir()
        self.python = folder / "python"
        done([sys.executable, "-m", "virtualenv", "--quiet", str(self.python)], folder)

    def step(self, name: str, inputs: dict[str, str]) -> subprocess.CompletedProcess[str]:
        action = load("action.yml")
        values = {key: told["default"] for key, told in action["inputs"].items()} | inputs
        [step] = [step for step in action["runs"]["steps"] if step.get("name") == name]
        environment = {
            key: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: values[found[1]], text)
            for key, text in step["env"].items()
        }
        script = self.workspace.parent / "script.sh"
        script.write_text(step["run"])
        return run(
            [step["shell"], "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            self.workspace,
            PATH=f"{self.python / 'bin'}:{os.environ['PATH']}",
            GITHUB_WORKSPACE=str(self.workspace),
            GITHUB_ACTION_PATH=str(self.source),
            **environment,
        )

    def check(self, **inputs: str) -> subprocess.CompletedProcess[str]:
        return self.step("Check", {key.replace("_", "-"): value for key, value in inputs.items()})


@pytest.fixture(scope="module")
def runner(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """The action after its installing step."""
    runner = Runner(source, tmp_path_factory.mktemp("runner"))
    from_index(runner.step("Install adjourn", {}))
    for name, text in (("good.aex", GOOD), ("a b.aex", BAD), ("crooked.aex", CROOKED)):
        (runner.workspace / name).write_text(text)
    return runner


def test_the_action_installs_itself(runner: Runner) -> None:
    """Without a version, what is installed is the action's own."""
    told = run([str(runner.python / "bin" / "adjourn"), "--version"], runner.workspace).stdout
    assert told == f"adjourn {__version__}\n"


def test_the_action_installs_the_version_that_is_asked_for(runner: Runner) -> None:
    """A version is looked for under its number, and nothing else is installed for it."""
    told = runner.step("Install adjourn", {"version": "0.0.0.dev0"})
    assert told.returncode != 0
    assert "adjourn==0.0.0.dev0" in told.stdout


def test_the_action_annotates_and_fails(runner: Runner) -> None:
    """An error in a file fails the step, with a command for the line; paths may hold blanks."""
    told = runner.check()
    assert told.returncode == 1
    assert "::error file=a b.aex,line=6" in told.stdout
    assert runner.check(paths="good.aex\ncrooked.aex\n").returncode == 0
    assert runner.check(paths="a b.aex").returncode == 1
    assert runner.check(paths="missing.aex").returncode == 1
    assert runner.check(paths="*.aex").returncode == 1, "a path is no pattern"
    assert runner.check(paths='$(touch made)\n"; touch made; "').returncode == 1
    assert not (runner.workspace / "made").exists()


def test_the_action_writes_sarif_too(runner: Runner) -> None:
    """The file is complete when the check fails, for the upload in a later step."""
    told = runner.check(sarif="found.sarif")
    assert told.returncode == 1
    log = json.loads((runner.workspace / "found.sarif").read_text())
    assert [result["ruleId"] for result in log["runs"][0]["results"]] == ["AEX100"]


def test_the_action_checks_the_format_on_request(runner: Runner) -> None:
    """An unformatted file fails the step only when that is asked for."""
    assert runner.check(paths="crooked.aex").returncode == 0
    assert runner.check(paths="crooked.aex", format_check="true").returncode == 1
    assert runner.check(paths="good.aex", format_check="true").returncode == 0
