"""Graphs on emulated models, which need no model, no video and no GPU."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import weir

ROOT = Path(__file__).parents[3]


def emulated(
    *, rate: float = 100, frames: int | None = 50, uri: str | None = None, mode: str = "lossless"
) -> weir.Graph:
    """A camera of that many frames a second before a module that takes a millisecond."""
    graph = weir.Graph("emulated", slo="2s")
    count = "" if frames is None else f"&frames={frames}"
    address = uri or f"emulated:uniform?rate={rate}{count}&size=64x48"
    camera = graph.source("camera", address, mode=mode)  # type: ignore[arg-type]
    model = graph.model("any", device="emulated:a", profile={"1": "1ms", "8": "4ms"})
    graph.module("look", "emulate", model=model, inputs=camera)
    return graph


@pytest.fixture
def assets() -> Path:
    """The asset pack."""
    folder = os.environ.get("WEIR_ASSETS")
    if not folder:
        pytest.skip("WEIR_ASSETS names no asset pack")
    return Path(folder)


@pytest.fixture
def onnx_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime, where it is found; also for programs in other folders."""
    if "ORT_DYLIB_PATH" in os.environ:
        return
    there = sorted((ROOT / ".runtime/onnxruntime").glob("libonnxruntime.so*"))
    if not there:
        pytest.skip("ONNX Runtime is not here: make setup, or pip install onnxruntime")
    monkeypatch.setenv("ORT_DYLIB_PATH", str(there[0]))
