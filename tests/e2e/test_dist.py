"""What `make dist` builds: the same bytes from the same commit, with all that belongs into it and nothing else."""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from adjourn import __version__
from support.releasing import PROGRAMS, ROOT, attempt, build, from_index, repository, run

WHEEL, SDIST = f"adjourn-{__version__}-py3-none-any.whl", f"adjourn-{__version__}.tar.gz"
JUNK = re.compile(
    r"(^|/)(\.tools|\.venv[^/]*|\.git|__pycache__|\.[a-z]+_cache|\.hypothesis|dist|\.aex/adjourn\.db.*)(/|$)|\.pyc$"
)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return repository(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def built(source: Path) -> Path:
    """Wheel and sdist, of a working tree with files in it that are not committed."""
    (source / "src" / "adjourn" / "stray.py").write_text("")
    (source / "docs" / "stray.md").write_text("")
    return build(source, "--bare")


def test_two_builds_of_a_commit_are_the_same_bytes(source: Path, built: Path, tmp_path: Path) -> None:
    """Another folder, time, time zone, locale and umask change neither the wheel nor the sdist."""
    run(["git", "clone", "--quiet", str(source), str(tmp_path / "another")], tmp_path, umask=0o077)
    again = build(tmp_path / "another", "--bare", umask=0o077, TZ="Asia/Tokyo", LC_ALL="C", SOURCE_DATE_EPOCH="1")
    for name in (WHEEL, SDIST):
        assert (again / name).read_bytes() == (built / name).read_bytes(), name


def test_the_wheel_has_what_an_installation_needs(built: Path) -> None:
    """Code, types marker, schemas, skills, manual pages, licences; no tests and no junk."""
    with zipfile.ZipFile(built / WHEEL) as archive:
        names = set(archive.namelist())
        metadata = archive.read(f"adjourn-{__version__}.dist-info/METADATA").decode()
    manual = {f"adjourn-{__version__}.data/data/share/man/man1/{page.name}" for page in (ROOT / "man").iterdir()}
    code = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*") if _is_source(path)}
    licences = {
        f"adjourn-{__version__}.dist-info/licenses/{name}" for name in ("LICENSE", "src/adjourn/ui/static/htmx.LICENSE")
    }
    rest = {f"adjourn-{__version__}.dist-info/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt")}
    assert {"adjourn/py.typed", "adjourn/store/schema/sqlite_0002.sql", "adjourn/cli/help.py"} <= code
    assert names == manual | code | rest | licences
    assert f"\nVersion: {__version__}\n" in metadata
    assert "\nRequires-Python: >=3.11\n" in metadata


def _is_source(path: Path) -> bool:
    return path.is_file() and not JUNK.search(path.as_posix())


def test_the_sdist_has_what_the_repository_has(built: Path) -> None:
    """Everything that a test run needs, of the commit alone; nothing of the person who built it."""
    with tarfile.open(built / SDIST) as archive:
        members = archive.getmembers()
    names = {member.name.partition("/")[2] for member in members}
    assert {"PKG-INFO", "LICENSE", "Makefile", "pyproject.toml", "tests/constraints.txt", "man/adjourn.1"} <= names
    assert not [name for name in names if JUNK.search(name) or "stray" in name]
    assert {(member.uid, member.uname, member.mtime) for member in members} == {(0, "", 1777716000)}


def test_everything_is_listed_and_summed(source: Path, tmp_path: Path) -> None:
    """`make dist` adds an SBOM with every dependency of an installation, and sums that `sha256sum --check` confirms."""
    clone = tmp_path / "clone"
    run(["git", "clone", "--quiet", str(source), str(clone)], tmp_path)
    from_index(attempt([sys.executable, "tests/dist.py"], clone))
    text = (clone / "dist" / f"adjourn-{__version__}.cdx.json").read_text()
    assert f'"ref": "adjourn=={__version__}"' in text
    for name in ("msgspec", "cryptography", "rich"):
        assert f'"ref": "{name}==' in text
    assert str(tmp_path) not in text
    assert "/tmp" not in text
    summed = run(["sha256sum", "--check", "--strict", "SHA256SUMS"], clone / "dist")
    assert summed.splitlines() == [f"{name}: OK" for name in (WHEEL, f"adjourn-{__version__}.cdx.json", SDIST)]
    run([PROGRAMS / "twine", "check", "--strict", WHEEL, SDIST], clone / "dist")
