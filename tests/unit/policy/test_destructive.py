"""Which calls count as destructive: each rule finds its example, ordinary commands match none, and a workspace may differ."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.errors import InvalidError
from adjourn.policy.destructive import COMMANDS, DEFAULT, TOOLS, DestructiveRule, Matcher, read_settings
from support.campaign import scaled
from support.cases import for_each

MATCHER = Matcher()
REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "pages.md"


def label(command: str) -> str:
    return MATCHER.of_arguments({"command": command})


@pytest.fixture
def here(tmp_path: Path) -> Matcher:
    """The rules in a workspace that has files."""
    (tmp_path / "src").mkdir()
    for name in ("settings.json", "notes.txt", "src/a.py"):
        (tmp_path / name).write_text("x")
    (tmp_path / "empty.txt").write_text("")
    return Matcher(root=str(tmp_path))


@for_each("rule", COMMANDS, ids=[rule.label for rule in COMMANDS])
def test_each_rule_finds_its_example(rule: DestructiveRule, here: Matcher) -> None:
    """Each rule of the documented table matches its example."""
    assert here.of_arguments({"command": rule.example}) == rule.label
    assert here.of_arguments({"command": f"cd x && sudo {rule.example} | tee log"}) == rule.label
    assert here.of_arguments({"command": ["bash", "-lc", rule.example]}) == rule.label


@for_each(
    ("command", "expected"),
    [
        ("kubectl --context prod delete pod x", "kubectl"),
        ("kubectl get pods", ""),
        ("terraform plan", ""),
        ("terraform -chdir=x apply", "terraform"),
        ("rm -fr x", "rm"),
        ("rm --force --recursive x", "rm"),
        ("rm x.txt", "rm"),
        ("git push origin main", ""),
        ("git push origin +main", "git-push"),
        ("git push --force-with-lease", "git-push"),
        ("git push -f", "git-push"),
        ("git -C x reset --hard", "git-reset"),
        ("git reset HEAD x", ""),
        ("git checkout main", ""),
        ("git checkout -- src", "git-checkout"),
        ("psql -c 'drop   table t'", "drop"),
        ("echo dropped", ""),
        ("cat deploy.yaml", ""),
        ("cat deployment.yaml", ""),
        ("python manage.py migrate", "migration"),
        ("ls -la && git status", ""),
        ("pytest -q tests", ""),
        ("npm run build", ""),
        ("", ""),
    ],
)
def test_commands(command: str, expected: str) -> None:
    """What destroys, and what only looks like it."""
    assert label(command) == expected


COUNTS = """
rm notes.txt | rm
rm -- notes.txt | rm
/bin/rm notes.txt | rm
sudo -u ann rm notes.txt | rm
env A=1 rm notes.txt | rm
git ls-files -o | xargs rm | rm
find . -name '*.pyc' -print0 | xargs -0 -n 1 rm -f | rm
ls | while read f; do rm "$f"; done | rm
if true; then rm notes.txt; fi | rm
bash -c 'rm notes.txt' | rm
ssh host rm notes.txt | rm
ssh host 'cd /srv; rm notes.txt' | rm
echo "$(rm notes.txt)" | rm
Remove-Item notes.txt | rm
unlink notes.txt | rm
find . -type f -delete | find-delete
find . -exec rm {} + | find-delete
find . -execdir /bin/rm {} \\; | find-delete
rsync -a --delete a/ b/ | rsync-delete
rsync -a --del a/ b/ | rsync-delete
rsync --delete-after -a a/ b/ | rsync-delete
curl -X DELETE https://a.example/1 | http-delete
curl -XDELETE https://a.example/1 | http-delete
curl -sX DELETE https://a.example/1 | http-delete
curl --request=DELETE https://a.example/1 | http-delete
curl -s --request DELETE https://a.example/1 | http-delete
http DELETE https://a.example/1 | http-delete
echo x > settings.json | redirect
> settings.json | redirect
: >| settings.json | redirect
make &> notes.txt | redirect
cd src && echo x > a.py | redirect
cat <<EOF > settings.json | redirect
git clean -fdx | git-clean
git reset --hard | git-reset
truncate -s 0 notes.txt | truncate
shred -u notes.txt | disk
dd if=/dev/zero of=notes.txt | dd
psql -c 'DROP TABLE users' | drop
mysql -e "DELETE FROM users WHERE id = 1" | delete-from
echo "TRUNCATE sessions" | psql | truncate
printf 'drop table a;' | sqlite3 a.db | drop
"""
COUNTS_NOT = """
echo "rm -rf /"
echo 'DROP TABLE users'
printf '%s' "git reset --hard"
grep -rn "drop table" src
rg 'rm -rf' .
git commit -m "rm old files; drop table users"
git log --grep="git clean -fd"
man rm
which rm
rm --help
rsync --version
git clean -n -d
git clean -ndx
git push --dry-run --force
rsync -an --delete a/ b/
kubectl delete pod x --dry-run=client
sort < notes.txt
make 2>/dev/null
make > /dev/null 2>&1
echo x >> settings.json
echo x > new.txt
echo x > empty.txt
tee -a settings.json
dd if=notes.txt of=/dev/null
curl https://a.example/delete
curl -X POST https://a.example/items -d 'delete=1'
rsync -a a/ b/
find . -name rm
find . -exec grep -l rm {} +
git rm --cached notes.txt
git reset HEAD notes.txt
git stash
ls rm
npm run rm-cache
python manage.py check
"""


def lines(table: str) -> list[str]:
    return table.strip().splitlines()


@for_each("line", lines(COUNTS))
def test_what_counts(here: Matcher, line: str) -> None:
    """A command that deletes or overwrites something counts, however it is run."""
    command, _, expected = line.rpartition(" | ")
    assert here.of_arguments({"command": command}) == expected


@for_each("command", lines(COUNTS_NOT))
def test_what_does_not_count(here: Matcher, command: str) -> None:
    """What is printed, searched for, explained, rehearsed, read or appended to is no deletion."""
    assert here.of_arguments({"command": command}) == ""


def test_the_documented_tables_are_what_the_code_does(here: Matcher) -> None:
    """Every row of the reference's tables of what counts and what does not is as a reader finds it."""
    text = REFERENCE.read_text()
    begin = text.index("### What counts, and what does not")
    rows = re.findall(r"^\| `(.+?)` \| (.+?) \|", text[begin : text.index("###", begin + 5)], re.MULTILINE)
    assert len(rows) > 20
    for command, told in rows:
        expected = told.strip("`") if told.startswith("`") else ""
        assert here.of_arguments({"command": command.replace("\\|", "|")}) == expected, command


ORDINARY = """
ls -la
git status --short
git diff HEAD~1 -- src/a.py
git add -A && git commit -q -m "Remove the old parser; delete from the docs what it said"
git log --oneline -20 | head
git show HEAD:src/a.py > /tmp/a-of-before.py
pytest -q tests/unit -k "delete or remove" 2>&1 | tail -5
python -m pytest -x --lf > /dev/null
python script.py --output build/out.json
pip install -e '.[dev]'
npm ci && npm test -- --watch=false
npm run build 2>&1 | tee build.log
cargo build --release
go test ./...
make lint test
ruff check --fix src
mypy --strict src
sed -n 1,200p src/a.py
sed -i 's/remove/delete/' src/a.py
cat src/a.py | wc -l
grep -rn "TRUNCATE\\|DROP TABLE" migrations
rg -n "rm -rf" scripts
find . -name '*.py' -not -path './.venv/*' | sort
curl -s https://a.example/items | jq .
curl -X POST https://a.example/items -d '{"a": 1}'
mkdir -p build && cp src/a.py build/
mv new-name.txt other.txt
tar -xzf archive.tgz -C build
docker ps -a
docker compose up -d
docker build -t web .
kubectl get pods -o wide
kubectl logs web-1
terraform plan -out=plan.bin
aws s3 ls s3://bucket
gh pr view 12
psql -c 'select * from users limit 5'
sqlite3 a.db '.schema'
jq '.version' package.json
echo "done" >> notes.txt
python - <<'EOF'\nprint("rm -rf")\nEOF
for f in src/*.py; do echo "$f"; done
test -f settings.json && echo there
export PATH="$HOME/bin:$PATH"
uv run pytest
git fetch origin && git switch main
git rebase --help
git push origin topic
chmod +x run.sh
touch new.txt
"""


def test_ordinary_commands_cost_no_checkpoint(here: Matcher) -> None:
    """None of these commands, as agents run them every day, is taken for a destructive one."""
    commands = [line.replace("\\n", "\n") for line in lines(ORDINARY)]
    assert [command for command in commands if here.of_arguments({"command": command})] == []


def test_words_that_stand_beside_a_command_belong_to_it(here: Matcher) -> None:
    """A tool may take the program and its words apart."""
    assert here.of_arguments({"command": "rm", "args": ["notes.txt"]}) == "rm"
    assert here.of_arguments({"command": "echo", "args": ["rm", "notes.txt"]}) == ""


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"sql": "TRUNCATE sessions"}, "truncate"),
        ({"query": "Delete From users where id = 1"}, "delete-from"),
        ({"query": "select * from deleted"}, ""),
        ({"Command": ["rm", "-rf", "x"]}, "rm"),
        ({"content": "rm -rf /"}, ""),
        ({"command": 7, "cmd": None}, ""),
    ],
)
def test_arguments_that_hold_what_is_run(arguments: dict[str, Any], expected: str) -> None:
    """Commands and statements, whatever the argument is called; not what is written into a file."""
    assert MATCHER.of_arguments(arguments) == expected


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        ("deploy.run", "deploy"),
        ("delete_file", "delete"),
        ("removeUser", "remove"),
        ("db-drop", "drop"),
        ("file.read", ""),
        ("deployment.list", ""),
        ("undeleted", ""),
    ],
)
def test_tools_by_their_names(tool: str, expected: str) -> None:
    """A whole word of the name counts, in any of the usual spellings."""
    assert MATCHER.of_tool(tool) == expected


@given(st.text(max_size=2000))
def test_no_command_takes_long_or_breaks_it(text: str) -> None:
    """Matching any text ends soon and raises nothing."""
    assert isinstance(label(text), str)


def test_a_long_command_is_looked_at_in_time() -> None:
    """No rule takes more than linear time."""
    for word in ("git ", "kubectl ", "rm -", "docker down ", "aws x ", "docker rmi ", "ssh h rm ", "sudo rm", "> f "):
        assert isinstance(label(word * scaled(50_000)), str)


# --- the file of a workspace


def settings(root: Path, value: object) -> Matcher:
    (root / ".aex").mkdir(exist_ok=True)
    text = value if isinstance(value, str) else json.dumps(value)
    (root / ".aex" / "discipline.json").write_text(text)
    return Matcher(read_settings(str(root)))


def test_a_workspace_without_a_file_has_the_usual_rules(tmp_path: Path) -> None:
    """A workspace without a settings file has the default rules."""
    assert read_settings(str(tmp_path)) == DEFAULT


def test_rules_are_switched_off_and_added(tmp_path: Path) -> None:
    """By label, by word, and by an RE2 expression over the lower-case command."""
    matcher = settings(tmp_path, {"off": ["rm", "apply"], "rules": [{"label": "ours", "command": r"\bfrob\s+all\b"}]})
    assert matcher.of_arguments({"cmd": "rm -rf x"}) == ""
    assert matcher.of_arguments({"cmd": "FROB all"}) == "ours"
    assert matcher.of_arguments({"cmd": "git push -f"}) == "git-push"
    assert (matcher.of_tool("apply"), matcher.of_tool("deploy")) == ("", "deploy")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("{", "discipline.json"),
        ({"of": []}, "unknown field"),
        ({"off": ["nothing"]}, "no rule is named 'nothing'"),
        ({"rules": [{"label": "x", "command": "("}]}, "not an RE2 expression"),
        ({"keepSeconds": 0}, "keepSeconds"),
        ({"keepFiles": "yes"}, "bool"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, value: object, reason: str) -> None:
    """It is said what is wrong; the caller goes by the usual rules then."""
    with pytest.raises(InvalidError, match=reason):
        settings(tmp_path, value)


def test_the_remedy_for_a_broken_file_names_its_members(tmp_path: Path) -> None:
    """Whoever has no documentation at hand can still mend it."""
    with pytest.raises(InvalidError) as refused:
        settings(tmp_path, {"keep": True})
    assert "off, rules, keepFiles, maxFileBytes, keepSeconds" in refused.value.remedy


def test_labels_are_unique() -> None:
    """A rule is switched off by one name."""
    labels = [rule.label for rule in COMMANDS]
    assert len(set(labels)) == len(labels)
    assert not TOOLS & set(labels) - {"deploy", "drop", "truncate", "publish"}
