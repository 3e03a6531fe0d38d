"""Writes every-field.onnx: a message with each field of the published schema set, by the package `onnx` (1.23).

    python3 every_field.py

The test of `operators/src/model/onnx.rs` reads it. Run it again, with a newer package, when the schema has more fields.
"""

from collections import Counter
from pathlib import Path

from google.protobuf.descriptor import FieldDescriptor as Field
from onnx import onnx_ml_pb2

def value(field):
    if field.type == Field.TYPE_STRING:
        return f"{field.containing_type.name}.{field.name}"
    if field.type == Field.TYPE_BYTES:
        return bytes([0, 255, field.number])
    if field.type in (Field.TYPE_FLOAT, Field.TYPE_DOUBLE):
        return field.number / 4
    # A default value that is set stays set.
    return 1 if field.is_repeated else 0


def fill(message, visits, outer=()):
    """Sets each field; of several that exclude each other, the next at each visit."""
    kind = message.DESCRIPTOR
    turn = visits[kind.full_name]
    # A message within one of its own kind stays empty.
    is_within = kind.full_name in outer
    visits[kind.full_name] += not is_within
    for field in kind.fields:
        oneof = field.containing_oneof
        if oneof and oneof.fields[turn % len(oneof.fields)] != field:
            continue
        if field.type == Field.TYPE_MESSAGE:
            inner = getattr(message, field.name)
            inner = inner.add() if field.is_repeated else inner
            inner.SetInParent()
            if not is_within:
                fill(inner, visits, (*outer, kind.full_name))
        elif field.is_repeated:
            getattr(message, field.name).extend([value(field)] * 2)
        else:
            setattr(message, field.name, value(field))


def main():
    model = onnx_ml_pb2.ModelProto()
    visits = Counter()
    fill(model, visits)
    # Types have one of six contents.
    for _ in range(12):
        fill(model.graph.input.add(), visits)
    Path(__file__).with_name("every-field.onnx").write_bytes(model.SerializeToString())


main()
