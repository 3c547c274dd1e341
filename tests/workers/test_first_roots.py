"""What episodes begin with: flags that may be set already, and an info dict that Gymnasium's have."""

import contextlib
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from cases import cases
from gymnasium import spaces
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torchrl.collectors import Collector
from torchrl.data import Bounded, Categorical, Composite, Unbounded
from torchrl.envs import EnvBase, GymWrapper, SerialEnv

from torchrl_pool import EnvFailure, PoolCollector, PoolEnv
from torchrl_pool.gymnasium import PoolVectorEnv


class Spawn(EnvBase):
    """Every third episode is over when it begins.

    Args:
        flags: those that are set there.
        allow: whether that is allowed.
    """

    def __init__(self, flags, allow=True):
        super().__init__(batch_size=[], allow_done_after_reset=allow)
        self.observation_spec = Composite(observation=Unbounded((1,)))
        self.action_spec = Bounded(-1, 1, (1,))
        self.reward_spec = Unbounded((1,))
        flag = Categorical(2, (1,), dtype=torch.bool)
        self.done_spec = Composite(done=flag, terminated=flag.clone(), truncated=flag.clone())
        self.flags, self.episodes, self.t = flags, 0, 0

    def _flags(self, is_over, names):
        flags = {name: torch.tensor([is_over and name in names]) for name in ("terminated", "truncated")}
        return {**flags, "done": flags["terminated"] | flags["truncated"]}

    def _reset(self, tensordict=None, **kwargs):
        self.episodes, self.t = self.episodes + 1, 0
        return TensorDict({"observation": torch.zeros(1), **self._flags(self.episodes % 3 == 0, self.flags)})

    def _step(self, tensordict):
        self.t += 1
        return TensorDict(
            {
                "observation": torch.full((1,), float(self.t)),
                "reward": torch.ones(1),
                **self._flags(self.t >= 2, ("terminated",)),
            }
        )

    def _set_seed(self, seed):
        pass


def played(env):
    """What a loop of steps with auto-reset sees, after a masked reset."""
    root = env.reset()
    mask = torch.tensor([True, False])
    root = env.reset(root.set("_reset", mask))
    seen = [root.clone().exclude("_reset")]
    for _ in range(14):
        step, root = env.step_and_maybe_reset(root.set("action", torch.zeros(2, 1)))
        seen += [step["next"].clone(), root.select(*env.done_keys, "observation").clone()]
    return seen


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("flags", cases([("terminated",), ("truncated",), ("terminated", "truncated")]))
def test_episodes_that_are_over_when_they_begin(flags, num_workers):
    make = partial(Spawn, flags)
    due = played(SerialEnv(2, make))
    for options in ({}, {"allow_done_after_reset": True}):
        with contextlib.closing(PoolEnv(make, 2, num_workers=num_workers, **options)) as env:
            found = played(env)
        assert any(root["done"].any() for root in due[2::2])
        for mine, other in zip(found, due, strict=True):
            assert (mine == other).all()


@pytest.mark.parametrize("num_workers", cases([0, 1]))
def test_where_that_is_not_allowed_it_is_said(num_workers):
    make = partial(Spawn, ("truncated",), False)
    with (
        contextlib.closing(PoolEnv(make, 2, num_workers=num_workers)) as env,
        pytest.raises(EnvFailure, match=r"'done' was .* True after"),
    ):
        played(env)


def test_collectors_show_such_roots():
    def batch(env, kind):
        policy = TensorDictModule(torch.zeros_like, ["observation"], ["action"])
        collector = kind(env, policy, frames_per_batch=24, total_frames=24)
        (found,) = [batch.clone() for batch in collector]
        return found.exclude("collector")

    make = partial(Spawn, ("terminated",))
    due = batch(SerialEnv(2, make), Collector)
    found = batch(PoolEnv(make, 2, num_workers=0), PoolCollector)
    assert due["done"].any()
    for key in due.keys(True, True):
        assert torch.equal(found[key], due[key]), key


class Careless(gymnasium.Env):
    observation_space, action_space = spaces.Box(-1, 1, (2,)), spaces.Discrete(2)

    def __init__(self, returned):
        self.returned = returned

    def reset(self, *, seed=None, options=None):
        return self.returned


ZEROS = np.zeros(2, np.float32)


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize(
    ("returned", "got"),
    cases(
        default=[(ZEROS, "got ndarray"), ((0.0, 1.0), r"got a tuple of \(float, float\)")],
        also=[
            ((ZEROS,), r"got a tuple of \(ndarray\)"),
            ((ZEROS, None), r"got a tuple of \(ndarray, NoneType\)"),
            ((ZEROS, 0.0, False, {}), r"got a tuple of \(ndarray, float, bool, dict\)"),
        ],
    ),
)
def test_a_reset_without_an_info_dict_is_refused(returned, got, num_workers):
    message = r"reset\(\): expected an observation and an info dict, as Gymnasium has it, " + got
    make = partial(Careless, returned)
    for envs in (
        PoolEnv(make, 2, num_workers=num_workers),
        PoolVectorEnv(make, 2, num_workers=num_workers),
        PoolEnv(lambda: GymWrapper(make()), 2, num_workers=num_workers),
    ):
        with contextlib.closing(envs), pytest.raises(EnvFailure, match=message):
            envs.reset()
    with pytest.raises(EnvFailure, match=message):
        PoolEnv(make, 2, num_workers=num_workers, info_keys=["steps"])


PARTS = spaces.Dict(
    agent=spaces.Box(-1, 1, (2,)),
    target=spaces.Dict(x=spaces.Discrete(2)),
    pair=spaces.Tuple((spaces.Discrete(2), spaces.Box(-1, 1, (2,)))),
)


@pytest.mark.parametrize(
    ("observation", "message"),
    cases(
        [
            ({"agent": ZEROS, "battery": 1}, "'target': missing; the observation has 'agent', 'battery'"),
            (
                {"agent": ZEROS, "pair": (0, ZEROS), "target": {}},
                "'target/x': missing; entry 'target' has nothing",
            ),
            ({"agent": ZEROS, "pair": (0,), "target": {"x": 1}}, "'pair/1': missing; entry 'pair' has 0"),
            ({"agent": ZEROS, "pair": 3, "target": {"x": 1}}, r"'pair': expected one of Tuple\(.*, got int"),
            (ZEROS, r"the observation: expected one of Dict\(.*, got ndarray"),
        ]
    ),
)
def test_parts_that_an_observation_lacks_are_named(observation, message):
    class Lacking(Careless):
        observation_space = PARTS

    with (
        contextlib.closing(PoolEnv(lambda: Lacking((observation, {})), 1, num_workers=0)) as env,
        pytest.raises(EnvFailure, match=message),
    ):
        env.reset()
