"""Envs of Python in workers give what TorchRL's SerialEnv gives, bit for bit."""

from functools import partial
from typing import ClassVar

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from launched import killed
from pettingzoo import AECEnv, ParallelEnv
from python_envs import WHERE, Dictionary, Sampled
from tensordict import TensorDict, TensorDictBase
from torchrl.collectors import Collector
from torchrl.data import Composite, Unbounded
from torchrl.envs import (
    ActionDiscretizer,
    EnvBase,
    GymEnv,
    GymWrapper,
    InitTracker,
    PettingZooWrapper,
    SerialEnv,
    StepCounter,
    TicTacToeEnv,
    TransformedEnv,
)
from torchrl.envs.utils import check_env_specs
from torchrl_envs import Stateless, TwoAgents

from torchrl_pool import EnvFailure, PoolCollector, PoolEnv, fuse


def counted():
    return TransformedEnv(GymEnv("CartPole-v1"), StepCounter(7))


def stateless_counted():
    return TransformedEnv(Stateless(), StepCounter(3))


def dictionary():
    return GymWrapper(Dictionary(), categorical_action_encoding=True)


def marked():
    return TransformedEnv(GymEnv("CartPole-v1"), InitTracker())


def discretized():
    return TransformedEnv(GymEnv("Pendulum-v1"), ActionDiscretizer(num_intervals=5))


class OneByOne:
    """Envs that are stepped each by itself: SerialEnv keeps old flags where an env leaves some out."""

    def __init__(self, num_envs, make):
        self.envs = [make() for _ in range(num_envs)]
        self.action_keys = self.envs[0].action_keys

    def set_seed(self, seed):
        for env in self.envs:
            seed = env.set_seed(seed)
        return seed

    def reset(self):
        return torch.stack([env.reset() for env in self.envs])

    def step_and_maybe_reset(self, root):
        steps = [env.step_and_maybe_reset(row) for env, row in zip(self.envs, root.unbind(0), strict=True)]
        return torch.stack([data for data, _ in steps]), torch.stack([following for _, following in steps])

    def close(self, **_):
        for env in self.envs:
            env.close()


class Chase(ParallelEnv):
    """Two players of PettingZoo, who see different things."""

    metadata: ClassVar = {"name": "chase"}
    possible_agents = ("hunter", "hare")

    def observation_space(self, agent):
        return spaces.Box(-1, 1, (2 + (agent == "hare"),))

    def action_space(self, agent):
        return spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        if seed is not None or not hasattr(self, "rng"):
            self.rng = np.random.default_rng(seed)
        self.agents = [*self.possible_agents]
        self.steps = 0
        return self._observe(), {agent: {} for agent in self.agents}

    def step(self, actions):
        self.steps += 1
        rewards = {agent: float(action) for agent, action in actions.items()}
        over = dict.fromkeys(self.agents, self.steps == 4)
        never = dict.fromkeys(self.agents, False)
        return self._observe(), rewards, over, never, {agent: {} for agent in self.agents}

    def state(self):
        return np.array([self.steps, self.rng.bit_generator.state["state"]["state"] % 7], np.float32)

    def _observe(self):
        shapes = {agent: self.observation_space(agent).shape for agent in self.agents}
        return {agent: self.rng.random(shape, np.float32) for agent, shape in shapes.items()}


def chase():
    return PettingZooWrapper(Chase())


class Escape(Chase):
    """The hare may escape, and the hunter be called back: an end that is one player's alone."""

    def step(self, actions):
        observed, rewards, terminations, truncations, infos = super().step(actions)
        drawn = self.rng.random()
        return (
            observed,
            rewards,
            {**terminations, "hare": drawn < 0.15},
            {**truncations, "hunter": drawn > 0.85},
            infos,
        )


def escape():
    return PettingZooWrapper(Escape())


class Nim(AECEnv):
    """Two players take 1 to 3 of what is left, in turn; who takes the last has won."""

    metadata: ClassVar = {"name": "nim"}
    possible_agents = ("first", "second")

    def observation_space(self, agent):
        return spaces.Box(0, 10, (1,))

    def action_space(self, agent):
        return spaces.Discrete(3)

    def observe(self, agent):
        return np.array([max(self.left, 0)], np.float32)

    def reset(self, seed=None, options=None):
        if seed is not None or not hasattr(self, "rng"):
            self.rng = np.random.default_rng(seed)
        self.left = int(self.rng.integers(5, 10))
        self.agents = [*self.possible_agents]
        self.agent_selection = self.agents[0]
        self.rewards, self._cumulative_rewards = (dict.fromkeys(self.agents, 0.0) for _ in range(2))
        self.terminations, self.truncations = (dict.fromkeys(self.agents, False) for _ in range(2))
        self.infos = {agent: {} for agent in self.agents}

    def step(self, action):
        if self.terminations[self.agent_selection]:
            return self._was_dead_step(action)
        agent, other = self.agent_selection, self.possible_agents[self.agent_selection == "first"]
        self._cumulative_rewards[agent] = 0
        self.left -= int(action) + 1
        self._clear_rewards()
        if self.left <= 0:
            self.rewards = {agent: 1.0, other: -1.0}
            self.terminations = dict.fromkeys(self.agents, True)
        self.agent_selection = other
        self._accumulate_rewards()


def nim():
    return PettingZooWrapper(Nim(), use_mask=True)


def wrapped(make):
    return GymWrapper(make())


# How an env is made, and how it is made for SerialEnv.
ENVS = {
    "CartPole": (partial(gymnasium.make, "CartPole-v1"), partial(GymEnv, "CartPole-v1")),
    "gymnasium:CartPole": ("gymnasium:CartPole-v1", partial(GymEnv, "CartPole-v1")),
    "Pendulum": (partial(gymnasium.make, "Pendulum-v1", max_episode_steps=9), None),
    "FrozenLake": (partial(gymnasium.make, "FrozenLake-v1"), partial(GymEnv, "FrozenLake-v1")),
    "Box": (Sampled, None),
    "Dict": (Dictionary, None),
    "TorchRL": (partial(GymEnv, "CartPole-v1"), partial(GymEnv, "CartPole-v1")),
    "TransformedEnv": (counted, counted),
    "agents": (TwoAgents, TwoAgents),
    "state": (Stateless, Stateless),
    "state, transformed": (stateless_counted, stateless_counted),
    "Dict in GymEnv": (dictionary, dictionary),
    "is_init": (marked, marked),
    "choices": (discretized, discretized),
    "tic-tac-toe": (TicTacToeEnv, TicTacToeEnv),
    "PettingZoo": (Chase, chase),
    "PettingZoo, in turn": (Nim, nim),
}


@pytest.fixture(params=ENVS)
def makers(request):
    make, serial = ENVS[request.param]
    return make, serial or partial(wrapped, make)


def leaves(tensordict):
    return {key: value for key, value in tensordict.items(True, True) if isinstance(value, torch.Tensor)}


def assert_same(ours, theirs):
    ours, theirs = leaves(ours), leaves(theirs)
    assert set(theirs) <= set(ours)
    for key, value in theirs.items():
        assert ours[key].dtype is value.dtype, key
        assert torch.equal(ours[key], value), key


@pytest.mark.parametrize("where", WHERE.values(), ids=WHERE)
def test_rollouts(makers, where):
    """Seeded, with resets of those that are done, over many episodes."""
    make, make_serial = makers
    num_envs = 5
    reference = OneByOne if make_serial in (TwoAgents, Stateless) else SerialEnv
    pool, serial = PoolEnv(make, num_envs, **where), reference(num_envs, make_serial)
    try:
        assert pool.set_seed(3) == serial.set_seed(3)
        for _ in range(2):
            root, expected = pool.reset(), serial.reset()
            assert_same(root, expected)
            torch.manual_seed(0)
            for _ in range(40):
                actions = pool.full_action_spec.rand()
                root.update(actions)
                expected.update(actions)
                data, root = pool.step_and_maybe_reset(root)
                theirs, expected = serial.step_and_maybe_reset(expected)
                assert_same(data["next"], theirs["next"])
                # What becomes of old actions differs.
                assert_same(root, expected.exclude(*serial.action_keys))
    finally:
        pool.close()
        serial.close(raise_if_closed=False)


def test_specs(makers):
    make, make_serial = makers
    pool, serial = PoolEnv(make, 3, num_workers=2, device="cpu"), SerialEnv(3, make_serial, device="cpu")
    try:
        for name in ("full_action_spec", "full_observation_spec", "full_reward_spec"):
            # PettingZooWrapper's groups of agents have a dimension of their own, ours the pool's alone.
            ours, theirs = (dict(getattr(env, name).items(True, True)) for env in (pool, serial))
            assert ours == theirs, name
        check_env_specs(pool)
    finally:
        pool.close()
        serial.close(raise_if_closed=False)


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
    assert_same(data, expected)
    with pytest.raises(EnvFailure, match="got 'score'"):
        PoolEnv(Chase, 1, num_workers=0, info_keys=["state", "score"])


@pytest.mark.parametrize("where", WHERE.values(), ids=WHERE)
@pytest.mark.parametrize("make", [chase, escape, nim])
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
        assert_same(data[0], expected)
        assert_same(data[1], expected)
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


def vectors():
    return PettingZooWrapper(Chase(), categorical_actions=False)


@pytest.mark.parametrize("make", [partial(GymEnv, "CartPole-v1"), vectors, Chase, counted])
def test_numbers_are_refused_where_an_env_has_vectors(make):
    open_pool = partial(PoolEnv, make, 1, num_workers=0, categorical_action_encoding=True)
    if make is Chase:
        assert open_pool().rollout(2)["hare", "action"].shape == (1, 2, 1)
    else:
        with pytest.raises(
            TypeError, match=r"categorical_action_encoding: .*action' of this env of TorchRL is"
        ):
            open_pool()


def test_agents_whose_flags_are_the_only_ones():
    """Of the bare env, step by step: batched ones keep old flags where a step leaves some out."""
    pool, bare = PoolEnv(partial(TwoAgents, False), 1, num_workers=0), TwoAgents(False)
    for env in (pool, bare):
        env.set_seed(4)
    root, expected, episodes = pool.reset(), bare.reset(), 0
    for _ in range(60):
        actions = pool.full_action_spec.rand()
        root, expected = pool.step(root.update(actions)), bare.step(expected.update(actions[0]))
        assert_same(root["next"][0], expected["next"])
        if any(expected["next"][key].any() for key in bare.done_keys):
            episodes += 1
            root, expected = pool.reset(), bare.reset()
        else:
            root, expected = pool.step_mdp(root), bare.step_mdp(expected)
    assert episodes > 2


def bounded(high):
    return Sampled(spaces.Box(-high, high, (3,)), spaces.Box(-high, high, (2,)))


def bounded_of_torchrl(high):
    return GymWrapper(bounded(high))


@pytest.mark.parametrize("make", [bounded, bounded_of_torchrl], ids=["Gymnasium", "GymEnv"])
@pytest.mark.parametrize("where", WHERE.values(), ids=WHERE)
def test_envs_of_a_list_have_bounds_of_their_own(make, where):
    """Each its own, in specs, in random actions and where actions are checked; like ones share them."""
    highs = [1.0, 0.5, 1.0]
    pool = PoolEnv([partial(make, high) for high in highs], 3, check_actions="strict", **where)
    serial = SerialEnv(3, [partial(bounded_of_torchrl, high) for high in highs])
    for name, key in (("full_action_spec", "action"), ("full_observation_spec", "observation")):
        ours, theirs = getattr(pool, name)[key].space, getattr(serial, name)[key]
        for env in range(3):
            assert torch.equal(ours.low[env], theirs[env].space.low), (name, env)
            assert torch.equal(ours.high[env], theirs[env].space.high), (name, env)
    assert len(set(pool._configs)) == 2
    pool.rollout(20)
    action = torch.tensor([[0.9, 0.9], [0.6, 0.4], [0.9, 0.9]])
    with pytest.raises(ValueError, match=r"env 1, element 0: expected a number in \[-0.5, 0.5\], got 0.6"):
        pool.step(pool.reset().set("action", action))
    pool.close()


class Answering(Sampled):
    """Its observations are what it is told, its rewards too."""

    def __init__(self, space, observation, reward=0.0):
        super().__init__(space)
        self.observation, self.reward = observation, reward

    def reset(self, *, seed=None, options=None):
        return self.observation, {}

    def step(self, action):
        return self.observation, self.reward, False, False, {}


ONE, BYTES, INTS = (
    spaces.Box(-9, 9, (1,)),
    spaces.Box(0, 255, (2,), np.uint8),
    spaces.Box(-9, 9, (2,), np.int32),
)


@pytest.mark.parametrize(
    ("space", "observation", "is_taken"),
    [
        (ONE, 0.5, True),
        (ONE, np.float32(0.5), True),
        (ONE, np.array(0.5), True),
        (ONE, torch.tensor([0.5]), True),
        (spaces.Box(-9, 9, (2, 2)), torch.ones(2, 2, dtype=torch.float64), True),
        (BYTES, np.array([3, 255]), True),
        (BYTES, np.array([3, 256]), False),
        (BYTES, np.array([3, -1], np.int8), False),
        (INTS, np.array([3.0, -4.0]), True),
        (INTS, np.array([3.5, -4.0]), False),
        (INTS, [3.5, -4.0], False),
        (INTS, np.array([1, 1 << 40]), False),
        (spaces.MultiBinary(2), np.array([True, False]), True),
        (spaces.Box(0, 1, (2,), bool), np.array([1, 0]), True),
        (spaces.Box(0, 1, (2,), bool), np.array([1, 2]), False),
    ],
)
def test_observations_of_other_dtypes(space, observation, is_taken):
    """Those are taken that lose nothing, with the value that SerialEnv gives them."""
    pool = PoolEnv(lambda: Answering(space, observation), 1, num_workers=0)
    if not is_taken:
        with pytest.raises(EnvFailure, match=r"entry 'observation': expected .* \[2\], got "):
            pool.reset()
        return
    ours, theirs = pool.reset(), SerialEnv(1, lambda: GymWrapper(Answering(space, observation))).reset()
    assert ours["observation"].dtype is theirs["observation"].dtype
    assert torch.equal(ours["observation"], theirs["observation"])


@pytest.mark.parametrize("make", [Answering, lambda *given: GymWrapper(Answering(*given))])
def test_rewards_are_never_negative_zeros(make):
    """As GymEnv adds them up from 0, also the sum of an episode."""
    pool = PoolEnv(
        lambda: make(ONE, np.zeros(1, np.float32), -0.0), 1, num_workers=0, info_keys=["episode_reward"]
    )
    step = pool.rollout(1)["next"]
    assert not torch.signbit(step["reward"]).any()
    assert not torch.signbit(step["episode_reward"]).any()


def agents_that_count():
    return TwoAgents(counted=True)


@pytest.mark.parametrize(
    "make", [TwoAgents, agents_that_count, chase], ids=["EnvBase", "counted", "PettingZoo"]
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


@pytest.mark.parametrize(("observed", "rewarded"), [((), (3,)), ((3,), ()), ((3,), (3,))])
def test_groups_that_specs_count_differently(observed, rewarded):
    make = partial(Uneven, observed, rewarded)
    pool, serial = PoolEnv(make, 2, num_workers=0), SerialEnv(2, make)
    ours, theirs = (dict(env.specs.items(True)) for env in (pool, serial))
    assert {key: spec.shape for key, spec in theirs.items()} == {key: ours[key].shape for key in theirs}
    assert pool.rollout(4)["next", "a"].batch_size == serial.rollout(4)["next", "a"].batch_size


@pytest.mark.parametrize("caller_steps", [False, True])
@pytest.mark.parametrize("num_workers", [0, 1, 2, 6])
def test_masks_cut_through_a_worker(num_workers, caller_steps):
    """Rows that a mask leaves out neither move nor change, and the others are as if there were no mask."""
    pool, serial = (
        PoolEnv(Dictionary, 6, num_workers=num_workers, caller_steps=caller_steps),
        SerialEnv(6, partial(wrapped, Dictionary)),
    )
    pool.set_seed(0)
    serial.set_seed(0)
    root, expected = pool.reset(), serial.reset()
    torch.manual_seed(1)
    for _ in range(30):
        actions = pool.full_action_spec.rand()
        mask = torch.rand(6) < 0.6
        for each in (root, expected):
            each.update(actions)
            each["_step"] = mask.clone()
        root, expected = pool.step(root), serial.step(expected)
        assert_same(root["next"].exclude("reward"), expected["next"].exclude("reward"))
        root, expected = root["next"].exclude("reward"), expected["next"].exclude("reward")
        chosen = (torch.rand(6, 1) < 0.3) | root["done"]
        for each in (root, expected):
            each["_reset"] = chosen.clone()
        root, expected = pool.reset(root), serial.reset(expected)
        assert_same(root[chosen.squeeze(-1)], expected[chosen.squeeze(-1)])
        expected.update(root.select(*leaves(expected)))
    pool.close()
    serial.close()


def test_held_tensors_are_never_written_again():
    pool = PoolEnv("gymnasium:CartPole-v1", 8, num_workers=2, seed=0)
    root = pool.reset()
    held = []
    for _ in range(60):
        root["action"] = pool.action_spec.rand()
        data, root = pool.step_and_maybe_reset(root)
        held.append((data, data.clone(), root, root["observation"].clone()))
    for data, copy, root, observation in held:
        assert_same(data["next"], copy["next"])
        assert torch.equal(root["observation"], observation)
    pool.close()


def test_seeds_and_options_of_one_reset():
    """As Gymnasium's vector envs take them: env i gets seed + i, and its own options."""
    pool = PoolEnv(partial(gymnasium.make, "CartPole-v1"), 3, num_workers=2)
    single = gymnasium.make("CartPole-v1")
    root = pool.reset(seed=7, options=[None, {"low": 0.2, "high": 0.3}, None])
    for env, options in enumerate([None, {"low": 0.2, "high": 0.3}, None]):
        observation, _ = single.reset(seed=7 + env, options=options)
        assert root["observation"][env].tolist() == observation.tolist()
    assert (pool.reset()["observation"].abs() <= 0.05).all()
    pool.close()


def test_infos_limits_and_encodings():
    pool = PoolEnv(
        Dictionary,
        4,
        num_workers=2,
        max_episode_steps=3,
        info_keys=["count", "deep/half", "sometimes", "step_count", "episode_reward"],
        categorical_action_encoding=True,
    )
    rollout = pool.rollout(7, break_when_any_done=False)["next"]
    assert rollout["count"][0].flatten().tolist() == [1, 2, 3, 1, 2, 3, 1]
    assert rollout["deep", "half"][0].flatten().tolist() == [0.5, 1, 1.5, 0.5, 1, 1.5, 0.5]
    odd, even = [0, 1, 2], [0, 0, 0]
    assert rollout["sometimes"][0].tolist() == [odd, even, odd, odd, even, odd, odd]
    assert rollout["truncated"][0].flatten().tolist() == [False, False, True, False, False, True, False]
    assert rollout["step_count"][0].flatten().tolist() == [1, 2, 3, 1, 2, 3, 1]
    assert rollout["episode_reward"][0].flatten().tolist() == [0.5, 1.5, 3, 0.5, 1.5, 3, 0.5]
    pool.close()
