"""Keys of a graph as TOML."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any


def lines(section: str, name: str | None, keys: Mapping[str, Any]) -> Iterator[str]:
    """The lines of a table. Keys whose value is ``None`` are left out."""
    yield f"[{section}]" if name is None else f"[{section}.{key(name)}]"
    for entry, given in keys.items():
        if given is not None:
            yield f"{key(entry)} = {value(given)}"


def key(given: str) -> str:
    """A key of TOML, quoted where it has to be."""
    return given if re.fullmatch("[A-Za-z0-9_-]+", given) else text(given)


def text(given: str) -> str:
    """A string of TOML, which is that of JSON but for one control character."""
    return json.dumps(given, ensure_ascii=False).replace("\x7f", "\\u007f")


def value(given: Any) -> str:
    """A value of TOML on one line. Numbers and arrays of NumPy are as those of Python."""
    if hasattr(given, "tolist"):
        given = given.tolist()
    if isinstance(given, bool):
        return "true" if given else "false"
    if isinstance(given, int):
        return str(given)
    if isinstance(given, float):
        return repr(given) if math.isfinite(given) else str(given)
    if isinstance(given, (str, os.PathLike)):
        return text(os.fspath(given))
    if isinstance(given, Mapping):
        entries = ", ".join(f"{key(str(entry))} = {value(item)}" for entry, item in given.items())
        return f"{{ {entries} }}"
    if isinstance(given, (list, tuple)):
        return f"[{', '.join(value(item) for item in given)}]"
    raise TypeError(f"a graph cannot hold {type(given).__name__}: use str, int, float, bool, a path, list or dict")
