"""The command within the package."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import emulated

COMMAND = [sys.executable, "-m", "weir"]


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=120)


def test_command_checks_and_runs_a_graph(tmp_path: Path) -> None:
    graph = emulated(frames=20)
    graph.sink("events", "jsonl", path="-", inputs="look")
    file = tmp_path / "graph.toml"
    file.write_text(graph.to_toml())
    checked = run("check", file)
    assert checked.returncode == 0, checked.stderr
    ran = run("run", file, "--report", tmp_path / "report.json")
    assert ran.returncode == 0, ran.stderr
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [line["frame"] for line in lines if line["type"] == "frame"] == list(range(20))
    assert json.loads((tmp_path / "report.json").read_text())["requests"]["delivered"] == 20


def test_command_has_its_exit_codes(tmp_path: Path) -> None:
    assert run("--version").stdout.startswith("weir ")
    missing = run("check", tmp_path / "none.toml")
    assert missing.returncode == 2 and "none.toml" in missing.stderr
    assert run("rum").returncode == 2


@pytest.mark.usefixtures("onnx_runtime")
def test_models_are_tried_in_a_process_of_the_interpreter(assets: Path, tmp_path: Path) -> None:
    model = assets / "models/yolox_nano_416.onnx"
    described = run("models", "inspect", model, "--json")
    assert described.returncode == 0, described.stderr
    assert "yolox" in described.stdout
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(model.read_bytes()[:100_000])
    refused = run("models", "inspect", broken)
    assert refused.returncode == 2 and "broken.onnx" in refused.stderr
    assert "the process that opens it for a trial ended" not in refused.stderr


def test_ctrl_c_stops_the_command_cleanly(tmp_path: Path) -> None:
    graph = emulated(frames=None)
    graph.sink("events", "jsonl", path="-", inputs="look")
    file = tmp_path / "graph.toml"
    file.write_text(graph.to_toml())
    running = subprocess.Popen(
        [*COMMAND, "run", str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert running.stdout is not None
    assert any('"type":"frame"' in line for line in running.stdout)
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 0 and "Traceback" not in errors, errors
