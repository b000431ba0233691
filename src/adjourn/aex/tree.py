"""The lossless tree: every line of a text in exactly one node, nested as the bodies of `if` and `for` nest.

Must never: look inside a statement, raise on any text, take more than linear time.

`unparse(build(text)) == text`, always.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from adjourn.aex.diagnostics import finding
from adjourn.aex.expr import BLANK, Word, brace_balance
from adjourn.findings import MAX_DOCUMENT_BYTES, Finding, Span

MAX_LINES = 200_000
MAX_DEPTH = 64

V1_RULES = frozenset(("limit", "once", "checkpoint", "mode", "require"))
DECLARATIONS = V1_RULES | {"task", "agent", "policy", "goal", "use", "allow", "deny", "need", "budget"}
STEPS = frozenset(("do", "make", "check", "confirm", "return", "if", "for"))
SOMEBODY = "for somebody"
"""The kind of a `for` that names somebody (`for group:ops`) instead of a loop's variable."""
_WITH_BODY = ("if", "for", SOMEBODY)


class TreeNode(msgspec.Struct):
    """Lines `first` to `last` (0-based, inclusive) of a text; of an `if` or `for`, its own line and `children`.

    `kind` is the statement's keyword, `SOMEBODY`, or blank, comment or unknown. `closed` is False for a `return` block
    whose braces never balance.
    """

    kind: str
    first: int
    last: int
    children: list[TreeNode]
    closed: bool = True


class Tree(msgspec.Struct):
    """A text as lines without their LF, the nodes over them, and what is wrong with its shape.

    `looked_at` is False for a text beyond the bounds, which is one unknown node.
    """

    lines: list[str]
    nodes: list[TreeNode]
    findings: list[Finding]
    looked_at: bool = True

    def word(self, node: TreeNode) -> Word:
        """The node's first line without the blanks around it."""
        return line_word(self.lines[node.first], node.first)


def line_word(raw: str, index: int) -> Word:
    """A line (0-based index) without the blanks around it, placed."""
    body = raw.lstrip(BLANK)
    return Word(body.rstrip(BLANK), index + 1, len(raw) - len(body) + 1)


def walk(nodes: list[TreeNode]) -> Iterator[TreeNode]:
    """Every node, in the order of the text."""
    for node in nodes:
        yield node
        yield from walk(node.children)


def unparse(tree: Tree) -> str:
    r"""The text that the tree was built from, put together from its nodes.

    >>> text = "task greet v0  # comment\n"
    >>> unparse(parse(text).tree) == text
    True
    """
    lines: list[str] = []
    for node in walk(tree.nodes):
        lines += tree.lines[node.first : node.last + 1]
    return "\n".join(lines)


class _Body(msgspec.Struct):
    """An open `if` or `for`: how far it is indented itself, and its body (None until the first line of it)."""

    node: TreeNode
    opener: int
    indent: int | None = None


class _Builder:
    """One pass over the lines with a stack of open bodies. Blank and comment lines wait for the next statement,
    which decides whether they still belong to the body above them.
    """

    def __init__(self, lines: list[str], source: str) -> None:
        self.tree = Tree(lines, [], [])
        self.source = source
        self.stack: list[_Body] = []
        self.waiting: list[TreeNode] = []

    def build(self) -> Tree:
        lines = self.tree.lines
        at = 0
        while at < len(lines):
            body = lines[at].strip(BLANK)
            if not body or body[0] == "#":
                self.wait("comment" if body else "blank", at)
                at += 1
            else:
                at = self.statement(at, body)
        while self.stack:
            indent = self.stack[-1].indent
            if indent is None:
                self.close()
            else:
                self.flush(self.inside(indent))
                self.stack.pop()
        self.flush(len(self.waiting))
        return self.tree

    def wait(self, kind: str, at: int) -> None:
        last = self.waiting[-1] if self.waiting else None
        if kind == "blank" and last is not None and last.kind == "blank":
            last.last = at
        else:
            self.waiting.append(TreeNode(kind, at, at, []))

    def statement(self, at: int, body: str) -> int:
        indent = self.indent(at)
        self.settle(at, indent)
        self.flush(len(self.waiting))
        kind = _keyword(body, nested=bool(self.stack) and self.stack[-1].node.kind != SOMEBODY)
        node = TreeNode(kind, at, at, [])
        if kind == "make":
            node.last = self.items(at + 1)
        elif kind == "return":
            self.braces(node, body)
        self.siblings().append(node)
        if kind in _WITH_BODY:
            self.open(node, indent)
        return node.last + 1

    def indent(self, at: int) -> int:
        raw = self.tree.lines[at]
        return len(raw) - len(raw.lstrip(BLANK))

    def siblings(self) -> list[TreeNode]:
        return self.stack[-1].node.children if self.stack else self.tree.nodes

    def open(self, node: TreeNode, indent: int) -> None:
        if len(self.stack) < MAX_DEPTH:
            self.stack.append(_Body(node, indent))
            return
        message = f"bodies are nested deeper than {MAX_DEPTH}"
        self.report("AEX133", message, node.first)

    def settle(self, at: int, indent: int) -> None:
        """Close the bodies that the line at `at` is outside of, and start the one that it is the first line of."""
        if self.stack and self.stack[-1].indent is None:
            if indent > self.stack[-1].opener:
                self.stack[-1].indent = indent
            else:
                self.close()
        between = False
        while self.stack and indent < (self.stack[-1].indent or 0):
            self.flush(self.inside(self.stack[-1].indent or 0))
            between = between or indent > self.stack[-1].opener
            self.stack.pop()
        if between:
            message = "the line is indented between the body above it and the line that opens that body"
            self.report("AEX040", message, at)

    def close(self) -> None:
        opened = self.stack.pop().node
        self.report("AEX048", f"`{opened.kind.partition(' ')[0]}` has no body", opened.first)

    def inside(self, indent: int) -> int:
        """How many of the waiting lines belong to a body that ends: up to its last comment."""
        count = len(self.waiting)
        while count:
            node = self.waiting[count - 1]
            if node.kind == "comment" and self.indent(node.first) >= indent:
                break
            count -= 1
        return count

    def flush(self, count: int) -> None:
        if count:
            self.siblings().extend(self.waiting[:count])
            del self.waiting[:count]

    def ends_body(self, at: int) -> bool:
        """Whether this line, not blank and no comment, stands outside the innermost body."""
        return bool(self.stack) and self.indent(at) < (self.stack[-1].indent or 0)

    def items(self, at: int) -> int:
        """The last line of the items of a `make` that start at `at`, or the line before."""
        lines = self.tree.lines
        while at < len(lines) and lines[at].lstrip(BLANK)[:1] == "-" and not self.ends_body(at):
            at += 1
        return at - 1

    def braces(self, node: TreeNode, body: str) -> None:
        """Extend a `return` that opens a block to the line where its braces balance."""
        balance = brace_balance(body)
        if balance <= 0 or body.endswith("}"):
            return
        lines = self.tree.lines
        for at in range(node.first + 1, len(lines)):
            text = lines[at].strip(BLANK)
            if text and text[0] != "#" and self.ends_body(at):
                break
            node.last = at
            balance += brace_balance(lines[at])
            if balance <= 0:
                return
        node.closed = False

    def report(self, code: str, message: str, at: int) -> None:
        word = line_word(self.tree.lines[at], at)
        self.tree.findings.append(finding(code, message, word.span, source=self.source))


def _keyword(body: str, *, nested: bool) -> str:
    word, blank, text = body.partition(" ")
    if not blank:
        return "if" if word == "if" else "unknown"
    if word == "confirm" and not text.startswith("before "):
        return "unknown"
    first, colon, _ = text.lstrip(BLANK + ",").partition(":")
    if word == "for" and not nested and colon and set(first).isdisjoint(BLANK + ","):
        return SOMEBODY
    if word in STEPS or (word in DECLARATIONS and not nested):
        return word
    return "unknown"


def build(text: str, source: str = "") -> Tree:
    """The tree of any text. One that is too large becomes a single unknown node and a finding."""
    lines = text.split("\n")
    if (
        len(text) > MAX_DOCUMENT_BYTES
        or len(lines) > MAX_LINES
        or len(text.encode("utf-8", "replace")) > MAX_DOCUMENT_BYTES
    ):
        message = f"the document has {len(text)} characters in {len(lines)} lines"
        mixed = finding("AEX131", message, Span(), source=source)
        return Tree([text], [TreeNode("unknown", 0, 0, [])], [mixed], looked_at=False)
    return _Builder(lines, source).build()
