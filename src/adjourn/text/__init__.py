"""Text that others wrote, made safe: strict JSON, quoting, redaction of secrets, escapes for terminals. Pure."""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.text.fitting import ELLIPSIS, Share, fit_items, fit_text, share_room
    from adjourn.text.near_words import did_you_mean, nearest
    from adjourn.text.plot import PLOT_STYLE, BudgetPoint, budget_plot, sparkline, thinned
    from adjourn.text.quoting import clean, first_line, instructions_of, one_line, quoted, spoken
    from adjourn.text.redact import beginning, preview, redact_json, without_secrets
    from adjourn.text.strict_json import (
        BLANKS,
        alike,
        check_alike,
        check_text,
        check_values,
        count_keys,
        fold_key,
        survey,
    )
    from adjourn.text.tail import last_lines
    from adjourn.text.terminal import is_seen, visible_json, visible_line, visible_lines
    from adjourn.text.times import ago, day, left, local, moment, period, span

__all__ = [
    "BLANKS", "ELLIPSIS", "PLOT_STYLE", "BudgetPoint", "Share", "ago", "alike", "beginning", "budget_plot", "check_alike", "check_text", "check_values",
    "clean", "count_keys", "day", "did_you_mean", "first_line", "fit_items", "fit_text", "fold_key", "instructions_of", "is_seen", "last_lines",
    "left", "local", "moment", "nearest", "one_line", "period", "preview", "quoted", "redact_json", "share_room", "span",
    "sparkline", "spoken", "survey", "thinned", "visible_json", "visible_line", "visible_lines", "without_secrets",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(__name__, {
        "fitting": ("ELLIPSIS", "Share", "fit_items", "fit_text", "share_room"),
        "near_words": ("did_you_mean", "nearest"),
        "plot": ("BudgetPoint", "PLOT_STYLE", "budget_plot", "sparkline", "thinned"),
        "quoting": ("clean", "first_line", "instructions_of", "one_line", "quoted", "spoken"),
        "redact": ("beginning", "preview", "redact_json", "without_secrets"),
        "strict_json": ("BLANKS", "alike", "check_alike", "check_text", "check_values", "count_keys", "fold_key", "survey"),
        "tail": ("last_lines",),
        "terminal": ("is_seen", "visible_json", "visible_line", "visible_lines"),
        "times": ("ago", "day", "left", "local", "moment", "period", "span"),
    })  # fmt: skip
