"""The tools that a run brings along, through contracts: files, tests and the repository, and what bounds them."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from adjourn.errors import InvalidError
from adjourn.log import kinds
from adjourn.runs import subprocesses, tools
from adjourn.runs.start import start_run
from adjourn.runs.subprocesses import touched
from support.runs import Bench

PATCH = """diff --git a/a.txt b/a.txt
--- a/a.txt
+++ b/a.txt
@@ -1 +1 @@
-old
+new
"""


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    bench = Bench(tmp_path, monkeypatch)
    (bench.root / "a.txt").write_text("old\n")
    (tmp_path / "outside.txt").write_text("outside")
    return bench


def git(bench: Bench, *arguments: str) -> str:
    options = ("-c", "user.name=ann", "-c", "user.email=ann@localhost")
    done = subprocess.run(["git", *options, *arguments], cwd=bench.root, check=True, capture_output=True, text=True)
    return done.stdout


# --- files


def test_file_read_answers_contents_by_path(bench: Bench) -> None:
    """`file.read` returns the contents of one or several paths, by the names given."""
    (bench.root / "b.txt").write_bytes(b"b\xff")
    assert bench.output('do file.read(paths="a.txt") -> x', "return x") == {"a.txt": "old\n"}
    both = bench.output('do file.read(paths=["a.txt", "./b.txt"]) -> x', "return x")
    assert both == {"a.txt": "old\n", "./b.txt": "b\ufffd"}


@pytest.mark.parametrize(
    ("arguments", "files"),
    [
        ('path="n.txt", contents="x, y"', {"n.txt": "x, y"}),
        ('path="n.txt", contents="aGk=", encoding=base64', {"n.txt": "hi"}),
        (
            "writes=[{path: n.txt, contents: one}, {path: d/e/m.txt, contents: two}]",
            {"n.txt": "one", "d/e/m.txt": "two"},
        ),
        ("writes={n.txt: one, m.txt: {contents: two}}", {"n.txt": "one", "m.txt": "two"}),
        ("writes=[n.txt, m.txt], contents=[one, two]", {"n.txt": "one", "m.txt": "two"}),
        ("paths=[n.txt, m.txt], contents={m.txt: two, n.txt: one}", {"n.txt": "one", "m.txt": "two"}),
        ("paths=[n.txt, m.txt], contents=same", {"n.txt": "same", "m.txt": "same"}),
    ],
)
def test_file_write_takes_the_published_shapes(bench: Bench, arguments: str, files: dict[str, str]) -> None:
    """`file.write` takes the published shapes, creates folders, and returns what it wrote."""
    assert sorted(bench.output(f"do file.write({arguments}) -> x", "return x")["written"]) == sorted(files)
    assert {name: (bench.root / name).read_text() for name in files} == files


@pytest.mark.parametrize(
    "arguments",
    ["", "path=n.txt", "path=n.txt, contents=[1]", "writes=[]", "writes=[n.txt], contents=[]", "path=a.txt, contents=%, encoding=base64",
     "path=n.txt, contents=x, encoding=rot13", "writes=[{contents: x}]", "path=d, contents=x"],
)  # fmt: skip
def test_what_cannot_be_written_blocks_without_a_trace(bench: Bench, arguments: str) -> None:
    """A write that is refused writes nothing and counts no call."""
    (bench.root / "d").mkdir()
    bench.blocked(f"do file.write({arguments})", "return 1", task="run-1")
    assert sorted(path.name for path in bench.root.iterdir()) == [".aex", "a.txt", "d", "task.aex"]
    assert bench.ledger().calls_used == 0


def test_a_file_keeps_its_mode(bench: Bench) -> None:
    """A script stays executable, and is replaced, not written into."""
    script = bench.root / "run.sh"
    script.write_text("1")
    script.chmod(0o755)
    before = script.stat().st_ino
    bench.output('do file.write(path="run.sh", contents="2")', "return 1")
    assert script.stat().st_mode & 0o777 == 0o755
    assert script.stat().st_ino != before


@pytest.mark.parametrize("path", ["../outside.txt", "/etc/hostname", "link.txt", "linked/outside.txt", "dangling"])
@pytest.mark.parametrize("call", ["file.read(paths={})", "file.write(path={}, contents=x)"])
def test_no_path_leads_out_of_the_workspace(bench: Bench, tmp_path: Path, path: str, call: str) -> None:
    """Links are resolved first; what is outside is refused, and written down as refused."""
    (bench.root / "link.txt").symlink_to(tmp_path / "outside.txt")
    (bench.root / "linked").symlink_to(tmp_path)
    (bench.root / "dangling").symlink_to(tmp_path / "made.txt")
    assert "outside the workspace" in bench.blocked(
        f"do {call.format(f'{chr(34)}{path}{chr(34)}')}", "return 1", task="run-1"
    )
    assert (tmp_path / "outside.txt").read_text() == "outside"
    assert not (tmp_path / "made.txt").exists()
    assert len(bench.facts(kinds.ToolDenied)) == 1


def test_a_name_that_begins_with_two_dots_is_inside(bench: Bench) -> None:
    """A name that begins with two dots is inside the workspace; only a path that leads out is refused."""
    bench.output('do file.write(path="..a", contents="x")', "return 1")
    assert (bench.root / "..a").read_text() == "x"


@pytest.mark.parametrize(
    "call",
    [
        'file.write(path=".aex/policy.aex", contents="x")',
        'file.write(path=".AEX/policy.aex", contents="x")',
        'file.write(writes={".aex/adjourn.db": "x"})',
        'file.write(path="by/policy.aex", contents="x")',
        'file.write(path=".git/config", contents="x")',
        'tests.run(cmd="sh -c .aex/adjourn.db")',
    ],
)
def test_protected_places_are_refused(bench: Bench, call: str) -> None:
    """The policy, the store and git's own files, whatever the policy says, also through a link."""
    (bench.root / "by").symlink_to(bench.root / ".aex")
    before = (bench.root / ".aex" / "policy.aex").read_text()
    reason = bench.blocked(f"do {call}", "return 1", task="run-1")
    [denied] = bench.facts(kinds.ToolDenied)
    if "belongs to git" in reason:
        assert denied.reason == "refused"
    else:
        assert f"may not touch {denied.rule}: it is protected" in reason
        assert denied.reason == "protected"
    assert (bench.root / ".aex" / "policy.aex").read_text() == before


def test_path_scopes_are_enforced(bench: Bench) -> None:
    """On each path of each call, after resolving links; a contract's scope counts beside the policy's."""
    bench.policy("allow file.read:src/**", "allow file.write:src/**", "deny file.write:src/secret/**")
    (bench.root / "src" / "secret").mkdir(parents=True)
    (bench.root / "src" / "b.txt").write_text("b")
    (bench.root / "src" / "way.txt").symlink_to(bench.root / "a.txt")
    use = "file.read, file.write"

    def reason(step: str) -> str:
        file = bench.contract(f"do {step}", "return 1", use=use)
        return start_run(bench.options(task=""), file, {}).go().reason

    assert reason('file.read(paths="src/b.txt")') == ""
    assert "not with these arguments" in reason('file.read(paths=["src/b.txt", "a.txt"])')
    assert "not with these arguments" in reason('file.read(paths="src/way.txt")')
    assert "not with these arguments" in reason('file.read(paths="src/../a.txt")')
    assert reason('file.write(path="src/c.txt", contents="c")') == ""
    assert "denied by policy" in reason('file.write(path="src/secret/c.txt", contents="c")')
    assert "denied by policy" in reason('file.write(path="src/SECRET/c.txt", contents="c")')
    use = "file.read:src/b.txt, file.write"
    assert reason('file.read(paths="src/b.txt")') == ""
    assert "not with these arguments" in reason('file.read(paths="src/c.txt")')


def test_path_scopes_look_at_the_files_of_a_patch(bench: Bench) -> None:
    """Path scopes examine the files of a patch, also of one that is written as a diff."""
    bench.policy("allow file.write:src/**", "allow git.apply:a.*")
    file = bench.contract("need p: str", "do file.write(diff=p)", "return 1", use="file.write")
    refused = start_run(bench.options(task=""), file, {"p": PATCH}).go()
    assert "not with these arguments" in refused.reason
    file = bench.contract("need p: str", "do git.apply(diff=p) -> x", "return x", use="git.apply")
    assert start_run(bench.options(), file, {"p": PATCH}).go().output == {"applied": True}


def test_reading_is_bounded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file beyond the bound is not read, nor are many that are together beyond it."""
    monkeypatch.setattr(tools, "MAX_READ", 5)
    assert "at most 1 bytes" in bench.blocked('do file.read(paths=["a.txt", "./a.txt"])', "return 1")
    monkeypatch.setattr(tools, "MAX_FILE", 2)
    assert "at most 2 bytes" in bench.blocked('do file.read(paths="a.txt")', "return 1")


# --- tests


def test_tests_run_answers_what_came_of_it(bench: Bench) -> None:
    """Both outputs and the exit code; a failing command is an answer, and blocks nothing."""
    (bench.root / "t.sh").write_text("echo out; echo err >&2; exit $1")
    bench.policy("allow tests.run:sh t.sh*")
    lines = ['do tests.run(cmd="sh  t.sh 0") -> good', 'do tests.run(cmd="sh t.sh 3") -> bad', "return [good, bad]"]
    good, bad = bench.output(*lines)
    assert good == {"passed": True, "stdout": "out\n", "stderr": "err\n", "exitCode": 0}
    assert (bad["passed"], bad["exitCode"]) == (False, 3)


@pytest.mark.parametrize(
    ("rule", "command", "runs"),
    [
        ("tests.run:echo*", "echo hello", True),
        ("tests.run:echo hello", "echo   hello", True),
        ("tests.run:echo hello", "echo hello you", False),
        ("tests.run", "echo hello", False),
        ("tests.*", "echo hello", False),
        ("*", "echo hello", False),
        ("tests.run:pytest*", "echo pytest", False),
        ("tests.run:pytest*, tests.run", "echo hello", False),
    ],
)
def test_tests_run_runs_only_what_the_policy_lists(bench: Bench, rule: str, command: str, runs: bool) -> None:
    """A rule without a scope lists no command, and a contract cannot list one itself."""
    bench.policy(f"allow {rule}")
    outcome = bench.run(f'do tests.run(cmd="{command}")', "return 1")
    assert (outcome.status == "success") is runs
    if not runs:
        assert "not listed by the policy" in outcome.reason or "not with these arguments" in outcome.reason
        assert bench.ledger().calls_used == 0


def test_a_condition_on_the_command_lists_commands_too(bench: Bench) -> None:
    """One on something else does not."""
    policy = bench.root / ".aex" / "policy.aex"
    for condition, status in (('cmd matches "echo *"', "success"), ("quiet is true", "blocked")):
        policy.write_text(f'policy work v1\ngoal "do it"\nallow tests.run where {condition}\n')
        file = bench.contract('do tests.run(cmd="echo a", quiet=true)', "return 1", use="tests.run")
        assert start_run(bench.options(task=""), file, {}).go().status == status


@pytest.mark.parametrize("char", list(";&|`$!<>"))
def test_tests_run_takes_nothing_that_asks_for_a_shell(bench: Bench, char: str) -> None:
    """Not even where the policy lists everything."""
    assert "does not take a command with" in bench.blocked(f'do tests.run(cmd="echo a{char}b")', "return 1")


def test_a_command_that_takes_too_long_is_killed_with_all_it_started(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that times out is killed with its children, and its call is in doubt."""
    monkeypatch.setattr(tools, "TEST_SECONDS", 0.3)
    (bench.root / "t.sh").write_text("(sleep 1; echo late > late.txt) & sleep 60")
    began = time.monotonic()
    assert "did not end within" in bench.blocked('do tests.run(cmd="sh t.sh")', "return 1", task="run-1")
    assert time.monotonic() - began < 30
    time.sleep(1)
    assert not (bench.root / "late.txt").exists()
    assert len(bench.ledger().doubts) == 1


def test_a_command_that_cannot_start_is_not_in_doubt(bench: Bench) -> None:
    """A command that cannot start is not in doubt."""
    assert "cannot start" in bench.blocked('do tests.run(cmd="no-such-program")', "return 1", task="run-1")
    assert not bench.ledger().doubts


def test_a_program_of_the_workspace_is_not_found_by_a_relative_entry_of_path(bench: Bench) -> None:
    """What the policy lists by name is not a file that happens to have it; with a slash it is that file."""
    (bench.root / "tool").write_text("#!/bin/sh\necho mine\n")
    (bench.root / "tool").chmod(0o755)
    bench.patch.chdir(bench.root)
    bench.patch.setenv("PATH", ".::/usr/bin:/bin")
    assert "cannot start tool" in bench.blocked('do tests.run(cmd="tool")', "return 1")
    assert bench.output('do tests.run(cmd="./tool") -> x', "return x.stdout") == "mine\n"


def test_outputs_are_bounded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long output is cut to its beginning and end."""
    monkeypatch.setattr(subprocesses, "MAX_OUTPUT", 100)
    (bench.root / "t.sh").write_text(
        "echo first; i=0; while [ $i -lt 3000 ]; do echo 0123456789; i=$((i+1)); done; echo last"
    )
    shown = bench.output('do tests.run(cmd="sh t.sh") -> x', "return x.stdout")
    assert shown.startswith("first\n")
    assert shown.endswith("last\n")
    assert "bytes left out" in shown
    assert len(shown) < 200


# --- the repository


@pytest.fixture
def repository(bench: Bench) -> Bench:
    git(bench, "init", "--quiet")
    git(bench, "add", "a.txt")
    git(bench, "commit", "--quiet", "--message", "first")
    return bench


def test_git_tools_answer(repository: Bench) -> None:
    """Status lines, a diff of all or of some files, and a patch that is applied or says why not."""
    (repository.root / "a.txt").write_text("new\n")
    (repository.root / "b.txt").write_text("b\n")
    status, all_of_it, other = repository.output(
        "do git.status() -> s", "do git.diff() -> d", 'do git.diff(paths=["b.txt"]) -> e', "return [s, d, e]"
    )
    assert " M a.txt" in status
    assert "+new" in all_of_it
    assert other == ""
    assert (
        repository.output("need p: str", "do git.apply(diff=p) -> x", "return x.applied", inputs={"p": PATCH}) is False
    )
    (repository.root / "a.txt").write_text("old\n")
    assert repository.output("need p: str", "do git.apply(diff=p) -> x", "return x", inputs={"p": PATCH.rstrip()}) == {
        "applied": True
    }
    assert (repository.root / "a.txt").read_text() == "new\n"


def test_git_starts_no_program_that_the_repository_names(repository: Bench) -> None:
    """Settings that run a helper on status and diff have no effect."""
    helper = repository.root / "helper.sh"
    helper.write_text("#!/bin/sh\ntouch ran\n")
    helper.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(helper))
    git(repository, "config", "diff.external", str(helper))
    (repository.root / "a.txt").write_text("new\n")
    repository.output("do git.status()", "do git.diff() -> d", "check d", "return 1")
    assert not (repository.root / "ran").exists()


def test_a_patch_out_of_the_workspace_is_refused(repository: Bench, tmp_path: Path) -> None:
    """A patch that leads out of the workspace, by name or by link, is refused."""
    (repository.root / "linked").symlink_to(tmp_path)
    for name in ("../outside.txt", "linked/outside.txt", ".aex/policy.aex", ".git/config"):
        patch = f"--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-outside\n+changed\n"
        reason = repository.blocked("need p: str", "do git.apply(diff=p)", "return 1", inputs={"p": patch})
        assert "outside the workspace" in reason or "protected" in reason or "belongs to git" in reason
    assert (tmp_path / "outside.txt").read_text() == "outside"


# --- what a patch touches

HEADERS = {
    "a plain one": PATCH,
    "git's header only": "diff --git a/a.txt b/a.txt\nold mode 100644\nnew mode 100755\n",
    "no git header": "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-old\n+new\n",
    "a removal": "--- a/a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n",
    "a time stamp": "--- a/a.txt\t2026-01-01\n+++ b/a.txt\t2026-01-01\n@@ -1 +1 @@\n-old\n+new\n",
    "a quoted name": '--- "a/\\141.txt"\n+++ "b/\\141.txt"\n@@ -1 +1 @@\n-old\n+new\n',
    "a rename away": "diff --git a/a.txt b/ok.txt\nsimilarity index 100%\nrename from a.txt\nrename to ok.txt\n",
}


@pytest.mark.parametrize("patch", HEADERS.values(), ids=HEADERS.keys())
def test_touches_only_sees_what_git_sees(bench: Bench, patch: str) -> None:
    """`touches only` sees the files that git would change, whatever headers a patch has, with both ends of a rename."""
    assert "a.txt" in touched(str(bench.root), patch)
    lines = ["need p: str", "need files: list[file]", "check p touches only files", "return 1"]
    reason = bench.blocked(*lines, inputs={"p": patch, "files": ["ok.txt"]})
    assert "p touches a.txt" in reason
    assert bench.output(*lines, inputs={"p": patch, "files": ["./a.txt", "ok.txt"]}) == 1


def test_a_line_of_a_patch_that_looks_like_a_header_is_none(bench: Bench) -> None:
    """`+++ b/x` inside a hunk is content."""
    patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n--- a/x.txt\n-old\n+++ b/x.txt\n+new\n"
    assert touched(str(bench.root), patch) == ["a.txt"]


@pytest.mark.parametrize(
    "patch",
    [
        "prose",
        "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n",
        "*** a.txt\n--- a.txt\n***************\n*** 1 ****\n! old\n--- 1 ----\n! new\n",
    ],
)
def test_what_git_cannot_read_touches_who_knows_what(bench: Bench, patch: str) -> None:
    """The check fails; some other program might read it otherwise."""
    with pytest.raises(InvalidError):
        touched(str(bench.root), patch)
    lines = ["need p: str", "need files: list[file]", "check p touches only files", "return 1"]
    assert "git cannot parse the patch" in bench.blocked(*lines, inputs={"p": patch, "files": ["a.txt"]})
    assert "is not a diff" in bench.blocked("need p: str", "check p is valid diff", "return 1", inputs={"p": patch})


def test_paths_of_a_patch_count_from_the_workspace(bench: Bench) -> None:
    """Paths of a patch are relative to the workspace, also inside a larger repository and whatever git's environment says."""
    subprocess.run(["git", "init", "--quiet"], cwd=bench.root.parent, check=True)
    bench.patch.setenv("GIT_DIR", str(bench.root.parent / ".git"))
    assert touched(str(bench.root), PATCH) == ["a.txt"]
    assert bench.output("need p: str", "do git.apply(diff=p) -> x", "return x", inputs={"p": PATCH}) == {
        "applied": True
    }
    assert (bench.root / "a.txt").read_text() == "new\n"


def test_path_scopes_hold_for_tools_that_are_not_built_in(bench: Bench) -> None:
    """Their arguments that name places are examined."""
    bench.policy("allow note.add:src/**", "allow note.list")
    (bench.root / "src").mkdir()
    file = bench.contract(
        'do note.add(path="src/b.txt")', 'do note.add(path="src/../a.txt")', "return 1", use="note.add"
    )
    assert "not with these arguments" in start_run(bench.options(), file, {}).go().reason
    assert [given["path"] for _, given in bench.calls] == ["src/b.txt"]


def test_a_named_policy_and_what_it_extends_are_protected(bench: Bench) -> None:
    """A JSON policy that --policy names, and its base, wherever in the workspace they lie; nothing is written."""
    (bench.root / "conf").mkdir()
    (bench.root / "conf" / "own.json").write_text('{"extends": "base.json"}')
    (bench.root / "conf" / "base.json").write_text('{"allow": ["*"]}')
    for name in ("own.json", "base.json"):
        call = f'do file.write(path="conf/{name}", contents="x")'
        assert f"conf/{name}: it is protected" in bench.blocked(call, "return 1", policy="conf/own.json")
    free = bench.run('do file.write(path="conf/other.json", contents="x")', "return 1", policy="conf/own.json")
    assert free.status == "success"
