import base64, hashlib, json, sys
from pathlib import Path
from cryptography.hazmat.primitives.serialization import load_pem_public_key

log, key = Path(sys.argv[1]), load_pem_public_key(Path(sys.argv[2]).read_bytes())
envelope = json.loads(log.with_name(f"_{log.name}.receipt.json").read_bytes())
payload, kind = base64.b64decode(envelope["payload"], validate=True), envelope["payloadType"].encode()
signed = b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
key.verify(base64.b64decode(envelope["signatures"][0]["sig"], validate=True), signed)  # raises if it is not the key's
statement, chain = json.loads(payload), log.with_suffix(".audit.jsonl").read_bytes().splitlines()
run, digest = statement["predicate"]["run"], {"sha256": hashlib.sha256(log.read_bytes()).hexdigest()}
assert statement["predicateType"] == "https://ringfence.dev/receipt/v1", "not a receipt of this version"
assert statement["subject"] == [{"name": log.name, "digest": digest}], "another log"
assert [len(chain), json.loads(chain[-1])["hash"]] == [run["audit"]["count"], run["audit"]["hash"]], "another chain"
print(f"{run['task']} in {run['profile']['planned']}, {run['samples']['done']} samples: signed")
