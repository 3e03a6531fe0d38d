"""Time stamps of RTP over an RTSP connection, moved as if the clock of the camera had been set."""

import re

# A frame of RTP or RTCP begins with this byte, its channel and its length; all else is a message of RTSP.
MARK = ord("$")
HEADER = 4
# The time stamp of RTP, and that of a report of the sender (RTCP), behind the header of their frame.
RTP_STAMP, REPORT_STAMP = HEADER + 4, HEADER + 16
SENDER_REPORT = 200


class RtpClock:
    """The clock of one connection, from its beginning on."""

    def __init__(self) -> None:
        self.rest = b""

    def moved(self, piece: bytes, ticks: int) -> bytes:
        """What is complete by now, with time stamps moved by a number of ticks; the rest follows with the next piece."""
        self.rest += piece
        done = bytearray()
        while size := self._size():
            message, self.rest = bytearray(self.rest[:size]), self.rest[size:]
            if message[0] == MARK:
                is_report = message[1] % 2 == 1
                at = REPORT_STAMP if is_report else RTP_STAMP
                if size >= at + 4 and (not is_report or message[HEADER + 1] == SENDER_REPORT):
                    stamp = int.from_bytes(message[at : at + 4], "big") + ticks
                    message[at : at + 4] = (stamp % 2**32).to_bytes(4, "big")
            done += message
        return bytes(done)

    def _size(self) -> int:
        """Bytes of the next message; 0 if it is not complete."""
        if self.rest[:1] == b"$":
            size = HEADER + int.from_bytes(self.rest[2:4], "big") if len(self.rest) >= HEADER else len(self.rest) + 1
        else:
            head, end, _ = self.rest.partition(b"\r\n\r\n")
            body = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
            size = len(head) + len(end) + (int(body[1]) if body else 0) if end else len(self.rest) + 1
        return size if size <= len(self.rest) else 0
