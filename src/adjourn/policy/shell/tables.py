"""What programs do with their arguments, as data: `programs.json`.

A program in no list may write to the files that it is given, and print anything.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Tables(msgspec.Struct, frozen=True, rename="camel"):
    """Sets have names of programs, without their folder, in lower case. Texts are regular expressions."""

    printers: frozenset[str]
    """Print their arguments, and open no file."""
    going: frozenset[str]
    """Change the folder of the shell."""
    shells: frozenset[str]
    removers: frozenset[str]
    """Remove or move the files that they are given."""
    movers: frozenset[str]
    """Those of them whose last argument is the destination."""
    writers: frozenset[str]
    """Write to files that they are given: a name that cannot be known may be that of a protected place. Removers are some, too."""
    hosts: frozenset[str]
    """Run code from an argument, or from their input."""
    strict_hosts: frozenset[str]
    """Hosts whose texts are shell lines."""
    lenient_hosts: frozenset[str]
    """Hosts that are often given what another program prints."""
    copiers: frozenset[str]
    """Bring whole folders."""
    readers: frozenset[str]
    """Change none of the files that they are given, whatever their options."""
    readers_by_option: dict[str, str]
    """Change none with options that match, without their first dash."""
    readers_by_command: dict[str, frozenset[str]]
    """Change none under some of their own commands."""
    git_options: frozenset[str]
    """Long options with which those of git neither write a file nor run a program."""
    git_settings: str
    """Settings of git that neither write a file nor run a program."""
    git_texts: frozenset[str]
    """Commands of git that may run an argument."""
    git_flags: frozenset[str]
    """Options of git itself that change nothing which matters here."""
    git_valued: frozenset[str]
    """Options of git itself with a value."""
    orders: str
    """Variables by which a program reads its orders, or where to write."""
    runners: dict[str, tuple[str, str]]
    """Run their remaining arguments as a command: the letters of their options, and of those with a value."""
    runners_long: str
    """Long options of these."""
    runners_long_valued: str
    """Those of them whose value is the next argument."""
    silent: frozenset[str]
    """Print nothing."""
    numbers: frozenset[str]
    """Print what follows from the machine, and nothing which a line can make up."""
    filters: frozenset[str]
    """Print some of what they read."""
    composers: frozenset[str]
    """Can put together any text from what a line gives them."""
    sources: frozenset[str]
    """Print what they find in files, or elsewhere: with plain arguments, not what a line makes up."""
    plain_arguments: dict[str, str]
    """Arguments with which a composer only prints a part of what it reads."""


def _read() -> Tables:
    loader: Any = __spec__ and __spec__.loader  # what reads a module reads what lies beside it
    return msgspec.json.decode(loader.get_data(__file__.rpartition("/")[0] + "/programs.json"), type=Tables)


TABLES = _read()
