"""Inspect's own conformance suite, on an image with procps and a user that is not root."""

import os
from collections.abc import AsyncIterator

import pytest
from conftest import image
from inspect_ai.util import SandboxEnvironment
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

from inspect_ringfence import RingfenceConfig, RingfenceSandboxEnvironment

pytestmark = [pytest.mark.real, pytest.mark.images]


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


def test_all_of_the_suite_is_here() -> None:
    """A suite that shrinks, or is not collected, would pass without saying anything."""
    assert len([name for name in globals() if name.startswith("test_")]) == 44 + 1
