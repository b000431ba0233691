"""Carrying records: what the file holds, what is refused of it, and what to do where both sides continued."""

from __future__ import annotations

import json
from random import Random

import pytest

from adjourn.errors import AdjournError, ConflictError, IntegrityError, InvalidError, NotFoundError
from adjourn.knowledge.model.documents import Tree
from adjourn.knowledge.model.record import CRAuthor
from adjourn.knowledge.records.store import RecordTrees
from adjourn.knowledge.records.transfer import Fork, export_record, import_record
from adjourn.log.canonical_json import canonical
from adjourn.log.signing import public_key
from adjourn.store.memory import MemoryStore
from adjourn.tasks.work_index import ALL, INDEXED

AGENT = CRAuthor(id="agent-1", type="agent")
ANN = CRAuthor(id="ann", type="human")
KEY = bytes(range(32))
TRUSTED = [public_key(KEY)]


def tagged(store: RecordTrees, tag: str) -> Tree:
    return store.update("line", {"metadata": {"tags": [tag], "priority": "low"}}, AGENT)


@pytest.fixture
def here() -> RecordTrees:
    store = RecordTrees(MemoryStore())
    store.create({"task": {"id": "t1", "goal": "g"}}, author=AGENT, cr_id="line")
    tagged(store, "one")
    return store


@pytest.fixture
def there() -> RecordTrees:
    return RecordTrees(MemoryStore())


def lines(store: RecordTrees, name: str = "line") -> list[bytes]:
    return list(export_record(store, name, KEY))


def test_it_is_the_same_record_there(here: RecordTrees, there: RecordTrees) -> None:
    """Byte for byte, and importing it again adds nothing; what is newer is added."""
    first = import_record(there, lines(here), TRUSTED)
    assert (first.added, first.record) == (2, here.resolve("line"))
    assert list(there.versions.entries("line")) == list(here.versions.entries("line"))
    assert import_record(there, lines(here), TRUSTED).added == 0
    tagged(here, "two")
    assert import_record(there, lines(here), TRUSTED).added == 1
    assert import_record(here, lines(there), TRUSTED).added == 0
    assert there.verify_chain("line").valid
    assert tagged(there, "three")["sequence"] == 3


def test_an_imported_record_is_found_by_its_task(here: RecordTrees, there: RecordTrees) -> None:
    """Also by the index of records, which the import writes for one that has not the id of its task."""
    there.store.swap(INDEXED, ALL, expect=None)
    imported = import_record(there, lines(here), TRUSTED).record
    assert RecordTrees(there.store).of_task("t1") == imported


def test_an_older_file_changes_nothing(here: RecordTrees, there: RecordTrees) -> None:
    """Importing a file older than the local record changes nothing."""
    old = lines(here)
    newer = tagged(here, "two")
    assert import_record(here, old, TRUSTED).added == 0
    assert here.get("line") == newer


def test_each_line_is_a_version_and_the_last_the_signed_head(here: RecordTrees) -> None:
    """A fork's file begins with the line that it came from."""
    fork = here.fork(here.get_history("line")[0]["contentHash"], {"checkpointId": "c1"}, ANN, cr_id="fork")
    told = [json.loads(line) for line in lines(here, "fork")]
    assert [(one["id"], one["sequence"]) for one in told] == [("line", 0), ("fork", 1), ("fork", 1)]
    assert told[-1]["contentHash"] == fork["contentHash"]


def test_any_changed_byte_of_the_file_is_refused(here: RecordTrees) -> None:
    """Of a version or of the signed head, where the signer is trusted; and nothing of it is taken in."""
    random = Random(7)
    whole = b"".join(lines(here))
    for _ in range(300):
        at = random.randrange(len(whole) - 1)
        changed = whole[:at] + bytes([whole[at] ^ random.randrange(1, 256)]) + whole[at + 1 :]
        there = RecordTrees(MemoryStore())
        try:
            import_record(there, changed.splitlines(keepends=True), TRUSTED)
        except AdjournError:
            assert there.ids() == []
            continue
        # a byte of white space, or one that JSON writes in another way
        assert there.resolve("line") == here.resolve("line"), (at, whole[at], changed[at])


def test_a_stranger_is_told_and_a_forged_signature_refused(here: RecordTrees, there: RecordTrees) -> None:
    """Whoever imports vouches for a signer that is not known; a known one's signature must hold."""
    assert import_record(there, lines(here), []).signer.startswith("ed25519:")
    *versions, last = lines(here)
    signed = json.loads(last)
    signed["signature"] = json.loads(list(export_record(here, "line", bytes(32)))[-1])["signature"]
    with pytest.raises(IntegrityError, match="did not sign it"):
        import_record(RecordTrees(MemoryStore()), [*versions, canonical(signed)], TRUSTED)


def test_what_is_no_such_file(here: RecordTrees, there: RecordTrees) -> None:
    """A file without a head, with extra data or without JSON is refused."""
    whole = lines(here)
    broken = {
        "not the signed head": whole[:-1],
        "follows the signed head": [*whole, whole[0]],
        "not JSON": [b"{", *whole],
        "is not the signed head": [whole[0], whole[-1]],
    }
    for message, given in broken.items():
        with pytest.raises(InvalidError, match=message):
            import_record(there, given, TRUSTED)
        assert there.ids() == []
    with pytest.raises(InvalidError):
        import_record(there, [], TRUSTED)


def test_a_fork_needs_what_it_came_from(here: RecordTrees, there: RecordTrees) -> None:
    """Its lines alone are refused, with what to import first; so is a line without its beginning."""
    with pytest.raises(NotFoundError, match="import that record first"):
        import_record(there, lines(here)[1:], TRUSTED)
    here.fork(here.resolve("line")["contentHash"], {"checkpointId": "c1"}, ANN, cr_id="fork")
    alone = [line for line in lines(here, "fork") if b'"fork"' in line]
    with pytest.raises(NotFoundError, match="import that record first"):
        import_record(there, alone, TRUSTED)


def test_a_file_is_taken_in_whole_or_not_at_all(here: RecordTrees, there: RecordTrees) -> None:
    """A version of the fork that does not hold keeps out the line before it, too."""
    fork = here.fork(here.resolve("line")["contentHash"], {"checkpointId": "c1"}, ANN, cr_id="fork")
    changed = [line.replace(b'"c1"', b'"c2"') for line in lines(here, fork["id"])]
    with pytest.raises(IntegrityError, match="hash-mismatch"):
        import_record(there, changed, TRUSTED)
    assert there.ids() == []


def test_where_both_went_on(here: RecordTrees, there: RecordTrees) -> None:
    """A conflict, with the remedy: what the other says becomes a fork here, and merging has the true common ancestor."""
    import_record(there, lines(here), TRUSTED)
    base = tagged_task = here.resolve("line")
    tagged(here, "ours")
    theirs = there.update("line", {"task": {**tagged_task["task"], "goal": "theirs"}}, ANN)
    with pytest.raises(ConflictError, match="--as"):
        import_record(here, lines(there), TRUSTED)
    carried = import_record(here, lines(there), TRUSTED, Fork("theirs", ANN, 5))
    assert (carried.record["id"], carried.record["task"]) == ("theirs", theirs["task"])
    result = here.merge("line", "theirs", "manual", author=ANN)
    assert result.base_hash == base["contentHash"]
    merged = here.resolve("line")
    assert (merged["task"]["goal"], merged["metadata"]["tags"]) == ("theirs", ["ours"])
    assert import_record(there, lines(here), TRUSTED, Fork("back", ANN, 6)).record["task"]["goal"] == "theirs"
