"""ONNX Runtime of the package ``onnxruntime``, where the environment names no other."""

import importlib.util
import os
from pathlib import Path

VARIABLE = "ORT_DYLIB_PATH"


def find() -> None:
    """Sets ``ORT_DYLIB_PATH`` to the library of the installed package, unless it is set. Nothing is imported."""
    if os.environ.get(VARIABLE):
        return
    package = importlib.util.find_spec("onnxruntime")
    for folder in package.submodule_search_locations or [] if package else []:
        libraries = sorted(Path(folder, "capi").glob("libonnxruntime.so*"))
        if libraries:
            os.environ[VARIABLE] = str(libraries[0])
            return
