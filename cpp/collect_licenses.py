"""The licences of Python packages whose code or data the wheel holds, gathered when it is built.

Usage: collect_licenses.py OUTPUT PACKAGE…: writes OUTPUT/PACKAGE/LICENSE and its like.
"""

import importlib.metadata
import pathlib
import shutil
import sys

NAMES = ("LICENSE", "LICENCE", "COPYING", "NOTICE")

output = pathlib.Path(sys.argv[1])
shutil.rmtree(output, ignore_errors=True)
for package in sys.argv[2:]:
    files = importlib.metadata.files(package) or ()
    found = [file for file in files if ".dist-info" in file.parts[0] and file.name.startswith(NAMES)]
    if not found:
        sys.exit(f"the Python package {package!r} lacks its licence")
    for file in found:
        inside = file.parts[2:] if file.parts[1] == "licenses" else file.parts[1:]
        target = output.joinpath(package, *inside)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file.locate(), target)
