"""Each training program: what a run leaves, that it goes on bit for bit, that it learns."""

import ast
import json
import signal
from contextlib import closing
from pathlib import Path

import pytest
import torch
from cases import cases
from programs import PROGRAMS, assert_same, config_of, curve_in, finish, small, through_a_file

from torchrl_pool import examples
from torchrl_pool.examples import load_policy
from torchrl_pool.examples.envs import normalizer_of
from torchrl_pool.examples.results import evaluate, load_checkpoint, stop_request
from torchrl_pool.examples.run import Run

each_program = pytest.mark.parametrize("name", cases(["ppo", "dqn", "self_play"], also=PROGRAMS))


@each_program
def test_a_run_leaves_its_results_and_a_policy_that_plays_as_it_was_evaluated(name, tmp_path, capsys):
    program, options = small(name, "--evaluate", "3", "--quiet", "--output", str(tmp_path))
    assert program.main(options) == 0
    (folder,) = tmp_path.iterdir()
    assert {"curve.csv", "curve.png", "config.json", "checkpoint.pt", "evaluation.json"} <= {
        file.name for file in folder.iterdir()
    }
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")
    rows = curve_in(folder)
    assert len(rows) > 2
    assert [float(row["frames"]) for row in rows] == [
        (i + 1) * float(rows[0]["frames"]) for i in range(len(rows))
    ]
    assert all(0 < float(row["collecting_seconds"]) < float(row["seconds"]) for row in rows)
    assert "of the time in collecting" in capsys.readouterr().out
    policy, env = load_policy(folder, num_envs=3)
    with closing(env):
        assert env.batch_size == (3,)
        returns, _ = evaluate(env, policy)
    assert returns == json.loads((folder / "evaluation.json").read_text())["returns"]
    assert not any(one.requires_grad for one in policy.parameters())


RESUMED = {
    "ppo": ("ppo",),
    "ppo, normalized": ("ppo", "--task InvertedPendulum-v5 --preset sb3-mujoco --kl-target 0.01"),
    "ppo, annealed": ("ppo", "--preset", "cleanrl-classic"),
    "ppo, gymnasium": ("ppo", "--task", "gymnasium:CartPole-v1"),
    "ppo, grid": ("ppo", "--task", "MiniGrid-Empty-5x5-v0"),
    "ppo, lstm": ("ppo", "--recurrent lstm --sequence-length 16"),
    "ppo, one behind": ("ppo", "--architecture", "cleanba", "--actors", "2"),
    "appo": ("appo", "--task InvertedPendulum-v5 --normalize-observations --normalize-rewards"),
    "appo, gru": ("appo", "--recurrent gru --sequence-length 16"),
    "impala": ("impala", "--actors", "2"),
    "dqn": ("dqn",),
    "dqn, c51": ("dqn", "--distributional --atoms 11 --value-min 0 --priority-alpha 0.5"),
    "dqn, rainbow": ("dqn", "--double --n-steps 3 --priority-alpha 0.5"),
    "dqn, parallel": ("dqn", "--parallel"),
    "sac": ("sac",),
    "sac, parallel": ("sac", "--parallel --num-envs 4 --frames-per-batch 8 --updates-per-batch 3"),
    "self_play": ("self_play",),
}


@pytest.mark.parametrize(
    "case",
    cases(
        default=["ppo", "appo", "impala", "dqn", "self_play"],
        also=RESUMED,
    ),
)
def test_a_resumed_training_ends_as_one_that_was_not_interrupted(case, begin, tmp_path):
    whole = finish(begin(*RESUMED[case]))
    first = begin(*RESUMED[case])
    for _ in range(2):
        first.iterate()
    state = through_a_file(first.state_dict(), tmp_path)
    torch.rand(5)  # the states of generators come from the file
    second = begin(*RESUMED[case])
    second.load_state_dict(state)
    assert_same(finish(second), whole)


def test_equal_seeds_give_equal_weights_and_others_do_not(begin):
    one, two, other = (finish(begin("ppo", "--seed", seed)) for seed in ("1", "1", "3"))
    assert_same(one, two)
    assert not torch.equal(one["update"]["parameters"], other["update"]["parameters"])


@pytest.mark.parametrize("name", ["ppo", "appo", "impala", "dqn", "sac"])
@pytest.mark.slow  # trains
def test_it_learns_to_balance_a_pole(name, tmp_path):
    frames, more, reached = {
        "ppo": (40_000, "", 200),
        "appo": (32_000, "", 100),
        "impala": (100_000, "", 150),
        "dqn": (
            30_000,
            "--learning-starts 1000 --learning-rate 1e-3 --hidden 64,64 --epsilon-frames 6000 "
            "--until-return 60",
            60,
        ),
        "sac": (
            3000,
            "--task InvertedPendulum-v5 --hidden 32,32 --batch-size 64 --learning-rate 3e-3 "
            "--learning-starts 500 --frames-per-row 100 --num-envs 4 --frames-per-batch 4 "
            "--updates-per-batch 2 --until-return 12",
            8,
        ),
    }[name]
    options = ["--total-frames", str(frames), *more.split(), "--quiet", "--compile", "no", "--evaluate", "20"]
    assert PROGRAMS[name][0].main([*options, "--output", str(tmp_path)]) == 0
    (folder,) = tmp_path.iterdir()
    assert json.loads((folder / "evaluation.json").read_text())["mean"] > reached


PRESETS = [(name, preset) for name in PROGRAMS for preset in PROGRAMS[name][0].presets]
TASKS = {"mujoco": "HalfCheetah-v5", "atari": "ALE/Breakout-v5", "pong": "ALE/Pong-v5"}
TASKS |= {"racing": "CarRacing-v3", "grid": "BabyAI-GoToLocal-v0"}
TINY = "--frames-per-batch 16 --minibatch-size 8 --epochs 1 --num-envs 2 --total-frames 16"
TINY_REPLAY = "--frames-per-batch 4 --num-envs 2 --learning-starts 8 --batch-size 4 --frames-per-row 16"
TINY_REPLAY += " --buffer-size 64 --total-frames 16 --updates-per-batch 1"


@pytest.mark.parametrize(("name", "preset"), PRESETS)
@pytest.mark.slow  # makes every training
def test_presets_make_trainings(name, preset, tmp_path):
    program = PROGRAMS[name][0]
    program.prepare()
    task = TASKS.get(
        preset.split("-")[-1], {"sac": "HalfCheetah-v5", "self_play": "CoinRace-v0"}.get(name, "CartPole-v1")
    )
    sizes = {"impala": "--total-frames 1 --num-envs 8 --steps 2", "dqn": TINY_REPLAY, "sac": TINY_REPLAY}
    options = ["--preset", preset, "--task", task, *sizes.get(name, TINY).split()]
    with closing(Run(program.train, config_of(program, *options), tmp_path)) as run:
        finish(run)


def test_the_default_preset_is_the_tasks():
    program = PROGRAMS["ppo"][0]
    assert config_of(program).task == "CartPole-v1"
    ant = config_of(program, "--task", "Ant-v5")
    assert ant == config_of(program, "--task", "Ant-v5", "--preset", "envpool-mujoco")
    assert ant.num_envs == 64
    assert config_of(program, "--task", "ALE/Pong-v5").sign_rewards
    assert (
        config_of(program, "--preset", "sb3-mujoco", "--gamma", "0.5", "--no-normalize-rewards").gamma == 0.5
    )


@pytest.mark.parametrize(
    "task", cases(default=["FrozenLake-v1", "Taxi-v4"], also=["Blackjack-v1", "Pendulum-v1", "Humanoid-v5"])
)
def test_other_spaces(task, begin):
    begin("ppo", "--task", task).iterate()


# ---- how a run ends


def interrupting(monkeypatch, iteration):
    """Lets a training be interrupted in this iteration."""
    iterate = Run.iterate

    def iterate_and_press(run):
        if run.iteration == iteration:
            signal.raise_signal(signal.SIGINT)
        iterate(run)

    monkeypatch.setattr(Run, "iterate", iterate_and_press)


def test_ctrl_c_saves_what_a_resume_goes_on_from(tmp_path, capsys, monkeypatch):
    program, options = small("ppo", "--quiet", "--output", str(tmp_path))
    with monkeypatch.context() as patch:
        interrupting(patch, 1)
        assert program.main(options) == 0
    folder = tmp_path / "ppo-CartPole-v1-0"
    assert f"Stopped; go on with --resume {folder / 'checkpoint.pt'}" in capsys.readouterr().out
    assert load_checkpoint(folder / "checkpoint.pt")["iteration"] == 2  # the one that went on is whole
    assert not (folder / "evaluation.json").exists()
    assert program.main(["--quiet", "--resume", str(folder), "--evaluate", "0"]) == 0
    assert [int(row["frames"]) for row in curve_in(folder)] == [128, 256, 384, 512]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_ctrl_c_stops_at_once():
    with stop_request() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.made
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_it_stops_at_a_return_of_a_whole_window(tmp_path):
    program, options = small("ppo", "--total-frames", "51200", "--until-return", "10", "--evaluate", "0")
    assert program.main([*options, "--quiet", "--output", str(tmp_path)]) == 0
    rows = curve_in(tmp_path / "ppo-CartPole-v1-0")
    assert 4 < len(rows) < 400
    assert float(rows[-1]["return"]) >= 10
    assert load_checkpoint(tmp_path / "ppo-CartPole-v1-0" / "checkpoint.pt")["curve"]["returns"][99]


def test_several_seeds_are_drawn_with_their_mean(tmp_path, capsys):
    program, options = small("ppo", "--seeds", "1", "2", "--evaluate", "2", "--quiet")
    assert program.main([*options, "--output", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "Return over 2 seeds, 1, 2: interquartile mean" in out
    assert "Evaluation over 2 seeds: interquartile mean" in out
    together = json.loads((tmp_path / "ppo-CartPole-v1.json").read_text())
    assert list(together["returns"]) == ["1", "2"]
    assert together["interval"][0] <= together["interquartile_mean"] <= together["interval"][1]
    assert (tmp_path / "ppo-CartPole-v1.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("task", cases(["CartPole-v1", "gymnasium:CartPole-v1"]))
def test_a_video_shows_an_episode_to_its_end(task, tmp_path, capsys):
    imageio = pytest.importorskip("imageio.v2")
    program, options = small("ppo", "--task", task, "--video", "--quiet", "--output", str(tmp_path))
    assert program.main(options) == 0
    (path,) = tmp_path.glob("*/video.*")
    assert f"Video: {path}\n" in capsys.readouterr().out
    assert imageio.mimread(path)[0].shape[:2] == (400, 600)


# ---- evaluation and loading


def test_a_frozen_normalizer_learns_nothing_in_evaluation(begin):
    run = begin("ppo", "--task", "InvertedPendulum-v5", "--normalize-observations")
    run.iterate()
    normalizer = normalizer_of(run.env)
    before = normalizer.loc["observation"].clone()
    with closing(run.evaluation_env(3)) as env:
        returns, unended = evaluate(env, run.actor)
        assert (len(returns), unended) == (3, 0)
        assert torch.equal(normalizer.loc["observation"], before)
        assert torch.equal(normalizer_of(env).loc["observation"], before)


LOADED = {
    "mujoco": ("ppo", "--task InvertedPendulum-v5 --normalize-observations"),
    "memory": ("ppo", "--recurrent gru --hidden-size 8"),
    "grid": ("ppo", "--task", "MiniGrid-Empty-5x5-v0"),
    "gymnasium": ("ppo", "--task", "gymnasium:CartPole-v1", "--num-workers", "0"),
    "cannot be saved": ("ppo", "--task", "gymnasium:locked_env:Locked-v0"),
    "population": ("appo", "--population", "2", "--total-frames", "1024"),
}


@pytest.mark.parametrize("case", cases(default=["mujoco", "memory", "gymnasium", "population"], also=LOADED))
def test_other_loaded_policies_play_as_they_were_evaluated(case, tmp_path):
    program, options = small(*LOADED[case], "--evaluate", "3", "--quiet", "--output", str(tmp_path))
    assert program.main(options) == 0
    (folder,) = tmp_path.iterdir()
    policy, env = load_policy(folder / "checkpoint.pt", num_envs=3)
    with closing(env):
        returns, _ = evaluate(env, policy)
        data, again = env.rollout(20, policy), env.rollout(20, policy)
    assert returns == json.loads((folder / "evaluation.json").read_text())["returns"]
    assert data.shape[0] == 3
    with torch.no_grad():
        step = again[:, -1]
        torch.testing.assert_close(policy(step.clone())["action"], step["action"])  # the most likely ones


def test_where_there_is_nothing_to_load(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"expected a checkpoint, there is no .*checkpoint\.pt"):
        load_policy(tmp_path)
    torch.save({"config": {}}, tmp_path / "checkpoint.pt")
    with pytest.raises(ValueError, match="expected a checkpoint that names its program"):
        load_policy(tmp_path)


def test_examples_are_written_on_public_names():
    """So that they can be copied."""
    files = list(Path(examples.__file__).parent.glob("*.py"))
    assert len(files) > 15
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            modules = [node.module] if isinstance(node, ast.ImportFrom) else []
            names = [one.name for one in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
            private = [name for name in [*modules, *names] if name and name.startswith("torchrl_pool._")]
            if modules and (modules[0] or "").startswith("torchrl_pool"):
                private += [name for name in names if name.startswith("_")]
            assert not private, f"{file.name} imports {private}"
