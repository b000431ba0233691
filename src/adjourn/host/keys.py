"""What is the user's own, outside every workspace: keys in `$XDG_CONFIG_HOME/adjourn/keys` (spec/events.md, section 6), settings, the page's address.

    default.key      32 private bytes, base64; made on first use, mode 0600
    secret           32 random bytes, base64, mode 0600: seals caches and pending approvals
    trusted/NAME.pub public keys of others whose checkpoints may be resumed, base64

Must never: look for keys in a workspace, which the agent can write.
"""

from __future__ import annotations

import hmac
import os
import sys
from functools import lru_cache

from adjourn.errors import ConflictError, InvalidError, NotFoundError, RefusedError, StoreError
from adjourn.host import folders
from adjourn.host.workspace import create_file
from adjourn.log.signing import decode_bytes, encode_bytes, fingerprint, public_key

KEY_BYTES = 32


def folder() -> str:
    """Where the keys are. `ADJOURN_CONFIG` names another configuration folder."""
    return os.path.join(folders.config(), "keys")


def check_outside(root: str) -> None:
    """Raise `RefusedError` when the keys are in the workspace `root`, links followed: they would be the agent's to choose."""
    place, workspace = os.path.realpath(folder()), os.path.realpath(root)
    if place == workspace or place.startswith(workspace.rstrip("/") + "/"):
        raise RefusedError(
            f"the keys are inside the workspace ({folder()})",
            "move them out of it and set ADJOURN_CONFIG: an agent can read and write a workspace",
        )


def secret() -> bytes:
    """The 32 bytes that seal what only this user's adjourn may have written."""
    return _read_or_make("secret")


def reading_secret() -> bytes:
    """The secret if there is one. Without it, cached folds cannot be trusted, and are not: tasks load whole."""
    return secret() if has_secret() else os.urandom(KEY_BYTES)


def has_secret() -> bool:
    """Whether there is a secret already: who only reads makes none."""
    return os.path.exists(os.path.join(folder(), "secret"))


def private_key() -> bytes:
    """The user's signing key, made on first use."""
    return _read_or_make("default.key")


def own_public_key() -> bytes:
    """The public part of the user's signing key, which is made on first use."""
    return public_key(private_key())


def trusted() -> dict[str, bytes]:
    """The trusted public keys by name, the user's own (`default`) first: their checkpoints may be resumed without asking."""
    keys = {"default": own_public_key()} if os.path.exists(os.path.join(folder(), "default.key")) else {}
    directory = os.path.join(folder(), "trusted")
    try:
        names = sorted(os.listdir(directory))
    except FileNotFoundError:
        names = []
    except OSError as error:
        raise StoreError(f"cannot read {directory}: {error.strerror}", "make it readable") from error
    for name in names:
        if name.endswith(".pub"):
            keys[name[:-4]] = _read(os.path.join(directory, name))
    return keys


def trust(name: str, public: bytes) -> str:
    """Trust a public key under a name; returns its fingerprint."""
    if not name or not name.replace("-", "").replace("_", "").replace(".", "").isalnum() or name[0] == ".":
        raise InvalidError(f"not a valid name for a key: {name!r}", "use letters, digits, dashes and underscores")
    if name == "default":
        raise InvalidError("`default` is the name of your own key", "choose a different name")
    path = os.path.join(folder(), "trusted", f"{name}.pub")
    _write(path, public)
    if _read(path) != public:
        raise ConflictError(
            f"another key is trusted as {name!r}", f"choose another name, or `adjourn keys distrust {name}` first"
        )
    return fingerprint(public)


def trusted_path(name: str) -> str:
    """The file of the trusted key of that name. Raises `NotFoundError`."""
    path = os.path.join(folder(), "trusted", f"{os.path.basename(name)}.pub")
    if not os.path.lexists(path):
        raise NotFoundError(f"no trusted key is named {name!r}", "list the keys: adjourn keys")
    return path


def distrust(name: str) -> None:
    """Stop trusting the key of that name. Raises `NotFoundError`."""
    os.unlink(trusted_path(name))


def _read_or_make(name: str) -> bytes:
    path = os.path.join(folder(), name)
    try:
        return _read(path)
    except FileNotFoundError:
        _write(path, os.urandom(KEY_BYTES))
        return _read(path)


def _read(path: str) -> bytes:
    try:
        status = os.stat(path)
        return _decoded(path, (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns))
    except FileNotFoundError:
        raise
    except (OSError, InvalidError, UnicodeDecodeError) as error:
        raise StoreError(
            f"cannot read key {path}: {error}", "restore it from a backup, or move it to another folder"
        ) from error


@lru_cache(maxsize=16)
def _decoded(path: str, version: tuple[int, int, int, int]) -> bytes:
    """The key in a file. `version` is what `os.stat` said just before: a file that was written or replaced since is read again."""
    del version
    with open(path, encoding="ascii") as file:
        return decode_bytes(file.read(200).strip(), KEY_BYTES)


def _write(path: str, key: bytes) -> None:
    """Create a key file; a file that is already there is left as it is (two processes may make one at once)."""
    folder_path, name = os.path.split(path)
    try:
        os.makedirs(folder_path, mode=0o700, exist_ok=True)
        create_file(folder_path, name, encode_bytes(key).encode() + b"\n", 0o600)
    except (OSError, StoreError) as error:
        why = error.message if isinstance(error, StoreError) else error.strerror
        raise StoreError(
            f"cannot write key {path}: {why}", "make the folder writable, or set ADJOURN_CONFIG to one that is"
        ) from error


# --- the address of the page
# It follows from the secret: no other program can wait there without having read that.

LINK = "/to/"
"""The path of links from elsewhere, as a chat; then the name of what waits, and perhaps of the answer."""


def page_host(root: str) -> str:
    """The address of the page of the workspace at `root`. Systems with one loopback address have that."""
    if sys.platform == "darwin":
        return "127.0.0.1"
    drawn = hmac.digest(secret(), b"page\n" + os.fsencode(root), "sha256")
    return f"127.{1 + drawn[0] % 254}.{drawn[1]}.{1 + drawn[2] % 254}"


def page_link(root: str, port: int) -> str:
    """What a link to the page on `port` starts with."""
    return f"http://{page_host(root)}:{port}{LINK}"
