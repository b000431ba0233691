"""Builds what a release consists of, from a commit: `python tests/dist.py [--commit HEAD] [--out dist] [--bare]`.

Wheel and sdist are built from an export of the commit, the wheel from the sdist. Their bytes depend on the commit and on the versions in
constraints.txt, not on the folder, the time, the time zone or the umask. Beside them it writes adjourn-VERSION.cdx.json, a CycloneDX
SBOM of an installation, and SHA256SUMS. `--bare` writes neither, and needs no package index.

Owns: the content of dist/. Must never: build from files that are not committed, or publish anything.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
CONSTRAINTS = "tests/constraints.txt"
SUMS = "SHA256SUMS"
VALIDATE = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
sys.exit(JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(sys.argv[1]).read()) and "invalid SBOM")
"""


def run(*command: str | Path, folder: Path = REPOSITORY, **environment: str) -> bytes:
    """The output of a command. If it fails, the program ends with what it printed."""
    done = subprocess.run(command, cwd=folder, env=os.environ | environment, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{(done.stdout + done.stderr).decode()}")
    return done.stdout


def build(source: Path, out: Path, epoch: str) -> None:
    """Build the sdist, and the wheel from it, with the build backend of this environment."""
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, folder=source, SOURCE_DATE_EPOCH=epoch)
    run(sys.executable, "-m", "twine", "check", "--strict", *out.iterdir())


def write_sbom(source: Path, out: Path, epoch: str) -> None:
    """Install the wheel with the versions that the tests run with, and list what is installed."""
    (wheel,) = out.glob("*.whl")
    environment = source / "installed"
    run("uv", "venv", "--quiet", "--python", sys.executable, environment)
    run("uv", "pip", "install", "--quiet", "--python", environment, "--constraint", source / CONSTRAINTS, wheel)
    file = out / f"{'-'.join(wheel.name.split('-')[:2])}.cdx.json"
    run("cyclonedx-py", "environment", "--output-reproducible", "-o", file, environment, SOURCE_DATE_EPOCH=epoch)
    told = json.loads(file.read_text("utf-8"))
    (ours,) = (one for one in told["components"] if one["name"] == "adjourn")
    told["components"].remove(ours)
    del ours["externalReferences"]  # the folder in which the wheel was built
    told["metadata"]["component"] = ours | {"type": "application"}
    file.write_text(json.dumps(told, indent=2) + "\n", "utf-8")
    run(sys.executable, "-c", VALIDATE, file)


def write_sums(out: Path) -> None:
    """The file that `sha256sum --check` reads."""
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(out.iterdir())]
    (out / SUMS).write_text("".join(lines), "utf-8")


def main() -> None:
    options = argparse.ArgumentParser(description="Build wheel, sdist, SBOM and checksums of a commit.")
    options.add_argument("--commit", default="HEAD")
    options.add_argument("--out", type=Path, default=REPOSITORY / "dist")
    options.add_argument("--bare", action="store_true", help="wheel and sdist only")
    chosen = options.parse_args()
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    epoch = run("git", "log", "-1", "--format=%ct", chosen.commit).decode().strip()
    with tempfile.TemporaryDirectory(prefix="adjourn-dist-") as folder:
        source, built = Path(folder, "source"), Path(folder, "dist")
        with tarfile.open(fileobj=io.BytesIO(run("git", "archive", chosen.commit))) as exported:
            exported.extractall(source, filter="data")
        build(source, built, epoch)
        if not chosen.bare:
            write_sbom(source, built, epoch)
            write_sums(built)
        for file in (*chosen.out.glob("adjourn-*"), chosen.out / SUMS):
            file.unlink(missing_ok=True)
        shutil.copytree(built, chosen.out, dirs_exist_ok=True)
    for file in sorted(chosen.out.iterdir()):
        print(f"{file.name}: {file.stat().st_size} bytes")


if __name__ == "__main__":
    main()
