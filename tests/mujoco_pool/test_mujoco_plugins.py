"""Models that name MuJoCo's own plugins, compared with Python's mujoco to the last bit."""

import pytest
import torch
from cases import cases
from models import Reference, assert_equal

from torchrl_pool import MujocoPool, versions

BODY = """<body name="rod" pos="0 0 1"><joint name="hinge" axis="0 1 0"/>
  <geom type="capsule" size="0.05" fromto="0 0 0 0 0 0.5"/></body>"""
MODELS = {
    "actuator": """<mujoco><extension><plugin plugin="mujoco.pid"><instance name="pid">
        <config key="kp" value="4"/><config key="ki" value="1"/><config key="kd" value="0.5"/>
        <config key="imax" value="5"/></instance></plugin></extension>
      <worldbody>{body}</worldbody>
      <actuator><plugin joint="hinge" plugin="mujoco.pid" instance="pid" actdim="1"/></actuator></mujoco>""",
    "elasticity": """<mujoco><extension><plugin plugin="mujoco.elasticity.cable"/></extension>
      <worldbody>{body}<composite type="cable" curve="s" count="8 1 1" size="1" offset="0 0 2" initial="none">
        <plugin plugin="mujoco.elasticity.cable"><config key="twist" value="1e6"/>
          <config key="bend" value="4e6"/></plugin>
        <joint kind="main" damping="0.015"/><geom type="capsule" size="0.005"/></composite></worldbody>
      <actuator><motor joint="hinge"/></actuator></mujoco>""",
    "sensor": """<mujoco><extension><plugin plugin="mujoco.sensor.touch_grid"/></extension>
      <worldbody><geom type="plane" size="2 2 0.1"/>{body}
        <body pos="0.5 0 0.09"><freejoint/><geom size="0.1"/><site name="pad"/></body>
      </worldbody>
      <actuator><motor joint="hinge"/></actuator>
      <sensor><plugin name="grid" plugin="mujoco.sensor.touch_grid" objtype="site" objname="pad">
        <config key="size" value="3 3"/><config key="fov" value="90 90"/><config key="nchannel" value="1"/>
      </plugin></sensor></mujoco>""",
    "sdf_plugin": """<mujoco><extension><plugin plugin="mujoco.sdf.torus">
        <instance name="ring">
        <config key="radius1" value="0.35"/><config key="radius2" value="0.15"/></instance>
      </plugin></extension>
      <asset><mesh name="ring"><plugin instance="ring"/></mesh></asset>
      <option sdf_iterations="10" sdf_initpoints="40"/>
      <worldbody><geom type="plane" size="5 5 0.1"/>{body}<body pos="2 0 0.3"><freejoint/>
        <geom type="sdf" mesh="ring"><plugin instance="ring"/></geom></body></worldbody>
      <actuator><motor joint="hinge"/></actuator></mujoco>""",
}


@pytest.mark.parametrize("kind", cases(default=["actuator", "sensor"], also=MODELS))
def test_plugins_are_mujocos(kind):
    if kind == "elasticity" and versions()["mujoco"].startswith("MuJoCo 4"):
        pytest.skip("MuJoCo 4 has no <composite>, which this model is made of")
    xml = MODELS[kind].format(body=BODY)
    arrays = ["qpos", "qvel", *(["act"] if kind == "actuator" else [])]
    arrays += ["sensordata"] if kind == "sensor" else []
    env = MujocoPool(xml, 3, frame_skip=2, observation=arrays, dtype=torch.float64, num_threads=2)
    actions = torch.rand(20, 3, 1, generator=torch.Generator().manual_seed(0))
    root, found = env.reset(), []
    for action in actions:
        root = env.step_mdp(env.step(root.set("action", action)))
        found.append(root)
    for row in range(3):
        reference = Reference(xml)
        reference.reset()
        for action, state in zip(actions, found, strict=True):
            reference.step(action[row], 2)
            for name in arrays:
                assert_equal(state[name][row], reference.get(name))
    if kind == "sensor":
        assert reference.get("sensordata").any()
