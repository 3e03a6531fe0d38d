"""A camera for tests: serves an MP4 with H.264 over RTSP on loopback, without transcoding, from its beginning to each client.

    camera.py CLIP [sound] [user=NAME:PASSWORD] [tls=CERTIFICATE,KEY]

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
    if "sound" in sys.argv[2:]:
        streams.append(SOUND)
    Gst.init(None)
    factory = GstRtspServer.RTSPMediaFactory()
    factory.set_launch(f'( filesrc location="{clip}" ! qtdemux name=demux {" ".join(streams)} )')
    server = GstRtspServer.RTSPServer()
    server.set_address("127.0.0.1")
    server.set_service("0")
    server.get_mount_points().add_factory("/live", factory)
    keys = dict(word.split("=", 1) for word in sys.argv[2:] if "=" in word)
    if keys:
        protect(server, factory, keys)
    loop = GLib.MainLoop()
    if server.attach(None) == 0:
        sys.exit("no port to listen on")
    print(server.get_bound_port(), flush=True)
    GLib.io_add_watch(sys.stdin.fileno(), GLib.PRIORITY_DEFAULT, GLib.IO_HUP | GLib.IO_ERR, lambda *_: loop.quit())
    loop.run()


main()
