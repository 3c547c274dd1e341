"""What a training leaves behind: learning curve, checkpoint, evaluation."""

from __future__ import annotations

import csv
import json
import math
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from tensordict import TensorDictBase
from torchrl.envs import EnvBase
from torchrl.envs.utils import ExplorationType, set_exploration_type

from torchrl_pool import EnvFailure
from torchrl_pool.examples import say_what_is_missing

try:
    from tqdm import tqdm
except ImportError as error:
    say_what_is_missing(error)

tqdm.set_lock(threading.RLock())  # its own is one of processes, for which Python would start a process
WINDOW = 100  # finished episodes that a point of the learning curve averages
Row = dict[str, float]


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


def progress_bar(total: int, initial: int, shown: bool) -> Any:
    return tqdm(total=total, initial=initial, unit=" frames", unit_scale=True, disable=not shown)


# ---- stopping and saving


class StopRequest:
    """Turns Ctrl-C or SIGTERM into a request to stop after the iteration; a second one stops at once."""

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
def evaluate(
    env: EnvBase, policy: Callable[[TensorDictBase], TensorDictBase], *, max_steps: int = 27_000
) -> tuple[list[float], int]:
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
