"""The contract language: texts that say what an agent may do, what is to be reached, and by which steps.

Owns: parsing, checking, pattern matching, permissions and their merge. Must never: know a store, a session or a
wire; read anything but the file it is told to.

A text becomes a lossless tree (`tree`), then a document (`ast`, by `parser`), then findings (`check`) and
permissions (`policy`). Names here are loaded when they are first used.
"""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.aex.ast import Check, Confirm, Do, Document, For, If, Make, Return, Step, steps_of
    from adjourn.aex.check import examine
    from adjourn.aex.conditions import Condition, parse_condition
    from adjourn.aex.diagnostics import DIAGNOSTICS, Diagnostic, finding, render, summary
    from adjourn.aex.explain import Call, Explanation
    from adjourn.aex.expr import Constant, Entry, ListOf, Name, ObjectOf, Text, Value
    from adjourn.aex.files import decoded, load
    from adjourn.aex.format import formatted
    from adjourn.aex.ir import Permissions, compiled
    from adjourn.aex.match import glob_path, glob_text, split_scope, tool_name_ok
    from adjourn.aex.parser import parse
    from adjourn.aex.policy import discover, effective, from_text, layer, merge, not_granted, read_layer
    from adjourn.aex.reports import github, sarif
    from adjourn.aex.review import Review, refused_of, reviewed
    from adjourn.aex.rules import Policy, Rule, Verdict
    from adjourn.aex.seal import PublishedSeal, Seal
    from adjourn.aex.shape import DoModel, ForModel, IfModel, MakeModel, ReturnModel, StepModel, model
    from adjourn.aex.templates import safe_name, sample_task
    from adjourn.aex.text import BLANK, Word
    from adjourn.aex.tree import unparse
    from adjourn.aex.types import check_inputs, is_of, known_type
    from adjourn.aex.where import PathMatcher, values_at

__all__ = [
    "BLANK",
    "DIAGNOSTICS",
    "Call",
    "Check",
    "Condition",
    "Confirm",
    "Constant",
    "Diagnostic",
    "Do",
    "DoModel",
    "Document",
    "Entry",
    "Explanation",
    "For",
    "ForModel",
    "If",
    "IfModel",
    "ListOf",
    "Make",
    "MakeModel",
    "Name",
    "ObjectOf",
    "PathMatcher",
    "Permissions",
    "Policy",
    "PublishedSeal",
    "Return",
    "ReturnModel",
    "Review",
    "Rule",
    "Seal",
    "Step",
    "StepModel",
    "Text",
    "Value",
    "Verdict",
    "Word",
    "check_inputs",
    "compiled",
    "decoded",
    "discover",
    "effective",
    "examine",
    "finding",
    "formatted",
    "from_text",
    "github",
    "glob_path",
    "glob_text",
    "is_of",
    "known_type",
    "layer",
    "load",
    "merge",
    "model",
    "not_granted",
    "parse",
    "parse_condition",
    "read_layer",
    "refused_of",
    "render",
    "reviewed",
    "safe_name",
    "sample_task",
    "sarif",
    "split_scope",
    "steps_of",
    "summary",
    "tool_name_ok",
    "unparse",
    "values_at",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "BLANK": "text",
            "Call": "explain",
            "Check": "ast",
            "Condition": "conditions",
            "Confirm": "ast",
            "Constant": "expr",
            "DIAGNOSTICS": "diagnostics",
            "Diagnostic": "diagnostics",
            "Do": "ast",
            "DoModel": "shape",
            "Document": "ast",
            "Entry": "expr",
            "Explanation": "explain",
            "For": "ast",
            "ForModel": "shape",
            "If": "ast",
            "IfModel": "shape",
            "ListOf": "expr",
            "Make": "ast",
            "MakeModel": "shape",
            "Name": "expr",
            "ObjectOf": "expr",
            "PathMatcher": "where",
            "Permissions": "ir",
            "Policy": "rules",
            "PublishedSeal": "seal",
            "Return": "ast",
            "ReturnModel": "shape",
            "Review": "review",
            "Rule": "rules",
            "Seal": "seal",
            "Step": "ast",
            "StepModel": "shape",
            "Text": "expr",
            "Value": "expr",
            "Verdict": "rules",
            "Word": "text",
            "check_inputs": "types",
            "compiled": "ir",
            "decoded": "files",
            "discover": "policy",
            "effective": "policy",
            "examine": "check",
            "finding": "diagnostics",
            "formatted": "format",
            "from_text": "policy",
            "github": "reports",
            "glob_path": "match",
            "glob_text": "match",
            "is_of": "types",
            "known_type": "types",
            "layer": "policy",
            "load": "files",
            "merge": "policy",
            "model": "shape",
            "not_granted": "policy",
            "parse": "parser",
            "parse_condition": "conditions",
            "read_layer": "policy",
            "refused_of": "review",
            "render": "diagnostics",
            "reviewed": "review",
            "safe_name": "templates",
            "sample_task": "templates",
            "sarif": "reports",
            "split_scope": "match",
            "steps_of": "ast",
            "summary": "diagnostics",
            "tool_name_ok": "match",
            "unparse": "tree",
            "values_at": "where",
        },
    )
