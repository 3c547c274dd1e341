"""The models of Gymnasium-Robotics' Fetch and PointMaze, gathered when the family is built.

Usage: collect.py VERSION SHA256 DOWNLOADS OUTPUT.
"""

import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from packages import license_of, models

NAME = "gymnasium_robotics"
VERSION, SHA256, DOWNLOADS, OUTPUT = sys.argv[1], sys.argv[2], *map(pathlib.Path, sys.argv[3:])
PACKAGE = models(NAME, VERSION, SHA256, DOWNLOADS, "TORCHRL_POOL_ROBOTICS")
ASSETS = PACKAGE / NAME / "envs" / "assets"

shutil.rmtree(OUTPUT, ignore_errors=True)
for folder in ("fetch", "point", "stls/fetch"):
    shutil.copytree(ASSETS / folder, OUTPUT / folder)
(OUTPUT / "textures").mkdir()
shutil.copy(ASSETS / "textures" / "block.png", OUTPUT / "textures")
shutil.copy(license_of(PACKAGE, NAME, VERSION), OUTPUT / f"LICENSE.{NAME}")
