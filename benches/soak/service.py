"""A running `weir serve`: its process, its API, and the lines that it writes."""

import http.client
import json
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

# No request may take longer: the API bounds each to 30 s.
TIMEOUT_S = 35


class Service:
    """The program, serving the graph in `folder`; `args` are further arguments."""

    def __init__(self, weir: Path, folder: Path, args: list[str]) -> None:
        self.folder = folder
        self.log = (folder / "weir.log").open("w+")
        command = [str(weir), "serve", "graph.toml", "--listen", "127.0.0.1:0", "--report", "report.json", *args]
        # Streams that the graph's file cannot have are kept here, and not in the user's folder.
        environment = os.environ | {"XDG_STATE_HOME": str(folder / "state")}
        self.process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=self.log)
        self.lines, self.slowest_s = 0, 0.0
        self._first_line = ""
        self._reading = threading.Event()
        self._reading.set()
        threading.Thread(target=self._read, daemon=True).start()
        self.port = self._port()

    def _port(self) -> int:
        # On standard output, or, where lines of a sink are there, on the other.
        for _ in range(600):
            text = self._first_line + (self.folder / "weir.log").read_text()
            said = re.search(r"listening on http://127.0.0.1:(\d+)", text)
            if said:
                return int(said[1])
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise SystemExit("soak: the service did not start:\n" + (self.folder / "weir.log").read_text())

    def _read(self) -> None:
        for line in self.process.stdout:
            self._first_line = self._first_line or line.decode(errors="replace")
            self.lines += 1
            self._reading.wait()

    def stall_reader(self) -> None:
        """What it writes is read no more, until `resume_reader`."""
        self._reading.clear()

    def resume_reader(self) -> None:
        self._reading.set()

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, object]:
        """Status and answer of a request."""
        began = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        try:
            text = body if isinstance(body, str | None) else json.dumps(body)
            connection.request(method, path, body=text)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)
        is_json = answer.getheader("content-type", "").startswith("application/json")
        return answer.status, json.loads(content) if is_json else content.decode()

    def states(self) -> dict[str, dict]:
        """Streams by name."""
        status, streams = self.ask("GET", "/api/streams")
        return {stream["name"]: stream for stream in streams} if status == 200 else {}

    def sample(self) -> dict[str, int]:
        """Memory in kilobytes, threads beside those that answer the API, handles."""
        process = Path(f"/proc/{self.process.pid}")
        found = re.search(r"VmRSS:\s+(\d+)", (process / "status").read_text())
        threads = 0
        for thread in (process / "task").iterdir():
            try:
                threads += not (thread / "comm").read_text().startswith("weir-api")
            except OSError:
                continue  # It has ended meanwhile.
        return {"rss": int(found[1]), "threads": threads, "handles": len(os.listdir(process / "fd"))}

    def stop(self) -> int:
        """Asks it to end; gives its exit status, -1 where it does not end."""
        self.resume_reader()
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return -1

    def said(self) -> str:
        """The last that it said on standard error."""
        return (self.folder / "weir.log").read_text()[-4_000:]
