"""Templates of pages and reports: what they are drawn with, and the styles that they share.

Templates and style sheets that the page and a file for others have alike are in `templates`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

from adjourn.text.plot import LANES_STYLE, PLOT_STYLE
from adjourn.text.redact import visible_lines, without_secrets
from adjourn.text.times import ago, day_clock, left, utc

_SHARED = "adjourn.handover"
STYLES: Mapping[str, str] = {
    name: files(_SHARED).joinpath(f"templates/{name}").read_text(encoding="utf-8")
    for name in ("adjourn.css", "task.css")
} | {"plot.css": f"{PLOT_STYLE}{LANES_STYLE}"}
"""The style sheets by name."""

# INVARIANT: every value that a template shows is without secrets, escaped, and without characters that nobody sees: `finalize` does
# it, and no template can forget it. What must be sent back as it is (an id in a form) passes `exact`, which only escapes.
MAX_SHOWN = 20_000
"""Characters that one value shows at most."""


def cleaned(value: object) -> object:
    """A value as it is shown."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    text = without_secrets(value[: MAX_SHOWN + 1])
    return visible_lines(text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}… (cut here)")


def renderer(package: str, layout: str) -> Callable[[str, Mapping[str, Any]], str]:
    """A function that renders a template of a package, or a shared one, by its name. Shared ones are drawn in this `layout`: `file.html` is
    one that needs nothing else, so it has no links, no forms, and times that hold elsewhere and later.
    """
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader(_SHARED)]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=cleaned,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    is_file = layout == "file.html"
    since = utc if is_file else _ago
    environment.filters |= {"exact": escape, "ago": since, "left": _left, "clock": utc if is_file else _clock}
    environment.globals |= {"layout": layout, "is_file": is_file}
    return lambda template, values: environment.get_template(template).render(values)


@pass_context
def _ago(context: Context, stamp: str) -> str:
    return ago(stamp, context["now"])


@pass_context
def _left(context: Context, stamp: str) -> str:
    return left(stamp, context["now"])


@pass_context
def _clock(context: Context, stamp: str) -> str:
    return day_clock(stamp, context["now"])
