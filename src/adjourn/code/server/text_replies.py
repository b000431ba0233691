"""Replies of the search tools as text, one function per tool: small, complete, and without a line that a file name could forge.

Must never: leave out that a reply is truncated or incomplete (`ending`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, groupby, islice
from typing import Any

Reply = dict[str, Any]
_LINES_OF_HIT = 4
"""What a hit is: `fetch_chunk_detail` has the rest."""


def to_text(lines: Callable[[Reply], Iterator[str]], reply: Reply) -> str:
    """A reply as text; `lines` is the function of its tool."""
    return "\n".join([*lines(reply), *ending(reply)])


def search_text(reply: Reply) -> Iterator[str]:
    """Matches of one pattern, or of several, one after the other."""
    for pattern, part in reply.get("results", {}).items():
        yield f"pattern {pattern}"
        yield from search_text(part)
    if "matches" not in reply:
        return
    yield _count(reply, "match", "matches", "total_matches", len(reply["matches"]))
    for path, matches in _by_file(reply["matches"], "file"):
        yield path
        last = 0
        for match in matches:
            for mark, line in _with_context(match):
                number = line["line_number"]
                if number <= last and mark == "-":
                    continue
                if last and number > last + 1 and ("context_before" in match or "context_after" in match):
                    yield "--"
                yield f"{number}{mark}{line['line_content']}"
                last = max(last, number)
    yield from reply.get("warnings", ())


def _with_context(match: Reply) -> Iterator[tuple[str, Reply]]:
    yield from (("-", line) for line in match.get("context_before", ()))
    yield ":", match
    yield from (("-", line) for line in match.get("context_after", ()))


def search_files(reply: Reply) -> Iterator[str]:
    yield _count(reply, "file", "files", "total_files", len(reply["files"]))
    yield from reply["files"]


def find_definitions(reply: Reply) -> Iterator[str]:
    yield _count(reply, "definition", "definitions", "total", len(reply["definitions"]))
    if "near" in reply:
        yield reply["near"]
    yield from _symbols(reply["definitions"])


def get_symbols(reply: Reply) -> Iterator[str]:
    """The symbols of a file; of a folder, the map of its files."""
    if "map" in reply:
        yield f"{_count(reply, 'file', 'files', 'total', len(reply['map']))} with code, the most used first"
        for entry in reply["map"]:
            yield f"{entry['file']} (used by {entry['used_by']})"
            yield from (f"{symbol['line']} {symbol['text']}" for symbol in entry["symbols"])
            if "more" in entry:
                yield f"and {entry['more']} more"
        return
    yield _count(reply, "symbol", "symbols", "total", len(reply["symbols"]))
    yield from _symbols(reply["symbols"])


def _symbols(symbols: Iterable[Reply]) -> Iterator[str]:
    for path, of_file in _by_file(symbols, "file"):
        yield path
        for symbol in of_file:
            yield f"{_lines(symbol['line'], symbol['end_line'])} {_symbol(symbol, symbol['kind'])}"


def find_references(reply: Reply) -> Iterator[str]:
    """References, the most certain first; the certainty is said once, above them."""
    yield _count(reply, "reference", "references", "total", len(reply["references"]))
    if reply.get("namesakes"):
        yield f"and {reply['namesakes']:,} lines with the same name that are not this symbol"
    if "partial" in reply:
        yield f"partial: {reply['partial']}"
    for server, state in reply.get("language_servers", {}).items():
        if state != "ready":
            yield f"not resolved by {server} ({state})"
    for match, references in groupby(reply["references"], lambda use: use["match"]):
        yield f"{match}:"
        for path, uses in _by_file(references, "file"):
            yield path
            yield from (f"{use['line']}:{use['content']}" for use in uses)


def read_symbol(reply: Reply) -> Iterator[str]:
    """Each body with its file and line numbers; then the places of definitions that were left out."""
    for body in reply["bodies"]:
        yield body["file"]
        yield from body.get("type", "").splitlines()
        yield from (f"{body['line'] + place}:{line}" for place, line in enumerate(body["content"].split("\n")))
        if "cut_at" in body:
            yield f"cut after line {body['cut_at']} of {body['end_line']}"
    if "others" in reply:
        yield f"{len(reply['others'])} more definitions"
        yield from _symbols(reply["others"])


def outline(reply: Reply) -> Iterator[str]:
    """A tree: a level is two spaces."""
    for path, parts in _by_file(reply["files"], "file"):
        yield path
        for symbol in chain.from_iterable(part["symbols"] for part in parts):
            yield f"{'  ' * symbol['level']}{_lines(symbol['line'], symbol['end_line'])} {symbol['kind']} {symbol['name']}"
    if "partial" in reply:
        yield reply["partial"]


def rename_symbol(reply: Reply) -> Iterator[str]:
    """What changes, line by line; what is needed to apply it."""
    count = _count(reply, "line", "lines", "total", len(reply["edits"]))
    files = len(reply["files"])
    yield f"{count} {'changed' if reply['applied'] else 'to change'} in {files} {'file' if files == 1 else 'files'}"
    for path, edits in _by_file(reply["edits"], "file"):
        yield path
        for edit in edits:
            yield f"{edit['line']}-{edit['before']}"
            yield f"{edit['line']}+{edit['after']}"
    if not reply["applied"]:
        yield f"nothing is written yet; to write this, the same call with apply {reply['preview']}"


def diagnostics(reply: Reply) -> Iterator[str]:
    looked = len(reply["files"])
    yield f"{_count(reply, 'problem', 'problems', 'total', len(reply['diagnostics']))} in {looked} {'file' if looked == 1 else 'files'}"
    for path, problems in _by_file(reply["diagnostics"], "file"):
        yield path
        yield from (f"{problem['line']} {problem['severity']}: {_one_line(problem['message'])}" for problem in problems)
    yield from (f"{path} was not checked: {why}" for path, why in reply.get("not_checked", {}).items())


def analyze_structure(reply: Reply) -> Iterator[str]:
    """An outline of the file: its definitions in order, then what it imports and exports."""
    yield f"{reply['file_path'] or 'the code'}: {reply['language']}, {reply['summary']['total_lines']} lines"
    symbols = sorted(
        (*reply["classes"], *reply["functions"], *reply["other"]), key=lambda row: (row["start_line"], -row["end_line"])
    )
    for row in symbols:
        yield f"{_lines(row['start_line'], row['end_line'])} {_symbol(row, row['type'])}"
    for kind in ("imports", "exports"):
        if reply[kind]:
            yield f"{kind}:"
            yield from (f"{row['start_line']} {row['statement']}" for row in reply[kind])
    if reply["syntax_errors"]:
        yield "the file has syntax errors; parts may be missing"


def get_function_at_line(reply: Reply) -> Iterator[str]:
    yield reply["file_path"]
    yield f"{_lines(reply['start_line'], reply['end_line'])} {_symbol(reply, reply['type'])}"


def query(reply: Reply) -> Iterator[str]:
    yield f"{_count(reply, 'result', 'results', 'total_results', len(reply['results']))}; {reply['reasoning']}"
    for path, results in _by_file(reply["results"], "file_path"):
        yield path
        yield from (
            f"{_lines(result['start_line'], result['end_line'])} {_one_line(result['content_snippet'])}"
            for result in results
        )
    yield from (
        f"{result['tool']}: {result['summary']}"
        for result in reply["step_outputs"]
        if result["summary"].startswith("failed")
    )


def semantic_search(reply: Reply) -> Iterator[str]:
    """Hits, the best first, each with its id and its first lines."""
    hits = reply["hits"]
    yield f"{len(hits)} {'hit' if len(hits) == 1 else 'hits'} in the {reply['source']}, confidence {reply['confidence']}"
    for hit in hits:
        yield f"id {_one_line(hit['id'])} (score {hit['score']:.2f})"
        yield from islice(_numbered(hit), _LINES_OF_HIT)
    if reply.get("definitions"):
        yield "definitions of its symbols"
        yield from _symbols(reply["definitions"])


def fetch_chunk_detail(reply: Reply) -> Iterator[str]:
    yield f"id {_one_line(reply['chunk_id'])}"
    yield from _numbered(reply)


def _numbered(hit: Reply) -> Iterator[str]:
    """The lines of a hit with their numbers; those of an agreement have none."""
    first = hit["metadata"].get("line_start")
    for place, line in enumerate(hit["content"].split("\n")):
        yield line if first is None else f"{first + place}:{line}"


def ending(reply: Reply) -> Iterator[str]:
    """What the reader has to know about any reply: that it is cut, incomplete, or that the index is not ready."""
    if reply.get("rest"):
        others = reply["rest_files"] - len(reply["rest"])
        more = f", and {others:,} more files" if others else ""
        yield f"not listed: {', '.join(f'{file} ({count})' for file, count in reply['rest'].items())}{more}"
    if "cursor" in reply:
        yield f"truncated: {reply['returned_matches']:,} of {reply['total_matches']:,}; for the rest, the same call with cursor {reply['cursor']}"
    elif reply.get("truncated"):
        yield reply["message"]
    state = reply.get("index_state") or {}
    if state.get("state", "ready") != "ready":
        if "stale_files" in state:
            done = f" ({state['stale_files']} files)"
        else:
            done = f", {state['done']} of {state['total']} files" if "total" in state else ""
        yield f"index {state['state']}{done}: there may be more"
    for language, package in state.get("missing_grammars", {}).items():
        yield f"the package {package} is not installed: {language} files are searched as text"


def _by_file(items: Iterable[Reply], key: str) -> Iterator[tuple[str, Iterator[Reply]]]:
    """Neighbours of one file together: the order of items is that of the reply."""
    for path, group in groupby(items, lambda item: item[key]):
        yield path or "the code", group


def _lines(first: int, last: int) -> str:
    return str(first) if last <= first else f"{first}-{last}"


def _symbol(row: Reply, kind: str) -> str:
    """A definition: its signature, else its kind and name; with the scope if the signature lacks it."""
    signature = _one_line(row.get("signature") or "")
    head = signature or f"{kind} {row['name']}"
    scope = f" in {row['scope']}" if row["scope"] else ""
    guess = " (name)" if row.get("match") == "name" else ""
    return f"{head}{scope}{guess}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _count(reply: Reply, singular: str, several: str, total: str, returned: int) -> str:
    """The first line: how many there are, and how many of them are here."""
    count = reply.get(total, returned)
    least = "at least " if "partial" in reply else ""
    here = f", the first {returned:,}" if returned < count and "cursor" not in reply else ""
    return f"{least}{count:,} {singular if count == 1 else several}{here}"
