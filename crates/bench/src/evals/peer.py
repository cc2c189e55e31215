"""Inspect at the same work: KIND SAMPLES CALLS."""
import sys

from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import basic_agent, generate
from inspect_ai.tool import bash


def with_usage(output: ModelOutput) -> ModelOutput:
    # Without it a tokenizer would be fetched.
    output.usage = ModelUsage(input_tokens=10, output_tokens=10, total_tokens=20)
    return output


def outputs(kind: str, samples: int, calls: int):
    # Samples are asked at the same time, so what is said next depends on what was said in that sample.
    def reply(input, tools, tool_choice, config):
        if kind == "generate":
            return with_usage(ModelOutput.from_content("mockllm/model", "done"))
        made = sum(1 for message in input if message.role == "assistant")
        if made < calls:
            return with_usage(ModelOutput.for_tool_call("mockllm/model", "bash", {"command": "echo hello"}))
        return with_usage(ModelOutput.for_tool_call("mockllm/model", "submit", {"answer": "done"}))

    return reply


def main() -> None:
    kind, samples, calls = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    dataset = MemoryDataset([Sample(id=number + 1, input="Say done.", target="done") for number in range(samples)])
    model = get_model("mockllm/model", custom_outputs=outputs(kind, samples, calls))
    if kind == "generate":
        task = Task(dataset=dataset, solver=generate(), scorer=includes())
    else:
        task = Task(dataset=dataset, solver=basic_agent(tools=[bash(timeout=15)], max_messages=100), scorer=includes(), sandbox="local")
    logs = eval(task, model=model, log_dir="inspect-logs", display="none", max_samples=10, max_subprocesses=10)
    scores = logs[0].results.scores[0].metrics["accuracy"].value
    if logs[0].status != "success" or scores < 1:
        raise SystemExit(f"{logs[0].status} {scores}")


main()
