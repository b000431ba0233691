"""The manifests of `deploy/kubernetes/`: checked by the published schemas, and against the image, the settings and the shipped proxy.

No cluster runs here: what a pod starts is run as processes.
"""

from __future__ import annotations

import base64
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
from ruamel.yaml import YAML

from support import deployed, tools
from support.deployed import DEPLOY, Place
from support.ports import free_port
from support.proxy import wait_for
from support.recording_server import RecordingServer

FOLDER = DEPLOY / "kubernetes"
MANIFESTS = sorted(FOLDER.glob("*.yaml"))
OBJECTS: dict[tuple[str, str], Any] = {
    (each["kind"], each["metadata"]["name"]): each
    for path in MANIFESTS
    for each in YAML(typ="safe").load_all(path.read_text(encoding="utf-8"))
}
PODS = {name: each["spec"]["template"] for (kind, name), each in OBJECTS.items() if kind == "Deployment"}
GATEWAY = PODS["gateway"]["spec"]
(MAIN,), (INIT,) = GATEWAY["containers"], GATEWAY["initContainers"]


def test_the_manifests_are_valid() -> None:
    """By the schemas of Kubernetes, which know every member."""
    program = tools.python_program("kubernetes-validate", "deploy")
    if program is None:
        pytest.skip("kubernetes-validate is not installed: make tools")
    done = subprocess.run([*program, "--strict", *map(str, MANIFESTS)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_pods_have_no_rights_that_they_do_not_need() -> None:
    """No root, no writable image, no capability, no token of the cluster, no secret in a manifest; memory is bounded."""
    for pod in PODS.values():
        spec = pod["spec"]
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
            }  # fmt: skip
            assert "memory" in container["resources"]["limits"]
            assert not container["image"].endswith(":latest")
            assert "env" not in container
    assert not [kind for kind, _ in OBJECTS if kind == "Secret"]


def test_the_gateway_runs_as_its_image_says() -> None:
    """User, ports, the places that it writes, and where it is asked whether it lives and works."""
    image = deployed.image()
    context = GATEWAY["securityContext"]
    assert f"{context['runAsUser']}:{context['runAsGroup']}" == image["user"]
    assert context["fsGroup"] == context["runAsGroup"]  # may read the secret
    ports = {port["name"]: port["containerPort"] for port in MAIN["ports"]}
    assert list(map(str, ports.values())) == image["ports"]
    mounts = {mount["mountPath"]: mount for mount in MAIN["volumeMounts"]}
    assert set(mounts) == {"/etc/adjourn/adjourn.toml", "/workspace", "/var/lib/adjourn", "/tmp"}
    assert mounts["/etc/adjourn/adjourn.toml"]["subPath"] == "adjourn.toml"  # else it is a link, which is not read
    asked = {name: MAIN[name]["httpGet"] for name in ("startupProbe", "readinessProbe", "livenessProbe")}
    assert {get["path"] for get in asked.values()} == {"/readyz", "/healthz"}
    assert asked["livenessProbe"]["path"] == "/healthz"  # a store that is away ends no process
    assert {get["port"] for get in asked.values()} == {"metrics"}
    assert f"0.0.0.0:{ports['metrics']}" in (DEPLOY / "adjourn.toml").read_text(encoding="utf-8")


def test_replicas_end_in_order_and_one_at_a_time() -> None:
    """There is time to drain; an update or an eviction leaves the other replica."""
    settings = (DEPLOY / "adjourn.toml").read_text(encoding="utf-8")
    seconds = sum(int(value) for value in re.findall(r"(?:notice|drain)_seconds = (\d+)", settings))
    assert 0 < seconds < GATEWAY["terminationGracePeriodSeconds"]
    deployment, budget = OBJECTS["Deployment", "gateway"]["spec"], OBJECTS["PodDisruptionBudget", "gateway"]["spec"]
    assert deployment["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert budget["maxUnavailable"] < deployment["replicas"]
    labels = PODS["gateway"]["metadata"]["labels"]
    for selector in (
        deployment["selector"],
        budget["selector"],
        OBJECTS["NetworkPolicy", "gateway"]["spec"]["podSelector"],
    ):
        assert selector["matchLabels"] == labels


def test_sessions_are_led_as_by_the_shipped_proxy() -> None:
    """Its settings differ in names alone; the name that it looks up has every replica, and clients reach nothing else."""
    ours, shipped = ((folder / "haproxy.cfg").read_text(encoding="utf-8") for folder in (FOLDER, DEPLOY))
    name = "gateway.adjourn.svc.cluster.local:8080"
    renamed = ours.replace(f"gateway 10 {name} resolvers cluster", "gateway 4 gateway:8080 resolvers docker")
    renamed = renamed.replace(
        "resolvers cluster\n    parse-resolv-conf", "resolvers docker\n    nameserver dns 127.0.0.11:53"
    )
    assert renamed == shipped
    service = OBJECTS["Service", "gateway"]["spec"]
    assert (service["clusterIP"], service["publishNotReadyAddresses"]) == ("None", True)
    (rule, _) = OBJECTS["NetworkPolicy", "gateway"]["spec"]["ingress"]
    assert rule["from"][0]["podSelector"]["matchLabels"] == PODS["proxy"]["metadata"]["labels"]
    for name, pod in (("gateway", PODS["gateway"]), ("adjourn", PODS["proxy"])):
        assert OBJECTS["Service", name]["spec"]["selector"] == pod["metadata"]["labels"]
    if (program := tools.haproxy()) is not None:
        checked = subprocess.run(
            [program, "-c", "-f", FOLDER / "haproxy.cfg"], capture_output=True, text=True, check=False
        )
        assert checked.returncode == 0, checked.stderr


def mounted(folder: Path, files: dict[str, bytes]) -> None:
    """Files as Kubernetes mounts them: links into a folder that it replaces."""
    (folder / "..2026").mkdir(parents=True)
    (folder / "..data").symlink_to("..2026")
    for name, data in files.items():
        (folder / "..2026" / name).write_bytes(data)
        (folder / name).symlink_to(f"..data/{name}")


@pytest.mark.extra("gateway")
def test_a_pod_starts_with_the_keys_and_the_policy_that_it_is_given(tmp_path: Path) -> None:
    """What runs first copies them, readable by the gateway alone; the gateway then works with these."""
    keys = {name: base64.b64encode(os.urandom(32)) for name in ("default.key", "secret")}
    policy = (DEPLOY / "workspace.example/.aex/policy.aex").read_bytes()
    with RecordingServer() as server:
        place = Place(tmp_path, "/workspace", f"http://127.0.0.1:{server.server_port}/mcp")
        (place.workspace / ".aex/policy.aex").unlink()
        mounted(tmp_path / "given/gateway", {"policy.aex": policy})
        mounted(tmp_path / "given/keys", keys)
        script = re.sub(r"/(given|workspace|var/lib)/", rf"{tmp_path}/\1/", INIT["args"][0])
        subprocess.run([*INIT["command"], script], check=True)
        config = tmp_path / "var/lib/adjourn/config/keys"
        assert {path.name: path.read_bytes() for path in config.iterdir()} == keys
        assert {path.stat().st_mode & 0o777 for path in config.iterdir()} == {0o600}
        port, metrics = free_port(), free_port()
        place.configure(port, metrics, "adjourn.toml")
        image = deployed.image()
        process = place.start(image["command"], image["environment"])
        try:
            wait_for(lambda: httpx.get(f"http://127.0.0.1:{metrics}/readyz").status_code == 200)
        finally:
            process.terminate()
            process.communicate(timeout=30)
        server.shutdown()
    assert process.returncode == 0
    assert {name: (config / name).read_bytes() for name in keys} == keys
