"""Receipts in the hands of others: the script of docs/receipts.md, and the DSSE library of the in-toto project.

Arguments: the command, and a directory to work in. Each must agree with us on good and on bad receipts.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key, load_pem_public_key
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey

command, place = sys.argv[1], Path(sys.argv[2])
root = Path(__file__).parents[3]
environment = {**os.environ, "XDG_CONFIG_HOME": str(place / "config")}
environment.pop("RINGFENCE_SIGNING_KEY", None)


def ringfence(*arguments):
    return subprocess.run([command, "--json", *arguments], env=environment, capture_output=True, text=True)


def by_script(log, public):
    script = Path(__file__).with_name("verify_receipt.py")
    return subprocess.run([sys.executable, script, log, public], capture_output=True).returncode == 0


def by_library(log, public):
    raw = load_pem_public_key(public.read_bytes()).public_bytes(Encoding.Raw, PublicFormat.Raw)
    key = SSlibKey(keyid, "ed25519", "ed25519", {"public": raw.hex()})
    try:
        envelope = Envelope.from_dict(json.loads(receipt(log).read_bytes()))
        return keyid in envelope.verify([key], 1)
    except Exception:
        return False


def receipt(log):
    return log.with_name(f"_{log.name}.receipt.json")


made = json.loads(ringfence("key", "new").stdout)
keyid, public = made["keyid"], place / "public.pem"
assert ringfence("key", "show", "--public", str(public)).returncode == 0
# Others read both halves, and find the same key.
private = load_pem_private_key(Path(made["file"]).read_bytes(), None)
assert private.public_key() == load_pem_public_key(public.read_bytes())
for form in ["eval", "json"]:
    task = str(root / "examples/text-only.yaml")
    ended = ringfence("eval", task, "--log-dir", str(place / "logs"), "--log-format", form)
    assert ended.returncode == 0, ended.stderr
    log = Path(json.loads(ended.stdout)["log"])
    ours = ringfence("log", "verify", str(log), "--key", str(public))
    assert ours.returncode == 0 and by_script(log, public) and by_library(log, public), ours.stderr
    good = receipt(log).read_bytes()
    places = [good.index(b'"payload":"') + 20, good.index(b'"sig":"') + 20]
    for at in places:
        receipt(log).write_bytes(good[:at] + (b"A" if good[at : at + 1] != b"A" else b"B") + good[at + 1 :])
        ours = ringfence("log", "verify", str(log), "--key", str(public))
        assert ours.returncode == 5 and not by_script(log, public) and not by_library(log, public), at
    receipt(log).write_bytes(good)
print("2 receipts, good and bad, by cryptography and securesystemslib")
