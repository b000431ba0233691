"""What pages are drawn with: templates, and the style and scripts that are served by name.

Every value that a template shows is without secrets, escaped, and without characters that nobody sees; a template cannot forget it.
What must be sent back as it is (an id in a form) passes `exact`, which only escapes.

Owns: these rules, times in words. Must never: mark text of others as safe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from adjourn.text.plot import PLOT_STYLE
from adjourn.text.redact import visible_lines, without_secrets
from adjourn.text.times import ago, left

MAX_SHOWN = 20_000
"""Characters that one value shows at most."""


def shown(value: object) -> object:
    """A value as it is shown."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    text = without_secrets(value[: MAX_SHOWN + 1])
    return visible_lines(text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}… (cut here)")


def _exact(value: str) -> Markup:
    return escape(value)


@pass_context
def _ago(context: Context, stamp: str) -> str:
    return ago(stamp, context["now"])


@pass_context
def _left(context: Context, stamp: str) -> str:
    return left(stamp, context["now"])


def renderer() -> Callable[[str, Mapping[str, Any]], str]:
    """A function that renders a template by its name."""
    environment = Environment(
        loader=PackageLoader("adjourn.ui"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"exact": _exact, "ago": _ago, "left": _left}
    return lambda template, values: environment.get_template(template).render(values)


# --- the page's own files

_TYPES: Final = {
    "adjourn.css": "text/css",
    "adjourn.js": "text/javascript",
    "checkpoint.css": "text/css",
    "graph.css": "text/css",
    "htmx.min.js": "text/javascript",
    "icon.svg": "image/svg+xml",
    "policy.css": "text/css",
    "record.css": "text/css",
    "task.css": "text/css",
    "tasks.css": "text/css",
}
_CONTENT: Final = {name: files("adjourn.ui").joinpath("static", name).read_bytes() for name in _TYPES}
_CONTENT["plot.css"] = PLOT_STYLE.encode()
_TYPES["plot.css"] = "text/css"


async def static_file(request: Request) -> Response:
    """One of the files, or 404."""
    name = request.path_params["name"]
    if name not in _CONTENT:
        raise HTTPException(404)
    return Response(_CONTENT[name], media_type=_TYPES[name])
