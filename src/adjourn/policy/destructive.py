"""Which calls may destroy something, judged by words of the tool's name and by the commands in its arguments.

The table below is the rules. `.aex/discipline.json` of a workspace switches some off, and adds others (docs/reference/pages.md).
A rule that matches costs a checkpoint and nothing else, so they rather match too much than too little.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import msgspec

from adjourn.errors import InvalidError, NotFoundError
from adjourn.host.workspace import read_file
from adjourn.policy.protected.words import PROGRAM_KEYS, SQL_KEYS, WORD_KEYS
from adjourn.policy.shell.running import Command, Walk
from adjourn.policy.shell.syntax import MARKS, ShellWord, UnreadError
from adjourn.policy.shell.tables import TABLES, name_of, only_reads, without_runners

FILE = ".aex/discipline.json"
MAX_FILE = 64 * 1024
MAX_RULES = 100
MAX_TEXT = 256 * 1024
_KEYS = PROGRAM_KEYS | SQL_KEYS
"""Arguments that contain code to run."""
_WORD = re.compile(r"[a-z_]+")
_NAME_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


class DestructiveRule(NamedTuple):
    """Commands that contain one of `words` and match the `parts` one after the other, all in lower case; `example` is one of them.

    With `programs`, the command is one of these. Each part takes linear time, and so do all.
    """

    label: str
    words: tuple[str, ...]
    parts: tuple[str, ...]
    example: str
    programs: frozenset[str] = frozenset()


_GIT = r"\bgit\b"
REDIRECT = "redirect"
_RECURSIVE = r"\s(?:-[a-z]*r|--recursive\b)"
COMMANDS = (
    DestructiveRule("kubectl", ("kubectl",), (r"\bkubectl\b", r"\b(?:apply|delete|replace|patch|drain|scale|rollout|set)\b"),
         "kubectl apply -f deployment.yaml"),
    DestructiveRule("helm", ("helm",), (r"\bhelm\b", r"\b(?:install|upgrade|uninstall|delete|rollback)\b"), "helm upgrade web ./chart"),
    DestructiveRule("terraform", ("terraform", "tofu", "terragrunt", "pulumi"),
         (r"\b(?:terraform|tofu|terragrunt|pulumi)\b", r"\b(?:apply|destroy|import|taint|up|state\s+(?:rm|mv|push))\b"),
         "terraform destroy -auto-approve"),
    DestructiveRule("drop", ("drop",),
         (r"\bdrop\s+(?:table|database|schema|index|view|column|user|role|type|function|trigger|sequence|extension|collection)\b",),
         "DROP TABLE users"),
    DestructiveRule("truncate", ("truncate",), (r"\btruncate\s",), "TRUNCATE sessions"),
    DestructiveRule("alter", ("alter",), (r"\balter\s+(?:table|database|schema|index|view|user|role|type|system|sequence)\b",),
         "ALTER TABLE a ADD b int"),
    DestructiveRule("delete-from", ("delete",), (r"\bdelete\s+from\b",), "DELETE FROM users"),
    DestructiveRule("rm", ("rm", "unlink", "remove", "rimraf", "del", "erase"), (), "rm notes.txt",
         frozenset(("rm", "unlink", "remove-item", "rimraf", "del", "erase"))),
    DestructiveRule("find-delete", ("find",),
         (r"\s-(?:delete\b|(?:exec|ok)(?:dir)?\s+(?:sudo\s+)?(?:/\S*/)?(?:rm|unlink|shred|truncate)\b)",), "find . -name '*.log' -delete",
         frozenset(("find",))),
    DestructiveRule("rsync-delete", ("rsync",), (r"\s--(?:del\b|delete|remove-source-files\b)",), "rsync -a --delete src/ dest/",
         frozenset(("rsync",))),
    DestructiveRule("http-delete", ("curl", "wget", "http", "https", "xh"), (r"\s(?:-[a-z]*x\s*|--request[\s=]|--method[\s=]|(?=delete\s))delete\b",),
         "curl -X DELETE https://api.example.com/items/1", frozenset(("curl", "wget", "http", "https", "xh"))),
    DestructiveRule(REDIRECT, (">",), (), "echo '{}' > settings.json"),
    DestructiveRule("disk", ("mkfs", "shred", "wipefs", "fdisk", "parted"), (r"\b(?:mkfs|shred|wipefs|fdisk|parted)\b",), "shred secrets.txt"),
    DestructiveRule("dd", ("dd",), (r"\bdd\b", r"\sof=(?!/dev/null\b)"), "dd if=image of=/dev/sdb"),
    DestructiveRule("git-push", ("push",), (_GIT, r"\bpush\b", r"\s(?:--force|-[a-z]*f\b|--mirror\b|--delete\b|-d\b|\+\S|:\S)"),
         "git push --force origin main"),
    DestructiveRule("git-reset", ("reset",), (_GIT, r"\breset\b", r"--hard\b"), "git reset --hard HEAD~3"),
    DestructiveRule("git-clean", ("clean",), (_GIT, r"\bclean\b", r"\s(?:-[a-z]*[fi]|--force\b|--interactive\b)"), "git clean -fdx"),
    DestructiveRule("git-checkout", ("checkout",), (_GIT, r"\bcheckout\b", r"\s(?:-f\b|--force\b|--\s)"), "git checkout -- src"),
    DestructiveRule("git-history", ("branch", "restore", "stash", "rebase", "filter"),
         (_GIT, r"\b(?:branch\s+(?:-d|--delete)\b|restore\b|stash\s+(?:drop|clear)\b|rebase\b|filter-(?:branch|repo)\b)"),
         "git branch -D old"),
    DestructiveRule("migration", ("alembic", "migrate", "flyway", "liquibase", "dbmate", "goose", "migration", "db"),
         (r"\b(?:alembic\s+(?:upgrade|downgrade)|manage\.py\s+migrate|db:(?:migrate|rollback|drop|reset|seed)|prisma\s+(?:migrate|db\s+push)|flyway\s|liquibase\s|dbmate\s|goose\s|knex\s+migrate|diesel\s+migration|sqlx\s+migrate|migrate\s+(?:up|down|force|goto))",),
         "alembic upgrade head"),
    DestructiveRule("deploy", ("deploy",), (r"\bdeploy\b",), "fly deploy"),
    DestructiveRule("publish", ("publish", "upload", "yank"),
         (r"\b(?:npm|pnpm|yarn|cargo|poetry|uv|gem|twine|hatch|flit)\b", r"\b(?:publish|upload|push|yank)\b"), "npm publish"),
    DestructiveRule("ansible", ("ansible", "playbook"), (r"\bansible(?:-playbook)?\s",), "ansible-playbook site.yml"),
    DestructiveRule("docker", ("docker", "podman"), (r"\b(?:docker|podman)\b", r"\b(?:prune|rm|rmi|kill|stack\s+deploy)\b"),
         "docker system prune -af"),
    DestructiveRule("docker-down", ("down",), (r"\b(?:docker|podman)\b", r"\bdown\b", r"\s(?:-v\b|--volumes\b)"), "docker compose down -v"),
    DestructiveRule("cloud", ("aws", "gcloud", "az", "gsutil", "doctl", "heroku", "gh"),
         (r"\b(?:aws|gcloud|az|gsutil|doctl|heroku|gh)\b", r"\b(?:delete|terminate|destroy|remove|rm|rb|purge|reset|deploy)"),
         "aws s3 rb s3://bucket --force"),
    DestructiveRule("permissions", ("chmod", "chown", "chgrp"), (r"\bch(?:mod|own|grp)\b", _RECURSIVE), "chown -R app: /srv"),
    DestructiveRule("system", ("systemctl", "shutdown", "reboot", "crontab", "iptables", "userdel"),
         (r"\b(?:systemctl\s+(?:stop|disable|mask|restart)|shutdown\b|reboot\b|crontab\s+-r|iptables\s+-[fdx]|userdel\b)",),
         "systemctl stop db"),
)  # fmt: skip
"""Commands and statements, in the order in which they are checked."""

TOOLS = frozenset((
    "deploy", "destroy", "drop", "truncate", "purge", "wipe", "migrate", "rollback", "uninstall", "terminate", "delete", "remove",
    "publish", "apply",
))  # fmt: skip
"""Words in a tool's name which mean that it may destroy something: `deploy.run`, `delete_file`, `removeUser`."""


class Added(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule of a workspace: commands, in lower case, that the RE2 expression is found in."""

    label: str
    command: str


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """`.aex/discipline.json`. `off` are labels and words of tools that no longer count; `keep_files`: git keeps the files as
    they were before a destructive call; `max_file_bytes` and `keep_seconds` bound that.
    """

    off: tuple[str, ...] = ()
    rules: tuple[Added, ...] = ()
    keep_files: bool = True
    max_file_bytes: int = 10 * 1024 * 1024
    keep_seconds: float = 5.0


DEFAULT = Settings()


def read_settings(root: str) -> Settings:
    """The settings of a workspace. Raises `InvalidError` for a file that cannot be read."""
    try:
        data = read_file(os.path.join(root, FILE), MAX_FILE, root)
    except NotFoundError:
        return DEFAULT
    try:
        settings = msgspec.json.decode(data, type=Settings)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        members = ", ".join(Settings.__struct_encode_fields__)
        raise InvalidError(f"{FILE}: {error}", f"fix it; its members are {members}") from error
    names = {rule.label for rule in COMMANDS} | TOOLS
    if unknown := next((label for label in settings.off if label not in names), ""):
        raise InvalidError(f"{FILE}: no rule is named {unknown[:40]!r}", "list them with `adjourn checkpoint rules`")
    if len(settings.rules) > MAX_RULES or not 0 < settings.keep_seconds <= 60:
        raise InvalidError(f"{FILE}: at most {MAX_RULES} rules, and keepSeconds from 0 to 60", "shorten it")
    for rule in settings.rules:
        _compiled_by_person(rule.command)
    return settings


@lru_cache(maxsize=8)  # a process with many clients has few settings
def _rules_without(off: frozenset[str]) -> Mapping[str, Sequence[DestructiveRule]]:
    """The rules whose label is not off, by each of their words."""
    rules: dict[str, list[DestructiveRule]] = {}
    for rule in COMMANDS:
        if rule.label not in off:
            for word in rule.words:
                rules.setdefault(word, []).append(rule)
    return rules


class Matcher:
    """The rules under the settings of a workspace. `root` is its folder, to look for files that a redirection would empty."""

    def __init__(self, settings: Settings = DEFAULT, root: str = "") -> None:
        self._off = frozenset(settings.off)
        self._root = root
        self._rules = _rules_without(self._off)
        self._added = [(rule.label, _compiled_by_person(rule.command)) for rule in settings.rules]

    def of_tool(self, tool: str) -> str:
        """The word by which a tool's name counts as destructive, "" for none."""
        words = (part.lower() for part in _NAME_PART.findall(tool))
        return next((word for word in words if word in TOOLS and word not in self._off), "")

    def of_arguments(self, arguments: Mapping[str, Any]) -> str:
        """The label of the first rule that matches what the arguments would run, "" for none."""
        for key in arguments:
            if key.lower() in _KEYS:
                break
        else:  # as in nearly every call
            return ""
        for text, is_line in _texts(arguments):
            if label := self._of_text(text[:MAX_TEXT], is_line=is_line):
                return label
        return ""

    def _of_text(self, text: str, *, is_line: bool) -> str:
        lower = text.lower()
        words = self._rules.keys() & _WORD.findall(lower)
        empties = is_line and ">" in text and REDIRECT not in self._off
        if words or empties:
            commands = commands_run(text) if is_line else [CommandRun((), lower)]
            for rule in (rule for word in sorted(words) for rule in self._rules[word]):
                if any(_matches(rule, command) for command in commands):
                    return rule.label
            if empties and self._empties(commands):
                return REDIRECT
        return next((label for label, pattern in self._added if pattern.search(lower)), "")

    def _empties(self, commands: Sequence[CommandRun]) -> bool:
        """Whether a redirection would empty a file that is there and not empty."""
        bases = [self._root]
        for command in commands:
            if command.goes_to:
                bases.append(os.path.join(bases[-1], command.goes_to))
            for path in command.truncates:
                places = (os.path.join(base, os.path.expanduser(path)) for base in bases if base)
                if any(map(_has_content, places)):
                    return True
        return False


def _has_content(path: str) -> bool:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size > 0


def _matches(rule: DestructiveRule, command: CommandRun) -> bool:
    return rule.programs.isdisjoint(command.programs) is not bool(rule.programs) and _in_order(rule.parts, command.text)


def _in_order(parts: tuple[str, ...], command: str) -> bool:
    """Whether each part is found behind the one before it. The first place of each is enough to know."""
    at = 0
    for part in parts:
        match = _compiled(part).search(command, at)
        if match is None:
            return False
        at = match.end()
    return True


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@cache
def _compiled_by_person(pattern: str) -> Any:
    """A compiled RE2 expression, which takes linear time for any pattern."""
    import re2  # few workspaces have rules of their own

    try:
        options = re2.Options()
        options.log_errors = False
        return re2.compile(pattern, options)
    except re2.error as error:
        raise InvalidError(f"{FILE}: not an RE2 expression: {pattern[:60]!r}", str(error)[:200]) from error


def _texts(arguments: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """What the arguments hold to be run, and whether that is a command line: statements are not."""
    further = [value for key, value in arguments.items() if key.lower() in WORD_KEYS and isinstance(value, list)]
    for key, value in arguments.items():
        if key.lower() not in _KEYS:
            continue
        is_line = key.lower() in PROGRAM_KEYS
        words = value if isinstance(value, list) else []
        if isinstance(value, str):
            yield value, is_line
            words = [value, *(word for more in further for word in more)] if is_line and further else []
        if texts := [word for word in words if isinstance(word, str)]:
            yield shlex.join(texts) if is_line else " ".join(texts), is_line


# --- what a command line runs

MAX_DEPTH = 5
"""Command lines in one another: `ssh host 'bash -c "…"'`."""
MAX_CARRIED = 50
"""Words of such a program that may start the command it runs."""
_CARRIERS = TABLES.shells | {"docker", "flock", "kubectl", "podman", "script", "ssh", "watch", "wsl"}
"""Programs that run a command line, or the words behind their own."""
_TALKERS = frozenset(("apropos", "comm", "date", "help", "history", "info", "man", "sleep", "uniq", "whatis"))
_GIT_TALKS = frozenset((
    "add", "blame", "commit", "describe", "diff", "grep", "log", "ls-files", "notes", "shortlog", "show", "status",
))  # fmt: skip
_EXPLAINS = ("--help", "--version", "--dry-run")
_REHEARSES = {"git": ("clean", "push"), "rsync": ()}
"""Programs for which `-n` means `--dry-run`, under these of their own commands (none: always)."""


class CommandRun(NamedTuple):
    """A simple command: the names that its program may have, its words as one text in lower case, the files that it truncates,
    and the folder that it changes to.
    """

    programs: tuple[str, ...]
    text: str
    truncates: tuple[str, ...] = ()
    goes_to: str = ""


def commands_run(line: str, depth: int = 0) -> list[CommandRun]:
    """The commands that a line runs, those of shells and other hosts in it included. A line that cannot be read is one command."""
    commands: dict[Command, None] = {}
    try:
        Walk(lambda command: commands.__setitem__(command, None), os.environ).line(line)
    except (UnreadError, RecursionError):
        return [CommandRun((), line.lower())]
    return [run for command in commands for run in _of(command, depth=depth)]


def _of(command: Command, *, depth: int) -> Iterator[CommandRun]:
    truncates = tuple(word.text for word in command.truncates if not MARKS.intersection(word.text))
    try:
        words, _ = without_runners(command.words)
    except UnreadError:  # an option that is not known: any of the words may be the program
        yield CommandRun(
            tuple(map(name_of, command.words)), " ".join(word.text for word in command.words).lower(), truncates
        )
        return
    program, shell_words = (name_of(words[0]), words[1:]) if words else ("", words)
    if _explains(program, shell_words) or (
        _talks(program, shell_words) and not (command.feeds and program in TABLES.printers | {"cat"})
    ):
        folder = (
            shell_words[0].text
            if program in TABLES.going and shell_words and not MARKS.intersection(shell_words[0].text)
            else ""
        )
        yield CommandRun((), "", truncates, folder)
        return
    programs: tuple[str, ...] = (program,)
    if len(words) < len(command.words):  # `sudo -u ann rm x`: an option's value is not told from a program
        programs += tuple(map(name_of, shell_words))
    carries = program in _CARRIERS and depth < MAX_DEPTH
    inner = [word.text for word in shell_words if carries and _is_line(word)]
    texts = [word.text for word in words if word.text not in inner]
    yield CommandRun(programs, " ".join((*texts, *command.given)).lower(), truncates)
    for line in inner:
        yield from commands_run(line, depth + 1)
    if carries:  # `ssh host rm x`
        for at, word in enumerate(shell_words[:MAX_CARRIED]):
            if word.text[:1] != "-" and not _is_line(word):
                yield CommandRun((name_of(word),), " ".join(operand.text for operand in shell_words[at:]).lower())


def _is_line(word: ShellWord) -> bool:
    return any(mark in word.text for mark in " \n;|&>")


def _explains(program: str, shell_words: Sequence[ShellWord]) -> bool:
    words = [word.text for word in shell_words]
    options = words[: words.index("--")] if "--" in words else words
    if any(option.startswith(_EXPLAINS) for option in options):
        return True
    own = _REHEARSES.get(program)
    if own is None or (own and not set(own).intersection(words)):
        return False
    return any("n" in option for option in options if option[:1] == "-" and option[:2] != "--")


def _talks(program: str, shell_words: Sequence[ShellWord]) -> bool:
    """Whether the words of a program are only text: printed, searched for, read."""
    if program == "git":
        words = (word.text for word in shell_words)
        return next((word for word in words if word[:1] != "-"), "") in _GIT_TALKS
    return program in TABLES.printers or program in _TALKERS or only_reads(program, shell_words)
