"""What redaction hides in ordinary code, where hardly anything is a secret: hits per MB of source, by shape.

`python tests/support/redacting.py [--show] [FOLDER ...]`; without folders the standard library, the installed packages and this
project. A secret that stands in documentation, or in a test of a library, counts as a hit here, too.
"""

from __future__ import annotations

import sys
import sysconfig
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from adjourn.text.redact import TABLE, matches

ROOT = Path(__file__).parents[2]
SOURCES = {
    ".py",
    ".pyi",
    ".c",
    ".h",
    ".js",
    ".ts",
    ".css",
    ".md",
    ".rst",
    ".txt",
    ".toml",
    ".yaml",
    ".yml",
    ".json",
    ".lock",
    ".sql",
    ".sh",
}
MEGABYTE = 1_000_000
MAX_FILE = 2 * MEGABYTE


def corpora() -> dict[str, list[Path]]:
    """The folders that are measured without others being named."""
    paths = sysconfig.get_paths()
    return {
        "standard library": [Path(paths["stdlib"])],
        "installed packages": [Path(paths["purelib"])],
        "this project": [ROOT / name for name in ("src", "spec", "docs", "examples")],
    }


def texts(folders: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    """The source texts of folders, without what is installed in them."""
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            inner = path.relative_to(folder).parts
            if str(path) == TABLE:
                continue  # of examples of secrets
            if path.suffix not in SOURCES or "site-packages" in inner or "__pycache__" in inner:
                continue
            if path.is_file() and path.stat().st_size <= MAX_FILE:
                yield path, path.read_text(encoding="utf-8", errors="replace")


class Measured:
    """Hits of each shape over a number of characters."""

    def __init__(self) -> None:
        self.characters = 0
        self.hits: Counter[str] = Counter()
        self.shown: list[str] = []

    def take(self, path: Path, text: str) -> None:
        self.characters += len(text)
        for shape, match in matches(text):
            self.hits[shape.name] += 1
            start = text.rfind("\n", 0, match.start()) + 1
            line = text[start : match.end()].replace("\n", "\\n")[-120:]
            self.shown.append(f"{shape.name:<24} {path.name}: {line}")

    @property
    def per_megabyte(self) -> float:
        return sum(self.hits.values()) * MEGABYTE / max(self.characters, 1)


def measure(folders: Iterable[Path]) -> Measured:
    measured = Measured()
    for path, text in texts(folders):
        measured.take(path, text)
    return measured


def main(arguments: list[str]) -> None:
    named = {name: [Path(name)] for name in arguments if not name.startswith("--")}
    for name, folders in (named or corpora()).items():
        found = measure(folders)
        print(
            f"{name}: {found.characters / MEGABYTE:.1f} MB, {sum(found.hits.values())} hits, {found.per_megabyte:.2f} per MB"
        )
        for shape, count in found.hits.most_common():
            print(f"  {shape:<26} {count}")
        if "--show" in arguments:
            print(*found.shown, sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
