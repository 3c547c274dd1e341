"""Python's ``mujoco``, of whatever release, and the pool's library do not see each other in one process.

Each does alone what it does beside the other: numbers, plugins, pictures, and what it says of errors.
"""

import pytest
from opengl import missing_opengl
from processes import printed

pytest.importorskip("mujoco", reason="the other MuJoCo is not installed")

PRELUDE = """
import os, sys
os.environ.setdefault("MUJOCO_GL", "egl")
draws = sys.argv[1] == "draws"

XML = '''<mujoco><extension><plugin plugin="mujoco.pid"><instance name="pid">
    <config key="kp" value="4.0"/></instance></plugin></extension>
  <worldbody><light pos="0 0 3"/><body><joint name="hinge" axis="0 1 0"/>
    <geom size=".1" pos="0 0 -.3"/></body></worldbody>
  <actuator><plugin joint="hinge" plugin="mujoco.pid" instance="pid"/></actuator></mujoco>'''

def pythons():
    "Steps, a picture and an error of Python's mujoco, a part at each call."
    import mujoco
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
    import torch
    from torchrl_pool import MujocoPool, PoolEnv, versions
    torch.manual_seed(0)
    model = MujocoPool(XML, 2, seed=0, fields=("qvel",))
    task = PoolEnv("HalfCheetah-v5", 2, seed=0, width=64, height=64)
    found = [versions()["mujoco"]]
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

def alone(part):
    *_, found = part()
    return found
"""
BESIDE = """
import pickle
def in_a_fork(part):
    ours, theirs = os.pipe()
    if os.fork() == 0:
        with open(theirs, "wb") as file:
            pickle.dump(alone(part), file)
        os._exit(0)
    os.close(theirs)
    with open(ours, "rb") as file:
        return pickle.load(file)

expected = [in_a_fork(part) for part in (pythons, pools)]
both = [(pythons(), None), (pools(), None)][::int(sys.argv[2])]
*_, (first, second) = zip(*(part for part, _ in both))
found = [first, second][::int(sys.argv[2])]
assert found == expected, [
    [i for i, (a, b) in enumerate(zip(*pair)) if a != b] for pair in zip(found, expected)
]
libraries = {line.split("/")[-1].strip() for line in open("/proc/self/maps") if "libmuj" in line or "libmjpool" in line}
print(*sorted(libraries), found[0][0], found[1][0])
"""


@pytest.mark.parametrize("first", ["Python's mujoco", "the pool"])
def test_each_does_what_it_does_alone(first):
    why_not = missing_opengl("InvertedPendulum-v5")
    order = 1 if first == "Python's mujoco" else -1
    shown = printed(PRELUDE + BESIDE, "" if why_not else "draws", order).split()
    assert len([name for name in shown if name.startswith("libmujoco.so.")]) == 1
    assert len([name for name in shown if name.startswith("libmjpool.so.")]) == 1
    if why_not:
        pytest.skip(f"all but pictures: {why_not}")
