"""Starts and stops, Ctrl-C, and the exit of the interpreter."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from conftest import emulated

import weir

TESTS = Path(__file__).parent


def resources() -> tuple[int, int, int]:
    """Threads, descriptors, and resident memory in KiB."""
    status = Path("/proc/self/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in status)
    threads = int(fields["Threads"])
    return threads, len(os.listdir("/proc/self/fd")), int(fields["VmRSS"].split()[0])


def test_a_hundred_starts_and_stops_leave_nothing_behind() -> None:
    def start_and_stop() -> None:
        with weir.Engine(emulated(frames=None, rate=500), frames=True) as engine:
            assert next(engine.deliveries()).image is not None

    for _ in range(20):
        start_and_stop()
    gc.collect()
    threads, descriptors, memory = resources()
    for _ in range(100):
        start_and_stop()
    gc.collect()
    after = resources()
    assert after[0] <= threads and after[1] <= descriptors
    assert after[2] - memory < 8 << 10, f"from {memory} to {after[2]} KiB"


def test_engine_that_is_dropped_stops() -> None:
    before = threading.active_count(), resources()[0]
    engine = weir.Engine(emulated(frames=None))
    assert resources()[0] > before[1]
    del engine
    gc.collect()
    with weir.Engine(emulated(frames=1)) as last:
        last.wait()
    for _ in range(3000):
        if resources()[0] <= before[1]:
            return
        os.sched_yield()
        threading.Event().wait(0.01)
    raise AssertionError("threads of the engine are left")


def script(body: str) -> subprocess.Popen[str]:
    """Runs Python that has the graph of these tests."""
    text = f"import sys; sys.path.insert(0, {str(TESTS)!r})\nfrom conftest import emulated\nimport weir\n{body}"
    return subprocess.Popen(
        [sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_ctrl_c_ends_a_loop() -> None:
    running = script(
        "engine = weir.Engine(emulated(frames=None, rate=0.5), until_stopped=True)\n"
        "print('running', flush=True)\n"
        "for delivery in engine.deliveries(): pass\n"
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "running\n"
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == -signal.SIGINT and "KeyboardInterrupt" in errors


def test_ctrl_c_reaches_a_handler_of_the_program() -> None:
    running = script(
        "try:\n"
        "    with weir.Engine(emulated(frames=None)) as engine:\n"
        "        print('running', flush=True)\n"
        "        engine.wait()\n"
        "except KeyboardInterrupt:\n"
        "    print(engine.report()['requests']['in_flight'], engine.finished)\n"
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "running\n"
    running.send_signal(signal.SIGINT)
    output, errors = running.communicate(timeout=60)
    assert (output, errors, running.returncode) == ("0 True\n", "", 0)


def test_interpreter_exits_while_engines_run() -> None:
    running = script(
        "import threading\n"
        "engines = [weir.Engine(emulated(frames=None)) for _ in range(3)]\n"
        "thread = threading.Thread(target=lambda: [0 for _ in engines[0].deliveries()], daemon=True)\n"
        "thread.start()\n"
        "next(engines[1].deliveries())\n"
    )
    output, errors = running.communicate(timeout=60)
    assert (output, errors, running.returncode) == ("", "", 0)


def test_forked_process_has_no_engine_and_waits_for_none() -> None:
    running = script(
        "import os\n"
        "engine = weir.Engine(emulated(frames=None))\n"
        "deliveries = engine.deliveries()\n"
        "next(deliveries)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    for use in (engine.report, engine.wait, lambda: next(deliveries)):\n"
        "        try:\n"
        "            use()\n"
        "        except weir.EngineError as error:\n"
        "            print(error, flush=True)\n"
        "    with engine: pass\n"
        "    weir._engine._stop_all()\n"
        "    os._exit(0)\n"
        "print(os.waitpid(child, 0)[1], next(deliveries).stream, flush=True)\n"
    )
    output, errors = running.communicate(timeout=60)
    assert output.count("forked from its own") == 3, (output, errors)
    assert output.splitlines()[-1] == "0 camera" and running.returncode == 0, (output, errors)
