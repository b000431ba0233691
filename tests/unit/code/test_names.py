"""Names of files as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.code.repository import as_bytes, as_text

names = st.lists(
    st.sampled_from([b"a", b"/", b"\\", b"\\x", b"\\x5c", b"\\xe9", b"\xe9", "é".encode(), b"\n", b"\xff"])
).map(b"".join)


@given(names | st.binary(max_size=20))
def test_a_name_of_any_bytes_comes_back(name: bytes) -> None:
    """Every name has a text of its own on one line, which is valid Unicode and leads back to the name."""
    text = as_text(name)
    assert as_bytes(text) == name
    text.encode()
    assert len(text.splitlines()) <= 1


@given(st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Zs"], exclude_characters="\\")))
def test_a_plain_name_stays_as_it_is(name: str) -> None:
    """A name in UTF-8 without backslashes and control characters is its own text."""
    assert as_text(name.encode()) == name


@given(names, names)
def test_the_text_of_a_folder_begins_those_of_its_files(folder: bytes, name: bytes) -> None:
    """A path is in a folder if and only if its text begins with the folder's."""
    assert as_text(folder + b"/" + name) == f"{as_text(folder)}/{as_text(name)}"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (b"a\n1:forged", "a\\x0a1:forged"),
        (b"caf\xe9", "caf\\xe9"),
        (b"a\\b", "a\\b"),
        (b"a\\xe9", "a\\x5cxe9"),
        ("a\u2028b".encode(), "a\\xe2\\x80\\xa8b"),
    ],
)
def test_a_name_cannot_add_a_line(name: bytes, text: str) -> None:
    """Bytes that are not UTF-8 and ends of lines are shown by their numbers, and so is a name that looks as if it had them."""
    assert as_text(name) == text
