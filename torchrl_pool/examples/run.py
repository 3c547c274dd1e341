"""What a training is: its iterations, its checkpoints, and what it leaves."""

from __future__ import annotations

import copy
import importlib
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Literal

import torch
from tensordict import TensorDictBase
from torch import nn
from torchrl.envs import EnvBase, InitTracker
from torchrl.modules import get_primers_from_module

from torchrl_pool import EnvFailure
from torchrl_pool.examples import results, say_what_is_missing
from torchrl_pool.examples.envs import make_env, normalizer_of
from torchrl_pool.examples.options import RunOptions, expect, marks_of
from torchrl_pool.examples.results import Curve, Policy, Row, could, first_line, is_same_file, warn

try:
    from tqdm import tqdm
except ImportError as error:
    say_what_is_missing(error)

CHECKPOINT, EVALUATION, CURVE = "checkpoint.pt", "evaluation.json", "curve.csv"
# What an earlier training may have left that this one need not write again.
RESULTS = {CHECKPOINT, EVALUATION, CURVE, "curve.png", "video.mp4", "video.gif"}
RESULTS |= {"population.csv", "population.png"}
CPU = torch.device("cpu")
Train = Callable[[Any, "Run"], Iterator[Row]]
"""An algorithm: of its settings and its run it builds everything, and hands :meth:`Run.begin` on. Each row
after that one is an iteration."""


class Run:
    """One training.

    Args:
        train: the algorithm.
        config: its settings.
        folder: what is left goes there.
        compile: whether updates are compiled.
        device: of networks and batches; simulators and evaluations are on the CPU.
        storing_device: of a replay buffer; default: the same.
    """

    env: EnvBase
    actor: Any  # the policy, as it is evaluated
    frames_per_batch: int
    num_iterations: int

    def __init__(
        self,
        train: Train,
        config: Any,
        folder: Path,
        *,
        compile: bool = False,
        device: torch.device = CPU,
        storing_device: torch.device | None = None,
    ) -> None:
        self.config, self.folder, self.compile, self.device = config, folder, compile, device
        self.storing_device = storing_device or device
        self.curve = Curve(folder)
        self.iteration, self.seconds = 0, 0.0
        self.ending: Literal["", "stopped", "diverged", "failed"] = ""  # how it has ended before its end
        self.was_stopped = False
        self.parts: dict[str, Any] = {}
        self.members: list[Run] = []  # of a population
        self.adapted: Sequence[str] = ()  # settings that are changed while it trains
        self.returns: list[float] = []  # of the evaluation
        self._saved_part = ""  # why there are networks only in the last checkpoint
        self._rows = train(config, self)
        next(self._rows)

    # ---- what algorithms call

    def begin(self, env: EnvBase, actor: Any, frames_per_batch: int, **parts: Any) -> Row:
        """Takes note of what an algorithm has built; to be yielded, as an empty row.

        Args:
            env: that it trains in.
            actor: its policy, as it is to be evaluated.
            frames_per_batch: env steps of an iteration.
            parts: what has a state of its own, which checkpoints hold: ``actors`` first, which may be
                collecting, then ``update``, which has the optimizer.
        """
        self.env, self.actor, self.frames_per_batch, self.parts = env, actor, frames_per_batch, parts
        self.num_iterations = math.ceil(self.config.total_frames / frames_per_batch)
        return {}

    def iterations(self) -> Iterator[int]:
        """The numbers of the iterations that are still to be made."""
        while self.iteration < self.num_iterations:
            yield self.iteration

    def note(self, batch: TensorDictBase) -> None:
        """Adds the episodes that end in a batch ``[N, T]`` to the curve; ends them with lives if asked to."""
        after = batch.get("next")
        if after.get("done").any():
            self.curve.note_episodes(batch)
        if self.config.episodic_life:
            for key in ("done", "terminated"):
                after.set(key, after.get(key) | after.get("life_lost"))

    # ---- iterations

    @property
    def frames(self) -> int:
        """Env steps until now."""
        return self.iteration * self.frames_per_batch

    @property
    def is_over(self) -> bool:
        return self.iteration >= self.num_iterations

    @property
    def learners(self) -> list[Run]:
        """The members of a population, or this one."""
        return self.members or [self]

    @property
    def best(self) -> Run:
        """Of the learners the one whose last episodes went best."""
        return max(self.learners, key=lambda one: one.curve.objective)

    @property
    def is_finite(self) -> bool:
        """Whether all weights are finite numbers."""
        groups = [group for one in self.learners for group in one.parts["update"].optimizer.param_groups]
        return all(bool(weights.isfinite().all()) for group in groups for weights in group["params"])

    def iterate(self) -> None:
        """Makes an iteration, and adds its row to the curve."""
        start, waited = time.perf_counter(), self._waited
        figures = next(self._rows)
        self.iteration += 1
        seconds = time.perf_counter() - start
        self.seconds += seconds
        speed = {"seconds": self.seconds, "steps_per_second": self.frames_per_batch / seconds}
        collecting = {"collecting_seconds": self._waited - waited}
        self.curve.add({"frames": self.frames, **speed, **collecting, **figures})

    @property
    def _waited(self) -> float:
        """Seconds that learners have waited for batches."""
        return math.fsum(one.parts["actors"].seconds for one in self.learners)

    def _stays_finite(self) -> bool:
        """Makes an iteration; returns whether weights are finite. Errors that NaNs lead to are not raised."""
        try:
            self.iterate()
        except Exception:
            if self.is_finite:
                raise
        return self.is_finite

    # ---- checkpoints

    def networks(self) -> dict[str, Any]:
        """What has been learned: weights, and statistics of observations."""
        if self.members:
            return {
                "members": [
                    {**one.networks(), "config": asdict(one.config), "curve": one.curve.state_dict()}
                    for one in self.members
                ]
            }
        normalizer = normalizer_of(self.env)
        statistics = {} if normalizer is None else copy.deepcopy(dict(normalizer.state_dict()))
        return {"update": self.parts["update"].state_dict(), "normalizer": statistics}

    def load_networks(self, state: dict[str, Any]) -> None:
        """Takes over what another training has learned."""
        self.parts["update"].load_state_dict(state["update"])
        normalizer = normalizer_of(self.env)
        if normalizer is not None:
            normalizer.load_state_dict(state["normalizer"])

    def state_dict(self) -> dict[str, Any]:
        """All that the rest of the training depends on: tensors, numbers, texts and bytes."""
        parts = {name: part.state_dict() for name, part in self.parts.items()}  # actors may draw until then
        return {
            "config": asdict(self.config),
            "compile": self.compile,
            "threads": torch.get_num_threads(),
            "iteration": self.iteration,
            "seconds": self.seconds,
            "curve": self.curve.state_dict(),
            "generator": torch.get_rng_state(),
            "device_generator": None if self.device == CPU else self._generators.get_rng_state(self.device),
            **({"members": [one.state_dict() for one in self.members]} if self.members else self.networks()),
            **parts,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a state; torch's generator goes back too."""
        self.set(**{name: state["config"][name] for name in self.adapted})
        for name, part in self.parts.items():
            part.load_state_dict(state[name])
        for one, saved in zip(self.members, state.get("members", ()), strict=True):
            one.load_state_dict(saved)
        self.iteration, self.seconds = state["iteration"], state["seconds"]
        self.curve.load_state_dict(state["curve"])
        if self.config.learning_rate != state["config"]["learning_rate"]:  # else it may have been adapted
            self.set(learning_rate=self.config.learning_rate)
        torch.set_rng_state(state["generator"])
        if self.device != CPU and state.get("device_generator") is not None:
            self._generators.set_rng_state(state["device_generator"], self.device)

    def resume(self, path: Path) -> None:
        """Goes on from a checkpoint; one of other networks or envs is a ``ValueError``."""
        state = results.load_checkpoint(path)
        why_not = f"{path}: {state.get('not_whole')}"
        expect("not_whole" not in state, "resume", "a checkpoint of simulators, too", why_not)
        try:
            self.load_state_dict(state)
            if not self.is_finite:
                raise ValueError("its weights are not finite")
        except (RuntimeError, ValueError, KeyError) as error:
            raise ValueError(f"--resume: expected settings that {path} can go on with: {error}") from error

    @property
    def _generators(self) -> Any:
        return torch.get_device_module(self.device)

    def set(self, **settings: Any) -> None:
        """Changes settings that the algorithm looks at before each iteration, or that are its optimizer's."""
        self.config = replace(self.config, **settings)
        if "learning_rate" in settings and "update" in self.parts:
            for group in self.parts["update"].optimizer.param_groups:
                group["lr"] = settings["learning_rate"]

    # ---- from its beginning to its end

    def clean_folder(self, resumed: Path | None) -> None:
        """Deletes what an earlier training has left; of that which is resumed, what later weights outdate."""
        stale = {EVALUATION}
        if not is_same_file(self.folder / CHECKPOINT, resumed):
            stale = RESULTS - ({CURVE} if resumed else set())  # which has just been written
        for file in (self.folder / name for name in stale):
            if file.is_file():
                file.unlink()

    def train(self, options: RunOptions, title: str, program: str) -> bool:
        """Trains, and leaves its results; returns whether weights stayed finite, and all could be written.

        Args:
            options: of the program.
            title: of pictures.
            program: what loads the policy.
        """
        self._program, self._last = program, options.resume  # the file from which this training can go on
        total, saved = self.num_iterations * self.frames_per_batch, time.monotonic()
        bar_of: dict[str, Any] = {"unit": " frames", "unit_scale": True, "disable": options.quiet}
        try:
            with results.stop_request() as stop, tqdm(**bar_of, total=total, initial=self.frames) as bar:
                bar.set_postfix_str("compiling the update" if self.compile else "first batch")
                while not (self.is_over or stop.made or self.curve.has_reached(options.until_return)):
                    try:
                        is_finite = self._stays_finite()
                    except (EnvFailure, ConnectionError) as error:
                        warn(f"the training ends here: {first_line(error)}")
                        self.ending = "failed"
                        if self._saved_part or not is_same_file(self.folder / CHECKPOINT, self._last):
                            self._save({"not_whole": first_line(error), **self.networks()})
                        break
                    if not is_finite:
                        self.ending = "diverged"
                        break
                    bar.update(self.frames_per_batch)
                    bar.set_postfix_str(self.curve.progress)
                    if time.monotonic() - saved > options.checkpoint_seconds:
                        self.save()
                        saved = time.monotonic()
                else:
                    self.ending = "stopped" if stop.made else ""
                is_saved = self.ending in ("", "stopped") and self.save()
                self.was_stopped = stop.made  # perhaps meanwhile
            return self._finish(options, title) and is_saved
        finally:
            self.close()

    def save(self) -> bool:
        """Saves all that the training goes on from; where simulators cannot be saved, what it has learned."""
        try:
            state = self.state_dict()
        except NotImplementedError as error:
            state = {"not_whole": first_line(error), **self.networks()}
        except (EnvFailure, ConnectionError) as error:  # of a batch ahead; the next iteration raises it, too
            warn(f"{self.folder / CHECKPOINT} cannot be written: {first_line(error)}")
            return False
        return self._save(state)

    def _save(self, state: dict[str, Any]) -> bool:
        path = self.folder / CHECKPOINT
        try:
            results.save_checkpoint(path, {**state, "config": asdict(self.config), "program": self._program})
        except OSError as error:
            warn(str(error))
            return False
        self._last, self._saved_part = path, state.get("not_whole", "")
        return True

    def _finish(self, options: Any, title: str) -> bool:
        """Draws, evaluates and records what has not diverged; returns whether all could be written."""
        config, folder, curve = self.config, self.folder, self.curve
        picture, title = folder / "curve.png", f"{title} on {config.task} (seed {config.seed})"
        went_well = [could(picture, results.plot_curves, [curve.rows], title, picture)]
        seconds = max(self.seconds, 1e-9)
        collecting = sum(row["collecting_seconds"] for row in curve.rows)
        print(
            f"{config.task}, seed {config.seed}: {self.frames} frames in {self.seconds:.1f} s "
            f"({self.frames / seconds:.0f} frames/s, {collecting / seconds:.0%} of the time in collecting), "
            f"{curve.progress}; {folder}"
        )
        if self.ending == "diverged":
            left = f"{self._last} holds the last finite ones" if self._last else "none were saved"
            warn(f"the training has diverged: weights are not finite after {self.frames} frames; {left}")
        elif self._saved_part:
            print(f"The checkpoint holds networks only, no training goes on from it: {self._saved_part}")
        elif self.ending and self._last:
            print(f"{self.ending.capitalize()}; go on with --resume {self._last}")
        if options.evaluate and not self.ending and not self.was_stopped:
            went_well.append(could(folder / EVALUATION, self._evaluate, options.evaluate))
        if options.video and self.ending in ("", "stopped"):
            went_well.append(could(folder / "video", self._record))
        return all(went_well)

    def evaluation_env(self, num_envs: int, *, render: bool = False) -> EnvBase:
        """An env of its own, that normalizes with today's statistics and learns nothing."""
        for one in self.learners:
            one.parts["actors"].rest()
        if self.members:
            return self.best.evaluation_env(num_envs, render=render)
        normalizer = normalizer_of(self.env)
        frozen = None if normalizer is None else normalizer.frozen_copy()
        settings = replace(self.config, sign_rewards=False, episodic_life=False)
        env = make_env(settings, num_envs, self.config.seed + 1_000_000, frozen, render=render)
        if isinstance(self.actor, nn.Module):
            memory = get_primers_from_module(self.actor, warn=False)
            if memory is not None:
                env = env.append_transform(InitTracker()).append_transform(memory)
        return env

    @property
    def _policy_to_play(self) -> Any:
        """The policy, where simulators are."""
        actor = self.best.actor
        return actor if self.device == CPU else copy.deepcopy(actor).to(CPU)

    def _evaluate(self, episodes: int) -> None:
        """Plays some episodes, and leaves their returns in the training's folder."""
        print(f"Evaluation, {episodes} episodes: ", end="", flush=True)
        with closing(self.evaluation_env(episodes)) as env:
            self.returns, unended = results.evaluate(env, self._policy_to_play)
        returns = self.returns
        spread = f"{fmean(returns):.1f} ± {stdev(returns) if len(returns) > 1 else 0:.1f}"
        print(spread, f"({unended} had not ended when it was cut off)" * (unended > 0))
        results.save_json(self.folder / EVALUATION, {"returns": returns, "mean": fmean(returns)})

    def _record(self) -> None:
        """Leaves a video of an episode in the training's folder, and sends it to the logger."""
        print("Video: ", end="", flush=True)
        with closing(self.evaluation_env(1, render=True)) as env:
            pictures, is_whole = results.record_video(env, self._policy_to_play)
        path = results.save_video(pictures, results.frame_rate(self.config.task), self.folder / "video")
        print(path if is_whole else f"{path} (the beginning of an episode)")
        if self.curve.logger is not None:
            results.log_video(self.curve.logger, pictures, path, self.frames)

    def close(self) -> None:
        """Ends threads, simulators and the logger."""
        for part in [*self.parts.values(), *self.members]:
            if hasattr(part, "close"):
                part.close()
        if self.curve.logger is not None:
            results.close_logger(self.curve.logger)
            self.curve.logger = None


def load_policy(folder: str | Path, num_envs: int = 1, *, render: bool = False) -> tuple[Policy, EnvBase]:
    """See :func:`torchrl_pool.examples.load_policy`."""
    path = Path(folder)
    state = results.load_checkpoint(path / CHECKPOINT if path.is_dir() else path)
    if "program" not in state:
        raise ValueError(f"expected a checkpoint that names its program, got {path}, of an earlier release")
    program = importlib.import_module(f"torchrl_pool.examples.{state['program']}").PROGRAM
    program.prepare()
    if "members" in state:  # a population's best
        state = max(state["members"], key=lambda one: fmean(one["curve"]["returns"] or [-math.inf]))
    alone = {"num_envs": num_envs, "architecture": "synchronous", "actors": 1, "population": 1}
    known = marks_of(program.config)
    config = {**state["config"], **alone, "parallel": False}
    config = program.config(**{name: value for name, value in config.items() if name in known})
    with tempfile.TemporaryDirectory() as nothing:
        run = Run(program.train, config, Path(nothing))
    try:
        run.load_networks(state)
        for parameter in run.actor.parameters():
            parameter.requires_grad_(False)
        return run.actor, run.evaluation_env(num_envs, render=render)
    finally:
        run.close()
