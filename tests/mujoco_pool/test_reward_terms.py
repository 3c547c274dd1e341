"""What a reward is made of, as entries."""

import pytest
import torch
from cases import cases
from models import ARM
from tensordict import TensorDict
from torchrl.envs.utils import check_env_specs

from torchrl_pool import EnvFailure, MujocoPool, PoolCollector

N = 3


def parts(state, action, new):
    speed, cost = new["qvel"][:, 0], action.square().sum(1)
    return {"reward": speed - 0.1 * cost, "speed": speed, "cost": cost.unsqueeze(1)}


def make(**options):
    given = {"reward": parts, "info_keys": ("cost", "speed"), "max_episode_steps": 7, "seed": 0, **options}
    return MujocoPool(ARM, N, **given)


def reset_some(env, root, *rows):
    mask = torch.zeros(N, 1, dtype=torch.bool)
    mask[list(rows)] = True
    return env.reset(root.set("_reset", mask))


def test_terms_are_entries():
    env = make()
    check_env_specs(env)
    data = env.rollout(20, break_when_any_done=False)
    step = data["next"]
    assert step["cost"].shape == (N, 20)
    assert step["cost"].dtype is torch.float32
    torch.testing.assert_close(step["cost"], data["action"].square().sum(-1))
    torch.testing.assert_close(step["reward"].squeeze(-1), step["speed"] - 0.1 * step["cost"])
    begins = data["step_count"] == 0 if "step_count" in data else torch.arange(20) % 7 == 0
    assert (data["cost"][:, begins] == 0).all()
    assert torch.equal(data["cost"][:, 1:7], step["cost"][:, :6])


def test_without_being_asked_for_they_are_no_entries():
    assert "cost" not in make(info_keys=()).rollout(2)["next"]


def test_rows_that_are_left_out_keep_theirs():
    env = make()
    _, root = env.step_and_maybe_reset(env.rand_action(env.reset()))
    before = root["cost"].clone()
    assert (before > 0).all()
    after = reset_some(env, root, 1)
    assert after["cost"].tolist() == [before[0].item(), 0.0, before[2].item()]
    after["_step"] = torch.tensor([True, False, True])
    masked = env.step(env.rand_action(after))["next"]
    assert masked["cost"][1] == 0
    assert (masked["cost"][[0, 2]] != before[[0, 2]]).all()
    assert reset_some(env, masked.exclude("reward"), 0)["cost"][2] == masked["cost"][2]


def test_in_collectors_async_and_in_saved_states():
    (batch,) = PoolCollector(make(), None, frames_per_batch=N * 9, total_frames=N * 9)
    torch.testing.assert_close(batch["next", "cost"], batch["action"].square().sum(-1))
    env = make()
    env.reset()
    actions = TensorDict({"action": torch.full((2, 2), 0.5)}, [2])
    env.async_step_send(actions, [2, 0])
    assert env.async_step_recv(2)["next", "cost"].tolist() == [0.5, 0.5]
    state = env.get_state()
    env.step(env.rand_action(TensorDict({}, [N])))
    env.set_state(state)
    resting = TensorDict({"action": torch.ones(N, 2), "_step": torch.tensor([True, False, False])}, [N])
    assert env.step(resting)["next", "cost"].tolist() == [2.0, 0.0, 0.0]  # unknown: 0


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    cases(
        default=[
            (
                {"info_keys": ("spead",)},
                ValueError,
                "expected a mapping with 'spead', got one with 'reward', 'speed'",
            ),
            ({"reward": lambda s, a, n: {"cost": a[:, 0]}}, ValueError, "expected a mapping with 'reward'"),
            (
                {"reward": lambda s, a, n: {**parts(s, a, n), "cost": 1.0}},
                TypeError,
                "cost: expected a torch.Tensor",
            ),
        ],
        also=[
            ({"reward": lambda s, a, n: a[:, 0]}, ValueError, "expected a mapping with 'cost'"),
            ({"reward": lambda s, a, n: {**parts(s, a, n), "cost": a}}, ValueError, "cost: expected shape"),
        ],
    ),
)
def test_terms_that_are_not_as_announced(options, kind, message):
    env = make(**options)
    root = env.reset()
    with pytest.raises(kind, match=message):
        env.step(env.rand_action(root))


TAKEN = ["reward", "done", "qpos", "step_count", "action", "next", "pixels", "_step", "_reset"]


@pytest.mark.parametrize("name", cases(default=["done", "step_count", "_step"], also=TAKEN))
def test_names_that_are_taken(name):
    with pytest.raises(
        ValueError, match=f"'{name}' is the name of another entry: rename the term of the reward"
    ):
        make(info_keys=(name,))


def test_observations_and_terms_have_names_of_their_own():
    with pytest.raises(
        ValueError, match="'speed' is the name of another entry: rename the term of the reward"
    ):
        make(observation=lambda state: {"speed": state["qvel"][:, 0]})
    with pytest.raises(ValueError, match="'_reset' is a reserved name: rename the observation"):
        make(observation=lambda state: {"_reset": state["qvel"]})


def test_functions_see_how_many_steps_an_episode_has():
    env = make(reward=lambda state, action, new: new["step_count"].float(), info_keys=())
    assert env.rollout(4)["next", "reward"][0].flatten().tolist() == [1, 2, 3, 4]


# ---- rewards that are not finite


def nan_where_told(state, action, new):
    return torch.where(action[:, 0] > 1, torch.nan, action[:, 0])


def test_what_failures_say_of_rewards():
    env = make(reward=nan_where_told, info_keys=())
    env.reset()
    with pytest.raises(EnvFailure) as told:
        env.step(TensorDict({"action": torch.tensor([[0.5, 0], [0.5, 0], [2, 0]])}, [N]))
    assert (told.value.env_index, told.value.steps) == ([2], [1])
    assert told.value.tensordict["reward"].flatten().tolist() == [0.5, 0.5, 0]


def test_rows_that_do_not_step_are_not_judged():
    env = make(reward=nan_where_told, info_keys=())
    root = env.reset()
    root["action"] = torch.tensor([[0.5, 0], [2, 0], [0.5, 0]])
    root["_step"] = torch.tensor([True, False, True])
    assert env.step(root)["next", "reward"].flatten().tolist() == [0.5, 0, 0.5]


def test_async_failures_name_envs_and_keep_the_others():
    env = make(reward=nan_where_told, info_keys=())
    env.reset()
    for rows in ([2], [1, 2, 0]):
        actions = torch.tensor([[2.0 if row == 2 else 0.5, 0] for row in rows])
        env.async_step_send(TensorDict({"action": actions}, [len(rows)]), rows)
        with pytest.raises(EnvFailure) as told:
            env.async_step_recv(len(rows))
        assert told.value.env_index == [2]
        received = told.value.tensordict
        rewards = dict(
            zip(received["env_index"].tolist(), received["next", "reward"].flatten().tolist(), strict=True)
        )
        assert rewards == {row: 0.0 if row == 2 else 0.5 for row in rows}


def test_failures_of_simulations_are_not_hidden_by_functions():
    fast = torch.tensor([0.0, 0, 1e30])

    def diverges(rows, rng):
        return {"qvel": fast[rows, None].expand(-1, 8)}

    def inverse(state, action, new):
        return torch.linalg.inv(new["xmat:lower"].reshape(-1, 3, 3))[:, 0, 0]

    env = make(reward=inverse, fields=("xmat:lower",), reset=diverges, info_keys=())
    with pytest.raises(EnvFailure) as told:
        env.step(env.rand_action(env.reset()))
    assert told.value.env_index == [2]
    assert told.value.tensordict["reward"].isfinite().all()  # functions see it where it was, not zeros

    def broken(state, action, new):
        raise ZeroDivisionError

    env = make(reward=broken, reset=diverges, info_keys=())
    with pytest.raises(EnvFailure) as told:
        env.step(env.rand_action(env.reset()))
    assert (told.value.env_index, told.value.tensordict) == ([2], None)
    assert isinstance(told.value.__cause__, ZeroDivisionError)
    rewards = torch.tensor([0, torch.nan, 0])
    env = make(reward=lambda state, action, new: rewards, reset=diverges, info_keys=())
    with pytest.raises(EnvFailure) as told:
        env.step(env.rand_action(env.reset()))
    assert told.value.env_index == [1, 2]
