"""The page's own files: its style, its script, htmx. They are read once and served by name, so that no path leads elsewhere.

Owns: that list. Must never: serve a file that it does not name.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from adjourn.text import PLOT_STYLE

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
