"""Inspect's own conformance suite, on an image with procps and a user that is not root."""

import os
from collections.abc import AsyncIterator

import pytest
from conftest import image, needs_images
from inspect_ai.util import SandboxEnvironment
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

from inspect_ringfence import RingfenceConfig, RingfenceSandboxEnvironment

pytestmark = needs_images


@pytest.fixture
async def sandbox_env() -> AsyncIterator[SandboxEnvironment]:
    config = RingfenceConfig(
        profile="T0.H1.N2",
        # Another one where a daemon is asked, which has its own images.
        image=os.environ.get("RINGFENCE_TEST_IMAGE") or image("plain"),
        provider=os.environ.get("RINGFENCE_TEST_PROVIDER"),
    )
    environments = await RingfenceSandboxEnvironment.sample_init("self_check", config, {})
    yield environments["default"]
    await RingfenceSandboxEnvironment.sample_cleanup("self_check", config, environments, False)
