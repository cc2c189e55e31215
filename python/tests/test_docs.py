"""The snippets of the documentation, as they stand there."""

import re
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import Task, eval, task
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.model import Model, ModelOutput, ModelUsage, get_model
from inspect_ai.solver import generate, use_tools
from inspect_ai.util import SandboxEnvironmentSpec
from scripted import DONE, MODEL, says

from inspect_ringfence import RingfenceConfig, approval_preset, standard_tools

PAGE = Path(__file__).parents[2] / "docs/inspect.md"


def snippets() -> dict[str, Task]:
    names: dict[str, Any] = {
        "Task": Task,
        "task": task,
        "react": react,
        "Sample": Sample,
        "generate": generate,
        "use_tools": use_tools,
        "SandboxEnvironmentSpec": SandboxEnvironmentSpec,
        "RingfenceConfig": RingfenceConfig,
        "approval_preset": approval_preset,
        "standard_tools": standard_tools,
    }
    made = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(code, names)
        name = re.findall(r"^def (\w+)", code, re.MULTILINE)[0]
        made[name] = names[name]()
    return made


def hello() -> Model:
    output = ModelOutput.from_content(MODEL, "hello")
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return get_model(MODEL, custom_outputs=[output], memoize=False)


@pytest.mark.parametrize("name", ["first", "text_only", "web_only"])
def test_snippets_of_h1_run(name: str, tmp_path: Path) -> None:
    model = says(("bash", {"command": "true"}), DONE) if name == "first" else hello()
    log = eval(snippets()[name], model=model, display="none", log_dir=str(tmp_path))[0]
    assert log.status == "success", log.error


@pytest.mark.parametrize("name", ["remote_code", "in_a_machine"])
def test_snippets_of_h2_and_h3_are_refused_with_the_reason(name: str, tmp_path: Path) -> None:
    log = eval(snippets()[name], model=says(DONE), display="none", log_dir=str(tmp_path))[0]
    assert log.status == "error"
    assert log.error
    assert re.search(r"H[23]", log.error.message), log.error.message
