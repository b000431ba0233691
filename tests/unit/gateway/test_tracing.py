"""Contexts of traces: read strictly, sampled as their clients say, and put into a message without changing anything else."""

from __future__ import annotations

import json
from typing import cast

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan

from adjourn.gateway.settings import TracesSettings
from adjourn.gateway.tracing import AppendTimes, Trace, Tracer, with_context

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GIVEN = f"00-{TRACE}-{SPAN}-01"
OURS = f"00-{TRACE}-{'b' * 16}-01"


def tracer(sample: float) -> Tracer:
    return Tracer(TracesSettings(endpoint="http://127.0.0.1:9", sample=sample), AppendTimes())


def ids_of(trace: Trace | None) -> tuple[str, str]:
    """The trace and the client's span, in hexadecimal."""
    assert trace is not None
    span = cast("ReadableSpan", trace.span)
    parent = f"{span.parent.span_id:016x}" if span.parent is not None else ""
    return f"{trace.span.get_span_context().trace_id:032x}", parent


def test_a_client_says_whether_its_trace_is_recorded() -> None:
    """A header counts before `_meta`; a request without either is recorded by chance."""
    never = tracer(0.0)
    of_meta = f"00-{'a' * 32}-{SPAN}-01"
    assert ids_of(never.begin({b"traceparent": GIVEN.encode()}, of_meta)) == (TRACE, SPAN)
    assert ids_of(never.begin({}, of_meta)) == ("a" * 32, SPAN)
    assert never.begin({b"traceparent": GIVEN[:-1].encode() + b"0"}, None) is None
    for malformed in (b"\xff", b"x" * 10_000, GIVEN.upper().encode(), f"00-{'0' * 32}-{SPAN}-01".encode()):
        assert never.begin({b"traceparent": malformed}, None) is None
    assert never.begin({}, 7) is None
    assert ids_of(tracer(1.0).begin({}, None))[1] == ""


@given(
    arguments=st.dictionaries(st.text(max_size=8), st.text(max_size=20) | st.just(GIVEN), max_size=4),
    is_ascii=st.booleans(),
    in_meta=st.booleans(),
)
def test_only_the_context_of_a_message_is_replaced(arguments: dict[str, str], *, is_ascii: bool, in_meta: bool) -> None:
    """Whatever the arguments have, also the context itself: they stay, and what the server reads is what was decided on."""
    params = {"arguments": arguments} | ({"_meta": {"traceparent": GIVEN, "k": 1}} if in_meta else {})
    line = json.dumps({"params": params}, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    changed = json.loads(with_context(line, GIVEN if in_meta else "", OURS).decode("utf-8", "surrogatepass"))
    assert changed["params"]["arguments"] == arguments
    if in_meta:
        assert changed["params"]["_meta"]["traceparent"] in (GIVEN, OURS)
        assert changed["params"]["_meta"]["k"] == 1
    if in_meta and GIVEN not in arguments.values() and GIVEN not in arguments and b"\\u" not in line:
        assert changed["params"]["_meta"]["traceparent"] == OURS


def test_an_escaped_context_in_meta_and_a_plain_one_in_the_arguments_are_told_apart() -> None:
    """The one in the arguments is not what was meant."""
    escaped = GIVEN.replace("0", "\\u0030", 1)
    line = f'{{"params":{{"arguments":{{"a":"{GIVEN}"}},"_meta":{{"traceparent":"{escaped}"}}}}}}'.encode()
    assert json.loads(line)["params"]["_meta"]["traceparent"] == GIVEN
    assert with_context(line, GIVEN, OURS) == line
