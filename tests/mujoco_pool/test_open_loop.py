"""Open-loop rollouts beside steps one by one, and simulations that diverge in the midst of either."""

import pytest
import torch
from cases import cases
from models import ARM

from torchrl_pool import EnvFailure, MujocoPool

# An array that needs data of its own for each simulation: see test_shared_data.
UNSHARED = "bvh_active"
OPTIONS = {
    "plain": {},
    "an mjData each": {"fields": (UNSHARED,)},
    "delayed": {"kp": 2.0, "kd": 0.1, "action_delay": (0, 5)},
    "an mjData each, delayed": {"fields": (UNSHARED,), "action_delay": (2, 5)},
    "random models": {"randomize": ("body_mass *= uniform(0.5, 2)", "qpos:elbow = uniform(-1, 1)")},
}
NUM_ENVS = 5


def make(**options):
    settings = {"frame_skip": 3, "seed": 3, "max_episode_steps": 7, "dtype": torch.float64, "num_threads": 2}
    return MujocoPool(ARM, NUM_ENVS, **{**settings, **options})


def actions_of(steps, seed=0):
    return torch.rand(NUM_ENVS, steps, 2, generator=torch.Generator().manual_seed(seed)) * 2 - 1


@pytest.mark.parametrize("options", cases(OPTIONS.values()), ids=OPTIONS)
def test_equal_to_steps_one_by_one(options):
    together, alone = make(**options), make(**options)
    together.reset()
    root = alone.reset()
    actions = actions_of(6)
    record = together.open_loop_rollout(actions)
    for step in range(6):
        data = alone.step(root.set("action", actions[:, step]))
        for key in ("qpos", "qvel"):
            assert torch.equal(record[key][:, step], data["next", key])
        root = alone.step_mdp(data)
    assert record["step_count"][0].flatten().tolist() == [1, 2, 3, 4, 5, 6]
    # What comes next begins where it has ended, with the functions' states and saved ones.
    assert together.get_state() == alone.get_state()
    more = actions_of(1, seed=1)
    assert torch.equal(
        together.step(root.clone().set("action", more[:, 0]))["next", "qpos"],
        alone.step(root.set("action", more[:, 0]))["next", "qpos"],
    )


def test_a_record_of_substeps():
    """With one simulation step per step the same physics, seen in each of them."""
    fine, coarse = make(frame_skip=1, max_episode_steps=None), make(max_episode_steps=None)
    fine.reset()
    coarse.reset()
    actions = actions_of(4)
    substeps = fine.open_loop_rollout(actions.repeat_interleave(3, 1))
    assert substeps.batch_size == (NUM_ENVS, 12)
    assert torch.equal(substeps["qpos"][:, 2::3], coarse.open_loop_rollout(actions)["qpos"])


def test_what_follows_from_its_entries():
    env = make(fields=("xpos", "body_mass"), observation=("qpos",), info_keys=("speed",), reward=_speed)
    env.reset()
    actions = actions_of(9)
    record = env.open_loop_rollout(actions)
    assert sorted(record.keys()) == [
        "body_mass",
        "done",
        "qpos",
        "step_count",
        "terminated",
        "truncated",
        "xpos",
    ]
    assert record["qpos"].dtype is torch.float64
    assert record["truncated"].squeeze(-1).tolist() == [[False] * 6 + [True] * 3] * NUM_ENVS  # none is reset
    assert torch.equal(record["done"], record["truncated"])
    assert not record["terminated"].any()
    seen = record.clone()
    env.open_loop_rollout(actions)
    assert (seen == record).all()  # the record is the caller's


def _speed(state, action, new):
    return {"reward": new["qpos"][..., 0], "speed": new["qpos"][..., 1]}


def test_errors():
    env = make(check_actions="strict")
    with pytest.raises(RuntimeError, match="call reset"):
        env.open_loop_rollout(actions_of(2))
    root = env.reset()
    before = env.get_state()
    for actions, message in (
        (torch.zeros(NUM_ENVS, 2), r"expected shape \[5, 'T', 2\], got \[5, 2\]"),
        (torch.zeros(NUM_ENVS, 0, 2), r"got \[5, 0, 2\]"),
        (torch.zeros(NUM_ENVS + 1, 2, 2), r"got \[6, 2, 2\]"),
        (torch.zeros(NUM_ENVS, 2, 3), r"expected shape"),
        (torch.zeros(NUM_ENVS, 2, 2, dtype=torch.float64), "expected dtype"),
        (
            actions_of(3).index_fill(0, torch.tensor([4]), 7.0),
            "'action' of env 4, element 0: expected a number",
        ),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            env.open_loop_rollout(actions)
    env.async_step_send(root.set("action", torch.zeros(NUM_ENVS, 2))[:1], [0])
    with pytest.raises(RuntimeError, match="env 0 is in flight"):
        env.open_loop_rollout(actions_of(2))
    env.async_step_recv(1)
    env.set_state(before)
    env.open_loop_rollout(actions_of(2))


# ---- simulations that diverge


WILD = torch.full((NUM_ENVS, 2), 1e25)


@pytest.mark.parametrize("options", cases(OPTIONS.values()), ids=OPTIONS)
def test_a_simulation_that_diverges_stays_where_it_was(options):
    """It goes on from there as one that has never been told to."""
    if "action_delay" in options:
        options = {**options, "action_delay": (0, 2)}  # the wild action arrives within its step
    env, spared = make(**options), make(**options)
    root, other = env.reset(), spared.reset()
    calm = actions_of(4)
    for step in range(2):
        root = env.step_mdp(env.step(root.set("action", calm[:, step])))
        other = spared.step_mdp(spared.step(other.set("action", calm[:, step])))
    states = spared.get_state()
    with pytest.raises(EnvFailure, match=r"env 2 .* failed in step 3: MuJoCo: ") as raised:
        env.step(root.set("action", calm[:, 2].index_copy(0, torch.tensor([2]), WILD[:1])))
    assert raised.value.env_index == [2]
    assert (raised.value.tensordict[2]["qpos"] == 0).all()
    assert (raised.value.tensordict[1]["qpos"] != 0).any()
    env.set_state([state for row, state in enumerate(states) if row != 2], [0, 1, 3, 4])
    for step in (2, 3):
        data, expected = (
            pool.step(row.clone().set("action", calm[:, step]))
            for pool, row in ((env, root), (spared, other))
        )
        for key in ("qpos", "qvel"):
            assert torch.equal(data["next", key], expected["next", key])


def test_a_simulation_that_diverges_in_an_open_loop():
    env, spared = make(), make()
    env.reset()
    root = spared.reset()
    calm = actions_of(6)
    wild = calm.clone()
    wild[2, 3], wild[4, 0] = 1e25, 1e25
    with pytest.raises(EnvFailure, match=r"env 2 .* failed in step 4: .*1 more env failed too") as raised:
        env.open_loop_rollout(wild)
    assert (raised.value.env_index, raised.value.steps) == ([2, 4], [4, 1])
    record = raised.value.tensordict
    expected = spared.open_loop_rollout(calm)
    made = torch.tensor([6, 6, 3, 6, 0])
    for row, steps in enumerate(made.tolist()):
        assert torch.equal(record[row]["qpos"][:steps], expected[row]["qpos"][:steps])
        assert (record[row]["qpos"][steps:] == 0).all()
    # Each stays where its last good step, or its beginning, has left it, for functions and for the physics.
    steps = env.step(root.set("action", calm[:, 0]))["next"]
    for row, count in enumerate(made.tolist()):
        alone = make(max_episode_steps=None)
        start = alone.reset()
        if count:
            alone.open_loop_rollout(calm[:, :count])
        assert torch.equal(
            steps["qpos"][row], alone.step(start.set("action", calm[:, 0]))["next", "qpos"][row]
        )


def test_a_diverged_simulation_received_alone():
    env = make()
    root = env.reset().set("action", torch.zeros(NUM_ENVS, 2))
    states = env.get_state()
    env.async_step_send(root[:1].set("action", WILD[:1]), [0])
    with pytest.raises(EnvFailure, match=r"env 0 .* failed in step 1"):
        env.async_step_recv(1)
    assert env.get_state([1, 2, 3, 4]) == states[1:]
    env.async_step_send(root[:1], [0])  # it may go on
    received = env.async_step_recv(1)["next", "qpos"]
    spared = make()
    assert torch.equal(
        received, spared.step(spared.reset().set("action", root["action"]))["next", "qpos"][:1]
    )
