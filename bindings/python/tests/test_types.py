"""Stubs: they hold for the code, and the code holds for them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "arguments",
    [
        ["mypy", "--strict", "python/weir", "examples", "tests"],
        ["mypy.stubtest", "weir", "--ignore-missing-stub", "--concise"],
    ],
)
def test_stubs_hold(arguments: list[str]) -> None:
    pytest.importorskip("mypy")
    ran = subprocess.run([sys.executable, "-m", *arguments], cwd=PACKAGE, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
