"""What Inspect loads through its entry points: importing this registers everything."""

from ._approval import policy, preset
from ._hooks import RingfenceHooks
from ._sandbox import RingfenceSandboxEnvironment

__all__ = ["RingfenceHooks", "RingfenceSandboxEnvironment", "policy", "preset"]
