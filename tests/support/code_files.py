"""Small repositories for the tests of code intelligence."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

SHAPES = '''\
"""Shapes and their areas."""
import math
from typing import Protocol


class Shape(Protocol):
    """Anything with an area."""

    def area(self) -> float: ...


class Circle:
    """Round — a naïve one."""

    def __init__(self, radius: float) -> None:
        self.radius = radius

    def area(self) -> float:
        """The surface that a circle covers."""

        def squared(value: float) -> float:
            return value * value

        return math.pi * squared(self.radius)


def total_area(shapes: list[Shape]) -> float:
    # total_area adds them up
    return sum(shape.area() for shape in shapes)


LABEL = "total_area of all"
'''
USER = """\
from shapes import Circle, total_area

print(total_area([Circle(2.0)]))
hint: Circle = Circle(1)
"""


def write(root: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def git(root: Path, *arguments: str) -> str:
    options = ["-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *options, *arguments], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout


def repository(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """A git repository with the files in its first commit."""
    write(root, files)
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "first")
    return root
