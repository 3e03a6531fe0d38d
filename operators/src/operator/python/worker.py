"""Worker process of an operator in Python: the engine starts it with `python3 -c` and this text.

Standard input is a socket with a JSON text on each line, standard output the memory that pictures come in. Both become
ordinary descriptors before code of users runs, and what that prints goes to standard error.
"""

import importlib
import importlib.util
import json
import math
import mmap
import numbers
import os
import resource
import select
import socket
import sys
import threading
import traceback
import types

# The last lines of a traceback that are reported, and the characters of each report.
MAX_LINES = 8
MAX_CHARACTERS = 2000
MAX_REQUEST_BYTES = 8 << 20


class FrameFacts:
    """Facts of the frame that an item comes from."""

    __slots__ = ("stream", "sequence", "pts_ms", "width", "height")

    def __init__(self, facts):
        self.stream = facts["stream"]
        self.sequence = facts["sequence"]
        self.pts_ms = facts["pts_ms"]
        self.width, self.height = facts["size"]

    def __repr__(self):
        return f"FrameFacts(stream={self.stream!r}, sequence={self.sequence}, pts_ms={self.pts_ms})"


class Item:
    """One picture of a batch: a frame, or the crop of an object."""

    __slots__ = ("pixels", "frame", "box", "label")

    def __init__(self, pixels, facts):
        self.pixels = pixels
        self.frame = FrameFacts(facts)
        box = facts["box"]
        self.box = None if box is None else tuple(box)
        self.label = facts["label"]

    def __repr__(self):
        return f"Item({self.frame!r}, box={self.box}, label={self.label!r})"


class Found:
    """An object that an operator found. Its box is in pixels of the item."""

    def __init__(self, label, score, box):
        self.label, self.score, self.box = label, score, box


def operator(function):
    """Marks a function as an operator that graphs may name."""
    function.__weir_operator__ = True
    return function


class Wrong(Exception):
    """A result that is none."""


def own_channel():
    """Takes the socket and the memory off the standard streams."""
    channel = socket.socket(fileno=os.dup(0))
    memory = os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    sys.stdout.reconfigure(line_buffering=True)
    return channel, memory


def end_with_engine(channel):
    """Ends this process when the engine has gone, even within a call that never returns."""
    poll = select.poll()
    poll.register(channel.fileno(), 0)

    def wait():
        # It asks for nothing: what it learns of is the end alone.
        poll.poll()
        os._exit(0)

    threading.Thread(target=wait, name="weir-engine", daemon=True).start()


def provide_weir():
    """Makes `import weir` work where the package is not installed."""
    if importlib.util.find_spec("weir") is not None:
        return
    module = types.ModuleType("weir", "What operators need of the package `weir`.")
    for name in (operator, Found, Item, FrameFacts):
        setattr(module, name.__name__, name)
    sys.modules["weir"] = module


def load(folder, module_name, function_name):
    """The function, from a module that lies in the folder."""
    # Without what `-c` and the environment put first, so that a module of the folder is found before others.
    sys.path[:] = [folder] + [place for place in sys.path if place not in ("", folder)]
    provide_weir()
    module = importlib.import_module(module_name)
    file = getattr(module, "__file__", None)
    if file is None or os.path.commonpath([os.path.realpath(file), folder]) != folder:
        raise Wrong(
            f"the module {module_name} is {file or 'built in'}, and not one of {folder}: give it another name"
        )
    function = getattr(module, function_name, None)
    if not callable(function):
        raise Wrong(f"{module_name} has no function {function_name}")
    if getattr(function, "__weir_operator__", False) is not True:
        raise Wrong(f"{module_name}.{function_name} is no operator: write @weir.operator above it")
    return function


def bounded(text):
    return text if len(text) <= MAX_CHARACTERS else "..." + text[-MAX_CHARACTERS:]


def last_lines(error):
    """The last lines of a traceback, in one line."""
    lines = [line.strip() for text in traceback.format_exception(error) for line in text.splitlines()]
    of_users = (line for line in lines if line and not set(line) <= set("^~ "))
    own = ('File "<string>"', "Traceback (most recent call last)")
    lines = [line for line in of_users if not line.startswith(own)]
    return bounded("; ".join(lines[-MAX_LINES:]))


def number(value, where):
    if not isinstance(value, numbers.Real):
        raise Wrong(f"{where} must be a number, not {type(value).__name__}")
    value = float(value)
    if not math.isfinite(value):
        raise Wrong(f"{where} is {value}, which is no finite number")
    return value


def text(value, where):
    if not isinstance(value, str):
        raise Wrong(f"{where} must be a text, not {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Wrong(f"{where} is no text that can be written: it has a lone surrogate") from None
    return value


def is_flag(value):
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")


def attribute(value, where):
    """A text, a number, a truth value, or a text with its score."""
    if isinstance(value, str):
        return [text(value, where), 1.0]
    if is_flag(value):
        return ["true" if value else "false", 1.0]
    if isinstance(value, tuple) and len(value) == 2:
        return [text(value[0], where), number(value[1], f"the score of {where}")]
    if isinstance(value, numbers.Real):
        return number(value, where)
    raise Wrong(
        f"{where} must be a text, a number, True, False, or a text with its score as (\"red\", 0.9), "
        f"not {type(value).__name__}"
    )


def found(value, where):
    """An object with label, score and box; a mapping with these keys will do."""
    fields = []
    for name in ("label", "score", "box"):
        try:
            fields.append(value[name] if isinstance(value, dict) else getattr(value, name))
        except (AttributeError, KeyError):
            raise Wrong(f"{where} has no {name}") from None
    label, score, box = fields
    try:
        box = list(box)
    except TypeError:
        raise Wrong(f"the box of {where} must be (x0, y0, x1, y1), not {type(box).__name__}") from None
    if len(box) != 4:
        raise Wrong(f"the box of {where} must have four numbers, not {len(box)}")
    return {
        "label": text(label, f"the label of {where}"),
        "score": number(score, f"the score of {where}"),
        "box": [number(side, f"the box of {where}") for side in box],
    }


def answer_of(result, index):
    """What came out for one item."""
    where = f"item {index}"
    if result is None:
        return {}
    if isinstance(result, dict):
        attributes = {}
        for name, value in result.items():
            attributes[text(name, f"the name of an attribute of {where}")] = attribute(
                value, f"\"{name}\" of {where}"
            )
        return {"attributes": attributes}
    if isinstance(result, (list, tuple)):
        return {"objects": [found(value, f"object {place} of {where}") for place, value in enumerate(result)]}
    raise Wrong(
        f"the result of {where} must be a dict of attributes, a list of objects, or None, not {type(result).__name__}"
    )


def answers_of(results, count):
    if isinstance(results, (str, bytes, dict)) or not hasattr(results, "__len__"):
        raise Wrong(f"the operator must return a list with a result for each item, not {type(results).__name__}")
    if len(results) != count:
        raise Wrong(f"the operator returned {len(results)} results for {count} items")
    return [answer_of(result, index) for index, result in enumerate(results)]


def run(function, pictures, facts):
    """Calls the operator; what it raises is an answer, too."""
    import numpy

    items = []
    for fact in facts:
        width, height = fact["width"], fact["height"]
        pixels = numpy.frombuffer(pictures, numpy.uint8, width * height * 3, fact["offset"])
        items.append(Item(pixels.reshape(height, width, 3), fact))
    try:
        return {"items": answers_of(function(items), len(items))}
    except MemoryError as error:
        # What is left of the memory is not enough to go on with.
        return {"error": last_lines(error), "ends": True}
    except Wrong as error:
        return {"error": bounded(str(error))}
    except Exception as error:
        return {"error": last_lines(error)}


def main():
    channel, memory = own_channel()
    end_with_engine(channel)
    requests = channel.makefile("rb")

    def say(answer):
        channel.sendall(json.dumps(answer, allow_nan=False).encode("ascii") + b"\n")

    setup = json.loads(requests.readline(MAX_REQUEST_BYTES))
    pictures = mmap.mmap(memory, setup["bytes"])
    os.close(memory)
    try:
        if setup["memory"] is not None:
            resource.setrlimit(resource.RLIMIT_AS, (setup["memory"], setup["memory"]))
        import numpy  # noqa: F401

        function = load(setup["folder"], setup["module"], setup["function"])
    except Wrong as error:
        return say({"error": bounded(str(error))})
    except ModuleNotFoundError as error:
        hint = ": install it for this interpreter" if error.name == "numpy" else ""
        return say({"error": last_lines(error) + hint})
    except BaseException as error:
        return say({"error": last_lines(error)})
    say({})
    while line := requests.readline(MAX_REQUEST_BYTES):
        say(run(function, pictures, json.loads(line)["items"]))


main()
