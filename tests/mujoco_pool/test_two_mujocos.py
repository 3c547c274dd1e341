"""Python's ``mujoco``, of whatever release, and the pool's library do not see each other in one process.

Each does beside the other what it does alone: numbers, plugins, pictures, and what it says of errors.
"""

import os
import subprocess
import sys

import pytest
from opengl import missing_opengl

pytest.importorskip("mujoco", reason="the other MuJoCo is not installed")

PROGRAM = """
import os, pickle, sys
import mujoco, torch  # which TorchRL's import does, too
from torchrl_pool import MujocoPool, PoolEnv, versions
draws = sys.argv[1] == "draws"

XML = '''<mujoco><extension><plugin plugin="mujoco.pid"><instance name="pid">
    <config key="kp" value="4.0"/></instance></plugin></extension>
  <worldbody><light pos="0 0 3"/><body><joint name="hinge" axis="0 1 0"/>
    <geom size=".1" pos="0 0 -.3"/></body></worldbody>
  <actuator><plugin joint="hinge" plugin="mujoco.pid" instance="pid"/></actuator></mujoco>'''

def pythons():
    "Steps, a picture and an error of Python's mujoco, a part at each call."
    model = mujoco.MjModel.from_xml_string(XML)
    data = mujoco.MjData(model)
    found = [mujoco.mj_versionString()]
    for i in range(40):
        data.ctrl[0] = 0.1 * i
        mujoco.mj_step(model, data)
        found.append(data.qpos.tobytes() + data.qvel.tobytes())
        if i == 20 and draws:
            with mujoco.Renderer(model, 64, 64) as renderer:
                renderer.update_scene(data)
                found.append(renderer.render().tobytes())
        if i == 30:
            try:
                mujoco.MjModel.from_xml_string("<mujoco><body/></mujoco>")
            except ValueError as error:
                found.append(str(error))
        yield found

def pools():
    "The same of the pool: with a plugin, and of a task."
    torch.manual_seed(0)
    model = MujocoPool(XML, 2, seed=0, fields=("qvel",))
    task = PoolEnv("HalfCheetah-v5", 2, seed=0, width=64, height=64)
    found = [versions()["mujoco"].split()[1].strip(",")]
    roots = [env.reset() for env in (model, task)]
    for i in range(40):
        for place, env in enumerate((model, task)):
            step, roots[place] = env.step_and_maybe_reset(env.rand_action(roots[place]))
            found.append([(key, value.numpy().tobytes()) for key, value in sorted(step["next"].items())])
        if i == 20 and draws:
            found.append(task.render().numpy().tobytes())
        if i == 30:
            try:
                MujocoPool("<mujoco><body/></mujoco>", 1).reset()
            except ValueError as error:
                found.append(str(error))
        yield found

def side_by_side(*parts):
    "What they find in a process of their own where they take turns."
    ours, theirs = os.pipe()
    if os.fork() == 0:
        *_, found = zip(*(part() for part in parts))
        with open(theirs, "wb") as file:
            pickle.dump(dict(zip([part.__name__ for part in parts], found)), file)
        os._exit(0)
    os.close(theirs)
    with open(ours, "rb") as file:
        return pickle.load(file)

alone = side_by_side(pythons) | side_by_side(pools)
for parts in ((pythons, pools), (pools, pythons)):
    found = side_by_side(*parts)
    for name in alone:
        differ = [i for i, (a, b) in enumerate(zip(alone[name], found[name], strict=True)) if a != b]
        assert not differ, (name, differ)
PoolEnv("HalfCheetah-v5", 1).reset()
files = {line.split("/")[-1].strip() for line in open("/proc/self/maps")}
libraries = {name for name in files if name.startswith(("libmujoco", "libmjpool"))}
print(*sorted(libraries), alone["pythons"][0], alone["pools"][0])
"""


@pytest.mark.slow  # three programs
def test_each_does_what_it_does_alone():
    why_not = missing_opengl("InvertedPendulum-v5")
    settings = {**os.environ, "MUJOCO_GL": os.environ.get("MUJOCO_GL") or ("disable" if why_not else "egl")}
    program = [sys.executable, "-c", PROGRAM, "" if why_not else "draws"]
    done = subprocess.run(program, env=settings, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    pools, pythons, version, pools_version = done.stdout.split()
    assert pythons == f"libmujoco.so.{version}"
    assert pools == f"libmjpool.so.{pools_version}"
    if why_not:
        pytest.skip(f"all but pictures: {why_not}")
