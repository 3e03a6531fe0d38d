"""Libraries beside the compiled module: ONNX Runtime of the package ``onnxruntime``, and FFmpeg of the system."""

import importlib
import importlib.util
import os
import re
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


def load() -> None:
    """Loads the compiled module.

    :raises ImportError: a library that it is linked to is missing; the message says how to install it.
    """
    try:
        importlib.import_module("weir._weir")
    except ImportError as error:
        raise with_remedy(error) from None


def with_remedy(error: ImportError) -> ImportError:
    """The error, with what to install if the loader misses a library of FFmpeg."""
    text = str(error)
    if not re.match(r"lib(av|sw)\w+\.so\.\d+: cannot open shared object file", text):
        return error
    remedy = (
        f"{text}; weir is linked to FFmpeg of the system: apt-get install ffmpeg, on the release of Debian that the wheel was "
        "built on, or build the wheel here (WHEEL=1 make python)"
    )
    return ImportError(remedy, name=error.name, path=error.path)
