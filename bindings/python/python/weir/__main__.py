"""The command: ``python -m weir run graph.toml``."""

import signal
import sys

from . import _weir


def main() -> None:
    """Carries out the command line of this process."""
    # The command handles Ctrl-C itself, and where it does not, it ends by it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_weir.main(["weir", *sys.argv[1:]], [sys.executable, "-m", "weir"]))


if __name__ == "__main__":
    main()
