"""The PPO example: what it learns, what it leaves behind, and how it goes on."""

import csv
import json
import signal
import time

import numpy as np
import pytest
import torch

pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")

from tensordict.nn import TensorDictModule
from torchrl.envs import RewardSum, TransformedEnv

from torchrl_pool import PoolEnv, task_info
from torchrl_pool.examples.envs import make_env, normalizer_of
from torchrl_pool.examples.ppo import PROGRAM, Config, PPOTraining
from torchrl_pool.examples.results import StopRequest, evaluate, load_checkpoint, save_checkpoint
from torchrl_pool.examples.video import padded_to_even, record_video

SMALL = ["--num-envs", "4", "--frames-per-batch", "128", "--minibatch-size", "32", "--epochs", "2", "--quiet"]


def run(folder, *arguments, small=True):
    assert PROGRAM.main([*(SMALL if small else ["--quiet"]), "--output", str(folder), *arguments]) == 0


def folder_of(folder, seed=0, task="CartPole-v1"):
    return folder / f"ppo-{task.replace(':', '-')}-{seed}"


def weights_of(folder, seed=0, task="CartPole-v1"):
    state = torch.load(folder_of(folder, seed, task) / "checkpoint.pt", weights_only=True)
    return state["update"]["parameters"]


def curve_of(folder, seed=0, task="CartPole-v1"):
    with (folder_of(folder, seed, task) / "curve.csv").open() as file:
        return list(csv.DictReader(file))


def test_it_learns_to_balance_a_pole(tmp_path):
    run(tmp_path, "--total-frames", "40000", "--evaluate", "20", small=False)
    returns = [float(row["return"]) for row in curve_of(tmp_path)]
    assert returns[0] < 40
    assert json.loads((tmp_path / "ppo-CartPole-v1-0" / "evaluation.json").read_text())["mean"] > 200
    assert (tmp_path / "ppo-CartPole-v1-0" / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_equal_seeds_give_equal_weights_and_others_do_not(tmp_path):
    for folder, seed in (("one", "1"), ("two", "1"), ("three", "3")):
        run(tmp_path / folder, "--total-frames", "512", "--seed", seed, "--evaluate", "0")
    one, two = weights_of(tmp_path / "one", 1), weights_of(tmp_path / "two", 1)
    assert torch.equal(one, two)
    assert not torch.equal(one, weights_of(tmp_path / "three", 3))


@pytest.mark.parametrize(
    ("task", "preset", "more"),
    [
        ("CartPole-v1", "classic", []),
        ("CartPole-v1", "cleanrl-classic", ["--normalize-observations", "--normalize-rewards"]),
        ("InvertedPendulum-v5", "sb3-mujoco", []),
        ("InvertedPendulum-v5", "torchrl-mujoco", []),
        ("InvertedPendulum-v5", "sb3-mujoco", ["--kl-target", "0.01"]),
        ("gymnasium:CartPole-v1", "classic", []),
        ("MiniGrid-Empty-5x5-v0", "rl-starter-grid", []),
    ],
)
def test_a_resumed_training_ends_with_the_same_weights(tmp_path, task, preset, more):
    arguments = ["--task", task, "--preset", preset, "--total-frames", "1024", "--evaluate", "0", *more]
    run(tmp_path / "whole", *arguments)
    config = PROGRAM.config_of(PROGRAM.parser().parse_args([*SMALL, *arguments]))
    folder = folder_of(tmp_path / "parts", 0, task)
    folder.mkdir(parents=True)
    torch.set_num_threads(1)
    first = PPOTraining(config, folder)
    for _ in range(3):
        first.iterate()
    save_checkpoint(folder / "checkpoint.pt", first.state_dict())
    first.close()
    torch.rand(5)  # the state of the generator comes from the checkpoint
    assert PROGRAM.main(["--quiet", "--evaluate", "0", "--resume", str(folder / "checkpoint.pt")]) == 0
    assert torch.equal(weights_of(tmp_path / "whole", 0, task), weights_of(tmp_path / "parts", 0, task))
    clock = {"seconds", "steps_per_second"}
    whole, parts = curve_of(tmp_path / "whole", 0, task), curve_of(tmp_path / "parts", 0, task)
    assert len(whole) == 8
    for one, other in zip(whole, parts, strict=True):
        assert {k: v for k, v in one.items() if k not in clock} == {
            k: v for k, v in other.items() if k not in clock
        }


@pytest.mark.parametrize(
    ("began", "given", "goes_on"),
    [
        ((True, 1), [], ("yes", 1)),
        ((False, 1), [], ("no", 1)),
        ((True, 1), ["--compile", "no", "--torch-threads", "2"], ("no", 2)),
        ((False, 10_000), [], ("no", 0)),  # on a machine with more processors than this one has
    ],
)
def test_a_resumed_training_computes_as_it_began(tmp_path, monkeypatch, began, given, goes_on):
    compile, threads = began
    training = PPOTraining(Config(num_envs=2), tmp_path, compile=compile)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    save_checkpoint(tmp_path / "checkpoint.pt", training.state_dict())
    training.close()
    options = PROGRAM.parser().parse_args(["--resume", str(tmp_path / "checkpoint.pt"), *given])
    PROGRAM.configs_of(options)
    assert (options.compile, options.torch_threads) == goes_on


def test_a_training_that_is_resumed_elsewhere_leaves_the_old_one_as_it_was(tmp_path):
    run(tmp_path / "old", "--total-frames", "512", "--evaluate", "0")
    checkpoint = folder_of(tmp_path / "old", 0) / "checkpoint.pt"
    before = {file.name: file.read_bytes() for file in checkpoint.parent.iterdir()}
    more = ["--total-frames", "1024", "--evaluate", "0", "--output", str(tmp_path / "new")]
    assert PROGRAM.main(["--quiet", "--resume", str(checkpoint), *more]) == 0
    assert {file.name: file.read_bytes() for file in checkpoint.parent.iterdir()} == before
    assert len(curve_of(tmp_path / "new", 0)) == 2 * len(curve_of(tmp_path / "old", 0))


def test_an_episode_that_does_not_end_counts_as_far_as_it_came():
    env = TransformedEnv(PoolEnv("CliffWalking-v1", 3), RewardSum())
    up = TensorDictModule(
        lambda _: torch.eye(4, dtype=torch.bool)[0].expand(3, 4), ["observation"], ["action"]
    )
    assert evaluate(env, up, max_steps=50) == ([-50.0] * 3, 3)
    env.close()


def test_ctrl_c_saves_what_a_resume_goes_on_from(tmp_path, capsys, monkeypatch):
    iterate = PPOTraining.iterate

    def iterate_and_press(training):
        if training.iteration == 2:
            signal.raise_signal(signal.SIGINT)
        iterate(training)

    with monkeypatch.context() as patch:
        patch.setattr(PPOTraining, "iterate", iterate_and_press)
        run(tmp_path, "--total-frames", "1024")
    assert "Stopped; go on with --resume" in capsys.readouterr().out
    checkpoint = tmp_path / "ppo-CartPole-v1-0" / "checkpoint.pt"
    assert load_checkpoint(checkpoint)["iteration"] == 3  # the one that went on is whole
    assert PROGRAM.main(["--quiet", "--resume", str(checkpoint), "--evaluate", "0"]) == 0
    assert [int(row["frames"]) for row in curve_of(tmp_path)] == [128 * (i + 1) for i in range(8)]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_ctrl_c_stops_at_once():
    with StopRequest() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.made
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_it_stops_at_a_return(tmp_path):
    run(tmp_path, "--total-frames", "51200", "--until-return", "10", "--evaluate", "0")
    returns = [float(row["return"]) for row in curve_of(tmp_path)]
    assert 1 <= len(returns) < 400
    assert returns[-1] >= 10


def test_timings_leave_out_the_first_iteration(tmp_path):
    path = tmp_path / "timings.json"
    start = time.perf_counter()
    run(tmp_path, "--total-frames", "640", "--timings", str(path), "--evaluate", "0")
    wall = time.perf_counter() - start
    timings = json.loads(path.read_text())
    assert set(timings) == {"iterations", "collecting", "env_step", "inference", "training"}
    assert timings["iterations"] == 4
    assert 0 < timings["env_step"] < timings["collecting"]
    assert timings["inference"] == pytest.approx(timings["collecting"] - timings["env_step"])
    assert 0 < timings["training"] < wall


def test_several_seeds_are_drawn_with_their_mean(tmp_path, capsys):
    run(tmp_path, "--total-frames", "512", "--seeds", "1", "2", "--evaluate", "2")
    out = capsys.readouterr().out
    assert "Return over 2 seeds, 1, 2: interquartile mean" in out
    assert "Evaluation over 2 seeds: interquartile mean" in out
    together = json.loads((tmp_path / "ppo-CartPole-v1.json").read_text())
    assert list(together["returns"]) == ["1", "2"]
    assert together["interval"][0] <= together["interquartile_mean"] <= together["interval"][1]
    assert "Where the time of 3 iterations went" in out
    assert (tmp_path / "ppo-CartPole-v1.png").read_bytes().startswith(b"\x89PNG")
    assert len(curve_of(tmp_path, 1)) == len(curve_of(tmp_path, 2)) == 4


@pytest.mark.parametrize("task", ["CartPole-v1", "gymnasium:CartPole-v1"])
def test_a_video_shows_an_episode(task, tmp_path):
    imageio = pytest.importorskip("imageio.v2")
    training = PPOTraining(Config(task, num_envs=2, frames_per_batch=16, minibatch_size=8), tmp_path)
    env = training.evaluation_env(1, render=True)
    video = record_video(env, training.actor, max_frames=6)
    assert not video.is_whole
    path = video.save(tmp_path / "video")
    assert path.suffix in (".gif", ".mp4")
    frames = imageio.mimread(path)
    assert 1 < len(frames) <= 6  # a gif has equal pictures once
    assert frames[0].shape[:2] == (400, 600)
    env.close()
    training.close()


@pytest.mark.parametrize("task", ["CartPole-v1", "gymnasium:CartPole-v1", "Blackjack-v1"])
@pytest.mark.parametrize("num_envs", [1, 3])
def test_a_video_shows_how_an_episode_ends(task, num_envs, tmp_path):
    training = PPOTraining(Config(task, num_envs=2, frames_per_batch=16, minibatch_size=8), tmp_path)
    env = training.evaluation_env(num_envs, render=True)
    steps = []
    video = record_video(env, lambda root: steps.append(training.actor(root)) or steps[-1])
    assert video.is_whole
    assert len(video.pictures) == len(steps) + 1
    assert (video.pictures[-1] != video.pictures[-2]).any()
    env.close()
    training.close()


@pytest.mark.parametrize(
    ("task", "fps"),
    [("CartPole-v1", 50), ("gymnasium:CartPole-v1", 50), ("Acrobot-v1", 15), ("Blackjack-v1", 4)],
)
def test_a_video_is_as_fast_as_its_env(task, fps, tmp_path, monkeypatch):
    imageio = pytest.importorskip("imageio.v2")
    training = PPOTraining(Config(task, num_envs=2, frames_per_batch=16, minibatch_size=8), tmp_path)
    env = training.evaluation_env(1, render=True)
    saved, mimsave = [], imageio.mimsave
    monkeypatch.setattr(
        imageio, "mimsave", lambda *args, **options: saved.append(options) or mimsave(*args, **options)
    )
    record_video(env, training.actor, max_frames=2).save(tmp_path / "video")
    assert saved[0].get("fps", 1000 / saved[0].get("duration", 1)) == pytest.approx(fps)
    env.close()
    training.close()


@pytest.mark.parametrize(("task", "shape"), [("CartPole-v1", (400, 600)), ("ALE/Pong-v5", (210, 160))])
def test_an_mp4_has_the_size_of_its_pictures(task, shape, tmp_path, caplog):
    pytest.importorskip("imageio_ffmpeg")
    imageio = pytest.importorskip("imageio.v2")
    training = PPOTraining(Config(task, num_envs=2, frames_per_batch=16, minibatch_size=8), tmp_path)
    env = training.evaluation_env(1, render=True)
    path = record_video(env, training.actor, max_frames=3).save(tmp_path / "video")
    assert path.suffix == ".mp4"
    assert imageio.mimread(path)[0].shape[:2] == shape
    assert not caplog.records
    env.close()
    training.close()


def test_pictures_of_odd_sizes_are_padded():
    picture = np.arange(5 * 7 * 3, dtype=np.uint8).reshape(5, 7, 3)
    padded = padded_to_even(picture)
    assert padded.shape == (6, 8, 3)
    assert (padded[:5, :7] == picture).all()
    assert (padded[5, :7] == picture[4]).all()
    assert padded_to_even(padded).shape == padded.shape


@pytest.mark.parametrize("preset", PROGRAM.presets)
def test_presets_make_trainings(preset, tmp_path):
    tasks = {"mujoco": "HalfCheetah-v5", "atari": "ALE/Breakout-v5", "pong": "ALE/Pong-v5"}
    tasks |= {"racing": "CarRacing-v3", "grid": "BabyAI-GoToLocal-v0"}
    task = tasks.get(preset.split("-")[-1], "CartPole-v1")
    arguments = ["--preset", preset, "--task", task, "--num-envs", "2", "--frames-per-batch", "16"]
    arguments += ["--minibatch-size", "8", "--epochs", "1", "--total-frames", "16"]
    training = PPOTraining(PROGRAM.config_of(PROGRAM.parser().parse_args(arguments)), tmp_path)
    assert training.actors.collector.writes_once
    training.iterate()
    assert training.is_over
    training.close()


@pytest.mark.parametrize(
    ("target", "rates"), [(1e-9, [3e-3, 2e-3, 3e-3 / 2.25]), (10.0, [3e-3, 4.5e-3, 6.75e-3, 1e-2, 1e-2])]
)
def test_the_learning_rate_follows_the_kl_divergence(target, rates, tmp_path):
    size = {"num_envs": 4, "frames_per_batch": 128, "total_frames": 128 * len(rates)}
    training = PPOTraining(Config(**size, learning_rate=3e-3, kl_target=target), tmp_path)
    while not training.is_over:
        training.iterate()
    assert [row["learning_rate"] for row in training.curve.rows] == pytest.approx(rates)
    training.close()


def test_the_clip_range_of_values_falls_with_that_of_probabilities(tmp_path):
    size = {"num_envs": 2, "frames_per_batch": 16, "minibatch_size": 16, "epochs": 1, "total_frames": 32}
    training = PPOTraining(Config(**size, clip_value=True, anneal_clip_epsilon=True), tmp_path)
    for expected in (0.2, 0.1):
        training.iterate()
        loss = training.loss
        assert (loss.clip_epsilon.item(), loss.clip_value.item()) == pytest.approx((expected, expected))
    training.close()


@pytest.mark.parametrize("task", ["FrozenLake-v1", "Blackjack-v1", "Taxi-v4", "Pendulum-v1", "Humanoid-v5"])
def test_other_spaces(task, tmp_path):
    training = PPOTraining(Config(task, num_envs=2, frames_per_batch=16, total_frames=16, epochs=1), tmp_path)
    training.iterate()
    training.close()


def test_elements_that_begin_alike_are_normalized():
    """In float32 the variance of 32 equal numbers can be below zero."""
    env = make_env(Config(task="BipedalWalker-v3", normalize_observations=True), 32, seed=0)
    observation = env.reset()["observation"]
    assert observation.dtype is torch.float32
    assert observation.isfinite().all()


def test_a_frozen_normalizer_learns_nothing_in_evaluation(tmp_path):
    config = Config("InvertedPendulum-v5", frames_per_batch=64, num_envs=4, normalize_observations=True)
    training = PPOTraining(config, tmp_path)
    training.iterate()
    normalizer = normalizer_of(training.env)
    before = normalizer.loc["observation"].clone()
    env = training.evaluation_env(3)
    returns, unended = evaluate(env, training.actor)
    assert len(returns) == 3
    assert unended == 0
    assert torch.equal(normalizer.loc["observation"], before)
    assert torch.equal(normalizer_of(env).loc["observation"], before)
    env.close()
    training.close()


def test_the_default_preset_is_the_tasks():
    def of(*arguments):
        return PROGRAM.config_of(PROGRAM.parser().parse_args([*arguments]))

    assert of().task == "CartPole-v1"
    assert of("--task", "Ant-v5") == of("--task", "Ant-v5", "--preset", "envpool-mujoco")
    assert of("--task", "Ant-v5").num_envs == 64
    assert of("--task", "ALE/Pong-v5").sign_rewards
    assert task_info(of("--preset", "envpool-pong").task).family == "atari"
    assert of("--preset", "sb3-mujoco", "--gamma", "0.5", "--no-normalize-rewards").gamma == 0.5


def test_help_names_every_setting_and_preset(capsys):
    with pytest.raises(SystemExit) as exit_info:
        PROGRAM.main(["--help"])
    assert exit_info.value.code == 0
    shown = capsys.readouterr().out
    for name in [*Config.__dataclass_fields__, "preset", "seeds", "resume", "timings", "video"]:
        assert f"--{name.replace('_', '-')}" in shown
    assert all(f"  {name}" in shown for name in PROGRAM.presets)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--total-frames", "0"], "--total-frames: expected at least 1, got 0"),
        (["--seed", "-1"], "--seed: expected at least 0 and less than 4611686018427387904, got -1"),
        (["--task", "CartPole-v9"], "CartPole-v1"),
        (["--task", "gymnasium:CartPole-v9"], "CartPole"),
        (["--policy", "tanh-normal", "--entropy-coef", "0.1"], "--entropy-coef"),
        (["--kl-target", "0.01", "--anneal-learning-rate"], "--kl-target: expected 0"),
        (["--seeds", "1", "2", "--resume", "x.pt"], "--seeds"),
        (["--resume", "no/such/file.pt"], "no/such/file.pt"),
    ],
)
def test_wrong_options(arguments, message, capsys):
    with pytest.raises(SystemExit) as exit_info:
        PROGRAM.main(arguments)
    assert exit_info.value.code == 2
    assert message in capsys.readouterr().err


def test_what_is_no_checkpoint(tmp_path, capsys):
    hello = tmp_path / "hello.pt"
    hello.write_bytes(b"hello\n")
    for path, message in (
        (hello, "which torch.load cannot read"),
        (tmp_path, f"there is no {tmp_path / 'checkpoint.pt'}"),
    ):
        with pytest.raises(SystemExit) as exit_info:
            PROGRAM.main(["--resume", str(path)])
        assert exit_info.value.code == 2
        assert message in capsys.readouterr().err
