"""The contract language: texts that say what an agent may do, what is to be reached, and by which steps.

Owns: parsing, checking, pattern matching, permissions and their merge. Must never: know a store, a session or a
wire; read anything but the file it is given.

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
        Permission,
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
    from adjourn.aex.json_policy import read_json_policy
    from adjourn.aex.layers import discover, effective, from_text, layer, merge, not_granted, read_layer
    from adjourn.aex.match import fold, glob_path, glob_text, matches, split_scope, tool_name_ok
    from adjourn.aex.own_tools import OWN_TOOLS, names_own, shares
    from adjourn.aex.parser import parse
    from adjourn.aex.policy import Policy
    from adjourn.aex.reports import github, sarif
    from adjourn.aex.rule import Rule, RuleVerdict
    from adjourn.aex.rule_names import unmatched_rules
    from adjourn.aex.seal import MAX_SEAL_BYTES, PublishedSeal, Seal
    from adjourn.aex.servers import (
        NOTHING_KNOWN,
        KnownTool,
        KnownTools,
        as_client_names_it,
        canonical_server,
    )
    from adjourn.aex.shape import DoModel, ForModel, IfModel, MakeModel, ReturnModel, StepModel, model
    from adjourn.aex.task_review import Review, refused_of, review, reviewed
    from adjourn.aex.templates import safe_name, sample_task
    from adjourn.aex.text import BLANK, Word
    from adjourn.aex.tree import MAX_DOCUMENT_BYTES, unparse
    from adjourn.aex.types import check_inputs, is_of, known_type
    from adjourn.aex.where import PathMatcher, values_at
    from adjourn.aex.whom import Asker, narrowed

__all__ = [
    "BLANK", "DIAGNOSTICS", "MAX_DOCUMENT_BYTES", "MAX_SEAL_BYTES", "NOTHING_KNOWN", "OWN_TOOLS", "Asker", "CallQuery",
    "CheckStep", "Condition", "ConfirmStep", "Constant", "Diagnostic", "DoModel", "DoStep", "Document",
    "Explanation", "ForModel", "ForStep", "IfModel", "IfStep", "KnownTool", "KnownTools", "ListOf",
    "MakeModel", "MakeStep", "Name", "ObjectEntry", "ObjectOf", "PathMatcher", "Permission", "Permissions", "Policy",
    "PublishedSeal", "ReturnModel", "ReturnStep", "Review", "Rule", "RuleVerdict", "Seal", "Statement",
    "StepModel", "Text", "Value", "Word", "as_client_names_it", "canonical_server", "check_inputs",
    "classify", "compiled", "decoded", "discover", "effective", "examine", "explain", "finding", "fold",
    "formatted", "from_text", "github", "glob_path", "glob_text", "is_of", "known_type",
    "layer", "load", "matches", "merge", "model", "names_own", "narrowed", "not_granted", "parse", "parse_condition", "read_json_policy",
    "read_layer", "refused_of", "render", "review", "reviewed", "safe_name", "sample_task", "sarif",
    "shares", "split_scope", "steps_of", "summary", "tool_name_ok", "unmatched_rules", "unparse", "values_at",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(__name__, {
        "ast": (
            "CheckStep", "ConfirmStep", "DoStep", "Document", "ForStep", "IfStep", "MakeStep", "Permission", "ReturnStep",
            "Statement", "steps_of",
        ),
        "check": ("examine",),
        "classification": ("classify",),
        "conditions": ("Condition", "parse_condition"),
        "diagnostics": ("DIAGNOSTICS", "Diagnostic", "finding", "render", "summary"),
        "explanation": ("CallQuery", "Explanation", "explain"),
        "expr": ("Constant", "ListOf", "Name", "ObjectEntry", "ObjectOf", "Text", "Value"),
        "files": ("decoded", "load"),
        "format": ("formatted",),
        "ir": ("Permissions", "compiled"),
        "json_policy": ("read_json_policy",),
        "layers": ("discover", "effective", "from_text", "layer", "merge", "not_granted", "read_layer"),
        "match": ("fold", "glob_path", "glob_text", "matches", "split_scope", "tool_name_ok"),
        "own_tools": ("OWN_TOOLS", "names_own", "shares"),
        "parser": ("parse",),
        "policy": ("Policy",),
        "reports": ("github", "sarif"),
        "rule": ("Rule", "RuleVerdict"),
        "rule_names": ("unmatched_rules",),
        "seal": ("MAX_SEAL_BYTES", "PublishedSeal", "Seal"),
        "servers": (
            "KnownTool", "KnownTools", "NOTHING_KNOWN", "as_client_names_it", "canonical_server",
        ),
        "shape": ("DoModel", "ForModel", "IfModel", "MakeModel", "ReturnModel", "StepModel", "model"),
        "task_review": ("Review", "refused_of", "review", "reviewed"),
        "templates": ("safe_name", "sample_task"),
        "text": ("BLANK", "Word"),
        "tree": ("MAX_DOCUMENT_BYTES", "unparse"),
        "types": ("check_inputs", "is_of", "known_type"),
        "where": ("PathMatcher", "values_at"),
        "whom": ("Asker", "narrowed"),
    })  # fmt: skip
