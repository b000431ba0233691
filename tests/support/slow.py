"""Which tests are left to `make test-all`: those that take minutes, or need what few machines have.

Owns: the list, by module. Single tests of other modules have the mark `slow`; those that need the fixture `browser` get it.
Must never: hold what no other test checks in short form.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

FIXTURES: Final = frozenset({"browser"})
MODULES: Final = {
    "kills and races, many times": {
        "test_code_kill", "test_cognition_kill", "test_effects_kill", "test_graph_kill", "test_import_kill", "test_kills", "test_proxy_end_kill",
        "test_proxy_kill", "test_proxy_kill_points", "test_run_kill", "test_serve_kill", "test_serve_kill_requests",
        "test_store_crash", "test_workspace_kill",
    },
    "replicas and standbys of servers": {"test_failover", "test_replicas"},
    "official suites of conformance": {"test_conformance", "test_conformance_client"},
    "real clients, servers and language servers": {
        "test_agent_sdk", "test_code_language_servers", "test_code_real_client", "test_code_symbols", "test_editors", "test_first_day",
        "test_real_clients", "test_real_continuing", "test_real_servers", "test_real_transcripts",
        "test_serve_clients",
    },
    "what is released and deployed": {"test_ci", "test_deploy", "test_deploy_replicas", "test_dist", "test_release_workflow", "test_wheel"},
    "demonstrations": {"test_ui_tour", "test_ui_week"},
    "the code server in real repositories; test_code_server has its published behaviour": {
        "test_code_any_repository", "test_code_calls", "test_code_checks", "test_code_damaged", "test_code_finding",
        "test_code_git", "test_code_git_hostile", "test_code_hostile", "test_code_index",
        "test_code_merging_hostile", "test_code_phases", "test_code_sessions",
    },
    "commands at terminals, and in folders of every kind; the rules themselves are checked in the process": {
        "test_any_folder", "test_carry", "test_cli_terminal", "test_edited_history", "test_hostile_start", "test_person",
        "test_pin", "test_uninstall", "test_workspace_of_before",
    },
    "several processes a test": {
        "test_hook_budget", "test_hook_proxies", "test_hook_standby", "test_patterns", "test_run_otlp", "test_troubles_told",
    },
    "benchmarks, simulations and evaluations": {"test_bench_smoke", "test_foreign_tasks", "test_scoring", "test_sim"},
    "thousands of lines held against bash": {"test_shell_jail"},
}  # fmt: skip
ALL: Final = frozenset().union(*MODULES.values())
_UNIT: Final = Path(__file__).parents[1] / "unit"


def is_slow(path: Path, fixtures: Collection[str] = ()) -> bool:
    """Whether a test of a module is slow by the list; no unit test is, though some modules and fixtures have such names."""
    return not path.is_relative_to(_UNIT) and (path.stem in ALL or not FIXTURES.isdisjoint(fixtures))
