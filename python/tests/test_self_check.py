"""Inspect's own conformance suite, on `RINGFENCE_TEST_IMAGE`: with procps and a user that is not root."""

import os
from collections.abc import AsyncIterator

import pytest
from conftest import needs_ringfence
from inspect_ai.util import SandboxEnvironment
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

from inspect_ringfence import RingfenceConfig, RingfenceSandboxEnvironment

pytestmark = needs_ringfence


@pytest.fixture
async def sandbox_env() -> AsyncIterator[SandboxEnvironment]:
    config = RingfenceConfig(
        profile="T0.H1.N2",
        image=os.environ.get("RINGFENCE_TEST_IMAGE"),
        provider=os.environ.get("RINGFENCE_TEST_PROVIDER"),
    )
    environments = await RingfenceSandboxEnvironment.sample_init("self_check", config, {})
    yield environments["default"]
    await RingfenceSandboxEnvironment.sample_cleanup("self_check", config, environments, False)
