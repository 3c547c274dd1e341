"""The models of the DeepMind Control Suite, gathered when the family is built.

What dm_control's Python code changes in a model before it is compiled is changed here, so that nothing of it
is needed when the envs run: one file per domain, and one per task where tasks differ.

Usage: collect.py VERSION SHA256 DOWNLOADS OUTPUT.
"""

import pathlib
import shutil
import sys
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from packages import license_of, models

VERSION, SHA256, DOWNLOADS, OUTPUT = sys.argv[1], sys.argv[2], *map(pathlib.Path, sys.argv[3:])
PACKAGE = models("dm_control", VERSION, SHA256, DOWNLOADS, "TORCHRL_POOL_DM_CONTROL")
SUITE = PACKAGE / "dm_control" / "suite"


def read(domain: str) -> Element:
    return ElementTree.parse(SUITE / f"{domain}.xml").getroot()


def write(name: str, model: Element) -> None:
    ElementTree.ElementTree(model).write(OUTPUT / f"{name}.xml")


def find(model: Element, tag: str, name: str) -> Element:
    found = model.find(f".//{tag}[@name='{name}']")
    assert found is not None, name
    return found


def remove(model: Element, tag: str, *names: str) -> None:
    for name in names:
        unwanted = find(model, tag, name)
        next(parent for parent in model.iter() if unwanted in parent).remove(unwanted)


def cartpole(num_poles: int) -> Element:
    model = read("cartpole")
    parent = model.find("./worldbody/body/body")
    for i in range(2, num_poles + 1):
        pole = SubElement(parent, "body", name=f"pole_{i}", pos="0 0 1", childclass="pole")
        SubElement(pole, "joint", name=f"hinge_{i}")
        SubElement(pole, "geom", name=f"pole_{i}")
        parent = pole
    model.find("./worldbody/geom").set("pos", f"0 0 {1 - num_poles - 0.05}")
    fixed, lookat = model.findall("./worldbody/camera")
    fixed.set("pos", f"0 {-1 - 2 * num_poles} 1")
    lookat.set("pos", f"0 {-2 * num_poles} 2")
    return model


def dog(floor_size: int, has_ball: bool) -> Element:
    model = read("dog")
    find(model, "geom", "floor").set("size", f"{floor_size} {floor_size} .1")
    if not has_ball:
        remove(model, "body", "ball")
        remove(model, "geom", "target", *(f"wall_{side}" for side in ("px", "nx", "py", "ny")))
        remove(model, "camera", "ball", "head")
    return model


def lqr(num_bodies: int, num_actuators: int) -> Element:
    """The springs' stiffness is drawn when the envs run."""
    model = read("lqr")
    parent = model.find("./worldbody")
    actuator, tendon = SubElement(model, "actuator"), SubElement(model, "tendon")
    for i in range(num_bodies):
        body = SubElement(parent, "body", name=f"body_{i}", pos=".25 0 .1" if i == 0 else ".25 0 0")
        SubElement(body, "joint", name=f"joint_{i}", stiffness="20", damping="0")
        SubElement(body, "geom", name=f"geom_{i}")
        SubElement(body, "site", name=f"site_{i}")
        if i < num_actuators:
            SubElement(actuator, "motor", name=f"motor_{i}", joint=f"joint_{i}")
        if i < num_bodies - 1:
            spatial = SubElement(tendon, "spatial", name=f"tendon_{i}")
            SubElement(spatial, "site", site=f"site_{i}")
            SubElement(spatial, "site", site=f"site_{i + 1}")
        parent = body
    return model


def manipulator(*props: str) -> Element:
    model = read("manipulator")
    remove(model, "body", *{"ball", "target_ball", "cup", "peg", "target_peg", "slot"}.difference(props))
    return model


def quadruped(floor_size: float | None, has_terrain: bool = False, has_ball: bool = False) -> Element:
    model = read("quadruped")
    if floor_size is not None:
        find(model, "geom", "floor").set("size", f"{floor_size} {floor_size} .5")
    if not has_ball:
        remove(model, "geom", *(f"wall_{side}" for side in ("px", "py", "nx", "ny")))
        remove(model, "body", "ball")
        remove(model, "site", "target")
    if not has_terrain:
        remove(model, "geom", "terrain")
        sensors = model.find("./sensor")
        for rangefinder in sensors.findall("./rangefinder"):
            sensors.remove(rangefinder)
    return model


def stacker(num_boxes: int) -> Element:
    model = read("stacker")
    remove(model, "body", *(f"box{i}" for i in range(num_boxes, 4)))
    return model


def swimmer(num_bodies: int) -> Element:
    model = read("swimmer")
    parent = model.find("./worldbody/body")
    for camera in parent.findall("./camera"):
        if camera.get("mode") == "trackcom":
            place = [str(float(x) * (num_bodies / 6.0)) for x in camera.get("pos").split(" ")]
            camera.set("pos", " ".join(place))
    actuator, sensor = SubElement(model, "actuator"), SubElement(model, "sensor")
    limit = 360.0 / num_bodies
    for i in range(num_bodies - 1):
        body = SubElement(parent, "body", name=f"segment_{i}", pos="0 .1 0")
        SubElement(body, "geom", {"class": "visual", "name": f"visual_{i}"})
        SubElement(body, "geom", {"class": "inertial", "name": f"inertial_{i}"})
        SubElement(body, "site", name=f"site_{i}")
        SubElement(body, "joint", name=f"joint_{i}", range=f"{-limit} {limit}")
        SubElement(actuator, "motor", name=f"motor_{i}", joint=f"joint_{i}")
        SubElement(sensor, "velocimeter", name=f"velocimeter_{i}", site=f"site_{i}")
        SubElement(sensor, "gyro", name=f"gyro_{i}", site=f"site_{i}")
        parent = body
    return model


shutil.rmtree(OUTPUT, ignore_errors=True)
OUTPUT.mkdir(parents=True)
for folder in ("common", "dog_assets"):
    shutil.copytree(SUITE / folder, OUTPUT / folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
for file in SUITE.glob("*.xml"):
    shutil.copy(file, OUTPUT)
shutil.copy(license_of(PACKAGE, "dm_control", VERSION), OUTPUT / "LICENSE.dm_control")

for num_poles, task in ((2, "two_poles"), (3, "three_poles")):
    write(f"cartpole-{task}", cartpole(num_poles))
for speed, task in ((1, "stand"), (1, "walk"), (3, "trot"), (9, "run")):
    write(f"dog-{task}", dog(15 * speed, has_ball=False))
write("dog-fetch", dog(10, has_ball=True))
write("lqr-lqr_2_1", lqr(2, 1))
write("lqr-lqr_6_2", lqr(6, 2))
write("manipulator-bring_ball", manipulator("ball", "target_ball"))
write("manipulator-bring_peg", manipulator("peg", "target_peg"))
write("manipulator-insert_ball", manipulator("ball", "target_ball", "cup"))
write("manipulator-insert_peg", manipulator("peg", "target_peg", "slot"))
write("quadruped-walk", quadruped(20 * 0.5))
write("quadruped-run", quadruped(20 * 5))
write("quadruped-escape", quadruped(40, has_terrain=True))
write("quadruped-fetch", quadruped(None, has_ball=True))
write("stacker-stack_2", stacker(2))
write("stacker-stack_4", stacker(4))
write("swimmer-swimmer6", swimmer(6))
write("swimmer-swimmer15", swimmer(15))
