"""The web page on this machine: where a person looks at the work, and answers what waits for them.

Each page is one module of queries in `pages`, and one template of the same name.

Owns: serving these pages to one browser. Must never: read the store in a way of its own, or listen on more than loopback.
"""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.ui.server import serve
    from adjourn.ui.site import Site
    from adjourn.ui.team import TeamPage

__all__ = ["Site", "TeamPage", "serve"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(__name__, {"server": ("serve",), "site": ("Site",), "team": ("TeamPage",)})
