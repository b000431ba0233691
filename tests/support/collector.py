"""A collector that takes spans over OTLP, as JSON or protobuf, and keeps them.

Owns: `Collector`. Must never: check a span: that is what tests do.
"""

from __future__ import annotations

import json
import threading
import time
from base64 import b64decode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector(ThreadingHTTPServer):
    """Takes spans, after `delay` seconds and with `status`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status, self.delay = 200, 0.0
        self.posted: list[tuple[str, str, Any]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def spans(self) -> list[dict[str, Any]]:
        resources = [one for _, _, body in self.posted for one in body["resourceSpans"]]
        return [span for one in resources for scope in one["scopeSpans"] for span in scope["spans"]]


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        body = json.loads(data) if self.headers["Content-Type"] == "application/json" else _of_protobuf(data)
        self.server.posted.append((self.path, self.headers["Content-Type"], body))
        time.sleep(self.server.delay)
        self.send_response(self.server.status)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


def _of_protobuf(data: bytes) -> Any:
    """The same as OTLP's JSON has it: ids as hexadecimal text, kinds as numbers."""
    body = MessageToDict(ExportTraceServiceRequest.FromString(data), use_integers_for_enums=True)
    for span in (
        one for resource in body["resourceSpans"] for scope in resource["scopeSpans"] for one in scope["spans"]
    ):
        for member in {"traceId", "spanId", "parentSpanId"} & span.keys():
            span[member] = b64decode(span[member]).hex()
    return body
