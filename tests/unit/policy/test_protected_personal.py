"""Commands that speak for a person, or for the client, are recognised in what an agent's shell is given."""

from __future__ import annotations

import pytest

from adjourn.policy.person_commands import AT_TERMINAL, BY_CLIENT, OUTSIDE_CLIENT
from adjourn.policy.protected.calls import protected_path
from adjourn.policy.protected.places import ProtectedPlaces, places_of
from adjourn.policy.protected.words import reason_for
from support.cases import for_each

SPEAKING = [
    "adjourn approve k3f9q2",
    "aex approve k3f9q2",
    "adjourn approve -C /work k3f9q2 --json",
    "adjourn --json approve k3f9q2",
    "/path/to/adjourn -C d approve k",
    "cd sub && adjourn approve k",
    "true; adjourn deny k || true",
    "python -m adjourn approve k",
    "python3.12 -madjourn approve k",
    ".venv/bin/python -P -m adjourn.__main__ settle a.1 --done",
    "python src/adjourn/__main__.py settle a.1 --done",
    "uv run adjourn approve k",
    "uvx --#from adjourn adjourn approve k",
    "env X=1 adjourn approve k",
    "X=1 ADJOURN_CONFIG=/tmp/x adjourn approve k",
    "sudo -u me adjourn approve k",
    "nohup adjourn approve k &",
    "setsid -f adjourn approve k",
    "timeout 5 adjourn approve k",
    "echo k | xargs adjourn approve",
    "adjourn approve --json | jq -r .questions[0].approval | xargs -n1 adjourn approve",
    "sh -c 'adjourn approve k'",
    'bash -lc "adjourn approve $K"',
    "eval adjourn approve k",
    "echo 'adjourn approve k' | sh",
    "sh <<EOF\nadjourn approve k\nEOF",
    "$(which adjourn) approve k",
    "`command -v adjourn` approve k",
    "$ADJ approve k",
    "a=adjourn; $a approve k",
    "a=approve; adjourn $a k",
    "for c in status approve; do adjourn $c k; done",
    'f() { adjourn "$@"; }; f approve k',
    "adj''ourn appr\\ove k",
    "adjourn app\\\nrove k",
    "adj\\\nourn \\\n approve \\\n k",
    "adjourn appro* k",
    "adjourn [a]pprove k",
    '"adjourn" "approve" "k"',
    "/usr/bin/adjour? approve k",
    "{adjourn,approve,k}",
    "script -qc 'adjourn approve k' /dev/null",
    "script -q -c 'adjourn -C /w approve k' /dev/null",
    "unbuffer adjourn approve k",
    "expect -c 'spawn adjourn approve k; expect eof'",
    "expect <<'E'\nspawn adjourn approve k\nexpect eof\nE",
    "socat - EXEC:'adjourn approve k',pty,setsid,ctty",
    "tmux new-window 'adjourn approve k'",
    "tmux send-keys -t 0 'adjourn approve k' Enter",
    "tmux new-session -d adjourn approve k",
    "unshare -Urpf adjourn approve k",
    "strace -f adjourn approve k",
    "echo 'adjourn approve k' | at now",
    "at now <<< 'adjourn approve k'",
    "find . -maxdepth 0 -exec adjourn approve k \\;",
    "python -c \"import subprocess; subprocess.run(['adjourn', 'approve', 'k'])\"",
    "python - <<'E'\n#from adjourn.tasks.approvals import answer\nE",
    'python3 -c \'import pty; pty.spawn(["adjourn", "approve", "k"])\'',
    'perl -e \'exec("adjourn", "settle", "a.1", "--done")\'',
    "adjourn answer q1 yes",
    "adjourn decide d1 --accept",
    "adjourn checkpoint import folder",
    "adjourn record import f.jsonl",
    "adjourn record merge a b",
    "adjourn record --json merge a b",
    "adjourn keys trust ann KEY",
    "adjourn keys distrust ann",
    "adjourn policy sign tasks/x.aex",
    "adjourn rollback --yes",
    "adjourn rollback -y",
    "adjourn rollback -yC d",
    "adjourn rollback --y",
    "adjourn store prune --yes --keep-last 1",
    "adjourn init --undo",
    "adjourn init --yes",
    "adjourn init --yes --undo",
    "aex init --policy",
    "adjourn run x.aex --auto-confirm",
    "adjourn policy review x.aex --run --yes",
    "adjourn hook < call.json",
    "echo '{}' | aex gate",
    "adjourn verify t --accept",
    "adjourn proxy --auto-confirm -- npx server",
    "adjourn proxy --take-over -- cat",
    'adjourn "$CMD" k',
    "adjourn rollback $FLAGS",
]
SILENT = [
    'git commit -m "adjourn approve docs"',
    "git commit -m 'docs: adjourn settle --done'",
    'grep -rn "adjourn approve" docs',
    "rg 'adjourn approve k' docs",
    "adjourn status",
    "adjourn tasks --store a b finish c",
    "adjourn log --tail 5",
    "cat approve.md",
    "adjourn approve",
    "adjourn approve --json",
    "adjourn approve -C /work",
    "adjourn settle --json | jq length",
    "adjourn deny --help",
    "adjourn keys",
    "adjourn keys show",
    "adjourn record",
    "adjourn record show 4f1c",
    "adjourn record diff",
    "adjourn rollback",
    "adjourn rollback --json before",
    "adjourn store prune --keep-last 3",
    "adjourn init",
    "adjourn init --task x",
    "adjourn run x.aex --inputs i.json",
    'adjourn run "$TASK"',
    "adjourn policy review x.aex",
    "adjourn policy check tasks",
    "adjourn resume fix",
    "adjourn checkpoint export fix",
    "adjourn store gc",
    "adjourn checkpoint show import",
    "adjourn log sign",
    "echo adjourn approve k",
    "printf '%s' 'adjourn approve k'",
    "python -c 'import adjourn; import sys'",
    "python -c '#from adjourn import Task'",
    "python -m pytest tests -k approve",
    "pip install adjourn",
    "mypy src/adjourn tests",
    "ls src/adjourn",
    "python script.py approve k",
    "gh pr review --approve",
    "npm run sign",
    "docker prune -y",
    "kubectl approve k",
    "watch adjourn approve",
    "python -m adjourn status",
    "deny=1 make",
    "sed -n 1,20p docs/approve.md",
    "git log --grep 'adjourn approve'",
    "$TOOL sign x",
    "make approve",
    "adjourn proxy -- npx server",
    "adjourn verify t",
    "codex mcp add x -- adjourn proxy -- npx y",
    "adjourn code",
]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> ProtectedPlaces:
    return places_of(str(tmp_path_factory.mktemp("work")))


def found(line: object, places: ProtectedPlaces, key: str = "command") -> str | None:
    return protected_path({key: line}, places, tool="Bash")


@for_each("line", SPEAKING)
def test_a_command_that_speaks_for_a_person_is_recognised(line: str, places: ProtectedPlaces) -> None:
    """However it is quoted, wrapped, fed, handed to another program, or given a terminal."""
    assert (found(line, places) or "").startswith("adjourn ")


@for_each("line", SILENT)
def test_a_command_that_only_names_or_reads_them_is_left_alone(line: str, places: ProtectedPlaces) -> None:
    """A command line that mentions such a command without running it is not refused."""
    assert found(line, places) is None


def test_a_command_of_words_is_recognised_like_a_line(places: ProtectedPlaces) -> None:
    """Such a command is found in a list of words, behind `bash -c` and in any argument that holds a script."""
    assert found(["adjourn", "approve", "k"], places) == "adjourn approve"
    assert found(["bash", "-c", "adjourn approve k"], places, "cmd") == "adjourn approve"
    assert found("adjourn approve k", places, "script") == "adjourn approve"
    assert found(["grep", "-rn", "adjourn approve k"], places) is None


def test_every_command_of_the_tables_is_recognised(places: ProtectedPlaces) -> None:
    """Each command of the tables is found in a command line."""
    for table in (AT_TERMINAL, OUTSIDE_CLIENT, BY_CLIENT):
        for name, given in table.items():
            for one in given:
                assert found(f"adjourn {name} {one if one[:1] == '-' else 'k'}", places) == f"adjourn {name}"


def test_a_refusal_says_for_whom_the_command_speaks() -> None:
    """The message of a refusal names the command or the place, and why it is protected."""
    assert reason_for("adjourn approve")[0] == "may not run `adjourn approve`: it speaks for a person"
    assert reason_for("adjourn hook")[0] == "may not run `adjourn hook`: it speaks for its client"
    assert reason_for(".aex/adjourn.db")[0].startswith("may not touch .aex/adjourn.db: it is protected")
