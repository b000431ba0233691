"""However a call says it (as a command, a patch, SQL, a folder around it, from elsewhere), what is protected is not touched."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.host import folders
from adjourn.policy.protected.calls import protected_path
from adjourn.policy.protected.places import FOLDER, KEYS, SOCKET, ProtectedPlaces, places_of
from adjourn.policy.protected.shell import TooLongError, simple_commands

POLICY, STORE, CHECKPOINTS = ".aex/policy.aex", ".aex/adjourn.db", ".aex/checkpoints"


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProtectedPlaces:
    """A workspace in a home folder that has keys, with links to both."""
    home, work = tmp_path / "home", tmp_path / "home" / "work"
    for folder in (
        ".config/adjourn/keys/trusted",
        ".cache/adjourn-hook",
        "work/.aex/checkpoints/a",
        "work/src",
        "work/build",
    ):
        (home / folder).mkdir(parents=True)
    for file in (
        ".aex/policy.aex",
        ".aex/adjourn.db",
        ".aex/checkpoints/a/audit.jsonl",
        "src/a.py",
        "README.md",
    ):
        (work / file).touch()
    for key in ("secret", "default.key"):
        (home / ".config/adjourn/keys" / key).write_text("c2VjcmV0")
    (work / "rules").symlink_to(".aex")
    (work / "src" / "k").symlink_to(home / ".config" / "adjourn" / "keys")
    (work / "src" / "config").symlink_to(home / ".config" / "adjourn")
    (work / "src" / "one-key").symlink_to("k/secret")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(folders, "account", lambda: "/nobody/.config/adjourn")
    for name in ("XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "ADJOURN_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BUILD", "build")
    return places_of(os.path.realpath(work))


def filled(value: Any, places: ProtectedPlaces) -> Any:
    """A value with ROOT and HOME in its texts replaced."""
    if isinstance(value, str):
        return value.replace("ROOT", places.root).replace("HOME_", os.path.dirname(places.root))
    if isinstance(value, list):
        return [filled(item, places) for item in value]
    if isinstance(value, dict):
        return {filled(key, places): filled(item, places) for key, item in value.items()}
    return value


COMMANDS = [
    # the folder itself, and what is around it
    ("rm -rf .aex", FOLDER),
    ("rm -rf ./.aex/", FOLDER),
    ("rm -rf .a\\\nex", FOLDER),
    ("rm \\\n  -rf \\\n  .aex", FOLDER),
    ("rm -rf ROOT/.aex", FOLDER),
    ("sudo -n rm -rf .aex", FOLDER),
    ("mv .aex /tmp/x", FOLDER),
    ("chmod -R 000 .aex", FOLDER),
    ("cp evil.aex .aex/policy.aex", POLICY),
    ("cp evil/* .aex", FOLDER),
    ("ln -sfn /tmp/x .aex", FOLDER),
    ("rm -rf .", FOLDER),
    ("rm -rf ..", FOLDER),
    ("rm -rf /", FOLDER),
    ("rm -rf ROOT", FOLDER),
    ('rm -rf "$PWD"', FOLDER),
    ("rm -rf $(pwd)", FOLDER),
    ("rm -rf ~/work", FOLDER),
    ("mv ~/work ~/elsewhere", FOLDER),
    ("mv . ../elsewhere", FOLDER),
    ("rm -r src/..", FOLDER),
    ("git clean -fdx", FOLDER),
    ("git clean -xdf .", FOLDER),
    ("git -C ROOT clean --force -d", FOLDER),
    ("git stash -u", FOLDER),
    ("git rm -r .aex", FOLDER),
    ("find . -delete", FOLDER),
    ("find -delete", FOLDER),
    ("find ROOT -type f -delete", FOLDER),
    ("find . -type f -exec rm {} +", FOLDER),
    ("find . -name '*.aex' -delete", FOLDER),
    ("find . -name policy.aex -exec sh -c 'echo > $1' _ {} \\;", FOLDER),
    ("find . -type f | xargs rm -f", FOLDER),
    ("find .aex -type f -delete", FOLDER),
    ("find . -not -path './.git/*' -delete", FOLDER),
    ("find . -type f -exec sed -i s/a/b/ {} +", FOLDER),
    ("rsync -a --delete empty/ .", FOLDER),
    # from within
    ("cd .aex && rm *", STORE),
    ("cd .aex; rm -f policy.aex", POLICY),
    ("cd rules && rm policy.aex", POLICY),
    ("(cd .aex && echo 'use *' > policy.aex)", POLICY),
    ("pushd .aex\nrm adjourn.db", STORE),
    ("cd src && rm ../.aex/policy.aex", POLICY),
    ("git -C .aex checkout policy.aex", POLICY),
    # written to
    ("> .aex/policy.aex", POLICY),
    ("echo 'use *' > .aex/policy.aex", POLICY),
    ("echo 'use *' >>.aex/policy.aex", POLICY),
    ("echo x >| .aex/policy.aex", POLICY),
    ("echo x &> .aex/policy.aex", POLICY),
    ("cat evil 1>.aex/policy.aex", POLICY),
    ("echo x | tee -a .aex/policy.aex", POLICY),
    ("dd if=/dev/zero of=.aex/adjourn.db", STORE),
    ("sed -i s/deny/allow/ .aex/policy.aex", POLICY),
    ("truncate -s0 .aex/adjourn.db", STORE),
    ("sort -o .aex/policy.aex evil", POLICY),
    ("git diff --output=.aex/policy.aex", POLICY),
    ("git log --output .aex/policy.aex", POLICY),
    ("tar xf x.tar -C .aex", FOLDER),
    ("unzip -d.aex x.zip", FOLDER),
    ("cat <<EOF > .aex/policy.aex\nuse *\nEOF", POLICY),
    ("cat > rules/policy.aex", POLICY),
    ("python -c \"open('.aex/policy.aex','w')\"", POLICY),
    ("python <<'EOF'\nopen('.aex/policy.aex', 'w')\nEOF", POLICY),
    ("sqlite3 .aex/adjourn.db 'delete from event'", STORE),
    ("git checkout -- .aex/policy.aex", POLICY),
    ("patch -p1 <<EOF\n--- a/.aex//policy.aex\n+++ b/.aex//policy.aex\n@@ -1 +1 @@\nEOF", POLICY),
    ('git apply <<EOF\n--- "a/\\056aex/policy.aex"\n+++ b/x\nEOF', POLICY),
    # spelled so that nobody sees it
    ('rm .a""ex/policy.aex', POLICY),
    ("rm .a'e'x/pol\\icy.aex", POLICY),
    ("rm $'\\x2eaex/policy.aex'", POLICY),
    ("rm $'\\056aex/policy.aex'", POLICY),
    ("rm -rf .ae?", FOLDER),
    ("rm -rf .a*", FOLDER),
    ("rm -rf .[a]ex", FOLDER),
    ("rm -rf .{aex,cache}", FOLDER),
    ("rm .aex/pol*", POLICY),
    ("rm .aex/*", STORE),
    ("rm .aex/{policy,x}.aex", POLICY),
    ("rm -rf $(echo .aex)", FOLDER),
    ("rm -rf `echo .aex`", FOLDER),
    ('rm -rf "$(printf %s .aex)"', FOLDER),
    ("X=.aex; rm -rf $X", FOLDER),
    ("X=.a; Y=ex; rm -rf $X${Y}", FOLDER),
    ('export D=.aex && rm -rf "$D"', FOLDER),
    ("for f in .aex/*; do rm $f; done", STORE),
    ('for f in .aex .cache; do rm -rf "$f"; done', FOLDER),
    ("echo .aex | xargs rm -rf", FOLDER),
    ("echo . | xargs rm -rf", FOLDER),
    ("echo rm -rf .aex | sh", FOLDER),
    ("echo 'rm -rf .aex' | bash", FOLDER),
    ("bash -c 'rm -rf .aex'", FOLDER),
    ("sh -c \"sh -c 'rm -rf .aex'\"", FOLDER),
    ("eval rm -rf .aex", FOLDER),
    ("bash <<EOF\nrm -rf .aex\nEOF", FOLDER),
    ("bash <<< 'rm -rf .aex'", FOLDER),
    ("echo ${X:-$(rm -rf .aex)}", FOLDER),
    ('echo "unfinished; rm -rf .aex', None),
    ("echo ' ; rm -rf .", FOLDER),
    ("rm -rf . $(echo", FOLDER),
    ("echo " + "x " * 30_000 + "; rm -rf .", FOLDER),
    (": " + "x" * 2_000_000, FOLDER),
    ("$(" * 30 + "rm -rf ." + ")" * 30, FOLDER),
    ("shopt -s dotglob; rm -rf *", FOLDER),
    ("rm -rf $(ls -A)", FOLDER),
    ("ls -A | xargs rm -rf", FOLDER),
    ("find . -name x -o -delete", FOLDER),
    ("find . ! \\( -name x -o -name y \\) -delete", FOLDER),
    ("find . \\( -name '*.pyc' -o -name '*.aex' \\) -delete", FOLDER),
    ("find . -name .git -prune -o -type f -delete", FOLDER),
    ("\\rm -rf .aex", FOLDER),
    ("env -C .aex rm policy.aex", FOLDER),
    ("while read l; do echo $l; done > .aex/policy.aex", POLICY),
    ("exec 3>.aex/policy.aex", POLICY),
    ("rm ~*\0..", None),
    ("rm -rf .a\0ex", FOLDER),
    ("rm -rf $'.aex\\0'", FOLDER),
    ("cat <<EOF\n$(rm -rf .aex)\nEOF", FOLDER),
    ('echo "$(rm ".aex/policy.aex")"', POLICY),
    ("$(echo rm) -rf .", FOLDER),
    ("true; if true; then rm -rf .aex; fi", FOLDER),
    ("f() { rm -rf .; }; f", FOLDER),
    ("{ rm -rf .aex; }", FOLDER),
    ("env A=b timeout 5 nice -n 3 rm -rf .", FOLDER),
    ("$UNSET/.aex/../.aex/x; rm $UNSET/.aex/policy.aex", POLICY),
    ("rm rules/policy.aex", POLICY),
    ("rm -rf rules/", FOLDER),
    ("rm .AEX/POLICY.AEX", POLICY),
    ("rm .aex\\policy.aex", POLICY),
    ("Remove-Item -Recurse .aex", FOLDER),
    ("rm '.aex/policy.aex", POLICY),
    ("curl -so .aex/policy.aex http://x", POLICY),
    ("make && rm -rf build .aex", FOLDER),
    ("ls |\nxargs rm .aex/policy.aex", POLICY),
    ("case x in x) rm -rf .aex;; esac", FOLDER),
    ("rm rules/*", POLICY),
    ("rm rules/polic?.aex", POLICY),
    ("rm -rf ~+/.aex", FOLDER),
    ("git --work-tree=.aex checkout .", FOLDER),
    ("git --work-tree .aex checkout policy.aex", POLICY),
    # the folder in a program's text, that takes it away
    ("python3 -c \"import shutil; shutil.rmtree('.aex')\"", FOLDER),
    ("python3 -c \"import os; os.rename('ROOT/.aex/', 'x')\"", FOLDER),
    ("node -e \"require('fs').rmSync('.aex', {recursive: true})\"", FOLDER),
    ('trap "rm -rf .aex" EXIT', FOLDER),
    ('unshare -m sh -c "rm -rf .aex"', FOLDER),
    # what is piped into a program
    ("cat <<E | sh\nrm -rf .aex\nE", FOLDER),
    ("cat <<'E' | sh\nrm -rf .aex\nE", FOLDER),
    ("cat <<E | python3 -\nopen('.aex/policy.aex', 'w')\nE", POLICY),
    ("echo \"open('.aex/policy.aex', 'w')\" | python3", POLICY),
    # keys
    ("cat ~/.config/adjourn/keys/default.key", KEYS),
    ("cat $HOME/.config/adjourn/keys/secret", KEYS),
    ('cat "${HOME}/.config/adjourn/keys/"*', KEYS),
    ("cat HOME_/.config/adjourn/keys/secret", KEYS),
    ("base64 < ~/.config/adjourn/keys/secret", KEYS),
    ('echo "$(<~/.config/adjourn/keys/secret)"', KEYS),
    ("cat src/k/secret", KEYS),
    ("cat src/one-key", KEYS),
    ("cat src/k/*", KEYS),
    ("cat src/config/*/secret", KEYS),
    ("ls ~/.config/adjourn", KEYS),
    ("grep -r . ~/.config/adjourn", KEYS),
    ("cp -r ~/.config/adjourn/keys .", KEYS),
    ("rm -rf ~/.config", KEYS),
    ("rm -rf ~/.config/*", KEYS),
    ("cd ~/.config/adjourn/keys && cat secret", KEYS),
    ("cd && cat .config/adjourn/keys/secret", KEYS),
    ("python3 -c \"print(open('HOME_/.config/adjourn/keys/secret').read())\"", KEYS),
    ("nc -U ~/.cache/adjourn-hook/x", SOCKET),
    ("rm -rf ~/.cache", SOCKET),
]


@pytest.mark.parametrize("key", ["command", "cmd", "Command"])
@pytest.mark.parametrize(("command", "place"), COMMANDS, ids=lambda value: str(value)[:60])
def test_a_command_that_reaches_a_protected_place(
    places: ProtectedPlaces, key: str, command: str, place: str | None
) -> None:
    """It is found whatever quotes, patterns, variables, shells and folders stand between."""
    found = protected_path({key: filled(command, places)}, places, tool="shell.exec")
    assert (found is None) is (place is None)
    if place in (KEYS, SOCKET):
        assert found == place


HARMLESS = [
    "git commit -m 'fix .aex docs'",
    "git commit -m 'explain .aex/policy.aex' -m .aex/policy.aex",
    "git log -- .aex",
    "git add .aex/policy.aex && git commit -qm 'policy: allow tests'",
    "git diff .aex/policy.aex",
    "git checkout -b fix/.aex-docs",
    "git clean -n",
    "git clean -fdx build",
    "git clean -fdx -e .aex",
    "git stash",
    "cat .aex/policy.aex",
    "cat .aex/*.aex | head -5",
    "head -n 5 <.aex/policy.aex",
    "ls -la .aex",
    "ls .",
    "cd .aex && ls",
    "sed -n '1,20p' .aex/policy.aex",
    "test -f .aex/policy.aex && echo yes",
    "[ -d .aex ] || mkdir -p .aex/runs",
    "mkdir -p .aex",
    "grep -r foo .",
    "grep -rn 'adjourn.db' .aex docs",
    "rg policy .aex > found.txt",
    "find . -name '*.py'",
    "find . -name '*.log' -delete",
    "find build -delete",
    "find . -name '*.pyc' | xargs rm -f",
    "find . -path './build/*' -delete",
    "find . -type d -empty -delete",
    "find . -name node_modules -type d -prune -exec rm -rf {} +",
    "find . -name __pycache__ -exec rm -rf {} \\;",
    "find . \\( -name '*.pyc' -o -name '*.pyo' \\) -delete",
    "find . -path ./.aex -prune -o -name '*.log' -delete",
    "git commit -m \"$(cat <<'EOF'\nfix .aex/policy.aex, don't rm -rf .aex\nEOF\n)\"",
    "rm -rf $(git ls-files -d)",
    "find . -name '*.aex' -exec cat {} +",
    "find .aex -type f",
    "rm -rf build",
    "rm -rf build/* src/*.pyc",
    "rm -rf ./build .pytest_cache",
    "rm .aex/runs/a.aex",
    "rm .aex/runs/*",
    "rm -rf $BUILD",
    'rm -rf "$TMP_OF_NOBODY/x"',
    "cd build && rm -rf *",
    "mv build/* .",
    "mv src/a.py src/b.py",
    "cp src/a.py .",
    "rsync -a src/ .",
    "echo 'see .aex/policy.aex' >> README.md",
    "printf '%s\\n' .aex/checkpoints/ >> .gitignore",
    "cat > notes.md <<'EOF'\nThe rules are in .aex/policy.aex, do not rm -rf .aex.\nEOF",
    "cat .aex/policy.aex | python -m json.tool",
    "cat > notes.md <<'EOF'\nTo let it pass: `adjourn approve ID`. Do not run $(rm -rf .aex).\nEOF",
    "python3 -c \"import os; print(os.listdir('.aex'))\"",
    "python3 -c \"from pathlib import Path; Path('x.aex').rename('y.aex')\"",
    "python3 -c \"import os; os.remove('.aex/notes.md')\"",
    "sed -i '/^.aex$/d' .gitignore",
    "diff .aex/policy.aex other.aex",
    "adjourn check .aex/policy.aex",
    "pytest -q tests/unit # not .aex/policy.aex",
    "npm test && npm run build",
    "for f in src/*.py; do wc -l $f; done",
    "echo $((1 + 2)) $(date)",
    "cat ~/.config/git/config",
    "ls ~/.config",
    "",
    "'",
    'echo "unfinished',
    "x" * 5000,
]


@pytest.mark.parametrize("command", HARMLESS, ids=lambda command: command[:60])
def test_an_ordinary_command_passes(places: ProtectedPlaces, command: str) -> None:
    """What reads, speaks of, or stands beside a protected place may be run."""
    assert protected_path({"command": command, "description": "See .aex"}, places, tool="shell.exec") is None


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ({"command": ["rm", "-rf", ".aex"]}, FOLDER),
        ({"cmd": ["rm", "-rf", "."]}, FOLDER),
        ({"command": "rm", "args": ["-rf", "."]}, FOLDER),
        ({"command": ["rm"], "argv": ["-rf", "."]}, FOLDER),
        ({"commands": ["ls", "rm -rf ."]}, FOLDER),
        ({"command": ["bash", "-lc", "rm -rf ."]}, FOLDER),
        ({"cmd": "rm policy.aex", "cwd": "rules"}, FOLDER),
        ({"cmd": "rm ../.aex/policy.aex", "cwd": "src"}, POLICY),
        ({"cmd": "rm -rf *", "workingDirectory": "ROOT/src/.."}, None),
        ({"cmd": "rm -rf ..", "working_directory": "src"}, FOLDER),
        ({"script": "open('.aex/policy.aex')"}, POLICY),
        ({"command": "cat", "args": [".aex/policy.aex"]}, None),
        ({"command": ["cat", ".aex/policy.aex"]}, None),
        ({"command": ["git", "log", "--", ".aex"]}, None),
        ({"command": ["git", "commit", "-m", "a; rm -rf .aex"]}, None),
    ],
)
def test_a_command_in_words_and_from_elsewhere(
    places: ProtectedPlaces, arguments: dict[str, Any], place: str | None
) -> None:
    """A list is a program and its words; folders that the call gives count."""
    assert protected_path(filled(arguments, places), places, tool="shell.exec") == place


def patch(name: str, other: str = "") -> str:
    return f"--- {name}\n+++ {other or name}\n@@ -1 +1 @@\n-a\n+b\n"


PATCHES = [
    patch("a/.aex/policy.aex", "b/.aex/policy.aex"),
    patch("a/.aex//policy.aex"),
    patch("./.aex/policy.aex"),
    patch(".aex/policy.aex"),
    patch("a/./.aex/../.aex/policy.aex"),
    patch("a/rules/policy.aex"),
    patch("/dev/null", "b/.aex/policy.aex"),
    patch("b/.aex/policy.aex", "/dev/null"),
    patch('"a/.aex/\\160olicy.aex"', '"b/.aex/\\160olicy.aex"'),
    patch("a/.aex/policy.aex\t2026-01-01 00:00:00"),
    patch("a/.aex/policy.aex 2026-01-01 00:00:00"),
    patch("a/.AEX/POLICY.aex"),
    patch("ROOT/.aex/policy.aex"),
    "  " + patch("a/.aex//policy.aex").replace("\n", "\r\n  "),
    "diff --git a/.aex//policy.aex b/.aex//policy.aex\ndeleted file mode 100644\n",
    "diff --git a/x b/.aex/policy.aex\nsimilarity index 100%\nrename from x\nrename to .aex//policy.aex\n",
    "diff --git a/x b/y\ncopy from x\ncopy to .aex//policy.aex\n",
    'diff --git "a/\\056aex/policy.aex" "b/\\056aex/policy.aex"\n',
    "Index: .aex//policy.aex\n===\n",
    "*** .aex//policy.aex\n--- x\n***************\n",
    "*** Begin Patch\n*** Update File: .aex//policy.aex\n@@\n-a\n+b\n*** End Patch",
    "*** Begin Patch\n*** Delete File: ./.aex/policy.aex\n*** End Patch",
    "*** Begin Patch\n*** Update File: x\n*** Move to: .aex//policy.aex\n*** End Patch",
    "*** Begin Patch\n***Add File:.aex//policy.aex\n+x\n*** End Patch",
]


@pytest.mark.parametrize("text", PATCHES)
@pytest.mark.parametrize(
    "arguments",
    [
        {"patch": "$"},
        {"diff": "$"},
        {"input": "$"},
        {"edits": ["$"]},
        {"changes": [{"diff": "$"}]},
        {"edit": "$", "path": "src/a.py"},
        {"whatever": "$"},
    ],
)
def test_a_patch_of_a_protected_file(places: ProtectedPlaces, text: str, arguments: dict[str, Any]) -> None:
    """Its headers name it, in every form and under every name that such an argument has; any argument of a tool that patches."""
    text = filled(text, places)

    def put(value: Any) -> Any:
        if isinstance(value, list):
            return [put(item) for item in value]
        if isinstance(value, dict):
            return {key: put(item) for key, item in value.items()}
        return value.replace("$", text)

    tool = "apply_patch" if "whatever" in arguments else "edit_file"
    assert protected_path(put(arguments), places, tool=tool) in (POLICY, FOLDER)


@pytest.mark.parametrize(
    "arguments",
    [
        {"patch": patch("a/README.md") + " see .aex/policy.aex\n-use .aex/policy.aex\n+use aex.policy.aex\n"},
        {"patch": patch("a/src/.aex/policy.aex", "b/src/.aex/policy.aex")},
        {"patch": patch("a/docs/aex.policy.aex.md")},
        {
            "path": "README.md",
            "edits": [{"oldText": "see .aex/policy.aex", "newText": patch("a/.aex/policy.aex")}],
        },
        {"path": "README.md", "content": patch("a/.aex/policy.aex")},
        {"input": "Explain .aex/policy.aex to me"},
        {"input": "one\ntwo .aex/policy.aex\n--- three\n"},
    ],
)
def test_a_patch_of_another_file_may_speak_of_it(places: ProtectedPlaces, arguments: dict[str, Any]) -> None:
    """Lines within hunks, and texts that are written, are no headers."""
    assert protected_path(arguments, places, tool="edit_file") is None


@pytest.mark.parametrize(
    ("sql", "place"),
    [
        ("ATTACH '.aex/adjourn.db' AS h", STORE),
        ("attach database './.aex//adjourn.db' as h; delete from h.event", STORE),
        ("ATTACH 'file:.aex/adjourn.db?mode=rw' AS h", STORE),
        ("ATTACH '.aex/' || 'adjourn.db' AS h", STORE),
        ('ATTACH ".aex/adjourn.db" AS h', STORE),
        ("VACUUM INTO '.aex/adjourn.db'", STORE),
        ("VACUUM main INTO 'rules/policy.aex'", POLICY),
        ("COPY t TO 'ROOT/.aex/policy.aex'", POLICY),
        ("copy (select 1) to '.aex/policy.aex' (format csv)", POLICY),
        ("SELECT 1 INTO OUTFILE '.aex/policy.aex'", POLICY),
        ("SELECT writefile('.aex/policy.aex', 'use *')", POLICY),
        ("EXPORT DATABASE '.aex/checkpoints/x'", CHECKPOINTS),
        (".output .aex/policy.aex\nselect 'use *';", POLICY),
        (".backup '.aex/adjourn.db'", STORE),
        ("SELECT readfile('~/.config/adjourn/keys/secret')", KEYS),
        ("SELECT pg_read_file('HOME_/.config/adjourn/keys/secret')", KEYS),
        ("SELECT * FROM files WHERE path = '.aex/policy.aex'", None),
        ("INSERT INTO notes VALUES ('see .aex/policy.aex')", None),
        ("INSERT INTO notes VALUES ('copy what .aex/policy.aex says')", None),
        ("ATTACH 'other.db' AS o; VACUUM INTO 'copy.db'", None),
        ("select 1", None),
    ],
)
@pytest.mark.parametrize("key", ["sql", "query", "statement", "SQL"])
def test_sql_that_opens_files(places: ProtectedPlaces, key: str, sql: str, place: str | None) -> None:
    """A statement that opens a file by its name may not name a protected one; any other may speak of it."""
    assert protected_path({key: filled(sql, places)}, places, tool="db.query") == place


@pytest.mark.parametrize(
    ("tool", "arguments", "place"),
    [
        ("delete_directory", {"path": "."}, FOLDER),
        ("remove_tree", {"target": "."}, FOLDER),
        ("move_file", {"source": "src/a.py", "target": "."}, None),
        ("delete_directory", {"path": ""}, FOLDER),
        ("delete_directory", {"path": "ROOT"}, FOLDER),
        ("fs.removeTree", {"dir": "src/.."}, FOLDER),
        ("mcp__fs__rmdir", {"target_dir": "/"}, FOLDER),
        ("move_file", {"source": ".", "destination": "../x"}, FOLDER),
        ("rename", {"from": "ROOT", "to": "x"}, FOLDER),
        ("clean", {"paths": ["build", ".."]}, FOLDER),
        ("purge_files", {"pattern": "**/*"}, STORE),
        ("delete_files", {"paths": [".aex/*"]}, STORE),
        ("delete_files", {"glob": ".ae?/policy.aex"}, POLICY),
        ("delete_directory", {"path": "~/.config"}, KEYS),
        ("delete_directory", {"path": "build"}, None),
        ("delete_files", {"pattern": "*.log"}, None),
        ("delete_file", {"path": "src/a.py", "root": "."}, None),
        ("delete_file", {"path": "src/a.py", "cwd": "ROOT", "reason": "."}, FOLDER),
        ("move_file", {"source": "src/a.py", "destination": "."}, None),
        ("remove_comments", {"path": "src/a.py", "text": "."}, None),
        ("list_directory", {"path": "."}, None),
        ("write_file", {"path": "src/x", "content": "."}, None),
        ("write_file", {"path": ".ae?/policy.aex"}, POLICY),
        ("format_files", {"paths": ["src/**/*.py", "*"]}, None),
        ("replace_text", {"path": "src/a.py", "pattern": ".*", "regex": ".a*"}, None),
        ("write_file", {"path": "../.aex/policy.aex", "cwd": "src"}, POLICY),
        ("write_file", {"path": "policy.aex", "baseDir": "rules"}, FOLDER),
        ("write_file", {"path": "policy.aex", "baseDir": "src"}, None),
    ],
)
def test_what_is_around_a_protected_place(
    places: ProtectedPlaces, tool: str, arguments: dict[str, Any], place: str | None
) -> None:
    """A tool that removes or moves, by its name, may not name a folder around one; others may."""
    assert protected_path(filled(arguments, places), places, tool=tool) == place


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ({"path": "~/.config/adjourn/keys/secret"}, KEYS),
        ({"path": "HOME_/.config/adjourn/keys/secret"}, KEYS),
        ({"path": "../.config/adjourn/keys"}, KEYS),
        ({"path": "file://HOME_/.config/adjourn/keys/secret"}, KEYS),
        ({"uri": "file://HOME_/.config/adjourn/keys/%73ecret"}, KEYS),
        ({"path": "src/config"}, KEYS),
        ({"path": "src/k/secret"}, KEYS),
        ({"path": "src/k"}, KEYS),
        ({"path": "src/one-key"}, KEYS),
        ({"paths": ["README.md", {"deep": ["src/one-key"]}]}, KEYS),
        ({"path": "../.config/adjourn/keys/trusted/new.pub"}, KEYS),
        ({"path": " ~/.config/adjourn"}, KEYS),
        ({"path": "~/.cache/adjourn-hook"}, SOCKET),
        ({"query": "x", "command": "cat ~/.config/adjourn/keys/secret"}, KEYS),
        ({"path": "README.md", "output": ".aex/policy.aex"}, POLICY),
        ({"path": "README.md", "saveTo": "rules/adjourn.db"}, STORE),
        ({"path": ".aex/policy.aex"}, None),
        ({"path": "rules/adjourn.db"}, None),
        ({"paths": [".aex"]}, None),
        ({"path": "."}, None),
        ({"path": "~"}, None),
        ({"path": "~/.config"}, None),
        ({"pattern": "keys/secret", "path": "src"}, None),
        ({"path": "nowhere/secret"}, None),
        ({"text": "line\n~/.config/adjourn/keys/secret\n"}, None),
        ({"path": "README.md", "output": "found.txt"}, None),
    ],
)
def test_what_only_reads_may_read_all_but_the_keys(
    places: ProtectedPlaces, arguments: dict[str, Any], place: str | None
) -> None:
    """The policy and the history are no secrets; keys are, wherever a link or a URL leads from."""
    assert protected_path(filled(arguments, places), places, tool="read_file", reads=True) == place


def test_keys_that_are_made_later_are_found(places: ProtectedPlaces, tmp_path: Path) -> None:
    """A link that stood there before the key leads to it all the same."""
    (tmp_path / "home/work/later").symlink_to(tmp_path / "home/.config/adjourn/keys/other.key")
    assert protected_path({"path": "README.md"}, places, reads=True) is None
    (tmp_path / "home/.config/adjourn/keys/other.key").write_text("x")
    assert protected_path({"path": "later"}, places, reads=True) == KEYS


def test_other_folders_for_keys(places: ProtectedPlaces, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are where `ADJOURN_CONFIG` or `XDG_CONFIG_HOME` says; around a workspace only the keys themselves are closed."""
    for folder in ("xdg/adjourn/keys", "keys"):
        os.makedirs(f"{places.root}/{folder}")
        Path(places.root, folder, "secret").touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", os.path.join(places.root, "xdg"))
    moved = places_of(places.root)
    assert protected_path({"path": "xdg/adjourn/keys/secret"}, moved, reads=True) == KEYS
    assert protected_path({"path": "xdg/adjourn/x"}, moved) == KEYS
    monkeypatch.setenv("ADJOURN_CONFIG", places.root)
    moved = places_of(places.root)
    assert protected_path({"path": "keys/secret"}, moved, reads=True) == KEYS
    assert protected_path({"path": "heads/x"}, moved) == KEYS
    assert protected_path({"path": "/nobody/.config/adjourn/settings.toml"}, moved) == KEYS
    assert protected_path({"path": "src/a.py"}, moved) is None


@pytest.mark.timeout(100)
@pytest.mark.parametrize(
    "piece",
    [
        "{,",
        "${",
        "$'",
        "[",
        "'",
        '"',
        "`",
        "a b ",
        "<<E\n",
        "x=$x ",
        "{a,b}",
        "--- ",
        " \t",
        "$(",
        "* ",
        "|",
        "\\",
        "[a",
        "'||'",
        ". ",
    ],
)
@pytest.mark.parametrize("begin", ["rm ", "find . "])
def test_no_text_is_judged_for_long(places: ProtectedPlaces, begin: str, piece: str) -> None:
    """Every reading of a command, of SQL and of a patch takes time in proportion to its length."""
    text = begin + piece * (200_000 // len(piece))
    protected_path({"command": text, "sql": text, "patch": text, "input": text}, places, tool="delete_file")


PIECES = st.sampled_from(
    [
        *"ab.ex/ '\"\\$(){}`;|&<>\n*?[]#~=!-",
        "rm ",
        "<<E\n",
        "\nE\n",
        ".aex",
        "$(",
        "cd ",
        "find ",
        "git clean -fd",
        "xargs ",
        "\0",
    ]
)


@given(st.lists(PIECES, max_size=30).map("".join))
def test_any_text_is_judged(text: str) -> None:
    """Any command text is judged, and soon."""
    with suppress(TooLongError):
        simple_commands(text)
    protected_path(
        {"command": text, "sql": text, "patch": text, "input": text}, places_of("/nowhere/work"), tool="rm"
    )
