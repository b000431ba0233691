"""The plot of a budget over time, as a picture and as a line of text."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from adjourn.text.plot import BudgetPoint, budget_plot, sparkline, thinned

SVG = "{http://www.w3.org/2000/svg}"
POINTS = st.lists(
    st.builds(BudgetPoint, st.integers(-(10**13), 10**15), st.integers(0, 10**9)), min_size=1, max_size=30
)


@given(
    POINTS,
    st.none() | st.integers(0, 10**9),
    st.lists(st.builds(BudgetPoint, st.integers(0, 10**15), st.integers(0, 10**9), st.text())),
)
def test_any_history_is_a_picture(points: list[BudgetPoint], limit: int | None, marks: list[BudgetPoint]) -> None:
    """Whatever the points and labels are, the picture is XML, inside its frame, of no elements but shapes and texts."""
    root = ET.fromstring(budget_plot("Calls <b>", points, limit, marks))
    assert {one.tag.removeprefix(SVG) for one in root.iter()} <= {"svg", "title", "path", "text", "circle"}
    for circle in root.iter(f"{SVG}circle"):
        assert 0 <= float(circle.get("cx", "")) <= 720
        assert float(circle.get("cy", "")) <= 240
    assert len(sparkline(points, limit)) == 40


def test_the_picture_has_the_limit_and_its_shares() -> None:
    """A budget has three lines: the limit, 90 % and 75 % of it; each mark names its checkpoint."""
    text = budget_plot("Calls", [BudgetPoint(0, 0), BudgetPoint(1000, 14)], 40, [BudgetPoint(500, 8, "tests-pass <&>")])
    assert text.count('class="share"') == 2
    assert text.count('class="limit"') == 1
    assert "90 %" in text
    assert "tests-pass &lt;&amp;&gt;" in text
    assert "1970-01-01 00:00" in text


def test_without_a_history_there_is_no_picture() -> None:
    """No point draws nothing."""
    assert budget_plot("Calls", [], 40) == sparkline([], 40) == ""


def test_the_line_of_text_rises_with_what_was_spent() -> None:
    """Each character is the share of the limit at the end of its part of the time."""
    points = [BudgetPoint(at, at) for at in range(101)]
    assert sparkline(points, 100, 8) == "▁▃▃▅▅▇▇█"
    assert sparkline(points, 1000, 8) == "▁" * 8


@given(st.integers(2, 200), st.integers(0, 500))
def test_thinning_keeps_the_ends(most: int, count: int) -> None:
    """At most so many points are left, with the first and the last."""
    points = [BudgetPoint(at, at) for at in range(count)]
    kept = thinned(points, most)
    assert len(kept) == min(most, count)
    assert [*kept[:1], *kept[-1:]] == [*points[:1], *points[-1:]]
