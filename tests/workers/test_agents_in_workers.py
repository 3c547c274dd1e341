"""Envs of many agents, in workers and here, give what TorchRL's SerialEnv gives, bit for bit."""

from functools import partial

import pytest
import torch
from cases import cases
from comparing import assert_holds
from launched import killed
from pettingzoo_envs import Chase, chase, escape, nim
from python_envs import WHERE
from tensordict import TensorDict, TensorDictBase
from torchrl.collectors import Collector
from torchrl.data import Composite, Unbounded
from torchrl.envs import EnvBase, PettingZooWrapper, SerialEnv, StepCounter, TransformedEnv
from torchrl_envs import TwoAgents

from torchrl_pool import EnvFailure, PoolCollector, PoolEnv, fuse


def test_the_state_of_an_env_of_pettingzoo():
    pool = PoolEnv(Chase, 2, num_workers=0, info_keys=["state", "step_count"])
    serial = SerialEnv(2, lambda: PettingZooWrapper(Chase(), return_state=True))
    assert pool.observation_spec["state"] == serial.observation_spec["state"]
    rollouts = []
    for env in (pool, serial):
        env.set_seed(3)
        torch.manual_seed(0)
        policy = lambda tensordict: tensordict.update(pool.full_action_spec.rand())  # noqa: E731
        rollouts.append(env.rollout(9, policy, break_when_any_done=False))
    data, expected = rollouts
    assert expected["state"].unique(dim=1).shape[1] > 4
    assert_holds(data, expected)
    with pytest.raises(EnvFailure, match="got 'score'"):
        PoolEnv(Chase, 1, num_workers=0, info_keys=["state", "score"])


@pytest.mark.parametrize("where", WHERE.values(), ids=WHERE)
@pytest.mark.parametrize("make", cases(default=[chase, escape], also=[nim]))
def test_a_limit_ends_the_episodes_of_agents_too(make, where):
    """As StepCounter's does, also where the end is an agent's own."""
    limited = PoolEnv(make, 3, max_episode_steps=3, info_keys=["step_count"], **where)
    counted = fuse(TransformedEnv(PoolEnv(make, 3, **where), StepCounter(3)))
    serial = TransformedEnv(SerialEnv(3, make), StepCounter(3))
    envs = limited, counted, serial
    rollouts, batches = [], []
    for env in envs:
        policy = lambda tensordict: tensordict.update(limited.full_action_spec.rand())  # noqa: E731
        env.set_seed(3)
        torch.manual_seed(0)
        rollouts.append(env.rollout(40, policy, break_when_any_done=False))
        collect = Collector if env is serial else PoolCollector
        collector = collect(env, policy, frames_per_batch=120, total_frames=240)  # which closes the env
        batches.append(torch.cat([batch.clone() for batch in collector], 1))
    for data, expected in ((rollouts, rollouts[-1]), (batches, batches[-1])):
        assert_holds(data[0], expected)
        assert_holds(data[1], expected)
    flags = rollouts[-1]["next"]
    groups = [key[0] for key in serial.action_keys]
    for name in ("done", "truncated"):
        assert all(torch.equal(flags[group, name].squeeze(-2), flags[name]) for group in groups)
    assert flags["truncated"].sum() > 9


def test_a_limit_ends_the_episodes_of_agents_on_each_road():
    env = PoolEnv(chase, 3, max_episode_steps=2, num_workers=0)
    ended, some = torch.tensor([[True], [False], [True]]), torch.tensor([True, False, True])
    root = env.rand_action(env.reset())
    root = env.step_mdp(env.step(root.set("_step", some)))
    data = env.step(env.rand_action(root).set("_step", some))
    env.async_step_send(env.rand_action(env.reset()))
    root = env.step_mdp(env.async_step_recv(3).exclude("env_index"))
    env.async_step_send(env.rand_action(root)[[0, 2]], [0, 2])
    for flags, due in ((data["next"], ended), (env.async_step_recv(2)["next"], ended[some])):
        for group in ("hunter", "hare"):
            assert torch.equal(flags[group, "truncated"][:, 0], due)
            assert torch.equal(flags[group, "done"][:, 0], due)
            assert not flags[group, "terminated"].any()


def test_agents_that_are_lost_have_come_to_an_end():
    pool = PoolEnv(chase, 2, num_workers=2, respawn=True)
    root = pool.rand_action(pool.reset())
    killed(pool._source.workers._workers[1].pid)
    flags = pool.step(root)["next"]
    pool.close()
    assert flags["respawned"].flatten().tolist() == [False, True]
    for group in ("hunter", "hare"):
        for name in ("done", "truncated"):
            assert torch.equal(flags[group, name][:, 0], flags["respawned"])
        assert not flags[group, "terminated"].any()


def test_agents_whose_flags_are_the_only_ones():
    """Of the bare env, step by step: batched ones keep old flags where a step leaves some out."""
    pool, bare = PoolEnv(partial(TwoAgents, False), 1, num_workers=0), TwoAgents(False)
    for env in (pool, bare):
        env.set_seed(4)
    root, expected, episodes = pool.reset(), bare.reset(), 0
    for _ in range(60):
        actions = pool.full_action_spec.rand()
        root, expected = pool.step(root.update(actions)), bare.step(expected.update(actions[0]))
        assert_holds(root["next"][0], expected["next"])
        if any(expected["next"][key].any() for key in bare.done_keys):
            episodes += 1
            root, expected = pool.reset(), bare.reset()
        else:
            root, expected = pool.step_mdp(root), bare.step_mdp(expected)
    assert episodes > 2


def agents_that_count():
    return TwoAgents(counted=True)


@pytest.mark.parametrize(
    "make",
    cases(default=[TwoAgents, agents_that_count], also=[chase]),
    ids=["EnvBase", "counted", "PettingZoo"],
)
def test_batch_sizes_of_groups(make):
    """Those of nested tensordicts count the agents, too: in specs, at every call, and in batches."""

    def sizes(tensordict):
        items = tensordict.items(True)
        nested = {key: value.batch_size for key, value in items if isinstance(value, TensorDictBase)}
        return {key: size for key, size in nested.items() if "collector" not in str(key)}

    pool, serial = PoolEnv(make, 3, num_workers=0), SerialEnv(3, make)
    roots = [env.rand_action(env.reset()) for env in (pool, serial)]
    assert sizes(roots[0]) == sizes(roots[1]) != {}
    stepped = [env.step_and_maybe_reset(root) for env, root in zip((pool, serial), roots, strict=True)]
    for ours, theirs in zip(*stepped, strict=True):
        assert sizes(ours) == sizes(theirs)
    some = torch.tensor([True, False, True])
    masked = [env.step(env.rand_action(env.reset()).set("_step", some)) for env in (pool, serial)]
    assert sizes(masked[0]) == sizes(masked[1])
    ours, theirs = (dict(env.specs.items(True)) for env in (pool, serial))
    assert {key: spec.shape for key, spec in theirs.items()} == {key: ours[key].shape for key in theirs}
    rollout = serial.rollout(4)
    for env in (pool, fuse(TransformedEnv(pool, StepCounter()))):
        assert sizes(env.rollout(4)) == sizes(rollout)
        (batch,) = PoolCollector(env, frames_per_batch=12, total_frames=12)
        assert sizes(batch) == sizes(rollout)
    asynchronous = PoolEnv(make, 3, num_workers=0)
    asynchronous.async_step_send(asynchronous.rand_action(asynchronous.reset())[[0, 2]], [0, 2])
    assert sizes(asynchronous.async_step_recv(2)) == {
        key: torch.Size([2, *size[1:]]) for key, size in sizes(stepped[1][0]).items()
    }
    if make is chase:
        assert pool.group_map == make().group_map


class Uneven(EnvBase):
    """Specs of one name that count differently."""

    def __init__(self, observed=(), rewarded=(3,)):
        super().__init__()
        self.group_map = "all"  # none that means anything to a pool
        self.observed, self.rewarded = observed, rewarded
        self.observation_spec = Composite(a=Composite(seen=Unbounded((3, 5)), shape=observed))
        self.action_spec = Composite(a=Composite(action=Unbounded((3, 2)), shape=observed))
        self.reward_spec = Composite(a=Composite(reward=Unbounded((3, 1)), shape=rewarded))

    def _set_seed(self, seed):
        pass

    def _reset(self, tensordict=None, **kwargs):
        return TensorDict({"a": TensorDict({"seen": torch.zeros(3, 5)}, self.observed)})

    def _step(self, tensordict):
        root = self._reset()
        root["a", "reward"] = torch.ones(3, 1)
        return root.set("done", torch.zeros(1, dtype=torch.bool))


@pytest.mark.parametrize(
    ("observed", "rewarded"), cases(default=[((), (3,)), ((3,), (3,))], also=[((3,), ())])
)
def test_groups_that_specs_count_differently(observed, rewarded):
    make = partial(Uneven, observed, rewarded)
    pool, serial = PoolEnv(make, 2, num_workers=0), SerialEnv(2, make)
    ours, theirs = (dict(env.specs.items(True)) for env in (pool, serial))
    assert {key: spec.shape for key, spec in theirs.items()} == {key: ours[key].shape for key in theirs}
    assert pool.rollout(4)["next", "a"].batch_size == serial.rollout(4)["next", "a"].batch_size
