"""Whole evals: what the log says, what is refused, who says yes."""

from pathlib import Path

import pytest
from inspect_ai import Task, eval
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log
from inspect_ai.tool import bash, python, think, web_search
from scripted import DONE, mine, ours, run, says

from inspect_ringfence import RingfenceConfig, approval_preset, standard_tools

BASH = ("bash", {"command": "echo from inside"})


def test_the_log_says_profile_plan_and_affordances(tmp_path: Path) -> None:
    model = says(BASH, BASH, DONE)
    log = run([bash(), python()], model, ("ringfence", "T0.H1.N2"), str(tmp_path))
    assert log.status == "success", log.error
    log = read_eval_log(log.location)
    made = ours(log, "sandbox")[0]
    assert (made["profile"], len(made["plan_hash"]), made["provider"]) == ("T0.H1.N2", 64, "container")
    listed = ours(log, "affordances")
    assert len(listed) == 1, "a repetition is not an event"
    assert [(tool["name"], tool["runs"]) for tool in listed[0]["tools"]] == [
        ("bash", "sandbox"),
        ("python", "sandbox"),
        ("submit", "host"),
    ]
    assert ours(log, "network")[0]["totals"]["refused"] == 0
    assert log.samples
    assert any("from inside" in message.text for message in log.samples[0].messages if message.role == "tool")


def test_bash_under_t1_is_refused_by_name_before_the_first_sample(tmp_path: Path) -> None:
    log = run([think(), bash()], says(BASH), ("ringfence", "T1.H1.N2"), str(tmp_path))
    assert log.status == "error"
    assert log.error
    assert "`bash` needs T0, and the profile is T1.H1.N2" in log.error.message
    assert "`think`" not in log.error.message
    assert not log.samples


def test_tools_outside_the_sandbox_are_refused_unless_trusted_and_then_recorded(tmp_path: Path) -> None:
    log = run([mine(), web_search()], says(DONE), ("ringfence", "T0.H1.N2"), str(tmp_path))
    assert log.error
    assert "`mine` runs in Python on the host" in log.error.message
    assert "`web_search` runs at the model provider" in log.error.message
    config = RingfenceConfig(profile="T0.H1.N2", trust_host_tools=("mine",))
    model = says(("mine", {"text": "x"}), DONE)
    from inspect_ai.util import SandboxEnvironmentSpec

    log = run([mine()], model, SandboxEnvironmentSpec("ringfence", config), str(tmp_path))
    assert log.status == "success", log.error
    tools = ours(log, "affordances")[0]["tools"]
    assert {"name": "mine", "runs": "host", "needs": "T1", "outside": True} in tools


def test_a_tool_under_the_name_of_inspects_own_is_not_taken_for_it(tmp_path: Path) -> None:
    from inspect_ai.tool import Tool, tool

    from inspect_ringfence._catalogue import affordance

    assert affordance("grep").runs == "sandbox"

    @tool(name="grep")
    def other() -> Tool:
        async def execute(text: str) -> str:
            """Looks at the host.

            Args:
                text: What for.
            """
            return text

        return execute

    assert affordance("grep").outside
    log = run([other()], says(DONE), ("ringfence", "T0.H1.N2"), str(tmp_path))
    assert log.error
    assert "`grep` runs in Python on the host" in log.error.message


@pytest.mark.parametrize("preset", ["ci", "dev", "prod"])
def test_presets_decide_about_bash(preset: str, tmp_path: Path) -> None:
    log = run([bash()], says(BASH, DONE), "ringfence", str(tmp_path), approval=approval_preset(preset))
    assert log.status == "success", log.error
    assert log.samples
    sample = log.samples[0]
    decisions = [one.decision for one in sample.events if one.event == "approval" and one.call.function == "bash"]
    expected = {"ci": ["approve"], "dev": ["escalate", "reject"], "prod": ["terminate"]}
    assert decisions == expected[preset]
    ran = any(one.event == "sandbox" and "from inside" in str(one.cmd) for one in sample.events)
    assert ran == (preset == "ci")
    assert (sample.limit is not None) == (preset == "prod")
    approvers = log.eval.config.approval.approvers if log.eval.config.approval else []
    assert approvers[0].name == "ringfence/preset"


def test_a_policy_file_means_whole_names(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("approvers:\n- {name: auto, tools: bas}\n- {name: auto, tools: submit}\n")
    ask = tmp_path / "approval.yaml"
    ask.write_text(f"approvers:\n- {{name: ringfence/policy, tools: '*', file: {file}}}\n")
    log = run([bash()], says(BASH, DONE), "ringfence", str(tmp_path / "logs"), approval=str(ask))
    assert log.samples
    decisions = [(one.call.function, one.decision) for one in log.samples[0].events if one.event == "approval"]
    assert decisions == [("bash", "reject"), ("submit", "approve")]


def test_standard_tools_follow_level_and_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    from inspect_ai.tool import ToolDef

    def names(profile: str) -> list[str]:
        return [ToolDef(tool).name for tool in standard_tools(profile)]

    assert names("T0.H1.N2") == ["think", "todo_write", "read_file", "bash", "python", "bash_session", "text_editor"]
    assert names("T1.H1.N1") == ["think", "todo_write", "read_file"]
    assert names("T2.H1.N2") == []
    monkeypatch.setenv("INSPECT_ENABLE_EXEC", "off")
    assert "bash" not in names("T0.H1.N2")
    monkeypatch.setenv("INSPECT_ENABLE_EXEC", "1")
    with pytest.raises(ValueError, match="INSPECT_ENABLE_EXEC wants more than T1"):
        names("T1.H1.N1")


def test_a_samples_own_sandbox_is_judged_too(tmp_path: Path) -> None:
    task = Task(dataset=[Sample(input="go", sandbox=("ringfence", "T1.H1.N2"))], solver=react(tools=[bash()]))
    log = eval(task, model=says(BASH, DONE), display="none", log_dir=str(tmp_path))[0]
    assert log.samples
    limit = log.samples[0].limit
    assert limit
    assert "`bash` needs T0, and the profile is T1.H1.N2" in (limit.reason or "")
    assert ours(log, "refusal")
    assert not [one for one in log.samples[0].events if one.event == "sandbox" and "from inside" in str(one.cmd)]
