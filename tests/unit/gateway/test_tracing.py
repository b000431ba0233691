"""Contexts of traces: read strictly, sampled as their clients say, and put into a message without changing anything else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.gateway.monitoring.tracing import (
    AppendTimes,
    Trace,
    Tracer,
    TracesSettings,
    parsed,
    with_context,
)

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GIVEN = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(
    ("context", "found"),
    [
        (GIVEN, (TRACE, SPAN, True)),
        (GIVEN[:-1] + "0", (TRACE, SPAN, False)),
        (f"01-{TRACE}-{SPAN}-03-what-comes-later", (TRACE, SPAN, True)),
        (f"{GIVEN}-x", None),
        (f"ff-{TRACE}-{SPAN}-01", None),
        (f"00-{'0' * 32}-{SPAN}-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (GIVEN.upper(), None),
        (f" {GIVEN}", None),
        (GIVEN + "\n", None),
        ("x" * 10_000, None),
        (7, None),
        (None, None),
    ],
)
def test_a_context_is_read_as_the_standard_has_it(context: object, found: object) -> None:
    """Later versions may have more; what is malformed counts as none."""
    assert parsed(context) == found


@given(st.text(max_size=200))
def test_any_text_is_read_or_is_none(text: str) -> None:
    """Nothing is raised."""
    found = parsed(text)
    assert found is None or len(found[0]) == 32


def tracer(sample: float, chance: float = 0.5) -> Tracer:
    return Tracer(TracesSettings(endpoint="http://127.0.0.1:9", sample=sample), AppendTimes(), lambda: chance)


def test_a_client_says_whether_its_trace_is_recorded() -> None:
    """A header counts before `_meta`; a request without either is recorded by chance."""
    never = tracer(0.0)
    trace = never.begin({b"traceparent": GIVEN.encode()}, f"00-{'a' * 32}-{SPAN}-01")
    assert trace is not None
    assert (trace.id, trace.parent) == (TRACE, SPAN)
    of_meta = never.begin({}, f"00-{'a' * 32}-{SPAN}-01")
    assert of_meta is not None
    assert of_meta.id == "a" * 32
    assert never.begin({b"traceparent": GIVEN[:-1].encode() + b"0"}, None) is None
    assert never.begin({b"traceparent": b"\xff"}, None) is None
    assert tracer(0.4).begin({}, None) is None
    begun = tracer(0.6).begin({}, None)
    assert begun is not None
    assert begun.parent == ""


@given(
    arguments=st.dictionaries(st.text(max_size=8), st.text(max_size=20) | st.just(GIVEN), max_size=4),
    is_ascii=st.booleans(),
    in_meta=st.booleans(),
)
def test_only_the_context_of_a_message_is_replaced(
    arguments: dict[str, str], *, is_ascii: bool, in_meta: bool
) -> None:
    """Whatever the arguments have, also the context itself: they stay, and what the server reads is what was decided on."""
    params = {"arguments": arguments} | ({"_meta": {"traceparent": GIVEN, "k": 1}} if in_meta else {})
    line = json.dumps({"params": params}, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    trace = Trace(TRACE, SPAN, GIVEN if in_meta else "")
    context = trace.context(of_call=True)
    changed = json.loads(with_context(line, trace, context).decode("utf-8", "surrogatepass"))
    assert changed["params"]["arguments"] == arguments
    if in_meta:
        assert changed["params"]["_meta"]["traceparent"] in (GIVEN, context)
        assert changed["params"]["_meta"]["k"] == 1
    if in_meta and GIVEN not in arguments.values() and GIVEN not in arguments and b"\\u" not in line:
        assert changed["params"]["_meta"]["traceparent"] == context


def test_an_escaped_context_in_meta_and_a_plain_one_in_the_arguments_are_told_apart() -> None:
    """The one in the arguments is not what was meant."""
    escaped = GIVEN.replace("0", "\\u0030", 1)
    line = f'{{"params":{{"arguments":{{"a":"{GIVEN}"}},"_meta":{{"traceparent":"{escaped}"}}}}}}'.encode()
    assert json.loads(line)["params"]["_meta"]["traceparent"] == GIVEN
    trace = Trace(TRACE, SPAN, GIVEN)
    assert with_context(line, trace, trace.context(of_call=True)) == line
