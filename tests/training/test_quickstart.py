"""The quickstart example: what it promises of a training, its picture and its command line."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from cases import cases
from processes import run_program

pytest.importorskip("tyro")

from torchrl_pool.examples import quickstart
from torchrl_pool.examples.quickstart import Config, Result, main, plot, train

SHORT = Config(frames=10_000)
SHORT_FRAMES = [2048, 4096, 6144, 8192, 10240]  # whole batches


@pytest.fixture(scope="module")
def short() -> Result:
    threads = torch.get_num_threads()
    result = train(SHORT, progress=False)
    torch.set_num_threads(threads)
    return result


def assert_is_png(path: Path) -> None:
    image = pytest.importorskip("matplotlib.image").imread(path)  # decodes all of it
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert min(image.shape[:2]) > 400
    assert image.std() > 0  # not one colour


def test_a_training_improves_the_policy(short: Result) -> None:
    assert short.frames == SHORT_FRAMES
    assert len(short.returns) == len(SHORT_FRAMES)
    assert 9 < short.returns[0] < 40  # random actions last for about 22 steps
    assert short.returns[-1] > 1.5 * short.returns[0]
    assert len(short.evaluation) == 100
    assert all(r == int(r) and 8 <= r <= 500 for r in short.evaluation)
    assert short.evaluation_mean == pytest.approx(sum(short.evaluation) / 100)
    assert short.evaluation_mean > short.returns[0]
    assert short.seconds > 0


def test_equal_configurations_give_the_same_curve(short: Result) -> None:
    torch.rand(3)  # the state of the global generator does not matter
    again = train(SHORT, progress=False)
    assert again.frames == short.frames
    assert again.returns == short.returns
    assert again.evaluation == short.evaluation


def test_another_seed_gives_another_curve(short: Result) -> None:
    other = train(Config(seed=1, frames=4096), progress=False)
    assert other.returns != short.returns[:2]


@pytest.mark.parametrize(("num_envs", "frames"), cases(default=[(3, 2049), (4096, 4096)], also=[(1, 2048)]))
def test_batches_are_whole_steps_of_all_envs(num_envs: int, frames: int) -> None:
    result = train(Config(num_envs=num_envs, frames=1), progress=False)
    assert result.frames == [frames]


def test_training_before_the_first_finished_episode() -> None:
    result = train(Config(num_envs=16, frames=32, batch_frames=32), progress=False)
    assert len(result.returns) == 1
    assert math.isnan(result.returns[0])


def test_the_progress_bar_shows_frames_and_return(capsys: pytest.CaptureFixture[str]) -> None:
    result = train(Config(frames=2048))
    bar = capsys.readouterr().err
    assert "2.05k/2.05k" in bar
    assert f"mean return {result.returns[-1]:.1f}" in bar


def test_plot_writes_a_png(short: Result, tmp_path: Path) -> None:
    plot(short, SHORT, tmp_path / "curve.png")
    assert_is_png(tmp_path / "curve.png")


@pytest.mark.parametrize(("goal", "status"), cases([(1.0, 0), (501.0, 1)]))
def test_exit_status_says_whether_the_goal_is_met(
    goal: float,
    status: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quickstart, "GOAL", goal)
    path = tmp_path / "curve.png"
    assert main(["--frames", "2048", "--num-envs", "8", "--seed", "3", "--output", str(path)]) == status
    out = capsys.readouterr().out
    assert "Mean return over 100 evaluation episodes: " in out
    assert "2048 frames in " in out
    assert str(path) in out
    assert_is_png(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    cases(
        default=[
            (["--seed", "-1"], "--seed: expected at least 0, got -1"),
            (["--frames", "0"], "--frames: expected at least 1, got 0"),
            (["--output", "no/such/folder/curve.png"], "--output: expected a folder that is there"),
        ],
        also=[(["--num-envs", "-2"], "--num-envs: expected at least 1, got -2")],
    ),
)
def test_wrong_options(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["--help"])
    assert exit_info.value.code == 0
    shown = capsys.readouterr().out
    for option in ("--seed", "--num-envs", "--frames", "--output"):
        assert option in shown


@pytest.mark.parametrize("missing", cases(["matplotlib", "tqdm"]))
def test_missing_packages_are_named_with_the_extra(missing: str) -> None:
    done = run_program(
        f"import sys; sys.modules[{missing!r}] = None; import torchrl_pool.examples.quickstart"
    )
    assert done.returncode != 0
    assert missing in done.stderr.splitlines()[-1]
    assert "pip install torchrl_pool[examples]" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("program", cases(["quickstart", "ppo"]))
def test_a_program_says_in_a_sentence_what_is_missing(program: str) -> None:
    done = run_program(
        "import runpy, sys; sys.modules['matplotlib'] = None; "
        f"runpy.run_module('torchrl_pool.examples.{program}', run_name='__main__', alter_sys=True)"
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "the examples need matplotlib, which is not installed: pip install" in done.stderr
