"""A service whose streams come and go, for benches of load."""

import json
import sys
import time

from street import ROOT, WEIR

sys.path.insert(0, str(ROOT / "benches" / "soak"))
from service import Service

# What the API says until sources can begin.
STARTING = 503


def in_phases(folder, streams, counts, seconds):
    """The report of a service with the graph in a folder: for each of `counts` it has so many of `streams` for some seconds."""
    service = Service(WEIR, folder, ["--allow-any-source"])
    try:
        while service.ask("GET", "/api/streams")[0] == STARTING:
            time.sleep(0.05)
        there = 0
        for wanted in counts:
            for stream in streams[wanted:there]:
                change(service, "DELETE", f"/api/streams/{stream['name']}")
            for stream in streams[there:wanted]:
                change(service, "POST", "/api/streams", stream)
            there = wanted
            time.sleep(seconds)
    finally:
        status = service.stop()
    if status:
        sys.exit(service.said())
    return json.loads((folder / "report.json").read_text())


def change(service, *request):
    status, answer = service.ask(*request)
    if status >= 300:
        sys.exit(f"the service refused: {answer}")
