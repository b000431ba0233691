"""Runs a test over the cases of a table, all in one item: `@for_each` has the arguments of `pytest.mark.parametrize`.

An item of its own costs pytest and xdist a few milliseconds, and most cases take much less. A case that fails names itself,
and the others are tried all the same. Each case has its own `tmp_path`, and its own `monkeypatch`.
Must never: share another fixture that a case changes.
"""

from __future__ import annotations

import functools
import inspect
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

Test = Callable[..., None]
SHOWN = 20
"""Of so many failures everything is shown; the cases of the others are only named."""


def for_each(
    names: str | Sequence[str], cases: Iterable[Any], *, ids: Iterable[str] | Callable[[Any], str] | None = None
) -> Callable[[Test], Test]:
    """Call the test once for each case, and fail with the list of the cases that failed. It can be stacked."""
    words = [word.strip() for word in names.split(",")] if isinstance(names, str) else list(names)
    table = [(case,) if len(words) == 1 else tuple(case) for case in cases]
    assert table, f"no case for {words}"
    named = _named(words, table, ids)

    def wrap(test: Test) -> Test:
        @functools.wraps(test)
        def loop(*given: Any, **fixtures: Any) -> None:
            failed = []
            for number, (name, case) in enumerate(zip(named, table, strict=True)):
                with _own(fixtures, number) as own:
                    try:
                        test(*given, **own, **dict(zip(words, case, strict=True)))
                    except (Exception, pytest.fail.Exception) as error:
                        failed.append((name, error))
            if failed:
                raise AssertionError(_report(failed, len(table))) from failed[0][1]

        signature = inspect.signature(test)
        left = [value for name, value in signature.parameters.items() if name not in words]
        assert len(left) == len(signature.parameters) - len(words), f"{test.__name__} does not take {words}"
        loop.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]  # what pytest reads
        return loop

    return wrap


def _named(
    words: list[str], table: list[tuple[Any, ...]], ids: Iterable[str] | Callable[[Any], str] | None
) -> list[str]:
    if callable(ids):
        return [" ".join(map(str, map(ids, case))) for case in table]
    if ids is not None:
        return list(ids)
    return [", ".join(f"{word}={value!r:.200}" for word, value in zip(words, case, strict=True)) for case in table]


@contextmanager
def _own(fixtures: Mapping[str, Any], number: int) -> Iterator[dict[str, Any]]:
    """The fixtures for one case: a folder of its own, and patches that end with it."""
    own = dict(fixtures)
    if isinstance(folder := own.get("tmp_path"), Path):
        own["tmp_path"] = folder / str(number)
        own["tmp_path"].mkdir()
    if isinstance(patches := own.get("monkeypatch"), pytest.MonkeyPatch):
        with patches.context() as own["monkeypatch"]:
            yield own
    else:
        yield own


def _report(failed: Sequence[tuple[str, BaseException]], count: int) -> str:
    lines = [f"{len(failed)} of {count} cases failed"]
    for name, error in failed[:SHOWN]:
        place = traceback.extract_tb(error.__traceback__)[-1]
        lines += [f"[{name}] {type(error).__name__} at {Path(place.filename).name}:{place.lineno}"]
        lines += [f"    {line}" for line in str(error).splitlines()]
    lines += [f"[{name}]" for name, _ in failed[SHOWN:]]
    return "\n".join(lines)
