"""Packs the built extension and python/alluvia into a wheel, and prints its path.

Usage: wheel.py EXTENSION FOLDER

The extension comes from a build of the whole workspace (a build of its own would compile the query engine anew), which is why no build
backend makes it. What a wheel is: packaging.python.org, "Binary distribution format"; the platform tag: PEP 600.
"""

import base64
import hashlib
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON_MIN = (3, 10)  # As PyO3's feature abi3-py310 has it.
SUMMARY = "An analytical database for data that is still arriving"
# Libraries that PEP 600 takes for granted.
EVERYWHERE = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libgcc_s.so.1", "ld-linux-x86-64.so.2"}
EXTRAS = {"arrow": ["pyarrow>=16"], "pandas": ["pandas>=2", "pyarrow>=16"], "polars": ["polars>=1"]}


def version():
    text = (ROOT / "Cargo.toml").read_text()
    return re.search(r'^version = "([^"]+)"', text, re.MULTILINE)[1]


def stripped(extension, folder):
    """Without debug information, which is most of its size."""
    copy = folder / "_alluvia.abi3.so"
    if shutil.which("strip"):
        subprocess.run(["strip", "--strip-debug", "-o", str(copy), str(extension)], check=True)
    else:
        shutil.copyfile(extension, copy)
    return copy.read_bytes()


def platform_tag(extension):
    """The oldest glibc that has what the extension calls; plainly this platform where that cannot be told."""
    machine = platform.machine()
    if sys.platform != "linux":
        sys.exit(f"wheel: {sys.platform} is not supported: the package is built on Linux")
    if not shutil.which("readelf"):
        return f"linux_{machine}"
    said = subprocess.run(["readelf", "--wide", "-d", "-V", str(extension)], check=True, capture_output=True, text=True).stdout
    needed = set(re.findall(r"\(NEEDED\).*\[(.+?)\]", said))
    versions = [tuple(map(int, found)) for found in re.findall(r"GLIBC_(\d+)\.(\d+)", said)]
    if needed - EVERYWHERE or not versions:
        return f"linux_{machine}"
    return "manylinux_%d_%d_%s" % (*max(max(versions), (2, 17)), machine)


def metadata():
    lines = [
        "Metadata-Version: 2.4", "Name: alluvia", f"Version: {version()}", f"Summary: {SUMMARY}", "License-Expression: Apache-2.0",
        "License-File: LICENSE", "Requires-Python: >=%d.%d" % PYTHON_MIN, "Classifier: Typing :: Typed",
        "Classifier: Operating System :: POSIX :: Linux", "Classifier: Programming Language :: Rust", "Classifier: Topic :: Database",
    ]
    for extra, requirements in EXTRAS.items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {requirement}; extra == "{extra}"' for requirement in requirements]
    lines += ["Description-Content-Type: text/markdown", "", (ROOT / "docs" / "PYTHON.md").read_text()]
    return "\n".join(lines).encode()


def digest(content):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def main():
    extension, folder = map(pathlib.Path, sys.argv[1:])
    tag = "cp%d%d-abi3-%s" % (*PYTHON_MIN, platform_tag(extension))
    name = f"alluvia-{version()}"
    info = f"{name}.dist-info"
    package = ROOT / "python" / "alluvia"
    files = {
        f"alluvia/{path.name}": path.read_bytes()
        for path in sorted(package.iterdir())
        if path.suffix in (".py", ".pyi") or path.name == "py.typed"
    }
    with tempfile.TemporaryDirectory() as scratch:
        files["alluvia/_alluvia.abi3.so"] = stripped(extension, pathlib.Path(scratch))
    files[f"{info}/licenses/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    files[f"{info}/METADATA"] = metadata()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: alluvia\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    record = [f"{path},{digest(content)},{len(content)}" for path, content in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{name}-{tag}.whl"
    partial = wheel.with_suffix(".partial")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for path, content in files.items():
            # The same bytes from the same files: no times.
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if path.endswith(".so") else 0o644) << 16
            archive.writestr(entry, content)
    partial.replace(wheel)
    print(wheel)


main()
