"""What programs do with their arguments: read, remove or move the files that they name, or run them as commands.

A program is a reader by its name and its options: with an option that is not listed here it is none.

Owns: which program does what. Must never: take a command line apart.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from adjourn.policy.shell.syntax import FOREIGN, HARMLESS, UNKNOWN, ShellWord, UnreadError

MAX_FED = 200
"""Most words that `xargs` is followed with."""
PRINTERS = frozenset(("echo", "printf", ":", "true", "false"))
GOING = frozenset(("cd", "chdir", "pushd", "popd", "set-location"))
SHELLS = frozenset("ash bash cmd dash eval fish ksh powershell pwsh sh su zsh".split())
REMOVERS = frozenset(
    "del erase mv move move-item prename rd remove-item ren rename ri rimraf rm rmdir shred srm trash trash-put truncate unlink wipe".split()
)
MOVERS = frozenset(("mv", "move", "move-item"))
"""Programs whose last argument is the destination."""
WRITERS = REMOVERS | frozenset(
    "ar busybox chattr chgrp chmod chown cp cpio csplit dd ed ex gzip bzip2 xz zstd install link ln mkfifo mknod mount nano nvim emacs objcopy"
    " openssl patch pax rcp rsync scp setfacl setfattr split sponge sqlite3 strip sudoedit tar tee touch umount uniq unzip vi vim vipe xxd zip 7z"
    " sort tree history git-checkout git-restore git-reset git-clean git-stash git-apply git-rm git-mv git-checkout-index git-read-tree git-archive".split()
)
"""Programs that write to files which they are given: a name that cannot be known may be that of a protected place."""
HOSTS = frozenset(
    "at awk batch bun deno entr expect flock gawk gdb irb kitty lua make nix-shell node osascript parallel perl php py pypy python ruby runuser screen"
    " script socat ssh su strace systemd-run tclsh tmux unshare nsenter chroot setpriv vi vim nvim ex watch wezterm xdotool xterm zellij sqlite3 psql"
    " mysql jshell ghci R ld ltrace valgrind faketime proot fakeroot start-stop-daemon npm npx git".casefold().split()
)
"""Programs that run code from an argument, or from their input."""
_ANY = frozenset(
    "[ [[ ag basename bat cat cd chdir cksum cmp column comm cut df dir dirname du egrep fgrep free gc gci get-childitem get-content get-item grep head"
    " hexdump id jq ls lsof md5sum nl nm od pgrep popd ps pushd pwd readlink realpath select-string set-location sha1sum sha256sum sha512sum stat"
    " strings tac tail test test-path tr type uptime wc which who sum b2sum base64 cal fold fmt paste rev expand printenv getent kill sleep wait".split()
)
"""Programs that change none of the files that they are given, whatever their options."""
_BY_OPTIONS = {
    "sort": "[bcCdfghiMnrRsuVmz]+|-?[ktS].*|--(reverse|numeric-sort|unique|version-sort|human-numeric-sort|ignore-case|stable|key.*|field-separator.*)",
    "less": "[FXRSNiIrn]+",
    "more": "[dflpcsu]+",
    "file": "[bikLmzsNpr]+|-(brief|mime.*)",
    "date": "[uRI]+|[dr].*|-(utc|date.*|iso-8601.*|rfc-.*)",
    "diff": r"[abBcdeEiNpqrsTtuwy]+|[CUWx].*|-(brief|unified.*|recursive|color.*|side-by-side|stat|ignore.*|exclude.*|strip-trailing-cr|new-file|text)",
    "tree": "[adfpsughDFCNJX]+|[LIP].*|-(noreport|dirsfirst|gitignore|prune|du)",
    "rg": r"[^-].*|-(?!pre|hostname|p\b|pr\b|h).*",
    "uniq": "[cdDuiz]+|[fsw].*",
}
_BY_WORD = {
    "git": frozenset(
        "add annotate blame branch cat-file check-attr check-ignore commit count-objects describe diff diff-tree fetch for-each-ref grep log ls-files"
        " ls-remote ls-tree merge-base name-rev push reflog remote rev-list rev-parse shortlog show show-ref status tag var version".split()
    ),
    "adjourn": frozenset(("check", "verify")),
}
"""Programs that read under some of their own commands."""
_GIT_OPTIONS = frozenset(
    "abbrev abbrev-commit abbrev-ref after all allow-empty always amend and atomic author before branches cached cc check color "
    "color-words contains context count cover date decorate delete deleted depth diff-filter dry-run exclude exclude-standard exit- "
    "code extended-regexp files-with-matches find-renames first-parent fixed-strings fixup follow force force-with-lease format get "
    "get-url git-dir global graph grep heads ignore-case ignore-space-change ignored intent-to-add interactive invert-grep is- "
    "ancestor is-inside-work-tree left-right line-number list local long match max-count merged merges message minimal mirror "
    "modified move name-only name-status no-color no-edit no-ext-diff no-merges no-patch no-renames no-tags no-verify not numstat "
    "oneline or others patch patience perl-regexp points-at porcelain pretty prune quiet raw recurse-submodules reverse root set- "
    "upstream short shortstat show-current show-prefix show-toplevel signoff since skip sort stage staged stat summary symbolic-full- "
    "name tags unified unmerged unset-upstream unshallow until untracked-files update upstream verbose verify walk-reflogs word-diff "
    "word-regexp".split()
)
"""Options with which those of git neither write a file nor run a program."""
GIT_SETTINGS = (
    r"(?i:user|color|advice|http|pull|push|fetch|commit|tag|init|log|rebase|merge|branch|status|safe|protocol|submodule|gc|pack)\.(?!.*(?:template|proxy|cookie|cmd|program|recurse"
    r"|showsignature|tool|driver|ssl)).*|core\.(?i:quotepath|autocrlf|abbrev|longpaths|filemode|safecrlf|ignorecase)|diff\.(?i:renames|algorithm|noprefix|mnemonicprefix|colormoved)"
)
"""Settings of git that neither write a file nor run a program."""
RISKY = (
    r"GIT_\w+|(?:DY)?LD_\w+|BASH_ENV|ENV|SHELLOPTS|BASHOPTS|BASH_FUNC\w*|\w*PAGER|LESS\w*|\w*EDITOR|VISUAL|BROWSER|PS[0-4]|PROMPT_COMMAND|PERL5\w*|RUBYOPT|TMPDIR"
    r"|TAR_OPTIONS|RSYNC_\w+|SSH_ASKPASS|MAKEFLAGS|GLOBIGNORE|EXECIGNORE|TIMEFORMAT|PYTHON(?:STARTUP|INSPECT|BREAKPOINT|PYCACHEPREFIX)|\w*LOG_?FILE|HISTFILE"
    r"|npm_config_\w+|MAN\w*|AWKPATH|MAIL\w*|XDG_\w+|BASH_\w+|ADJOURN_\w+"
)
"""Variables by which a program reads its orders, or where to write."""
_RUNNERS: Mapping[str, tuple[str, str]] = {
    "builtin": ("", ""), "chronic": ("ve", ""), "command": ("p", ""), "doas": ("n", "u"), "env": ("i0v", "u"), "exec": ("cl", "a"), "gtimeout": ("v", "ks"),
    "ionice": ("t", "cn"), "nice": ("0123456789", "n"), "nohup": ("", ""), "setsid": ("cfw", ""), "stdbuf": ("", "eio"), "sudo": ("AEHknPS", "ugpCT"),
    "time": ("pv", "f"), "timeout": ("v", "ks"), "unbuffer": ("p", ""), "xargs": ("0rtpox", "adEILnPs"), "busybox": ("", ""), "toybox": ("", ""), "caffeinate": ("disu", "tw"),
}  # fmt: skip
"""Programs that run their remaining arguments as a command: the letters of their options, and of those with a value."""
_LONG = (
    r"--(?:null|no-run-if-empty|verbose|preserve-status|foreground|kill-after=.*|signal=.*|max-args=.*|max-procs=.*|max-lines=.*|replace(?:=.*)?|delimiter=.*|exit|fork|wait"
    r"|ignore-environment|unset=.*|user=.*|adjustment=.*|output=[0L]|error=[0L]|input=[0L]|non-interactive|preserve-env(?:=.*)?|login|class=.*|group=.*)"
)
_LONG_VALUED = r"--(?:kill-after|signal|max-args|max-procs|max-lines|delimiter|unset|user|adjustment|output|error|input|group|class)"
ASSIGNS = re.compile(r"([A-Za-z_]\w*)\+?=(.*)", re.DOTALL | re.ASCII)
_SCRIPT = (
    r"(?s:(?:\s|;|[{}]|!|(?:\d+|\$|/(?:\\.|\[[^]]*\]|[^/\\])*/I?)(?:,\s*(?:[+~]?\d+|\$|/(?:\\.|\[[^]]*\]|[^/\\])*/I?))?\s*"
    r"|[pdqQ=nNgGhHxDPlz](?=[\s;}]|$)|[qQ]\s*\d+|s([^\w\s\\])(?:\\.|\[\^?\]?[^]\n]*\]|(?!\1)[^\\])*\1(?:\\.|(?!\1)[^\\])*\1[gpIiMm\d]*(?=[\s;}]|$)"
    r"|y/(?:\\.|[^/\\])*/(?:\\.|[^/\\])*/|[aic](?:\\?\s|\\)?[^\n]*(?:\\\n[^\n]*)*(?:\n|$)|[btT](?:\s*\w+)?(?=[\s;}]|$)|:\s*\w+)*)"
)
"""Matches a script of sed that neither writes to a file nor runs a program."""


def name_of(word: ShellWord) -> str:
    """A program's name, without its folder."""
    return os.path.basename(word.text).casefold().removesuffix(".exe")


def only_reads(program: str, rest: Sequence[ShellWord]) -> bool:
    """Whether a program changes none of the files that its arguments name."""
    if program in _ANY:
        return True
    words = [word.text for word in rest]
    if program == "sed":
        scripts = sed_scripts(words)
        return (
            scripts is not None
            and not any(re.match(r"-[a-zA-Z]*i|--in", word) for word in words)
            and all(re.fullmatch(_SCRIPT, script) for script in scripts)
        )
    if (allowed := _BY_OPTIONS.get(program)) is not None:
        options = [
            word[1:]
            for word in words[: words.index("--") if "--" in words else None]
            if word[:1] in ("-", "+", UNKNOWN) and word != "-"
        ]
        if program == "uniq" and len(words) - len(options) > 1:
            return False
        return all(
            re.fullmatch(allowed, option) or (program == "date" and "%" in option) for option in options
        )
    own = _BY_WORD.get(program)
    if own is None or not words or words[0] not in own:
        return False
    if program != "git":
        return True
    if words[0] in ("fetch", "push", "ls-remote") and any("::" in word for word in words):
        return False
    return all(map(_is_known_to_git, _options(words[1:]))) and words[1:2] not in (["set-url"], ["add"])


def _is_known_to_git(option: str) -> bool:
    if option[:2] == "--":
        return option == "--" or option[2:].partition("=")[0] in _GIT_OPTIONS
    letters = option[1:].partition("=")[0]
    return option[1:2] in tuple("SGLUMCXjqmFn") or (
        letters.isalnum() and "O" not in letters and "o" not in letters[:1]
    )


def _options(words: Sequence[str]) -> list[str]:
    words = words[: words.index("--") if "--" in words else None]
    return [
        word
        for at, word in enumerate(words)
        if word[:1] in ("-", UNKNOWN)
        and not re.fullmatch(r"-\w*m|--message|--grep|--author|-[SG]", words[at - 1] if at else "")
    ]


def sed_scripts(words: Sequence[str]) -> list[str] | None:
    """The scripts in the arguments of sed; None for an option that is not known."""
    scripts: list[str] = []
    operands: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        if match := re.fullmatch(r"-[nErszu]*e(.*)|--expression(?:=(.*))?", word, re.DOTALL):
            value = match[1] or match[2]
            at += not value
            scripts.append(value or (words[at] if at < len(words) else ""))
        elif re.fullmatch(
            r"-[nErsuz]+|-[nErsuz]*i(?:\.\w+)?|--(?:in-place(?:=\.?\w+)?|quiet|silent|regexp-extended|null-data)",
            word,
        ):
            pass
        elif word[:1] == "-" and len(word) > 1:
            return None
        else:
            operands.append(word)
        at += 1
    return scripts or operands[:1]


def sed_is_known(scripts: Sequence[str] | None) -> bool:
    """Whether scripts of sed neither write to a file that they name nor run a program."""
    return scripts is not None and all(re.fullmatch(_SCRIPT, script) for script in scripts)


def without_runners(
    words: Sequence[ShellWord], given: Sequence[str] = ()
) -> tuple[Sequence[ShellWord], list[ShellWord]]:
    """A command without what runs it (`sudo`, `timeout 5`), and the words that assign variables to it; `given` is what `xargs` adds to it.

    Raises `UnreadError` for an option that is not known.
    """
    assigned: list[ShellWord] = []
    while words:
        name = name_of(words[0])
        if name not in _RUNNERS or (name == "command" and len(words) > 1 and words[1].text in ("-v", "-V")):
            break
        letters, valued = _RUNNERS[name]
        at, replaced = 1 + (name == "env" and len(words) > 1 and words[1].text == "-"), ""
        while at < len(words) and words[at].text[:1] == "-" and words[at].text != "-":
            option = words[at].text
            at += 1
            if option == "--":
                break
            if name == "env" and option.startswith(("-S", "--split-string")):
                return [
                    ShellWord("eval"),
                    ShellWord(option.removeprefix("-S").removeprefix("--split-string").removeprefix("=")),
                    *words[at:],
                ], assigned
            if option[:2] == "--":
                if not re.fullmatch(_LONG, option) and not re.fullmatch(_LONG_VALUED, option):
                    raise UnreadError
                at += bool(re.fullmatch(_LONG_VALUED, option))
                continue
            cut = next((one for one, letter in enumerate(option) if one and letter in valued), None)
            if not set(option[1:cut]) <= set(letters):
                raise UnreadError
            if cut is not None:
                value = option[cut + 1 :] or (words[at].text if at < len(words) else "")
                at += not option[cut + 1 :]
                replaced = value if option[cut] == "I" else replaced
                if name == "xargs" and option[cut] == "a":
                    given = [UNKNOWN]
        if name in ("timeout", "gtimeout"):
            at += 1
        while name in ("env", "sudo", "doas") and at < len(words) and ASSIGNS.fullmatch(words[at].text):
            assigned.append(words[at])
            at += 1
        words = words[at:]
        if name == "xargs":
            words = words or [ShellWord("echo")]
            if replaced:
                fed = _fed(given, by_line=True)
                words = [
                    ShellWord(word.text.replace(replaced, one.text), word.wild)
                    for word in words
                    for one in (fed if replaced in word.text else [word])
                ]
            else:
                words = [*words, *_fed(given, by_line=False)]
    return words, assigned


def _fed(given: Sequence[str], *, by_line: bool) -> list[ShellWord]:
    """The words that `xargs` makes of its input."""
    found: list[ShellWord] = []
    for text in given or (FOREIGN,):
        known = not set(text) <= {HARMLESS, "\n", "0"}
        if not {"'", '"', "\\"}.isdisjoint(text):  # `xargs` has rules of its own for these
            return [ShellWord(UNKNOWN)]
        pieces = text.split("\n") if by_line else text.split()
        found += [ShellWord(piece.lstrip() if known else HARMLESS) for piece in pieces[:MAX_FED] if piece]
    return found if len(found) < MAX_FED else [ShellWord(UNKNOWN)]
