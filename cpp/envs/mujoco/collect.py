"""What the MuJoCo family takes from installed Python packages, gathered when it is built.

From ``mujoco`` or ``mujoco-core``, both of which are imported as ``mujoco``: the headers and a copy of the
library under another name, so that MuJoCo's global state (error handlers, callbacks, the clock that importing
the Python package installs) is not shared with the Python package's copy in the same process. From
``gymnasium``: the models of its tasks.

Usage: collect.py PACKAGE VERSION OUTPUT. Prints ``include folder;library``, as a CMake list.
"""

import importlib.metadata
import importlib.util
import pathlib
import shutil
import subprocess
import sys

package, version = sys.argv[1:3]
output = pathlib.Path(sys.argv[3])
output.mkdir(parents=True, exist_ok=True)


def package_folder(name: str) -> pathlib.Path:
    """Without importing it: that would start more than a build should."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        sys.exit(f"the Python package {name!r} is needed to build the MuJoCo family")
    return pathlib.Path(spec.submodule_search_locations[0])


def version_of(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def copy_license(package: str, name: str) -> None:
    for file in importlib.metadata.files(package) or ():
        if file.name == "LICENSE":
            shutil.copy(file.locate(), output / f"LICENSE.{name}")
            return
    sys.exit(f"the Python package {package!r} lacks its licence")


mujoco = package_folder("mujoco")
found = {name: version_of(name) for name in ("mujoco", "mujoco-core")}
if {name: installed for name, installed in found.items() if installed} != {package: version}:
    told = ", ".join(f"{name} {installed or '(none)'}" for name, installed in found.items())
    sys.exit(
        f"building with {package} {version}, and nothing else that is imported as mujoco, but found {told}: "
        "uninstall both, then install that one"
    )
is_macos = sys.platform == "darwin"
names = ("libmujoco.{}.dylib", "libmjpool.{}.dylib") if is_macos else ("libmujoco.so.{}", "libmjpool.so.{}")
old, new = (name.format(version) for name in names)
extensions = list((mujoco / "plugin").glob("*.dylib" if is_macos else "*.so"))


def rename_in(file: pathlib.Path, target: pathlib.Path) -> None:
    """The new name, of the same length, can be written over the old one wherever a file holds it."""
    content = file.read_bytes()
    renamed = content.replace(old.encode() + b"\0", new.encode() + b"\0")
    if renamed == content:
        sys.exit(f"{file} does not hold its own name")
    if not target.exists() or target.read_bytes() != renamed:
        target.write_bytes(renamed)


def rename_in_load_commands(file: pathlib.Path, target: pathlib.Path) -> None:
    """macOS: libraries say where those lie that they load, and are signed."""
    shutil.copy(file, target)
    framework = f"@rpath/mujoco.framework/Versions/A/{old}"
    own = ["-id", f"@rpath/{new}"] if file.name == old else ["-change", framework, f"@loader_path/../{new}"]
    subprocess.run(["install_name_tool", *own, target], check=True)
    subprocess.run(["codesign", "--force", "--sign", "-", target], check=True)


(output / "extensions").mkdir(exist_ok=True)
kept = {new, *(extension.name for extension in extensions)}
for stale in (*output.glob("libmjpool.*"), *(output / "extensions").iterdir()):
    if stale.name not in kept:
        stale.unlink()  # of another release
for file in (mujoco / old, *extensions):
    target = output / new if file.name == old else output / "extensions" / file.name
    (rename_in_load_commands if is_macos else rename_in)(file, target)
copy_license(package, "mujoco")

models = package_folder("gymnasium") / "envs" / "mujoco" / "assets"
shutil.copytree(models, output / "assets", dirs_exist_ok=True)
copy_license("gymnasium", "gymnasium")

print(f"{mujoco / 'include'};{output / new}", end="")
