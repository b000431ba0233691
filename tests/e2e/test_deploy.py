"""The files of `deploy/`: checked by the tools of their formats, and what they define is run as processes.

No engine for containers runs here, and no systemd: an image is not built, a unit is not started.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from adjourn.gateway.settings import GatewaySettings, read_settings
from support import deployed, tools
from support.deployed import DEPLOY, Place
from support.ports import free_port
from support.proxy import wait_for
from support.recording_server import RecordingServer

EXPOSURE = 20
"""Tenths: the most that `systemd-analyze security` may find. 10.0 is a service without any hardening."""


@pytest.fixture
def server() -> Iterator[RecordingServer]:
    with RecordingServer() as recording:
        yield recording
        recording.shutdown()


def test_the_containerfile_has_no_finding() -> None:
    """Of hadolint."""
    program = tools.python_program("hadolint", "deploy")
    if program is None:
        pytest.skip("hadolint is not installed: make tools")
    done = subprocess.run([*program, str(DEPLOY / "Containerfile")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_is_not_roots_and_has_what_the_wheel_is_built_from() -> None:
    """A user by number, one process that gets signals, and every file that is copied passes .dockerignore."""
    told = deployed.image()
    uid, _, gid = told["user"].partition(":")
    assert (int(uid) > 0, int(gid) > 0) == (True, True)
    assert told["command"][0] == "adjourn"
    root = DEPLOY.parent
    let_in = [line[1:] for line in (root / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = [
        word
        for name, rest in deployed.instructions()
        if name == "COPY" and not rest.startswith("--from")
        for word in rest.split()[:-1]
    ]
    for path in (word.removeprefix("./") for word in copied):
        assert path in let_in
        assert (root / path).exists()


def test_the_compose_file_is_valid_and_fits_the_image() -> None:
    """By the schema of the compose specification; its ports, user and folders are the image's; nothing may gain rights."""
    checked = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(DEPLOY / "compose.yaml")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout
    services, image = deployed.services(), deployed.image()
    gateway = services["gateway"]
    assert gateway["user"] == image["user"]
    targets = {volume.split(":")[1] for volume in gateway["volumes"]}
    assert {"/etc/adjourn/adjourn.toml", "/workspace", "/var/lib/adjourn"} == targets
    for name in ("gateway", "proxy"):
        assert services[name]["read_only"] is True
        assert services[name]["cap_drop"] == ["ALL"]
        assert services[name]["security_opt"] == ["no-new-privileges:true"]
    settings = (DEPLOY / "adjourn.toml").read_text(encoding="utf-8")
    assert [f"0.0.0.0:{port}" in settings for port in image["ports"]] == [True, True]
    assert "gateway:8080" in (DEPLOY / "haproxy.cfg").read_text(encoding="utf-8")
    seconds = sum(int(value) for value in re.findall(r"(?:notice|drain)_seconds = (\d+)", settings))
    assert seconds < int(gateway["stop_grace_period"].removesuffix("s"))


def test_the_settings_can_be_read() -> None:
    """As they are, and with what the servers' addresses are made from."""
    if "auth" not in GatewaySettings.__struct_fields__:
        pytest.skip("the gateway has no [auth] yet")
    settings = read_settings(str(DEPLOY / "adjourn.toml"))
    assert settings.log == "json"
    assert settings.limits.notice_seconds > 0


def test_the_unit_is_valid_and_hardened(tmp_path: Path) -> None:
    """`systemd-analyze` finds no error, and little that the service could do beyond its work."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd is not installed")
    text = (DEPLOY / "adjourn.service").read_text(encoding="utf-8")
    path = tmp_path / "adjourn.service"
    path.write_text(text.replace("/opt/adjourn/bin/adjourn serve", "/bin/true serve"), encoding="utf-8")
    checked = subprocess.run([program, "verify", str(path)], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
    judged = subprocess.run(
        [program, "security", "--offline=true", f"--threshold={EXPOSURE}", str(path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert judged.returncode == 0, judged.stdout
    told = deployed.unit()
    assert told["NoNewPrivileges"] == ["yes"]
    assert told["DynamicUser"] == ["yes"]


@pytest.mark.campaign
@pytest.mark.skipif(os.environ.get("ADJOURN_CAMPAIGN") != "1", reason="installs packages for a minute: make campaign")
def test_what_the_image_installs_is_a_gateway(tmp_path: Path) -> None:
    """The steps of the build, with this Python and these folders in the place of the image's."""
    stage = deployed.instructions()[: -len(deployed.final_stage())]

    def here(text: str) -> str:
        return text.replace("/opt/", f"{tmp_path}/opt/").replace("/src", f"{tmp_path}/src")

    environment = dict(os.environ)
    for name, rest in stage:
        if name == "ENV":
            environment |= dict(word.split("=", 1) for word in shlex.split(here(rest)))
        elif name == "COPY":
            source, target = (rest.split()[:-1], tmp_path / "src" / rest.split()[-1].removeprefix("/src").lstrip("/."))
            for one in (DEPLOY.parent / word for word in source):
                if one.is_dir():
                    shutil.copytree(one, target, dirs_exist_ok=True)
                else:
                    (target.parent if target.suffix else target).mkdir(parents=True, exist_ok=True)
                    shutil.copy(one, target)
        elif name == "RUN":
            step = here(rest).replace("python -m", f"{sys.executable} -m")
            subprocess.run(["sh", "-ec", step], cwd=tmp_path / "src", env=environment, check=True)
    program = tmp_path / "opt/adjourn/bin/adjourn"
    done = subprocess.run([program, "serve", "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    used = "import httptools, prometheus_client, psycopg, uvicorn"
    subprocess.run([program.with_name("python"), "-c", used], check=True)


def test_what_the_image_defines_starts_and_is_healthy(tmp_path: Path, server: RecordingServer) -> None:
    """Its command in its environment; its health check succeeds while it is ready, and fails from SIGTERM on."""
    port, metrics_port, image = free_port(), free_port(), deployed.image()
    place = Place(tmp_path, "/workspace", server.url)
    place.configure(port, metrics_port)
    health = [sys.executable, *(word.replace("9464", str(metrics_port)) for word in image["health"][1:])]

    def is_healthy() -> bool:
        return subprocess.run(health, capture_output=True, check=False).returncode == 0

    process = place.start(image["command"], image["environment"])
    try:
        wait_for(is_healthy)
        assert httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200
        process.send_signal(signal.SIGTERM)
        wait_for(lambda: not is_healthy())
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()


def test_what_the_unit_defines_starts(tmp_path: Path, server: RecordingServer) -> None:
    """Its command in its environment and folder; a stop ends it with 0."""
    told = deployed.unit()
    place = Place(tmp_path, told["WorkingDirectory"][0], server.url)
    place.configure(free_port(), port := free_port())
    environment = dict(word.split("=", 1) for word in told["Environment"][0].split())
    process = place.start(told["ExecStart"][0].split(), environment)
    try:
        assert httpx.get(f"http://127.0.0.1:{port}/readyz").json()["status"] == "ready"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()
