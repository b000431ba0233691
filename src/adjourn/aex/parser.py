"""Text to document: each node of the tree read as the statement it starts.

Must never: raise on any text, judge what a well-formed document means (that is `check`), do I/O.
"""

from __future__ import annotations

from collections.abc import Callable

from adjourn.aex.ast import (
    CheckStep,
    Document,
    DoStep,
    ForStep,
    Header,
    IfStep,
    MakeStep,
    Need,
    ReturnStep,
    RuleBlock,
    Statement,
)
from adjourn.aex.clauses import Report
from adjourn.aex.diagnostics import finding, quoted
from adjourn.aex.expr import (
    BIND,
    BLANK,
    LOOP_NAME,
    NAME,
    TOOL,
    VERSION,
    Word,
    arguments,
    comma_list,
    only,
    parse_value,
    run,
)
from adjourn.aex.rule_lines import NAME_OF_SOMEBODY, V1_READERS, needs_v1, read_budget, read_confirm, read_permission
from adjourn.aex.suggestions import FORMS, HEADERS, keyword_meant, line_help
from adjourn.aex.tree import DECLARATIONS, SOMEBODY, STEPS, V1_RULES, Tree, TreeNode, build
from adjourn.findings import Finding
from adjourn.text.near_words import nearest

IN_BLOCKS = ("allow", "use", "deny", "confirm", "limit", "budget")
"""What may hold only for somebody."""
_GOAL = 'write: goal "the result to reach"'


def parse(text: str, source: str = "") -> Document:
    r"""The document that a text holds, with the findings of the parser in the order of the text. Never raises.

    >>> parse("task greet v0\ngoal \"Say hello\"\nuse mail.send\n").name
    'greet'
    """
    tree = build(text, source)
    document = Document(source, tree)
    document.findings += tree.findings
    if tree.looked_at:
        _Parser(document, tree).read()
        document.findings.sort(key=_position)
    return document


def _position(finding: Finding) -> tuple[bool, int]:
    return finding.span.line == 0, finding.span.line


class _Parser:
    """Fills one document from its tree. A statement that cannot be read leaves a finding and nothing else."""

    def __init__(self, document: Document, tree: Tree) -> None:
        self.document = document
        self.tree = tree
        kinds = {node.kind for node in tree.nodes}
        self.meant = {} if kinds.intersection(HEADERS) else self.mistyped_header()
        self.policy = document.is_policy = "policy" in kinds or "policy" in self.meant.values()
        document.has_kind = bool(self.meant or kinds & {*HEADERS, *STEPS - {"confirm"}, "need", "use"})
        headers = [
            header
            for node in tree.nodes
            if node.kind in HEADERS or node.first in self.meant
            if (header := _header(tree.word(node), self.meant.get(node.first, "")))
        ]
        document.headers += headers

    def mistyped_header(self) -> dict[int, str]:
        """The line (0-based) of a header with a typing error, and the keyword that it means."""
        for node in self.tree.nodes:
            if node.kind == "unknown":
                word = self.tree.word(node)
                meant = nearest(word.text.partition(" ")[0], HEADERS)
                if meant and _header(word, meant):
                    return {node.first: meant}
            if node.kind not in ("blank", "comment"):
                break
        return {}

    def read(self) -> None:
        document = self.document
        for node in self.tree.nodes:
            if node.kind in STEPS:
                self.top_step(node)
            elif node.kind not in ("blank", "comment"):
                self.declaration(node, self.tree.word(node))
        if not document.headers and not document.has_bad_header:
            remedy = "start with `policy NAME v0` or `task NAME v0`"
            self.report("AEX100", "missing task or policy declaration", None, remedy)
        if not document.goals and not document.has_bad_goal and not document.may_lack_goal:
            self.report("AEX100", "missing goal", None, _GOAL)

    def report(self, code: str, message: str, word: Word | None, help: str = "") -> None:  # noqa: A002 - as `finding`
        document = self.document
        if word is None:
            document.findings.append(finding(code, message, source=document.source, help=help))
        else:
            document.findings.append(finding(code, message, word.span, source=document.source, help=help))

    # Declarations

    def declaration(self, node: TreeNode, word: Word) -> None:
        if node.kind in HEADERS:
            self.header(word)
        elif node.kind == "goal":
            self.goal(word)
        elif node.kind in ("use", "allow", "deny"):
            self.permission(node.kind, word)
        elif node.kind == "need":
            self.need(word)
        elif node.kind == "budget":
            read_budget(self.document, word, self.report)
        elif node.kind in V1_RULES:
            V1_READERS[node.kind](self.document, word, self.report)
        elif node.kind == SOMEBODY:
            self.block(node, word)
        else:
            self.unknown(word)

    def block(self, node: TreeNode, word: Word) -> None:
        """Rules that hold only for somebody."""
        document = self.document
        if not self.policy:
            remedy = "write `for NAME in LIST`, or move rules for somebody to the policy"
            self.report("AEX100", f"invalid for: {quoted(word.text)}", word, remedy)
            return
        needs_v1(document, "for", word, self.report)
        rules = Document(document.source, Tree([], [], []), is_policy=True, headers=document.headers)
        document.blocks.append(RuleBlock(word, read_whom(word, self.report), rules))
        for child in node.children:
            if child.kind not in ("blank", "comment"):
                self.rule_of_block(child, rules)

    def rule_of_block(self, node: TreeNode, rules: Document) -> None:
        word = self.tree.word(node)
        if node.kind in ("use", "allow", "deny"):
            read_permission(rules, node.kind, word, self.report)
        elif node.kind == "confirm":
            rules.steps.append(read_confirm(rules, word, self.report))
        elif node.kind == "budget":
            read_budget(rules, word, self.report)
        elif node.kind == "limit":
            V1_READERS["limit"](rules, word, self.report)
        elif node.kind == "unknown":
            self.unknown(word)
        else:
            keyword = word.text.partition(" ")[0]
            remedy = f"a `for` holds {', '.join(IN_BLOCKS)}; what holds for all is at the top level"
            self.report("AEX100", f"`{keyword}` inside a `for` of a policy", word, remedy)

    def unknown(self, word: Word, *, nested: bool = False) -> None:
        keyword = word.text.partition(" ")[0]
        if nested and keyword in DECLARATIONS:
            self.report("AEX100", f"`{keyword}` inside a body", word, "move the line to the top level")
            return
        newer = any(header.version != "0" for header in self.document.headers)
        words = STEPS if nested else STEPS | DECLARATIONS
        remedy = ""
        if self.document.may_guess():
            meant = keyword_meant(word.text, words, policy=self.policy)
            self.document.has_bad_goal |= meant == "goal"
            self.document.has_bad_header |= meant in HEADERS
            remedy = line_help(word.text, words if newer else words - V1_RULES, policy=self.policy)
        self.report("AEX100", f"unrecognized line: {quoted(word.text)}", word, remedy)

    def header(self, word: Word) -> None:
        if _header(word) is None:
            kind = word.text.partition(" ")[0]
            message = f"invalid {kind} declaration: {quoted(word.text)}"
            self.document.has_bad_header = True
            self.report("AEX100", message, word, f"write `{FORMS[kind]}`; a name is letters, digits, `_` and `-`")

    def goal(self, word: Word) -> None:
        text = word.text
        start = run(text, len("goal"), BLANK)
        if text[start : start + 1] == '"' and len(text) > start + 1 and text[-1] == '"':
            self.document.goals.append(word.part(start + 1, len(text) - 1))
        else:
            self.document.has_bad_goal = True
            self.report("AEX100", "goal is not a quoted string", word, _GOAL)

    def permission(self, keyword: str, word: Word) -> None:
        if keyword == "allow" and not self.policy:
            if self.document.has_kind:
                self.report("AEX121", "`allow` is for policies; a task requests tools with `use`", word)
            return
        read_permission(self.document, keyword, word, self.report)

    def need(self, word: Word) -> None:
        if self.policy:
            self.refuse(word)
            return
        text = word.text
        start = run(text, len("need"), BLANK)
        end = run(text, start, BIND)
        colon = run(text, end, BLANK)
        type_word = word.strip(colon + 1)
        if start == end or text[colon : colon + 1] != ":" or not type_word.text:
            self.report("AEX100", f"invalid need: {quoted(text)}", word, "write `need NAME: TYPE`")
        else:
            self.document.needs.append(Need(word.part(start, end), type_word))

    def refuse(self, word: Word) -> None:
        keyword = word.text.partition(" ")[0]
        self.report("AEX120", f"a policy cannot contain `{keyword}`", word)

    # Steps

    def top_step(self, node: TreeNode) -> None:
        word = self.tree.word(node)
        if self.policy and node.kind == "for" and " in " not in word.text:
            if read_whom(word, self.report):
                self.refuse(word)
        elif self.policy and node.kind != "confirm":
            self.refuse(word)
        else:
            self.document.steps += self.steps([node])

    def steps(self, nodes: list[TreeNode]) -> list[Statement]:
        statements: list[Statement] = []
        for node in nodes:
            if node.kind in ("blank", "comment"):
                continue
            word = self.tree.word(node)
            reader = _STEPS.get(node.kind)
            if reader is None:
                self.unknown(word, nested=True)
                continue
            step = reader(self, node, word)
            if step is not None:
                statements.append(step)
        return statements

    def do(self, _node: TreeNode, word: Word) -> Statement | None:
        text = word.text
        start = run(text, len("do"), BLANK)
        end = run(text, start, TOOL)
        opening = run(text, end, BLANK)
        closing = text.rfind(")")
        bind = _bind(word, closing + 1)
        if start == end or text[opening : opening + 1] != "(" or closing < opening or bind is None:
            hint = "write `do TOOL(name=value, …) -> NAME`; a tool is letters, digits, `.` and `_`"
            self.report("AEX100", f"invalid do: {quoted(text)}", word, hint)
            return None
        args = word.part(opening + 1, closing)
        return DoStep(word, word.part(start, end), arguments(args), args, bind if bind.text else None)

    def make(self, node: TreeNode, word: Word) -> Statement | None:
        text = word.text
        start = run(text, len("make"), BLANK)
        bind = run(text, start, BIND)
        colon = run(text, bind, BLANK)
        kind = run(text, colon + 1, BLANK)
        kind_end = run(text, kind, BIND)
        source = run(text, kind_end, BLANK)
        inputs = source + len("from")
        end = _with(text)
        if (
            bind == start
            or text[colon : colon + 1] != ":"
            or kind_end in (kind, source)
            or text[source:inputs] != "from"
            or end <= run(text, inputs, BLANK)
            or run(text, inputs, BLANK) == inputs
        ):
            self.report("AEX100", f"invalid make: {quoted(text)}", word, "write `make NAME: TYPE from a, b with:`")
            return None
        names = comma_list(word.part(0, end), inputs)
        return MakeStep(word, word.part(start, bind), word.part(kind, kind_end), names, self.items(node))

    def items(self, node: TreeNode) -> list[Word]:
        items = []
        for index in range(node.first + 1, node.last + 1):
            raw = self.tree.lines[index]
            start = run(raw, 0, BLANK)
            start = run(raw, start, "-" + BLANK)
            items.append(Word(raw[start:].rstrip(BLANK), index + 1, start + 1))
        return items

    def check(self, _node: TreeNode, word: Word) -> Statement:
        return CheckStep(word, word.strip(len("check ")))

    def confirm(self, _node: TreeNode, word: Word) -> Statement:
        return read_confirm(self.document, word, self.report)

    def give(self, node: TreeNode, word: Word) -> Statement | None:
        if not node.closed:
            self.report("AEX100", "return block is not closed", word, "balance the braces")
            return None
        expression = word.strip(len("return "))
        if node.last > node.first:
            texts = [line.removesuffix("\r") for line in self.tree.lines[node.first + 1 : node.last + 1]]
            text = "\n".join([expression.text, *texts]).rstrip(BLANK)
            expression = Word(text, expression.line, expression.column)
        return ReturnStep(word, expression, parse_value(expression), node.last + 1)

    def branch(self, node: TreeNode, word: Word) -> Statement:
        condition = word.strip(len("if"))
        if not condition.text:
            self.report("AEX100", "if without condition", word, "write `if CONDITION`")
        return IfStep(word, condition, self.steps(node.children))

    def loop(self, node: TreeNode, word: Word) -> Statement | None:
        body = self.steps(node.children)
        text = word.text
        start = run(text, len("for"), BLANK)
        end = run(text, start, LOOP_NAME)
        keyword = run(text, end, BLANK)
        after = run(text, keyword + len("in"), BLANK)
        if end in (start, keyword) or text[keyword : keyword + 2] != "in" or after == keyword + 2:
            self.report("AEX100", f"invalid for: {quoted(text)}", word, "write `for NAME in LIST`")
            return None
        iterable = word.part(after, len(text))
        return ForStep(word, word.part(start, end), iterable, parse_value(iterable), body)


_STEPS: dict[str, Callable[[_Parser, TreeNode, Word], Statement | None]] = {
    "do": _Parser.do,
    "make": _Parser.make,
    "check": _Parser.check,
    "confirm": _Parser.confirm,
    "return": _Parser.give,
    "if": _Parser.branch,
    "for": _Parser.loop,
}


def _header(word: Word, meant: str = "") -> Header | None:
    """The header that a line holds. `meant` is the keyword that its first word stands for."""
    text = word.text
    written = text.partition(" ")[0]
    kind = meant or written
    start = run(text, len(written), BLANK)
    end = run(text, start, NAME)
    version = run(text, end, BLANK)
    if end in (start, version) or text[version : version + 1] != "v" or not only(text[version + 1 :], VERSION):
        return None
    return Header(kind, word.part(start, end), text[version + 1 :], word)


def _bind(word: Word, start: int) -> Word | None:
    """The name after `->` in the rest of a `do`; an empty piece when there is no rest, None when it is wrong."""
    rest = word.strip(start)
    if not rest.text:
        return rest
    if not rest.text.startswith("->"):
        return None
    bind = rest.strip(len("->"))
    return bind if only(bind.text, BIND) else None


def _with(text: str) -> int:
    """Where the inputs of a `make` end: before its final ` with` or ` with:`; 0 when there is none."""
    word = text.removesuffix(":").rstrip(BLANK)
    if not word.endswith("with"):
        return 0
    head = word[: -len("with")]
    return len(head.rstrip(BLANK)) if head and head[-1] in BLANK else 0


# --- the line that opens rules for somebody

KINDS = ("user", "group", "service", "client")
MAX_NAME = 200
MAX_WHOM = 100
"""Names behind one `for`."""
_SYNONYMS = {
    word: kind
    for kind, words in {
        "user": "human person people users member",
        "group": "groups team teams role roles org",
        "service": "bot agent machine robot app key account services",
        "client": "editor ide clients",
    }.items()
    for word in words.split()
}


def read_whom(word: Word, report: Report) -> list[Word]:
    """The names behind `for`. Empty, with a finding, if one of them cannot be read: what restricts then holds for all."""
    names = comma_list(word, len("for "))
    if not names:
        report("AEX146", "`for` names nobody", word, "")
    elif len(names) > MAX_WHOM:
        report("AEX146", f"`for` has more than {MAX_WHOM} names", word, "name a group")
        return []
    wrong = [name for name in names if not _is_read(name, report)]
    return [] if wrong else names


def _is_read(name: Word, report: Report) -> bool:
    kind, colon, text = name.text.partition(":")
    first, blank, rule = text.partition(" ")
    if kind in KINDS and only(text, NAME_OF_SOMEBODY) and all(text.split(":")) and len(text) <= MAX_NAME:
        return True
    kind = kind.rpartition(" ")[2]
    if kind in KINDS and blank and only(first, NAME_OF_SOMEBODY):
        remedy = f"put `{rule.strip(BLANK)[:40]}` in the next line, indented; separate names by commas"
    elif kind in KINDS and text == "*":
        remedy = "leave out the `for`: a rule without one holds for all"
    elif kind in KINDS and text.strip(":"):
        remedy = f"did you mean {kind}:{text.strip(':')[:40]}?"
    elif not colon:
        remedy = f"write {', '.join(f'`for {each}:{kind[:40]}`' for each in KINDS)}"
    elif meant := nearest(kind, KINDS, _SYNONYMS):
        remedy = f"did you mean {meant}:{text[:40]}?"
    else:
        remedy = ""
    report("AEX146", f"{quoted(name.text)} names nobody", name, remedy)
    return False
