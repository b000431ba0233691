"""Commands about policies and contracts: init, check and effective."""

from __future__ import annotations

import json
from pathlib import Path

from support.command_line import CommandLine


def test_init_never_overwrites(tmp_path: Path) -> None:
    """`adjourn init` keeps files that exist, reports them as skipped, and makes file names out of task names."""
    context = CommandLine(tmp_path, tmp_path / "config")
    assert context.ok("init", "--policy").out.startswith("written: .aex/policy.aex")
    policy = tmp_path / ".aex" / "policy.aex"
    policy.write_text("mine")
    done = context.ok("init", "--policy", "--task", "a b/c", "--json").json
    assert policy.read_text() == "mine"
    assert done["skipped"] == [".aex/policy.aex"]
    assert done["written"] == ["tasks/a_b_c.aex", "tasks/a_b_c.inputs.json", "tasks/a_b_c.policy.json"]
    assert sorted(path.name for path in (tmp_path / "tasks").iterdir()) == sorted(
        path.partition("/")[2] for path in done["written"]
    )
    assert context.ok("check", "tasks/a_b_c.aex").out == "tasks/a_b_c.aex: valid task\n"
    assert "tasks/sample-task.aex" in context.ok("init", "--task", "sample-task").out


def test_what_init_writes_is_valid(tmp_path: Path) -> None:
    """Policies and a task, which is in canonical format; each policy lists the commands of the tests tool."""
    context = CommandLine(tmp_path, tmp_path / "config")
    context.ok("init", "--policy", "--task", "fix")
    assert context.ok("fmt", "--check", "tasks").out == "all formatted: 1 file\n"
    assert context.ok("check", ".aex/policy.aex").out == ".aex/policy.aex: valid policy\n"
    assert context.ok("check", "tasks/fix.policy.json").out == "tasks/fix.policy.json: valid policy\n"
    for option in ((), ("--policy", "tasks/fix.policy.json")):
        for command, code in (("npm test -- -t a", 0), ("sh -c x", 3)):
            arguments = ("--explain", "tests.run", "--args", json.dumps({"cmd": command}))
            assert context.run("effective", *option, *arguments).code == code, (option, command)


def test_init_writes_through_no_link(tmp_path: Path) -> None:
    """`adjourn init` refuses an `.aex` folder that is a link."""
    context = CommandLine(tmp_path / "work", tmp_path / "config")
    context.root.mkdir()
    (tmp_path / "outside").mkdir()
    (context.root / ".aex").symlink_to(tmp_path / "outside")
    assert context.run("init", "--policy").code == 3
    assert list((tmp_path / "outside").iterdir()) == []


def test_check_shows_every_finding_with_its_line(tmp_path: Path) -> None:
    """`adjourn policy check` reports each file, and each finding with its line, and exits with 1."""
    context = CommandLine(tmp_path, tmp_path / "config")
    (tmp_path / "bad.aex").write_text('policy p v0\n\ngoal "g"\nuse net_*\nnonsense\n')
    context.ok("init", "--policy")
    done = context.run("check", "bad.aex", ".aex/policy.aex", "missing.aex", "--json")
    assert done.code == 1
    assert [file["valid"] for file in done.json["files"]] == [False, True, False]
    text = context.run("check", "bad.aex")
    assert text.code == 1
    assert text.out.startswith("bad.aex: 2 errors")
    assert "bad.aex:4" in text.out
    assert "^" in text.out
    assert context.run("check").code == 0  # the workspace's own policy


def test_effective_names_the_line_of_each_rule(left: CommandLine, tmp_path: Path) -> None:
    """`adjourn policy explain` lists each rule with its file and line, merged with a contract if one is named."""
    told = left.ok("effective", "--json").json
    assert [rule["pattern"] for rule in told["allow"]] == ["echo", "file.*", "slow", "secrets.read", "silent"]
    assert told["deny"] == [{"pattern": "network.*", "source": ".aex/policy.aex", "line": 4}]
    assert (told["budget"], told["policy"]) == (20, ".aex/policy.aex")
    out = left.ok("effective").out
    assert out.startswith("Policy:   .aex/policy.aex\n\nAllowed:\n  echo ")
    contract = tmp_path / "task.aex"
    contract.write_text('task t v0\ngoal "g"\nuse echo, other\nbudget calls=5\nreturn 1\n')
    done = left.run("effective", "--contract", str(contract))
    assert "calls=5" in done.out
    assert "AEX134" in done.err
    assert done.code == 0


def test_effective_without_anything_says_so(tmp_path: Path) -> None:
    """`adjourn policy explain` without a policy and a contract exits with 1."""
    done = CommandLine(tmp_path, tmp_path / "config").run("effective")
    assert done.code == 1
    assert "AEX135" in done.err
