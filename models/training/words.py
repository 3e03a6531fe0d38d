"""The pieces that prompts and reports of scenes are made of, and the pairs of both that `render scenes` writes."""

import json

START, END = 1, 2
CLASSES = ("car", "van", "bus", "bicycle", "person")
PLURALS = ("cars", "vans", "buses", "bicycles", "persons")
PLACES = ("top left", "top", "top right", "left", "centre", "right", "bottom left", "bottom", "bottom right")
CHARACTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_"
NUMBERS = ("Two", "Three", "Four", "Five", "Many")
# Words that belong together are one piece: what a thing is and where, or how many there are. Pieces begin with the space before
# them, so that a text is its pieces one after the other.
PIECES = (
    "<none>", "<start>", "<end>", "New:", "Seen:", " Seen:", " #", " @", ".", ",", " ", " and",
    *(f" {name} {place}" for name in CLASSES for place in PLACES),
    *(f"{before} one {name} at the {place}" for before in (" New is", " is of") for name in CLASSES for place in PLACES),
    *(f" One {name} is at the" for name in CLASSES),
    *(f" {number} {name} are at the" for number in NUMBERS for name in PLURALS),
    *(f"{before} {place}" for before in ("", ",", " and") for place in PLACES),
    " with the plate ", " Plate ", " Known is ", " Known are ", " No vehicle is there",
    " Nobody is there",
    *CHARACTERS,
)
TOKENS = {piece: number for number, piece in enumerate(PIECES)}
LONGEST = max(map(len, PIECES))


def encode(text):
    """The longest piece that fits each time, as the engine reads prompts."""
    tokens, at = [], 0
    while at < len(text):
        for length in range(min(LONGEST, len(text) - at), 0, -1):
            token = TOKENS.get(text[at:at + length])
            if token is not None:
                tokens.append(token)
                at += length
                break
        else:
            raise ValueError(f"no piece for {text[at:]!r}")
    return tokens


def decode(tokens):
    return "".join(PIECES[token] for token in tokens)


def pairs(path):
    """Prompts and reports of a file, as tokens."""
    with open(path) as lines:
        for line in lines:
            pair = json.loads(line)
            yield [START, *encode(pair["prompt"])], [*encode(" " + pair["report"]), END]
