"""An image in the place of what a docker task would build."""

import json
from pathlib import Path

import pytest

from inspect_ringfence import RingfenceConfig
from inspect_ringfence._config import resolve

COMPOSE = """
services:
  default:
    build: .
    init: true
    command: tail -f /dev/null
    x-default: true
    network_mode: none
    environment: [KEY=a=b, OTHER=]
    deploy: {resources: {limits: {memory: 2G, cpus: "1.5"}}}
"""


def test_a_service_becomes_a_document_with_its_variables_and_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "compose.yaml").write_text(COMPOSE)
    monkeypatch.setenv("RINGFENCE_IMAGE", "oci:there")
    wish = resolve("compose.yaml", str(tmp_path))
    body = wish.body({})
    assert json.loads(body["document"]) == {
        "profile": "T0.H1.N2",
        "environment": {"KEY": "a=b", "OTHER": ""},
        "limits": {"memory": 2 << 30, "cpu": 1.5},
    }
    assert (body["image"], "compose" in body, "profile" in body) == ("oci:there", False, False)
    assert wish.stands_for
    assert wish.stands_for["left_out"] == ["build", "command", "init", "x-default"]


def test_no_network_stays_none_at_a_lower_level(tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text(COMPOSE)
    config = RingfenceConfig(
        profile="T0.H1.N1", compose="compose.yaml", image="oci:there", allow_domains=("a.example",)
    )
    document = json.loads(resolve(config, str(tmp_path)).body({})["document"])
    assert document["profile"] == "T0.H1.N2"


def test_a_dockerfile_needs_nothing_but_the_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Dockerfile").write_text("FROM x")
    assert "compose" in resolve("Dockerfile", str(tmp_path)).body({})
    monkeypatch.setenv("RINGFENCE_IMAGE", "oci:there")
    assert json.loads(resolve("Dockerfile", str(tmp_path)).body({})["document"]) == {"profile": "T0.H1.N2"}


@pytest.mark.parametrize(
    ("service", "said"),
    [
        ("{volumes: ['./a:/a'], ports: ['80']}", "`volumes`, `ports`"),
        ("{command: run-a-server}", "`command`"),
        ("{network_mode: host}", "`network_mode`"),
        ("{environment: {A: '${B}'}}", "`A` takes its value from a variable"),
        ("{environment: [A]}", "`A` takes its value from a variable"),
        ("{mem_limit: much}", "`much` is not an amount"),
        ("{deploy: {replicas: 2}}", "`deploy`"),
        ("{image: x}, other: {image: y}", "one service only"),
        ("{image: x}}, volumes: {a: {}", "`volumes`"),
    ],
)
def test_what_an_image_cannot_stand_for_is_refused_by_name(service: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text(f"{{services: {{default: {service}}}}}")
    config = RingfenceConfig(compose="compose.yaml", image="oci:there")
    with pytest.raises(ValueError, match=said):
        resolve(config, str(tmp_path))


def test_the_environments_image_gives_way_to_the_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RINGFENCE_IMAGE", "oci:there")
    (tmp_path / "ringfence.yaml").write_text("profile: T0.H1.N2\nimage: host\n")
    assert "image" not in resolve("ringfence.yaml", str(tmp_path)).body({})
    assert resolve(RingfenceConfig(image="host")).body({})["image"] == "host"
    assert resolve("T0.H1.N2").body({})["image"] == "oci:there"


@pytest.mark.parametrize("image", ["host", "dir:/srv/root"])
def test_the_environment_names_no_image_without_a_digest(image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RINGFENCE_IMAGE", image)
    with pytest.raises(ValueError, match="has no digest"):
        resolve("T0.H1.N2")
    assert resolve(RingfenceConfig(image=image)).body({})["image"] == image


def test_the_environment_replaces_no_image_that_a_task_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RINGFENCE_IMAGE", "oci:there")
    (tmp_path / "compose.yaml").write_text("services: {default: {image: 'pinned@sha256:00'}}")
    with pytest.raises(ValueError, match="would replace the image pinned"):
        resolve("compose.yaml", str(tmp_path))
    # The task itself may say so.
    config = RingfenceConfig(compose="compose.yaml", image="oci:there")
    assert resolve(config, str(tmp_path)).body({})["image"] == "oci:there"
