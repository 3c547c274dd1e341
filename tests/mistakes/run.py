"""Plants each mistake of this folder in a copy of the checkout, and looks for a test that finds it.

A patch begins with two lines: what the mistake stands for, and the tests that are tried first. If these pass,
the default run is tried, and its first failing test is written into the patch. What neither finds is missed.

    python tests/mistakes/run.py [NAME ...] [--only-finders]

Run it with the Python of an environment that has ``.[test]`` and pybind11. Exits with 1 where a mistake is
missed, and with 2 where a patch does not apply or does not compile: who changes the code changes the mistake.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import sysconfig
import time
import venv
from pathlib import Path

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]


class Copy:
    """A worktree of the last commit, with an environment of its own into which it is built."""

    def __init__(self, folder: Path) -> None:
        self.tree, self.python = folder / "tree", folder / "venv/bin/python"
        self.commit = git("rev-parse", "HEAD", at=ROOT).strip()
        if not self.tree.exists():
            git("worktree", "prune", at=ROOT)
            git("worktree", "add", "--detach", str(self.tree), at=ROOT)
        if not self.python.exists():
            venv.create(folder / "venv", with_pip=True)
            (site,) = (folder / "venv/lib").glob("*/site-packages")
            (site / "others.pth").write_text(sysconfig.get_path("purelib"))
        self.restore()
        self.build()

    def restore(self) -> None:
        """As committed; what was built stays."""
        git("checkout", "--force", "--detach", self.commit, at=self.tree)

    def build(self) -> None:
        """Compiles what has changed. Raises SystemExit(2): it does not compile."""
        pip = [
            str(self.python),
            "-m",
            "pip",
            "install",
            "--no-build-isolation",
            "--no-deps",
            "-e",
            str(self.tree),
        ]
        release = "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG"  # compiled in half the time of -O3
        scripts = str(Path(sys.executable).parent)  # cmake and ninja
        environment = {
            **os.environ,
            "SKBUILD_CMAKE_DEFINE": release[2:],
            "PATH": f"{scripts}:{os.environ['PATH']}",
        }
        done = subprocess.run(pip, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(done.stdout[-3000:], done.stderr[-3000:], sep="\n")
            sys.exit(2)

    def first_failure(self, *arguments: str) -> str:
        """The first test that fails; empty: all pass."""
        limits = ["--timeout", "120", "--timeout-method", "thread"]  # which ends the process
        command = [str(self.python), "-m", "pytest", "-q", "-x", *limits, *arguments]
        done = subprocess.run(command, cwd=self.tree, capture_output=True, text=True, check=False)
        if done.returncode in (3, 4, 5):  # pytest's own errors, and no tests
            print(done.stdout[-3000:], done.stderr[-1000:], sep="\n")
            sys.exit(2)
        found = re.search(r"^(?:FAILED|ERROR) (\S+::.*?)(?: - |$)", done.stdout, re.MULTILINE)
        return found[1] if found else ("a test that ends its process" if done.returncode else "")


def git(*arguments: str, at: Path) -> str:
    done = subprocess.run(["git", *arguments], cwd=at, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"git {' '.join(arguments)}: {done.stderr}")
        sys.exit(2)
    return done.stdout


def finder_of(copy: Copy, name: str, *, only_finders: bool) -> str:
    """The test that finds a mistake, which is written into its patch; empty: none does."""
    patch, committed = FOLDER / f"{name}.patch", copy.tree / "tests/mistakes" / f"{name}.patch"
    (named,) = re.findall(r"^Finder: (.*)$", committed.read_text(), re.MULTILINE)
    git("apply", str(committed), at=copy.tree)
    try:
        copy.build()
        tests = [named] if "::" in named else named.split()  # a test, or files
        found = copy.first_failure("-n", "0", *tests)
        if not found and not only_finders:
            found = copy.first_failure()
        if "::" in found and found != named:
            patch.write_text(patch.read_text().replace(f"Finder: {named}", f"Finder: {found}"))
        return found
    finally:
        copy.restore()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="mistakes; default: all")
    parser.add_argument("--only-finders", action="store_true", help="do not try the default run")
    parser.add_argument("--copy", type=Path, default=ROOT / "build/mistakes", help="where the copy is kept")
    settings = parser.parse_args()
    names = settings.names or sorted(patch.stem for patch in FOLDER.glob("*.patch"))
    copy, missed = Copy(settings.copy), []
    for name in names:
        start = time.monotonic()
        found = finder_of(copy, name, only_finders=settings.only_finders)
        print(f"{name}: {found or 'MISSED'} ({time.monotonic() - start:.0f} s)", flush=True)
        missed += [] if found else [name]
    copy.build()
    print(f"{len(names) - len(missed)} of {len(names)} found", *missed, sep="\n  ")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
