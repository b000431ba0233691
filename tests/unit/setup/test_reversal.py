"""Taking an own change out of a text that was edited since."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.errors import InvalidError
from adjourn.setup import jsonc, undo
from adjourn.setup.places import home
from adjourn.setup.planning import plan
from adjourn.setup.undo import Reversal, reversal

TOML = '# a\n[s.x]\ncommand = "u"\nargs = ["b"]\n\n[z]\n'
CHANGED = TOML.replace("[s.x]\n", "[s.x]\nenv = []\n").replace('"u"', '"adjourn"')
NAMES = st.text(st.characters(codec="utf-8"), max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-999, 999) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
WORDS = st.text("abc /-#\"'\\é", min_size=1, max_size=6)
SERVERS = st.dictionaries(
    NAMES.filter(bool),
    st.fixed_dictionaries({"command": WORDS}, optional={"args": st.lists(WORDS, max_size=3), "env": VALUES}) | VALUES,
    max_size=3,
)  # fmt: skip


def test_lines_are_taken_back_where_those_around_them_stand() -> None:
    """Lines that somebody added elsewhere stay, before and behind."""
    now = f"# new\n\n{CHANGED}k = 1\n"
    assert reversal("c.toml", now, CHANGED, TOML) == Reversal(f"# new\n\n{TOML}k = 1\n", [])


def test_a_line_that_was_edited_stays_and_is_named() -> None:
    """The other piece is taken back; where nothing can be, there is no reversal at all."""
    two = TOML + "".join(f"k{number} = 1\n" for number in range(5))
    wrote = CHANGED + "".join(f"k{number} = {2 if number == 3 else 1}\n" for number in range(5))
    found = reversal("c.toml", wrote.replace('"adjourn"', '"mine"'), wrote, two)
    assert found is not None
    assert found.left == ["line 3: env = []"]
    assert "k3 = 1" in (found.text or "")
    assert reversal("c.toml", CHANGED.replace('"adjourn"', '"mine"'), CHANGED, TOML) is None


def test_what_a_client_could_not_read_is_not_written() -> None:
    """A file in which the rest makes no sense without the change stays as it is."""
    now = CHANGED.replace("[z]\n", "[z]\nq = 1\n[y]\n")
    assert reversal("c.toml", now, CHANGED, TOML) is not None
    assert reversal("c.toml", now + "x = [\n", CHANGED, TOML) is None
    assert reversal("c.json", "{", '{"a": 1}', "{}") is None


def test_a_file_that_was_made_goes_when_nothing_else_is_in_it() -> None:
    """With something of somebody else in it, it stays with that alone."""
    wrote = jsonc.edited("", ("hooks", "Stop"), [{"a": 1}])
    both = jsonc.edited(wrote, ("hooks", "Other"), [1])
    assert reversal("s.json", wrote + "\n\n", wrote, None) == Reversal(None, [])
    found = reversal("s.json", both, wrote, None)
    assert found is not None
    assert jsonc.read(found.text or "").value == {"hooks": {"Other": [1]}}


def test_comments_stay_where_a_member_is_taken_out() -> None:
    """Those before it, behind it and of its neighbours."""
    wrote = '{\n  // one\n  "a": 1, // two\n  "b": 2\n  // three\n}\n'
    found = reversal("s.json", f"// new\n{wrote}", wrote, wrote.replace(",", "").replace('  "b": 2\n', ""))
    assert found == Reversal('// new\n{\n  // one\n  "a": 1 // two\n  // three\n}\n', [])


@given(st.dictionaries(NAMES, VALUES, max_size=4), st.lists(NAMES, min_size=1, max_size=3), VALUES, VALUES)
def test_what_others_add_to_json_stays_and_nothing_else(
    before: dict[str, Any], path: list[str], value: Any, other: Any
) -> None:
    """After any edit of ours and a member of theirs, the values are those of before with that member."""
    text = json.dumps(before, indent=2)
    try:
        wrote = jsonc.edited(text, path, value)
    except InvalidError:
        return
    now = json.dumps(jsonc.read(wrote).value | {"somebody's": other})
    found = reversal("s.json", now, wrote, text)
    if jsonc.read(wrote).value != before:
        assert found is not None
        assert jsonc.read(found.text or "").value == before | {"somebody's": other}
        assert found.left == []


@given(SERVERS, st.sampled_from([None, 2, "\t"]), st.booleans())
def test_settings_are_the_same_bytes_after_undo(servers: dict[str, Any], indent: Any, is_toml: bool) -> None:
    """Whatever the settings hold, `init` and then `--undo` leave every byte as it was, and no file behind."""
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setenv("ADJOURN_CONFIG", f"{place}/config")
        root, folder = Path(place, "work").resolve(), Path(place, "home")
        (root / ".claude").mkdir(parents=True)
        folder.mkdir()
        (root / ".mcp.json").write_text(json.dumps({"mcpServers": servers}, indent=indent) + " // end\n")
        if is_toml:
            (root / ".codex").mkdir()
            (root / ".codex" / "config.toml").write_text(TOML.replace("s.x", "mcp_servers.x"))
        before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
        at = home({"HOME": str(folder)})
        undo.make(plan(str(root), at).pending, str(root))
        assert (root / ".aex" / "policy.aex").exists()
        files, left = undo.undoable(str(root), at)
        assert left == []
        undo.take_back(files, str(root), keep=False)
        assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
