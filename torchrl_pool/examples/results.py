"""What a training leaves: learning curve, checkpoint, evaluation, video; what several seeds tell together."""

from __future__ import annotations

import csv
import importlib.util
import json
import math
import os
import shutil
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from tensordict import TensorDictBase
from torchrl.envs import EnvBase
from torchrl.envs.utils import ExplorationType, set_exploration_type
from torchrl.record.loggers import CSVLogger, Logger, get_logger
from torchrl.record.loggers.mlflow import MLFlowLogger

from torchrl_pool import EnvFailure
from torchrl_pool.examples import say_what_is_missing
from torchrl_pool.examples.envs import pool_of

try:
    import imageio.v2 as imageio
    from matplotlib.figure import Figure
    from scipy import stats
    from tqdm import tqdm
except ImportError as error:
    say_what_is_missing(error)

tqdm.set_lock(threading.RLock())  # its own is one of processes, for which Python would start a process
WINDOW = 100  # finished episodes that a point of the learning curve averages
CONFIDENCE = 0.95  # that intervals over seeds have
MLFLOW_PLACE = os.environ.get("MLFLOW_TRACKING_URI")  # MLflow sets it as well, to the place of the run before
Row = dict[str, float]
Policy = Callable[[TensorDictBase], TensorDictBase]


class Curve:
    """The rows of a learning curve: in ``curve.csv``, and sent to a logger of TorchRL's if there is one."""

    def __init__(self, folder: Path) -> None:
        self.rows: list[Row] = []
        self.logger: Any = None
        self.folder, self._path = folder, folder / "curve.csv"
        self._written = 0  # rows in the file
        self._returns: deque[float] = deque(maxlen=WINDOW)
        self._lengths: deque[float] = deque(maxlen=WINDOW)

    def note_episodes(self, batch: TensorDictBase) -> None:
        """Takes note of the episodes that end in a batch ``[N, T]``."""
        after = batch.get("next")
        done = after.get("done").transpose(0, 1)  # in the order of time
        self._returns.extend(after.get("episode_reward").transpose(0, 1)[done].tolist())
        self._lengths.extend(after.get("step_count").transpose(0, 1)[done].tolist())

    def follow(self, other: Curve) -> None:
        """Takes over the episodes of another curve, those to come included."""
        self._returns, self._lengths = other._returns, other._lengths

    @property
    def mean_return(self) -> float:
        """Of the last episodes; NaN before the first one has ended."""
        return fmean(self._returns) if self._returns else math.nan

    @property
    def objective(self) -> float:
        """By which trainings are compared: the mean return, least where there is none."""
        return fmean(self._returns) if self._returns else -math.inf

    @property
    def progress(self) -> str:
        """The mean return as text."""
        return f"mean return {self.mean_return:.1f}" if self._returns else "no episode has ended yet"

    def has_reached(self, mean_return: float) -> bool:
        return len(self._returns) == WINDOW and self.mean_return >= mean_return

    def add(self, row: Row) -> None:
        """Adds a row, completed with the mean return and length of the last episodes.

        A file that cannot be written is reported once, and written as a whole as soon as possible.
        """
        length = fmean(self._lengths) if self._lengths else math.nan
        row = {**row, "return": self.mean_return, "length": length}
        was_whole = self._written == len(self.rows)
        self.rows.append(row)
        try:
            self._write()
        except OSError as error:
            self._written = 0  # a part of a row may be there
            if was_whole:
                warn(f"{self._path} cannot be written: {error}")
        if self.logger is not None:
            self.logger.log_metrics(row, step=int(row["frames"]))

    def _write(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._path.open("a" if self._written else "w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(self.rows[0]))
            if not self._written:
                writer.writeheader()
            writer.writerows(self.rows[self._written :])
        self._written = len(self.rows)

    def state_dict(self) -> dict[str, Any]:
        return {"rows": list(self.rows), "returns": list(self._returns), "lengths": list(self._lengths)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.rows, self._written = [dict(row) for row in state["rows"]], 0
        for episodes, saved in ((self._returns, state["returns"]), (self._lengths, state["lengths"])):
            episodes.clear()  # not replaced: another curve may follow this one
            episodes.extend(saved)
        if self.rows:
            self._write()


# ---- stopping and saving


@contextmanager
def stop_request() -> Iterator[SimpleNamespace]:
    """Turns Ctrl-C or SIGTERM into a request to stop, ``made`` from then on; a second one stops at once."""
    stop = SimpleNamespace(made=False)

    def note(number: int, frame: object) -> None:
        if stop.made:
            raise KeyboardInterrupt
        stop.made = True
        tqdm.write("Stopping after this iteration; Ctrl-C again stops at once.")

    is_main = threading.current_thread() is threading.main_thread()  # Python refuses it elsewhere
    numbers = (signal.SIGINT, signal.SIGTERM) if is_main else ()
    before = [(number, signal.signal(number, note)) for number in numbers]
    try:
        yield stop
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Writes a checkpoint; where that fails or is interrupted, the one before stays.

    Raises:
        OSError: it cannot be written, and why.
    """
    unfinished = path.with_suffix(".unfinished")
    try:
        with unfinished.open("wb") as file:  # opened here: torch hides what went wrong with its own files
            torch.save(state, file)
        os.replace(unfinished, path)
    except BaseException as error:
        with suppress(OSError):
            unfinished.unlink()
        reason = error if isinstance(error, OSError) else error.__context__
        if isinstance(reason, OSError):
            raise OSError(f"{path} cannot be written: {reason}") from error
        raise


def load_checkpoint(path: Path) -> dict[str, Any]:
    """What :func:`save_checkpoint` wrote: tensors, numbers, texts and bytes, no code."""
    if not path.exists():
        raise FileNotFoundError(f"expected a checkpoint, there is no {path}")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # of bytes that it did not write it may raise anything
        raise ValueError(f"expected a checkpoint, got {path}, which torch.load cannot read") from error
    if not isinstance(state, dict) or "config" not in state:
        raise ValueError(f"expected a checkpoint, got {path}, which holds something else")
    return state


def is_same_file(path: Path, other: Path | None) -> bool:
    """Whether a file is there, and is the other one."""
    return other is not None and path.exists() and path.samefile(other)


def could(path: Path, write: Callable[..., object], *arguments: Any) -> bool:
    """Whether a file could be written; if not, says why: there is more to lose than a file."""
    try:
        write(*arguments)
    except (OSError, EnvFailure) as error:
        warn(f"{path} cannot be written: {first_line(error)}")
        return False
    return True


def first_line(error: Exception) -> str:
    """What went wrong, without the traceback of the process where it did."""
    return str(error).partition("\n")[0]


def warn(text: str) -> None:
    """Says what went wrong above the progress bar."""
    tqdm.write(f"warning: {text}", file=sys.stderr)


def save_json(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n")


# ---- how good the policy is


@torch.no_grad()
def evaluate(env: EnvBase, policy: Policy, *, max_steps: int = 27_000) -> tuple[list[float], int]:
    """The return of one episode in each env, played with the most likely actions.

    Args:
        env: writes ``episode_reward``, and does not learn from what it sees.
        policy: chooses the actions.
        max_steps: an episode that has not ended by then counts with its rewards so far, since without a time
            limit it may never end. Default: as long as an Atari episode may be.

    Returns:
        The returns, and how many episodes had not ended.
    """
    num_envs = env.batch_size[0]
    returns, is_over = torch.zeros(num_envs), torch.zeros(num_envs, dtype=torch.bool)
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        root = env.reset()
        for _ in range(max_steps):
            step, root = env.step_and_maybe_reset(policy(root))
            after = step.get("next")
            returns = torch.where(is_over, returns, after.get("episode_reward").squeeze(-1))
            is_over |= after.get("done").squeeze(-1)
            if bool(is_over.all()):
                break
    return returns.tolist(), int((~is_over).sum())


# ---- several seeds (Agarwal et al. 2021)


def interquartile_mean(values: ArrayLike, axis: int = 0) -> NDArray[np.float64]:
    """The mean without the lowest and the highest quarter, of fewer than four values their mean."""
    mean: NDArray[np.float64] = stats.trim_mean(values, 0.25, axis=axis)
    return mean


def interval(values: ArrayLike) -> Any:
    """Where the interquartile mean of other seeds would be, with a confidence of 95 %: lower and upper end.

    Seeds, the first axis of the values, are drawn with replacement, always the same draws: equal values have
    equal intervals.
    """
    how: dict[str, Any] = {"n_resamples": 2000, "batch": 100, "method": "percentile"}
    draws = np.random.default_rng(0)
    found = stats.bootstrap((values,), interquartile_mean, confidence_level=CONFIDENCE, rng=draws, **how)
    return found.confidence_interval


def described(values: Sequence[float]) -> str:
    """Interquartile mean and interval as text."""
    if len(values) < 2:
        return f"{fmean(values):.1f}"
    low, high = interval(values)
    return f"interquartile mean {interquartile_mean(values):.1f}, 95 % interval {low:.1f} to {high:.1f}"


def summary(returns: Mapping[int, Sequence[float]]) -> dict[str, Any]:
    """The evaluations of several seeds, each the returns of its episodes: the file beside their folders."""
    means = [fmean(one) for one in returns.values()]
    return {
        "returns": {str(seed): list(one) for seed, one in returns.items()},
        "means": means,
        "interquartile_mean": float(interquartile_mean(means)),
        "interval": [float(end) for end in interval(means)],
        "confidence": CONFIDENCE,
    }


def plot_curves(runs: Sequence[Sequence[Row]], title: str, path: Path) -> None:
    """Draws return by frames: one run, or several with their interquartile mean and its interval."""
    figure = Figure(figsize=(8, 4.5), dpi=120, layout="constrained")  # without pyplot: needs no display
    axes = figure.add_subplot()
    several = len(runs) > 1
    width, alpha = (1, 0.4) if several else (2, 1)
    for rows in runs:
        frames, returns = [row["frames"] for row in rows], [row["return"] for row in rows]
        axes.plot(frames, returns, color="tab:blue", linewidth=width, alpha=alpha)
    if several:
        steps = min(len(rows) for rows in runs)
        values = np.array([[row["return"] for row in rows[:steps]] for rows in runs])
        known = ~np.isnan(values).any(0)  # an episode of each seed has ended
        frames = np.array([row["frames"] for row in runs[0][:steps]])[known]
        if known.any():
            mean, (low, high) = interquartile_mean(values[:, known]), interval(values[:, known])
            label = f"interquartile mean, {len(runs)} seeds"
            axes.plot(frames, mean, color="tab:blue", linewidth=2, label=label)
            axes.fill_between(frames, low, high, color="tab:blue", alpha=0.2, label="95 % bootstrap interval")
            axes.legend(loc="lower right")
    axes.set(title=title, xlabel="Frames (env steps)", ylabel=f"Mean return of the last {WINDOW} episodes")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, format="png")


# ---- videos and loggers


def check_video(make_env: Callable[[], EnvBase]) -> None:
    """Raises ValueError: an env cannot be drawn."""
    try:
        with closing(make_env()) as env:
            env.reset()
            pool_of(env).render(0)
    except (RuntimeError, AttributeError, ImportError) as error:  # what OpenGL's libraries raise, too
        raise ValueError(f"--video: expected a task that can be drawn: {first_line(error)}") from error


@torch.no_grad()
def record_video(env: EnvBase, policy: Policy, *, max_frames: int = 500) -> tuple[NDArray[np.uint8], bool]:
    """An episode of the first env with the most likely actions, from its reset to its last step.

    Returns:
        Pictures ``[frames, H, W, 3]``, with even heights and widths, as an mp4's colours need, and whether
        the episode ends with them.
    """
    pool, is_whole = pool_of(env), False
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        root = env.reset()
        pictures = [pool.render(0)[0].numpy()]
        while len(pictures) < max_frames and not is_whole:
            step = env.step(policy(root))
            pictures.append(pool.render(0)[0].numpy())  # before the reset: the last one shows the end
            is_whole = bool(step["next", "done"][0])
            root = env.maybe_reset(env.step_mdp(step))
    height, width, _ = pictures[0].shape
    return np.pad(pictures, ((0, 0), (0, height % 2), (0, width % 2), (0, 0)), mode="edge"), is_whole


def save_video(pictures: NDArray[np.uint8], fps: float, path: Path) -> Path:
    """Writes an mp4, or without imageio-ffmpeg a gif; returns the file."""
    how: dict[str, Any] = {"duration": 1000 / fps, "loop": 0}
    if has_mp4 := importlib.util.find_spec("imageio_ffmpeg") is not None:
        how = {"fps": fps, "macro_block_size": 2}  # 16 would stretch them
    path = path.with_suffix(".mp4" if has_mp4 else ".gif")
    imageio.mimsave(path, list(pictures), **how)
    return path


def frame_rate(task: str) -> float:
    """Frames per second of Gymnasium's env of that id; else 30."""
    with suppress(Exception):  # Gymnasium is missing, or has no such env
        import gymnasium

        with closing(gymnasium.make(task.removeprefix("gymnasium:"), disable_env_checker=True)) as env:
            return float(env.metadata["render_fps"])
    return 30.0


def open_logger(name: str, folder: Path) -> Logger:
    """A logger of a training that has this folder.

    CSV, TensorBoard and W&B write there, MLflow writes ``mlflow.db`` beside it, for the other seeds as well,
    unless ``MLFLOW_TRACKING_URI`` names a place. trackio has a place of its own.

    Raises:
        ValueError: there is no such logger, or its package is missing or refuses.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if name == "mlflow":  # of get_logger it has a folder, which MLflow does not take any more
            place = MLFLOW_PLACE or f"sqlite:///{folder.resolve().with_name('mlflow.db')}"
            artifacts = None if MLFLOW_PLACE else folder.resolve().with_name("mlruns").as_uri()
            return MLFlowLogger(exp_name=folder.name, tracking_uri=place, artifact_location=artifacts)
        logger: Logger = get_logger(name, logger_name=str(folder), experiment_name=folder.name)
        return logger
    except Exception as error:  # each library has its own
        raise ValueError(f"--logger {name}: {first_line(error)}") from error


def log_video(logger: Logger, pictures: NDArray[np.uint8], path: Path, step: int) -> None:
    """Hands a video over: TorchRL encodes it by what each library needs; into a folder its file is copied."""
    try:
        if isinstance(logger, CSVLogger):
            shutil.copyfile(path, Path(logger.experiment.log_dir, "videos", f"video_{step}{path.suffix}"))
            return
        logger.log_video("video", torch.from_numpy(pictures).movedim(-1, -3).unsqueeze(0), step=step)
    except Exception as error:  # each library has its own
        warn(f"{type(logger).__name__} gets no video: {first_line(error)}")


def close_logger(logger: Logger) -> None:
    """Writes what is left. MLflow allows no other run in the process before this one's end."""
    logger.close()
    if isinstance(logger, MLFlowLogger):
        import mlflow

        mlflow.end_run()
