"""The reading of shell lines is held against bash: what passes changes nothing protected, and speaks for nobody."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import shell_jail
from support.missing import is_missing

LINES = 20_000 if os.environ.get("ADJOURN_CAMPAIGN") == "1" else 300


@pytest.mark.timeout(3600 if LINES > 1000 else 240)
def test_no_line_that_passes_reaches_a_protected_place(tmp_path: Path) -> None:
    """Bash runs every generated line that the hook's decision lets pass, in a jail: none changes a protected place, none speaks for a person."""
    jail = tmp_path / "jail"
    jail.mkdir(mode=0o755)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(folder.stat().st_mode | 0o011)
    closing = ["unshare", "-mnp" if os.getuid() == 0 else "-rmnp", "--fork", "--kill-child"]
    try:
        subprocess.run([*closing, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        is_missing(f"namespaces for the jail: {error}")
    done = subprocess.run(
        [*closing, sys.executable, "-P", shell_jail.__file__, str(jail), "42", str(LINES)],
        env={**os.environ, "PYTHONPATH": str(Path(shell_jail.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["bad"] == []
    assert found["passed"] > LINES / 12
    sys.stdout.write(f"{found['passed']} lines passed, {found['refused']} were refused\n")
