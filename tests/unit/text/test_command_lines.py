"""What step of some work a call is, by its tool's name and its command line."""

from __future__ import annotations

import json

import pytest

from adjourn.text.command_lines import command_of, scope_of_run, step_of


@pytest.mark.parametrize(
    ("step", "commands"),
    [
        (
            "tests",
            ["pytest -q", "cd app && npm run test:unit", "cargo test", "make check", "./run_tests.sh", "uv run pytest", "go test ./..."],
        ),
        (
            "build",
            ["make", "make -j4 all", "cd app && npm run build", "cargo build -p core", "go build ./...", "docker build -t x .", "npx tsc --noEmit", "CC=clang make", "cmake --build out", "./gradlew assemble", "docker compose build web", "python -m build", "./build.sh"],
        ),
        ("commit", ["git commit -m 'Add it'", "git add . && git commit -am x", "git -C app commit", "git -c a=b commit"]),
        ("merge", ["git merge topic", "git fetch; git merge --ff-only origin/main"]),
        ("edit", ["sed -i s/a/b/ x.py", "cd app && git apply x.patch", "patch -p1 < x", "perl -pi -e s/a/b/ x", "sed -E -i.bak s/a/b/ x", "sed --in-place s/a/b/ x"]),
        (
            "",
            ["sed s/a/b/ x", "sed -n 1,80p src/foo-index.ts", "sed -n '1,5p' my-ideas.txt", "git add .", "git commit --dry-run", "git merge --abort", "git commit-tree x", "cat tests.txt", "echo git commits", "ls", "git log --merges", "ls build", "rm -rf build", "make deploy", "make clean", "cat build.sh", "echo build", "cd build", "docker run builder"],
        ),
    ],
)  # fmt: skip
def test_a_command_line_is_known_by_what_it_runs(step: str, commands: list[str]) -> None:
    """Programs that test or build, and the two commands of git; a text that only speaks of them is neither."""
    assert {command: step_of("shell.exec", json.dumps({"command": command})) for command in commands} == dict.fromkeys(
        commands, step
    )


@pytest.mark.parametrize(
    ("tool", "step"),
    [
        ("tests.run", "tests"), ("run_tests", "tests"), ("run_build", "build"), ("ci.build", ""), ("git_commit", "commit"), ("git_merge_branch", "merge"), ("merge_pull_request", "merge"),
        ("get_commit", ""), ("create_test_case", ""), ("notes.set", ""),
    ],
)  # fmt: skip
def test_a_tool_without_a_command_line_is_known_by_its_name(tool: str, step: str) -> None:
    """The name says that it does the step, and not only that it is about it."""
    assert step_of(tool, '{"text": "pytest"}') == step


@pytest.mark.parametrize("tool", ["file.write", "fs.edit_file", "apply_patch", "notebook.edit"])
def test_a_tool_that_edits_names_a_file(tool: str) -> None:
    """A tool that writes something else edits nothing."""
    assert step_of(tool, '{"file_path": "a.py", "content": "pytest; git commit"}') == "edit"
    assert step_of(tool, '{"patch": "*** Begin Patch\\n*** Update File: a.py"}') == "edit"
    assert step_of(tool, '{"text": "milk"}') == ""


def test_a_command_that_was_cut_is_read_as_far_as_it_goes() -> None:
    """Arguments are kept to a length; what is left of a command line still says what it is."""
    assert command_of('{"command": "pytest \\"tests/a b\\" -k ' + "x" * 50) == 'pytest "tests/a b" -k ' + "x" * 50
    assert step_of("shell.exec", '{"timeout": 5, "command": "pytest tests/un') == "tests"


def test_a_run_of_all_tests_covers_a_run_of_some() -> None:
    """Options and the program that starts another one are no part of what is tested."""
    some = scope_of_run("shell.exec", '{"command": "uv run pytest -x tests/vat"}')
    assert scope_of_run("shell.exec", '{"command": "python -m pytest -q"}') < some
    assert not some <= scope_of_run("shell.exec", '{"command": "pytest"}')


@pytest.mark.parametrize(("wide", "narrow"), [("make", "make lib-build"), ("cargo build", "cargo build -p core")])
def test_a_build_of_all_covers_a_build_of_a_part(wide: str, narrow: str) -> None:
    """By their words, as tests do."""
    part, whole = (scope_of_run("shell.exec", json.dumps({"command": command})) for command in (narrow, wide))
    assert whole < part
