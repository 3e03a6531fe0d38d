"""Blocks of Python in the pages about the package run as they are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

PAGES = [ROOT / "bindings/python/README.md", ROOT / "docs/how-to/python.md"]
VIDEO = "videos/mmdet_demo_motorway_720p.mp4"
GRAPH = """[app]
name = "street"
slo = "2s"

[sources.street]
uri = "street.mp4"
mode = "lossless"
sample = "5fps"

[models.detector]
model = "zoo:yolox-nano"

[modules.objects]
operator = "detect"
model = "detector"
inputs = ["street"]
"""


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.usefixtures("onnx_runtime")
@pytest.mark.parametrize(
    ("page", "number"), [(page, number) for page in PAGES for number in range(len(blocks(page)))]
)
def test_block_runs(assets: Path, tmp_path: Path, page: Path, number: int) -> None:
    (tmp_path / "street.mp4").symlink_to(assets / VIDEO)
    (tmp_path / "graph.toml").write_text(GRAPH)
    environment = {**os.environ, "WEIR_MODEL_MIRROR": str(assets / "models")}
    ran = subprocess.run(
        [sys.executable, "-c", blocks(page)[number]],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, f"{page.name}, block {number + 1}:\n{ran.stderr}"
