"""The contract language: texts that say what an agent may do, what is to be reached, and by which steps.

Owns: parsing, checking, pattern matching, permissions and their merge. Must never: know a store, a session or a
wire; read anything but the file it is told to.

A text becomes a lossless tree (`tree`), then a document (`ast`, by `parser`), then findings (`check`) and
permissions (`layers`). Names here are loaded when they are first used.
"""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.aex.ast import (
        CheckStep,
        ConfirmStep,
        Document,
        DoStep,
        ForStep,
        IfStep,
        MakeStep,
        ReturnStep,
        Statement,
        steps_of,
    )
    from adjourn.aex.check import examine
    from adjourn.aex.classification import classify
    from adjourn.aex.conditions import Condition, parse_condition
    from adjourn.aex.diagnostics import DIAGNOSTICS, Diagnostic, finding, render, summary
    from adjourn.aex.explanation import CallQuery, Explanation, explain
    from adjourn.aex.expr import Constant, ListOf, Name, ObjectEntry, ObjectOf, Text, Value
    from adjourn.aex.files import decoded, load
    from adjourn.aex.format import formatted
    from adjourn.aex.ir import Permissions, compiled
    from adjourn.aex.layers import discover, effective, from_text, layer, merge, not_granted, read_layer
    from adjourn.aex.match import glob_path, glob_text, split_scope, tool_name_ok
    from adjourn.aex.parser import parse
    from adjourn.aex.policy import Policy
    from adjourn.aex.reports import github, sarif
    from adjourn.aex.rule import Rule, RuleVerdict
    from adjourn.aex.seal import MAX_SEAL_BYTES, PublishedSeal, Seal
    from adjourn.aex.shape import DoModel, ForModel, IfModel, MakeModel, ReturnModel, StepModel, model
    from adjourn.aex.task_review import Review, refused_of, review, reviewed
    from adjourn.aex.templates import safe_name, sample_task
    from adjourn.aex.text import BLANK, Word
    from adjourn.aex.tree import MAX_DOCUMENT_BYTES, unparse
    from adjourn.aex.types import check_inputs, is_of, known_type
    from adjourn.aex.where import PathMatcher, values_at

__all__ = [
    "BLANK",
    "DIAGNOSTICS",
    "MAX_DOCUMENT_BYTES",
    "MAX_SEAL_BYTES",
    "CallQuery",
    "CheckStep",
    "Condition",
    "ConfirmStep",
    "Constant",
    "Diagnostic",
    "DoModel",
    "DoStep",
    "Document",
    "Explanation",
    "ForModel",
    "ForStep",
    "IfModel",
    "IfStep",
    "ListOf",
    "MakeModel",
    "MakeStep",
    "Name",
    "ObjectEntry",
    "ObjectOf",
    "PathMatcher",
    "Permissions",
    "Policy",
    "PublishedSeal",
    "ReturnModel",
    "ReturnStep",
    "Review",
    "Rule",
    "RuleVerdict",
    "Seal",
    "Statement",
    "StepModel",
    "Text",
    "Value",
    "Word",
    "check_inputs",
    "classify",
    "compiled",
    "decoded",
    "discover",
    "effective",
    "examine",
    "explain",
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
    "review",
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
            "CallQuery": "explanation",
            "CheckStep": "ast",
            "Condition": "conditions",
            "ConfirmStep": "ast",
            "Constant": "expr",
            "DIAGNOSTICS": "diagnostics",
            "Diagnostic": "diagnostics",
            "DoModel": "shape",
            "DoStep": "ast",
            "Document": "ast",
            "Explanation": "explanation",
            "ForModel": "shape",
            "ForStep": "ast",
            "IfModel": "shape",
            "IfStep": "ast",
            "ListOf": "expr",
            "MAX_DOCUMENT_BYTES": "tree",
            "MAX_SEAL_BYTES": "seal",
            "MakeModel": "shape",
            "MakeStep": "ast",
            "Name": "expr",
            "ObjectEntry": "expr",
            "ObjectOf": "expr",
            "PathMatcher": "where",
            "Permissions": "ir",
            "Policy": "policy",
            "PublishedSeal": "seal",
            "ReturnModel": "shape",
            "ReturnStep": "ast",
            "Review": "task_review",
            "Rule": "rule",
            "RuleVerdict": "rule",
            "Seal": "seal",
            "Statement": "ast",
            "StepModel": "shape",
            "Text": "expr",
            "Value": "expr",
            "Word": "text",
            "check_inputs": "types",
            "classify": "classification",
            "compiled": "ir",
            "decoded": "files",
            "discover": "layers",
            "effective": "layers",
            "examine": "check",
            "explain": "explanation",
            "finding": "diagnostics",
            "formatted": "format",
            "from_text": "layers",
            "github": "reports",
            "glob_path": "match",
            "glob_text": "match",
            "is_of": "types",
            "known_type": "types",
            "layer": "layers",
            "load": "files",
            "merge": "layers",
            "model": "shape",
            "not_granted": "layers",
            "parse": "parser",
            "parse_condition": "conditions",
            "read_layer": "layers",
            "refused_of": "task_review",
            "render": "diagnostics",
            "review": "task_review",
            "reviewed": "task_review",
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
