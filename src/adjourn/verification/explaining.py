"""What a verification tests, in words for whoever reads its report: one test a line, with what it found.

Owns: these words, and which codes belong to which test. Must never: test anything.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from adjourn.verification.report import Located, VerificationReport


class Claim(NamedTuple):
    """One thing that was tested: its claim, how it is tested, and the codes of its findings."""

    claim: str
    how: str
    codes: tuple[str, ...]


class CheckedClaim(NamedTuple):
    """A claim and what was found against it. `state` is that of the worst finding; a warning may well be right."""

    claim: str
    how: str
    state: Literal["ok", "warning", "error"]
    findings: list[Located]


OF_FOLDER = Claim(
    "The checkpoint's folder says the same",
    "its history, its fields and its files are those that were signed",
    ("folder-broken",),
)
OF_RECORDS = Claim(
    "Records are what their authors wrote",
    "each version has the hash of its content, and names the version before it",
    ("record-broken",),
)
TESTS = (
    Claim(
        "No event was changed, removed or put in",
        "each event has the hash of its bytes, and names the hash of the event before it",
        ("hash-mismatch", "parent-mismatch", "missing-event"),
    ),
    Claim(
        "The events can be read, and the state follows from them",
        "each is of this task and position; spent calls, open questions and all else are counted from the first one",
        (
            "not-an-event",
            "newer-format",
            "wrong-task",
            "wrong-seq",
            "data-misfit",
            "fold-failed",
            "stale-fold",
        ),
    ),
    Claim(
        "Nothing is missing at the end",
        "the cached state, the last event noted beside your keys, and signed folders here know no later event",
        ("history-cut", "head-mismatch", "folder-ahead"),
    ),
    Claim(
        "Checkpoints are signed",
        "each has the Merkle root of all events before it, under a signature by a key that is trusted here",
        ("root-mismatch", "signature-mismatch", "unknown-signer"),
    ),
    Claim(
        "Checkpoints say what happened",
        "each document states what the events say, each name points at its checkpoint, and the contract's text is there",
        ("document-changed", "document-missing", "document-mismatch", "contract-missing", "ref-mismatch"),
    ),
    OF_FOLDER,
    OF_RECORDS,
    Claim(
        "Nothing was taken on a person's word", "the history began here, not with an import", ("imported",)
    ),
)


def explained(report: VerificationReport, *, has_folder: bool) -> list[CheckedClaim]:
    """The claims that were tested, each with its findings. Beyond a broken event nothing is known. `has_folder`: a folder was tested, too."""
    checked = []
    for test in TESTS:
        if (test is OF_FOLDER and not has_folder) or (test is OF_RECORDS and not report.records):
            continue
        findings = [one for one in report.findings if one.finding.code in test.codes]
        errors = any(one.finding.severity == "error" for one in findings)
        state: Literal["ok", "warning", "error"] = "error" if errors else "warning" if findings else "ok"
        checked.append(CheckedClaim(test.claim, test.how, state, findings))
    return checked
