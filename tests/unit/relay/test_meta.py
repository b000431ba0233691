"""The meta-tools that save checkpoints, list tasks and review contracts: published fields and their order, bounds."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from adjourn.aex import from_text
from support.in_process import ProxyWorkspace, refused, text_of
from support.requirements import requirement

STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
CONTRACT = """task fix_test v0
goal "Fix the failing test with the smallest safe change."
use file.read, file.write, git.push
deny network.*
budget calls=20
confirm before file.write
do file.read(path="a") -> source
make patch: diff from source with:
  - keep it small
check patch is valid diff
return patch
"""


# --- aex.checkpoint


@requirement("D37")
def test_a_checkpoint_has_the_published_answer_and_files(tmp_path: Path) -> None:
    """aex.checkpoint answers with the published text, and writes the published files."""
    with ProxyWorkspace(tmp_path, "allow echo", "allow file.read", "deny network.*", "budget calls=100") as work:
        client = work.client()
        for tool in ("echo", "network.fetch", "file.read"):
            client.call(tool)
        report = {"description": "Read, identified", "resumptionPoint": "Fix it"}
        answer = client.call("aex.checkpoint", {"name": "fix-auth", **report})
        assert text_of(answer) == (
            '{\n  "path": ".aex/checkpoints/fix-auth/",\n'
            '  "message": "Checkpoint \\"fix-auth\\" saved to .aex/checkpoints/fix-auth/"\n}'
        )
        folder = work.root / ".aex/checkpoints/fix-auth"
        file = json.loads((folder / "checkpoint.json").read_text())
        published = ["name", "description", "timestamp", "callsUsed", "budget", "toolHistory"]
        assert list(file)[:6] == published
        assert (file["name"], file["description"], file["callsUsed"], file["budget"]) == (
            "fix-auth", "Read, identified", 2, 100,
        )  # fmt: skip
        assert STAMP.fullmatch(file["timestamp"])
        assert [{k: v for k, v in entry.items() if k != "timestamp"} for entry in file["toolHistory"]] == [
            {"tool": "echo", "decision": "forward"},
            {"tool": "network.fetch", "decision": "block", "reason": "deny_list"},
            {"tool": "file.read", "decision": "forward"},
        ]
        assert all(STAMP.fullmatch(entry["timestamp"]) for entry in file["toolHistory"])
        for line in (folder / "audit.jsonl").read_text().splitlines():
            assert {"event", "data", "timestamp"} <= json.loads(line).keys()


def test_what_was_not_given_is_absent_from_a_checkpoint(tmp_path: Path) -> None:
    """checkpoint.json has no member for a description or a budget that does not exist."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        client = work.client()
        client.call("echo")
        client.meta("aex.checkpoint", name="a")
        file = json.loads((work.root / ".aex/checkpoints/a/checkpoint.json").read_text())
        assert list(file)[:4] == ["name", "timestamp", "callsUsed", "toolHistory"]


def test_null_in_arguments_is_absent_where_the_member_may_be(tmp_path: Path) -> None:
    """Some clients send every member of a schema. What a tool requires is still required, and no list has an empty place."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        client = work.client()
        client.meta("aex.checkpoint", name="a", mission="m", resumptionPoint="next")
        steps = [{"text": "one", "status": "done", "note": None}]
        parts = dict.fromkeys(("mission", "currentState", "openQuestions", "artifacts", "resumptionPoint"))
        client.meta("aex.checkpoint", name="a", description=None, progress=steps, **parts)
        assert client.meta("aex.resume", name="a", more=None)["nextStep"] == ["next"]
        client.meta("adjourn.note", facts=["f"], goals=None, status=None, learnings=[{"content": "l", "type": None}])
        client.meta("adjourn.ask", question="q?", context=None, options=None, priority=None)
        client.meta("adjourn.record", section=None)
        odd: dict[str, dict[str, Any]] = {
            "aex.checkpoint": {"name": None},
            "adjourn.note": {"facts": [None]},
            "adjourn.ask": {"question": None},
        }
        for tool, arguments in odd.items():
            assert refused(client.call(tool, arguments)), tool
        assert "the note is empty" in text_of(client.call("adjourn.note", {"facts": None}))


@requirement("D37", "D10")
def test_what_is_no_checkpoint_name_is_refused(tmp_path: Path) -> None:
    """A name that could be a path, is too long, or is no text is refused, and no file is written."""
    names: list[Any] = [
        "",
        "../x",
        "a/b",
        ".",
        "..",
        "a b",
        "ä",
        "x" * 65,
        "a\n",
        "a\0",
        5,
        None,
        ["a"],
        {"a": 1},
        True,
    ]
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        client = work.client()
        client.call("echo")
        for name in names:
            for tool in ("aex.checkpoint", "aex.resume"):
                answer = client.call(tool, {"name": name})
                assert refused(answer), name
                assert re.fullmatch(r"Meta-tool error: [^.].*\. [A-Z].*\.", text_of(answer))
        assert not (work.root / ".aex/checkpoints").exists()
        assert not (work.root / "x").exists()
        assert not refused(client.call("echo"))


def test_failures_of_meta_tools_are_protocol_errors_on_request(tmp_path: Path) -> None:
    """With `--errors jsonrpc`, a failed meta-tool has a JSON-RPC error without paths of the machine."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        client = work.client("--errors", "jsonrpc")
        error = client.call("aex.resume", {"name": "none"})["error"]
        assert error["code"] == -32603
        assert error["message"].startswith("Meta-tool error: ")
        assert str(work.root) not in error["message"]


@requirement("D37")
def test_a_checkpoint_made_again_names_the_one_before_and_replaces_its_files_in_one_step(tmp_path: Path) -> None:
    """A second checkpoint of a name links to the first one, and its files replace the old ones atomically."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        client = work.client()
        client.call("echo")
        client.meta("aex.checkpoint", name="a", description="one")
        folder = work.root / ".aex/checkpoints/a"
        inode = (folder / "checkpoint.json").stat().st_ino
        client.call("echo")
        client.meta("aex.checkpoint", name="a", description="two")
        assert (folder / "checkpoint.json").stat().st_ino != inode
        assert sorted(os.listdir(folder)) == ["audit.jsonl", "checkpoint.json"]
        first, second = work.facts("checkpoint.created")
        events = [event for event in work.events() if event.event == "checkpoint.created"]
        assert (first.previous, len(second.previous)) == ("", 64)
        assert events[1].seq > events[0].seq
        assert client.meta("aex.resume", name="a")["description"] == "two"


@requirement("D37")
@pytest.mark.parametrize("link", [".aex/checkpoints", ".aex/checkpoints/a", ".aex/checkpoints/a/checkpoint.json"])
def test_checkpoints_are_written_through_no_link(tmp_path: Path, link: str) -> None:
    """A symbolic link at a checkpoint's folder or file is never followed."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "checkpoint.json").write_text("theirs")
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        client = work.client()
        client.call("echo")
        path = work.root / link
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(outside if path.suffix == "" else outside / "checkpoint.json")
        answer = client.call("aex.checkpoint", {"name": "a"})
        assert (outside / "checkpoint.json").read_text() == "theirs"
        assert os.listdir(outside) == ["checkpoint.json"]
        assert refused(answer) or not path.is_symlink()
        assert not refused(client.call("echo"))


# --- aex.list_tasks, aex.review_task


def test_tasks_are_listed_in_the_published_order_and_shape(tmp_path: Path) -> None:
    """aex.list_tasks lists contracts, runs and checkpoints in the published order, with the published fields."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        for place in ("tasks", ".aex/runs"):
            (work.root / place).mkdir(exist_ok=True)
        (work.root / "tasks/fix-test.aex").write_text(CONTRACT)
        (work.root / "tasks/readme.md").write_text("no contract")
        (work.root / ".aex/runs/run-1.aex").write_text('task run_1 v0\ngoal "Run."\nuse echo\nreturn 1\n')
        client = work.client()
        client.call("echo")
        client.meta("aex.checkpoint", name="b", description="second")
        client.meta("aex.checkpoint", name="a", description="first")
        assert client.meta("aex.list_tasks") == {
            "tasks": [
                {
                    "name": "fix_test",
                    "path": "tasks/fix-test.aex",
                    "type": "task",
                    "goal": "Fix the failing test with the smallest safe change.",
                    "tools": ["file.read", "file.write", "git.push"],
                },
                {"name": "run_1", "path": ".aex/runs/run-1.aex", "type": "run", "goal": "Run.", "tools": ["echo"]},
                {"name": "a", "path": ".aex/checkpoints/a/", "type": "checkpoint", "goal": "first"},
                {"name": "b", "path": ".aex/checkpoints/b/", "type": "checkpoint", "goal": "second"},
            ]
        }
        first = client.meta("aex.list_tasks")["tasks"][0]
        assert list(first) == ["name", "path", "type", "goal", "tools"]


def test_a_review_has_the_published_fields_in_order(tmp_path: Path) -> None:
    """aex.review_task answers with the published fields in their order."""
    with ProxyWorkspace(tmp_path, "allow file.*", "deny secrets.read", "budget calls=50") as work:
        (work.root / "tasks").mkdir()
        (work.root / "tasks/fix-test.aex").write_text(CONTRACT)
        client = work.client()
        told = client.meta("aex.review_task", task="tasks/fix-test.aex")
        assert list(told) == [
            "task", "goal", "requested", "denied", "effective", "checks", "makeSteps", "valid", "warnings",
        ]  # fmt: skip
        assert (told["task"], told["requested"]) == ("fix_test", ["file.read", "file.write", "git.push"])
        assert told["effective"] == {
            "allow": ["file.read", "file.write"],
            "deny": ["secrets.read", "network.*"],
            "confirm": ["file.write"],
            "budget": 20,
        }
        assert told["checks"] == ["patch is valid diff"]
        assert told["makeSteps"] == ["make patch: diff from source"]
        assert told["valid"] is True
        assert any("git.push" in warning for warning in told["warnings"])


@requirement("D45")
@pytest.mark.parametrize(
    "text", [CONTRACT, CONTRACT.replace("return patch", "return nothing_named"), "garbage\n", CONTRACT + "  odd\n"]
)
def test_a_review_calls_valid_what_the_checker_finds_no_error_in(tmp_path: Path, text: str) -> None:
    """A review says `valid` exactly if the checker finds no error, and warns of each one."""
    with ProxyWorkspace(tmp_path, "allow file.*") as work:
        (work.root / "a.aex").write_text(text)
        _, findings = from_text(text, "a.aex")
        errors = [finding for finding in findings if finding.severity == "error"]
        told = work.client().meta("aex.review_task", task="a.aex")
        assert told["valid"] is (not errors)
        assert len(told["warnings"]) >= len(errors)


def test_a_review_warns_that_a_required_signature_is_missing(tmp_path: Path) -> None:
    """Where the policy names signers: as the command line's review does, and only as long as it is so."""
    for number, (lines, warned) in enumerate((((), False), (("require signed by ann",), True))):
        with ProxyWorkspace(tmp_path / str(number), "allow file.*", *lines, version="v1") as work:
            (work.root / "a.aex").write_text(CONTRACT)
            warnings = work.client().meta("aex.review_task", task="a.aex")["warnings"]
            assert any("AEX150" in warning for warning in warnings) is warned


@requirement("D5")
def test_a_review_reads_contracts_of_the_workspace_only_and_tells_nothing_else(tmp_path: Path) -> None:
    """A review of anything but a contract file in the workspace fails, with one text for all reasons."""
    outside = tmp_path / "secret.aex"
    outside.write_text(CONTRACT)
    (tmp_path / "folder").mkdir()
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        (work.root / "notes.txt").write_text(CONTRACT)
        (work.root / "link.aex").symlink_to(outside)
        (work.root / "dir.aex").mkdir()
        (work.root / "bytes.aex").write_bytes(b"\xff\xfe")
        (work.root / "up").symlink_to(tmp_path)
        os.mkfifo(work.root / "pipe.aex")
        (work.root / "inner.aex").symlink_to(work.root / "notes.txt")
        client = work.client()
        answers = set()
        for path in (
            "/etc/passwd", "/etc/shadow.aex", "../secret.aex", str(outside), "link.aex", "up/secret.aex", "dir.aex",
            "absent.aex", "../absent.aex", "notes.txt", "pipe.aex", "bytes.aex", "", ".", "a\0.aex", "inner.aex",
            "../folder/x.aex", "~/x.aex", "tasks/../../secret.aex",
        ):  # fmt: skip
            answer = client.call("aex.review_task", {"task": path})
            assert refused(answer), path
            answers.add(text_of(answer).replace(repr(path), "PATH"))
        assert len(answers) == 1, answers
        for task in (5, None, ["a"]):
            assert refused(client.call("aex.review_task", {"task": task}))


@pytest.mark.parametrize("tool", ["aex.resume", "aex.finish", "aex.list_tasks", "aex.rollback"])
def test_an_argument_that_a_meta_tool_does_not_have_is_named(tool: str, tmp_path: Path) -> None:
    """Beside the answer: what was ignored, and which arguments there are."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        client = work.client()
        client.call("aex.checkpoint", {"name": "one"})
        given = {} if tool in ("aex.finish", "aex.list_tasks") else {"name": "one"}
        answer = json.loads(text_of(client.call(tool, {**given, "naem": "one"})))
    [ignored] = answer["ignored"]
    assert ignored.startswith(f"naem: not an argument of {tool}, which has ")
