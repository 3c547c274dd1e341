"""Small models, and what Python's mujoco makes of them."""

import mujoco
import numpy as np
import torch

ARM = """<mujoco>
  <option timestep="0.005"/>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 0.1"/>
    <light pos="0 0 3"/>
    <camera name="side" pos="0 -2 1" xyaxes="1 0 0 0 0.4 1"/>
    <body name="target" mocap="true" pos="0.5 0 1">
      <geom name="ball" size="0.05" contype="0" conaffinity="0"/>
    </body>
    <body name="upper" pos="0 0 1">
      <joint name="shoulder" axis="0 1 0" limited="true" range="-150 150" damping="0.1"/>
      <geom name="bone" type="capsule" fromto="0 0 0 0 0 -0.4" size="0.04" mass="1"/>
      <body name="lower" pos="0 0 -0.4">
        <joint name="elbow" axis="0 1 0" damping="0.1" armature="0.01"/>
        <geom name="hand" type="capsule" fromto="0 0 0 0 0 -0.3" size="0.03" mass="0.5"/>
        <site name="tip" pos="0 0 -0.3"/>
      </body>
    </body>
    <body name="box" pos="1 0 0.2">
      <freejoint name="free"/>
      <geom name="cube" type="box" size="0.1 0.1 0.1" mass="2"/>
    </body>
  </worldbody>
  <actuator>
    <motor name="lift" joint="shoulder" gear="5" ctrllimited="true" ctrlrange="-2 2"/>
    <motor name="bend" joint="elbow" gear="2"/>
  </actuator>
  <sensor>
    <jointpos name="angle" joint="elbow"/>
    <framepos name="where" objtype="site" objname="tip"/>
    <accelerometer name="felt" site="tip"/>
  </sensor>
  <keyframe>
    <key name="bent" qpos="0.5 -0.7 1 0 0.3 1 0 0 0" qvel="0.1 0.2 0 0 0 0 0 0" ctrl="0.5 0.25"/>
  </keyframe>
</mujoco>"""


class Reference:
    """One simulation in Python."""

    def __init__(self, xml=ARM, keyframe=None):
        self.model = mujoco.MjModel.from_xml_string(xml)
        self.data = mujoco.MjData(self.model)
        self.keyframe = keyframe

    def reset(self, qpos=None, qvel=None):
        if self.keyframe is None:
            mujoco.mj_resetData(self.model, self.data)
        else:
            mujoco.mj_resetDataKeyframe(self.model, self.data, self.keyframe)
        for own, given in ((self.data.qpos, qpos), (self.data.qvel, qvel)):
            if given is not None:
                own[:] = np.asarray(given)
        mujoco.mj_forward(self.model, self.data)

    def step(self, control, count=1):
        self.data.ctrl[:] = np.asarray(control)
        for _ in range(count):
            mujoco.mj_step(self.model, self.data)

    def get(self, name):
        return torch.as_tensor(np.array(getattr(self.data, name)))


def assert_equal(actual, expected):
    assert torch.equal(torch.as_tensor(actual).double(), torch.as_tensor(np.asarray(expected)).double())
