"""Atari against the live references: Gymnasium's env and wrappers, and ale-py's own vector env.

Rewards, flags, lives, frame numbers and RAM are exact, and so is every pixel: the tests ask for equality, not
for a tolerance. ale-py's tests of its vector env allow differences of up to 2 per pixel.
"""

import ale_py
import gymnasium
import numpy as np
import pytest
import torch
from ale_py.vector_env import AtariVectorEnv
from cases import LONG, cases
from comparing import assert_steps_equal
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation
from reference import assert_registered_as_in_gymnasium
from torchrl.envs import GymEnv, GymWrapper, SerialEnv
from torchrl.envs.utils import check_env_specs

from torchrl_pool import list_tasks

gymnasium.register_envs(ale_py)
ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)

TASKS = list_tasks("atari")
# Lives and none, paddles and joysticks, PAL and NTSC, still and scrolling, with starting actions and without.
GAMES = [
    "ALE/AirRaid-v5",
    "ALE/Breakout-v5",
    "ALE/DoubleDunk-v5",
    "ALE/Enduro-v5",
    "ALE/MsPacman-v5",
    "ALE/Pong-v5",
    "ALE/PrivateEye-v5",
    "ALE/Qbert-v5",
    "ALE/Seaquest-v5",
    "ALE/SpaceInvaders-v5",
]
# AtariPreprocessing refuses no-ops where the game's own actions do not begin with one.
WITHOUT_NOOP = ("ALE/Backgammon-v5", "ALE/VideoCheckers-v5")
INFO = ("lives", "frame_number", "episode_frame_number")
WRAPPER_OPTIONS = {
    "noop_max",
    "frame_skip",
    "screen_size",
    "terminal_on_life_loss",
    "grayscale_obs",
    "scale_obs",
}


def gymnasium_env(task, *, stack_size=4, **options):
    """What the options of a task mean to Gymnasium."""
    wrapper = {k: v for k, v in options.items() if k in WRAPPER_OPTIONS}
    rest = {k: v for k, v in options.items() if k not in WRAPPER_OPTIONS}
    env = gymnasium.make(task, frameskip=1, disable_env_checker=True, **rest)
    return FrameStackObservation(AtariPreprocessing(env, **wrapper), stack_size)


def assert_equal(actual, expected, what):
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.dtype == expected.dtype, what
    assert actual.shape == expected.shape, what
    if not np.array_equal(actual, expected):
        off = np.abs(actual.astype(np.float64) - expected)
        pytest.fail(f"{what}: {(off > 0).sum()} of {off.size} values differ, by up to {off.max()}")


def assert_info_equal(entries, i, info, env, what):
    for key in INFO:
        assert entries[key][i].item() == info[key], f"{what}: {key}"
    assert_equal(entries["ram"][i], env.unwrapped.ale.getRAM(), f"{what}: RAM")


def play(pool, envs, steps, seed, choose=None):
    """Compares the two step by step; returns how many episodes ended."""
    root = pool.reset(seed=seed)
    for i, env in enumerate(envs):
        observation, info = env.reset(seed=seed + i)
        assert_equal(root["observation"][i], observation, "first observation")
        assert_info_equal(root, i, info, env, "first observation")
    episodes = 0
    for t in range(steps):
        root["action"] = choose() if choose else pool.rand_action()["action"]
        data, root = pool.step_and_maybe_reset(root)
        after = data["next"]
        for i, env in enumerate(envs):
            what = f"env {i} after step {t}"
            action = data["action"][i]
            action = action.numpy() if action.ndim else int(action)
            observation, reward, terminated, truncated, info = env.step(action)
            assert_equal(after["observation"][i], observation, what)
            assert after["reward"][i].item() == reward, what
            assert after["terminated"][i].item() == terminated, what
            assert after["truncated"][i].item() == truncated, what
            assert_info_equal(after, i, info, env, what)
            if terminated or truncated:
                episodes += 1
                observation, info = env.reset()
                assert_equal(root["observation"][i], observation, f"{what}: next episode")
                assert_info_equal(root, i, info, env, f"{what}: next episode")
    return episodes


def test_family_is_complete():
    assert set(TASKS) == {id for id in gymnasium.registry if id.startswith("ALE/")}
    assert len(TASKS) == 104


def test_registrations_equal_gymnasiums():
    for task in TASKS:
        assert_registered_as_in_gymnasium(task, renamed={"game": None, "frameskip": "frame_skip"})


@pytest.mark.parametrize("task", cases(default=["ALE/Pong-v5", "ALE/Zaxxon-v5"], also=TASKS))
def test_every_game_equals_gymnasium(task, make_pool, capfd):
    options = {"noop_max": 0} if task in WITHOUT_NOOP else {}
    pool = make_pool(task, 1, info_keys=(*INFO, "ram"), **options)
    play(pool, [gymnasium_env(task, **options)], 200, seed=3)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("seed", [4_000_000_000, *([11] if LONG else [])])
@pytest.mark.parametrize("task", cases(default=["ALE/Pong-v5", "ALE/SpaceInvaders-v5"], also=GAMES))
def test_equals_gymnasium_with_and_without_sticky_actions(task, seed, make_pool):
    options = [{"repeat_action_probability": 0.25}, {"repeat_action_probability": 0.0}]
    pool = make_pool(task, 2, info_keys=(*INFO, "ram"), env_options=options)
    play(pool, [gymnasium_env(task, **o) for o in options], 600 if LONG else 150, seed=seed)


@pytest.mark.parametrize("task", cases(default=["ALE/MsPacman-v5", "ALE/Pong-v5"], also=GAMES))
def test_equals_serial_env_of_gym_envs(task, make_pool):
    n = 2
    # Episodes that end at a lost life, so that there are many.
    pool = make_pool(task, n, categorical_action_encoding=False, terminal_on_life_loss=True)
    reference = SerialEnv(
        n,
        lambda: GymWrapper(
            gymnasium_env(task, terminal_on_life_loss=True), categorical_action_encoding=False
        ),
    )
    for kind in ("observation", "action", "reward", "done", "state"):
        assert getattr(pool, f"{kind}_spec") == getattr(reference, f"{kind}_spec")
    for seed in (0, 5):
        assert pool.set_seed(seed) == reference.set_seed(seed)
        assert_steps_equal(pool, reference, 100 if LONG else 50, assert_equal)
    reference.close()


# Sizes that take each of OpenCV's ways: uneven, whole factors, two by two, whole along one side only, none.
SIZES = [(84, 84), (96, 64), 50, (40, 70), (80, 105), (160, 105), (80, 210), (160, 210), (1, 1), (159, 209)]


@pytest.mark.parametrize("grayscale_obs", [True, False])
@pytest.mark.parametrize("screen_size", SIZES)
def test_picture_sizes_equal_opencvs(screen_size, grayscale_obs, make_pool):
    options = {"screen_size": screen_size, "grayscale_obs": grayscale_obs}
    pool = make_pool("ALE/SpaceInvaders-v5", 1, info_keys=(*INFO, "ram"), **options)
    play(pool, [gymnasium_env("ALE/SpaceInvaders-v5", **options)], 60 if LONG else 20, seed=2)


def sampled_options(seed):
    """Every option of the two references, drawn at random."""
    rng = np.random.default_rng(seed)
    task = GAMES[rng.integers(len(GAMES))]
    ale = gymnasium.make(task).unwrapped.ale
    return task, {
        "noop_max": int(rng.choice([0, 1, 7, 30])),
        "frame_skip": int(rng.choice([1, 2, 3, 4, 5])),
        "screen_size": SIZES[rng.integers(len(SIZES))],
        "terminal_on_life_loss": bool(rng.integers(2)),
        "grayscale_obs": bool(rng.integers(2)),
        "scale_obs": bool(rng.integers(2)),
        "stack_size": int(rng.choice([1, 2, 4, 5])),
        "repeat_action_probability": float(rng.choice([0.0, 0.1, 0.25, 1.0])),
        "full_action_space": bool(rng.integers(2)),
        "mode": int(rng.choice(ale.getAvailableModes())),
        "difficulty": int(rng.choice(ale.getAvailableDifficulties())),
        "max_num_frames_per_episode": [None, 108_000, 97, 160][rng.integers(4)],
    }


@pytest.mark.parametrize("seed", cases(range(4), also=range(4, 24)))
def test_sampled_options_equal_gymnasiums(seed, make_pool):
    task, options = sampled_options(seed)
    pool = make_pool(task, 2, info_keys=(*INFO, "ram"), **options)
    play(pool, [gymnasium_env(task, **options) for _ in range(2)], 100, seed=seed)


def test_episode_that_ends_during_the_no_ops_equals_gymnasiums(make_pool):
    options = {"max_num_frames_per_episode": 10}
    pool = make_pool("ALE/Pong-v5", 3, info_keys=(*INFO, "ram"), **options)
    envs = [gymnasium_env("ALE/Pong-v5", **options) for _ in range(3)]
    assert play(pool, envs, 40, seed=0) > 30


@pytest.mark.parametrize("task", ["ALE/Seaquest-v5", "ALE/Breakout-v5"])
@pytest.mark.parametrize("threshold", cases([0.5, 0.2]))
def test_continuous_actions_equal_gymnasiums(task, threshold, make_pool):
    options = {"continuous": True, "continuous_action_threshold": threshold, "noop_max": 0}
    pool = make_pool(task, 2, info_keys=(*INFO, "ram"), **options)
    envs = [gymnasium_env(task, **options) for _ in range(2)]
    assert_equal(pool.action_spec.space.low[0], envs[0].action_space.low, "low")
    assert_equal(pool.action_spec.space.high[0], envs[0].action_space.high, "high")
    low, high = pool.action_spec.space.low, pool.action_spec.space.high
    play(pool, envs, 300 if LONG else 120, seed=1, choose=lambda: low + (high - low) * torch.rand(2, 3))


@pytest.mark.parametrize("obs_type", ["rgb", "grayscale", "ram"])
@pytest.mark.parametrize("frame_skip", cases([1, 4]))
def test_plain_observations_equal_those_of_gymnasium_make(obs_type, frame_skip, make_pool):
    pool = make_pool("ALE/Breakout-v5", 2, info_keys=(*INFO, "ram"), obs_type=obs_type, frame_skip=frame_skip)
    envs = [
        gymnasium.make("ALE/Breakout-v5", obs_type=obs_type, frameskip=frame_skip, disable_env_checker=True)
        for _ in range(2)
    ]
    steps = (250 if LONG else 40) * 4 // frame_skip
    assert play(pool, envs, steps, seed=4) > 0 or not LONG


def test_pixels_equal_those_of_gym_env(make_pool):
    """GymEnv shows a game one frame for each action, unless it is told otherwise."""
    pool = make_pool("ALE/Pong-v5", 2, from_pixels=True, obs_type="rgb")
    options = {"from_pixels": True, "frame_skip": 4, "categorical_action_encoding": True}
    reference = SerialEnv(2, lambda: GymEnv("ALE/Pong-v5", **options))
    for env in (pool, reference):
        env.set_seed(0)
    root, expected = pool.reset(), reference.reset()
    for _ in range(40):
        assert torch.equal(root["pixels"], expected["pixels"])
        action = pool.rand_action()["action"]
        (_, root), (_, expected) = (
            env.step_and_maybe_reset(one.set("action", action))
            for env, one in ((pool, root), (reference, expected))
        )
    reference.close()


# Options of AtariVectorEnv, and what they are called here.
VECTOR_OPTIONS = [
    ({}, {}),
    ({"repeat_action_probability": 0.25, "noop_max": 0}, {"repeat_action_probability": 0.25, "noop_max": 0}),
    (
        {"episodic_life": True, "reward_clipping": False},
        {"terminal_on_life_loss": True, "reward_clip": False},
    ),
    (
        {"grayscale": False, "frameskip": 1, "stack_num": 2, "noop_max": 1},
        {"grayscale_obs": False, "frame_skip": 1, "stack_size": 2, "noop_max": 1},
    ),
    (
        {"max_num_frames_per_episode": 150, "use_fire_reset": False, "img_height": 60, "img_width": 100},
        {"max_num_frames_per_episode": 150, "fire_reset": False, "screen_size": (100, 60)},
    ),
    ({"full_action_space": True, "frameskip": 3}, {"full_action_space": True, "frame_skip": 3}),
]


@pytest.mark.parametrize("game", ["breakout", "pong", "ms_pacman", "space_invaders"])
@pytest.mark.parametrize(("theirs", "ours"), VECTOR_OPTIONS)
def test_ale_vector_equals_atari_vector_env(game, theirs, ours, make_pool):
    n = 3
    reference = AtariVectorEnv(game, n, num_threads=1, autoreset_mode=AutoresetMode.SAME_STEP, **theirs)
    defaults = {"repeat_action_probability": 0.0, "reward_clip": True, "fire_reset": True}
    pool = make_pool(
        gymnasium.spec(f"ALE/{game.title().replace('_', '')}-v5").id,
        n,
        dialect="ale_vector",
        info_keys=INFO,
        **{**defaults, **ours},
    )
    root = pool.reset(seed=3)
    observation, info = reference.reset(seed=3)
    episodes = 0
    is_short = not LONG and game in ("breakout", "pong")  # the first lives of others last longer
    for t in range(100 if is_short else 200):
        assert_equal(root["observation"], observation, f"before step {t}")
        for key in INFO:
            assert root[key][:, 0].tolist() == info[key].tolist(), f"{key} before step {t}"
        data, root = pool.step_and_maybe_reset(pool.rand_action(root))
        observation, reward, terminated, truncated, info = reference.step(data["action"].numpy())
        after = data["next"]
        assert after["reward"][:, 0].tolist() == reward.tolist(), f"reward of step {t}"
        assert after["terminated"][:, 0].tolist() == terminated.tolist(), f"terminated of step {t}"
        assert after["truncated"][:, 0].tolist() == truncated.tolist(), f"truncated of step {t}"
        for i in np.flatnonzero(terminated | truncated):
            episodes += 1
            assert_equal(after["observation"][i], info["final_obs"][i], f"last observation at step {t}")
    assert episodes > 0 or not {"max_num_frames_per_episode", "episodic_life"} & set(theirs) or game == "pong"


class FireReset(gymnasium.Wrapper):
    """Stable-Baselines3's FireResetEnv, but with the first observation of the episode that really begins."""

    def reset(self, **kwargs):
        self.env.reset(**kwargs)
        for action in (1, 2):
            observation, _, terminated, truncated, info = self.env.step(action)
            if terminated or truncated:
                observation, info = self.env.reset()
        return observation, info


@pytest.mark.parametrize("task", cases(["ALE/Breakout-v5", "ALE/SpaceInvaders-v5"]))
def test_fire_reset_equals_the_usual_wrapper(task, make_pool):
    pool = make_pool(task, 2, info_keys=(*INFO, "ram"), fire_reset=True, terminal_on_life_loss=True)
    envs = []
    for _ in range(2):
        env = gymnasium.make(task, frameskip=1, disable_env_checker=True)
        env = FireReset(AtariPreprocessing(env, terminal_on_life_loss=True))
        envs.append(FrameStackObservation(env, 4))
    assert play(pool, envs, 400 if LONG else 80, seed=6) > 2 or not LONG


def test_fire_reset_does_nothing_where_there_is_no_fire(make_pool):
    pools = [make_pool("ALE/MsPacman-v5", 1, seed=1, fire_reset=fire) for fire in (False, True)]
    first, second = (pool.reset()["observation"] for pool in pools)
    assert torch.equal(first, second)


def test_clipped_rewards_and_lost_lives_leave_the_episode_alone(make_pool):
    keys = ("lives", "life_lost", "raw_reward")
    clipped = make_pool("ALE/MsPacman-v5", 4, seed=0, reward_clip=True, info_keys=keys)
    plain = make_pool("ALE/MsPacman-v5", 4, seed=0, info_keys=keys)
    a, b = clipped.reset(), plain.reset()
    assert not a["life_lost"].any()
    losses = 0
    large = 0
    for _ in range(400):
        action = plain.rand_action()["action"]
        lives = a["lives"]
        a, a_root = clipped.step_and_maybe_reset(a.set("action", action))
        b, b_root = plain.step_and_maybe_reset(b.set("action", action.clone()))
        after = a["next"]
        assert torch.equal(after["observation"], b["next", "observation"])
        assert torch.equal(after["raw_reward"], b["next", "reward"])
        assert torch.equal(after["reward"], b["next", "reward"].clamp(-1, 1))
        assert torch.equal(after["life_lost"], after["lives"] < lives)
        assert torch.equal(after["done"] & (after["lives"] > 0), torch.zeros(4, 1, dtype=torch.bool))
        losses += int((after["life_lost"] & ~after["done"]).sum())
        large += int((after["raw_reward"] > 1).sum())
        a, b = a_root, b_root
    assert losses > 0
    assert large > 0


@pytest.mark.parametrize("task", cases(default=["ALE/Pong-v5", "ALE/Zaxxon-v5"], also=TASKS))
def test_specs_hold(task, make_pool):
    pool = make_pool(task, 2)
    check_env_specs(pool, break_when_any_done=False)


@pytest.mark.parametrize(
    "options",
    cases(
        default=[
            {"grayscale_obs": False, "screen_size": (60, 50)},
            {"obs_type": "ram"},
            {"continuous": True, "max_num_frames_per_episode": 8},
        ],
        also=[{"scale_obs": True, "stack_size": 1}],
    ),
)
def test_specs_hold_with_options(options, make_pool):
    pool = make_pool("ALE/Pong-v5", 2, info_keys=("life_lost", "ram", "raw_reward", *INFO), **options)
    check_env_specs(pool, break_when_any_done=False)


def test_many_games_in_one_pool(make_pool):
    tasks = ["ALE/Pong-v5", "ALE/Breakout-v5", "ALE/MsPacman-v5"]
    pool = make_pool(tasks, 3, full_action_space=True, info_keys=(*INFO, "ram"))
    assert pool.action_spec.space.n == 18
    play(pool, [gymnasium_env(task, full_action_space=True) for task in tasks], 100, seed=0)


@pytest.mark.parametrize(
    "task",
    cases(
        default=["ALE/Pong-v5"],
        also=[*GAMES, "ALE/Blackjack-v5", "ALE/Skiing-v5", "ALE/Pitfall2-v5", "ALE/Tetris-v5"],
    ),
)
def test_restored_envs_continue_bit_for_bit(task, make_pool):
    """In another pool, whose envs have played something else before, or nothing at all."""
    keys = (*INFO, "ram", "step_count", "episode_reward")
    pool = make_pool(task, 2, seed=1, info_keys=keys, terminal_on_life_loss=True)
    torch.manual_seed(0)
    actions = [pool.rand_action()["action"] for _ in range(150)]

    def steps(env, root, actions):
        out = []
        for action in actions:
            data, root = env.step_and_maybe_reset(root.set("action", action))
            out.append(data["next"])
        return torch.stack(out), root

    root = steps(pool, pool.reset(), actions[:50])[1]
    states, pictures = pool.get_state(), pool.render()
    expected, _ = steps(pool, root.clone(), actions[50:])
    for has_played in (True, False):
        other = make_pool(task, 2, seed=99, num_threads=1, info_keys=keys, terminal_on_life_loss=True)
        if has_played:
            steps(other, other.reset(), actions[:7])
        other.set_state(states)
        assert torch.equal(other.render(), pictures)
        assert (steps(other, root.clone(), actions[50:])[0] == expected).all()


def test_state_of_other_options_is_refused(make_pool):
    pool, other = make_pool("ALE/Pong-v5", 1), make_pool("ALE/Pong-v5", 1, screen_size=50)
    root, _ = pool.reset(), other.reset()
    expected = pool.step(root.clone().set("action", torch.tensor([0])))
    pool.reset()
    before = pool.get_state()
    with pytest.raises(ValueError, match="other options"):
        pool.set_state(other.get_state())
    assert pool.get_state() == before
    with pytest.raises(ValueError, match="too short"):
        pool.set_state(before[0][:-100])
    assert pool.get_state() == before
    assert expected["next", "observation"].any()


@pytest.mark.parametrize("task", cases(["ALE/AirRaid-v5", "ALE/Pong-v5"]))
def test_pictures_are_the_screen(task, make_pool):
    pool = make_pool(task, 1)
    env = gymnasium_env(task, render_mode="rgb_array")
    root = pool.reset(seed=5)
    env.reset(seed=5)
    for _ in range(30):
        assert_equal(pool.render(0)[0], env.render(), "picture")
        data, root = pool.step_and_maybe_reset(pool.rand_action(root))
        env.step(int(data["action"]))
    pixels = make_pool(task, 1, from_pixels=True).reset()["pixels"]
    assert pixels.shape == (1, *env.render().shape)
