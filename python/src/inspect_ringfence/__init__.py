"""Ringfence sandboxes for Inspect: a profile `Tx.Hx.Nx` is enforced, proven and recorded, or refused."""

from ._approval import approval_preset, policy, preset
from ._config import RingfenceConfig
from ._profile import Profile
from ._sandbox import RingfenceSandboxEnvironment
from ._tools import standard_tools

__all__ = [
    "Profile",
    "RingfenceConfig",
    "RingfenceSandboxEnvironment",
    "approval_preset",
    "policy",
    "preset",
    "standard_tools",
]
