"""`adjourn policy sign` and `adjourn verify FILE` as scripts meet them: what is printed, exit codes, files."""

from __future__ import annotations

import hmac
import json
import os
from hashlib import sha1, sha256
from pathlib import Path

import pytest

from support.proxy import Done, run

SECRET = "correct horse battery staple"


class Person:
    """Somebody with keys of their own."""

    def __init__(self, root: Path, config: Path) -> None:
        self.root = root
        self.environment = os.environ | {"ADJOURN_CONFIG": str(config)}

    def run(self, *arguments: str) -> Done:
        return run(*arguments, cwd=self.root, env=self.environment)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    root.mkdir()
    (root / "look.aex").write_text('task look v0\ngoal "look"\nuse file.read\nreturn 1\n')
    return root


@pytest.fixture
def ann(root: Path, tmp_path: Path) -> Person:
    return Person(root, tmp_path / "ann")


@pytest.fixture
def bob(root: Path, tmp_path: Path) -> Person:
    return Person(root, tmp_path / "bob")


def test_what_one_person_signs_another_verifies(ann: Person, bob: Person, root: Path) -> None:
    """Once the key is trusted, under the name that the other gave it; a changed text is invalid again."""
    assert ann.run("sign", "look.aex", "--id", "Ann").out.startswith("signed: look.aex, by Ann with ed25519:")
    assert ann.run("verify", "look.aex", "--id", "Ann").code == 0
    refused = bob.run("verify", "look.aex")
    assert (refused.code, "which you do not trust" in refused.out) == (1, True)
    public = ann.run("keys", "show").out.strip()
    assert bob.run("keys", "trust", "ann", public).code == 0
    valid = bob.run("verify", "look.aex", "--id", "ann")
    assert valid.code == 0
    assert valid.out.startswith("valid: look.aex, signed by Ann at 20")
    assert bob.run("verify", "look.aex", "--id", "Ann").code == 1
    with (root / "look.aex").open("a") as file:
        file.write("# more\n")
    refused = bob.run("verify", "look.aex")
    assert (refused.code, refused.out.splitlines()[0]) == (
        1,
        "INVALID: look.aex: the text is not the one that was signed",
    )


def test_a_shared_secret_by_option_and_by_file(ann: Person, bob: Person, root: Path) -> None:
    """Both name the same secret; another one, or none, does not verify."""
    (root / "secret").write_text(f"  {SECRET}\n")
    signed = ann.run("sign", "look.aex", "--id", "ann", "--key-file", "secret", "--output", "sub.json")
    assert signed.out == "signed: look.aex, by ann with a shared secret\n  written: sub.json (aex/signature@v2)\n"
    options = ("--signature", "sub.json", "--id", "ann")
    assert bob.run("verify", "look.aex", *options, "--key", SECRET).code == 0
    assert bob.run("verify", "look.aex", *options, "--key", "other").code == 1
    assert bob.run("verify", "look.aex", *options).code == 2
    assert bob.run("verify", "look.aex", "--signature", "sub.json", "--id", "bob", "--key", SECRET).code == 1
    assert bob.run("verify", "look.aex", *options, "--key", SECRET, "--key-file", "secret").code == 2


def test_a_published_signature_file_verifies_with_a_warning(ann: Person, root: Path) -> None:
    """As other tools wrote it; the warning says what it does not cover, in JSON too."""
    found = sha256((root / "look.aex").read_bytes()).hexdigest()
    published = {
        "schema": "aex/signature@v1", "file": "/home/ann/look.aex", "hash": found, "signer": "ann",
        "signedAt": "2025-01-02T03:04:05.678Z", "keyHint": sha1(SECRET.encode()).hexdigest()[:12],
        "signature": hmac.digest(SECRET.encode(), found.encode(), "sha256").hex(), "tool": "aex-cli",
    }  # fmt: skip
    (root / "old.json").write_text(json.dumps(published, indent=2))
    arguments = ("verify", "look.aex", "--signature", "old.json", "--id", "ann", "--key", SECRET)
    done = ann.run(*arguments)
    assert done.code == 0
    assert "warning: this old form covers only the text" in done.out
    assert ann.run(*arguments, "--json").json["covers"] == ["text"]
    (root / "old.json").write_text(json.dumps(published | {"hash": "0" * 64}))
    assert ann.run(*arguments).code == 1


def test_json_says_the_same(ann: Person, root: Path) -> None:
    """For `sign` what was written, for `verify` whether it holds and why not."""
    signed = ann.run("sign", "look.aex", "--json").json
    assert signed["path"] == "look.aex.signature.json"
    assert json.loads((root / signed["path"]).read_text()) == signed["signature"]
    told = ann.run("verify", "look.aex", "--json").json
    assert (told["valid"], told["trustedAs"], told["covers"]) == (True, ["default"], ["text", "signer", "time"])
    (root / signed["path"]).write_text("{}")
    done = ann.run("verify", "look.aex", "--json")
    assert (done.code, done.json["valid"]) == (1, False)
    assert "not a signature file" in done.json["reason"]


def test_an_unsigned_contract_is_not_valid(ann: Person) -> None:
    """The answer says where the signature would be, and how to make it."""
    done = ann.run("verify", "look.aex")
    assert (done.code, done.err) == (1, "")
    assert done.out == (
        "INVALID: look.aex: look.aex.signature.json does not exist\n  help: sign it: adjourn policy sign look.aex\n"
    )


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("sign",), 2),
        (("sign", "none.aex"), 1),
        (("sign", "."), 1),
        (("sign", "look.aex", "--key", "a", "--key-file", "b"), 2),
        (("sign", "look.aex", "--key", ""), 2),
        (("sign", "look.aex", "--key-file", ""), 2),
        (("sign", "look.aex", "--key-file", "none"), 1),
        (("sign", "look.aex", "--id", "a\nb"), 1),
        (("sign", "look.aex", "--output", "no/such/folder.json"), 1),
        (("verify", "none.aex"), 1),
        (("verify", "look.aex", "--quick"), 2),
        (("verify", "--id", "ann"), 2),
        (("verify", "task", "--key", "x"), 2),
    ],
)
def test_what_cannot_be_done_is_said_on_stderr(ann: Person, root: Path, arguments: tuple[str, ...], code: int) -> None:
    """With a remedy, and nothing is left behind."""
    done = ann.run(*arguments)
    assert (done.code, done.out) == (code, "")
    assert len(done.err.splitlines()) >= 2
    assert [path.name for path in root.iterdir()] == ["look.aex"]


def test_signing_again_replaces_the_file_and_not_what_it_links_to(ann: Person, root: Path) -> None:
    """A link where the signature file should be is replaced; what it led to stays as it was."""
    (root / "precious").write_text("precious")
    (root / "look.aex.signature.json").symlink_to("precious")
    for _ in range(2):
        assert ann.run("sign", "look.aex").code == 0
    assert (root / "precious").read_text() == "precious"
    assert ann.run("verify", "look.aex").code == 0


def test_proxy_and_run_start_with_a_signed_contract_only(ann: Person, bob: Person, root: Path) -> None:
    """`require signed by`: unsigned and changed contracts are refused before anything is asked, with exit code 1."""
    bob.run("keys", "trust", "ann", ann.run("keys", "show").out.strip())
    (root / ".aex").mkdir()
    (root / ".aex" / "policy.aex").write_text('policy work v1\ngoal "do it"\nallow file.read\nrequire signed by ann\n')
    start = ("proxy", "--contract", "look.aex", "--", "cat")
    refused = bob.run(*start)
    assert (refused.code, "AEX150" in refused.err, "not signed" in refused.err) == (1, True, True)
    assert ann.run("sign", "look.aex").code == 0
    assert bob.run(*start).code == 0
    assert bob.run("run", "look.aex").code == 0
    with (root / "look.aex").open("a") as file:
        file.write("# more\n")
    for command in (start, ("run", "look.aex")):
        refused = bob.run(*command)
        assert (refused.code, "not the one that was signed" in refused.err) == (1, True)
