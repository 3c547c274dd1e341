"""Where episodes begin, and which model and actuators they have."""

import math
import struct

import mujoco
import numpy as np
import pytest
import torch
from cases import cases
from models import ARM, Reference, assert_equal
from tensordict import TensorDict

from torchrl_pool import MujocoPool, PoolEnv


def make(num_envs=3, **options):
    return MujocoPool(ARM, num_envs, dtype=torch.float64, **options)


def test_initial_state_and_keyframe():
    reference = Reference(keyframe=0)
    reference.reset()
    for keyframe in (0, "bent"):
        root = make(keyframe=keyframe, observation=("qpos", "qvel", "ctrl", "xpos")).reset()
        for name in ("qpos", "qvel", "ctrl", "xpos"):
            assert_equal(root[name][2], reference.get(name))
    assert_equal(make().reset()["qpos"][0], reference.model.qpos0)


def test_noise_is_drawn_by_each_env_as_numpy_draws_it():
    env = make(randomize=["qpos:elbow += uniform(-0.5, 0.5)", "qvel:shoulder,elbow = normal(1, 0.1)"])
    root = env.reset(seed=7)
    for index in range(3):
        rng = np.random.default_rng(7 + index)
        assert root["qpos"][index, 1].item() == rng.uniform(-0.5, 0.5)
        assert_equal(root["qvel"][index, :2], [rng.normal(1, 0.1), rng.normal(1, 0.1)])
    assert (root["qpos"][:, 0] == 0).all()


@pytest.mark.parametrize(
    ("name", "part"),
    cases(
        default=[("left hip", "left hip"), ("left hip", "'left hip'"), ("hip", " hip ")],
        also=[("Hüfte", "Hüfte"), ("hip[0] (left)", "hip[0] (left)"), ("a=b, c's", '"a=b, c\'s"')],
    ),
)
def test_names_in_random_changes_may_hold_anything(name, part):
    xml = ARM.replace('"shoulder"', f"'{name}'" if '"' in name else f'"{name}"')
    line = f"  qpos:elbow, {part}   *=uniform( 1 ,2 )\n"
    env = MujocoPool(xml, 1, keyframe="bent", randomize=[line], dtype=torch.float64)
    change = env.reset(seed=3)["qpos"][0, :2] / torch.tensor([0.5, -0.7], dtype=torch.float64)
    assert_equal(change.flip(0), np.random.default_rng(3).uniform(1, 2, 2))


def test_seeds_of_any_size():
    env = make(reset=lambda rows, rng: {"qpos:elbow": torch.rand(len(rows), 1, generator=rng)})
    draws = []
    for seed in (7, np.int64(7), 2**63, 2**64, 2**64 + 1, 2**127, 2**127):
        env.set_seed(seed)
        draws.append(env.reset()["qpos"][:, 1])
        assert torch.equal(env.reset(seed=seed)["qpos"][:, 1], draws[-1])
    assert torch.equal(draws[0].float(), torch.rand(3, 1, generator=torch.Generator().manual_seed(7))[:, 0])
    assert len({tuple(draw.tolist()) for draw in draws}) == 5
    pool = PoolEnv("CartPole-v1", 3)
    for seed in (-1, 1.5, True, "a", [1, 2], [1.5, 2, 3], [], "abc"):
        for call in ("set_seed", "reset"):
            errors = []
            for each in (env, pool):
                with pytest.raises((TypeError, ValueError)) as raised:
                    each.reset(seed=seed) if call == "reset" else each.set_seed(seed)
                errors.append((raised.type, str(raised.value)))
            assert errors[0] == errors[1]


def test_model_fields_are_the_envs_own():
    masses = torch.full((3, 1), 2.0, dtype=torch.float64)
    env = make(
        model_fields={"body_mass:box": masses},
        observation=lambda state: state["qfrc_bias"][:, 4:5],
        fields=["qfrc_bias"],
    )
    expected = env.reset()["observation"]
    masses.fill_(50)
    assert torch.equal(env.reset()["observation"], expected)


def test_model_fields_have_their_own_shape_or_are_rows():
    bodies = make().mj_model.body_inertia
    inertia = torch.arange(1.0, 1 + 3 * bodies.size, dtype=torch.float64)
    ends = []
    for shape in ((3, *bodies.shape), (3, bodies.size)):
        env = make(model_fields={"body_inertia": inertia.reshape(shape)})
        env.set_seed(0)
        torch.manual_seed(0)  # for the actions
        ends.append(env.rollout(20)["next", "qvel"])
    assert torch.equal(*ends)


def test_long_lines_of_random_changes():
    with pytest.raises(ValueError, match="randomize: expected 'FIELD ='"):
        make(randomize=["q" * 100_000])
    env = make(randomize=[f"qpos:{','.join(['elbow'] * 20_000)} += uniform(0, 1)"])
    assert (env.reset()["qpos"][:, 1] != 0).all()


def test_a_function_gives_what_it_likes_for_the_rows_that_are_reset():
    calls = []

    def start(rows, rng):
        calls.append(rows.tolist())
        return {
            "qpos:elbow": rows.double() + 1,
            "mocap_pos": torch.rand(len(rows), 1, 3, generator=rng),
            "ctrl": torch.full((len(rows), 2), 0.5),
        }

    env = make(reset=start, observation=("qpos", "mocap_pos", "ctrl"), seed=3)
    first = env.reset()
    assert first["qpos"][:, 1].tolist() == [1, 2, 3]
    assert (first["ctrl"] == 0.5).all()
    env.rand_step(first)
    second = env.reset(first.clone().set("_reset", torch.tensor([[True], [False], [True]])))
    assert calls == [[0, 1, 2], [0, 2]]
    assert torch.equal(second["mocap_pos"][1], first["mocap_pos"][1])
    assert not torch.equal(second["mocap_pos"][0], first["mocap_pos"][0])
    env.set_seed(3)
    assert torch.equal(env.reset()["mocap_pos"], first["mocap_pos"])
    assert torch.equal(env.reset(seed=3)["mocap_pos"], first["mocap_pos"])


def test_a_state_that_is_given_is_where_it_goes_on():
    env = make(observation=("qpos", "qvel"))
    data = env.rollout(5)
    there = data[:, 3].select("qpos", "qvel")
    root = env.reset(there.clone(), set_state=True)
    assert torch.equal(root["qpos"], there["qpos"])
    assert torch.equal(root["qvel"], there["qvel"])


def changed_reference(mass, **positions):
    reference = Reference()
    reference.model.body("lower").mass[:] = mass
    mujoco.mj_setConst(reference.model, reference.data)
    reference.reset()
    return reference


def test_each_env_has_its_own_model():
    masses = torch.tensor([0.5, 1.0, 2.0])
    action = torch.tensor([[0.5, -0.5]])
    for fields, start in (
        ({"body_mass:lower": masses.unsqueeze(-1)}, None),
        (["body_mass:lower"], lambda rows, rng: {"body_mass:lower": masses[rows]}),
    ):
        env = make(model_fields=fields, reset=start)
        root = env.reset()
        for _ in range(10):
            root = env.step_mdp(env.step(root.set("action", action.expand(3, 2).clone())))
        for index, mass in enumerate(masses.tolist()):
            reference = changed_reference(mass)
            for _ in range(10):
                reference.step(action[0])
            assert_equal(root["qpos"][index], reference.data.qpos)


def test_drawn_models_start_from_the_compiled_one_each_time():
    env = make(1, randomize=["body_mass:lower *= uniform(0.5, 2)"], max_episode_steps=5)
    root = env.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(3):
        reference = changed_reference(0.5 * rng.uniform(0.5, 2))
        for _ in range(5):
            reference.step([1, 1])
            data, root = env.step_and_maybe_reset(root.set("action", torch.ones(1, 2)))
        assert_equal(data["next", "qpos"][0], reference.data.qpos)


def test_targets_are_driven_to_in_each_simulation_step():
    env = make(kp=20.0, kd=[1.0, 0.5], frame_skip=4, unlimited_range=(-3, 3))
    assert env.action_spec.space.high[0, 0] == pytest.approx(math.radians(150))
    assert env.action_spec.space.high[0, 1] == 3
    targets = torch.tensor([0.4, -0.2])
    root = env.reset()
    reference = Reference()
    reference.reset()
    kd = np.array([1.0, 0.5])
    for _ in range(10):
        root = env.step_mdp(env.step(root.set("action", targets.expand(3, 2).clone())))
        for _ in range(4):
            joints = reference.data.qpos[:2], reference.data.qvel[:2]
            reference.step(20 * (targets.double().numpy() - joints[0]) - kd * joints[1])
    assert_equal(root["qpos"][0], reference.data.qpos)


def test_actuators_that_move_no_joint_get_the_action_itself():
    xml = ARM.replace('joint="elbow" gear="2"', 'site="tip" gear="0 0 1 0 0 0"')
    env = MujocoPool(xml, 1, kp=[2.0, 7.0], observation=("ctrl",), keyframe="bent")
    root = env.reset()
    control = env.step(root.set("action", torch.tensor([[0.8, 0.25]])))["next", "ctrl"]
    assert torch.allclose(control, torch.tensor([[2 * (0.8 - 0.5), 0.25]]))


def test_scaled_targets_are_around_the_pose():
    pose = torch.tensor([0.5, -0.7])
    one = make(kp=20.0, kd=1.0, keyframe="bent", unlimited_range=(-3, 3))
    other = make(kp=20.0, kd=1.0, keyframe="bent", target_scale=0.5)
    assert other.action_spec.space.high.max() == 1
    action = torch.tensor([0.5, -1.0]).expand(3, 2)
    targets = (pose.double() + 0.5 * action.double()).float()
    a, b = (
        one.step(one.reset().set("action", targets.clone())),
        other.step(other.reset().set("action", action.clone())),
    )
    assert torch.allclose(a["next", "qpos"], b["next", "qpos"], atol=1e-6)


@pytest.mark.parametrize("delay", cases(default=[1, 8], also=[0, 3]))
def test_actions_arrive_late(delay):
    env = make(1, action_delay=(delay, delay), frame_skip=3, keyframe=0)
    torch.manual_seed(0)
    actions = torch.rand(6, 2) * 2 - 1
    root = env.reset()
    for action in actions:
        root = env.step_mdp(env.step(root.set("action", action.unsqueeze(0).clone())))
    reference = Reference(keyframe=0)
    reference.reset()
    for substep in range(18):
        time = substep - delay
        reference.step(actions[time // 3] if time >= 0 else [0.5, 0.25])
    assert_equal(root["qpos"][0], reference.data.qpos)


def test_delays_differ_between_episodes():
    env = make(8, action_delay=(0, 10), frame_skip=10, seed=0)
    root = env.step(env.reset().set("action", torch.ones(8, 2)))["next"]
    assert len(root["qvel"][:, 0].unique()) > 1


def test_random_changes_start_from_each_envs_own_numbers():
    """And what ``reset`` returns comes last."""

    def masses(values, **options):
        own = {
            "model_fields": {"body_mass:lower": values},
            "randomize": ("body_mass:lower *= uniform(2, 3)",),
        }
        return make(seed=0, observation=("body_mass:lower",), **own, **options).reset()["body_mass:lower"]

    ones, base = masses(torch.ones(3)), torch.tensor([1.0, 2.0, 4.0])
    assert ((ones > 2) & (ones < 3)).all()
    torch.testing.assert_close(masses(base), ones * base[:, None], check_dtype=False)
    last = masses(base, reset=lambda rows, rng: {"body_mass:lower": torch.full((len(rows), 1), 0.5)})
    torch.testing.assert_close(last, torch.full((3, 1), 0.5), check_dtype=False)


def test_a_reset_of_no_env():
    env = make(model_fields={"body_mass:lower": torch.ones(3)})
    root = env.reset()
    again = env.reset(root.clone().set("_reset", torch.zeros(3, 1, dtype=torch.bool)))
    assert torch.equal(again["qpos"], root["qpos"])


SLEEPERS = """<mujoco><option><flag sleep="enable"/></option><worldbody><geom type="plane" size="5 5 .1"/>
<body pos="0 0 .1"><freejoint/><geom type="box" size=".1 .1 .1" mass="2"/></body>
<body pos="0.5 0 .1"><freejoint/><geom type="box" size=".1 .1 .1" mass="2"/></body>
<body pos="2 0 1"><joint name="j" axis="0 1 0"/><geom size=".1" pos="0 0 -.4"/></body>
</worldbody><actuator><motor joint="j"/></actuator></mujoco>"""


def sleepers():
    observation = ("qpos", "qvel", "body_awake")
    return MujocoPool(SLEEPERS, 1, frame_skip=20, dtype=torch.float64, observation=observation)


def test_bodies_that_sleep_do_so_in_restored_states():
    one, other = sleepers(), sleepers()
    action = TensorDict({"action": torch.zeros(1, 1)}, [1])
    for env in (one, other):
        env.reset()
    for _ in range(60):
        last = one.step(action.clone())["next"]
    assert 0 in last["body_awake"]
    other.set_state(one.get_state())
    for _ in range(5):
        expected, own = one.step(action.clone())["next"], other.step(action.clone())["next"]
        for key in ("qpos", "qvel", "body_awake"):
            assert torch.equal(own[key], expected[key]), key


def test_states_whose_places_in_buffers_cannot_be():
    """MuJoCo would follow them out of its arrays."""
    late = """<mujoco><worldbody><body><joint name="h"/><geom size=".1"/></body></worldbody>
    <actuator><motor joint="h" delay=".03" nsample="40" interp="linear"/></actuator></mujoco>"""
    pool = MujocoPool(late, 1, observation=["qpos", "history"], dtype=torch.float64)
    root = pool.step(pool.rand_action(pool.reset()))["next"]
    (state,) = pool.get_state()
    pool.set_state(state)
    buffer = root["history"][0].numpy().tobytes()
    place = state.index(buffer[:64]) + 8
    for wrong in (-1.0, 40.0, 0.5, math.nan):
        forged = state[:place] + struct.pack("d", wrong) + state[place + 8 :]
        with pytest.raises(ValueError, match="corrupt saved state"):
            pool.set_state(forged)


def test_states_of_sleepers_that_cannot_be():
    """Each number changed by itself: refused, or an env that goes on."""
    env = sleepers()
    env.reset()
    (state,) = env.get_state()
    action = TensorDict({"action": torch.zeros(1, 1)}, [1])
    refused = 0
    for place in range(0, len(state) - 8, 8):
        for number in (2.0, 1e9, -7.0):
            changed = state[:place] + struct.pack("<d", number) + state[place + 8 :]
            try:
                env.set_state(changed)
                env.step(action.clone())
            except (ValueError, RuntimeError):
                refused += 1
                env.reset()
    assert refused > 20


def test_what_was_begun_in_inference_mode_goes_on_outside_of_it():
    env = make()
    with torch.inference_mode():
        env.reset()
    env.async_step_send(TensorDict({"action": torch.zeros(3, 2)}, [3]), [0, 1, 2])
    assert env.async_step_recv(3).shape == (3,)
