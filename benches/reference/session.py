"""ONNX Runtime on the CPU with a fixed, small number of threads, and how the tools end on bad input."""

import os
import sys
from typing import NoReturn

import onnxruntime


def open_session(path: str, threads: int = 1, spins: bool = True) -> onnxruntime.InferenceSession:
    """A CPU session of the model at `path`. Threads that wait for work give up the core unless the session spins."""
    if not os.path.isfile(path):
        fail(f"no model at {path}")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if not spins:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def assets_folder(given: str | None) -> str:
    """The asset pack: the argument, else `WEIR_ASSETS`."""
    folder = given or os.environ.get("WEIR_ASSETS")
    if not folder:
        fail("say where the asset pack is: --assets FOLDER or WEIR_ASSETS")
    if not os.path.isdir(folder):
        fail(f"no folder at {folder}")
    return folder


def fail(message: str) -> NoReturn:
    """Ends with exit code 2: the input is at fault, not what is measured."""
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(2)
