"""The server of `http_server.py` over HTTP+SSE, the transport before Streamable HTTP: `python sse_server.py PORT FOLDER [NAME]`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from http_server import PORT, server  # type: ignore[import-not-found]

if __name__ == "__main__":
    server.run(transport="sse", host="127.0.0.1", port=PORT, sse_path="/mcp")
