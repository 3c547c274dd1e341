"""What TorchRL expects of an env, and what a pool promises besides."""

from contextlib import nullcontext
from functools import partial

import pytest
import torch
from cases import cases
from collecting import normal_actor
from comparing import assert_same
from hopper import hopper, low, speed
from models import ARM
from playing import play
from tensordict import TensorDict
from torchrl.collectors import Collector
from torchrl.data import Unbounded
from torchrl.envs import (
    Compose,
    InitTracker,
    ParallelEnv,
    RewardSum,
    SerialEnv,
    StepCounter,
    TransformedEnv,
)
from torchrl.envs.utils import check_env_specs

from torchrl_pool import MujocoPool, PoolCollector, explain, fuse
from torchrl_pool.training import collector_state, load_collector_state

make = partial(hopper, seed=0)


@pytest.mark.parametrize("run_type_checks", cases([False, True]))
def test_types_are_checked_of_entries(run_type_checks):
    env = make(run_type_checks=run_type_checks)
    root = env.rand_action(env.reset())
    _, root = env.step_and_maybe_reset(root)
    env.reward_spec = Unbounded((4, 1), dtype=torch.float64)
    with pytest.raises(TypeError, match=r"expected reward\.dtype") if run_type_checks else nullcontext():
        env.step_and_maybe_reset(env.rand_action(root))


def test_episodes_end_and_begin():
    data = play(make(), 100)
    ends = data["next", "done"]
    assert data["next", "terminated"].any()
    assert data["next", "truncated"].any()
    assert torch.equal(ends, data["next", "terminated"] | data["next", "truncated"])
    goes_on = ~ends[:, :-1, 0]
    assert torch.equal(data["qpos"][:, 1:][goes_on], data["next", "qpos"][:, :-1][goes_on])
    assert not torch.equal(data["qpos"][:, 1:][~goes_on], data["next", "qpos"][:, :-1][~goes_on])
    moved = (data["next", "qpos"] - data["qpos"])[..., 0]
    assert torch.allclose(
        data["next", "reward"][..., 0], moved - 0.1 * data["action"].square().sum(-1), atol=1e-5
    )


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_parallel_env(start):
    makes = [partial(make, 2), partial(make, 2, seed=7)]
    rollouts = []
    for batched in (SerialEnv(2, makes), ParallelEnv(2, makes, mp_start_method=start)):
        batched.set_seed(3)
        rollouts.append(play(batched, 40))
        batched.close()
    assert rollouts[0]["next", "done"].any()
    assert_same(*rollouts)


@pytest.mark.parametrize("transforms", cases(default=[[], [StepCounter, RewardSum]], also=[[InitTracker]]))
def test_a_policy_is_taken_apart(transforms, capsys):
    def env():
        pool = make(
            observation=lambda state: torch.cat([state["qpos"], state["qvel"]], 1), fields=("qpos", "qvel")
        )
        return TransformedEnv(pool, Compose(*[one() for one in transforms])) if transforms else pool

    batches = []
    for cls in (Collector, PoolCollector):
        torch.manual_seed(0)
        own = env()
        collector = cls(own, normal_actor(own), frames_per_batch=80, total_frames=240)
        batches.append([batch.exclude("collector") for batch in collector])
    for one, other in zip(*batches, strict=True):
        assert_same(one, other)
    print(explain(collector))
    assert "a tensordict" not in capsys.readouterr().out


def test_fusing_leaves_transforms_to_torchrl(capsys):
    def env():
        return TransformedEnv(make(), Compose(StepCounter(), RewardSum()))

    fused = fuse(env())
    check_env_specs(fuse(env()))
    assert_same(play(fused, 60), play(env(), 60))
    root = fused.rand_step(fused.reset())["next"]
    root["_reset"] = torch.tensor([[True], [False], [True], [False]])
    assert fused.reset(root)["step_count"].flatten().tolist() == [0, 1, 0, 1]
    print(explain(fused))
    table = capsys.readouterr().out
    assert "torch's, which computes them after a step" in table
    assert "the executor" not in table


def test_states_go_on_bit_for_bit():
    options = {
        "action_delay": (0, 6),
        "randomize": ["qpos += uniform(-0.05, 0.05)", "body_mass *= uniform(0.5, 2)"],
    }
    env, other = make(**options), make(**{**options, "seed": 9})
    play(env, 17)
    state = env.get_state()
    expected = continued(env)
    other.reset()
    other.set_state(state)
    assert_same(continued(other), expected)
    env.set_state(state[2], [1])
    assert env.get_state([1]) == env.get_state([1])
    with pytest.raises(ValueError, match="saved state"):
        env.set_state(state[0][:-3], [0])
    with pytest.raises(ValueError, match="expected 4 states"):
        env.set_state(state[:2])
    with pytest.raises(ValueError, match="too short"):
        make(**options, fields=("xpos",)).set_state(state)


@pytest.mark.parametrize("transforms", cases([[], [StepCounter, RewardSum]]))
def test_a_collector_goes_on_from_another_ones_state(transforms, tmp_path):
    def start(rows, rng):
        return {"qpos:rootz": 1.2 + 0.1 * torch.rand(len(rows), 1, generator=rng)}

    def collector(seed):
        noise = ["body_mass:torso *= uniform(0.5, 2)"]
        env = make(reset=start, seed=seed, randomize=noise, max_episode_steps=13)
        env = TransformedEnv(env, Compose(*[one() for one in transforms])) if transforms else env
        return PoolCollector(env, None, frames_per_batch=80, total_frames=-1)

    one, other = iter(first := collector(0)), iter(second := collector(1))
    next(one), next(other)
    torch.save(collector_state(first), tmp_path / "state.pt")
    batches = []
    for batch in (one, other):
        torch.manual_seed(2)
        batches.append([next(batch) for _ in range(3)])
        load_collector_state(second, torch.load(tmp_path / "state.pt", weights_only=True))
    assert batches[0][-1]["next", "done"].any()
    for expected, own in zip(*batches, strict=True):
        assert_same(own, expected)


def continued(env):
    torch.manual_seed(5)
    root = TensorDict({}, [4])
    steps = []
    for _ in range(40):
        data, root = env.step_and_maybe_reset(env.rand_action(root))
        steps.append(data["next"])
    return torch.stack(steps)


def test_what_functions_have_seen_is_never_written_again():
    seen = []

    def reward(state, action, new):
        seen.extend((tensor, tensor.clone()) for td in (state, new) for tensor in td.values())
        return speed(state, action, new)

    env = make(reward=reward)
    root = env.rand_step(env.reset())["next"]
    for _ in range(2):
        env.async_step_send(env.rand_action(root))
        env.async_step_recv(4)
        env.async_reset_send(env_index=[1, 2])
        env.async_reset_recv(2)
        root = env.step(env.rand_action(root))["next"]
    assert all(torch.equal(tensor, copy) for tensor, copy in seen)


def test_functions_may_write_into_what_they_are_given():
    def reward(state, action, new):
        return speed(state, action.clamp_(-0.1, 0.1), new)

    def start(rows, rng):
        return {"qpos:rootz": 1.3 + 0 * rows.mul_(0)[:, None].double()}

    weight = torch.ones(6, requires_grad=True)
    env = make(
        reward=reward, reset=start, observation=lambda state: state["qpos"] * weight, fields=["qpos", "qvel"]
    )
    data = play(env, 40)
    assert (data["action"].abs() > 0.1).any()
    begun = data["next", "done"][:, :-1, 0]
    assert begun.any()
    assert (data["observation"][:, 1:, 1][begun] == 1.3).all()
    assert not data["next", "observation"].requires_grad


def test_random_actions_and_steps_of_those_that_were_received():
    env, other = make(), make()
    env.async_reset_send()
    root = env.async_reset_recv(3, max_get=3)
    assert (env.rand_action(root)["action"].shape, env.rand_action(root[0])["action"].shape) == ((3, 3), (3,))
    data = env.rand_step(root)  # while the fourth is in flight
    rows = data["env_index"]
    actions = other.full_action_spec["action"].rand().index_copy(0, rows, data["action"])
    expected = other.step(other.reset().set("action", actions))
    for key in ("qpos", "reward", "done"):
        assert torch.equal(data["next", key], expected["next", key][rows]), key
    assert env.async_reset_recv(1)["env_index"].tolist() == list({0, 1, 2, 3} - set(rows.tolist()))
    broken = make(reward=lambda state, action, new: 1 / 0)
    root = broken.reset()
    with pytest.raises(ZeroDivisionError):
        broken.rand_step(root[:3].set("env_index", torch.arange(3)))
    broken.reset()  # none is in flight


def test_episodes_that_functions_begin_do_so_in_async_calls():
    options = {
        "reset": lambda rows, rng: {"qpos:rootz": 1.2 + 0.01 * rows.double()[:, None]},
        "model_fields": {"body_mass:torso": torch.arange(3.0, 7)},
        "observation": ("qpos", "body_mass:torso"),
        "max_episode_steps": 4,
    }
    env, other = make(**options), make(**options)
    env.async_reset_send(env_index=[3, 1])
    env.async_reset_send(env_index=[0, 2])
    root, expected = env.async_reset_recv(4), other.reset()
    for _ in range(9):
        for key in ("qpos", "body_mass:torso", "done"):
            assert torch.equal(root[key], expected[key]), key
        _, expected = other.step_and_maybe_reset(other.rand_action(expected))
        env.async_step_and_maybe_reset_send(root.set("action", expected["action"]))
        _, root = env.async_step_and_maybe_reset_recv(4)


def test_episodes_begin_while_other_envs_are_in_flight():
    env = make(max_episode_steps=1)
    root = env.reset()
    env.async_step_send(env.rand_action(root)[2:], [2, 3])
    env.async_step_and_maybe_reset_send(root[0], 0)
    data, begun = env.async_step_and_maybe_reset_recv(env_index=0)
    assert data["next", "done"].item()
    assert not begun["done"].item()
    assert not torch.equal(begun["qpos"], data["next", "qpos"])
    assert env.async_step_recv(2)["env_index"].tolist() == [2, 3]


@pytest.mark.parametrize("seed", cases([None, 4]))
def test_a_pool_that_was_closed_begins_as_at_first(seed):
    draw = {"reset": lambda rows, generator: {"qvel": torch.rand(len(rows), 8, generator=generator)}}
    env = MujocoPool(ARM, 3, **draw)
    env.set_seed(seed)
    first = env.reset()
    env.rollout(3)
    env.close()
    assert_same(env.reset(), first)
    env.rng = mine = torch.Generator().manual_seed(7)
    state = mine.get_state()
    env.close()
    assert torch.equal(mine.get_state(), state)


def test_an_interrupted_close_that_closes_begins_as_at_first(monkeypatch):
    env = MujocoPool(
        ARM, 3, reset=lambda rows, rng: {"qvel": torch.rand(len(rows), 8, generator=rng)}, seed=4
    )
    first = env.reset()
    close = env._simulators.close

    def interrupted():
        close()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(env._simulators, "close", interrupted)
        with pytest.raises(KeyboardInterrupt):
            env.close()
    assert_same(env.reset(), first)


def test_functions_that_are_compiled():
    env = make(reward=torch.compile(speed, backend="eager"), terminated=torch.compile(low, backend="eager"))
    assert_same(play(env, 20), play(make(), 20))


class Hop:
    def reward(self, state, action, new):
        return speed(state, action, new)

    def terminated(self, state, new):
        return low(state, new)


def test_functions_may_be_methods():
    expected = play(make(), 20)
    assert_same(play(make(task=Hop(), reward=None, terminated=None), 20), expected)
