"""Every way of asking a model behaves alike: one answer or a `ModelError`, in time, with a remedy.

The SDKs are the real ones; the providers are a server on loopback.
"""

from __future__ import annotations

import sys
import time
from importlib import import_module
from pathlib import Path

import pytest

from adjourn.adapters import models
from adjourn.adapters.models import PROVIDERS, choose
from adjourn.errors import UsageError
from adjourn.runs.model import Completion, Model, ModelError
from adjourn.testing import ModelServer, ScriptedReply

VARIABLES = (
    "AEX_MODEL",
    *(f"{name}_{part}" for name in ("ANTHROPIC", "OPENAI") for part in ("API_KEY", "MODEL", "BASE_URL")),
)
each_provider = pytest.mark.parametrize("provider", PROVIDERS)


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def chosen(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], name: str) -> Model:
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    return choose(name)


@each_provider
def test_an_answer_comes_with_its_model_and_what_it_cost(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text, the model's own name and the tokens arrive; instructions, question and key are sent where they belong."""
    with ModelServer(ScriptedReply("hello")) as server:
        answer = chosen(monkeypatch, server.environment(), f"{provider}:some-model").complete("be brief", "greet")
    assert answer == Completion(text="hello", model="some-model-dated", input_tokens=11, output_tokens=7)
    (asked,) = server.asked
    assert (asked.system, asked.prompt) == ("be brief", "greet")
    assert asked.key.endswith(f"key-of-{provider}")
    assert asked.body["model"] == "some-model"
    assert models.MAX_TOKENS in (asked.body.get("max_tokens"), asked.body.get("max_completion_tokens"))


@each_provider
def test_the_model_is_the_environments_where_none_is_named(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PROVIDER alone means PROVIDER_MODEL; without that variable, a default."""
    monkeypatch.setenv(f"{provider.upper()}_API_KEY", "k")
    assert str(choose(provider)).partition(":")[2]
    monkeypatch.setenv(f"{provider.upper()}_MODEL", "mine")
    monkeypatch.setenv("AEX_MODEL", provider)
    assert str(choose()) == f"{provider}:mine"


@each_provider
@pytest.mark.parametrize("status", [429, 500])
def test_what_passes_is_tried_again(provider: str, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many requests, or a server's fault, once: the answer comes all the same."""
    with ModelServer(ScriptedReply("not now", status=status), ScriptedReply("hello")) as server:
        assert chosen(monkeypatch, server.environment(), provider).complete("s", "p").text == "hello"
    assert len(server.asked) == 2


@each_provider
@pytest.mark.parametrize(
    ("status", "times", "remedy"), [(500, 3, "later"), (429, 3, "wait"), (401, 1, "key"), (404, 1, "name")]
)
def test_a_lasting_failure_is_told_with_its_status(
    provider: str, status: int, times: int, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the SDK's attempts the provider's own words and a remedy arrive as a `ModelError`."""
    with (
        ModelServer(ScriptedReply("out of order", status=status)) as server,
        pytest.raises(ModelError, match=f"{status}.*out of order") as raised,
    ):
        chosen(monkeypatch, server.environment(), provider).complete("s", "p")
    assert len(server.asked) == times
    assert remedy in raised.value.remedy


@each_provider
@pytest.mark.parametrize(
    "reply",
    [
        ScriptedReply(body=b"<html>hello</html>"),
        ScriptedReply(body=b"{}"),
        ScriptedReply(body=b'{"choices": [], "content": {}}'),
        ScriptedReply(body=b'{"choices": [{"message": {"content": 5}}], "content": [{"type": "text", "text": 5}]}'),
        ScriptedReply(body=b"\xff\xfe"),
        ScriptedReply(body=b"[" * 100_000),
        ScriptedReply("  \n"),
        ScriptedReply("x" * (models.MAX_TEXT + 1)),
    ],
    ids=["html", "empty", "no-answer", "no-text", "not-utf8", "deep", "blank", "huge"],
)
def test_what_is_no_answer_is_an_error(provider: str, reply: ScriptedReply, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else comes is a `ModelError`, never a text and never another exception."""
    with ModelServer(reply) as server, pytest.raises(ModelError):
        chosen(monkeypatch, server.environment(), provider).complete("s", "p")


@pytest.mark.parametrize(
    ("provider", "reply"),
    [
        ("anthropic", ScriptedReply("half a pat", stop="max_tokens")),
        ("anthropic", ScriptedReply("no", stop="refusal")),
        ("openai", ScriptedReply("half a pat", stop="length")),
        ("openai", ScriptedReply("", stop="content_filter")),
        ("openai", ScriptedReply("", refusal="I would rather not")),
    ],
)
def test_a_part_of_an_answer_is_none(provider: str, reply: ScriptedReply, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that was cut off, or declined, is not taken for a whole one."""
    with ModelServer(reply) as server, pytest.raises(ModelError, match=r"cut off|declined"):
        chosen(monkeypatch, server.environment(), provider).complete("s", "p")


@each_provider
def test_a_slow_answer_is_given_up_in_time(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that drips, so that no single silence is long, is abandoned as well."""
    with ModelServer(ScriptedReply("hello", seconds=60)) as server:
        model = chosen(monkeypatch, server.environment(), provider)
        monkeypatch.setattr(model, "_seconds", 0.3)
        started = time.monotonic()
        with pytest.raises(ModelError, match=r"no answer within 0\.3 seconds"):
            model.complete("s", "p")
    assert time.monotonic() - started < 30


@each_provider
def test_without_a_key_nothing_starts(provider: str) -> None:
    """The choice itself fails, and names the variable."""
    with pytest.raises(ModelError, match=f"{provider.upper()}_API_KEY is not set"):
        choose(provider)


@each_provider
def test_without_its_sdk_the_extra_is_named(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The choice itself fails, and says what to install."""
    monkeypatch.setenv(f"{provider.upper()}_API_KEY", "k")
    monkeypatch.setitem(sys.modules, provider, None)
    with pytest.raises(ModelError) as raised:
        choose(provider)
    assert raised.value.remedy == f"pip install 'adjourn[{provider}]'"


@pytest.mark.parametrize("name", ["", "mistral", "openai/x", "mistral:openai"])
def test_a_model_that_cannot_be_chosen_is_wrong_usage(name: str) -> None:
    """No model, or one of an unknown provider."""
    with pytest.raises(UsageError):
        choose(name)


HANDLER = """\
import sys, time
from adjourn.runs.model import Completion
def echo(system, prompt): return f"{system}|{prompt}"
def whole(system, prompt): return Completion(text="hello", model="own", input_tokens=1, output_tokens=2)
def number(system, prompt): return 5
def fails(system, prompt): raise ValueError("no luck")
def leaves(system, prompt): sys.exit(3)
def sleeps(system, prompt): time.sleep(5)
value = 5
"""


@pytest.fixture
def handlers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the working folder; returns its name, which no other test has."""
    name = f"handlers_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(HANDLER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return name


def test_a_function_of_your_own_is_asked(handlers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is found from the working folder, may return a text or a `Completion`, and goes before AEX_MODEL."""
    monkeypatch.setenv("AEX_MODEL", "anthropic")
    assert choose(handler=f"{handlers}:echo").complete("s", "p").text == "s|p"
    assert choose(handler=f"{handlers}:whole").complete("s", "p").output_tokens == 2


@pytest.mark.parametrize(
    ("function", "words"), [("number", "returned int"), ("fails", "ValueError: no luck"), ("leaves", "SystemExit")]
)
def test_a_function_that_fails_is_a_model_error(function: str, words: str, handlers: str) -> None:
    """Also one that returns no text, or would end the process."""
    with pytest.raises(ModelError, match=words):
        choose(handler=f"{handlers}:{function}").complete("s", "p")


def test_a_function_that_hangs_is_given_up(handlers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the time for one answer."""
    model = choose(handler=f"{handlers}:sleeps")
    monkeypatch.setattr(model, "_seconds", 0.1)
    with pytest.raises(ModelError, match="no answer"):
        model.complete("s", "p")


@pytest.mark.parametrize("place", ["nothing", ":f", "m:", "no_such_module_here:f", "{0}:nothing", "{0}:value"])
def test_a_function_that_is_not_there_is_wrong_usage(place: str, handlers: str) -> None:
    """Each is refused before anything starts."""
    with pytest.raises(UsageError):
        choose(handler=place.format(handlers))


def test_a_module_that_does_not_load_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own exception is shown."""
    (tmp_path / "broken_handlers.py").write_text("1/0")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(ModelError, match="ZeroDivisionError"):
        choose(handler="broken_handlers:f")


@each_provider
def test_the_page_names_what_counts(provider: str) -> None:
    """docs/how-to/contracts.md has a row for each provider, with its extra, variables and default model."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "contracts.md").read_text()
    (row,) = [line for line in page.splitlines() if line.startswith(f"| `{provider}` |")]
    default = import_module(f"adjourn.adapters.{provider}").DEFAULT_MODEL
    variables = (f"{provider.upper()}_{part}" for part in ("API_KEY", "MODEL", "BASE_URL"))
    assert all(f"`{word}`" in row for word in (f"adjourn[{provider}]", default, *variables))
