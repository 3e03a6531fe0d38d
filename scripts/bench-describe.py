#!/usr/bin/env python3
"""Incidents described under overload of frames: bench-describe.py [--cameras 16] [--seconds 30] [--rounds 5] [--delay 0.3]

`weir run` detects and tracks on a clip of the repository, played as more cameras than the machine can carry. In turn it runs without a
`describe` sink, with one whose server of models answers after a delay, and with one whose server never answers. A row a run: frames
delivered in time a second, incidents described, questions left out, and requests. The last rows are medians over the rounds, as ratios
to the run without a sink of the same round. WEIR names the program.
"""

import argparse
import json
import statistics
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import Pipe, Process
from pathlib import Path

from street import CLIP, run_graph

GRAPH = """
[app]
name = "described"
slo = "400ms"
{sources}
[models.detector]
model = "embedded:street-detector"
[modules.objects]
operator = "detect"
model = "detector"
inputs = ["*"]
[modules.tracks]
operator = "track"
inputs = ["objects"]
[transforms.seen]
type = "zone"
inputs = ["tracks"]
points = [[0, 0], [1, 0], [1, 1], [0, 1]]
[transforms.pictures]
type = "best-shot"
inputs = ["tracks"]
max_side = 320
[sinks.words]
inputs = ["seen"]
{sink}
"""

DESCRIBE = """type = "describe"
url = "http://127.0.0.1:{port}/v1"
model = "any"
concurrency = 4
timeout = "20s"
"""


def serve(delay: float, port) -> None:
    """Answers each request after a delay; a negative delay stands for never."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):  # noqa: N802
            self.rfile.read(int(self.headers["Content-Length"]))
            time.sleep(delay if delay >= 0 else 1e6)
            words = {"role": "assistant", "content": "A car drives past the camera."}
            usage = {"prompt_tokens": 600, "completion_tokens": 8}
            body = json.dumps({"choices": [{"message": words}], "usage": usage}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port.send(server.server_port)
    port.recv()


class Server:
    """A server of models in a process of its own."""

    def __init__(self, delay: float):
        self.pipe, other = Pipe()
        self.process = Process(target=serve, args=(delay, other), daemon=True)
        self.process.start()
        self.port = self.pipe.recv()


def graph(cameras: int, sink: str) -> str:
    camera = '[sources.camera-{:02}]\nuri = "{}"\nmode = "live"\nloop = true\n'
    sources = "".join(camera.format(number, f"{CLIP}.mp4") for number in range(cameras))
    return GRAPH.format(sources=sources, sink=sink)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cameras", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=30, help="of each run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--delay", type=float, default=0.3, help="seconds until the server answers")
    given = parser.parse_args()
    servers = {"answers": Server(given.delay), "never answers": Server(-1)}
    sinks = {"no sink": 'type = "null"\n'}
    sinks |= {name: DESCRIBE.format(port=server.port) for name, server in servers.items()}
    goodputs = {name: [] for name in sinks}
    print("| round | server | frames/s | in time/s | described | left out | requests |\n|" + "---|" * 7, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(given.rounds):
            # So that a machine that slows down favours none.
            order = list(sinks) if number % 2 == 0 else list(sinks)[::-1]
            for name in order:
                report = run_graph(Path(folder), graph(given.cameras, sinks[name]), given.seconds)
                requests, counts = report["requests"], report["sinks"]["words"].get("counts", {})
                goodput = requests["delivered"] / given.seconds
                goodputs[name].append(goodput)
                left_out = sum(counts.get(key, 0) for key in ("crowded_out", "expired", "failed"))
                cells = [f"{requests['arrived'] / given.seconds:.1f}", f"{goodput:.2f}"]
                cells += [str(counts.get("answered", 0)), str(left_out), str(counts.get("asked", 0))]
                print(f"| {number + 1} | {name} | " + " | ".join(cells) + " |", flush=True)
    for name in servers:
        pairs = zip(goodputs[name], goodputs["no sink"])
        ratios = [one / other for one, other in pairs if other]
        print(f"{name}: {statistics.median(ratios):.4f} of the goodput without a sink (median of {len(ratios)})")


if __name__ == "__main__":
    main()
