"""A headless Chromium over WebDriver: how soon the page of a service paints, and the bytes that it loads."""

import json
import re
import subprocess
import time
import urllib.request

ARGUMENTS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--autoplay-policy=no-user-gesture-required",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--window-size=1440,900",
]
# Milliseconds from the start of the navigation, and bytes with heads; live video comes over the WebSocket and is not in them.
FIGURES = """
const entries = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
const videos = [...document.querySelectorAll(".tile video")].filter((video) => video.currentTime > 0).length;
return { paint_ms: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? null, now_ms: performance.now(),
  requests: entries.length, bytes: entries.reduce((sum, { transferSize }) => sum + transferSize, 0), videos };
"""
TIMEOUT_S = 60


def _post(address: str, body: object) -> dict:
    head = {"Content-Type": "application/json"}
    request = urllib.request.Request(address, json.dumps(body).encode(), head)
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
        return json.load(answer)["value"]


def measure(address: str, tiles: int) -> str:
    """Opens the page at an address with an empty cache, until so many videos play; gives its figures in words."""
    driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    session = None
    try:
        port = None
        while port is None:
            line = driver.stdout.readline().decode()
            assert line, "chromedriver ended"
            port = re.search(r"successfully on port (\d+)", line)
        root = f"http://127.0.0.1:{port[1]}/session"
        options = {"browserName": "chrome", "goog:chromeOptions": {"args": ARGUMENTS}}
        opened = _post(root, {"capabilities": {"alwaysMatch": options}})
        session = f"{root}/{opened['sessionId']}"
        _post(f"{session}/url", {"url": address})
        end = time.monotonic() + TIMEOUT_S
        while True:
            found = _post(f"{session}/execute/sync", {"script": FIGURES, "args": []})
            if found["videos"] >= tiles or time.monotonic() > end:
                break
            time.sleep(0.05)
    finally:
        if session:
            end_session = urllib.request.Request(session, method="DELETE")
            urllib.request.urlopen(end_session, timeout=TIMEOUT_S).close()
        driver.kill()
        driver.wait()
    # A browser without a display, or a page that failed, may paint nothing.
    paint_ms = found.get("paint_ms")
    paint = "nothing is painted" if paint_ms is None else f"first paint after {paint_ms:.0f} ms"
    return (
        f"{paint}, {found['videos']} videos play after {found['now_ms'] / 1000:.1f} s; "
        f"{found['requests']} requests, {found['bytes'] / 1e3:.0f} kB beside live video"
    )
