"""The settings of a gateway, and files with secrets that they name, are neither read nor written, wherever they are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from adjourn.policy.protected.calls import protected_path
from adjourn.policy.protected.places import SETTINGS, ProtectedPlaces, places_of
from support.cases import for_each


@pytest.fixture
def places(tmp_path: Path) -> ProtectedPlaces:
    root, elsewhere = tmp_path / "work", tmp_path / "elsewhere"
    (root / "conf").mkdir(parents=True)
    elsewhere.mkdir()
    for file in (elsewhere / "gw.toml", root / "conf" / "api.dat", root / "adjourn.toml"):
        file.write_text("x")
    (root / "link").symlink_to(elsewhere / "gw.toml")
    (root / "dir").symlink_to(elsewhere)
    secret = (str(elsewhere / "gw.toml"), str(root / "conf" / "api.dat"), str(root / "adjourn.toml"))
    return places_of(os.path.realpath(root), (), secret)


NAMED: list[dict[str, Any]] = [
    {"path": "../elsewhere/gw.toml"}, {"path": "link"}, {"path": "dir/gw.toml"}, {"path": "adjourn.toml"},
    {"path": "./adjourn.toml"}, {"path": "ADJOURN.TOML"}, {"path": "conf/api.dat"}, {"path": "api.dat", "root": "conf"},
    {"path": "conf/../conf//api.dat"}, {"paths": ["a", "conf/api.dat"]}, {"a": {"b": [{"file": "link"}]}},
    {"command": "cat adjourn.toml"}, {"command": "cat ../elsewhere/*"}, {"command": "cat dir/gw.toml"},
    {"command": ["cat", "adjourn.toml"]}, {"command": "cat conf/*"},
]  # fmt: skip


@for_each("arguments", NAMED, ids=str)
@for_each("reads", [True, False])
def test_no_call_names_them(places: ProtectedPlaces, arguments: dict[str, Any], reads: bool) -> None:
    """By path, link, folder, another case, pattern or command, whether the tool has effects or not."""
    tool = "shell.exec" if "command" in arguments else "fs.open"
    assert protected_path(arguments, places, tool=tool, reads=reads) == SETTINGS


@for_each(
    "arguments",
    [
        {"path": "src/a.py"},
        {"path": "conf"},
        {"path": "conf/other.dat"},
        {"path": "notes/adjourn.toml.md"},
        {"path": "a.md", "content": "the settings are in adjourn.toml"},
        {"command": "ls"},
    ],
    ids=str,
)
@for_each("reads", [True, False])
def test_other_files_are_named_as_ever(places: ProtectedPlaces, arguments: dict[str, Any], reads: bool) -> None:
    """Those beside them, those with a longer name, and texts that mention them."""
    tool = "shell.exec" if "command" in arguments else "fs.open"
    assert protected_path(arguments, places, tool=tool, reads=reads) is None


def test_a_hard_link_is_not_read(places: ProtectedPlaces) -> None:
    """A file that is the same one under another name."""
    os.link(os.path.join(places.root, "adjourn.toml"), os.path.join(places.root, "same"))
    assert protected_path({"path": "same"}, places, reads=True)


def test_a_file_that_took_the_place_of_the_settings_is_protected(places: ProtectedPlaces) -> None:
    """As an editor puts it there: by name and by what the name leads to now."""
    new = os.path.join(places.root, "new")
    Path(new).write_text("y")
    os.replace(new, os.path.join(places.root, "adjourn.toml"))
    os.symlink("adjourn.toml", os.path.join(places.root, "other"))
    assert protected_path({"path": "other"}, places, reads=True) == SETTINGS
