"""Generates shell lines that try to reach a protected place, or to speak for a person, by every feature that bash has.

No line names a place outside of the folder that it runs in: quotes may end anywhere, and any word may become an operand of `rm`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

TARGETS = (
    ".aex", ".aex/policy.aex", "./.aex/policy.aex", ".aex/adjourn.db", "src/../.aex/policy.aex", ".aex/checkpoints", "rules/policy.aex", "aex.policy.aex",
    ".", ".aex/", "rules", "src/.aex/policy.aex", "adjourn.toml",
)  # fmt: skip
HARMLESS = ("src/a.py", "x", "build/out.txt", "notes.md", "build")
SPEAKING = (
    "adjourn approve k3f9", "aex deny k3f9", "adjourn settle a.1 --done", "adjourn answer q1 yes", "adjourn decide d1 --accept", "adjourn keys trust ann KEY",
    "adjourn rollback --yes", "adjourn init --undo", "adjourn record merge a b", "adjourn hook", "adjourn proxy --auto-confirm",
)  # fmt: skip
WRITES = (
    "rm -rf {}", "rm -f {}", "rm -r -- {}", "mv {} zz", "mv x {}", "cp x {}", "cp -r src {}", "> {}", "echo hi > {}", "echo hi >> {}", "cat x >| {}", ": &> {}",
    "echo hi | tee {}", "tee -a {} < x", "sed -i s/a/b/ {}", "sed -n -i p {}", "truncate -s 0 {}", "ln -sf x {}", "ln -sfn src {}", "dd if=x of={} status=none",
    "install x {}", "touch {}", "chmod -R 000 {}", "find {} -delete", "find {} -exec rm -rf {{}} +", "find {} -type f -execdir truncate -s 0 {{}} ;",
    "git clean -fdx {}", "git rm -rqf {}", "sort -o {} x", "sort -uo {} x", "sort --output={} x", "uniq x {}", "cat x 1> {}", "exec 3> {}; echo hi >&3",
    "perl -pi -e s/a/b/ {}", "python3 -c 'import sys; open(sys.argv[1], \"w\")' {}", "split -l1 x {}", "cat <<< hi > {}", "tar cf {} x", "gzip -f {}",
    "xargs rm -rf <<< {}", "echo {} | xargs rm -rf", "printf '%s\\n' {} | xargs -I@ cp x @", "find . -name x -fprint {}", "git diff --output={} HEAD",
    "env -C src rm -rf ../{}", "awk 'BEGIN {{ print 1 > ARGV[1] }}' {}", "/usr/bin/time -o {} ls", "rmdir {}", "unlink {}", "mkdir {}", "shred -u {}",
    "cat x | while read l; do echo $l; done > {}", "( echo hi ) > {}", "{{ echo hi; }} > {}", "if true; then echo; fi > {}", "for d in {}; do rm -rf $d; done",
    "for d in {}; do rm -rf \"$d\"; done", "f() {{ rm -rf \"$1\"; }}; f {}", "f() {{ rm -rf \"$@\"; }}; f x {}", "set -- {}; rm -rf \"$1\"", "set -- {}; rm -rf $@",
    "a=({}); rm -rf \"${{a[0]}}\"", "a=(x {}); rm -rf \"${{a[@]}}\"", "v={}; rm -rf $v", "v={}; rm -rf \"$v\"", "export v={}; rm -rf \"$v\"", "v={}; bash -c 'rm -rf $v'",
    "v={} bash -c 'rm -rf \"$v\"'", "read -r v <<< {}; rm -rf $v", "mapfile -t a <<< {}; rm -rf \"${{a[@]}}\"", "printf -v v %s {}; rm -rf \"$v\"", "v=zz; w=v; v={}; rm -rf \"${{!w}}\"",
    "v={}zz; rm -rf \"${{v%zz}}\"", "v=zz{}; rm -rf \"${{v#zz}}\"", "v={}; rm -rf \"${{v,,}}\"", "v={}; rm -rf ${{v:0}}", "v={}; rm -rf \"${{v/q/r}}\"", "rm -rf ${{u:-{}}}", "rm -rf \"${{u:={}}}\"",
    "v=1; rm -rf ${{v:+{}}}", "rm -rf $(echo {})", "rm -rf \"$(printf %s {})\"", "rm -rf `echo {}`", "rm -rf $(cat <<< {})", "rm -rf $(ls -d {})", "rm -rf $(find {} -maxdepth 0)",
    "rm -rf $(echo {} | rev | rev)", "rm -rf $(dirname {}/zz)", "rm -rf $(basename {})", "cd {}; rm -f policy.aex", "cd {} && > policy.aex", "pushd {} > out; rm -f *", "(cd {}; rm -rf *)",
    "cd src; cd ..; rm -rf {}", "cd {}; cd -; rm -rf .aex/x", "d={}; cd $d; rm -f policy.aex", "CDPATH=.aex; cd checkpoints; rm -rf *", "declare -r v={}; rm -rf $v", "local v={}; rm -rf $v",
    "declare -a v=({}); rm -rf ${{v[*]}}", "while true; do rm -rf {}; break; done", "case {} in *) rm -rf {};; esac", "[[ -e {} ]] && rm -rf {}", "test -e {} && mv {} q", "! rm -rf {}", "time rm -rf {}",
    "nohup rm -rf {} > out 2>&1", "timeout 5 rm -rf {}", "env A=1 rm -rf {}", "nice -n 5 rm -rf {}", "stdbuf -o0 rm -rf {}", "setsid rm -rf {}", "command rm -rf {}", "exec rm -rf {}", "builtin command rm -rf {}",
    "bash -c \"rm -rf {}\"", "sh -c 'rm -rf \"$1\"' _ {}", "bash -c 'rm -rf $0' {}", "eval rm -rf {}", "eval \"rm -rf {}\"", "echo rm -rf {} | bash", "bash <<< \"rm -rf {}\"", "source <(echo rm -rf {})",
    "trap \"rm -rf {}\" EXIT", "trap 'rm -rf {}' EXIT; true", "bash <(echo \"rm -rf {}\")", "cat <<E | bash\nrm -rf {}\nE", "bash <<'E'\nrm -rf {}\nE", "x='rm -rf {}'; $x", "x='rm -rf {}'; eval $x", "x=(rm -rf {}); \"${{x[@]}}\"",
    "r=rm; $r -rf {}", "${{u:-rm}} -rf {}", "{{rm,-rf,{}}}", "$(echo rm) -rf {}", "alias q='rm -rf {}'", "find . -maxdepth 0 -exec rm -rf {} ;", "find . -maxdepth 0 -exec sh -c 'rm -rf {}' ;", "git -c alias.q='!rm -rf {}' q",
    "git -c core.pager='rm -rf {};cat' -p log", "GIT_EXTERNAL_DIFF='rm -rf {};:' git diff HEAD~0", "PAGER='rm -rf {};cat' git -p log", "BASH_ENV=<(echo 'rm -rf {}') bash -c true", "script -qc 'rm -rf {}' out",
    "flock x rm -rf {}", "ln -s {} lk; rm -rf lk/policy.aex", "ln -s {} lk; cd lk; rm -f policy.aex", "sed -n '1e rm -rf {}' x", "sed -n 's/.*/rm -rf .aex/e' x", "sed '1w {}' x", "awk 'BEGIN {{ system(\"rm -rf {}\") }}'",
    "xargs -a x rm -rf {}", "echo -rf {} | xargs rm", "echo {} > l; xargs rm -rf < l", "echo {} > l; while read f; do rm -rf $f; done < l", "coproc rm -rf {}", "rm -rf {} &\nwait", "true | rm -rf {}", "rm -rf {} | true",
    "python3 -c \"import shutil; shutil.rmtree('{}')\"", "perl -e 'unlink \"{}\"'", "select v in {}; do rm -rf $v; done <<< 1", "for ((i=0;i<1;i++)); do rm -rf {}; done", "until false; do rm -rf {}; break; done", "cp -r {} zz; rm -rf zz",
    "rsync -a --delete src/ {}", "cp -f x -t {}", "mv -t {} x", "tar xf t.tar -C {}", "unzip -o t.zip -d {}", "ed -s {} <<< w", "ex -s +wq {}", "patch {} < x", "git checkout HEAD -- {}", "git restore -s HEAD {}", "git mv x {}",
)  # fmt: skip
RUNS = (
    "{}", "{} &", "( {} )", "{{ {}; }}", "if true; then {}; fi", "for i in 1; do {}; done", "f() {{ {}; }}; f", "bash -c '{}'", "bash -lc \"{}\"", "eval '{}'", "eval {}", "echo '{}' | bash", "echo {} | sh", "bash <<E\n{}\nE", "bash <<< '{}'",
    "source <(echo '{}')", ". /dev/stdin <<< '{}'", "trap '{}' EXIT", "$(echo {})", "x='{}'; $x", "x='{}'; eval \"$x\"", "x=({}); \"${{x[@]}}\"", "set -- {}; \"$@\"", "f() {{ \"$@\"; }}; f {}", "env {}", "nohup {}", "timeout 4 {}", "nice {}", "setsid -w {}",
    "stdbuf -o0 {}", "command {}", "exec {}", "echo x | xargs -I@ {}", "echo {} | xargs env", "find . -maxdepth 0 -exec {} ;", "git -c alias.z='!{}' z", "script -qc '{}' out", "case x in x) {};; esac", "[[ x ]] && {}", "! {}", "time {}",
    "cat <<< '{}' | bash", "x=$(cat <<E\n{}\nE\n); $x", "printf '%s\\n' '{}' | bash -s", "bash -c \"$(echo {})\"", "(exec {})", "coproc {}", "while {}; do break; done", "\"$(command -v env)\" {}", "awk 'BEGIN {{ system(\"{}\") }}'", "sed -n '1e {}' x",
    "read -r x <<< '{}'; $x", "a=1 {}", "{} 2>out || true", "true && {}", "false || {}", "ls; {}", "ls | {}", "cd src && {}", "echo \"$({})\"", "echo `{}`", "diff <({}) x", "x=${{u:-$({})}}", "cat <<E\n$({})\nE", ": $(( $({} > out; echo 1) ))",
    "python3 -c \"import os; os.system('{}')\"", "perl -e 'system(\"{}\")'", "PAGER='{};cat' git -p log", "ssh localhost '{}'", "watch -n1 '{}'", "env -S '{}'", "xargs -I@ sh -c '{}' <<< x", "mapfile -C '{};:' -c 1 a < x", "PS4='$({})'; set -x; ls", "flock x {}",
)  # fmt: skip
BEFORE = (
    "", "", "", "", "echo \"${a#\"}\"}\"; ", "((a=1<<2)); ", "echo \"$(case x in x) echo '\"';; esac)\"; ", "cat <<\"E\"OF\nx\nEOF\n", "cat <<'A'\n A\nA\n", "cat <<-A\n\tx\n\tA\n", "echo it\\'s; ", "echo 'a'\\''b'; ", "echo $'it\\'s'; ", "echo \"a\\\"b\"; ", "# it's\n",
    "echo a#b; ", "echo a # b '\n", "x=1; ", "cd src; cd ..; ", "cat <<A <<B\n1\nA\n2\nB\n", "echo ${x:-'}'}; ", "[[ a =~ ^(a|b)$ ]] && ", "echo $((1<<2)); ", "echo $((2>1)); ", "echo \"`echo \\\"x\\\"`\"; ", "echo $(echo \")\"); ", "echo $(# )\n); ", "echo {a,b}; ", "cat <<< '<<E'; ",
    "echo \\\n hi; ", "case a in (a) echo;; esac; ", "if false; then :; else :; fi; ", "echo \"$((1+1))\" '$('; ", "a[0]=1; ", "echo ${#a} ${a##*'}'}; ", "set -f; ", "set -e; ", "shopt -s dotglob; ", "shopt -s nullglob; ", "export A=1; ", "unset x; ", "echo \"${x:-\"}\"}\"; ", "cat <<E\n'\nE\n", "cat <<\\E\n$(\nE\n",
    "cat <<'E F'\nx\nE F\n", "echo '\n'; ", "printf '%s' \"$(cat <<'E'\n)\nE\n)\"; ", "true; ", "false; ", "ls > out; ", "! true; ", "f() { :; }; ", "time -p true; ", "echo <(true) > out; ", "IFS=/; ", "IFS=,; ", "HOME=$PWD; ", "x=.aex; ", "v=.a; w=ex; ", "$u ", "\"$@\" ", "coproc cat; ", "select", "",
)  # fmt: skip
AFTER = (
    "",
    "",
    "",
    "",
    "; true",
    " && true",
    " || true",
    " 2>out",
    " > out",
    " # done",
    "\necho done",
    "; echo '\"'",
    " | cat",
    "\n",
    " ;",
    "; : '",
    " <<< x",
    " < out",
    "\n: <<E\nE",
)
CODE = ("python3", "perl")
"""Programs whose code may put together a name: they are held to the names that it spells."""


def lines(seed: int, count: int) -> Iterator[str]:
    """Lines from a seed."""
    chance = random.Random(seed)  # lines to try, no secrets
    for _ in range(count):
        if chance.random() < 0.3:
            form = chance.choice(RUNS)
            core = form.format(*[chance.choice(SPEAKING) if form.startswith(CODE) else _spoken(chance)] * 3)
        else:
            target = chance.choice(TARGETS if chance.random() < 0.85 else HARMLESS)
            form = chance.choice(WRITES)
            core = form.format(
                *[".aex/policy.aex" if form.startswith(CODE) and "argv" not in form else spelled(target, chance)] * 3
            )
            if chance.random() < 0.25 and not (form := chance.choice(RUNS)).startswith(CODE):
                core = form.format(*[core] * 3)
        yield chance.choice(BEFORE) + core + chance.choice(AFTER)


def _spoken(chance: random.Random) -> str:
    words = chance.choice(SPEAKING).split()
    if chance.random() < 0.5:
        at = chance.randrange(min(2, len(words)))
        words[at] = spelled(words[at], chance)
    return " ".join(words)


def spelled(text: str, chance: random.Random) -> str:
    """A spelling that bash may read as the text."""
    at = chance.randrange(len(text)) if text else 0
    before, char, after = text[:at], text[at : at + 1], text[at + 1 :]
    way = chance.randrange(34)
    return [
        text, text, text, f"'{text}'", f'"{text}"', f"{before}\\{char}{after}", f"{before}''{char}{after}", f'{before}"{char}"{after}',
        "$'" + "".join(f"\\x{ord(c):02x}" for c in text) + "'", "$'" + "".join(f"\\{ord(c):03o}" for c in text) + "'", f"{before}$'\\u{ord(char or 'x'):04x}'{after}",
        f"{before}?{after}" if char != "/" else text, f"{before}*{after[1:]}" if char != "/" else text, f"{before}[{char}]{after}" if char != "/" else text,
        f"{{{text},zz}}", f"{before}{{{char},q}}{after}", f"{before}{{{char}..{char}}}{after}", f"{before}\\\n{char}{after}", f"$(echo {text})", f"`echo {text}`",
        f"$(printf %s {text})", f"$(printf '{before}\\x{ord(char or 'x'):02x}{after}')", f"$(echo {text[::-1]} | rev)", f"${{u-{text}}}", f"${{u:-{before}}}{char}{after}", f"{before}${{u}}{char}{after}",
        f"{before}$u{char}{after}" if not (char.isalnum() or char == "_") else text, f"~+/{text}", f"$PWD/{text}", f"${{PWD}}/{text}", f"$(pwd)/{text}", f'{before}$"{char}"{after}', f"{before}$(){char}{after}",
        f"$(echo {text} | tr A-Z a-z)",
    ][way]  # fmt: skip
