r"""Text of others as it may be shown: nothing in it is obeyed by a terminal, reorders a line, or is there without being seen.

What is not seen (control characters of C0 and C1, bidirectional and other format characters, fillers, variation selectors, private
use, lone surrogates) is shown as an escape: `\u202e`. So two texts that differ look different.

Owns: which characters are seen, and the escapes. Must never: leave out a character.
"""

from __future__ import annotations

_RANGES = (
    (0x34F, 0x34F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x2800, 0x2800), (0x3164, 0x3164), (0xFE00, 0xFE0F),
    (0xFFA0, 0xFFA0), (0xE0100, 0xE01EF),
)  # fmt: skip
_FILLERS = frozenset(chr(code) for first, last in _RANGES for code in range(first, last + 1))
"""Unicode's Default_Ignorable_Code_Point, as far as they are printable by their category, and the blank of Braille."""
TAB_SIZE = 4


def visible(text: str) -> str:
    """The text on one line, with escapes for what is not seen, line breaks and tabs included."""
    if text.isprintable() and (text.isascii() or _FILLERS.isdisjoint(text)):
        return text
    return "".join(character if is_seen(character) else _escape(character) for character in text)


def visible_line(text: str) -> str:
    """The same, with one blank for any white space."""
    return visible(" ".join(text.split()))


def visible_lines(text: str) -> str:
    """The same line by line, with the indentation kept."""
    return (
        "\n".join(map(visible, text.split("\n")))
        if "\t" not in text
        else visible_lines(text.expandtabs(TAB_SIZE))
    )


def visible_json(text: str) -> str:
    """JSON text that says the same, with escapes of JSON for what is not seen. Its own line breaks stay."""
    if text.isascii():  # JSON escapes control characters of ASCII itself, but DEL
        return text.replace("\x7f", "\\u007f")
    return "".join(
        character if character == "\n" or is_seen(character) else _json_escape(character)
        for character in text
    )


def is_seen(character: str) -> bool:
    """Whether a reader can see a character."""
    return character.isprintable() and not is_filler(character)


def is_filler(character: str) -> bool:
    """Whether a character is printable by its category, and yet nothing is seen of it."""
    return character in _FILLERS


def _escape(character: str) -> str:
    known = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character)
    code = ord(character)
    return known or (f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}")


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{int.from_bytes(units[at : at + 2], 'big'):04x}" for at in range(0, len(units), 2))
