"""A camera for tests: serves an MP4 with H.264 over RTSP on loopback, without transcoding, from its beginning to each client.

    camera.py CLIP [sound] [alaw] [mulaw] [late=SECONDS] [stops=SECONDS] [user=NAME:PASSWORD] [tls=CERTIFICATE,KEY]

The sound is the AAC of the clip, or a tone as G.711, which may begin late or stop.

Prints the port that it listens on, and serves `/live` until its standard input is closed: it ends with what started it.
"""

import sys

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtsp", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import Gio, GLib, Gst, GstRtsp, GstRtspServer  # noqa: E402 (versions come first)

PICTURES = "demux.video_0 ! queue ! h264parse ! rtph264pay name=pay0 pt=96 config-interval=1"
SOUND = "demux.audio_0 ! queue ! aacparse ! rtpmp4gpay name=pay1 pt=97"
TONES = {"alaw": ("alawenc", "rtppcmapay", 8), "mulaw": ("mulawenc", "rtppcmupay", 0)}


def tone(name: str, keys: dict[str, str]) -> str:
    """A tone as G.711."""
    encoder, payloader, number = TONES[name]
    offset = int(float(keys.get("late", "0")) * 1e9)
    # Fifty buffers a second.
    count = int(float(keys["stops"]) * 50) if "stops" in keys else -1
    return (
        f"audiotestsrc samplesperbuffer=160 timestamp-offset={offset} num-buffers={count} "
        f"! audio/x-raw,rate=8000,channels=1 ! queue ! {encoder} ! {payloader} name=pay1 pt={number}"
    )


def protect(server: GstRtspServer.RTSPServer, factory: GstRtspServer.RTSPMediaFactory, keys: dict[str, str]) -> None:
    """Asks for a user by Digest, and encrypts."""
    permissions = GstRtspServer.RTSPPermissions.new()
    for permission in ("media.factory.access", "media.factory.construct"):
        permissions.add_permission_for_role("watcher", permission, True)
    factory.set_permissions(permissions)
    token = GstRtspServer.RTSPToken.new()
    token.set_string("media.factory.role", "watcher")
    auth = GstRtspServer.RTSPAuth.new()
    if "user" in keys:
        auth.set_supported_methods(GstRtsp.RTSPAuthMethod.DIGEST)
        auth.add_digest(*keys["user"].split(":"), token)
    else:
        auth.set_default_token(token)
    if "tls" in keys:
        auth.set_tls_certificate(Gio.TlsCertificate.new_from_files(*keys["tls"].split(",")))
    server.set_auth(auth)


def main() -> None:
    clip, streams = sys.argv[1], [PICTURES]
    keys = dict(word.split("=", 1) for word in sys.argv[2:] if "=" in word)
    if "sound" in sys.argv[2:]:
        streams.append(SOUND)
    streams += [tone(name, keys) for name in TONES if name in sys.argv[2:]]
    Gst.init(None)
    factory = GstRtspServer.RTSPMediaFactory()
    factory.set_launch(f'( filesrc location="{clip}" ! qtdemux name=demux {" ".join(streams)} )')
    server = GstRtspServer.RTSPServer()
    server.set_address("127.0.0.1")
    server.set_service("0")
    server.get_mount_points().add_factory("/live", factory)
    if "user" in keys or "tls" in keys:
        protect(server, factory, keys)
    loop = GLib.MainLoop()
    if server.attach(None) == 0:
        sys.exit("no port to listen on")
    print(server.get_bound_port(), flush=True)
    GLib.io_add_watch(sys.stdin.fileno(), GLib.PRIORITY_DEFAULT, GLib.IO_HUP | GLib.IO_ERR, lambda *_: loop.quit())
    loop.run()


main()
