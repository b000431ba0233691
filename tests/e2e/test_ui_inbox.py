"""The inbox page: what waits for a person, answered by a form, with a proxy behind it that really waits."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.confirming import ARGUMENTS, POLICY
from support.page import serving
from support.proxy import Client, ProxyWorkspace, refused, run, text_of, wait_for

PROMPT_SECONDS = 1.0


@pytest.fixture
def work(tmp_path: Path) -> Iterator[ProxyWorkspace]:
    with ProxyWorkspace(tmp_path, *POLICY) as workspace:
        yield workspace


def waiting(work: ProxyWorkspace) -> tuple[Client, object]:
    """A client whose call waits for a person, and the call."""
    client = work.client(elicits=False)
    call = client.begin("file.write", ARGUMENTS)
    wait_for(lambda: work.tasks() and work.facts("confirm.required"))
    return client, call


def test_the_waiting_call_goes_on_within_a_second_of_the_click(work: ProxyWorkspace) -> None:
    """An approval on the page releases the call that a proxy holds, in less than a second."""
    client, call = waiting(work)
    with serving(work.root, work.environment) as page:
        page.enter()
        shown = page.get().text
        assert "file.write" in shown
        assert "confirm file.write (.aex/policy.aex:4)" in shown
        assert "src/a.py" in shown
        assert "s3cret" not in shown
        fields = {**page.form(), "action": "approve", "text": "looks right"}
        clicked = time.monotonic()
        page.send(fields)
        answer = client.answer(call)
        took = time.monotonic() - clicked
    assert not refused(answer)
    assert took < PROMPT_SECONDS
    print(f"from the click to the answer of the call: {took * 1000:.0f} ms")
    approved = work.facts("confirm.approved")[0]
    assert (approved.via, approved.reason) == ("page", "looks right")


def test_a_denial_tells_the_agent_why(work: ProxyWorkspace) -> None:
    """The refused call says the reason that the person gave."""
    client, call = waiting(work)
    with serving(work.root, work.environment) as page:
        assert page.enter().answer("deny", text="use the staging server") == "Denied: echo.file.write."
        answer = client.answer(call)
        assert "use the staging server" in text_of(answer)
        assert "Nothing waits for you" in page.get().text
    assert refused(answer)
    assert work.executed() == []


def test_of_two_answers_one_wins_and_the_other_is_told_who(work: ProxyWorkspace) -> None:
    """Whoever answers second changes nothing, and sees who answered first, how and when."""
    client, call = waiting(work)
    with serving(work.root, work.environment) as page:
        fields = page.enter().form()
        work.decide(yes=True)
        assert not refused(client.answer(call))
        late = page.send({**fields, "action": "deny"})
        assert "ann approved this in a terminal, just now." in late.text
    assert work.facts("confirm.denied") == []
    assert work.executed() == ["file.write"]


def test_an_edit_is_shown_whole_as_a_diff_and_a_huge_one_bounded(work: ProxyWorkspace) -> None:
    """Arguments that events shorten are shown whole; ten megabytes of them are cut, and what is in them stays text."""
    (work.root / "src").mkdir()
    (work.root / "src" / "a.py").write_text("".join(f"line {n}\n" for n in range(200)))
    text = "".join(f"line {n}\n" for n in range(200)).replace("line 77\n", "<script>alert(77)</script>\n")
    client = work.client(elicits=False)
    client.begin("file.write", {"path": "src/a.py", "text": text, "token": "s3cret"})
    wait_for(lambda: work.tasks() and work.facts("confirm.required"))
    client.begin("file.write", {"path": "src/b.py", "text": "<script>" * (10 * 1024 * 1024 // 8)})
    wait_for(lambda: len(work.facts("confirm.required")) == 2)
    with serving(work.root, work.environment) as page:
        shown = page.enter().get().text
    assert re.findall(r'<tr class="(added|removed)">.*?<td>(.*?)</td></tr>', shown) == [
        ("removed", "line 77"),
        ("added", "&lt;script&gt;alert(77)&lt;/script&gt;"),
    ]
    assert "s3cret" not in shown
    assert "only the first part of the arguments" in shown
    assert "<script>" not in shown
    assert len(shown) < 200_000


def test_without_the_extra_one_line_says_how_to_get_it(work: ProxyWorkspace) -> None:
    """`adjourn ui` without its packages exits with 1, and names the extra."""
    hidden = "import sys; sys.modules['uvicorn'] = None; from adjourn.__main__ import main; sys.exit(main())"
    done = run("ui", cwd=work.root, env=work.environment, program=(sys.executable, "-c", hidden))
    assert (done.code, done.out) == (1, "")
    assert "pip install 'adjourn[ui]'" in done.err
