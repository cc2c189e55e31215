"""Which tool is meant by a name that more than one has."""

from collections.abc import Iterator
from typing import Any

import pytest
from inspect_ai._util.registry import RegistryInfo, _registry, registry_add, registry_find, registry_info, registry_key
from inspect_ai.agent import Agent, AgentState, agent, handoff
from inspect_ai.tool import (
    Tool,
    ToolDef,
    ToolInfo,
    ToolParam,
    ToolParams,
    bash,
    bash_session,
    computer,
    grep,
    list_files,
    memory,
    python,
    read_file,
    text_editor,
    think,
    todo_write,
    web_browser,
)
from inspect_ai.tool._tool_info import parse_tool_info

from inspect_ringfence._catalogue import affordance


def shown(tool: Any) -> ToolInfo:
    made = ToolDef(tool)
    return ToolInfo(name="bash", description=made.description, parameters=made.parameters)


def other() -> Tool:
    async def execute(command: str) -> str:
        """Runs a command on the host.

        Args:
            command: What to run.
        """
        return command

    return execute


@pytest.fixture
def package() -> Iterator[None]:
    """Somebody's package is loaded, which has a tool of this name."""
    before = dict(_registry)
    registry_add(other, RegistryInfo(type="tool", name="somebody/bash"))
    yield
    _registry.clear()
    _registry.update(before)


@pytest.mark.usefixtures("package")
def test_a_package_that_is_only_loaded_takes_no_tool_away() -> None:
    assert affordance("bash", shown=shown(bash())).runs == "sandbox"
    assert affordance("bash", "bash").runs == "sandbox"


@pytest.mark.usefixtures("package")
def test_a_packages_tool_is_not_taken_for_inspects() -> None:
    info = parse_tool_info(other())
    assert affordance(
        "bash", shown=ToolInfo(name="bash", description=info.description, parameters=info.parameters)
    ).outside
    assert affordance("somebody/bash", "somebody/bash").outside
    # Where nothing but the name is known, nobody knows.
    assert affordance("bash").outside


def test_a_tool_of_the_tasks_file_is_never_taken_for_inspects() -> None:
    before = dict(_registry)
    try:
        registry_add(other, RegistryInfo(type="tool", name="bash"))
        assert affordance("bash", shown=shown(bash())).outside
        assert affordance("bash", "bash").outside
    finally:
        _registry.clear()
        _registry.update(before)


def test_a_tool_of_an_mcp_server_is_not_inspects_by_its_name() -> None:
    theirs = ToolParams(properties={"statement": ToolParam(type="string")})
    for name in ("bash", "think", "submit", "write_file", "transfer_to_nobody"):
        found = affordance(name, shown=ToolInfo(name=name, description="Theirs.", parameters=theirs))
        assert (found.runs, found.outside) == ("host", True), name


@pytest.fixture
def nobody_else() -> Iterator[None]:
    """No package is loaded that has tools of its own."""
    before = dict(_registry)
    for one in registry_find(lambda info: info.type == "tool" and not info.name.startswith("inspect_ai/")):
        info = registry_info(one)
        _registry.pop(registry_key(info.type, info.name), None)
    yield
    _registry.clear()
    _registry.update(before)


@pytest.mark.usefixtures("nobody_else")
def test_inspects_own_tools_are_known_as_a_model_is_shown_them() -> None:
    for maker in (bash, bash_session, python, text_editor, think, todo_write, read_file, list_files, grep, computer):
        tool = ToolDef(maker())
        info = ToolInfo(name=tool.name, description="A task's own words.", parameters=tool.parameters)
        assert not affordance(tool.name, shown=info).outside, tool.name
    for one in web_browser():
        tool = ToolDef(one)
        info = ToolInfo(name=tool.name, description=tool.description, parameters=tool.parameters)
        assert affordance(tool.name, shown=info).runs == "sandbox", tool.name


def test_a_name_with_a_package_before_it_is_nobody_of_inspects() -> None:
    own = ToolDef(bash())
    for name in ("inspect_ai/bash", "inspect_ringfence/bash"):
        info = ToolInfo(name=name, description=own.description, parameters=own.parameters)
        assert affordance(name, shown=info).outside, name


@pytest.mark.usefixtures("nobody_else")
def test_the_same_arguments_alone_make_no_tool_inspects() -> None:
    theirs = ToolParams(properties={"command": ToolParam(type="string", description="Runs on this machine.")})
    assert affordance("bash", shown=ToolInfo(name="bash", description="A shell.", parameters=theirs)).outside
    assert affordance(
        "transfer_to_react", shown=ToolInfo(name="transfer_to_react", description="x", parameters=theirs)
    ).outside


@pytest.mark.usefixtures("nobody_else")
def test_a_memory_that_is_only_read_is_inspects() -> None:
    own = ToolDef(memory(readonly=True))
    assert not affordance(
        "memory", shown=ToolInfo(name="memory", description=own.description, parameters=own.parameters)
    ).outside


def test_a_handoff_is_known_by_its_agent() -> None:
    @agent(name="helper_of_the_test")
    def helper() -> Agent:
        async def execute(state: AgentState, topic: str) -> AgentState:
            """Helps.

            Args:
                state: What was said.
                topic: What about.
            """
            return state

        return execute

    tool = ToolDef(handoff(helper()))
    info = ToolInfo(name=tool.name, description=tool.description, parameters=tool.parameters)
    assert info.parameters.properties
    assert not affordance(tool.name, shown=info).outside
