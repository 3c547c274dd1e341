"""Any space of Gymnasium's, and envs that show values of it and say which action they got."""

import string

import gymnasium
import numpy as np
from gymnasium import spaces
from hypothesis import strategies as st

# What TorchRL's GymEnv has tensors for, and what it has none for.
OF_GYM_ENV = ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]
OTHERS = ["uint16", "uint32", "uint64", "bool"]
SHAPES = st.sampled_from([(), (1,), (3,), (2, 3), (2, 2, 2)])


def _limits(dtype):
    limits = np.finfo(dtype) if dtype.startswith("float") else np.iinfo(dtype)
    return limits.min, limits.max


@st.composite
def boxes(draw, dtypes=(*OF_GYM_ENV, *OTHERS), shapes=SHAPES, largest=2**64, infinite=True):
    """Of all dtypes and bounds, those beyond what a double holds among them."""
    dtype, shape = draw(st.sampled_from(dtypes)), draw(shapes)
    if dtype == "bool":
        return spaces.Box(0, 1, shape, dtype)
    least, most = (int(max(-largest, min(largest, limit))) for limit in _limits(dtype))
    ends = [draw(st.integers(least, most)) for _ in range(2)]
    if draw(st.booleans()):
        ends = [draw(st.integers(max(least, -9), 9)) for _ in range(2)]
    low, high = sorted(min(most, max(least, end)) for end in ends)
    if dtype.startswith("float"):
        high += low == high and high < most
        low, high = (np.array(end, dtype).item() for end in (low, high))
        if infinite:
            low, high = (draw(st.sampled_from(pair)) for pair in ((low, -np.inf), (high, np.inf)))
    if (dtype, low, high) == ("int8", 0, 1):
        high = 2  # as a MultiBinary is here, and bounded integers in GymEnv
    return spaces.Box(low, high, shape, dtype)


@st.composite
def choices(draw, starts=True, unlike_rows=True):
    """One or several, that start anywhere."""
    start = st.integers(-3, 5) if starts else st.just(0)
    kind = draw(st.sampled_from(["one", "several", "rows", "flags"]))
    least = 1 if unlike_rows else 2  # of one GymEnv makes an int
    if kind == "one":
        return spaces.Discrete(draw(st.integers(1, 7)), start=draw(start))
    if kind == "flags":
        return spaces.MultiBinary(draw(st.integers(least, 9)))
    sizes = draw(st.lists(st.integers(least, 6), min_size=least, max_size=4))
    if kind == "rows":
        sizes = [sizes, sizes[::-1]] if unlike_rows else [[sizes[0]] * 2] * 2
    starts_of = np.vectorize(lambda _: draw(start), otypes=[np.int64])(sizes)
    return spaces.MultiDiscrete(sizes, start=starts_of)


def nested(leaves, keys, likes_only=False):
    """Dicts and Tuples of them."""
    dicts = st.dictionaries(keys, leaves, min_size=1, max_size=3).map(spaces.Dict)
    likes = st.tuples(leaves, st.integers(2, 3)).map(lambda pair: spaces.Tuple([pair[0]] * pair[1]))
    tuples = likes if likes_only else likes | st.lists(leaves, min_size=1, max_size=3).map(spaces.Tuple)
    inner = leaves | dicts | tuples
    return inner | st.dictionaries(keys, inner, min_size=1, max_size=3).map(spaces.Dict)


NAMES = st.text(string.ascii_lowercase, min_size=1, max_size=3)
ANY_OBSERVATION = nested(boxes() | choices(), NAMES)
# TorchRL draws infinite numbers where bounds are, and entries have names of their own.
ANY_ACTION = nested(boxes(infinite=False) | choices(), NAMES.map(str.upper))


def drawn(space, random):
    """A value of a space; Gymnasium's own ``sample`` draws doubles for large integers."""
    if isinstance(space, spaces.Dict):
        return {key: drawn(one, random) for key, one in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(drawn(one, random) for one in space.spaces)
    if not isinstance(space, spaces.Box):
        space.seed(int(random.integers(2**31)))
        return space.sample()
    if space.dtype == bool:
        return random.integers(0, 2, space.shape).astype(bool)
    if space.dtype.kind in "iu":
        return np.asarray(random.integers(space.low, space.high, endpoint=True, dtype=space.dtype))
    low, high = (bound.astype(np.float64) for bound in (space.low, space.high))
    low = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high, 0) - 99)
    values = random.uniform(low, np.where(np.isfinite(high), high, low + 99))
    return np.clip(np.asarray(values, space.dtype), space.low, space.high)


def leaves_of(action):
    """All numbers; GymEnv makes an array of a tuple whose parts are alike."""
    if isinstance(action, dict):
        action = [action[key] for key in sorted(action, key=str)]
    if not isinstance(action, (list, tuple)):
        return np.ravel(action).astype(np.float64)
    return np.concatenate([leaves_of(part) for part in action])


def number_of(action):
    """It says which action it is."""
    leaves = leaves_of(action)
    return float(np.sum(np.arange(1, leaves.size + 1) * leaves / 2**40))


class AnyEnv(gymnasium.Env):
    """Shows values of one space, and what actions of another one it got.

    Args:
        looks: whether it requires that actions are of its space.
    """

    def __init__(self, observation_space=None, action_space=None, looks=True, episode=4):
        self.observation_space = observation_space or spaces.Box(-1, 1, (2,))
        self.action_space = action_space or spaces.Discrete(2)
        self.looks, self.episode = looks, episode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return drawn(self.observation_space, self.np_random), {}

    def step(self, action):
        assert not self.looks or self.action_space.contains(action), (action, self.action_space)
        self.steps += 1
        observation = drawn(self.observation_space, self.np_random)
        return observation, number_of(action), self.steps == self.episode, False, {}
