"""Clips that benches play as cameras, and the use of the machine meanwhile."""

import os
import subprocess
from pathlib import Path


def clip_of(source: Path, kind: str, lines: int, folder: Path) -> Path:
    """The clip as it is, or encoded with key frames a second (`plain`, without bidirectional frames) or eight seconds apart.

    The public clip of 1080 lines is short: it is played until there are 40 s.
    """
    if kind == "original" and lines == 360:
        return source
    clip = folder / f"{kind}-{lines}.mp4"
    if not clip.exists():
        frames = ["-bf", "0", "-g", "30"] if kind == "plain" else ["-bf", "2", "-g", "240"]
        encode = ["-an", "-c:v", "libx264", "-preset", "veryfast", *frames, "-sc_threshold", "0"]
        repeat, length = (["-stream_loop", "-1"], ["-t", "40", "-r", "30"]) if lines == 1080 else ([], [])
        command = ["ffmpeg", "-v", "error", "-y", *repeat, "-i", str(source), *length, *encode, str(clip)]
        subprocess.run(command, check=True)
    return clip


def busy_time() -> float:
    """Processor seconds of this machine so far that something ran in."""
    user, nice, system, _, _, irq, softirq = map(int, Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
