"""What the benchmarks are built on: turns, ratios of rounds, counted calls."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import machine
import pytest
import turns
from profiling import Profile, profiled


def test_subjects_take_turns_in_alternating_order() -> None:
    """Each subject runs once a round; every other round is reversed."""
    order: list[str] = []
    subjects = {name: lambda name=name: order.append(name) for name in "abc"}
    rounds = turns.take_turns(subjects, 2)
    assert "".join(order) == "abccba"
    assert (len(rounds.kept), rounds.tried) == (2, 2)


@pytest.mark.parametrize(("used", "kept"), [([1.0, 0.0, 0.02], 2), ([0.0, 0.0], 2)])
def test_rounds_of_a_busy_machine_are_dropped(monkeypatch: pytest.MonkeyPatch, used: list[float], kept: int) -> None:
    """With a limit for waiting, a round counts only when other programs used next to nothing."""
    left = iter(used)

    class Usage:
        def others_since(self, before: Any) -> float:
            return next(left)

    monkeypatch.setattr(machine, "usage", Usage)
    monkeypatch.setattr(turns, "WAIT_SECONDS", 0)
    rounds = turns.take_turns({"a": lambda: 1}, 2, idle_seconds=60)
    assert (len(rounds.kept), rounds.tried) == (kept, len(used))


def test_a_machine_that_is_never_idle_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """No figures are better than figures of a busy machine that were asked to be of an idle one."""
    busy = machine.Usage(at=1, idle=0, own=0)
    monkeypatch.setattr(machine, "usage", lambda: busy._replace(at=busy.at + 1))
    monkeypatch.setattr(machine.Usage, "others_since", lambda *_: 1.0)
    monkeypatch.setattr(turns, "WAIT_SECONDS", 0.02)
    with pytest.raises(SystemExit, match="never idle"):
        turns.take_turns({"a": lambda: 1}, 2, idle_seconds=0.01)


def test_the_ratio_is_the_median_of_those_of_rounds() -> None:
    """Rounds that the machine slowed down move neither the ratio nor its error; one without a floor does not count."""
    ratio = turns.median_ratio([(2, 1)] * 30 + [(90, 1), (0.1, 1)] * 3 + [(5, 0), (5, -1)])
    assert ratio == turns.Ratio(2, 0)
    assert turns.median_ratio([(1, 1), (3, 1)]) == turns.Ratio(2, 1)
    assert turns.median_ratio([(1, 0)]) is None


def test_calls_of_python_functions_are_counted(tmp_path: Path) -> None:
    """Every thread counts; comprehensions are calls, and no functions; an end without clean-up writes the report, too."""
    program, report = tmp_path / "program.py", tmp_path / "report.json"
    program.write_text(
        "import os, sys, threading\n"
        "def work(n):\n"
        "    return sum(x for x in range(n))\n"
        "thread = threading.Thread(target=work, args=(3,))\n"
        "thread.start()\n"
        "thread.join()\n"
        "work(int(sys.argv[1]))\n"
        "os._exit(3)\n"
    )
    assert subprocess.run(profiled(report, str(program), "2"), check=False).returncode == 3
    entered = Profile(report, tmp_path).between()
    assert (entered.entries, entered.functions, entered.files, entered.lines) == (2, 1, 1, 2)
    assert entered.calls > 2 + 4 + 3
    assert Profile(report, tmp_path).between(0, 1).calls == 0
