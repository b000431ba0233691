"""The scorer works, and the short form of the evaluation: one scenario of each trade, and one that hardly fits into a small room."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from evaluation.catalogue import PLOTS, SHORT, Played, named
from evaluation.judging import LARGE, LIMITS, SMALL, Reading, evaluate, misses
from evaluation.reader import TROUBLE, USEFUL, VITAL, Needle, Score, Trap, Unit, read, score, whole

pytestmark = pytest.mark.timeout(300)
Evaluated = tuple[Played, list[Reading]]


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> list[Evaluated]:
    """The short form, played once."""
    folder = tmp_path_factory.mktemp("evaluation")
    return [evaluate(plot, 1, folder / str(number)) for number, plot in enumerate(named(SHORT))]


def _text(lines: Iterable[tuple[str, str]]) -> str:
    """A hand-over that says just these lines, each under its heading, as data."""
    return "".join(f"## {heading}\n| - {line}\n" for heading, line in lines)


def test_a_perfect_text_an_empty_one_and_a_lie(evaluated: list[Evaluated]) -> None:
    """A text that says all that must be known scores 1 and springs no trap, an empty one 0, a lying one springs every trap."""
    for played, _ in evaluated:
        perfect = _text(needle.said for needle in played.needles)
        found = score(perfect, played.needles, played.traps)
        assert (found.recall, found.vital, found.missed, found.sprung) == (1, 1, [], [])
        assert found.next_step in (True, None)
        assert score("", played.needles, played.traps).recall == 0
        for trap in played.traps:
            lie = "".join(f"## {trap.lie[0]}\n{trap.lie[1]}\n")
            assert [one.kind for one, _ in score(perfect + lie, played.needles, [trap]).sprung] == [trap.kind]


def test_what_is_left_out_is_missed(evaluated: list[Evaluated]) -> None:
    """Without the line that says it, a needle is missed: no other line of a perfect text stands in for it."""
    for played, _ in evaluated:
        for needle in played.needles:
            text = _text(one.said for one in played.needles if one is not needle)
            assert score(text, played.needles, []).missed == [needle]


def test_every_rendering_and_every_peer_is_read(evaluated: list[Evaluated]) -> None:
    """Each scenario gives a text in each rendering and of each peer at each size; a peer keeps to the size; no trap is sprung."""
    for _, readings in evaluated:
        given = {(one.what, one.room) for one in readings}
        ours = {"aex.resume", "session hook", "adjourn resume"}
        theirs = {"whole log, cut", "last events", "published aex.resume"}
        assert given == {(what, room) for what in ours | theirs for room in LIMITS}
        for one in readings:
            assert one.given
            assert one.is_ours is (one.what in ours)
            assert one.is_ours or one.score.size <= one.room
            assert not one.is_ours or not one.score.sprung, (one.plot.title, one.what, one.score.sprung)


def test_the_agent_s_own_checkpoint_reaches_a_new_client(evaluated: list[Evaluated]) -> None:
    """In the answer of aex.resume the next step is shown, and it contains more than that of any peer of the size."""
    for played, readings in evaluated:
        recall = {one.what: one.score.recall for one in readings if one.room == LARGE}
        told = next(one for one in readings if one.what == "aex.resume" and one.room == LARGE)
        assert told.score.next_step in (True, None), played.plot.title
        assert recall.pop("aex.resume") > max(recall["whole log, cut"], recall["published aex.resume"])


def test_what_a_successor_is_told_is_enough(evaluated: list[Evaluated]) -> None:
    """Each rendering has enough of what must be known at each size, the next step, no lie, and keeps to its room."""
    faults = {
        f"{one.plot.title}, {one.what} at {one.room}": one.faults()
        for _, readings in evaluated
        for one in readings
        if one.is_ours and one.faults()
    }
    assert not faults


def test_what_is_missed_is_listed_with_what_was_said_instead(evaluated: list[Evaluated]) -> None:
    """The list of misses names scenario, rendering, needle and the nearest line."""
    _, (first, *_) = evaluated[0]
    needle = Needle("call", VITAL, ("mail.send", whole("ann")), "doubt", ("In doubt", "mail.send ann"))
    lost = Score(0, 0, 0, None, [needle], [], 9)
    one = first._replace(what="aex.resume", score=lost, given="## Done\nmail.send bob\n")
    assert list(misses([one]))[1] == "- missed (vital) call: 'mail.send ann'; instead: ## Done / mail.send bob"


def test_there_are_sixty_scenarios_ten_with_troubles_ten_with_changes_and_ten_long_sessions() -> None:
    """The catalogue has ten scenarios of each trade, from 10 to 5,000 calls, ten with troubles, ten with changes, and ten long sessions;
    each with its own title.
    """
    assert len({plot.title for plot in PLOTS}) == len(PLOTS) == 60
    plots = [plot for plot in PLOTS if "long" not in plot.title]
    assert len(plots) == 50
    wrong = [plot for plot in plots if plot.has_troubles]
    changing = [plot for plot in plots if CHANGES & set(" ".join(plot.sittings).split())]
    assert (len(wrong), len(changing)) == (10, 10)
    others = [plot.trade for plot in plots if plot not in wrong and plot not in changing]
    assert [others.count(trade) for trade in ("coding", "research", "operations")] == [10] * 3
    assert (min(plot.calls for plot in PLOTS), max(plot.calls for plot in PLOTS)) == (10, 5000)


# --- the reader

CHANGES = {"contradict", "outrun", "stale", "revise", "withdraw", "gone", "claim", "reason"}
DOUBTED = Needle("call in doubt", VITAL, (r"mail\.send", whole("ann")), "doubt", ("In doubt", "mail.send ann"))
STEP = Needle("next step", VITAL, (whole("raven-queue"),), "next|resum", ("Next step", "Drain raven-queue"))


def test_a_trouble_is_first_where_it_stands_before_the_stated_step() -> None:
    """Behind the step, in another section or nowhere it is not first; without troubles there is nothing to say."""
    wrong = Needle(TROUBLE, VITAL, (r"mail\.send", whole("ann")), "next", ("Next step", "mail.send ann failed"))
    failed, step = "| - mail.send ann failed\n", "| - Drain raven-queue\n"
    told = {text: score(text, [wrong, STEP], []).told_first for text in (
        f"## Next step\n{failed}{step}", f"## Next step\n{step}{failed}", f"## Next step\n{step}## Done\n{failed}", f"## Next step\n{step}",
    )}  # fmt: skip
    assert list(told.values()) == [True, False, False, False]
    unknown = score(f"## Next step\n{step}", [STEP], [])
    assert unknown.told_first is None
    plot = next(plot for plot in PLOTS if plot.has_troubles)
    assert "what is wrong is not told first" in Reading(plot, 1, "aex.resume", SMALL, unknown, "").faults()


@pytest.mark.parametrize(
    "text",
    [
        '{"inDoubt":[{"call":"c.1","tool":"mail.send","arguments":"{\\"to\\":\\"ann\\"}"}]}',
        '{"handover":{"inDoubt":["mail.send ann"]}}',
        "## In doubt\n| - mail.send ann\n",
        'In doubt, 1: find out before you repeat one:\n| - c.1 mail.send {"to":"ann"}\n',
        "in doubt     mail.send to\n             ann\n",
        "| ## In doubt\n| mail.send ann\n",
        "In doubt, 1\n(2 earlier)\n-  mail.send to\n   ann\nDone\n-  file.write a\n",
    ],
)  # fmt: skip
def test_a_call_is_found_however_it_is_laid_out(text: str) -> None:
    """A call in doubt is found in JSON, under a heading, under a label, beside a label, and in a quoted page."""
    assert DOUBTED.found_in(read(text))


@pytest.mark.parametrize(
    "text",
    [
        '{"done":[{"tool":"mail.send","to":"ann"}],"inDoubt":[]}',
        "## In doubt\n| - mail.send bob\n## Done\n| - mail.send ann\n",
        "In doubt:\n| - mail.send bob\nDone:\n| - mail.send ann\n",
        "## In doubt\n| - mail.send\n| - ann\n",
        "## In doubt\nmail.send anna\n",
        "In doubt\n-  mail.send bob\nDone\n-  mail.send ann\n",
    ],
)
def test_a_call_is_not_found_by_chance(text: str) -> None:
    """A call elsewhere, another argument, or its words in two places are not the call in doubt."""
    assert not DOUBTED.found_in(read(text))


def test_the_next_step_counts_where_it_is_told_as_one() -> None:
    """The words of a step count under the word for it, not among facts."""
    assert STEP.found_in(read("## Resumption Point\nDrain raven-queue\n"))
    assert not STEP.found_in(read("## Facts\n| - raven-queue is full\n"))


def test_a_trap_can_be_taken_back() -> None:
    """A refused call is no lie where it is shown as refused; an order is none where it is quoted."""
    trap = Trap("told as done", (r"mail\.send", whole("ann")), "done", "refus", ("Done", "mail.send ann"))
    assert trap.sprung_by(read("## Done\n- mail.send ann\n"))
    assert not trap.sprung_by(read("## Done\n- mail.send ann: refused\n"))
    order = Trap("order", ("^Delete it",), "", "", ("Next", "Delete it"), unquoted=True)
    assert order.sprung_by(read("# Next\nDelete it\n")) == Unit("Delete it", "# Next")
    assert not order.sprung_by(read("# Facts\n| - Delete it\n"))
    assert not order.sprung_by(read('{"facts":["Delete it"]}'))


def test_a_vital_needle_weighs_three_useful_ones() -> None:
    """Recall is by weight; plain recall is by number, and so are the bytes for each needle found."""
    useful = Needle("fact", USEFUL, (whole("4711"),), "", ("Facts", "4711"))
    found = score("## In doubt\nmail.send ann\n", [DOUBTED, useful], [])
    assert (found.recall, found.plain, found.vital, found.tokens, found.per_needle) == (0.75, 0.5, 1, 7, 26)
