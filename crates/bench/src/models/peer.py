"""Inspect at the same work: SAMPLES AT_ONCE CONNECTIONS. Where the server is, its environment says."""
import sys

from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import includes
from inspect_ai.solver import basic_agent
from inspect_ai.tool import think


def main() -> None:
    samples, at_once, connections = (int(argument) for argument in sys.argv[1:4])
    text = "Conversation {}: think step by step, and submit the word `done`."
    dataset = MemoryDataset([Sample(id=number + 1, input=text.format(number + 1), target="done") for number in range(samples)])
    task = Task(dataset=dataset, solver=basic_agent(tools=[think()], max_messages=100), scorer=includes())
    logs = eval(
        task,
        model="openai/bench",
        model_args={"responses_api": False},
        log_dir="inspect-logs",
        display="none",
        max_samples=at_once,
        max_connections=connections,
    )
    score = logs[0].results.scores[0].metrics["accuracy"].value if logs[0].results else 0
    if logs[0].status != "success" or score < 1:
        raise SystemExit(f"{logs[0].status} {score} {logs[0].error.message[:500] if logs[0].error else ''}")


main()
