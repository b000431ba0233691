"""Starting a proxy: the upstream before anything heavy is imported, for it boots while we do.

Owns: that order, and exit codes of a start that fails. Must never: import at its top what the upstream would have to wait for.
"""

from __future__ import annotations

import os
import sys

from adjourn.errors import AdjournError
from adjourn.host import for_others
from adjourn.proxy.options import parse
from adjourn.proxy.upstream import Upstream, UpstreamStartError

TYPE_CHECKING = False  # as in adjourn/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable


def start(arguments: list[str], load: Callable[[], None] = lambda: None) -> int:
    """Run a proxy to its end; returns the exit code. `load` is done while the upstream boots."""
    try:
        options = parse(arguments)
        try:
            upstream = Upstream(options.upstream, for_others(os.environ, options["--store"]))
        except UpstreamStartError as error:
            from adjourn.proxy.main import refuse_all  # noqa: PLC0415

            _tell(error)
            refuse_all(error.message)
            return error.exit_code
        load()
        from adjourn.proxy.main import run  # noqa: PLC0415

        return run(options, upstream)
    except AdjournError as error:
        _tell(error)
        return error.exit_code


def _tell(error: AdjournError) -> None:
    from adjourn.text import visible_lines  # noqa: PLC0415  # only when it fails

    sys.stderr.write(f"adjourn: {visible_lines(str(error))}\n")
