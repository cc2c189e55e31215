"""Tasks whose model says what a test wrote down."""

from typing import Any

from inspect_ai import Task, eval
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog
from inspect_ai.model import Model, ModelOutput, ModelUsage, get_model
from inspect_ai.tool import Tool, tool

MODEL = "mockllm/model"


def says(*calls: tuple[str, dict[str, Any]], otherwise: str | None = None) -> Model:
    """A model that makes these calls in order, for each sample anew: it counts the answers so far.

    `otherwise` is what it says to whoever asks it without tools, such as a scorer.
    """

    def next_output(input: list[Any], tools: Any, choice: Any, config: Any) -> ModelOutput:
        done = sum(1 for message in input if message.role == "tool")
        name, arguments = calls[min(done, len(calls) - 1)]
        if otherwise is not None and not tools:
            output = ModelOutput.from_content(MODEL, otherwise)
        else:
            output = ModelOutput.for_tool_call(MODEL, name, arguments)
        # Without it, the mock downloads a tokenizer.
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return output

    return get_model(MODEL, custom_outputs=next_output, memoize=False)


DONE = ("submit", {"answer": "done"})


def run(
    tools: list[Tool], model: Model, sandbox: Any, log_dir: str, samples: int = 1, setup: str | None = None, **more: Any
) -> EvalLog:
    """One eval of a react agent."""
    dataset = [Sample(id=str(number), input="go", target="done", setup=setup) for number in range(samples)]
    task = Task(dataset=dataset, solver=react(tools=tools), sandbox=sandbox, message_limit=30)
    return eval(task, model=model, display="none", log_dir=log_dir, **more)[0]


def ours(log: EvalLog, event: str, sample: int = 0) -> list[dict[str, Any]]:
    """Our events of a sample."""
    assert log.samples
    return [
        one.data
        for one in log.samples[sample].events
        if one.event == "info"
        and one.source == "ringfence"
        and isinstance(one.data, dict)
        and one.data["event"] == event
    ]


@tool
def mine() -> Tool:
    async def execute(text: str) -> str:
        """Says it again.

        Args:
            text: What to say.
        """
        return text

    return execute
