"""Starts a server with one sandbox, has Schemathesis ask it what its document allows and what not, and ends it.

No answer may be a failure of the server, and each must be as the document says. Bounded in examples and in time.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import urllib.request

ringfence, schemathesis = sys.argv[1:3]
place = tempfile.mkdtemp(prefix="ringfence-schemathesis-")
token = "schemathesis-".ljust(40, "x")
tokens = os.path.join(place, "tokens")
with open(os.open(tokens, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
    file.write(token)
env = dict(os.environ, RINGFENCE_STORE=place, XDG_CONFIG_HOME=place)
server = subprocess.Popen(
    [ringfence, "serve", "--listen", "127.0.0.1:0", "--token-file", tokens, "--max-sandboxes", "8"],
    stdout=subprocess.PIPE,
    env=env,
)
status = 1
try:
    url = "http://" + json.loads(server.stdout.readline())["address"]

    def ask(path, body):
        headers = {"Authorization": f"Bearer {token}"}
        request = urllib.request.Request(url + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)

    # So that paths which name a sandbox name one that is there; it outlives whoever deletes others.
    sandbox = ask("/v1/sandboxes", {"profile": "T0.H1.N2", "detached": True})["id"]
    config = os.path.join(place, "schemathesis.toml")
    with open(config, "w") as file:
        file.write(f"""
[parameters]
"path.id" = "{sandbox}"
""")
    command = [
        schemathesis, "--config-file", config, "run", url + "/v1/openapi.json", "--url", url,
        "--header", f"Authorization: Bearer {token}",
        "--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
        "--phases", "examples,coverage,fuzzing", "--max-examples", "20", "--seed", "1", "--request-timeout", "30",
        "--workers", "1",
        # Held responses and streams do not end; ending the sandbox would end the rest; a proof takes seconds each time.
        "--exclude-path-regex", "(/hold|/exec/stream|/v1/verify)$", "--exclude-method", "DELETE",
    ]
    status = subprocess.run(command, timeout=900, check=False).returncode
    alive = ask(f"/v1/sandboxes/{sandbox}/exec", {"argv": ["true"]})
    if alive["outcome"] != "exited" or server.poll() is not None:
        print("the server or its sandbox did not survive")
        status = 1
finally:
    server.send_signal(signal.SIGTERM)
    server.wait(timeout=60)
sys.exit(status or server.returncode)
