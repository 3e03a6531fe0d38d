#!/usr/bin/env python3
"""Partitions of a model over machines whose links are bad: bench-links.py [--seconds 30] [--rate 60]

An engine and three workers (config/emulated-partitioned.toml: nothing is computed), each in a network namespace of its own on one
switch, as nodes of a fleet with certificates. In turn: good links; 1 and 5 % of packets lost; 20 ms of delay each way; the link of the
only fast worker cut for ten seconds; that worker killed and started again after 5 s; stopped for 5 s (SIGSTOP). Of each: frames that
arrived, whether all are accounted for, those in time, and how long after the link or the worker was back the first frame came out.

It needs root, ip and /dev/net/tun, and a weir with the feature `fleet` (WEIR).
"""

import argparse
import fcntl
import heapq
import json
import os
import random
import select
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from datetime import datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
WEIR = str(Path(os.environ.get("WEIR", TARGET / "release" / "weir")).resolve())
# Of linux/if_tun.h.
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
# Node, its class as a worker, and its address.
NODES = [("north", None, "10.91.0.1"), ("fast", "fast", "10.91.0.2"), ("slow-a", "slow", "10.91.0.3"), ("slow-b", "slow", "10.91.0.4")]
PORT = 7447
# The part of packets that is lost, and the delay each way.
CASES = {
    "good links": (0, 0),
    "1 % lost": (0.01, 0),
    "5 % lost": (0.05, 0),
    "20 ms": (0, 0.02),
    "cut for 10 s": (0, 0),
    "killed for 5 s": (0, 0),
    "stopped for 5 s": (0, 0),
}
AWAY_S = {"cut for 10 s": 10, "killed for 5 s": 5, "stopped for 5 s": 5}


def sh(command, check=True):
    return subprocess.run(command.split(), check=check, capture_output=True, text=True)


def space(node):
    return f"weir-{node}"


class Network:
    """A switch with a namespace for each node, whose frames it loses or delays: kernels with netem are not everywhere."""

    def __enter__(self):
        self.remove()
        self.taps, self.macs = {}, {}
        self.loss, self.delay_s, self.gone, self.is_over = 0.0, 0.0, set(), False
        for number, (node, _, address) in enumerate(NODES):
            name, tap = space(node), f"weir-t{number}"
            sh(f"ip netns add {name}")
            self.taps[node] = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(self.taps[node], TUNSETIFF, struct.pack("16sH14s", tap.encode(), IFF_TAP | IFF_NO_PI, b""))
            sh(f"ip link set {tap} netns {name}")
            sh(f"ip -n {name} addr add {address}/24 dev {tap}")
            sh(f"ip -n {name} link set {tap} up")
            sh(f"ip -n {name} link set lo up")
        self.thread = threading.Thread(target=self.switch, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over = True
        self.thread.join()
        for tap in self.taps.values():
            os.close(tap)
        self.remove()

    def remove(self):
        for node, _, _ in NODES:
            sh(f"ip netns del {space(node)}", check=False)

    def switch(self):
        node_of = {tap: node for node, tap in self.taps.items()}
        waiting, number = [], 0
        while not self.is_over:
            due = waiting[0][0] - time.monotonic() if waiting else 0.05
            ready, _, _ = select.select(list(node_of), [], [], min(max(due, 0), 0.05))
            for tap in ready:
                for _ in range(64):
                    try:
                        frame = os.read(tap, 65536)
                    except BlockingIOError:
                        break
                    number += 1
                    heapq.heappush(waiting, (time.monotonic() + self.delay_s, number, node_of[tap], frame))
            while waiting and waiting[0][0] <= time.monotonic():
                _, _, node, frame = heapq.heappop(waiting)
                self.forward(node, frame)

    def forward(self, node, frame):
        self.macs[frame[6:12]] = node
        to = self.macs.get(frame[:6])
        for other in [to] if to else [other for other in self.taps if other != node]:
            if {node, other} & self.gone or random.random() < self.loss:
                continue
            try:
                os.write(self.taps[other], frame)
            except OSError:
                pass

    def shape(self, loss, delay_s):
        """All links lose or delay so much."""
        self.loss, self.delay_s = loss, delay_s

    def cut(self, node, is_cut):
        self.gone = {node} if is_cut else set()


class Site:
    def __init__(self, folder):
        self.folder = folder
        graph = (ROOT / "config/emulated-partitioned.toml").read_text()
        fleet = '[fleet]\nname = "links"\ncertificates = "keys"\n'
        keys = [WEIR, "fleet", "keys", str(folder / "keys")]
        for node, kind, address in NODES:
            graph = graph.replace(f"[workers.{node}]\n", f'[workers.{node}]\naddress = "node:{node}"\n')
            fleet += f'[nodes.{node}]\nkind = "{"worker" if kind else "engine"}"\naddress = "{address}:{PORT}"\n'
            keys += ["--node", f"{node}={address}"]
        plan = "emulated-partitioned.plan.toml"
        (folder / plan).write_text((ROOT / "config" / plan).read_text())
        sink = '[sinks.events]\ntype = "jsonl"\npath = "events.jsonl"\ninputs = ["classify"]\n'
        (folder / "graph.toml").write_text(graph + sink)
        (folder / "fleet.toml").write_text(fleet)
        subprocess.run(keys, check=True, capture_output=True)

    def start(self, node, arguments):
        command = ["ip", "netns", "exec", space(node), WEIR, *arguments]
        out = open(self.folder / f"{node}.log", "a")
        return subprocess.Popen(command, cwd=self.folder, stdout=out, stderr=out, env={**os.environ, "RATE": self.rate})

    def worker(self, node):
        _, kind, _ = next(entry for entry in NODES if entry[0] == node)
        return self.start(node, ["worker", "--fleet", "fleet.toml", "--node", node, "--class", kind])

    def engine(self, seconds):
        node = NODES[0][0]
        run = ["run", "graph.toml", "--duration", f"{seconds}s", "--report", "report.json"]
        return self.start(node, [*run, "--fleet", "fleet.toml", "--node", node])

    def times(self):
        """When frames came out, in seconds of the clock."""
        lines = (json.loads(line) for line in open(self.folder / "events.jsonl"))
        moments = (event["time"] for event in lines if event["type"] == "frame")
        return [datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp() for moment in moments]


def disturb(case, network, site, workers):
    """Takes the fast worker away and back; gives the moment at which it was back."""
    if case not in AWAY_S:
        return None
    worker = workers["fast"]
    if case.startswith("cut"):
        network.cut("fast", True)
        time.sleep(AWAY_S[case])
        network.cut("fast", False)
    elif case.startswith("killed"):
        worker.kill()
        worker.wait()
        time.sleep(AWAY_S[case])
        workers["fast"] = site.worker("fast")
    else:
        worker.send_signal(signal.SIGSTOP)
        time.sleep(AWAY_S[case])
        worker.send_signal(signal.SIGCONT)
    return time.time()


def run(case, network, site, seconds):
    (site.folder / "events.jsonl").unlink(missing_ok=True)
    network.shape(*CASES[case])
    workers = {node: site.worker(node) for node, kind, _ in NODES if kind}
    try:
        time.sleep(2)
        engine = site.engine(seconds)
        time.sleep(seconds / 3)
        back = disturb(case, network, site, workers)
        engine.wait()
    finally:
        for worker in workers.values():
            worker.kill()
            worker.wait()
    if engine.returncode:
        sys.exit((site.folder / f"{NODES[0][0]}.log").read_text()[-2000:])
    report = json.loads((site.folder / "report.json").read_text())
    requests = report["requests"]
    ended = requests["delivered"] + requests["late"] + requests["dropped"]
    is_whole = requests["in_flight"] == 0 and requests["arrived"] == ended
    after = [moment - back for moment in site.times() if moment > back] if back else []
    downs = sum(worker["downs"] for worker in report["reservations"]["workers"].values())
    first = f"{min(after):.2f} s" if after else ("never" if back else "")
    share = 100 * requests["delivered"] / requests["arrived"]
    whole = "yes" if is_whole else f"NO: {requests}"
    latency = report["latency_ms"]
    print(f"| {case} | {requests['arrived']} | {whole} | {share:.1f} % | {latency['p50']:.0f}, {latency['p99']:.0f} ms | {downs} | {first} |", flush=True)
    return is_whole


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=int, default=30)
    arguments.add_argument("--rate", default="60")
    given = arguments.parse_args()
    if os.geteuid():
        sys.exit("network namespaces are made by root: run it as root")
    with tempfile.TemporaryDirectory() as folder, Network() as network:
        site = Site(Path(folder))
        site.rate = given.rate
        print("| links | arrived | all accounted for | in time | p50, p99 | workers lost | first frame after |")
        print("|---|---|---|---|---|---|---|", flush=True)
        whole = [run(case, network, site, given.seconds) for case in CASES]
    sys.exit(0 if all(whole) else 1)


if __name__ == "__main__":
    main()
