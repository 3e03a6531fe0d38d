"""Worker process of a function in Python: the engine starts it with `python3 -c` and this text.

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


class HeadItem:
    """Place of one item of a batch in its frame, for heads."""

    __slots__ = ("input", "frame", "matrix")

    def __init__(self, input, frame, matrix):
        # Width and height of the model's input and of the frame, and the map between them, row by row.
        self.input, self.frame, self.matrix = tuple(input), tuple(frame), tuple(matrix)

    def point(self, x, y):
        """The pixel of the frame at a pixel of the input."""
        m = self.matrix
        w = m[6] * x + m[7] * y + m[8]
        return (m[0] * x + m[1] * y + m[2]) / w, (m[3] * x + m[4] * y + m[5]) / w

    def box(self, box):
        """The box of the frame at a box of the input, within the frame."""
        left, top = self.point(box[0], box[1])
        right, bottom = self.point(box[2], box[3])
        width, height = self.frame
        return (
            min(max(left, 0.0), width),
            min(max(top, 0.0), height),
            min(max(right, 0.0), width),
            min(max(bottom, 0.0), height),
        )

    def __repr__(self):
        return f"HeadItem(input={self.input}, frame={self.frame})"


class Found:
    """An object that an operator or a head found. Its box is in pixels of the item, or of the frame for heads."""

    def __init__(self, label, score, box):
        self.label, self.score, self.box = label, score, box


def operator(function):
    """Marks a function as an operator that graphs may name."""
    function.__weir_operator__ = True
    return function


def head(function):
    """Marks a function as a head that models may name."""
    function.__weir_head__ = True
    return function


def transform(function):
    """Marks a function, or a class with state for each stream, as a transform that graphs may name."""
    function.__weir_transform__ = True
    return function


def sink(function):
    """Marks a function as a sink that graphs may name."""
    function.__weir_sink__ = True
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
    module = types.ModuleType("weir", "What functions of graphs need of the package `weir`.")
    for name in (operator, head, transform, sink, Found, Item, FrameFacts, HeadItem):
        setattr(module, name.__name__, name)
    sys.modules["weir"] = module


def load(folder, module_name, function_name, kind):
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
    if getattr(function, f"__weir_{kind}__", False) is not True:
        raise Wrong(f"{module_name}.{function_name} is no {kind}: write @weir.{kind} above it")
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


def checked_list(results, count, kind):
    if isinstance(results, (str, bytes, dict)) or not hasattr(results, "__len__"):
        raise Wrong(f"the {kind} must return a list with a result for each item, not {type(results).__name__}")
    if len(results) != count:
        raise Wrong(f"the {kind} returned {len(results)} results for {count} items")
    return results


def call_operator(function, memory, request):
    import numpy

    items = []
    for fact in request["items"]:
        width, height = fact["width"], fact["height"]
        pixels = numpy.frombuffer(memory, numpy.uint8, width * height * 3, fact["offset"])
        items.append(Item(pixels.reshape(height, width, 3), fact))
    results = checked_list(function(items), len(items), "operator")
    return {"items": [answer_of(result, index) for index, result in enumerate(results)]}


def call_head(function, memory, request):
    import numpy

    outputs = {}
    for output in request["outputs"]:
        shape = output["shape"]
        data = numpy.frombuffer(memory, numpy.float32, math.prod(shape), output["offset"])
        outputs[output["name"]] = data.reshape(shape)
    items = [HeadItem(**row) for row in request["rows"]]
    answers = []
    for index, result in enumerate(checked_list(function(outputs, items), len(items), "head")):
        # A wrong result costs its own item alone.
        try:
            answers.append(answer_of(result, index))
        except Wrong as error:
            answers.append({"error": bounded(str(error))})
    return {"items": answers}


def changed_attributes(attributes, where):
    """Attributes that are new; those that came are mappings, and stay as they are."""
    if not isinstance(attributes, dict):
        raise Wrong(f"the attributes of {where} must be a dict, not {type(attributes).__name__}")
    changed = {}
    for name, value in attributes.items():
        name = text(name, f"the name of an attribute of {where}")
        if value is None:
            changed[name] = None
        elif not isinstance(value, dict):
            changed[name] = attribute(value, f"\"{name}\" of {where}")
    return changed


def changed_objects(objects):
    if isinstance(objects, (str, bytes, dict)) or not hasattr(objects, "__len__"):
        raise Wrong(f"\"objects\" must be a list of objects of the frame, not {type(objects).__name__}")
    changed = []
    for place, value in enumerate(objects):
        where = f"object {place}"
        if not isinstance(value, dict) or "id" not in value:
            raise Wrong(f"{where} must be an object of the frame: a dict with its \"id\"")
        if type(value["id"]) is not int or value["id"] < 0:
            raise Wrong(f"the id of {where} must be that of an object of the frame, not {value['id']!r:.40}")
        attributes = changed_attributes(value.get("attributes", {}), where)
        if attributes:
            changed.append([value["id"], attributes])
    return changed


def incident(value, where):
    if not isinstance(value, dict) or not {"phase", "key"} <= set(value):
        raise Wrong(f"{where} must be a dict with \"phase\" and \"key\"")
    if value["phase"] not in ("begin", "update", "end"):
        raise Wrong(f"the phase of {where} must be \"begin\", \"update\" or \"end\", not {value['phase']!r:.40}")
    found = value.get("object")
    if isinstance(found, dict):
        found = found.get("id")
    if found is not None and (type(found) is not int or found < 0):
        raise Wrong(f"the object of {where} must be an object of the frame, or its id, not {found!r:.40}")
    attributes = changed_attributes(value.get("attributes", {}), where)
    return {
        "phase": value["phase"],
        "key": text(value["key"], f"the key of {where}"),
        "object": found,
        "attributes": {name: value for name, value in attributes.items() if value is not None},
    }


def call_transform(function, memory, request, streams={}):
    """`streams` has the states of streams, where the transform is a class."""
    stream = request["stream"]
    if request["type"] == "closed":
        streams.pop(stream, None)
        return {}
    if isinstance(function, type):
        if stream not in streams:
            streams[stream] = function(stream)
        result = streams[stream](request)
    else:
        result = function(request)
    if result is None:
        return {}
    if not isinstance(result, dict) or not set(result) <= {"objects", "incidents"}:
        raise Wrong(
            f"the transform must return None, or a dict with \"objects\" and \"incidents\", not "
            f"{'other keys' if isinstance(result, dict) else type(result).__name__}"
        )
    incidents = result.get("incidents", [])
    if not isinstance(incidents, (list, tuple)):
        raise Wrong(f"\"incidents\" must be a list, not {type(incidents).__name__}")
    return {
        "attributes": changed_objects(result.get("objects", [])),
        "incidents": [incident(value, f"incident {place}") for place, value in enumerate(incidents)],
    }


def call_sink(function, memory, request):
    function(request)
    return {}


CALLS = {"operator": call_operator, "head": call_head, "transform": call_transform, "sink": call_sink}


def run(kind, function, memory, request):
    """Calls the function; what it raises is an answer, too."""
    try:
        return CALLS[kind](function, memory, request)
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
        if setup["kind"] in ("operator", "head"):
            import numpy  # noqa: F401

        function = load(setup["folder"], setup["module"], setup["function"], setup["kind"])
    except Wrong as error:
        return say({"error": bounded(str(error))})
    except ModuleNotFoundError as error:
        hint = ": install it for this interpreter" if error.name == "numpy" else ""
        return say({"error": last_lines(error) + hint})
    except BaseException as error:
        return say({"error": last_lines(error)})
    say({})
    while line := requests.readline(MAX_REQUEST_BYTES):
        say(run(setup["kind"], function, pictures, json.loads(line)))


main()
