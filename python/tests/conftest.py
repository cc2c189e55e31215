"""Which server the tests speak with: `RINGFENCE_BINARY` if it is set, else a strict double of the API."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from inspect_ringfence import _server

HERE = Path(__file__).parent


def is_real() -> bool:
    """Whether the program under `RINGFENCE_BINARY` is the real one."""
    return Path(os.environ.get("RINGFENCE_BINARY", "double.py")).name != "double.py"


def image(name: str) -> str:
    """One of the images that `make_image.py` makes."""
    return f"oci:{os.environ['RINGFENCE_TEST_LAYOUT']}:{name}"


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("real") and not is_real():
        pytest.skip("RINGFENCE_BINARY names no ringfence program")
    if item.get_closest_marker("images") and "RINGFENCE_TEST_LAYOUT" not in os.environ:
        pytest.skip("RINGFENCE_TEST_LAYOUT names no layout of make_image.py")
    if item.get_closest_marker("double") and is_real():
        pytest.skip("it is about the double's own words")


@pytest.fixture(scope="session", autouse=True)
def program() -> Iterator[None]:
    os.environ.setdefault("RINGFENCE_BINARY", str(HERE / "double.py"))
    for name in ("RINGFENCE_PROFILE", "INSPECT_PROFILE", "RINGFENCE_IMAGE", "RINGFENCE_TRUST_HOST_TOOLS"):
        os.environ.pop(name, None)
    # Scripts that tests start must find the same interpreter.
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    yield
    _server.stop()
