"""MiniGrid and BabyAI against minigrid, byte for byte, through episodes that end in every way."""

import contextlib
import io
import itertools
import warnings

import gymnasium
import numpy as np
import pytest
import torch
from cases import LONG, cases
from minigrid_planner import Planner

from torchrl_pool import MISSION_WORDS, EnvFailure, PoolEnv, decode_text, list_tasks, task_info
from torchrl_pool.testing import assert_same_trajectories

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import minigrid  # noqa: F401
    from minigrid import wrappers

TASKS = list_tasks("minigrid")


class AsArrays(gymnasium.ObservationWrapper):
    """A mission as the pool gives it, and BabyAI's prints kept away."""

    def __init__(self, env, chars=None):
        super().__init__(env)
        self._chars = chars

    def reset(self, **kwargs):
        with contextlib.redirect_stdout(io.StringIO()):
            return super().reset(**kwargs)

    def observation(self, observation):
        if not isinstance(observation, dict):
            return observation
        arrays = {"image": observation["image"], "direction": np.int64(observation["direction"])}
        if self._chars is not None:
            mission = observation["mission"]
            if isinstance(mission, str):
                mission = np.frombuffer(mission.encode().ljust(self._chars, b"\0"), np.uint8)
            arrays["mission"] = np.asarray(mission)
        return arrays


class Twins:
    """Envs of minigrid's, and actions for them that often bring a reward."""

    def __init__(self, task, wrap=lambda env: env, chars=None, bot=True, **kwargs):
        self._make = lambda: AsArrays(wrap(gymnasium.make(task, disable_env_checker=True, **kwargs)), chars)
        self._bot = bot
        self._envs, self._planners, self._random = [], [], np.random.default_rng(7)

    def make(self):
        env = self._make()
        self._envs.append(env)
        self._planners.append(Planner(env))
        return env

    def policy(self, pool, root):
        actions = pool.rand_action()["action"]
        for i, (env, planner) in enumerate(zip(self._envs, self._planners, strict=True)):
            if not self._bot or i == 2:  # the third acts at random
                continue
            if env.unwrapped.step_count == 0:
                planner.begin()
            planned = planner.next_action()
            if (
                planned is not None
                and planned < pool.full_action_spec["action"].n
                and self._random.random() > 0.05 * i
            ):
                actions[i] = planned
            planner.done(planned, int(actions[i]))
        return actions


def observation_spec(task, **options):
    env = PoolEnv(task, 1, device="cpu", **options)
    env.close()
    return env.observation_spec


def compare(task, steps=None, seeds=(0,), wrap=lambda env: env, kwargs=None, **options):
    slow = task.startswith("BabyAI") and not any(word in task for word in ("Local", "Dist", "OneRoom"))
    chars = None if options.get("mission") == "none" else observation_spec(task)["mission"].shape[-1]
    twins = Twins(task, wrap, chars, **(kwargs or {}))
    steps = steps or (60 if slow else 150)
    return assert_same_trajectories(
        task, twins.make, steps=steps * (5 if LONG else 1), seeds=seeds, policy=twins.policy, **options
    )


def test_family_is_complete():
    reference = {
        id
        for id, spec in gymnasium.registry.items()
        if id.startswith(("MiniGrid-", "BabyAI-")) and "WFC" not in id
    }
    assert set(TASKS) == reference
    assert len(TASKS) == 172


def test_registrations_equal_minigrids():
    for task in TASKS:
        assert task_info(task).max_episode_steps is gymnasium.spec(task).max_episode_steps is None, task


@pytest.mark.parametrize(
    "task",
    cases(
        default=[
            "BabyAI-FindObjS7-v0",
            "BabyAI-KeyInBox-v0",
            "BabyAI-PutNextLocalS6N4-v0",
            "MiniGrid-Dynamic-Obstacles-Random-6x6-v0",
            "MiniGrid-RedBlueDoors-8x8-v0",
        ],
        also=TASKS,
    ),
)
def test_equals_minigrid(task):
    compare(task)


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
    compare(task, 20, wrap=wrapper, kwargs=kwargs, observation=observation, **options)


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
    compare(task, 10, wrap=Words, mission="words")


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
    compare(task, 10, wrap=Number, mission="id")


def test_missions_of_babyai_are_not_counted():
    with pytest.raises(ValueError, match="not counted: take 'words'"):
        PoolEnv("BabyAI-GoToLocal-v0", 1, mission="id")
    with pytest.raises(ValueError, match="expected an odd number"):
        PoolEnv("MiniGrid-Empty-5x5-v0", 1, view_size=4)


def test_missions_can_be_left_out():
    compare("MiniGrid-Fetch-5x5-N2-v0", 20, mission="none")
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
