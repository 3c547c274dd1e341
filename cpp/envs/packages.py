"""Python packages that families are built from, in one release: as pip fetches them, and checked.

Usage: packages.py NAME VERSION SHA256 DOWNLOADS OPTION: prints the folder of the sources, see `sources`.
"""

import hashlib
import importlib.metadata
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

# pip asks the sources' build backend for their metadata, which would run the package's own program and need
# all that it is built with. This stands in for the backend.
_BACKENDS = ("setuptools/build_meta.py", "scikit_build_core/build.py")
_BACKEND = """
import pathlib, sys
def prepare_metadata_for_build_wheel(folder, config_settings=None):
    info = pathlib.Path(folder, "{file_name}-{version}.dist-info")
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
    return info.name
__legacy__ = sys.modules[__name__]
"""


def models(name: str, version: str, sha256: str, downloads: pathlib.Path, option: str) -> pathlib.Path:
    """The folder that a package's files lie in: where that release is installed, else an unpacked wheel.

    Args:
        name: the distribution, as its archive's name spells it.
        version: the release.
        sha256: of the archive.
        downloads: the folder to keep it in.
        option: of CMake, which builds without it.
    """
    try:
        found = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        found = None
    if found and found.version == version:
        return pathlib.Path(str(found.locate_file("")))
    folder = downloads / f"{name}-{version}"
    if not folder.exists():
        archive = downloads / f"{name}-{version}-py3-none-any.whl"
        _fetch(archive, name, version, sha256, option, "--only-binary=:all:")
        _unpack(archive, "zip", ".", folder)
    return folder


def sources(name: str, version: str, sha256: str, downloads: pathlib.Path, option: str) -> pathlib.Path:
    """The folder of a package's sources, unpacked; the arguments are those of `models`."""
    folder = downloads / f"{name}-{version}"
    if not folder.exists():
        archive = downloads / f"{name}-{version}.tar.gz"
        with tempfile.TemporaryDirectory() as backends:
            for backend in _BACKENDS:
                module = pathlib.Path(backends, backend)
                module.parent.mkdir()
                (module.parent / "__init__.py").touch()
                text = _BACKEND.format(name=name, file_name=name.replace("-", "_"), version=version)
                module.write_text(text)
            how = ("--no-binary=:all:", "--no-build-isolation", "--use-pep517")
            _fetch(archive, name, version, sha256, option, *how, in_front=backends)
        _unpack(archive, "gztar", folder.name, folder)
    return folder


def license_of(folder: pathlib.Path, name: str, version: str) -> pathlib.Path:
    """The licence that a wheel came with."""
    return next(folder.glob(f"{name}-{version}.dist-info/**/LICENSE"))


def _fetch(
    archive: pathlib.Path, name: str, version: str, sha256: str, option: str, *how: str, in_front: str = ""
) -> None:
    """Has pip download the archive, unless it is there. `in_front` is where Python looks first."""
    if not archive.exists():
        options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--ignore-requires-python", *how]
        command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(archive.parent)]
        path = os.pathsep.join(filter(None, (in_front, os.environ.get("PYTHONPATH"))))
        environment = {**os.environ, "PYTHONPATH": path}
        done = subprocess.run([*command, f"{name}=={version}"], env=environment, check=False)
        if done.returncode != 0 or not archive.exists():
            sys.exit(
                f"pip could not fetch {name} {version}, which tasks are built from. It may lie in a folder: "
                f"PIP_FIND_LINKS=FOLDER. Without these tasks: -D{option}=OFF "
                f"(pip: -C cmake.define.{option}=OFF)."
            )
    checksum = hashlib.sha256(archive.read_bytes()).hexdigest()
    if checksum != sha256:
        sys.exit(f"{archive} is not the release {version} of {name}: its SHA-256 is {checksum}")


def _unpack(archive: pathlib.Path, form: str, inside: str, folder: pathlib.Path) -> None:
    """In two steps, so that an interruption leaves nothing that looks complete."""
    new = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    shutil.unpack_archive(archive, new, form)
    (new / inside).rename(folder)
    shutil.rmtree(new, ignore_errors=True)


if __name__ == "__main__":
    NAME, VERSION, SHA256, DOWNLOADS, OPTION = sys.argv[1:]
    print(sources(NAME, VERSION, SHA256, pathlib.Path(DOWNLOADS), OPTION))
