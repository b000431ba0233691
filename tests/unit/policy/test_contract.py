"""The contract of a session: both texts as they were read, refused when broken, and never wider than the policy."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from adjourn.aex.permissions import from_text
from adjourn.errors import IntegrityError
from adjourn.host import keys
from adjourn.log.canonical_json import digest
from adjourn.policy.contract import BrokenContractError, Contract, for_task, read_contract
from adjourn.store.memory import MemoryStore
from support.cases import for_each

POLICY = 'policy work v0\ngoal "do it"\nuse file.read\nuse file.write\ndeny network.*\nbudget calls=20\n'
TASK = 'task look v0\ngoal "look"\nuse file.read\nbudget calls=5\nreturn 1\n'
WIDE = 'task wide v0\ngoal "all of it"\nuse *, file.read\nreturn 1\n'
BROKEN = "task look v0\nuse (\nfrobnicate\n"

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("**/*.aex"))
POLICIES = [
    POLICY,
    (
        'policy many v1\n\ngoal "Each kind of rule."\n\nuse file.read:src/**, git.*\nuse shell.exec where command matches "git *"\ndeny network.*\n'
        "limit git.push 3 per hour\nonce mail.send by id\ncheckpoint before git.push\nbudget calls=9\nbudget minutes=1.5\nbudget calls=100 per day\n"
        "\nfor user:ann\n  use issues.read\nconfirm before mail.send by human\n"
    ),
    *(path.read_text() for path in EXAMPLES if "\npolicy " in f"\n{path.read_text()}"),
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    (root / ".aex").mkdir(parents=True)
    (root / ".aex" / "policy.aex").write_text(POLICY)
    return root


def allowed(contract: Contract) -> list[str]:
    return [rule.pattern for rule in contract.policy.allow]


def codes(error: BrokenContractError) -> list[tuple[str, str]]:
    return [(finding.code, finding.source) for finding in error.findings]


def test_the_policy_is_found(root: Path) -> None:
    """Its text, its place in the workspace, what it permits; there is no contract."""
    found = read_contract(str(root))
    assert (found.policy_text, found.policy_source) == (POLICY, ".aex/policy.aex")
    assert (found.contract_text, found.contract_source) == ("", "")
    assert allowed(found) == ["file.read", "file.write"]
    assert (found.policy.budget, found.findings) == (20, ())


def test_the_second_place(root: Path) -> None:
    """aex.policy.aex counts where there is no .aex/policy.aex."""
    (root / "aex.policy.aex").write_text(POLICY.replace("20", "3"))
    assert read_contract(str(root)).policy.budget == 20
    (root / ".aex" / "policy.aex").unlink()
    assert read_contract(str(root)).policy_source == "aex.policy.aex"


def test_a_contract_narrows(root: Path) -> None:
    """What both permit, the smaller budget, the contract's goal."""
    (root / "look.aex").write_text(TASK)
    found = read_contract(str(root), contract="look.aex")
    assert allowed(found) == ["file.read"]
    assert (found.policy.budget, found.policy.goal) == (5, "look")
    assert [rule.pattern for rule in found.policy.deny] == ["network.*"]
    assert (found.contract_text, found.contract_source) == (TASK, "look.aex")


def test_a_contract_widens_nothing(root: Path) -> None:
    """A pattern that the policy does not grant whole is dropped, with a warning."""
    (root / "wide.aex").write_text(WIDE)
    found = read_contract(str(root), contract="wide.aex")
    assert allowed(found) == ["file.read"]
    assert [(finding.code, finding.source, finding.severity) for finding in found.findings] == [
        ("AEX134", "wide.aex", "warning")
    ]


@pytest.mark.parametrize("spelling", ["relative", "absolute", "dotted"])
def test_paths_are_relative_to_the_workspace(root: Path, monkeypatch: pytest.MonkeyPatch, spelling: str) -> None:
    """Wherever the process stands; files are named as seen from the workspace."""
    (root / "tasks").mkdir()
    (root / "tasks" / "look.aex").write_text(TASK)
    (root / "own.aex").write_text(POLICY)
    monkeypatch.chdir("/")
    where = {"relative": "", "absolute": f"{root}/", "dotted": "./"}[spelling]
    found = read_contract(str(root), policy=f"{where}own.aex", contract=f"{where}tasks/look.aex")
    assert os.path.normpath(found.policy_source) == "own.aex"
    assert os.path.normpath(found.contract_source) == "tasks/look.aex"
    assert allowed(found) == ["file.read"]


def test_a_policy_elsewhere_is_named_by_its_path(root: Path, tmp_path: Path) -> None:
    """A person may keep it outside the workspace."""
    (tmp_path / "common.aex").write_text(POLICY)
    for path in (str(tmp_path / "common.aex"), "../common.aex"):
        assert read_contract(str(root), policy=path).policy_source == path


@pytest.mark.parametrize("contract", ["", TASK, TASK.replace("use file.read", "use file.read, file.read"), WIDE])
def test_without_a_policy_nothing_starts(root: Path, contract: str) -> None:
    """Nothing starts without a policy, whatever the contract is: a contract is no policy."""
    (root / ".aex" / "policy.aex").unlink()
    (root / "task.aex").write_text(contract)
    with pytest.raises(BrokenContractError) as refusal:
        read_contract(str(root), contract="task.aex" if contract else "")
    assert ("AEX135", "") in codes(refusal.value)
    missing = next(finding for finding in refusal.value.findings if finding.code == "AEX135")
    assert "adjourn init" in missing.help


def test_every_finding_of_both_is_told(root: Path) -> None:
    """A broken policy and a broken contract are refused together, with the texts to show where."""
    (root / ".aex" / "policy.aex").write_text(POLICY + "frobnicate\n")
    (root / "broken.aex").write_text(BROKEN)
    with pytest.raises(BrokenContractError, match=r"6 errors in the policy or contract") as refusal:
        read_contract(str(root), contract="broken.aex")
    sources = [source for _, source in codes(refusal.value)]
    assert ".aex/policy.aex" in sources
    assert sources.count("broken.aex") >= 2
    assert refusal.value.texts.keys() == {".aex/policy.aex", "broken.aex"}
    assert "adjourn policy check" in refusal.value.remedy


@pytest.mark.parametrize("which", ["policy", "contract"])
@pytest.mark.parametrize("what", ["missing", "folder", "pipe", "bytes"])
def test_what_cannot_be_read_is_refused(root: Path, which: str, what: str) -> None:
    """A file that was named must be there, be a file, and be text."""
    path = root / "odd.aex"
    if what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    elif what == "bytes":
        path.write_bytes(b"task \xff v0\n")
    with pytest.raises(BrokenContractError) as refusal:
        read_contract(str(root), **{which: "odd.aex"})
    assert [source for _, source in codes(refusal.value)] == ["odd.aex"]


def test_an_empty_policy_permits_nothing(root: Path) -> None:
    """It is refused, or it permits nothing; it is never as if there were none."""
    (root / ".aex" / "policy.aex").write_text("")
    with pytest.raises(BrokenContractError):
        read_contract(str(root))


# --- a resumed task's contract


def test_a_task_without_a_contract_changes_nothing(root: Path) -> None:
    """A task without a contract, or with this session's own, leaves the permissions as they are."""
    (root / "look.aex").write_text(TASK)
    base = read_contract(str(root), contract="look.aex")
    store = MemoryStore()
    assert for_task(base, store, "") is base
    assert for_task(base, store, digest(TASK.encode())) is base


def test_a_tasks_contract_narrows_on_top(root: Path) -> None:
    """It is merged with the policy and the contract that this session has."""
    (root / "look.aex").write_text(TASK)
    store = MemoryStore()
    base = read_contract(str(root))
    narrowed = for_task(base, store, store.put_blob(TASK.encode()))
    assert allowed(narrowed) == ["file.read"]
    assert (narrowed.policy.budget, narrowed.policy_text) == (5, POLICY)
    assert str(narrowed.policy.budget_rule).endswith(f"(contract {digest(TASK.encode())[:12]}:4)")
    other = TASK.replace("file.read", "file.write").replace("calls=5", "calls=9")
    both = for_task(read_contract(str(root), contract="look.aex"), store, store.put_blob(other.encode()))
    assert (allowed(both), both.policy.budget) == ([], 5)


def test_a_tasks_contract_widens_nothing(root: Path) -> None:
    """A task's contract never widens the permissions, however wide it is."""
    store = MemoryStore()
    assert allowed(for_task(read_contract(str(root)), store, store.put_blob(WIDE.encode()))) == ["file.read"]


def test_a_tasks_contract_must_be_known(root: Path) -> None:
    """Without its text the task cannot be worked on, and it says which text."""
    lost = digest(TASK.encode())
    with pytest.raises(IntegrityError, match=f"the contract {lost[:12]} .* is not in the store"):
        for_task(read_contract(str(root)), MemoryStore(), lost)


@pytest.mark.parametrize("text", [BROKEN.encode(), b"\xff\xfe"])
def test_a_tasks_contract_must_be_sound(root: Path, text: bytes) -> None:
    """An error in it permits nothing, and all findings are shown."""
    store = MemoryStore()
    with pytest.raises(BrokenContractError) as refusal:
        for_task(read_contract(str(root)), store, store.put_blob(text))
    assert refusal.value.findings
    assert list(refusal.value.texts) == [f"contract {digest(text)[:12]}"]


# --- policies that were read before


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[Path]]:
    """The files that keep policies, for a user who has a secret."""
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    keys.secret()
    return lambda: sorted((tmp_path / "config" / "policies").glob("*"))


@for_each("text", POLICIES)
def test_a_policy_is_kept_as_it_was_read(kept: Callable[[], list[Path]], root: Path, text: str) -> None:
    """Read again it is the same to the last number, and the parser reads no text twice."""
    (root / ".aex" / "policy.aex").write_text(text)
    first = read_contract(str(root))
    (file,) = kept()
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr("adjourn.aex.permissions.read_layer")
        assert repr(read_contract(str(root))) == repr(first)
    assert file.stat().st_mode & 0o777 == 0o600


@for_each(
    "change",
    [
        lambda file, policy: policy.write_text(POLICY.replace("deny network.*", "use network.*")),
        lambda file, policy: file.write_bytes(file.read_bytes().replace(b"network.*", b"nothing.*")),
        lambda file, policy: file.write_bytes(b""),
        lambda file, policy: file.write_bytes(b"x" * 2_000_000),
        lambda file, policy: (file.unlink(), file.symlink_to("/dev/zero")),
        lambda file, policy: Path(keys.folder(), "secret").unlink(),
    ],
    ids=["another text", "another policy", "empty", "too large", "a device", "another secret"],
)
def test_a_kept_policy_counts_only_for_its_text_and_its_seal(
    kept: Callable[[], list[Path]], root: Path, change: Callable[[Path, Path], object]
) -> None:
    """What somebody wrote there, or what was kept of another text, is as good as none: the text is read."""
    policy = root / ".aex" / "policy.aex"
    read_contract(str(root))
    change(kept()[0], policy)
    keys.secret()
    stated = from_text(policy.read_text(), ".aex/policy.aex")[0]
    assert repr(read_contract(str(root)).policy) == repr(stated)


def test_a_kept_policy_is_read_again_by_another_parser(
    kept: Callable[[], list[Path]], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version of adjourn believes no other version's reading of a policy."""
    read_contract(str(root))
    before = kept()[0].read_bytes()
    monkeypatch.setattr("adjourn.policy.contract.__version__", "0.0.0")
    read_contract(str(root))
    assert kept()[0].read_bytes() != before


def test_no_policy_with_a_finding_is_kept(kept: Callable[[], list[Path]], root: Path) -> None:
    """A warning is shown each time, so its text is read each time."""
    (root / ".aex" / "policy.aex").write_text(POLICY + "use file.read\n")
    assert read_contract(str(root)).findings
    assert not kept()


@for_each(
    ("name", "rule"),
    [("policy.aex", "use file.seek where position > 99999999999999999999999"), ("\udcff.aex", "use file.seek")],
    ids=["a long number", "a name that is not UTF-8"],
)
def test_a_policy_that_has_no_kept_form_counts(
    kept: Callable[[], list[Path]], root: Path, name: str, rule: str
) -> None:
    """What cannot be kept keeps nobody from working under it."""
    text = f'policy odd v1\ngoal "do it"\n{rule}\n'
    (root / name).write_text(text)
    assert repr(read_contract(str(root), name).policy) == repr(from_text(text, name)[0])
    assert not kept()


def test_the_seal_says_where_a_text_ends(kept: Callable[[], list[Path]], root: Path) -> None:
    """The end of a text that was read, as what a shorter one means, is not sealed: it could state any policy."""
    policy, shorter = root / ".aex" / "policy.aex", f"{POLICY}# "
    policy.write_text(f"{shorter}\0")
    read_contract(str(root))
    room = 0x8041 - 1 - len(kept()[0].read_bytes().partition(b":")[2])
    members = b"\xa0\xc2" * 32_960 + b"\xa7observe\xc3"
    other = b"\xde\x80\xc2" + members + b"\xa0\xda\x80\x41" + b"x" * room  # MessagePack, and UTF-8
    policy.write_bytes(f"{shorter}\0".encode() + other)
    read_contract(str(root))
    seal, _, value = kept()[0].read_bytes().partition(b":")
    kept()[0].write_bytes(seal + b":" + other + b"\0" + value)
    policy.write_text(shorter)
    assert not read_contract(str(root)).policy.observe


def test_who_has_no_secret_keeps_nothing(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading a policy makes no keys, and writes nothing."""
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    read_contract(str(root))
    assert not (tmp_path / "config").exists()
