"""The workflow that makes a release of a tag: its form, its rights, and its steps that can be run here."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from adjourn import __version__
from support.releasing import PROGRAMS, ROOT, attempt, run

FILE = ROOT / ".github" / "workflows" / "release.yml"
BY_VERSION = "pypa/gh-action-pypi-publish@"
"""The action whose commit could not be verified."""


@pytest.fixture
def jobs() -> dict[str, Any]:
    found: dict[str, Any] = YAML(typ="safe").load(FILE.read_text())["jobs"]
    return found


def test_it_is_what_the_schema_asks_for() -> None:
    """The file obeys the schema of GitHub's workflows."""
    run([PROGRAMS / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", FILE], ROOT)


def test_actions_are_pinned() -> None:
    """Each action is a commit with its version beside it, one action a whole version."""
    used = re.findall(r"uses: (\S+)(.*)", FILE.read_text())
    assert used
    for action, comment in used:
        if action.startswith(BY_VERSION):
            assert re.fullmatch(rf"{BY_VERSION}v\d+\.\d+\.\d+", action)
        else:
            assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action)
            assert re.fullmatch(r"  # v\d+\.\d+\.\d+", comment)


def test_each_job_has_the_rights_that_it_needs(jobs: dict[str, Any]) -> None:
    """Nothing that runs code of the repository can write, attest or publish; nothing is published that was not tried and attested."""
    assert {name: job["permissions"] for name, job in jobs.items()} == {
        "build": {"contents": "read"},
        "try": {"contents": "read"},
        "attest": {"id-token": "write", "attestations": "write"},
        "publish": {"id-token": "write"},
        "release": {"contents": "write"},
    }
    assert (jobs["attest"]["needs"], jobs["publish"]["needs"]) == (["build", "try"], "attest")
    for name in ("attest", "publish", "release"):
        assert not [step for step in jobs[name]["steps"] if "checkout" in step.get("uses", "")]
    for step in (step for job in jobs.values() for step in job["steps"]):
        assert "${{" not in step.get("run", ""), "a name of a tag must not become a script"


@pytest.mark.parametrize(
    ("tag", "passes"), [(f"v{__version__}", True), ("v9.9.9", False), (f"v{__version__}rc1", False)]
)
def test_a_tag_that_is_not_the_version_stops_the_release(jobs: dict[str, Any], tag: str, passes: bool) -> None:
    """The tag `v` and the version; the first script of the build fails for another one."""
    script = next(step["run"] for step in jobs["build"]["steps"] if "run" in step)
    assert (attempt(["bash", "-e", "-c", script], ROOT, -1, GITHUB_REF_NAME=tag).returncode == 0) is passes


def test_the_package_index_gets_wheel_and_sdist_alone(jobs: dict[str, Any], tmp_path: Path) -> None:
    """The sums and the SBOM go to the release, and not to the index."""
    names = {f"adjourn-{__version__}-py3-none-any.whl", f"adjourn-{__version__}.tar.gz"}
    (tmp_path / "dist").mkdir()
    for name in (*names, "SHA256SUMS", f"adjourn-{__version__}.cdx.json"):
        (tmp_path / "dist" / name).touch()
    script = next(step["run"] for step in jobs["publish"]["steps"] if "run" in step)
    run([shutil.which("bash") or "", "-e", "-c", script], tmp_path)
    folder = jobs["publish"]["steps"][-1]["with"]["packages-dir"]
    assert {file.name for file in (tmp_path / folder).iterdir()} == names
