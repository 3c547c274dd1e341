"""Simulations that take turns with one mjData per thread, beside those with an mjData each."""

import os
import re

import pytest
import torch
from cases import cases
from models import ARM, assert_equal
from opengl import missing_opengl

from torchrl_pool import MujocoPool

ARRAYS = [
    "qpos",
    "qvel",
    "qacc",
    "ctrl",
    "time",
    "xpos",
    "xmat",
    "site_xpos",
    "cam_xpos",
    "sensordata",
    "ncon",
]
ARRAYS += ["subtree_com", "subtree_linvel", "cfrc_ext", "cvel", "actuator_force", "qfrc_bias", "mocap_pos"]
# An array that is too seldom computed to be shared: each simulation has data of its own.
UNSHARED = "bvh_active"

OPTIONS = {
    "plain": {},
    "fresh": {"fresh": True},
    "controlled": {"kp": 2.0, "kd": 0.1, "action_delay": (0, 5)},
    "randomized": {"randomize": ("body_mass *= uniform(0.5, 2)", "qpos:elbow = uniform(-1, 1)")},
    "from a keyframe": {"keyframe": "bent"},
}


def both(xml=ARM, num_envs=5, **options):
    """The same pool twice: whose simulations share, and whose do not."""
    settings = {"frame_skip": 3, "num_threads": 2, "seed": 3, "max_episode_steps": 7, "dtype": torch.float64}
    settings.update(options)
    return tuple(
        MujocoPool(xml, num_envs, observation=ARRAYS, fields=more, **settings) for more in ((), (UNSHARED,))
    )


def played(env, steps=20):
    """All that is seen of steps at random, with episodes that begin anew at different times."""
    torch.manual_seed(0)
    root, seen = env.reset(), []
    for step in range(steps):
        root["action"] = torch.rand(env.num_envs, 2) * 4 - 2
        data, root = env.step_and_maybe_reset(root)
        seen.append(data["next"].select(*ARRAYS, "done"))
        if step == steps // 3:
            root = env.reset(root.set("_reset", torch.arange(env.num_envs) % 2 == 0))
    return torch.stack(seen)


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "RK4"])
@pytest.mark.parametrize("options", cases(OPTIONS.values()), ids=OPTIONS)
def test_results_are_those_of_data_of_their_own(options, integrator):
    xml = ARM.replace("<option ", f'<option integrator="{integrator}" ')
    shared, own = (played(env) for env in both(xml, **options))
    for name in ARRAYS:
        assert_equal(shared[name], own[name])
    assert shared["done"].any()


MISSING_OPENGL = missing_opengl("InvertedPendulum-v5")


@pytest.mark.skipif(MISSING_OPENGL is not None, reason=str(MISSING_OPENGL))
@pytest.mark.parametrize("options", cases(OPTIONS.values()), ids=OPTIONS)
def test_pictures_are_of_the_same_moment(options, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", os.environ.get("MUJOCO_GL") or "egl")
    shared, own = both(num_envs=2, camera_name="side", width=64, height=64, **options)
    pictures = []
    for env in (shared, own):
        env.reset()
        taken = [env.render()]
        played(env, 5)
        taken.append(env.render())
        env.set_state(env.get_state())
        taken.append(env.render())
        pictures.append(torch.stack(taken))
    assert torch.equal(*pictures)
    assert not torch.equal(pictures[0][0], pictures[0][1])


def test_memory_is_a_state_per_env():
    """Not an mjData, of which MuJoCo touches some 100 KB."""
    shared, own = both(num_envs=256)
    grown = []
    for env in (shared, own):
        before = _resident()
        env.reset()
        played(env, 2)
        grown.append(_resident() - before)
    assert grown[0] < grown[1] / 4


def _resident():
    with open("/proc/self/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read())[1])


@pytest.mark.parametrize("model", cases(default=["half_cheetah.xml", "humanoid.xml"], also=["ant.xml"]))
def test_states_are_those_of_mujocos_own_batch(model):
    batch = pytest.importorskip("mujoco.batch", reason="this mujoco has no batch")
    env = MujocoPool(model, 8, frame_skip=5, dtype=torch.float64, max_episode_steps=None, num_threads=2)
    other = batch.Batch(env.mj_model, 8, 2)
    root = env.reset()
    other.reset()
    for _ in range(20):
        root["action"] = other.ctrl = env.action_spec.rand()
        _, root = env.step_and_maybe_reset(root)
        other.step(nstep=5)
        for name in ("qpos", "qvel"):
            assert_equal(root[name], other.bind(name))
