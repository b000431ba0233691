"""`adjourn run` as a process: what it prints, how it asks, how it is stopped, and how it continues."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from support.run_command import POLICY, SECONDS, RunWorkspace


@pytest.fixture
def work(tmp_path: Path) -> RunWorkspace:
    return RunWorkspace(tmp_path)


def events(output: str) -> list[str]:
    return [line.split(" ", 1)[0] for line in output.splitlines() if "." in line[:16] and "{" in line]


def test_what_a_run_prints(work: RunWorkspace) -> None:
    """Events in the published form, then the value of the return; exit code 0."""
    file = work.contract("need n: int", "if n", "  do git.status() -> s", 'return {n: n, t: "x"}')
    subprocess.run(["git", "init", "--quiet"], cwd=work.root, check=True)
    done = work.adjourn("run", file, "--inputs", "-", given='{"n": 5}')
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == 'run.started      {"agent": "work"}'
    assert lines[1] == 'if.true          {"condition": "n"}'
    assert events(done.stdout)[-1] == "run.finished"
    after = done.stdout[done.stdout.index("runtime success\n") + len("runtime success\n") :]
    assert json.loads(after) == {"n": 5, "t": "x"}
    assert done.stderr == ""


def test_a_blocked_run_says_why(work: RunWorkspace) -> None:
    """On stderr, in the published words, with the next step; exit code 1."""
    done = work.adjourn("run", work.contract("need x: str?", "check x", "return 1"))
    assert done.returncode == 1
    assert done.stderr.startswith("error runtime blocked: check failed: x: x is null\n")
    assert '"status": "blocked"' in done.stdout


def test_bad_inputs_are_all_told(work: RunWorkspace) -> None:
    """With their place in the contract; what is no JSON object is wrong usage."""
    file = work.contract("need a: int", "need b: list[str]", "return a")
    work.write("inputs.json", '{"a": "x"}')
    done = work.adjourn("run", file, "--inputs", "inputs.json")
    assert done.returncode == 1
    assert events(done.stdout) == ["run.started", "input.invalid", "input.missing", "run.finished"]
    assert "AEX030" in done.stderr
    assert "AEX031" in done.stderr
    for text in ("[1]", "{", '{"a": NaN}', ""):
        assert work.adjourn("run", file, "--inputs", "-", given=text).returncode == 2
    assert not (work.root / ".aex" / "adjourn.db").exists()


def test_json_is_one_document(work: RunWorkspace) -> None:
    """With status, task and output, or the reason."""
    done = work.adjourn("run", work.contract("return [1]"), "--json")
    told = json.loads(done.stdout)
    assert (told["status"], told["output"], told["callsUsed"]) == ("success", [1], 0)
    done = work.adjourn("run", work.contract("need x: str?", "check x", "return 1"), "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["status"], told["step"]) == (1, "blocked", "1")


def test_structured_events(work: RunWorkspace) -> None:
    """--log-json: each with time, one trace a run, and a span of its own."""
    done = work.adjourn("run", work.contract("need x: str?", "if x", "  check x", "return 1"), "--log-json")
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [one["event"] for one in told] == ["run.started", "if.false", "run.finished"]
    assert len({one["traceId"] for one in told[1:]}) == 1
    assert len({one["spanId"] for one in told}) == 3
    assert {len(one["traceId"]) for one in told} == {32}
    assert all(one["timestamp"].endswith("Z") for one in told)


def test_a_drafted_contract_gets_its_audit_beside_it(work: RunWorkspace) -> None:
    """All events of its run, also of a resumed one; a link in its place is not written through."""
    work.write(".aex/policy.aex", POLICY.replace("calls=50", "calls=1"))
    file = work.contract(
        'do file.read(paths="task") -> x', 'do file.read(paths="task")', "return x", name=".aex/runs/a.aex"
    )
    work.write("task", "t")
    assert work.adjourn("run", file).returncode == 1
    beside = work.root / ".aex" / "runs" / "a.audit.jsonl"
    first = [json.loads(line)["event"] for line in beside.read_text().splitlines()]
    assert first == ["run.started", "tool.allowed", "tool.result", "run.finished"]
    work.write(".aex/policy.aex", POLICY)
    assert work.adjourn("run", "--resume", file).returncode == 0
    told = [json.loads(line) for line in beside.read_text().splitlines()]
    assert [one["event"] for one in told[4:]] == ["tool.allowed", "tool.result", "run.finished"]
    assert set(told[0]) == {"event", "data", "timestamp"}
    beside.unlink()
    beside.symlink_to(work.root / "elsewhere")
    done = work.adjourn("run", file)
    assert done.returncode == 0
    assert "cannot write" in done.stderr
    assert not (work.root / "elsewhere").exists()


def test_a_question_waits_for_approve(work: RunWorkspace) -> None:
    """Without a terminal: `adjourn approve` in another one lets the run continue at once."""
    running = work.start("run", work.contract('do file.write(path="a.txt", contents="a")', "return 1"))
    question = work.waiting()
    assert not (work.root / "a.txt").exists()
    assert work.adjourn("approve", question).returncode == 0
    output, errors = running.communicate(timeout=SECONDS)
    assert running.returncode == 0, errors
    assert f"adjourn approve {question}" in errors
    assert events(output)[1:3] == ["confirm.required", "confirm.approved"]
    assert (work.root / "a.txt").read_text() == "a"


def test_a_question_that_is_denied_blocks(work: RunWorkspace) -> None:
    """And its effect does not happen."""
    running = work.start("run", work.contract('do file.write(path="a.txt", contents="a")', "return 1"))
    assert work.adjourn("deny", work.waiting()).returncode == 0
    output, errors = running.communicate(timeout=SECONDS)
    assert (running.returncode, "confirm.denied" in output) == (1, True)
    assert "was refused" in errors
    assert not (work.root / "a.txt").exists()


def test_nobody_answers(work: RunWorkspace) -> None:
    """After --confirm-timeout the run is blocked; a later yes lets the resumed one pass."""
    file = work.contract('do file.write(path="a.txt", contents="a")', "return 1")
    done = work.adjourn("run", file, "--confirm-timeout", "0")
    assert done.returncode == 1
    assert "waits for a person" in done.stderr
    assert work.adjourn("approve", work.waiting()).returncode == 0
    assert work.adjourn("run", "--resume", "--confirm-timeout", "0").returncode == 0
    assert (work.root / "a.txt").exists()


def test_auto_confirm(work: RunWorkspace) -> None:
    """Asks nobody."""
    file = work.contract('do file.write(path="a.txt", contents="a")', "return 1")
    assert work.adjourn("run", file, "--auto-confirm").returncode == 0


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("\n", 1), ("n\n", 1)])
def test_a_person_at_the_terminal(work: RunWorkspace, typed: str, code: int) -> None:
    """Is asked y/N; Enter is a denial."""
    file = work.contract('do file.write(path="a.txt", contents="a")', "return 1")
    ended, seen = work.on_a_terminal("run", file, answers={"[y/N]": typed})
    assert ended == code, seen
    assert '{"path":"a.txt","contents":"a"}' in seen
    assert (work.root / "a.txt").exists() is (code == 0)


def killed_in_doubt(work: RunWorkspace) -> str:
    """A run that was killed while its script ran, which had its effect."""
    work.write("t.sh", "echo x >> effects; sleep 1")
    file = work.contract('do tests.run(cmd="sh t.sh")', "return 7")
    running = work.start("run", file, "--task", "doubt")
    end = time.monotonic() + SECONDS
    while not (work.root / "effects").exists() and time.monotonic() < end:
        time.sleep(0.02)
    running.kill()
    running.communicate()
    work.write("t.sh", "echo x >> effects")
    return file


@pytest.mark.parametrize(("typed", "code", "effects"), [("y\n", 0, 1), ("n\n", 0, 2), ("\n", 1, 1)])
def test_a_doubt_is_a_question_at_the_terminal(work: RunWorkspace, typed: str, code: int, effects: int) -> None:
    """It happened: not again; it did not: done now; not known: left."""
    killed_in_doubt(work)
    ended, seen = work.on_a_terminal("run", "--resume", answers={"Did it happen?": typed})
    assert ended == code, seen
    assert (work.root / "effects").read_text() == "x\n" * effects


def test_a_doubt_is_settled_from_elsewhere(work: RunWorkspace) -> None:
    """While the resumed run waits, and --auto-confirm does not answer it."""
    killed_in_doubt(work)
    running = work.start("run", "--resume", "--task", "doubt", "--auto-confirm")
    work.waiting()
    call = json.loads(work.adjourn("settle", "--json").stdout)["inDoubt"][0]["call"]
    assert work.adjourn("settle", call, "--done").returncode == 0
    output, errors = running.communicate(timeout=SECONDS)
    assert running.returncode == 0, errors
    assert output.endswith("runtime success\n7\n")
    assert (work.root / "effects").read_text() == "x\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_cleanly(work: RunWorkspace, number: signal.Signals) -> None:
    """What runs is ended, the session is closed, and the run can be resumed; the cut-off effect is in doubt."""
    work.write("t.sh", "echo x >> effects; sleep 30; echo late >> effects")
    file = work.contract('do file.read(paths="t.sh") -> t', 'do tests.run(cmd="sh t.sh")', "return 7")
    running = work.start("run", file, "--task", "stop")
    end = time.monotonic() + SECONDS
    while not (work.root / "effects").exists() and time.monotonic() < end:
        time.sleep(0.02)
    running.send_signal(number)
    _, errors = running.communicate(timeout=20)
    assert running.returncode == 130
    assert "resume it: adjourn run --resume --task stop" in errors
    status = json.loads(work.adjourn("status", "stop", "--json").stdout)
    assert status["sessions"] == []
    assert [one["tool"] for one in status["inDoubt"]] == ["tests.run"]
    page = (work.root / "tmp" / "checkpoint-active.md").read_text()
    assert "Checkpoint made: interrupted" in page
    assert "adjourn run --resume --task stop" in page
    assert "In doubt: tests.run" in page
    assert work.adjourn("verify").returncode == 0
    assert (work.root / ".aex" / "checkpoints" / "stop" / "checkpoint.json").exists()
    assert work.adjourn("settle", status["inDoubt"][0]["call"], "--done").returncode == 0
    done = work.adjourn("run", "--resume")
    assert (done.returncode, events(done.stdout)) == (0, ["run.finished"])
    assert (work.root / "effects").read_text() == "x\n"


def test_a_signal_while_a_person_is_waited_for(work: RunWorkspace) -> None:
    """Leaves the question open and the run to be resumed; nothing is in doubt."""
    running = work.start("run", work.contract('do file.write(path="a.txt", contents="a")', "return 1"))
    question = work.waiting()
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=20)
    assert running.returncode == 130
    assert work.adjourn("approve", question).returncode == 0
    assert work.adjourn("run", "--resume").returncode == 0
    assert (work.root / "a.txt").exists()


def test_status_names_the_command_that_goes_on(work: RunWorkspace) -> None:
    """For a run that did not reach its return; one that did is over."""
    work.adjourn("run", work.contract("need x: str?", "check x", "return 1"), "--task", "cut")
    assert "resume the run: adjourn run --resume --task cut" in work.adjourn("status", "cut").stdout
    work.adjourn("run", work.contract("return 1"), "--task", "whole")
    assert "run --resume" not in work.adjourn("status", "whole").stdout


def test_a_second_process_is_refused(work: RunWorkspace) -> None:
    """While the first one lives; exit code 3."""
    running = work.start(
        "run", work.contract('do file.write(path="a.txt", contents="a")', "return 1"), "--task", "held"
    )
    work.waiting()
    done = work.adjourn("run", "--resume", "--task", "held")
    assert (done.returncode, "is held by" in done.stderr) == (3, True)
    running.kill()
    running.communicate()


def test_a_changed_contract_is_refused(work: RunWorkspace) -> None:
    """With the command that continues with the text of the start."""
    file = work.contract('do file.write(path="a.txt", contents="a")', "return 1")
    work.adjourn("run", file, "--confirm-timeout", "0", "--task", "pinned")
    work.contract("return 2")
    done = work.adjourn("run", "--resume", file)
    assert done.returncode == 1
    assert "changed since run pinned started" in done.stderr
    assert "adjourn run --resume --task pinned" in done.stderr
    done = work.adjourn("run", "--resume", "--auto-confirm")
    assert done.stdout.endswith("runtime success\n1\n")


def test_a_model_handler_makes(work: RunWorkspace) -> None:
    """A function of a module in the working folder."""
    work.write(
        "answers.py", "def answer(system, prompt):\n    return '{\"length\": %d}' % (1 if 'Ann' in prompt else 0)\n"
    )
    file = work.contract("need who: str", "make found: json from who with:", "  - count", "return found.length")
    given = '{"who": "Ann"}'
    done = work.adjourn("run", file, "--inputs", "-", "--model-handler", "answers:answer", given=given)
    assert done.stdout.endswith("runtime success\n1\n"), done.stderr
    done = work.adjourn("run", file, "--inputs", "-", given=given)
    assert (done.returncode, "needs a model" in done.stderr) == (1, True)
    assert work.adjourn("run", file, "--inputs", "-", "--model", "nobody", given=given).returncode == 2


@pytest.mark.parametrize(
    "arguments",
    [["run"], ["run", "--resume", "--inputs", "x"], ["run", "no.aex"], ["run", "--resume"], ["run", ".aex/policy.aex"],
     ["run", "task.aex", "--task", "../x"], ["run", "task.aex", "--registry", "file:///etc/passwd"]],
)  # fmt: skip
def test_wrong_usage_leaves_nothing(work: RunWorkspace, arguments: list[str]) -> None:
    """A message with a remedy, an exit code that is not 0, no store."""
    work.contract("return 1")
    done = work.adjourn(*arguments)
    assert done.returncode in (1, 2)
    assert done.stderr
    assert "Traceback" not in done.stderr
    assert not (work.root / ".aex" / "adjourn.db").exists()


def test_the_examples_do_what_they_say(work: RunWorkspace) -> None:
    """Each contract of examples/contracts, run as its first lines say, ends with the output beside it."""
    folder = Path(__file__).parents[2] / "examples" / "contracts"
    examples = sorted(folder.glob("*.aex"))
    assert len([path for path in examples if path.name != "policy.aex"]) == 3
    for path in folder.iterdir():
        if path.is_file():
            work.write(path.name, path.read_text())
    subprocess.run(["git", "init", "--quiet"], cwd=work.root, check=True)
    for path in examples:
        if path.name == "policy.aex":
            continue
        line = next(line for line in path.read_text().splitlines() if "adjourn run" in line)
        done = work.adjourn(*line.split("adjourn ", 1)[1].split())
        assert done.returncode == 0, done.stdout + done.stderr
        expected: Any = json.loads(path.with_suffix(".output.json").read_text())
        assert json.loads(done.stdout.split("runtime success\n")[1]) == expected, path.name


def test_a_run_whose_budget_is_spent_leaves_a_checkpoint_and_one_that_ends_well_none(work: RunWorkspace) -> None:
    """The last thing written is a checkpoint that says how to continue; what is to be said of its page is on stderr."""
    work.write("a.txt", "a")
    (work.root / "tmp").write_text("no folder")
    (work.root / ".aex" / "policy.aex").write_text('policy work v0\ngoal "g"\nallow file.read\nbudget calls=1\n')
    read = 'do file.read(paths="a.txt") -> t'
    blocked = work.adjourn("run", work.contract(read, read, "return 1"), "--task", "spent")
    assert blocked.returncode == 1
    assert "budget exhausted" in blocked.stderr
    assert "the checkpoint has no page" in blocked.stderr
    folder = work.root / ".aex" / "checkpoints" / "spent" / "checkpoint.json"
    assert "adjourn run --resume --task spent" in json.loads(folder.read_text())["description"]
    (work.root / "tmp").unlink()
    assert work.adjourn("run", work.contract(read, "return 1"), "--task", "well").returncode == 0
    assert not (work.root / ".aex" / "checkpoints" / "well").exists()
