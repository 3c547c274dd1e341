"""Envs behind their adapters, beside the live references: the same names, dtypes, shapes and values."""

import pickle
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from python_envs import Dictionary, Sampled
from torchrl.envs import Compose, GymEnv, GymWrapper, RewardSum, SerialEnv, StepCounter, TransformedEnv
from torchrl_envs import Stateless, TwoAgents

from torchrl_pool import _core
from torchrl_pool._workers.adapters import adapt
from torchrl_pool._workers.entries import STATES, Entry
from torchrl_pool._workers.torchrl_adapter import TorchRLAdapter

BOX = spaces.Box(-1, 1, (2,))
SPACES = {
    "box": BOX,
    "float64": spaces.Box(-1, 1, (2, 3), np.float64),
    "float16": spaces.Box(-1, 1, (2, 3), np.float16),
    "bytes": spaces.Box(0, 255, (4,), np.uint8),
    "some bytes": spaces.Box(0, 9, (4,), np.uint8),
    "unbounded": spaces.Box(-np.inf, np.inf, (2,)),
    "half bounded": spaces.Box(np.array([-np.inf, 0], "f"), np.array([np.inf, 1], "f")),
    "bounded below": spaces.Box(0, np.inf, (2,)),
    "without dimensions": spaces.Box(-1, 1, ()),
    "without elements": spaces.Box(-1, 1, (0, 3)),
    "bools": spaces.Box(0, 1, (2,), bool),
    "discrete": spaces.Discrete(3),
    "int8": spaces.Discrete(3, dtype=np.int8),
    "multi-discrete of int32": spaces.MultiDiscrete([2, 3], dtype=np.int32),
    "multi-discrete": spaces.MultiDiscrete([2, 3]),
    "multi-discrete of one kind": spaces.MultiDiscrete([3, 3]),
    "multi-discrete in rows": spaces.MultiDiscrete([[2, 2], [2, 2]]),
    "multi-binary": spaces.MultiBinary(3),
    "tuple": spaces.Tuple([BOX, BOX]),
    "tuple of discrete": spaces.Tuple([spaces.Discrete(3), spaces.Discrete(3)]),
    "dict": spaces.Dict(b=BOX, a=spaces.Discrete(3), c=spaces.Dict(d=spaces.MultiBinary(2))),
    "dict of tuple": spaces.Dict(p=spaces.Tuple([BOX, BOX]), q=spaces.Discrete(2)),
    "dict with state": spaces.Dict(state=BOX, other=BOX),
    "dict with both": spaces.Dict(state=BOX, observation=BOX),
}
STARTS = {
    "discrete": spaces.Discrete(3, start=5),
    "multi-discrete": spaces.MultiDiscrete([2, 3], start=[-1, 4]),
    "int8": spaces.Discrete(3, start=-1, dtype=np.int8),
    "dict": spaces.Dict(a=spaces.Discrete(3, start=-2), b=spaces.MultiDiscrete([2, 2], start=[1, 1])),
    "tuple": spaces.Tuple([spaces.Discrete(3, start=1), spaces.Discrete(3, start=-1)]),
}
ENVS = {
    "CartPole": lambda: GymEnv("CartPole-v1", categorical_action_encoding=True),
    "one-hot": lambda: GymEnv("CartPole-v1"),
    "Pendulum": lambda: GymEnv("Pendulum-v1"),
    "Dictionary": lambda: GymWrapper(Dictionary(), categorical_action_encoding=True),
    "TwoAgents": TwoAgents,
    "nested flags only": lambda: TwoAgents(root_flags=False),
    "Stateless": Stateless,
    "transforms": lambda: TransformedEnv(GymEnv("Pendulum-v1"), Compose(StepCounter(7), RewardSum())),
    "stateless, transforms": lambda: TransformedEnv(Stateless(), StepCounter(3)),
}


def leaves(spec):
    return {
        key if isinstance(key, str) else "/".join(key): leaf
        for key, leaf in spec.items(include_nested=True, leaves_only=True)
    }


def described(entries, role):
    return {entry.name: (entry.dtype, entry.shape) for entry in entries if entry.role == role}


def as_described(spec):
    return {
        name: (str(leaf.dtype).removeprefix("torch."), tuple(leaf.shape))
        for name, leaf in leaves(spec).items()
    }


def random_actions(adapter, generator):
    """Actions as a worker would give them: scalars and arrays in the entries' dtypes."""
    for entry in adapter.entries:
        if entry.role == "action":
            if entry.categories:
                action = generator.integers(0, np.reshape(entry.categories, entry.shape))
            elif entry.low:
                low, high = np.clip(entry.low, -9, 9), np.clip(entry.high, -9, 9)
                action = generator.uniform(low, high).reshape(entry.shape)
            else:
                action = generator.integers(0, 2, entry.shape)
            yield np.asarray(action).astype(entry.dtype)[()]


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_observations_are_named_as_gym_env_names_them(space):
    adapter = adapt(Sampled(space))
    reference = GymWrapper(Sampled(space), categorical_action_encoding=True)
    expected = as_described(reference.full_observation_spec)
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):  # choices are int64 here
        expected = {name: ("int64", shape) for name, (_, shape) in expected.items()}
    assert described(adapter.entries, "observation") == expected
    assert described(adapter.entries, "reward") == as_described(reference.full_reward_spec)
    for entry in adapter.entries:
        if entry.role == "observation":
            spec = leaves(reference.full_observation_spec)[entry.name]
            if entry.categories:
                sizes = spec.nvec if hasattr(spec, "nvec") else torch.full(spec.shape, spec.space.n)
                assert entry.categories == tuple(torch.as_tensor(sizes).flatten().tolist())
            elif entry.low and hasattr(spec.space, "low"):
                assert np.array_equal(entry.low, spec.space.low.flatten())
                assert np.array_equal(entry.high, spec.space.high.flatten())


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_observations_have_the_values_of_gym_env(space):
    adapter = adapt(Sampled(space))
    reference = GymWrapper(Sampled(space), categorical_action_encoding=True)
    names = list(described(adapter.entries, "observation"))
    expected = leaves(reference.reset(seed=3))
    for name, leaf in zip(names, adapter.reset(3, None)[0], strict=True):
        assert np.array_equal(leaf, expected[name].numpy()), name
    outputs, reward, terminated, truncated = adapter.step([np.int64(1)])
    after = reference.step(reference.rand_action(reference.reset(seed=3)))["next"]
    for name, leaf in zip(names, outputs, strict=True):
        assert np.shape(leaf) == leaves(after)[name].shape
        assert np.array_equal(leaf, leaves(after)[name].numpy()), name
    assert (reward, bool(terminated), bool(truncated)) == (0.5, False, False)


@pytest.mark.parametrize(
    "space", [space for name, space in SPACES.items() if "state" not in name and "both" not in name]
)
def test_actions_are_named_as_gym_env_names_them_and_lie_in_their_space(space):
    env = Sampled(action_space=space)
    adapter = adapt(env)
    reference = GymWrapper(Sampled(action_space=space), categorical_action_encoding=True)
    expected = as_described(reference.full_action_spec)
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
        expected = {name: ("int64", shape) for name, (_, shape) in expected.items()}
    assert described(adapter.entries, "action") == expected
    adapter.reset(0, None)
    generator = np.random.default_rng(0)
    for _ in range(5):
        adapter.step(list(random_actions(adapter, generator)))
        assert space.contains(env.action), env.action


@pytest.mark.parametrize("space", STARTS.values(), ids=STARTS)
def test_values_of_spaces_that_start_elsewhere_are_shifted(space):
    space = spaces.Dict(move=space)
    env = Sampled(space, spaces.Dict(act=space), episode=100)
    adapter = adapt(env)
    generator = np.random.default_rng(0)
    seen = [set() for entry in adapter.entries if entry.role == "observation"]
    adapter.reset(0, None)
    for _ in range(50):
        outputs, *_ = adapter.step(list(random_actions(adapter, generator)))
        assert space.contains(env.action["act"]), env.action
        for values, output in zip(seen, outputs, strict=True):
            values.update(np.ravel(output).tolist())
    for values, entry in zip(seen, [e for e in adapter.entries if e.role == "observation"], strict=True):
        assert values == set(range(max(entry.categories)))


def test_a_tuple_of_unlike_spaces_has_an_entry_for_each():
    space = spaces.Tuple([spaces.Discrete(3), BOX, spaces.Dict(a=BOX)])
    env = Sampled(space, space)
    adapter = adapt(env)
    assert [entry.name for entry in adapter.entries] == [
        "action/0",
        "action/1",
        "action/2/a",
        "observation/0",
        "observation/1",
        "observation/2/a",
        "reward",
    ]
    adapter.reset(0, None)
    outputs, *_ = adapter.step([np.int64(2), np.ones(2, np.float32), np.zeros(2, np.float32)])
    assert [np.shape(leaf) for leaf in outputs] == [(), (2,), (2,)]
    assert space.contains(env.action)


def test_like_spaces_of_different_sizes_are_stacked():
    adapter = adapt(Sampled(spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)])))
    assert adapter.entries[1] == Entry("observation", "observation", "int64", (2,), categories=(2, 3))
    bounds = adapt(Sampled(spaces.Tuple([BOX, spaces.Box(-np.inf, np.inf, (2,))]))).entries[1]
    assert (bounds.low, bounds.high) == ((-1, -1, -np.inf, -np.inf), (1, 1, np.inf, np.inf))


@pytest.mark.parametrize("task", ["CartPole-v1", "Pendulum-v1", "MountainCarContinuous-v0", "Taxi-v4"])
def test_episodes_of_gymnasium_are_those_of_the_bare_env(task):
    bare, adapter = gymnasium.make(task), adapt(gymnasium.make(task))
    generator = np.random.default_rng(0)
    assert np.array_equal(adapter.reset(5, None)[0][0], bare.reset(seed=5)[0])
    for _ in range(300):
        (action,) = random_actions(adapter, generator)
        (observation,), *rest = adapter.step([action])
        expected, *others, _ = bare.step(action)
        assert np.array_equal(observation, expected)
        assert rest == others
        if rest[1] or rest[2]:
            assert np.array_equal(adapter.reset(None, None)[0][0], bare.reset()[0])
    adapter.seed(9)
    bare.reset(seed=9)
    assert np.array_equal(adapter.reset(None, None)[0][0], bare.reset()[0])


def test_options_reach_the_env():
    env = gymnasium.make("CartPole-v1")
    (observation,), _, _ = adapt(env).reset(0, {"low": 0.3, "high": 0.3001})
    assert (np.abs(observation - 0.3) < 0.001).all()


def test_infos_are_found_and_zero_where_they_are_missing():
    adapter = adapt(Dictionary(), ["count", "deep/half", "sometimes"])
    infos = [entry for entry in adapter.entries if entry.role == "info"]
    assert infos == [
        Entry("count", "info", "int64", ()),
        Entry("deep/half", "info", "float32", ()),
        Entry("sometimes", "info", "int64", (3,)),
    ]
    assert [np.asarray(leaf).tolist() for leaf in adapter.reset(0, None)[0][-3:]] == [0, 0, [0, 0, 0]]
    actions = list(random_actions(adapter, np.random.default_rng(0)))
    assert [np.asarray(leaf).tolist() for leaf in adapter.step(actions)[0][-3:]] == [1, 0.5, [0, 1, 2]]
    assert [np.asarray(leaf).tolist() for leaf in adapter.step(actions)[0][-3:]] == [2, 1, [0, 0, 0]]


@pytest.mark.parametrize(
    ("make", "info_keys", "error", "message"),
    [
        (lambda: object(), (), TypeError, "expected a gymnasium.Env.*builtins.object"),
        (lambda: gymnasium.make_vec("CartPole-v1", 2), (), TypeError, "of many envs"),
        (lambda: SerialEnv(2, TwoAgents), (), TypeError, r"batch_size \(2,\)"),
        (TwoAgents, ("x",), TypeError, "info_keys"),
        (Dictionary, ("nothing",), ValueError, "'nothing'.*'count', 'deep/half'"),
        (Dictionary, ("name",), TypeError, "info 'name'.*U4"),
        (Dictionary, ("picture",), ValueError, "'picture'"),
        (
            lambda: Sampled(spaces.Dict(a=spaces.Graph(spaces.Box(0, 1), None))),
            (),
            TypeError,
            "observation 'a'.*Graph",
        ),
        (lambda: Sampled(spaces.Sequence(BOX)), (), TypeError, "observation 'observation'.*Sequence"),
        (lambda: Sampled(spaces.Graph(BOX, None)), (), TypeError, "Graph"),
        (lambda: Sampled(action_space=spaces.Text(3)), (), TypeError, "action 'action'.*Text"),
        (lambda: Sampled(spaces.Box(0, 1, (2,), np.longdouble)), (), TypeError, "float128"),
        (lambda: Sampled(spaces.Dict({"a/b": BOX})), (), ValueError, "'a/b'"),
        (lambda: Sampled(spaces.Dict(done=BOX)), (), ValueError, "'done'"),
        (lambda: Sampled(spaces.Dict(next=spaces.Dict(a=BOX))), (), ValueError, "'next/a'.*TorchRL's own"),
        (lambda: Sampled(spaces.Dict(_reset=BOX)), (), ValueError, "'_reset'.*TorchRL's own"),
        (lambda: Sampled(spaces.Dict(env_index=BOX)), (), ValueError, "'env_index'.*TorchRL's own"),
        (lambda: Sampled(spaces.Dict(reward=BOX)), (), ValueError, "'reward'"),
        (lambda: Sampled(spaces.Dict(action=BOX)), (), ValueError, "'action'"),
        (
            lambda: Sampled(spaces.Dict(a=BOX), spaces.Dict(a=spaces.Dict(b=BOX))),
            (),
            ValueError,
            "'a/b'.*'a'",
        ),
    ],
)
def test_what_cannot_be_adapted_is_refused(make, info_keys, error, message):
    with pytest.raises(error, match=message):
        _core.remote_config("env", list(adapt(make(), info_keys).entries))  # which looks at the names


@pytest.mark.parametrize("make", ENVS.values(), ids=ENVS)
def test_entries_of_torchrl_envs_are_the_leaves_of_their_specs(make):
    env = make()
    adapter = adapt(env)
    action, observation, reward, done, state = pickle.loads(adapter.specs)
    read = described(adapter.entries, "action")
    assert (STATES in read) == (not state.is_empty())
    assert {name: leaf for name, leaf in read.items() if name != STATES} == as_described(action)
    assert described(adapter.states, "state") == as_described(state)
    assert described(adapter.entries, "observation") == as_described(observation)
    assert described(adapter.entries, "reward") == as_described(reward)
    flags = {name: leaf for name, leaf in as_described(done).items() if "/" in name}
    assert described(adapter.entries, "done") == flags
    assert (action, observation, reward, done, state) == (
        env.full_action_spec,
        env.full_observation_spec,
        env.full_reward_spec,
        env.full_done_spec,
        env.full_state_spec,
    )


@pytest.mark.parametrize("make", ENVS.values(), ids=ENVS)
def test_episodes_of_torchrl_envs_are_those_of_the_bare_env(make):
    """Not of SerialEnv, whose flags go stale where a step leaves some out."""
    bare, adapter = make(), TorchRLAdapter(make())
    bare.set_seed(4)
    adapter.seed(4)
    outputs = [entry for entry in adapter.entries if entry.role not in ("action", "reward")]
    rewards = [entry for entry in adapter.entries if entry.role == "reward"]
    actions = [entry for entry in adapter.entries if entry.role == "action" and entry.name != STATES]
    not_given = [np.zeros(entry.shape, entry.dtype) for entry in adapter.entries if entry.name == STATES]
    roots = [key for key in bare.done_keys if isinstance(key, str)]
    root, ours, episodes = bare.reset(), adapter.reset(None, None)[0], 0
    for _ in range(300):
        for entry, leaf in zip(outputs, ours, strict=True):
            assert_same(leaf, root, entry)
        root = bare.rand_action(root)
        after = bare.step(root)["next"]
        ours, reward, terminated, truncated = adapter.step(
            [*(leaf_of(root, entry).clone().numpy()[()] for entry in actions), *not_given]
        )
        for entry, leaf in zip([*outputs, *rewards], [*ours, reward], strict=True):
            assert_same(leaf, after, entry)
        assert (terminated or truncated) == any(after.get(key).any() for key in roots or bare.done_keys)
        if roots:
            assert terminated == after["terminated"].item()
            assert truncated == ("truncated" in roots and after["truncated"].item())
        root = bare.step_mdp(root)
        if terminated or truncated:
            root, ours = bare.reset(), adapter.reset(None, None)[0]
            episodes += 1
    assert episodes >= 1


def leaf_of(tensordict, entry):
    return tensordict.get(tuple(entry.name.split("/")))


def assert_same(leaf, tensordict, entry):
    expected = leaf_of(tensordict, entry).numpy()
    assert isinstance(leaf, np.ndarray)
    assert (str(leaf.dtype), leaf.shape) == (entry.dtype, entry.shape), entry.name
    assert np.array_equal(leaf, expected), entry.name


def test_nothing_of_this_needs_torch():
    program = """if True:
        import sys
        from python_envs import Dictionary
        import torchrl_pool._workers.launching
        from torchrl_pool._workers.adapters import adapt
        adapt(Dictionary(), ["count"]).reset(0, None)
        print("torch" in sys.modules)
    """
    lines = [sys.executable, "-c", program]
    ended = subprocess.run(lines, cwd=__file__.rpartition("/")[0], capture_output=True, text=True, check=True)
    assert ended.stdout == "False\n"
