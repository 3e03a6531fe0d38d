"""Cameras as processes that serve a clip over RTSP, each behind a network of its own, and what can happen to them."""

import signal
import subprocess
from pathlib import Path

from proxy import Proxy

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPT = ROOT / "tests" / "tests" / "rtsp_cameras" / "camera.py"
# Debian's own Python: what its packages bring is not found by one that stands before it in PATH.
PYTHON = "/usr/bin/python3"
FFMPEG = ["ffmpeg", "-v", "error", "-nostdin", "-y"]
STREET = ROOT / "videos" / "street-day.mp4"
# A key picture each second of a clip with 25 frames a second, without sound.
ENCODE = ["-an", "-c:v", "libx264", "-preset", "veryfast", "-g", "25", "-pix_fmt", "yuv420p"]
# The clock of a camera is set forward by an hour: time stamps of video count 90,000 ticks a second.
CLOCK_TICKS = 3_600 * 90_000
FAULTS = ("kill", "freeze", "garbage", "cut", "stall", "slow")


def available() -> bool:
    """Whether cameras can be started here."""
    found = "import gi; gi.require_version('GstRtspServer', '1.0'); from gi.repository import GstRtspServer"
    return subprocess.run([PYTHON, "-c", found], stderr=subprocess.DEVNULL).returncode == 0


def write_street(folder: Path) -> Path:
    """Twenty seconds of the street at 640x360, 25 frames a second, with a key picture each second."""
    clip = folder / "street.mp4"
    subprocess.run([*FFMPEG, "-i", str(STREET), "-vf", "scale=640:360", *ENCODE, str(clip)], check=True)
    return clip


def write_clip(folder: Path, seconds: float) -> Path:
    """The street again and again, for `seconds`."""
    return write_repeated(write_street(folder), seconds)


def write_repeated(part: Path, seconds: float) -> Path:
    """A clip again and again, for `seconds`, beside it."""
    clip = part.with_name("camera.mp4")
    repeat = [*FFMPEG, "-stream_loop", "-1", "-i", str(part), "-t", f"{seconds:.0f}", "-c", "copy", str(clip)]
    subprocess.run(repeat, check=True)
    return clip


class Camera:
    """A camera behind its network."""

    def __init__(self, name: str, clip: Path) -> None:
        self.name, self.clip, self.fault = name, clip, None
        self.proxy = Proxy(self._start())

    def _start(self) -> int:
        command = [PYTHON, str(SCRIPT), str(self.clip)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return int(self.process.stdout.readline())

    @property
    def uri(self) -> str:
        return f"rtsp://127.0.0.1:{self.proxy.port}/live"

    def break_by(self, fault: str) -> None:
        """Makes it fail, until it is mended; a connection that is cut can be opened again at once."""
        self.fault = fault
        if fault == "kill":
            self.kill()
        elif fault == "freeze":
            self.process.send_signal(signal.SIGSTOP)
        elif fault == "cut":
            self.proxy.cut()
        elif fault == "clock":
            self.proxy.ticks += CLOCK_TICKS
        else:
            self.proxy.fault = fault

    def mend(self) -> None:
        if self.fault == "kill":
            self.proxy.cut(self._start())
        elif self.fault == "freeze":
            self.process.send_signal(signal.SIGCONT)
        self.proxy.fault = "none"
        self.fault = None

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
