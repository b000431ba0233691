"""Starting a proxy: read the policy, start the upstream if there is nothing wrong with it, and load the rest while that boots.

Owns: that order, and exit codes of a start that fails. Must never: start a server under a broken policy, or import at its top what
the upstream would have to wait for.
"""

from __future__ import annotations

import os
import sys

from adjourn.clients.options import ProxyOptions, connect_words, parse_proxy
from adjourn.errors import AdjournError
from adjourn.host.executables import conceal, find, for_others
from adjourn.host.finding import Workspace, workspace_of
from adjourn.proxy.upstream import REMEDY, Upstream, UpstreamStartError
from adjourn.store.url import is_postgres

OWN_FOLDER = "ADJOURN_CONFIG"

TYPE_CHECKING = False  # as in adjourn/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn


def start(arguments: list[str], load: Callable[[], None] = lambda: None) -> int:
    """Run a proxy to its end; returns the exit code. `load` imports what reading a policy needs in the quickest way."""
    try:
        options = parse_proxy(arguments)
        if options["--url"]:
            options.upstream = connect_words(options["--url"], options["--bearer-env"], options["--header-env"])
        workspace = workspace_of()
        if options["--outside"] == "pass" and is_outside(workspace, options):
            become(options)
        load()
        from adjourn.policy.contract import BrokenContractError, read_contract  # after `load`

        try:
            contract = read_contract(
                workspace.root, options["--policy"], options["--contract"], searched=workspace.searched()
            )
            if is_postgres(options["--store"] or os.environ.get("ADJOURN_STORE", "")):
                conceal()  # its server is about to run beside it
            upstream = Upstream(options.upstream, variables(options))
        except (BrokenContractError, UpstreamStartError) as error:
            from adjourn.proxy import main

            return main.refuse(options, error)
        from adjourn.proxy import main  # the server boots meanwhile

        return main.run(options, workspace, contract, upstream)
    except AdjournError as error:
        _print(error)
        return error.exit_code


def variables(options: ProxyOptions) -> dict[str, str]:
    """Those of the upstream; `adjourn connect` is ours, and finds the login there."""
    own = {OWN_FOLDER: os.environ[OWN_FOLDER]} if options["--url"] and OWN_FOLDER in os.environ else {}
    return for_others(os.environ, options["--store"]) | own


def is_outside(workspace: Workspace, options: ProxyOptions) -> bool:
    """Whether no workspace is here, and no policy was named. A workspace that does not count, as another user's, is one, and so is
    one around a git repository, which an agent can make.
    """
    if workspace.is_found or workspace.skipped or options["--policy"] or options["--contract"]:
        return False
    around = workspace_of(outermost=True)
    return not (around.is_found or around.skipped)


def become(options: ProxyOptions) -> NoReturn:
    """Replace this process by the server: its client speaks to it as if there were no proxy. Raises `UpstreamStartError`."""
    command = options.upstream
    program = find(command[0])
    if program is None:
        raise UpstreamStartError(f"cannot start the server {command[0]!r}: it is not on PATH", REMEDY)
    sys.stderr.write("adjourn: no workspace here: the server runs without a policy (--outside pass)\n")
    sys.stderr.flush()
    try:
        os.execve(program, command, variables(options))  # noqa: S606  # as a client starts it: without a shell
    except OSError as error:
        raise UpstreamStartError(f"cannot start the server {command[0]!r}: {error.strerror}", REMEDY) from error


def _print(error: AdjournError) -> None:
    from adjourn.text.redact import visible_lines

    sys.stderr.write(f"adjourn: {visible_lines(error.lines)}\n")
