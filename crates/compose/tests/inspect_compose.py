"""What Inspect's own parser finds in every Compose file of a package. Arguments: the package's directory, where to write."""

import json
import re
import shlex
import sys
from pathlib import Path

from inspect_ai.util._sandbox.compose import parse_compose_yaml

root, answers = Path(sys.argv[1]) / "inspect_evals", {}
UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def amount(text):
    number, unit = re.fullmatch(r"([0-9.]+) ?([kmg]?)i?b?", str(text).lower()).groups()
    return int(float(number) * UNITS[unit])


def with_variables(text):
    return re.sub(r"\$\{SAMPLE_METADATA_\w+\}", "of-the-sample", text)


def seen(service):
    environment = service.environment or []
    if isinstance(environment, dict):
        environment = [f"{name}={value}" for name, value in environment.items()]
    limits = service.deploy and service.deploy.resources and service.deploy.resources.limits
    memory = service.mem_limit or (limits and limits.memory)
    cpus = service.cpus or (limits and limits.cpus)
    found = {
        "image": service.image and with_variables(service.image),
        "environment": sorted(map(with_variables, environment), key=lambda entry: entry.split("=")[0]),
        "depends_on": sorted(service.depends_on or []),
        "memory": amount(memory) if memory else None,
        "millicpus": int(float(cpus) * 1000) if cpus else None,
        "working_dir": service.working_dir,
        "init": bool(service.init),
    }
    if service.command is not None:
        command = service.command
        found["command"] = shlex.split(command) if isinstance(command, str) else command
    return found


for path in sorted(p for p in root.rglob("*compose*") if p.suffix in (".yaml", ".yml")):
    name = str(path.relative_to(root))
    try:
        config = parse_compose_yaml(str(path))
    except Exception as error:  # Whatever it is, Inspect does not take the file.
        answers[name] = {"error": str(error)}
        continue
    # As its docker provider chooses.
    marked = [service for service, keys in config.services.items() if keys.x_default]
    default = marked[-1] if marked else "default" if "default" in config.services else None
    answers[name] = {"services": {service: seen(keys) for service, keys in config.services.items()}, "default": default}
Path(sys.argv[2]).write_text(json.dumps(answers))
print(f"{len(answers)} files, {sum('error' in answer for answer in answers.values())} that Inspect's parser does not take")
