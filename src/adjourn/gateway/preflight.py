"""`adjourn serve --check`: whether the store opens, each server lists its tools, and the policy allows any of them.

Starts what is a command, as the gateway would, and calls no tool.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec

from adjourn.aex.layers import narrowed
from adjourn.aex.policy import Policy
from adjourn.errors import AdjournError
from adjourn.gateway.http_pool import from_variables
from adjourn.gateway.routing import variables_of
from adjourn.gateway.settings import GatewaySettings, ServerSettings
from adjourn.host import executables
from adjourn.host.workspace_store import has_store, open_at
from adjourn.setup.probe import Probed, ServerStart, probe_all

SECONDS = 15
"""How long a server may take to list its tools."""


class ServerCheck(NamedTuple):
    """What was found of a server: `tools` that it lists, those that are `allowed`, of which `limited` to some principals; or a `failure`."""

    name: str
    failure: str = ""
    tools: int = 0
    allowed: int = 0
    limited: int = 0
    tried: bool = True
    """A server that wants a token of each person is not."""

    @property
    def is_usable(self) -> bool:
        """Whether a client could call anything. A server may have prompts and resources alone."""
        return not self.failure and (self.allowed > 0 or not self.tools)

    def __str__(self) -> str:
        if self.failure:
            return f"{self.name}: {self.failure}"
        if not self.tried:
            return f"{self.name}: not tried, because it gets a token of each person"
        few = f", {self.limited} of them to some principals only" if self.limited else ""
        return f"{self.name}: {self.allowed} of {self.tools} tools allowed{few}"


def check_store(root: str, url: str) -> str:
    """Why the store cannot be used, "" if it can. One that is not there is made when the gateway starts, and not here."""
    try:
        if has_store(root, url):
            with closing(open_at(root, url)) as store:
                store.ref("health")
    except AdjournError as error:
        return f"{error.message}; {error.remedy}" if error.remedy else error.message
    return ""


def check_servers(settings: GatewaySettings, policy: Policy, tree: str) -> Iterator[ServerCheck]:
    """Ask all servers for their tools, several at a time; in the order of the settings."""
    asked = {name: server for name, server in settings.servers.items() if server.exchange is None}
    probed = probe_servers(asked, tree)
    for name in settings.servers:
        yield _judged(name, probed[name], policy) if name in probed else ServerCheck(name, tried=False)


def probe_servers(servers: Mapping[str, ServerSettings], tree: str) -> dict[str, Probed]:
    """What servers list, by their names, in this order. One that lacks a variable is not started."""
    starts: dict[str, ServerStart] = {}
    failures: dict[str, Probed] = {}
    with TemporaryDirectory() as empty:
        for name, server in servers.items():
            try:
                starts[name] = _start(name, server, tree, empty)
            except AdjournError as error:
                failures[name] = Probed(failure=f"cannot be used: {error.message}; {error.remedy}")
        probed = dict(zip(starts, probe_all(list(starts.values()), seconds=SECONDS), strict=True))
    return {name: failures.get(name) or probed[name] for name in servers}


def _start(name: str, server: ServerSettings, tree: str, empty: str) -> ServerStart:
    """The command itself, or the bridge to the URL; without a `login` one that finds none in the folder `empty`."""
    if server.command:
        return ServerStart(server.command, variables_of(name, server, os.environ), tree)
    from_variables(server.bearer_env, server.headers_env, os.environ)  # raises for one that has no value
    words = executables.python_command("-m", "adjourn", "connect", server.url, "--seconds", str(SECONDS))
    if server.bearer_env:
        words += ["--bearer-env", server.bearer_env]
    if server.headers_env:
        words += ["--header-env", ",".join(f"{header}={variable}" for header, variable in server.headers_env.items())]
    words += [
        word
        for option, value in (("--ca", server.ca), ("--certificate", server.certificate), ("--key", server.key))
        if value
        for word in (option, os.path.join(tree, os.path.expanduser(value)))
    ]
    if server.proxy:
        words += ["--http-proxy", server.proxy]
    environment = executables.outside(os.environ, tree)
    return ServerStart(words, environment if server.login else {**environment, "ADJOURN_CONFIG": empty}, tree)


def _judged(name: str, probed: Probed, policy: Policy) -> ServerCheck:
    if probed.failure:
        return ServerCheck(name, "; ".join((probed.failure, *probed.errors[-1:])))
    everybody = narrowed(policy, None)
    further = [rule for part in policy.parts for rule in part.rules.allow]
    somebody = msgspec.structs.replace(everybody, allow=[*everybody.allow, *further])
    allowed, for_all = (
        sum(layer.at_server(name).visible(tool.name) for tool in probed.tools) for layer in (somebody, everybody)
    )
    return ServerCheck(name, "", len(probed.tools), allowed, allowed - for_all)
