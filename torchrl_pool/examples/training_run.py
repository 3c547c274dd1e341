"""What the training examples share: clocks, curves, checkpoints, Ctrl-C, evaluation, videos."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import signal
import sys
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from statistics import fmean
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDictBase
from torchrl.envs import EnvBase
from torchrl.envs.utils import ExplorationType, set_exploration_type

from torchrl_pool import EnvFailure, PoolEnv
from torchrl_pool.examples.envs import pool_of

try:
    from matplotlib.figure import Figure
    from tqdm import tqdm
except ImportError as error:
    raise ImportError(
        f"the examples need {error.name}, which is not installed: pip install torchrl_pool[examples]"
    ) from error

WINDOW = 100  # finished episodes that one point of a learning curve averages
Row = dict[str, float]


# ---- where the time goes


class Clock:
    """Seconds by what they went into; the first iteration, which warms up and compiles, is left out."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.iterations, self.times_steps = 0, False
        self._is_first = True

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add(part, time.perf_counter() - start)

    def add(self, part: str, seconds: float) -> None:
        if not self._is_first:
            self.seconds[part] += seconds

    def end_iteration(self) -> None:
        """Counts the iteration, if it was not the first one."""
        self.iterations += not self._is_first
        self._is_first = False

    def timings(self) -> dict[str, float]:
        """Iterations, and the seconds of all of them together.

        Where env steps are timed, ``inference`` is collecting but stepping.
        """
        collecting, stepping = self.seconds["collecting"], self.seconds["env_step"]
        parts = {"env_step": stepping, "inference": max(collecting - stepping, 0.0)}
        return {
            "iterations": self.iterations,
            "collecting": collecting,
            **(parts if self.times_steps else {}),
            "training": self.seconds["training"],
        }

    def summary(self) -> str:
        """Where the time went, in a line for each part."""
        if not self.iterations:
            return "Where the time went is not told: there was one iteration, which warms up."
        parts = self.timings()
        count, total = parts.pop("iterations"), sum(self.seconds.values()) - self.seconds["env_step"]
        lines = [f"Where the time of {self.iterations} iterations went (the first one apart):"]
        names = {"env_step": "  env steps", "inference": "  policy and storing", "collecting": "collecting"}
        parts["other"] = total - parts["collecting"] - parts["training"]
        for name, seconds in parts.items():
            share = seconds / total if total else 0.0
            each = f"{seconds / count * 1e3:10.1f} ms each"
            lines.append(f"  {names.get(name, name):22}{seconds:9.2f} s{each}{share:7.0%}")
        return "\n".join(lines)


class _TimedPool:
    """The executor's pool, whose calls tell a clock how long they take."""

    def __init__(self, pool: Any, clock: Clock) -> None:
        self._pool, self._clock = pool, clock

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._pool, name)
        if not callable(member):
            return member

        def timed(*args: Any, **kwargs: Any) -> Any:
            with self._clock.timed("env_step"):
                return member(*args, **kwargs)

        setattr(self, name, timed)
        return timed


def time_steps(env: PoolEnv, clock: Clock) -> None:
    """Adds what a pool's executor takes to ``"env_step"``, where the learner waits for it."""
    clock.times_steps = True
    running = env._running
    timed: dict[int, _TimedPool] = {}

    def running_timed() -> Any:
        pool = running()
        if id(pool) not in timed:
            timed.clear()
            timed[id(pool)] = _TimedPool(pool, clock)
        return timed[id(pool)]

    env.__dict__["_running"] = running_timed


# ---- the learning curve


class Curve:
    """The rows of a learning curve, which go to a CSV file as they come, and to TensorBoard if installed."""

    def __init__(self, folder: Path, rows: Sequence[Row] = ()) -> None:
        self.rows = list(rows)
        self.folder, self._path = folder, folder / "curve.csv"
        self._written = 0  # rows in the file
        self._returns: deque[float] = deque(maxlen=WINDOW)
        self._lengths: deque[float] = deque(maxlen=WINDOW)
        self._board: Any = None
        self._has_board = importlib.util.find_spec("tensorboard") is not None
        self._write_all()

    def note_episodes(self, batch: TensorDictBase) -> None:
        """Takes note of the episodes that end in a batch ``[N, T]``."""
        after = batch.get("next")
        done = after.get("done").transpose(0, 1)  # in the order of time
        self._returns.extend(after.get("episode_reward").transpose(0, 1)[done].tolist())
        self._lengths.extend(after.get("step_count").transpose(0, 1)[done].tolist())

    def follow(self, other: Curve) -> None:
        """Tells from now on of the episodes that another curve takes note of."""
        self._returns, self._lengths = other._returns, other._lengths

    @property
    def mean_return(self) -> float:
        """Of the last episodes; NaN before the first one has ended."""
        return fmean(self._returns) if self._returns else float("nan")

    def has_reached(self, mean_return: float) -> bool:
        """Whether as many episodes as a point of the curve tells of have had that mean return."""
        return len(self._returns) == WINDOW and self.mean_return >= mean_return

    def add(self, row: Row) -> None:
        """Adds a row, completed with the mean return and length of the last episodes.

        Where it cannot be written that is said once, and the file is written anew as soon as it can be.
        """
        length = fmean(self._lengths) if self._lengths else float("nan")
        row = {**row, "return": self.mean_return, "length": length}
        was_whole = self._written == len(self.rows)
        self.rows.append(row)
        try:
            self._write(self.rows[self._written :], "a" if self._written else "w")
        except OSError as error:
            self._written = 0  # a part of a row may be there
            if was_whole:
                warn(f"{self._path} cannot be written: {error}")
        else:
            self._written = len(self.rows)
        self._has_board = self._has_board and could(self.folder, self._show, row)

    def _show(self, row: Row) -> None:
        """Adds a row to what TensorBoard shows, in place of what an earlier run has added from there on."""
        frames = int(row["frames"])
        if self._board is None:
            from torch.utils.tensorboard import SummaryWriter

            goes_on = len(self.rows) > 1
            for events in [] if goes_on else self.folder.glob("events.out.tfevents.*"):
                events.unlink()
            self._board = SummaryWriter(str(self.folder), purge_step=frames if goes_on else None)
        for name, value in row.items():
            self._board.add_scalar(name, value, frames)

    def _write_all(self) -> None:
        if self.rows:
            self._write(self.rows, "w")
            self._written = len(self.rows)

    def _write(self, rows: Sequence[Row], mode: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._path.open(mode, newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]))
            if mode == "w":
                writer.writeheader()
            writer.writerows(rows)

    def close(self) -> None:
        if self._board is not None:
            could(self.folder, self._board.close)

    def state_dict(self) -> dict[str, Any]:
        return {"rows": self.rows, "returns": list(self._returns), "lengths": list(self._lengths)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.rows = [dict(row) for row in state["rows"]]
        self._returns.extend(state["returns"])
        self._lengths.extend(state["lengths"])
        self._write_all()


def plot_curves(runs: Sequence[Sequence[Row]], title: str, path: Path) -> None:
    """Draws return by frames as a PNG: one run, or several with their mean and standard deviation."""
    figure = Figure(figsize=(8, 4.5), dpi=120, layout="constrained")  # without pyplot: needs no display
    axes = figure.add_subplot()
    several = len(runs) > 1
    for rows in runs:
        frames, returns = [row["frames"] for row in rows], [row["return"] for row in rows]
        axes.plot(
            frames, returns, color="tab:blue", linewidth=1 if several else 2, alpha=0.4 if several else 1
        )
    if several:
        steps = min(len(rows) for rows in runs)
        values = torch.tensor([[row["return"] for row in rows[:steps]] for rows in runs])
        mean, spread = values.mean(0), values.std(0)
        frames = [row["frames"] for row in runs[0][:steps]]
        axes.plot(frames, mean.tolist(), color="tab:blue", linewidth=2, label=f"mean of {len(runs)} seeds")
        low, high = (mean - spread).tolist(), (mean + spread).tolist()
        axes.fill_between(frames, low, high, color="tab:blue", alpha=0.2, label="standard deviation")
        axes.legend(loc="lower right")
    axes.set_title(title)
    axes.set_xlabel("Frames (env steps)")
    axes.set_ylabel(f"Mean return of the last {WINDOW} episodes")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, format="png")


def plot_lags(lags: Mapping[str, Counter[int]], path: Path) -> None:
    """Draws how many updates old the weights were that chose the steps, for each name side by side."""
    figure = Figure(figsize=(2 + 2.5 * len(lags), 3), dpi=120, layout="constrained")
    plots = figure.subplots(1, len(lags), sharey=True, squeeze=False)[0]
    for axes, (name, counts) in zip(plots, lags.items(), strict=True):
        total = max(sum(counts.values()), 1)
        axes.bar(list(counts), [count / total for count in counts.values()], color="tab:blue", width=0.8)
        axes.set_title(name)
        axes.set_xlabel("updates behind")
        axes.set_xlim(-0.6, max([4, *counts]) + 0.6)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.spines[["top", "right"]].set_visible(False)
    plots[0].set_ylabel("share of steps")
    figure.savefig(path, format="png")


def mean_and_spread(values: Sequence[float]) -> str:
    """Mean and standard deviation as text."""
    numbers = torch.tensor(values)
    return f"{numbers.mean():.1f} ± {numbers.std(correction=min(1, len(values) - 1)):.1f}"


def progress_bar(total: int, initial: int, shown: bool) -> Any:
    """A bar that counts frames, and with them frames per second."""
    return tqdm(total=total, initial=initial, unit=" frames", unit_scale=True, disable=not shown)


# ---- stopping, saving and going on


class StopRequest:
    """Turns the first Ctrl-C into a request to stop after the iteration; a second one stops at once.

    SIGTERM counts as Ctrl-C: that is how a cluster says that time is up.
    """

    def __init__(self) -> None:
        self.made = False

    def __enter__(self) -> StopRequest:
        self._before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():  # Python refuses it elsewhere
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: object) -> None:
        if self.made:
            raise KeyboardInterrupt
        self.made = True
        tqdm.write("Stopping after this iteration; Ctrl-C again stops at once.")


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Writes a checkpoint; a crash meanwhile leaves the one before.

    Raises:
        OSError: it cannot be written, and why; the one before is there, and nothing of this one.
    """
    unfinished = path.with_suffix(".unfinished")
    try:
        # Opened here: torch does not tell what went wrong with files of its own.
        with unfinished.open("wb") as file:
            torch.save(state, file)
        os.replace(unfinished, path)
    except BaseException as error:
        with suppress(OSError):
            unfinished.unlink()
        reason = error if isinstance(error, OSError) else error.__context__
        if isinstance(reason, OSError):
            raise OSError(f"{path} cannot be written: {reason}") from error
        raise


def could(path: Path, write: Callable[..., object], *arguments: Any) -> bool:
    """Whether a file could be written; if not, says why, for there is more to lose than a file."""
    try:
        write(*arguments)
    except (OSError, EnvFailure) as error:
        warn(f"{path} cannot be written: {first_line(error)}")
        return False
    return True


def first_line(error: Exception) -> str:
    """What went wrong, without the traceback of the process where it did."""
    line, _, _ = str(error).partition("\n")
    return line


def warn(text: str) -> None:
    """Says what went wrong above the progress bar."""
    tqdm.write(f"warning: {text}", file=sys.stderr)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """What :func:`save_checkpoint` wrote: tensors, numbers, texts and bytes, no code."""
    if path.is_dir():
        raise ValueError(f"--resume: expected a file, as {path / 'checkpoint.pt'}, got a folder")
    if not path.exists():
        raise FileNotFoundError(f"--resume: there is no {path}")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # of bytes that it did not write it may say anything
        raise ValueError(
            f"--resume: expected a checkpoint, got {path}, which torch.load cannot read"
        ) from error
    if not isinstance(state, dict) or "config" not in state:
        raise ValueError(f"--resume: expected a checkpoint, got {path}, which holds something else")
    return state


def weights_in(learned: Any) -> Iterator[torch.Tensor]:
    """The weights in what a training has learned, however many updates it is of."""
    parts = learned.items() if isinstance(learned, dict) else enumerate(learned)
    for name, part in parts:
        if name == "parameters":
            yield part
        elif isinstance(part, (dict, list)):
            yield from weights_in(part)


def save_json(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n")


# ---- how good the policy is


@torch.no_grad()
def evaluate(
    env: EnvBase, policy: Callable[[TensorDictBase], TensorDictBase], *, max_steps: int = 27_000
) -> tuple[list[float], int]:
    """The return of one whole episode in each env, played with the likeliest actions.

    Args:
        env: an env that writes ``episode_reward`` and does not learn from what it sees.
        policy: what chooses the actions.
        max_steps: an episode that has not ended by then counts with its rewards so far, since where there is
            no time limit it may never end. Default: as long as an episode of Atari may be.

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


@torch.no_grad()
def record_video(
    env: EnvBase,
    policy: Callable[[TensorDictBase], TensorDictBase],
    path: Path,
    *,
    max_frames: int = 500,
) -> tuple[Path, bool]:
    """Films an episode of the first env, with how it begins and how it ends, as fast as the env says.

    Returns:
        The file, an mp4 or without imageio-ffmpeg a gif, and whether the episode ends there.
    """
    import imageio.v2 as imageio

    pool = pool_of(env)
    fps = frame_rate(pool)
    is_whole = False
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        root = env.reset()
        pictures: list[Any] = [pool.render(0)[0].numpy()]
        while len(pictures) < max_frames and not is_whole:
            step = env.step(policy(root))
            pictures.append(pool.render(0)[0].numpy())  # before the reset: the last one shows the end
            is_whole = bool(step["next", "done"][0])
            root = env.maybe_reset(env.step_mdp(step))
    if importlib.util.find_spec("imageio_ffmpeg") is not None:
        path = path.with_suffix(".mp4")
        even: list[Any] = [padded_to_even(picture) for picture in pictures]
        imageio.mimsave(path, even, fps=fps, macro_block_size=2)  # 16 would stretch them
    else:
        path = path.with_suffix(".gif")
        imageio.mimsave(path, pictures, duration=1000 / fps, loop=0)
    return path, is_whole


def frame_rate(pool: PoolEnv) -> float:
    """Of the first env, frames per second: ``render_fps`` of its ``metadata``, of a task's that of the env of
    Gymnasium with the same id; 30 where neither says."""
    metadata: Mapping[str, Any] = {}
    task = pool.task if isinstance(pool.task, str) else None
    with suppress(TypeError):  # no envs of Python
        metadata = pool.get_attr("metadata", 0)[0] if pool.has_attr("metadata", 0)[0] else {}
        task = None
    if task in gymnasium.registry:
        with closing(gymnasium.make(task, disable_env_checker=True)) as env:
            metadata = env.metadata
    return metadata.get("render_fps") or 30


def padded_to_even(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A picture ``[H, W, 3]`` whose last row and column are there twice where their numbers are odd.

    The usual colours of an mp4 are of two by two pixels.
    """
    height, width, _ = picture.shape
    return np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
