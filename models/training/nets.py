"""The nets that ship: what each looks at, how it is fed, how long it learns."""

from dataclasses import dataclass

PLATES = "0123456789ABCDEFGHJKLMNPRSTUVWXYZ"
DIGITS = "0123456789"
EXPRESSIONS = ("neutral", "happy", "sad", "angry", "surprised")
ICONS = (
    "pistol", "rifle", "shotgun", "sniper", "smg", "knife", "grenade",
    "smoke", "medkit", "armour", "helmet", "ammo", "scope",
)


@dataclass(frozen=True)
class Net:
    """One net. A net with the task `report` sees no picture, but scenes in words. A detector sees whole frames; all others see crops of the objects of class `of`, made wider and higher by
    the part `widen` as the module of the graph does, and learn their `attribute`. Where `window` is given, a detector
    learns from windows of that width and height in its pictures. Crops of the world `also` are learned from, too.
    Of its steps, the part `whole` sees whole pictures, half as many at once: what is near fits no window. Stills in each of
    `lights` are learned from beside those by day and at dusk. `boxes` is the weight of boxes in the loss, against 1 of classes.
    `widths` are the channels of its stages, `neck` those in which a detector's scales are mixed. A net with `before` is
    the first stage of a cascade whose next one is the net of that name: of its form, at most a third of its work."""

    name: str
    world: str
    task: str
    width: int = 0
    height: int = 0
    labels: tuple = ()
    of: str = ""
    attribute: str = ""
    widen: float = 0.0
    channels: int = 3
    widths: tuple = (24, 48, 72, 96)
    neck: int = 0
    window: tuple = ()
    also: str = ""
    whole: float = 0.0
    lights: tuple = ()
    boxes: float = 2.5
    steps: int = 1500
    batch: int = 64
    rate: float = 2e-3
    jitter: float = 0.06
    at_least: float = 0.0
    before: str = ""

    def wants(self, seen):
        """Whether an object can be learned from."""
        known = seen.get("attributes", {}).get(self.attribute)
        return known is not None and (self.task != "identity" or known.get("match") is not None)


FACE = {"of": "face", "widen": 0.1}
DETECTOR = {"widths": (16, 24, 48, 80, 112), "neck": 48, "batch": 16}
STREET = ("car", "van", "bus", "bicycle", "person", "plate", "face")

NETS = {
    net.name: net
    for net in (
        Net("street-detector", "street", "detect", 640, 384, STREET, window=(448, 256), whole=0.5, lights=("night", "rain"),
            boxes=5.0, steps=5200, **DETECTOR),
        Net("plate-reader", "street", "text", 96, 32, PLATES, "plate", "plate", 0.08, at_least=28,
            widths=(20, 40, 64, 88), steps=3000, batch=48, jitter=0.08),
        Net("street-faces", "street", "identity", 48, 48, attribute="identity", at_least=16, steps=3600, also="live",
            jitter=0.1, **FACE),
        Net("live-detector", "live", "detect", 448, 256, ("person", "face"), steps=1200, **DETECTOR),
        Net("live-faces", "live", "identity", 64, 64, attribute="identity", at_least=24, steps=1800, **FACE),
        Net("expression", "live", "class", 64, 64, EXPRESSIONS, attribute="expression", channels=1, steps=1800, **FACE),
        Net("gaze", "live", "direction", 96, 96, attribute="gaze", steps=2500, jitter=0.12, **FACE),
        Net("pose", "live", "points", 96, 128, of="person", attribute="keypoints", widen=0.1, steps=800, rate=3e-3,
            batch=32, jitter=0.04),
        Net("game-detector", "game", "detect", 448, 256,
            ("player", "vehicle", "crate", "kills", "alive", "health", "icon"), steps=1300, **DETECTOR),
        Net("kill-count", "game", "text", 64, 32, DIGITS, "kills", "kills", 0.06, steps=3000,
            batch=32, widths=(16, 32, 48, 64)),
        Net("alive-count", "game", "text", 96, 32, DIGITS, "alive", "alive", 0.06, steps=3000,
            batch=32, widths=(16, 32, 48, 64)),
        Net("health", "game", "gauge", 160, 32, (), "health", "health", 0.06, widths=(16, 32, 48),
            steps=4000, jitter=0.12),
        Net("icon", "game", "class", 48, 48, ICONS, "icon", "icon", 0.06, widths=(24, 48, 72), steps=800),
        # Widths of whole sixteens: what a runtime computes at once on a processor with AVX-512.
        Net("street-detector-small", "street", "detect", 512, 288, STREET, window=(384, 224), steps=3000, batch=16,
            widths=(16, 16, 32, 64, 96), neck=32, before="street-detector"),
        Net("plate-reader-small", "street", "text", 96, 32, PLATES, "plate", "plate", 0.08, at_least=28,
            widths=(16, 16, 32, 48), steps=3000, batch=48, jitter=0.08, before="plate-reader"),
        Net("expression-small", "live", "class", 64, 64, EXPRESSIONS, attribute="expression", channels=1,
            widths=(16, 16, 48, 64), steps=4000, before="expression", **FACE),
        Net("scribe", "scenes", "report", steps=5000, batch=32),
    )
}
