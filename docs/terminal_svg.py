"""A terminal as SVG: its colours, its window, and text with escape sequences drawn in it. For the other scripts of this folder.

A picture loads nothing from elsewhere, brings its own background (pages may be light or dark), and is the same whenever it is drawn.

Owns: how a terminal looks. Must never: know what is shown in it.
"""

from __future__ import annotations

import io
import math
import re

from rich.ansi import AnsiDecoder
from rich.console import Console
from rich.terminal_theme import TerminalTheme

LINE = 24.4
"""Height of a line, as rich draws it."""
THEME = TerminalTheme(
    (24, 28, 36), (214, 219, 228),
    [(24, 28, 36), (232, 104, 110), (126, 198, 126), (226, 185, 98), (104, 160, 232), (196, 136, 226), (98, 194, 206), (214, 219, 228)],
    [(112, 119, 132), (240, 130, 134), (150, 214, 150), (240, 206, 130), (134, 182, 244), (214, 164, 240), (130, 212, 222), (255, 255, 255)],
)  # fmt: skip
_WINDOW = """\
<svg viewBox="0 0 {{width}} {height}" xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{label}">
<style>
.{{unique_id}}-matrix {{{{ font: 21px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace }}}}
{{styles}}
{style}</style>
<rect x="0.5" y="0.5" width="{right}" height="{bottom}" rx="8" fill="{colour}" stroke="#4a5160"/>
<g fill="#ff5f57"><circle cx="27" cy="23" r="7"/><circle cx="49" cy="23" r="7" fill="#febc2e"/><circle cx="71" cy="23" r="7" fill="#28c840"/></g>
<svg x="{{terminal_x}}" y="{{terminal_y}}" width="{{terminal_width}}" height="{inner}">
<g class="scroll">
{{backgrounds}}
<g class="{{unique_id}}-matrix">
{{matrix}}
</g>
</g>
{above}</svg>
</svg>
"""


def picture(text: str, label: str, *, columns: int, rows: int = 0, style: str = "", above: str = "") -> str:
    """Draw a text with escape sequences in a window.

    Args:
        text: What a terminal was sent.
        label: What the picture shows, for who cannot see it.
        columns: The width; longer lines are wrapped.
        rows: Lines that the window shows of the group `scroll`; 0: all.
        style: More CSS.
        above: SVG that is drawn above the text.

    """
    console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    lines = [
        part
        for line in AnsiDecoder().decode(text.rstrip("\n"))
        for part in line.divide(range(columns, len(line), columns))  # as a terminal does, in mid-word
    ]
    for line in lines:
        console.print(line, soft_wrap=True)
    inner = (rows or len(lines)) * LINE + 2
    height, width = round(inner + 49, 1), math.ceil(columns * 20 * 0.61 + 16) + 2  # as rich counts
    window = _WINDOW.format(
        label=label, height=height, right=width - 1, bottom=round(height - 1, 1), inner=round(inner, 1), above=above,
        style=style.replace("{", "{{").replace("}", "}}"),
        colour=THEME.background_color.hex,
    )  # fmt: skip
    svg = console.export_svg(title="", theme=THEME, code_format=window, unique_id="t")
    svg = re.sub(r' clip-path="url\(#t-line-\d+\)"', "", svg)
    svg = re.sub(r"<text [^>]*>\n</text>", "", svg).replace("</text><text", "</text>\n<text")
    return svg.replace("<text ", '<text xml:space="preserve" ')  # some viewers drop blanks where a text begins
