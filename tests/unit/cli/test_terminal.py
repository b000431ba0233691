"""A terminal gets colour, boxes and bars; a pipe, `NO_COLOR` and `TERM=dumb` get the same words as plain text."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import threading
from contextlib import redirect_stdout, suppress

import pytest

from adjourn.cli import drawing, main, output, terminal
from support.kept_output import Terminal

HOSTILE = "a\x1b[31mred\x07 [bold]x[/bold] :smile: \u202e"


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal of 80 columns, for `redirect_stdout`: a fixture cannot set stdout for a test."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    return Terminal()


def test_only_a_terminal_is_coloured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Colour goes to a terminal only, and not if NO_COLOR is set or TERM is `dumb`."""

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert terminal.paint("x", "red", Terminal()) == "\x1b[31mx\x1b[0m"
    assert terminal.paint("x", "red", io.StringIO()) == "x"
    assert terminal.paint("x", "", Terminal()) == "x"
    monkeypatch.setenv("TERM", "dumb")
    assert terminal.paint("x", "red", Terminal()) == "x"
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert terminal.paint("x", "red", Terminal()) == "x"


@pytest.mark.parametrize(("value", "coloured"), [("1", True), ("3", True), ("0", False), ("", False)])
def test_a_pipe_is_coloured_on_demand(value: str, coloured: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """FORCE_COLOR gives a pipe colour and boxes, as for the logs of a CI system; NO_COLOR is stronger, and nothing is paged."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("FORCE_COLOR", value)
    pipe = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    assert (terminal.paint("x", "red", pipe) != "x", terminal.fancy(pipe)) == (coloured, coloured)
    monkeypatch.setenv("NO_COLOR", "1")
    assert (terminal.paint("x", "red", pipe), terminal.fancy(pipe)) == ("x", False)


def test_help_stands_out_on_a_terminal(screen: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Headings and names of a help are coloured on a terminal; the words are those of a pipe."""
    monkeypatch.setenv("PAGER", "cat")
    for words in (["--help"], ["help"], ["help", "--all"], ["help", "policy"], ["status", "--help"]):
        plain, coloured = io.StringIO(), Terminal()
        with redirect_stdout(plain):
            main(words)
        with redirect_stdout(coloured):
            main(words)
        assert "\x1b[1m" in coloured.getvalue(), words
        assert re.sub(r"\x1b\[\d*m", "", coloured.getvalue()) == plain.getvalue(), words


def test_progress_shows_after_a_second_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A progress line appears after one second, and only on a terminal."""

    clock = [0.0]
    monkeypatch.setattr("adjourn.cli.terminal.time.monotonic", lambda: clock[0])
    for stream, shown in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr("sys.stderr", stream)
        with terminal.ProgressLine("counting") as progress:
            clock[0] += 0.5
            progress(1, 10)
            assert stream.getvalue() == ""
            clock[0] += 1.0
            progress(5, 10)
        assert ("5 of 10 50%" in stream.getvalue()) is shown


def test_what_cannot_be_counted_shows_how_long_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal only, from a second on; the line is gone when it is over, however that ends."""
    told = threading.Event()

    class Told(Terminal):
        def flush(self) -> None:
            told.set()

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("adjourn.cli.terminal._PROGRESS_AFTER", 0.01)
    monkeypatch.setattr("sys.stderr", stream := Told())
    with suppress(KeyError), terminal.Spinner("reading"):
        assert told.wait(10)
        raise KeyError
    assert "reading: 0 s " in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[K")
    monkeypatch.setattr("sys.stderr", quiet := io.StringIO())
    with terminal.Spinner("reading"):
        pass
    assert quiet.getvalue() == ""


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_terminal_that_wants_plain_text_gets_it(
    screen: Terminal, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """With NO_COLOR, and on a dumb terminal, a table is the plain one."""
    monkeypatch.setenv(name, value)
    with redirect_stdout(screen):
        output.say_table(("A", "B"), [("x", "y")])
    assert screen.getvalue() == "A  B\nx  y\n"


@pytest.mark.parametrize("columns", ["60", "80", "120"])
def test_a_table_wraps_its_last_column_within_the_width(
    screen: Terminal, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    """On a terminal no line of a table is wider than the screen, and no word of its last column is lost."""
    monkeypatch.setenv("COLUMNS", columns)
    words = " ".join(f"word{number}" for number in range(30))
    with redirect_stdout(screen):
        output.say_table(("NAME", "COUNT", "TEXT"), [("n" * 40, "7", words), ("m", "12", "")])
    lines = screen.shown().splitlines()
    assert max(map(len, lines)) <= int(columns)
    assert set(words.split()) <= set(screen.shown().split())


def test_a_table_without_room_names_its_cells(screen: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where not even the short columns have room, each row is its first cell, with the others below it by their titles."""
    monkeypatch.setenv("COLUMNS", "40")
    with redirect_stdout(screen):
        output.say_table(("NAME", "TASK", "USED", "TEXT"), [("n" * 30, "t1", "7", "words"), ("m", "", "8", "")])
    assert screen.shown().splitlines() == ["n" * 30, "  task t1 · used 7", "  words", "m", "  used 8"]


def test_prose_wraps_at_words_on_a_terminal_only(
    screen: Terminal, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A long line is continued below its own beginning; a line that fits, and one for a pipe, stays as it is."""
    monkeypatch.setenv("COLUMNS", "40")
    text = "it fits\n  one two three four five six seven eight nine"
    with redirect_stdout(screen):
        output.say_prose(text)
    assert screen.shown() == "it fits\n  one two three four five six seven\n    eight nine\n"
    output.say_prose(text)
    assert capsys.readouterr().out == text + "\n"


@pytest.mark.parametrize(("severity", "colour"), [("error", "31"), ("warning", "33")])
def test_a_finding_shows_its_severity_in_colour(screen: Terminal, severity: str, colour: str) -> None:
    """Severity and code are coloured; what a finding quotes is not wrapped, its help is."""
    quoted = "x" * 90
    with redirect_stdout(screen):
        output.say_finding(f"{severity} AEX1 · a.aex:1 · is wrong\n{quoted}\n  help: {'mend it ' * 12}")
    lines = screen.getvalue().splitlines()
    assert lines[0] == f"\x1b[{colour}m{severity} AEX1\x1b[0m · a.aex:1 · is wrong"
    assert lines[1] == quoted
    assert max(map(len, lines[2:])) <= 80
    assert len(lines) == 4


def test_a_panel_shows_bars_names_and_values(screen: Terminal) -> None:
    """A panel has its title, a bar for each budget, and sections of names with their values."""
    bars = [drawing.Bar("calls", 15, 20, "5 left")]
    drawn = drawing.panel("t1", "1 waiting", bars, [[("goal", "do it", "")], [], [("next", "go on", "bold")]])
    with redirect_stdout(screen):
        drawing.print_drawn(drawn)
    lines = screen.shown().splitlines()
    assert [len(line) for line in lines] == [80] * len(lines)
    assert "t1" in lines[0]
    assert "━━━  15 of 20  5 left" in lines[1]
    assert "1 waiting" in lines[-1]


def test_a_bar_gives_way_to_its_numbers(screen: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a narrow panel the bars are shorter, all alike, and what is left stays on its line."""
    monkeypatch.setenv("COLUMNS", "50")
    bars = [drawing.Bar("calls", 1500, 2000, "500 left"), drawing.Bar("minutes", 2, 90, "88 left")]
    with redirect_stdout(screen):
        drawing.print_drawn(drawing.panel("t1", "", bars, []))
    lines = screen.shown().splitlines()[1:-1]
    assert ["500 left" in lines[0], "88 left" in lines[1], len(lines)] == [True, True, 2]
    assert lines[0].count("━") == lines[1].count("━") < 24


def test_nothing_of_a_text_is_obeyed(screen: Terminal) -> None:
    """Escapes, markup and emoji codes in a text are shown as they are, in panels, tables, lines and diffs."""
    with redirect_stdout(screen):
        drawing.print_drawn(drawing.panel(HOSTILE, HOSTILE, [], [[("name", HOSTILE, "")]]))
        drawing.print_table(("A", "B"), [(HOSTILE, HOSTILE)], right=(False, False))
        output.print_spans([(HOSTILE, "bold")])
        terminal.print_diff(f"+{HOSTILE}")
    assert not {"\x1b", "\x07", "\u202e"} & set(screen.shown())
    assert screen.shown().count("[bold]x[/bold]") == 7


def test_a_diff_is_coloured_on_a_terminal_only(screen: Terminal) -> None:
    """Added lines are green and removed ones red on a terminal; elsewhere a diff is plain."""
    diff = "--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n same"
    with redirect_stdout(screen):
        terminal.print_diff(diff)
    assert "\x1b[32m+new\x1b[0m" in screen.getvalue()
    assert "\x1b[31m-old\x1b[0m" in screen.getvalue()
    assert screen.shown() == diff + "\n"


def test_rich_is_loaded_for_a_terminal_only() -> None:
    """Printing a table to a pipe loads nothing that only a terminal needs."""
    script = (
        "import sys; from adjourn.cli.output import say_table; say_table(('A',), [('x',)]);"
        "print([name for name in sys.modules if name.partition('.')[0] == 'rich'])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "A\nx\n[]\n"
