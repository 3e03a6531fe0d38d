"""Takes the shared libraries and the licences out of the ONNX Runtime wheel in a folder, and the wheel away."""

import pathlib
import re
import sys
import zipfile

LIBRARY = re.compile(r"onnxruntime/capi/(libonnxruntime\w*\.so[.\d]*)")
LICENCE = re.compile(r"onnxruntime/(LICENSE|ThirdPartyNotices\.txt)")


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if wanted := LIBRARY.fullmatch(name) or LICENCE.fullmatch(name):
                (folder / wanted[1]).write_bytes(archive.read(name))
    (versioned,) = folder.glob("libonnxruntime.so.*")
    (folder / "libonnxruntime.so").symlink_to(versioned.name)
    wheel.unlink()


if __name__ == "__main__":
    main()
