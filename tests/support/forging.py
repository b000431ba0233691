"""Changed and forged checkpoint folders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from adjourn.checkpoints import folder
from adjourn.log import kinds
from adjourn.log.canonical_json import canonical, digest
from adjourn.log.event import Event, decode, encode
from adjourn.log.signing import SignedHead, encode_bytes, fingerprint, public_key, sign

FILES = ("checkpoint.json", "audit.jsonl")
Edit = Callable[[dict[str, Any]], object]


def put(*path: str, value: object) -> Edit:
    def edit(file: dict[str, Any]) -> None:
        for step in path[:-1]:
            file = file[step]
        file[path[-1]] = value

    return edit


def drop(*path: str) -> Edit:
    def edit(file: dict[str, Any]) -> None:
        for step in path[:-1]:
            file = file[step]
        del file[path[-1]]

    return edit


EDITS: list[tuple[str, Edit, str]] = [
    ("refund", put("callsUsed", value=0), "callsUsed differs from what was signed: 0, but the history says 2"),
    ("negative", put("callsUsed", value=-5), "callsUsed differs from what was signed: -5"),
    ("huge", put("callsUsed", value=10**12), "callsUsed differs from what was signed"),
    ("huger", put("callsUsed", value=10**40), "callsUsed"),
    ("fraction", put("callsUsed", value=2.0), r"Expected `int`, got `float` - at `\$.callsUsed`"),
    ("text for number", put("callsUsed", value="2"), r"at `\$.callsUsed`"),
    ("true for number", put("callsUsed", value=True), r"at `\$.callsUsed`"),
    ("null for number", put("callsUsed", value=None), r"at `\$.callsUsed`"),
    ("no callsUsed", drop("callsUsed"), "missing required field `callsUsed`"),
    ("more budget", put("budget", value=10**6), "budget differs from what was signed: 1000000"),
    ("negative budget", put("budget", value=-1), "budget differs from what was signed"),
    ("no budget", drop("budget"), "budget differs from what was signed"),
    ("text for budget", put("budget", value="20"), r"at `\$.budget`"),
    ("another name", put("name", value="other"), "name differs from what was signed"),
    ("no name", drop("name"), "`name`"),
    ("number for name", put("name", value=7), r"at `\$.name`"),
    ("another description", put("description", value="tests pass"), "description differs from what was signed"),
    ("no description", drop("description"), "description differs from what was signed"),
    ("list for description", put("description", value=["x"]), r"at `\$.description`"),
    ("another time", put("timestamp", value="2027-01-01T00:00:00.000Z"), "timestamp differs from what was signed"),
    ("no time", drop("timestamp"), "`timestamp`"),
    ("history dropped", put("toolHistory", value=[]), "toolHistory differs from what was signed"),
    ("no history", drop("toolHistory"), "`toolHistory`"),
    ("object for history", put("toolHistory", value={}), r"at `\$.toolHistory`"),
    ("history cut", lambda file: file["toolHistory"].pop(), "toolHistory differs from what was signed"),
    ("history whitewashed", lambda file: file["toolHistory"][2].pop("reason"), "toolHistory differs from what"),
    ("history embellished", lambda file: file["toolHistory"][0].update(note="ok"), "toolHistory differs from what"),
    ("history reordered", lambda file: file["toolHistory"].reverse(), "toolHistory differs from what"),
    ("history omitted", put("adjourn", "historyOmitted", value=3), r"adjourn\.historyOmitted differs from what"),
    ("not ours", drop("adjourn"), "has the published fields only"),
    ("null for ours", put("adjourn", value=None), "has the published fields only"),
    ("another format", put("adjourn", "format", value="adjourn/checkpoint/2"), "has format 'adjourn/checkpoint/2'"),
    ("another task", put("adjourn", "task", value="20260502-00000000"), r"adjourn\.task does not match audit"),
    ("a path for task", put("adjourn", "task", value="../../etc"), "not a task id"),
    ("another hash", put("adjourn", "hash", value="f" * 64), r"adjourn\.hash does not match event 7"),
    ("no hash", put("adjourn", "hash", value=""), r"adjourn\.hash does not match event 7"),
    ("an earlier place", put("adjourn", "seq", value=6), r"adjourn\.hash does not match event 6"),
    ("a later place", put("adjourn", "seq", value=8), "has 8 events, expected 9"),
    ("no place", put("adjourn", "seq", value=-1), "has 8 events, expected 0"),
    ("a place far out", put("adjourn", "seq", value=10**30), "has 8 events, expected"),
    ("a document that refunds", put("adjourn", "document", "callsUsed", value=0), r"adjourn\.document differs from what"),
    ("a document with more", put("adjourn", "document", "note", value=1), r"adjourn\.document differs from what"),
    ("a document with less", drop("adjourn", "document", "tools"), r"adjourn\.document differs from what"),
    ("a document no JSON holds", put("adjourn", "document", "x", value=2**60), r"adjourn\.document differs from what"),
    ("a list for document", put("adjourn", "document", value=[]), r"at `\$.adjourn.document`"),
    ("another key", put("adjourn", "publicKey", value=encode_bytes(b"x" * 32)), "was not signed by ed25519:"),
    ("a short key", put("adjourn", "publicKey", value=encode_bytes(b"x")), r"adjourn\.publicKey is not a key"),
    ("no key", put("adjourn", "publicKey", value=""), r"adjourn\.publicKey is not a key"),
    ("a wider policy", put("adjourn", "policy", value="policy p v0\nuse *\n"), r"adjourn\.policy differs from what"),
    ("no policy", drop("adjourn", "policy"), r"adjourn\.policy differs from what"),
    ("a contract", put("adjourn", "contract", value="task t v0\nuse *\n"), r"adjourn\.contract differs from what"),
]  # fmt: skip
"""What somebody may change in checkpoint.json, and the reason for which it is refused."""


class Forger:
    """Someone with a key of their own who rewrites a folder until all of it holds together."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.private = b"f" * 32
        self.file = folder.read_published(str(place)).file
        assert self.file.adjourn is not None
        self.extra = self.file.adjourn
        self.events = [decode(line) for line in (place / FILES[1]).read_bytes().splitlines()]

    def write(self, stated: dict[str, Any], **changes: Any) -> None:
        lines: list[bytes] = []
        after = self.events[0].after
        for event in self.events[:-1]:
            after, stored = encode(msgspec.structs.replace(event, after=after))
            lines.append(stored)
        last = self._signed(after, stated, lines)
        head, stored = encode(last)
        extra = msgspec.structs.replace(
            self.extra, seq=last.seq, hash=head, document=stated, public_key=encode_bytes(public_key(self.private))
        )
        file = msgspec.structs.replace(self.file, adjourn=extra, **changes)
        (self.place / FILES[1]).write_bytes(b"".join(line + b"\n" for line in [*lines, stored]))
        (self.place / FILES[0]).write_bytes(msgspec.json.encode(file))

    def _signed(self, after: str, stated: dict[str, Any], lines: list[bytes]) -> Event:
        from adjourn.log.merkle import root  # beside its only use

        last = self.events[-1]
        data = kinds.data_of(last)
        assert isinstance(data, kinds.CheckpointCreated)
        top = root([bytes.fromhex(digest(line)) for line in lines]).hex()
        head = SignedHead(
            after=after,
            document=digest(canonical(stated)),
            name=data.name,
            root=top,
            seq=len(lines),
            task=last.task,
            timestamp=last.timestamp,
        )
        signed = msgspec.structs.replace(
            data,
            document=head.document,
            key=fingerprint(public_key(self.private)),
            root=top,
            signature=sign(self.private, head),
        )
        return msgspec.structs.replace(last, after=after, data=msgspec.Raw(msgspec.json.encode(signed)), seq=len(lines))
