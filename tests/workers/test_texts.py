"""Strings that Python envs observe, as characters in tensors and as strings in Gymnasium's vector envs."""

import gymnasium
import numpy as np
import pytest
import torch
from cases import cases
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

from torchrl_pool import EnvFailure, PoolEnv, decode_text
from torchrl_pool.gymnasium import PoolVectorEnv


class Saying(gymnasium.Env):
    """Says how many steps the episode has taken, in words of a Text or of a space of its own."""

    action_space = spaces.Discrete(2)

    def __init__(self, space=None, words=("naught", "one", "zwölf", "")):
        self._words = words
        self.observation_space = spaces.Dict(
            {"text": space or spaces.Text(9, charset="abcdefghinoutwzlöv"), "number": spaces.Discrete(9)}
        )

    def _observation(self):
        return {"text": self._words[self._steps], "number": self._steps}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._steps = 0
        return self._observation(), {}

    def step(self, action):
        self._steps += 1
        return self._observation(), 0.0, self._steps == len(self._words) - 1, False, {}


class Missions(spaces.Space[str]):
    """As MiniGrid's: a space of strings that is no Text and doesn't say how long they are."""

    def __init__(self):
        super().__init__(dtype=str)

    def sample(self, mask=None, probability=None):
        return "one"

    def contains(self, x):
        return isinstance(x, str)


@pytest.mark.parametrize(("space", "length"), cases([(None, 18), (Missions(), 512)]))
def test_characters_decode_to_what_the_env_said(space, length):
    env = PoolEnv(lambda: Saying(space), 2, num_workers=1)
    try:
        assert env.observation_spec["text"].shape == (2, length)
        assert env.observation_spec["text"].dtype is torch.uint8
        data = env.rollout(3, break_when_any_done=False)
        assert decode_text(data["text"]) == [["naught", "one", "zwölf"]] * 2
        assert decode_text(data["next", "text"]) == [["one", "zwölf", ""]] * 2
    finally:
        env.close()


def test_a_text_that_is_too_long_names_its_space():
    env = PoolEnv(lambda: Saying(spaces.Text(4, charset="abcdefghijklmnopqrstuvwxyz")), 1, num_workers=1)
    try:
        with pytest.raises((EnvFailure, ValueError), match="takes 6 bytes, where its space has 4: 'naught'"):
            env.reset()
    finally:
        env.close()


@pytest.mark.parametrize("space", cases([None, Missions()]))
def test_vector_envs_give_strings_as_sync_vector_env(space):
    ours = PoolVectorEnv(lambda: Saying(space), 3)
    theirs = SyncVectorEnv([lambda: Saying(space)] * 3)
    try:
        assert ours.reset(seed=0)[0]["text"] == theirs.reset(seed=0)[0]["text"] == ("naught",) * 3
        for _ in range(5):
            mine, other = (envs.step(np.zeros(3, np.int64))[0] for envs in (ours, theirs))
            assert mine["text"] == other["text"]
            assert np.array_equal(mine["number"], other["number"])
    finally:
        ours.close()
        theirs.close()


def test_actions_cannot_be_texts():
    class Told(Saying):
        action_space = spaces.Text(4)

    with pytest.raises((TypeError, EnvFailure), match="tensors cannot hold values of Text"):
        PoolEnv(Told, 1, num_workers=1)


def test_the_missions_of_minigrids_own_envs():
    env = PoolEnv("gymnasium:minigrid:MiniGrid-Fetch-5x5-N2-v0", 2, seed=0, num_workers=1)
    native = PoolEnv("MiniGrid-Fetch-5x5-N2-v0", 2, seed=0)
    try:
        mine, other = native.reset(), env.reset()
        assert decode_text(mine["mission"]) == decode_text(other["mission"])
        assert torch.equal(mine["image"], other["image"])
    finally:
        env.close()
        native.close()


def words(*numbers):
    return torch.tensor([*numbers, *[0] * (50 - len(numbers))])


@pytest.mark.parametrize(
    ("given", "error", "match"),
    cases(
        default=[
            (torch.zeros(3), TypeError, "uint8, or words of missions as int64 .*, got float32"),
            (np.uint8(3), ValueError, "a single number"),
            (
                torch.zeros(3, dtype=torch.int64),
                ValueError,
                "expected the 50 numbers of mission='words'.*got 3 ",
            ),
            (words(-1), ValueError, "from 1 to 60"),
        ],
        also=[
            (torch.eye(50, dtype=torch.int64), ValueError, "zeros behind"),
            (words(61), ValueError, "from 1 to 60"),
        ],
    ),
)
def test_decode_text_refuses_what_holds_no_text(given, error, match):
    with pytest.raises(error, match=match):
        decode_text(given)


def test_texts_of_no_env_and_no_words():
    assert decode_text(words()) == ""
    assert decode_text(words(25, 38, 31, 1, 13)) == "go to the red ball"
    assert decode_text(np.zeros((0, 4), np.uint8)) == []
