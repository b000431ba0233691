"""A browser of a person who allows everything: visits an address, and follows where it leads. `python following_browser.py ADDRESS`."""

from __future__ import annotations

import sys

import httpx

if __name__ == "__main__":
    httpx.get(sys.argv[1], follow_redirects=True, timeout=20)
