"""Starting a proxy: the upstream before anything heavy is imported, for it boots while we do.

Owns: that order, and exit codes of a start that fails. Must never: import at its top what the upstream would have to wait for.
"""

from __future__ import annotations

import os
import sys

from adjourn import text
from adjourn.errors import AdjournError
from adjourn.host import for_others
from adjourn.proxy.options import parse
from adjourn.proxy.upstream import Upstream, UpstreamStartError

TYPE_CHECKING = False  # as in adjourn/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable


def start(arguments: list[str], load: Callable[[], None] = lambda: None) -> int:
    """Run a proxy to its end; returns the exit code. `load` is called while the server boots."""
    try:
        options = parse(arguments)
        upstream: Upstream | UpstreamStartError
        try:
            upstream = Upstream(options.upstream, for_others(os.environ, options["--store"]))
            load()
        except UpstreamStartError as error:
            _print(error)
            upstream = error
        from adjourn.proxy import main  # noqa: PLC0415  # the server boots meanwhile

        if isinstance(upstream, UpstreamStartError):
            main.refuse_all(upstream.message)
            return upstream.exit_code
        return main.run(options, upstream)
    except AdjournError as error:
        _print(error)
        return error.exit_code


def _print(error: AdjournError) -> None:
    sys.stderr.write(f"adjourn: {text.visible_lines(str(error))}\n")
