"""What a tensor holds of mjData, compared with Python's mujoco to the last bit."""

import math

import mujoco
import numpy as np
import pytest
import torch
from cases import cases
from models import ARM, Reference, assert_equal

from torchrl_pool import MujocoPool, PoolEnv

ARRAYS = ["qpos", "qvel", "ctrl", "qacc", "xpos", "xmat", "geom_xpos", "site_xpos", "cam_xpos", "xanchor"]
ARRAYS += ["sensordata", "subtree_com", "actuator_force", "qfrc_bias", "cvel", "mocap_pos", "eq_active"]


@pytest.fixture
def reference():
    return Reference()


def last(env, steps, action):
    root = env.reset()
    for _ in range(steps):
        root = env.step_mdp(env.step(root.set("action", action.expand(env.num_envs, -1).clone())))
    return root


@pytest.mark.parametrize("frame_skip", cases([1, 4]))
def test_arrays_are_mujocos(reference, frame_skip):
    arrays = [name for name in ARRAYS if name != "eq_active"]
    env = MujocoPool(ARM, 2, frame_skip=frame_skip, observation=arrays, dtype=torch.float64)
    action = torch.tensor([1.5, -0.5])
    root = last(env, 5, action)
    reference.reset()
    for _ in range(5):
        reference.step(action, frame_skip)
    for name in arrays:
        assert root[name].shape[1:] == reference.get(name).shape, name
        assert_equal(root[name][1], reference.get(name))


def test_parts_by_name(reference):
    parts = {
        "xpos:lower": lambda d: d.body("lower").xpos,
        "xpos:lower,box": lambda d: [d.body("lower").xpos, d.body("box").xpos],
        "qpos:elbow": lambda d: d.joint("elbow").qpos,
        "qpos:free": lambda d: d.joint("free").qpos,
        "qvel:free,elbow": lambda d: [*d.joint("free").qvel, *d.joint("elbow").qvel],
        "geom_xpos:hand": lambda d: d.geom("hand").xpos,
        "site_xpos:tip": lambda d: d.site("tip").xpos,
        "sensordata:where": lambda d: d.sensor("where").data,
        "sensordata:angle,felt": lambda d: [*d.sensor("angle").data, *d.sensor("felt").data],
        "actuator_force:bend": lambda d: d.actuator("bend").force,
        "ctrl:lift": lambda d: d.actuator("lift").ctrl,
        "cam_xpos:side": lambda d: d.camera("side").xpos,
        "mocap_pos:target": lambda d: d.mocap_pos[0],
    }
    env = MujocoPool(ARM, 2, observation=list(parts), dtype=torch.float64)
    action = torch.tensor([-1.0, 0.25])
    root = last(env, 3, action)
    reference.reset()
    for _ in range(3):
        reference.step(action)
    for name, get in parts.items():
        assert_equal(root[name][0], get(reference.data))


def test_numbers_and_integers(reference):
    env = MujocoPool(ARM, 3, observation=("time", "ncon", "qpos"), dtype=torch.float32)
    root = last(env, 4, torch.zeros(2))
    assert root["time"].shape == (3,)
    assert root["time"].dtype is torch.float32
    assert torch.allclose(root["time"], torch.full((3,), 0.02))
    assert root["ncon"].dtype is torch.int32
    assert root["qpos"].dtype is torch.float32


def test_forces_are_computed_where_they_are_wanted(reference):
    env = MujocoPool(ARM, 1, observation=("cfrc_ext", "subtree_linvel"), dtype=torch.float64)
    root = last(env, 40, torch.zeros(2))  # the box has landed
    reference.reset()
    for _ in range(40):
        reference.step([0, 0])
    mujoco.mj_rnePostConstraint(reference.model, reference.data)
    mujoco.mj_subtreeVel(reference.model, reference.data)
    assert reference.data.cfrc_ext.any()
    assert_equal(root["cfrc_ext"][0], reference.data.cfrc_ext)
    assert_equal(root["subtree_linvel"][0], reference.data.subtree_linvel)


def test_fresh_fields_belong_to_the_new_positions(reference):
    env = MujocoPool(ARM, 1, observation=("xpos", "sensordata"), fresh=True, dtype=torch.float64)
    root = last(env, 3, torch.ones(2))
    reference.reset()
    for _ in range(3):
        reference.step([1, 1])
        mujoco.mj_forward(reference.model, reference.data)
    assert_equal(root["xpos"][0], reference.data.xpos)
    assert_equal(root["sensordata"][0], reference.data.sensordata)


def test_every_array_of_mjdata_has_its_name():
    """All that MuJoCo's own Python package shows, but for what changes in length."""
    model = mujoco.MjModel.from_xml_string(ARM)
    data = mujoco.MjData(model)
    counted = 0
    for name in dir(data):
        value = getattr(data, name, None)
        changes = name.startswith(("efc_", "iefc_", "efm_", "ifrc_", "iacc", "island_", "map_", "dof_island"))
        ours = not changes and name not in ("tree_island", "tendon_efcadr", "contact", "solver_niter")
        if not hasattr(value, "dtype") or value.dtype.kind not in "fib" or value.size == 0 or not ours:
            continue
        if name.startswith(("solver_", "_", "maxuse", "bind")):
            continue
        entry = PoolEnv("MJCF-v0", 1, xml_file=ARM, observation=[name]).observation_spec[name]
        assert entry.shape[1:].numel() == value.size, name
        counted += 1
    assert counted > 40


def test_what_was_drawn_of_the_model_can_be_read(reference):
    lines = ["body_mass:lower *= uniform(0.5, 2)", "geom_friction:floor = log_uniform(0.5, 2)"]
    fields = ("body_mass", "body_subtreemass", "geom_friction:floor", "jnt_type")
    env = MujocoPool(ARM, 3, observation=fields, randomize=lines, dtype=torch.float64)
    root = env.reset(seed=7)
    for index in range(3):
        rng = np.random.default_rng(7 + index)
        own = reference.model.body_mass.copy()
        own[mujoco.mj_name2id(reference.model, mujoco.mjtObj.mjOBJ_BODY, "lower")] *= rng.uniform(0.5, 2)
        assert_equal(root["body_mass"][index], own)
        assert torch.isclose(root["body_subtreemass"][index, 0], torch.tensor(own.sum(), dtype=torch.float64))
        low, high = math.log(0.5), math.log(2)
        assert_equal(root["geom_friction:floor"][index], [math.exp(x) for x in rng.uniform(low, high, 3)])
    assert_equal(root["jnt_type"], np.tile(reference.model.jnt_type, (3, 1)))
    stepped = env.rand_step(root)["next"]
    assert torch.equal(stepped["body_mass"], root["body_mass"])
    begun = env.reset(stepped.clone().set("_reset", torch.tensor([[False], [True], [False]])))
    changed = (begun["body_mass"] != root["body_mass"]).any(1)
    assert changed.tolist() == [False, True, False]


def test_rewards_read_the_model_that_each_env_has():
    env = MujocoPool(
        ARM,
        2,
        fields=["body_mass:lower"],
        model_fields={"body_mass:lower": torch.tensor([[1.0], [3.0]])},
        reward=lambda state, action, new: new["body_mass:lower"],
    )
    assert env.rand_step(env.reset())["next", "reward"].tolist() == [[1.0], [3.0]]
    assert "body_mass:lower" not in env.observation_spec.keys()  # noqa: SIM118


def test_heightfields_and_meshes_come_with_the_text():
    obj = b"v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 3 1 4\n"
    xml = """<mujoco><compiler meshdir="meshes"/>
      <asset><mesh name="wedge" file="wedge.obj"/>
        <hfield name="hills" nrow="3" ncol="3" size="2 2 1 0.1" elevation="0 0 0 0 1 0 0 0 0"/></asset>
      <worldbody><geom name="ground" type="hfield" hfield="hills"/>
        <body name="thing" pos="0 0 2"><freejoint/><geom type="mesh" mesh="wedge" mass="1"/></body>
        <body><joint name="wheel"/><geom size="0.1" pos="3 3 3" mass="1"/></body></worldbody>
      <actuator><motor joint="wheel"/></actuator></mujoco>"""
    env = MujocoPool(xml, 2, frame_skip=50, observation=("xpos:thing",), assets={"meshes/wedge.obj": obj})
    z = env.rollout(20, lambda td: td.set("action", torch.zeros(2, 1)))["next", "xpos:thing"][..., 2]
    assert (z[:, -1] > 0.5).all()  # it lies on the hill
    flat = MujocoPool(
        xml,
        2,
        frame_skip=50,
        observation=("xpos:thing",),
        assets={"meshes/wedge.obj": obj},
        model_fields={"hfield_data:hills": torch.zeros(2, 9)},
    )
    z = flat.rollout(20, lambda td: td.set("action", torch.zeros(2, 1)))["next", "xpos:thing"][..., 2]
    assert (z[:, -1] < 0.5).all()
