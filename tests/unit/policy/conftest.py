"""Fixtures that the tests of policies share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from adjourn.host import folders
from adjourn.policy.protected.places import ProtectedPlaces, places_of


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProtectedPlaces:
    """A workspace in a home folder that has keys, with links to both."""
    home, work = tmp_path / "home", tmp_path / "home" / "work"
    for folder in (
        ".config/adjourn/keys/trusted",
        ".cache/adjourn-hook",
        "work/.aex/checkpoints/a",
        "work/src",
        "work/build",
    ):
        (home / folder).mkdir(parents=True)
    for file in (".aex/policy.aex", ".aex/adjourn.db", ".aex/checkpoints/a/audit.jsonl", "src/a.py", "README.md"):
        (work / file).touch()
    for key in ("secret", "default.key"):
        (home / ".config/adjourn/keys" / key).write_text("c2VjcmV0")
    (work / "rules").symlink_to(".aex")
    (work / "src" / "k").symlink_to(home / ".config" / "adjourn" / "keys")
    (work / "src" / "config").symlink_to(home / ".config" / "adjourn")
    (work / "src" / "one-key").symlink_to("k/secret")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(folders, "account", lambda: "/nobody/.config/adjourn")
    for name in ("XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "ADJOURN_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BUILD", "build")
    return places_of(os.path.realpath(work))
