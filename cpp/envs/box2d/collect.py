"""What the tasks need of Box2D, gathered from pybox2d's sources when the family is built.

Usage: collect.py VERSION SHA256 DOWNLOADS OUTPUT.
"""

import pathlib
import re
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from packages import sources

VERSION, SHA256, DOWNLOADS, OUTPUT = sys.argv[1], sys.argv[2], *map(pathlib.Path, sys.argv[3:])
SOURCES = sources("box2d-py", VERSION, SHA256, DOWNLOADS, "TORCHRL_POOL_BOX2D") / "Box2D"

# Of the joints, tasks have one kind. The timer is engine/timer.cc.
LEFT_OUT = re.compile(r"Joints/b2(?!Joint|RevoluteJoint)\w+\.cpp|b2Timer\.cpp")
OTHER_JOINTS = (r"\tcase e_(?!revolute)\w+Joint:\n.*?break;\n", "")
FRIEND = (r"private:\n", r"\g<0>\tfriend struct b2FreeNodes;\n")
# What is different in a file: patterns, and what takes the place of each of their matches.
CHANGES = {
    # Worlds on several threads count for themselves.
    "Collision/b2Distance.cpp": [(r"^int32 b2_gjk", r"thread_local \g<0>")],
    "Collision/b2TimeOfImpact.cpp": [(r"^(int32|float32) b2_toi", r"thread_local \g<0>")],
    # Where episodes end, physics.cc reads and sets what no function of theirs shows.
    "Collision/b2BroadPhase.h": [FRIEND],
    "Collision/b2DynamicTree.h": [FRIEND],
    # A step that throws leaves entries behind, in a world that is only destroyed; and destructors, which call
    # Free then, must not throw.
    "Common/b2StackAllocator.cpp": [
        (r"\tb2Assert\(m_(index|entryCount) == 0\);\n", ""),
        (r"\tb2Assert\(m_entryCount > 0\);\n", "\tif (m_entryCount == 0) return;\n"),
        (r"\tb2Assert\(p == entry->data\);\n", "\tif (p != entry->data) return;\n"),
    ],
    # A joint's type is read while there is a joint.
    "Dynamics/Joints/b2Joint.cpp": [
        OTHER_JOINTS,
        (
            r"(\tjoint->~b2Joint\(\);\n\tswitch \()joint->m_type",
            r"\tconst b2JointType type = joint->m_type;\n\1type",
        ),
    ],
    "Dynamics/b2World.cpp": [OTHER_JOINTS],
}


for file in (*SOURCES.rglob("*.h"), *SOURCES.rglob("*.cpp")):
    name = file.relative_to(SOURCES).as_posix()
    if LEFT_OUT.search(name):
        continue
    text = file.read_text(encoding="utf-8")
    for pattern, replacement in CHANGES.get(name, ()):
        text, count = re.subn(pattern, replacement, text, flags=re.MULTILINE | re.DOTALL)
        assert count > 0, (name, pattern)
    target = OUTPUT / "Box2D" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    # What is as it was is compiled no second time.
    if not target.exists() or target.read_text(encoding="utf-8") != text:
        target.write_text(text, encoding="utf-8")
shutil.copy(SOURCES / "Box2D-License.txt", OUTPUT / "LICENSE.box2d")
