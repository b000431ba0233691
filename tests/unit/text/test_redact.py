"""What is kept of arguments is short, says what was done, and has no secret of a known name or shape."""

from __future__ import annotations

import json
import re
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.text.redact import HIDDEN, MAX_PREVIEW, beginning, matches, preview, shapes, without_secrets
from support import redacting
from support.campaign import IS_CAMPAIGN, scaled, scaled_seconds
from support.cases import for_each
from support.secret_examples import Example, examples, templates
from support.strategies import json_values

SECRET = "hunter2hunter2"
PLACES: dict[str, Callable[[str], str]] = {
    "bare": str,
    "prose": "The key is {} and that is it.".format,
    "json": lambda text: json.dumps({"a": [{"b": text}]}),
    "json-line": lambda text: json.dumps(f"first\n{text}\nlast"),
    "json-twice": lambda text: json.dumps(json.dumps({"b": text})),
    "url": "https://example.org/path?x={}&y=2".format,
    "command": "export X='{}'; run".format,
    "lines": "first\n{}\nlast".format,
}


@for_each(
    "name",
    [
        "password",
        "PASSWORD",
        "db_password",
        "Passwd",
        "pass-phrase",
        "client_secret",
        "token",
        "accessToken",
        "api_key",
        "X-API-Key",
        "apiKey",
        "aws_access_key_id",
        "Authorization",
        "Set-Cookie",
        "private_key",
        "credentials",
        "pass",
        "db_pass",
        "MYSQL_PWD",
        "userPwd",
        "ENCRYPTION_KEY",
        "rails-master-key",
    ],
)
@for_each("value", [SECRET, [SECRET], {"value": SECRET}, {"a": [{"b": SECRET}]}])
def test_secrets_are_hidden_by_name(name: str, value: object) -> None:
    """Whatever a member with a telling name holds, at any depth, is replaced."""
    assert SECRET not in preview({name: value})
    assert SECRET not in preview({"outer": [{"inner": {name: value}}]})
    assert HIDDEN in preview({name: value})


TO_THE_END = ("cookie-header", "putty-private-key")
"""What ends with its line, or its text."""


def test_every_shape_has_an_example() -> None:
    """No shape of the table is without a test, and there are the well-known ones, in the settings in which they are met."""
    assert [*dict.fromkeys(name for name, _ in templates())] == [shape.name for shape in shapes()]
    assert len(shapes()) >= 110
    assert len(templates()) >= 270


@for_each(("name", "example"), examples(), ids=[name for name, _ in examples()])
@for_each("place", PLACES)
def test_secrets_are_hidden_by_shape(name: str, example: Example, place: str) -> None:
    """A secret of a known shape is replaced in prose, JSON (also quoted twice), URLs, commands and lines; what is around it stays."""
    text = PLACES[place](example.text)
    shown = without_secrets(text)
    assert not any(line in shown for line in example.secret.split("\n") if not line.startswith("-----"))
    assert HIDDEN in shown
    assert without_secrets(shown) == shown
    if place == "prose":
        assert shown.startswith(f"The key is {example.before}{HIDDEN}")
        assert name in TO_THE_END or shown.endswith(f"{example.after} and that is it.")


@for_each("name", sorted({name for name, _ in examples()}))
def test_secrets_are_hidden_in_values_and_in_names_of_arguments(name: str) -> None:
    """A preview has no secret, wherever in the arguments it is: a value, an item, or a member's name."""
    for one, example in examples():
        if one == name:
            for arguments in (example.text, [example.text], {"x": [{"y": example.text}]}, {example.text: 1}):
                text = preview(arguments)
                assert example.secret.split("\n")[0][:60] not in text or "\n" in example.secret
                assert HIDDEN in text


@for_each("name", sorted({name for name, _ in examples()}))
@for_each("limit", [30, 60, 100])
def test_a_cut_leaves_no_piece_of_a_secret(name: str, limit: int) -> None:
    """A text is cut when its secrets are gone: none is cut into a piece that nobody would know for one."""
    for one, example in examples():
        if one == name:
            secret = example.secret.split("\n")[0]
            for padding in range(0, limit, 1 if IS_CAMPAIGN else 3):
                text = "x " * (padding // 2) + "x" * (padding % 2) + " " + example.text
                shown = beginning(text, limit)
                assert len(shown) <= limit
                assert secret[:20] not in shown or secret.startswith("-----")


@for_each("unseen", ["\x1b", "\x1b[31m", "\x1b]0;owned\x07", "\u200b", "\u2066", "\x08"])
def test_what_is_not_seen_divides_no_secret(unseen: str) -> None:
    """In a key's known beginning or behind it: what a reader would copy is hidden, and the text around it stays."""
    for _, example in examples():
        secret = example.secret
        for place in (1, 3, len(secret) // 2, len(secret) - 1):
            broken = secret[:place] + unseen + secret[place:]
            text = f"\n{unseen} {example.before}{broken}{example.after} {unseen}\n"
            plain = without_secrets(f"\n {example.before}{secret}{example.after} \n")
            assert without_secrets(text).replace(unseen, "") == plain
            for is_short in (False, True):
                assert HIDDEN in preview({"note": [text]}, 10_000, is_short=is_short)


PIECES = [
    *sorted({mark for shape in shapes() for mark in shape.marks}),
    "eyJ", "-eyJ", "eyJhbGci", "://a", "://a:b", "-----BEGIN PRIVATE KEY", "-----BEGIN PRIVATE KEY-----", "-----", "curl -u ",
    "curl -u a", "machine a login b ", "machine a login b password ", "mysql -p", "Bearer ", "bearer a", "basic A", "token=",
    "password: ", "password=1", "secret_key", "a" * 8, "A1" * 8, "a.", "\\n", "%20", "Cookie: a=", "--password ",
]  # fmt: skip


@given(
    st.lists(st.sampled_from([*PIECES, *(one.text for _, one in examples())]), max_size=3),
    st.sampled_from(["", " ", "="]),
)
def test_no_shape_that_matches_is_passed_over(parts: list[str], between: str) -> None:
    """A shape whose mark something has to follow is looked for in every text that it matches."""
    text = between.join(parts)
    names = {shape.name for shape in shapes() if shape.behind and re.search(shape.expression, text)}
    assert names <= {shape.name for shape, _ in matches(text)}


def test_a_text_that_only_names_secrets_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of a policy that names a tool of secrets costs no search for one."""
    monkeypatch.delattr("adjourn.text.redact._pattern")
    text = "refused: network.*, secrets.read, tokens.list"
    assert without_secrets(text) == text


@for_each(
    "text",
    [
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "key 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "id 123e4567-e89b-12d3-a456-426614174000",
        '"integrity": "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg=="',
        "color: #a1b2c3d4; background: #AKIA00",
        "from google.cloud.secretmanager_v1.services.secret_manager_service import SecretManagerServiceClient",
        "import sklearn_extra.cluster; class=sk-toggleable__label-arrow; sk-estimator-doc-link",
        "npm_config_registry npm_package_version npm_lifecycle_event",
        "uses: pypa/gh-action-pypi-publish@release/v1",
        "Basic authentication and Bearer tokens are described in RFC 7617 and RFC 6750",
        "Authorization: Bearer $TOKEN",
        "https://example.org:8443/path?x=1&page=2#key-1",
        "ssh://git@github.com:22/owner/repository.git",
        "postgresql://user:${PASSWORD}@host/db",
        "password = getpass.getpass('Password: ')",
        "token: str = field(default_factory=make_token_v2)",
        "def tokenize(self, secret_key=None, max_tokens=100_000):",
        "api_key=os.environ['OPENAI_API_KEY']",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
        "-----BEGIN CERTIFICATE-----",
        "2026-05-02T15:30:12.345Z test_what_is_kept_of_arguments_is_short_1234567890",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJx0FvT9rG8K2bYH6dP1XQ4mWc7ZLq5sUeN3oRkVtA0B me@example.org",
        "sk-ecdsa-sha2-nistp256@openssh.com",
    ],
)
def test_what_only_looks_long_is_kept(text: str) -> None:
    """Commits, digests, UUIDs, colours, paths, templates and names of settings are no secrets."""
    assert without_secrets(text) == text


@for_each(
    "text",
    [
        'os.environ["API_KEY"]', "password: str", "key = lambda x: x", "token = next(tokens)", "primary_key=True",
        "self.token = token_from_request(request2)", 'password = os.getenv("DB_PASSWORD_V2")', "key: Uint8Array",
        "MAX_TOKENS=4096", 'TOKEN_URL = "https://example.org/oauth2/token"', "password=$(cat /run/secrets/db1)",
        "password: {{ vault_password_1 }}", "${{ secrets.GITHUB_TOKEN }}", "token = tokens[i + 1]", "bypass=abc123def456ghi",
        "monkey=abc123def456ghi789", "hotkey='ctrl1+shift2+a3'", "docker run -p 8080:80 nginx1", "mkdir -p src/a1/b2",
        "PWD=/home/me/work2/src3", "OLDPWD=/home/me1/x2/y3", "signature=inspect.signature(func1)", "sig=signal.SIGTERM",
        "echo done1 | tee log", "<key>name1</key>", "Wildcard `*` may only be last (`2001:db8:*:*:*:*:*:*`)",
        "* Release GPG key: 9554F04D7259F04124DE6B476D5A82AC7E37093B", "The password is asked for at the terminal",
        'cache_key = f"user:{uid}:v2"', "Identified by 2 keys: see section 3", "public_key: AAAAC3NzaC1lZDI1NTE5AAAAIJx0FvT9rG8K2bYH6dP1",
    ],
)  # fmt: skip
def test_code_that_handles_secrets_is_kept(text: str) -> None:
    """Look-ups, annotations, calls, templates and paths behind a telling name are no secrets."""
    assert without_secrets(text) == text


def test_a_path_under_a_short_name_is_kept() -> None:
    """Tools call a working directory `pwd`."""
    assert preview({"pwd": "/home/me/work"}) == '{"pwd":"/home/me/work"}'


@given(st.lists(st.one_of(st.sampled_from([one.text for _, one in examples()]), st.text(max_size=20)), max_size=4))
def test_redaction_is_done_when_it_is_done(parts: list[str]) -> None:
    """What was redacted once is not changed by doing it again."""
    once = without_secrets(" ".join(parts))
    assert without_secrets(once) == once


@for_each("piece", PIECES)
def test_time_grows_with_the_text_and_not_with_its_square(piece: str) -> None:
    """A text four times as long, made of what begins a secret over and over, takes about four times as long."""
    short, long = (_seconds((piece * size)[:size]) for size in (scaled(16 * 1024), scaled(64 * 1024)))
    assert long < 9 * short + scaled_seconds(0.05)


def _seconds(text: str) -> float:
    """Processor time of this thread, which other processes do not add to; the least of three."""
    taken = []
    for _ in range(3):
        before = time.thread_time()
        without_secrets(text)
        taken.append(time.thread_time() - before)
    return min(taken)


SAMPLED = ("asyncio", "email", "http", "json", "logging", "urllib", "unittest", "xml", "sqlite3", "concurrent")
MAX_HITS_PER_MEGABYTE = 3
"""Ten times what is found today, for other versions of the library."""


def test_ordinary_code_is_left_alone() -> None:
    """In packages of the standard library there is hardly anything to hide, and in this project's source nothing."""
    library = Path(sysconfig.get_paths()["stdlib"])
    found = redacting.measure([library / name for name in SAMPLED])
    assert found.characters > redacting.MEGABYTE
    assert found.per_megabyte <= MAX_HITS_PER_MEGABYTE, found.shown
    assert redacting.measure([redacting.ROOT / "src"]).shown == []


def test_the_rest_is_kept_as_it_is() -> None:
    """Arguments without secrets are their compact JSON."""
    arguments = {"path": "src/größe.py", "line": 3, "flags": [True, None, 1.5], "nested": {"a": "b"}}
    assert preview(arguments) == ('{"path":"src/größe.py","line":3,"flags":[true,null,1.5],"nested":{"a":"b"}}')


@given(json_values(), st.integers(10, 60))
def test_a_preview_is_bounded(arguments: Any, limit: int) -> None:
    """No preview is longer than its limit, and one that was cut ends with an ellipsis."""
    text = preview(arguments, limit)
    whole = preview(arguments, 10**6)
    assert len(text) <= limit
    assert text == whole or text == whole[: limit - 1] + "…"


@given(
    json_values(
        keys=st.sampled_from(("path", "text", "api_key", "pass_word", "Authori-zation", "to\u006ben"))
        | st.text(max_size=5)
    )
)
def test_a_preview_of_short_arguments_is_the_same_preview(arguments: Any) -> None:
    """What a caller knows of the size of arguments changes nothing of what is shown of them."""
    assert preview(arguments, is_short=True) == preview(arguments)


@for_each(
    "arguments",
    [
        {"a": "x" * 10_000},
        {"x" * 10_000: 1},
        list(range(10_000)),
        {str(number): number for number in range(10_000)},
        [[]] * 10_000,
        [""] * 10_000,
        ["\0" * 100] * 100,
        "é" * 10_000,
    ],
    ids=["text", "name", "list", "dict", "lists", "texts", "control", "umlauts"],
)
def test_what_does_not_fit_is_seen_to_be_cut(arguments: object) -> None:
    """Long arguments of any shape fill the limit, and end with an ellipsis."""
    text = preview(arguments)
    assert len(text) == MAX_PREVIEW
    assert text.endswith("…")


class Counted(list[Any]):
    """A list that counts how many of its items were examined."""

    looked = 0

    def __iter__(self) -> Iterator[Any]:
        for item in super().__iter__():
            Counted.looked += 1
            yield item


@pytest.mark.parametrize("key", ["a", "password"])
def test_only_what_fits_is_looked_at(key: str) -> None:
    """Arguments of a million values cost no more than the few that are shown."""
    Counted.looked = 0
    preview({key: Counted([Counted(["x"] * 1000)] * 1000), "b": "x" * 10_000_000, "c": Counted(range(1000))})
    assert Counted.looked <= 2 * MAX_PREVIEW


def test_bottomless_arguments_are_cut_at_a_depth() -> None:
    """Nesting far beyond what Python could follow is shown down to a few levels."""
    deep: Any = "bottom"
    for _ in range(100_000):
        deep = [deep]
    assert preview(deep) == "[" * 9 + '"…"' + "]" * 9
    while isinstance(deep, list):  # take it apart level by level: freeing it whole would recurse
        deep = deep.pop()


def test_deep_arguments_are_cut_at_a_depth() -> None:
    """Below a few levels an ellipsis stands for the rest, secrets included."""
    deep: Any = {"password": SECRET, "plain": "bottom"}
    for _ in range(20):
        deep = {"a": deep}
    assert "bottom" not in preview(deep)
    assert "…" in preview(deep)


def test_the_arguments_are_left_as_they_were() -> None:
    """Making a preview changes nothing in the arguments."""
    arguments = {"token": SECRET, "list": ["sk-" + SECRET]}
    preview(arguments)
    assert arguments == {"token": SECRET, "list": ["sk-" + SECRET]}
