"""A camera for tests: serves an MP4 with H.264 over RTSP on loopback, without transcoding, from its beginning to each client.

    camera.py CLIP [sound]

Prints the port that it listens on, and serves `/live` until its standard input is closed: it ends with what started it.
"""

import sys

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer  # noqa: E402 (versions come first)

PICTURES = "demux.video_0 ! queue ! h264parse ! rtph264pay name=pay0 pt=96 config-interval=1"
SOUND = "demux.audio_0 ! queue ! aacparse ! rtpmp4gpay name=pay1 pt=97"


def main() -> None:
    clip, streams = sys.argv[1], [PICTURES]
    if "sound" in sys.argv[2:]:
        streams.append(SOUND)
    Gst.init(None)
    factory = GstRtspServer.RTSPMediaFactory()
    factory.set_launch(f'( filesrc location="{clip}" ! qtdemux name=demux {" ".join(streams)} )')
    server = GstRtspServer.RTSPServer()
    server.set_address("127.0.0.1")
    server.set_service("0")
    server.get_mount_points().add_factory("/live", factory)
    loop = GLib.MainLoop()
    if server.attach(None) == 0:
        sys.exit("no port to listen on")
    print(server.get_bound_port(), flush=True)
    GLib.io_add_watch(sys.stdin.fileno(), GLib.PRIORITY_DEFAULT, GLib.IO_HUP | GLib.IO_ERR, lambda *_: loop.quit())
    loop.run()


main()
