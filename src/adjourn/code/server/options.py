"""What a code server is started with.

Owns: `CodeOptions`, and reading what a user typed. Must never: take an option from a file of the repository.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from adjourn.code.index.languages import by_name
from adjourn.code.model.session_state import Strictness
from adjourn.errors import UsageError


class CodeOptions(NamedTuple):
    """`search_only` serves the tools that search, and no sessions; `symbols`, those that read and rename symbols, too.

    `embeds` computes missing vectors in the background. `test_commands` are run before a change counts as verified.
    `language_servers`: by language, the command of the server that the user names for it. `store`: its URL ("": the workspace's).
    """

    strictness: Strictness = "standard"
    store: str = ""
    search_only: bool = False
    embeds: bool = True
    symbols: bool = False
    test_commands: Sequence[tuple[str, ...]] = ()
    language_servers: Mapping[str, tuple[str, ...]] = MappingProxyType({})


def command_words(option: str, text: str) -> tuple[str, ...]:
    """The words of a command that the user names; no shell reads it. Raises `UsageError`."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"{option} {text!r}: {error}", "close the quote") from error
    if not words:
        raise UsageError(f"{option} is empty", "name a command, such as 'make test'")
    return words


def named_server(text: str) -> tuple[str, tuple[str, ...]]:
    """Language and command in `LANGUAGE=COMMAND`. Raises `UsageError`."""
    name, equals, command = text.partition("=")
    language = by_name(name)
    if not equals or language is None:
        raise UsageError(
            f"--language-server {text[:100]!r} names no language",
            "write it as in 'java=jdtls -data /tmp/jdtls'",
        )
    return language.name, command_words("--language-server", command)
