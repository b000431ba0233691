"""Where the web page of a workspace is found again: an address of its own on loopback, the same at every start.

It follows from the user's secret, so that no other program can wait there without having looked first.

Owns: that address, and links to what waits there. Must never: have a token in a link.
"""

from __future__ import annotations

import hmac
import os
import sys

from adjourn.host.keys import secret

LINK = "/to/"
"""The path of links from elsewhere, as a chat; then the name of what waits, and perhaps of the answer."""


def page_host(root: str) -> str:
    """The address of the page of the workspace at `root`. Systems with one loopback address have that."""
    if sys.platform == "darwin":
        return "127.0.0.1"
    drawn = hmac.digest(secret(), b"page\n" + os.fsencode(root), "sha256")
    return f"127.{1 + drawn[0] % 254}.{drawn[1]}.{1 + drawn[2] % 254}"


def page_link(root: str, port: int) -> str:
    """What a link to the page on `port` begins with."""
    return f"http://{page_host(root)}:{port}{LINK}"
