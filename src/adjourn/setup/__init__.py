"""Setting up clients: find their files, plan the changes, make them, and undo them."""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.setup.checks import findings, has_code_behind_proxy, listed_servers
    from adjourn.setup.entries import ServerEntry
    from adjourn.setup.first_policy import ListedServer, RuledTool, ruled
    from adjourn.setup.loosening import without_confirm
    from adjourn.setup.places import CODEX, IGNORED, POLICY, SERVER_FILES, home, user_folder
    from adjourn.setup.planning import (
        IGNORED_FILES,
        SettingsChange,
        SetupNote,
        SetupPlan,
        plan,
        plan_for_user,
    )
    from adjourn.setup.probe import Probed, ProbedTool, ServerStart, probe_all
    from adjourn.setup.repairs import moved_programs
    from adjourn.setup.shown_start import shown_program, shown_start
    from adjourn.setup.starting import check_lasting, is_beside_python
    from adjourn.setup.tightening import Tightened, ToolUse, tightened
    from adjourn.setup.trying import RegisteredServer, hooks_to_try, registered_servers

__all__ = [
    "CODEX", "IGNORED", "IGNORED_FILES", "POLICY", "SERVER_FILES", "ListedServer", "Probed", "ProbedTool", "RegisteredServer",
    "RuledTool", "ServerEntry", "ServerStart", "SettingsChange", "SetupNote", "SetupPlan", "Tightened", "ToolUse", "check_lasting", "findings", "has_code_behind_proxy", "home",
    "hooks_to_try", "is_beside_python", "listed_servers", "moved_programs", "plan", "plan_for_user", "probe_all", "registered_servers",
    "ruled", "shown_program", "shown_start", "tightened", "user_folder", "without_confirm",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(__name__, {
        "checks": ("findings", "has_code_behind_proxy", "listed_servers"),
        "entries": ("ServerEntry",),
        "first_policy": ("ListedServer", "RuledTool", "ruled"),
        "loosening": ("without_confirm",),
        "places": ("CODEX", "IGNORED", "POLICY", "SERVER_FILES", "home", "user_folder"),
        "planning": ("IGNORED_FILES", "SettingsChange", "SetupNote", "SetupPlan", "plan", "plan_for_user"),
        "probe": ("Probed", "ProbedTool", "ServerStart", "probe_all"),
        "repairs": ("moved_programs",),
        "shown_start": ("shown_program", "shown_start"),
        "starting": ("check_lasting", "is_beside_python"),
        "tightening": ("Tightened", "ToolUse", "tightened"),
        "trying": ("RegisteredServer", "hooks_to_try", "registered_servers"),
    })  # fmt: skip
