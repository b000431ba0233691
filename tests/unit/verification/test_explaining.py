"""A report is explained test by test."""

from __future__ import annotations

from adjourn.verification.report import CODES, TESTS, Located, VerificationReport, explained, finding


def test_every_code_belongs_to_one_test() -> None:
    """No finding is without a test, and none counts twice."""
    named = [code for test in TESTS for code in test.codes]
    assert sorted(named) == sorted(CODES)


def test_each_finding_is_with_its_test() -> None:
    """A warning and an error mark the tests that they are findings of; all others hold. What there was not to test is not named."""
    report = VerificationReport(deep=True, tasks=[], records=[])
    report.loose = [
        Located(finding=finding("imported", "…", severity="warning")),
        Located(finding=finding("hash-mismatch", "…")),
    ]
    assert [one.state for one in explained(report, has_folder=True)] == ["error", *["ok"] * 5, "warning"]
    assert len(explained(report, has_folder=False)) == 6
