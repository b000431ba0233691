"""The page: written and read without loss, edited by people, refused with a line number."""

from __future__ import annotations

import itertools
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.checkpoints.page import MINUTE, SECTIONS, Artifact, ChecklistItem, Other, Page, armed, disarmed, render
from adjourn.checkpoints.parser import parse
from adjourn.errors import InvalidError
from support.cases import for_each

SAMPLE = """\
# Checkpoint: 2026-06-20 09:47 UTC
## Mission
Comprehensive security review of authentication flow in projects/api-server/
## Progress
- [x] Codebase mapped (28 files analyzed)
- [x] Authentication flow traced (8 endpoints)
- [x] Threat model drafted (5 attack vectors identified)
- [x] Vulnerability findings recorded (3 critical, 5 high)
- [ ] Remediation recommendations (in progress, 3 of 8 drafted)
- [ ] Executive summary (pending)
- [ ] Final report (pending)
## Current State
- Working on remediation recommendation #4 (token rotation policy)
- Last file read: projects/api-server/src/auth/tokens.py
- Last tool call: edit_file to add note about JWT expiration
## Open Questions for Human
- Is the 30-day token rotation policy acceptable, or should we recommend 7-day?
- Do we need to consider legacy clients that don't support refresh tokens?
## Artifacts Produced
- output/security-review/threat-model.md (draft)
- output/security-review/findings.md (draft)
- output/security-review/remediation.md (partial)
- memory/MEMORY.md (updated with security context)
## Resumption Point
On resume: continue remediation recommendations at item #4, then complete executive summary and final report.
## Iteration Stats
- Iterations used: 38
- Budget remaining: 12
- Session duration: 47 minutes
"""

pieces = st.characters(exclude_categories=["Cs", "Cc"], include_characters="\t") | st.sampled_from(
    [
        *"#-*[]()\\<>!`x \t",
        "None",
        "in progress",
        "## Mission",
        "<!-- checkpoint {} -->",
        "- [x] ",
        "![",
        "<b",
        "</b>",
        "&lt;",
    ]
)
lines = st.lists(pieces, min_size=1, max_size=12).map("".join)
texts = st.lists(lines, min_size=1, max_size=3).map("\n".join).map(str.strip).filter(bool)
notes = texts.filter(lambda text: not text.startswith("in progress"))
items = (
    st.builds(ChecklistItem, text=texts, status=st.sampled_from(["done", "pending"]), note=notes | st.just(""))
    | st.builds(ChecklistItem, text=texts, status=st.just("in_progress"), note=st.sampled_from(["in progress", "in progress, 3 of (8)"]))
)  # fmt: skip
counts = st.integers(0, 10**9)
pages = st.builds(
    Page,
    time=st.integers(0, 4_000_000_000).map(lambda minute: minute % 100_000_000 * MINUTE),
    mission=texts,
    by=lines.map(str.strip),
    progress=st.lists(items, min_size=1, max_size=4).map(tuple),
    current_state=st.lists(texts, max_size=3).map(tuple),
    open_questions=st.lists(texts, max_size=3).map(tuple),
    artifacts=st.lists(st.builds(Artifact, path=texts, note=texts | st.just("")), max_size=3).map(tuple),
    resumption_point=texts,
    iterations_used=counts,
    budget_remaining=counts,
    duration=counts,
    others=st.lists(
        st.builds(Other, after=st.sampled_from(SECTIONS), lines=st.just(("## Notes of mine", "free *text*", "", "- more"))),
        max_size=1,
    ).map(tuple),
    machine=st.just({}) | st.just({"id": "c1", "note": "--> <!-- \u00e9", "trigger": "at 75%"}),
)  # fmt: skip


def test_what_is_disarmed_is_taken_back() -> None:
    """Every short line of the characters that begin HTML and images comes back as it was."""
    for size in range(1, 7):
        for characters in itertools.product("\\<![a", repeat=size):
            line = "".join(characters)
            assert armed(disarmed(line)) == line


@given(pages)
def test_a_page_comes_back_as_it_was(page: Page) -> None:
    """A page reads back as it was written, unedited and without a finding, whatever its texts hold."""
    reading = parse(render(page))
    assert reading.page == page
    assert (reading.findings, reading.edited) == ((), False)


@given(pages)
def test_line_ends_of_windows_change_nothing(page: Page) -> None:
    """A page saved with CRLF is the same page."""
    assert parse(render(page).replace("\n", "\r\n")).page == page


@given(st.text(max_size=400) | st.binary(max_size=400))
def test_no_text_makes_it_raise(data: str | bytes) -> None:
    """Any text or bytes give a page or a finding."""
    reading = parse(data)
    assert reading.page is not None or reading.findings


def test_the_published_sample_is_written_byte_for_byte() -> None:
    """Read and written again, the sample is what it was, and says what it says."""
    page = parse(SAMPLE).page
    assert page is not None
    assert render(page) == SAMPLE
    assert [item.status for item in page.progress] == ["done"] * 4 + ["in_progress"] + ["pending"] * 2
    assert page.next_step is not None
    assert page.next_step.text == "Remediation recommendations"
    assert (page.iterations_used, page.budget_remaining, page.duration) == (38, 12, 47)
    assert page.artifacts[0] == Artifact(path="output/security-review/threat-model.md", note="draft")


def test_what_a_person_edits_counts_and_is_reported() -> None:
    """An edited text is read, with a warning; an untouched one is not said to be edited."""
    page = parse(SAMPLE).page
    assert page is not None
    written = render(Page(**{name: getattr(page, name) for name in page.__struct_fields__} | {"machine": {"id": "c1"}}))
    assert not parse(written).edited
    reading = parse(written.replace("- [ ] Final report (pending)", "- [x] Final report"))
    assert reading.page is not None
    assert reading.edited
    assert reading.page.progress[-1] == ChecklistItem(text="Final report", status="done")
    assert [(finding.code, finding.severity) for finding in reading.findings] == [("AEX308", "warning")]


@for_each(
    ("old", "new", "code", "line"),
    [
        ("# Checkpoint: 2026-06-20 09:47 UTC", "# Notes", "AEX300", 1),
        ("# Checkpoint: 2026-06-20 09:47 UTC", "# Checkpoint: 2026-13-20 09:47 UTC", "AEX300", 1),
        ("## Mission\n", "", "AEX301", 0),
        ("## Current State", "## Mission", "AEX302", 12),
        ("Comprehensive security review of authentication flow in projects/api-server/", "", "AEX303", 2),
        ("- Last file read", "Last file read", "AEX304", 14),
        ("- [ ] Executive summary (pending)", "- Executive summary", "AEX305", 10),
        ("- [ ] Executive summary (pending)", "- [x] Executive summary (in progress)", "AEX305", 10),
        ("- Iterations used: 38", "- Iterations used: many", "AEX306", 27),
        ("- Session duration: 47 minutes\n", "", "AEX306", 26),
    ],
)
def test_what_cannot_be_read_is_said_with_its_line(old: str, new: str, code: str, line: int) -> None:
    """A fault gives no page, but its code and the line where it stands."""
    reading = parse(SAMPLE.replace(old, new, 1), "tmp/checkpoint-active.md")
    assert reading.page is None
    assert (code, line) in [(finding.code, finding.span.line) for finding in reading.findings]
    assert all(finding.help and finding.source == "tmp/checkpoint-active.md" for finding in reading.findings)


def test_a_torn_comment_is_an_error_and_none_is_fine() -> None:
    """A comment that cannot be read is reported at its line; a page without one is read."""
    reading = parse(SAMPLE + "<!-- checkpoint {broken} -->\n")
    assert [(finding.code, finding.span.line) for finding in reading.findings] == [("AEX307", 30)]
    assert parse(SAMPLE).page is not None


@for_each(
    "changes",
    [
        {"mission": ""},
        {"mission": " blanks "},
        {"resumption_point": "a\x07b"},
        {"progress": ()},
        {"progress": (ChecklistItem(text="a", status="in_progress"),)},
        {"progress": (ChecklistItem(text="a", status="done", note="in progress"),)},
        {"time": 1},
        {"duration": -1},
    ],
)
def test_a_page_that_could_not_be_read_back_is_not_made(changes: dict[str, object]) -> None:
    """Texts and numbers that the markdown cannot hold raise InvalidError with what is wrong."""
    page = parse(SAMPLE).page
    assert page is not None
    members = {name: getattr(page, name) for name in page.__struct_fields__} | changes
    with pytest.raises(InvalidError, match="checkpoint page"):
        Page(**members)


LIVE = (
    "<img src=x onerror=alert(1)>",
    "![a](https://example.org/?x)",
    "<!-- hidden -->",
    "\\<b>bold</b>",
    "a \\\\![b](c)",
    "<script>",
)


def test_nothing_that_an_agent_writes_on_a_page_is_live() -> None:
    """HTML and images in any part of a page are shown as text by whoever renders it, and are read as they were said."""
    base = parse(SAMPLE).page
    assert base is not None
    for live in LIVE:
        page = msgspec.structs.replace(
            base,
            mission=f"{live} and {live}",
            resumption_point=live,
            progress=(ChecklistItem(text=live, status="done", note=live),),
            current_state=(live,),
            open_questions=(live,),
            artifacts=(Artifact(path=live, note=live),),
        )
        written = render(page)
        assert parse(written).page == page
        for line in written.splitlines():
            for found in re.finditer(r"(\\*)(?:<[A-Za-z/!?]|!\[)", line):
                assert len(found[1]) % 2 == 1, line  # an odd backslash makes it text


def test_a_page_says_whose_words_it_has() -> None:
    """The line below the title names who said what is on the page; a page without it is read, too."""
    base = parse(SAMPLE).page
    assert base is not None
    assert base.by == ""
    page = msgspec.structs.replace(base, by="the agent tester 1")
    line = render(page).splitlines()[1]
    assert line.startswith("> Words of the agent tester 1 or an editor:")
    assert parse(render(page)).page == page
    assert parse(render(page).replace(line + "\n", "")).page == base
