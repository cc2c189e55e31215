"""Configurations become requests, or errors with a place and a hint."""

from pathlib import Path

import pytest
from inspect_ai.util import ComposeConfig, SandboxEnvironmentSpec
from pydantic import ValidationError

from inspect_ringfence import Profile, RingfenceConfig
from inspect_ringfence._config import resolve
from inspect_ringfence._registry import RingfenceSandboxEnvironment


def test_a_profile_is_taken_in_any_case_also_where_inspect_made_a_path_of_it() -> None:
    assert resolve("t0.h1.n1").body({}) == {"profile": "T0.H1.N1", "labels": {}, "verify": "off"}
    assert str(resolve("/somewhere/T2.H1.N2").profile) == "T2.H1.N2"
    assert str(resolve(None).profile) == "T0.H1.N2"


@pytest.mark.parametrize("text", ["T3.H1.N1", "T0.H4.N1", "T0H1N1", "T0.H1.N1.x", "notes.txt", ""])
def test_what_is_no_profile_is_an_error_with_a_hint(text: str) -> None:
    with pytest.raises(ValueError, match="hint: "):
        resolve(text)


def test_a_document_is_sent_as_it_is_and_its_tools_outside_are_trusted(tmp_path: Path) -> None:
    text = "profile: T1.H1.N1\ntools:\n  - think\n  - {name: mine, runs: host, reach: [a.example.org]}\n"
    (tmp_path / "ringfence.yaml").write_text(text)
    wish = resolve("ringfence.yaml", str(tmp_path))
    assert wish.trust_host_tools == ("mine",)
    assert wish.body({}) == {
        "document": text,
        "origin": str(tmp_path / "ringfence.yaml"),
        "labels": {},
        "verify": "off",
    }


def test_a_document_without_a_profile_names_its_place(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("tools: []\n")
    with pytest.raises(ValueError, match=r"bad\.yaml: no `profile`"):
        resolve("bad.yaml", str(tmp_path))


def test_a_compose_file_is_told_of_the_sample_and_of_the_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "compose.yaml").write_text("services: {default: {image: 'x:${SAMPLE_METADATA_THE_TAG}'}}")
    wish = resolve("compose.yaml", str(tmp_path)).of_sample({"the tag": 7, "other": "not asked for"})
    assert wish.body({})["compose"]["variables"] == {"SAMPLE_METADATA_THE_TAG": "7"}
    assert "root" not in wish.body({})["compose"]
    assert resolve("T0.H1.N2").of_sample({"the tag": 7}).variables == {}
    stated = RingfenceConfig(compose="compose.yaml", root="..")
    assert Path(resolve(stated, str(tmp_path)).body({})["compose"]["root"]).resolve() == tmp_path.parent
    monkeypatch.setenv("RINGFENCE_TASK_ROOT", str(tmp_path.parent))
    assert resolve("compose.yaml", str(tmp_path)).body({})["compose"]["root"] == str(tmp_path.parent)


def test_files_of_docker_tasks_become_compose(tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text("services: {default: {image: x}}")
    (tmp_path / "Dockerfile").write_text("FROM x")
    body = resolve("compose.yaml", str(tmp_path)).body({})
    assert body["compose"] == {"text": "services: {default: {image: x}}", "directory": str(tmp_path)}
    assert body["profile"] == "T0.H1.N2"
    assert "dockerfile: Dockerfile" in resolve("Dockerfile", str(tmp_path)).body({})["compose"]["text"]
    made = ComposeConfig.model_validate({"services": {"default": {"image": "x", "x-default": True}}})
    assert "x-default: true" in resolve(made).body({})["compose"]["text"]


def test_a_model_is_frozen_hashable_and_carries_rules() -> None:
    config = RingfenceConfig(profile="T0.H1.N1", allow_domains=("a.example.org",), image="host")
    hash(config)
    with pytest.raises(ValidationError):
        config.profile = "T0.H0.N0"
    assert resolve(config).body({})["document"] == (
        '{"profile": "T0.H1.N1", "network": {"allow_domains": ["a.example.org"]}}'
    )
    for wrong in (
        {"profile": "x"},
        {"document": "a", "compose": "b"},
        {"document": "a", "allow_domains": ["b"]},
        {"y": 1},
    ):
        with pytest.raises(ValidationError):
            RingfenceConfig.model_validate(wrong)


def test_a_model_comes_back_from_a_log() -> None:
    spec = SandboxEnvironmentSpec("ringfence", RingfenceConfig(profile="T0.H1.N2", trust_host_tools=("mine",)))
    again = SandboxEnvironmentSpec.model_validate_json(spec.model_dump_json())
    assert again.config == spec.config
    assert RingfenceSandboxEnvironment.is_docker_compatible()


def test_the_environment_only_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RINGFENCE_PROFILE", "T1.H1.N2")
    assert str(resolve(None).profile) == "T1.H1.N2"
    assert str(resolve("T0.H1.N1").profile) == "T1.H1.N2"
    with pytest.raises(ValueError, match="would lower the task's profile T2"):
        resolve("T2.H1.N2")
    monkeypatch.setenv("INSPECT_PROFILE", "T0.H1.N2")
    with pytest.raises(ValueError, match="different profiles"):
        resolve(None)


def test_levels_are_compared_one_by_one() -> None:
    assert Profile.parse("T1.H1.N2").is_at_least(Profile.parse("T0.H1.N1"))
    assert not Profile.parse("T2.H1.N0").is_at_least(Profile.parse("T0.H1.N1"))
