"""MiniGrid and BabyAI against minigrid, byte for byte, through episodes that end in every way."""

import itertools
import warnings

import gymnasium
import numpy as np
import pytest
import torch
from cases import LONG, cases
from references.minigrid import AsArrays, MiniGrid, Twins, observation_spec

from torchrl_pool import MISSION_WORDS, EnvFailure, PoolEnv, decode_text, list_tasks

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import minigrid  # noqa: F401
    from minigrid import wrappers

TASKS = list_tasks("minigrid")
MINIGRID = MiniGrid()


FOR_OPTIONS = [
    "BabyAI-PutNextS5N2Carrying-v0",
    "BabyAI-UnlockLocal-v0",
    "MiniGrid-DistShift1-v0",
    "MiniGrid-DoorKey-5x5-v0",
    "MiniGrid-Fetch-5x5-N2-v0",
    "MiniGrid-ObstructedMaze-1Dlhb-v0",
    "MiniGrid-RedBlueDoors-6x6-v0",
]


@pytest.mark.parametrize("task", TASKS if LONG else FOR_OPTIONS)
@pytest.mark.parametrize(
    ("observation", "wrapper", "kwargs", "options"),
    cases(
        default=[
            ("full", wrappers.FullyObsWrapper, {}, {}),
            ("one-hot", wrappers.OneHotPartialObsWrapper, {}, {}),
            ("rgb", wrappers.RGBImgObsWrapper, {}, {}),
            ("rgb-partial", wrappers.RGBImgPartialObsWrapper, {}, {}),
            ("partial", lambda env: wrappers.ViewSizeWrapper(env, 5), {}, {"view_size": 5}),
            ("partial", lambda env: env, {"max_steps": 7}, {"max_steps": 7}),
            ("flat", wrappers.FlatObsWrapper, {}, {}),
        ],
        also=[
            ("rgb-partial", lambda env: wrappers.RGBImgPartialObsWrapper(env, 13), {}, {"tile_size": 13}),
            ("rgb", wrappers.RGBImgObsWrapper, {"agent_view_size": 3}, {"view_size": 3}),
            ("partial", lambda env: env, {"agent_view_size": 9}, {"view_size": 9}),
        ],
    ),
)
def test_observations_equal_those_of_wrappers(task, observation, wrapper, kwargs, options):
    if observation == "flat" and not fits_flat(task):
        with pytest.raises(ValueError, match="'flat' holds missions of 96 characters"):
            PoolEnv(task, 1, observation="flat")
        return
    if options == {"view_size": 5} and "Carrying" in task:
        return  # the wrapper shows what is carried one step early; agent_view_size, and we, do not
    MINIGRID.compare(task, 20, wrap=wrapper, twin=kwargs, observation=observation, **options)


def fits_flat(task):
    return observation_spec(task)["mission"].shape[-1] <= 96


class Words(gymnasium.ObservationWrapper):
    """DictObservationSpaceWrapper, which does not know all words of BabyAI's."""

    def __init__(self, env):
        known = wrappers.DictObservationSpaceWrapper.get_minigrid_words()
        more = ["next", "after", "in", "front", "behind", "on", "your", "left", "right"]
        words = {**known, **{word: len(known) + i for i, word in enumerate(more)}}
        super().__init__(wrappers.DictObservationSpaceWrapper(env, word_dict=words))

    def observation(self, observation):
        return {**observation, "mission": np.array(observation["mission"], np.int64)}


@pytest.mark.parametrize(
    "task",
    cases(
        default=[
            "BabyAI-Pickup-v0",
            "MiniGrid-BlockedUnlockPickup-v0",
            "MiniGrid-LavaGapS7-v0",
            "MiniGrid-MemoryS9-v0",
            "MiniGrid-MultiRoom-N6-v0",
            "MiniGrid-PutNear-8x8-N3-v0",
        ],
        also=["BabyAI-BossLevel-v0"],
    ),
)
def test_words_are_numbered_as_by_minigrid(task):
    """Of all tasks they are decoded to the mission, below."""
    MINIGRID.compare(task, 10, wrap=Words, mission="words")


class Number(gymnasium.ObservationWrapper):
    """The mission's number among all that its space can tell."""

    def observation(self, observation):
        space = self.env.unwrapped.observation_space["mission"]
        gaps = itertools.product(*(space.ordered_placeholders or []))
        number = [space.mission_func(*filled) for filled in gaps].index(observation["mission"])
        return {**observation, "mission": np.int64(number)}


@pytest.mark.parametrize(
    "task",
    cases(
        default=["MiniGrid-GoToObject-8x8-N2-v0", "MiniGrid-SimpleCrossingS9N3-v0", "MiniGrid-Unlock-v0"],
        also=[task for task in TASKS if task.startswith("MiniGrid")],
    ),
)
def test_missions_are_numbered_as_their_space_tells_them(task):
    MINIGRID.compare(task, 10, wrap=Number, mission="id")


def test_missions_of_babyai_are_not_counted():
    with pytest.raises(ValueError, match="not counted: take 'words'"):
        PoolEnv("BabyAI-GoToLocal-v0", 1, mission="id")
    with pytest.raises(ValueError, match="expected an odd number"):
        PoolEnv("MiniGrid-Empty-5x5-v0", 1, view_size=4)


def test_missions_can_be_left_out():
    MINIGRID.compare("MiniGrid-Fetch-5x5-N2-v0", 20, mission="none")
    assert set(observation_spec("MiniGrid-Fetch-5x5-N2-v0", mission="none").keys()) == {"image", "direction"}


@pytest.mark.parametrize(
    "task", cases(default=["MiniGrid-Fetch-5x5-N2-v0", "MiniGrid-ObstructedMaze-1Dlhb-v0"], also=FOR_OPTIONS)
)
def test_pictures_equal_minigrids(task):
    pool = PoolEnv(task, 1, device="cpu", categorical_action_encoding=True)
    twins = Twins(task, chars=0, render_mode="rgb_array")
    twin = twins.make()
    root = pool.reset(seed=3)
    twin.reset(seed=3)
    for _ in range(6):
        assert np.array_equal(pool.render()[0].numpy(), twin.render())
        root["action"] = twins.policy(pool, root)
        twin.step(int(root["action"]))
        root = pool.step(root)["next"]
    pool.close()


@pytest.mark.parametrize("form", cases(["chars", "words"]))
def test_decoded_missions_equal_minigrids(form):
    pool = PoolEnv("BabyAI-BossLevel-v0", 12, mission=form)
    twin = AsArrays(gymnasium.make("BabyAI-BossLevel-v0"), 1000)
    missions = decode_text(pool.reset(seed=11)["mission"])
    pool.close()
    for i, mission in enumerate(missions):
        assert decode_text(twin.reset(seed=11 + i)[0]["mission"]) == mission


def test_words_of_all_tasks_are_decoded_to_their_texts():
    known = wrappers.DictObservationSpaceWrapper.get_minigrid_words()
    assert list(MISSION_WORDS)[1 : len(known) + 1] == sorted(known, key=known.get)
    for task in TASKS:
        texts = []
        for form in ("chars", "words"):
            pool = PoolEnv(task, 4, mission=form, num_threads=1)
            texts.append(decode_text(pool.reset(seed=3)["mission"]))
            pool.close()
        assert texts[0] == texts[1], task


def go_on_through_doors(pool, steps):
    """Into those that it opens, though the episode is over then."""
    turn, forward, toggle = 0, 2, 5
    for _ in range(steps):
        for action in (turn, toggle, forward, forward, forward)[: int(torch.randint(1, 6, (1,)))]:
            pool.step(pool.full_done_spec.zero().set("action", torch.tensor([action])))


def test_an_agent_in_a_door_at_the_edge_asks_for_a_reset():
    """As minigrid, whose assertion fails where the agent looks out of the grid."""
    pool = PoolEnv("MiniGrid-GoToDoor-5x5-v0", 1, categorical_action_encoding=True)
    pool.reset(seed=0)
    with pytest.raises(EnvFailure, match="out of the grid"):
        go_on_through_doors(pool, 300)
    pool.reset()
    pool.close()
