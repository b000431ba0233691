"""What no gated call may touch, whatever the policy says, and finding it in a call.

    words.py      names of arguments, and words of tools' names, by which a call says what it does
    walking.py    the paths that a text may be, and the places that a path may lead to
    places.py     the protected places, and what real paths have to do with them
    texts.py      files that are named by patches and by SQL
    reach.py      what the words of a command reach
    programs.py   what programs do with their words
    find.py       what `find` does with the files that it comes upon
    commands.py   which place a command line reaches
    personal.py   whether a command speaks for a person, or for the client
    reason.py     what is said of a call that would touch one
    calls.py      which place a call would touch: the one question that proxy, hook and run ask

Must never: be taken for a sandbox. A tool that runs programs can reach any file; deny or confirm such tools.
"""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.policy.protected.calls import protected_path
    from adjourn.policy.protected.commands import reached, reached_by_words
    from adjourn.policy.protected.places import MAX_PATH, PROTECTED, SIGNATURES, ProtectedPlaces, places_of
    from adjourn.policy.protected.reach import matched
    from adjourn.policy.protected.reason import reason_for
    from adjourn.policy.protected.walking import paths_in, readings
    from adjourn.policy.protected.words import (
        COMMAND_KEYS,
        CONTENT_KEYS,
        PATCH_KEYS,
        PROGRAM_KEYS,
        SQL_KEYS,
        WORD_KEYS,
        argument_key,
        is_path_key,
        is_read_key,
    )

__all__ = [
    "COMMAND_KEYS", "CONTENT_KEYS", "MAX_PATH", "PATCH_KEYS", "PROGRAM_KEYS", "PROTECTED", "SIGNATURES",
    "SQL_KEYS", "WORD_KEYS", "ProtectedPlaces", "argument_key", "is_path_key", "is_read_key", "matched", "paths_in",
    "places_of", "protected_path", "reached", "reached_by_words", "readings", "reason_for",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(__name__, {
        "calls": ("protected_path",),
        "commands": ("reached", "reached_by_words"),
        "places": ("MAX_PATH", "PROTECTED", "ProtectedPlaces", "SIGNATURES", "places_of"),
        "reach": ("matched",),
        "reason": ("reason_for",),
        "walking": ("paths_in", "readings"),
        "words": (
            "COMMAND_KEYS", "CONTENT_KEYS", "PATCH_KEYS", "PROGRAM_KEYS", "SQL_KEYS", "WORD_KEYS", "argument_key",
            "is_path_key", "is_read_key",
        ),
    })  # fmt: skip
