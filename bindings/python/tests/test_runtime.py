"""Libraries that the package needs beside itself."""

from __future__ import annotations

from weir import _runtime


def test_missing_ffmpeg_says_what_to_install() -> None:
    text = "libavcodec.so.59: cannot open shared object file: No such file or directory"
    error = _runtime.with_remedy(ImportError(text, name="weir._weir", path="/weir/_weir.abi3.so"))
    assert str(error).startswith(text) and "apt-get install ffmpeg" in str(error)
    assert (error.name, error.path) == ("weir._weir", "/weir/_weir.abi3.so")


def test_other_errors_of_the_import_are_kept() -> None:
    for text in ["libcustom.so.1: cannot open shared object file: No such file or directory", "undefined symbol: av_log"]:
        error = ImportError(text)
        assert _runtime.with_remedy(error) is error
