"""Trains PPO on any task of this package: ``python -m torchrl_pool.examples.ppo --task HalfCheetah-v5``."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import AddStateIndependentNormalScale, TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.data import Categorical as CategoricalSpec
from torchrl.envs import (
    ClipTransform,
    Compose,
    DoubleToFloat,
    EnvBase,
    SignTransform,
    TransformedEnv,
    VecNormV2,
)
from torchrl.modules import IndependentNormal, ProbabilisticActor, TanhNormal
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from torchrl_pool import PoolCollector, PoolEnv, fuse, task_info
from torchrl_pool.examples.ppo_settings import FOR_FAMILY, PRESETS, Config, check
from torchrl_pool.examples.training_run import (
    Clock,
    Curve,
    StopRequest,
    ToFloat,
    evaluate,
    load_checkpoint,
    mean_and_spread,
    mlp,
    nature_cnn,
    orthogonal,
    plot_curves,
    progress_bar,
    record_video,
    save_checkpoint,
    save_json,
    time_steps,
)
from torchrl_pool.training import (
    PPOUpdate,
    ReturnScaling,
    collector_state,
    estimate_advantages,
    load_collector_state,
)

COMPILE_FROM = 50_000  # updates of a small network, after which compiling has paid


# ---- env and networks


def make_env(config: Config, num_envs: int, seed: int, frozen: VecNormV2 | None = None) -> EnvBase:
    """The pool with its transforms, all of them in the executor.

    Args:
        config: the training's.
        num_envs: simulators.
        seed: theirs.
        frozen: the normaliser of an env to evaluate in; None: the env is one to train in.
    """
    is_atari = task_info(config.task).family == "atari"
    info_keys = ["episode_reward", "step_count", *(["life_lost"] if config.episodic_life else [])]
    options: dict[str, Any] = {"repeat_action_probability": config.sticky_actions} if is_atari else {}
    pool = PoolEnv(
        config.task, num_envs, seed=seed, info_keys=info_keys, categorical_action_encoding=True, **options
    )
    transforms: list[Any] = []
    observation = pool.observation_spec["observation"]
    if config.normalize_observations:
        normaliser = frozen or VecNormV2(["observation"], decay=1.0, eps=1e-4, reduce_batch_dims=True)
        transforms += [normaliser, ClipTransform(["observation"], low=-10.0, high=10.0)]
    if observation.dtype is torch.float64:
        transforms.append(DoubleToFloat(in_keys=["observation"]))
    if config.sign_rewards:  # episode_reward, which the executor adds up, stays the game's
        transforms.append(SignTransform(in_keys=["reward"]))
    if pool.action_spec.dtype.is_floating_point and config.policy == "normal":
        transforms.append(clip_actions(pool))
    return fuse(TransformedEnv(pool, Compose(*transforms))) if transforms else pool


def clip_actions(pool: PoolEnv) -> ClipTransform:
    """Gives simulators the nearest actions that they can take; the policy learns from its own."""
    space = pool.action_spec_unbatched.space
    if bool((space.low != space.low[0]).any() or (space.high != space.high[0]).any()):
        raise ValueError("--policy: expected tanh-normal where the elements of an action differ in bounds")
    bounds = {"low": space.low[0].item(), "high": space.high[0].item()}
    return ClipTransform(in_keys=[], out_keys=[], in_keys_inv=["action"], out_keys_inv=["action"], **bounds)


def pool_of(env: EnvBase) -> PoolEnv:
    """The pool below an env's transforms."""
    pool = env.base_env if isinstance(env, TransformedEnv) else env
    assert isinstance(pool, PoolEnv)
    return pool


def normaliser_of(env: EnvBase) -> VecNormV2 | None:
    """What normalises an env's observations."""
    transforms = env.transform if isinstance(env, TransformedEnv) else []
    return next((one for one in transforms if isinstance(one, VecNormV2)), None)


def make_networks(env: EnvBase, config: Config) -> tuple[ProbabilisticActor, TensorDictModule]:
    """Actor and critic: two of layers of their own, or two heads on one network for pictures."""
    pool = pool_of(env)
    spec, actions = pool.observation_spec_unbatched["observation"], pool.action_spec_unbatched
    is_discrete = isinstance(actions, CategoricalSpec)
    out_features = actions.space.n if is_discrete else actions.shape[-1]
    trunk: list[TensorDictModule] = []
    if spec.dtype is torch.uint8:
        trunk = [TensorDictModule(nature_cnn(spec.shape[0]), ["observation"], ["features"])]
        in_key = "features"
        policy_network: nn.Module = orthogonal(nn.Linear(512, out_features), 0.01)
        value_network: nn.Module = orthogonal(nn.Linear(512, 1), 1.0)
    else:
        in_key = "observation"
        states = [] if spec.dtype.is_floating_point else states_of(spec)
        needs_cast = [ToFloat(states)] if states else []
        sizes = [sum(states) or spec.shape[-1], *map(int, config.hidden.split(","))]
        policy_network = nn.Sequential(*needs_cast, *mlp([*sizes, out_features], nn.Tanh, 0.01))
        value_network = nn.Sequential(*needs_cast, *mlp([*sizes, 1], nn.Tanh, 1.0))
    parameters = ["logits"]
    draw: dict[str, Any] = {"distribution_class": torch.distributions.Categorical}
    if not is_discrete:
        policy_network = nn.Sequential(
            policy_network, AddStateIndependentNormalScale(out_features, scale_lb=1e-8)
        )
        parameters, draw = ["loc", "scale"], {"distribution_class": IndependentNormal}
        if config.policy == "tanh-normal":
            bounds = {"low": actions.space.low, "high": actions.space.high}
            draw = {"distribution_class": TanhNormal, "distribution_kwargs": bounds}
    head = TensorDictModule(policy_network, [in_key], parameters)
    actor = ProbabilisticActor(
        TensorDictSequential(*trunk, head) if trunk else head,
        in_keys=parameters,
        return_log_prob=True,
        **draw,
    )
    value = TensorDictModule(value_network, [in_key], ["state_value"])
    return actor, TensorDictSequential(*trunk, value) if trunk else value


def states_of(spec: Any) -> list[int]:
    """How many values each number of an observation of a toy text can have."""
    return [box.n for box in getattr(spec.space, "boxes", [spec.space])]


# ---- the algorithm


class Training:
    """A training from its configuration: :meth:`iterate` until :attr:`frames` are enough.

    Args:
        config: what it depends on.
        folder: where its curve goes.
        compile: whether updates are compiled.
        state: of a training of the same configuration, to go on from.
    """

    def __init__(
        self, config: Config, folder: Path, *, compile: bool = False, state: dict[str, Any] | None = None
    ) -> None:
        torch.manual_seed(config.seed)
        self.config, self.clock, self.curve = config, Clock(), Curve(folder)
        steps = math.ceil(config.frames_per_batch / config.num_envs)
        self.frames_per_batch = steps * config.num_envs
        self.num_iterations = math.ceil(config.total_frames / self.frames_per_batch)
        self.iteration, self.seconds, self.was_stopped = 0, 0.0, False

        self.env = make_env(config, config.num_envs, config.seed)
        self.actor, critic = make_networks(self.env, config)
        self.advantage = GAE(gamma=config.gamma, lmbda=config.gae_lambda, value_network=critic)
        self.loss = ClipPPOLoss(
            self.actor,
            critic,
            clip_epsilon=config.clip_epsilon,
            clip_value=config.clip_value,
            critic_coeff=config.value_coef,
            loss_critic_type="l2",
            entropy_bonus=config.entropy_coef > 0,
            entropy_coeff=config.entropy_coef,
            normalize_advantage=config.normalize_advantage,
        )
        adam = partial(torch.optim.Adam, lr=config.learning_rate, eps=config.adam_eps, fused=True)
        self.update = PPOUpdate(self.loss, adam, max_grad_norm=config.max_grad_norm or None, compile=compile)
        self.scaling = ReturnScaling(config.num_envs, config.gamma) if config.normalize_rewards else None
        # It acts with the very networks that are trained, so there are no weights to send to it.
        self.collector = PoolCollector(
            self.env, self.actor, frames_per_batch=self.frames_per_batch, total_frames=-1
        )
        self._batches = iter(self.collector)
        if state is not None:
            self._load(state)
        time_steps(pool_of(self.env), self.clock)

    @property
    def frames(self) -> int:
        return self.iteration * self.frames_per_batch

    @property
    def is_over(self) -> bool:
        return self.iteration >= self.num_iterations

    def iterate(self) -> None:
        """Collects a batch ``[num_envs, steps]``, learns from it, and adds a row to the curve."""
        start = time.perf_counter()
        with self.clock.timed("collecting"):
            batch = next(self._batches)
        self.curve.note_episodes(batch)
        self._anneal()
        with self.clock.timed("training"):
            self._prepare(batch)
            losses, columns = self._learn(batch)
        with self.clock.timed("other"):
            figures = self.update.diagnostics(columns)
        self.iteration += 1
        seconds = time.perf_counter() - start
        self.seconds += seconds
        figures |= {"learning_rate": self.update.optimizer.param_groups[0]["lr"]}
        row = {
            "frames": self.frames,
            "seconds": self.seconds,
            "steps_per_second": self.frames_per_batch / seconds,
        }
        with self.clock.timed("other"):
            self.curve.add({**row, **figures, **losses})
        self.clock.end_iteration()

    def _anneal(self) -> None:
        config, left = self.config, 1 - self.iteration / self.num_iterations
        if config.anneal_learning_rate:
            self.update.optimizer.param_groups[0]["lr"] = config.learning_rate * left
        if config.anneal_clip_epsilon:
            self.loss.clip_epsilon.fill_(config.clip_epsilon * left)

    def _prepare(self, batch: TensorDictBase) -> None:
        """Rewards and flags as they are to be learned from."""
        after = batch.get("next")
        if self.config.episodic_life:
            for key in ("done", "terminated"):
                after.set(key, after.get(key) | after.get("life_lost"))
        if self.scaling is not None:
            after.set("reward", self.scaling(after.get("reward"), after.get("done")))

    def _learn(self, batch: TensorDictBase) -> tuple[dict[str, float], list[torch.Tensor]]:
        losses: dict[str, torch.Tensor] = {}
        columns: list[torch.Tensor] = []
        for _ in range(self.config.epochs):
            if not columns or self.config.advantages_each_epoch:
                # Where only the time limit ended an episode, the value of what would have followed counts.
                columns = self.update.columns(estimate_advantages(self.advantage, batch))
            for indices in torch.split(torch.randperm(batch.numel()), self.config.minibatch_size):
                losses = self.update(columns, indices)
        return {name: loss.item() for name, loss in losses.items()}, columns

    # ---- before and after

    def state_dict(self) -> dict[str, Any]:
        """All that the rest of the training depends on."""
        return {
            "config": asdict(self.config),
            "iteration": self.iteration,
            "seconds": self.seconds,
            "update": self.update.state_dict(),
            "collector": collector_state(self.collector),
            "scaling": None if self.scaling is None else self.scaling.state_dict(),
            "curve": self.curve.state_dict(),
            "generator": torch.get_rng_state(),
        }

    def _load(self, state: dict[str, Any]) -> None:
        self.iteration, self.seconds = state["iteration"], state["seconds"]
        self.update.load_state_dict(state["update"])
        load_collector_state(self.collector, state["collector"])
        if self.scaling is not None:
            self.scaling.load_state_dict(state["scaling"])
        self.curve.load_state_dict(state["curve"])
        torch.set_rng_state(state["generator"])  # last: all that was built above has drawn from it

    def evaluation_env(self, num_envs: int) -> EnvBase:
        """An env of its own, that normalises with today's statistics and learns nothing."""
        normaliser = normaliser_of(self.env)
        frozen = None if normaliser is None else normaliser.frozen_copy()
        config = replace(self.config, sign_rewards=False, episodic_life=False)
        return make_env(config, num_envs, self.config.seed + 1_000_000, frozen)

    def close(self) -> None:
        self.curve.close()
        self.collector.shutdown()


def train(config: Config, options: argparse.Namespace, folder: Path) -> Training:
    """Trains, and leaves curve, checkpoint and what else was asked for in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    state = load_checkpoint(options.resume) if options.resume else None
    updates = config.total_frames // config.minibatch_size * config.epochs
    is_small = task_info(config.task).family != "atari"
    torch.set_num_threads(options.torch_threads or (1 if is_small else torch.get_num_threads()))
    compile = options.compile == "yes" or (options.compile == "auto" and is_small and updates >= COMPILE_FROM)
    training = Training(config, folder, compile=compile, state=state)
    save_json(folder / "config.json", asdict(config))
    checkpoint, saved = folder / "checkpoint.pt", time.monotonic()
    total = training.num_iterations * training.frames_per_batch
    shown = not options.quiet
    try:
        with StopRequest() as stop, progress_bar(total, training.frames, shown) as bar:
            while not (training.is_over or stop.made or training.curve.mean_return >= options.until_return):
                training.iterate()
                bar.update(training.frames_per_batch)
                bar.set_postfix_str(f"return {training.curve.mean_return:.1f}")
                if time.monotonic() - saved > options.checkpoint_seconds:
                    save_checkpoint(checkpoint, training.state_dict())
                    saved = time.monotonic()
            save_checkpoint(checkpoint, training.state_dict())
        training.was_stopped = stop.made
        finish(training, options, folder)
    finally:
        training.close()
    return training


def finish(training: Training, options: argparse.Namespace, folder: Path) -> None:
    """Draws the curve, evaluates, films, and says where the time went."""
    config = training.config
    plot_curves([training.curve.rows], f"PPO on {config.task} (seed {config.seed})", folder / "curve.png")
    print(
        f"{config.task}, seed {config.seed}: {training.frames} frames in {training.seconds:.1f} s "
        f"({training.frames / max(training.seconds, 1e-9):.0f} frames/s), "
        f"mean return {training.curve.mean_return:.1f}; {folder}"
    )
    if training.was_stopped:
        print(f"Stopped; go on with --resume {folder / 'checkpoint.pt'}")
    elif options.evaluate:
        env = training.evaluation_env(options.evaluate)
        returns = evaluate(env, training.actor)
        env.close()
        print(f"Evaluation, {len(returns)} episodes: {mean_and_spread(returns)}")
        save_json(folder / "evaluation.json", {"returns": returns, "mean": fmean(returns)})
    if options.video:
        env = training.evaluation_env(1)
        print(f"Video: {record_video(env, training.actor, folder / 'video')}")
        env.close()
    print(training.clock.summary())


# ---- the command line


def make_parser() -> argparse.ArgumentParser:
    """The options: those of the program, and one for each field of :class:`Config`."""
    presets = "\n".join(f"  {name:16}{source}" for name, (source, _) in PRESETS.items())
    parser = argparse.ArgumentParser(
        prog="python -m torchrl_pool.examples.ppo",
        usage="%(prog)s [--task TASK] [--preset NAME] [the run] [settings]",
        description="Trains PPO (Schulman et al. 2017) on a task of torchrl_pool. Leaves the learning curve\n"
        "(CSV, PNG, TensorBoard where it is installed) and a checkpoint in a folder. Ctrl-C saves\n"
        "and stops.",
        epilog=f"presets, with their sources:\n{presets}\n\nWhat is set by hand goes before a preset.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run = parser.add_argument_group("the run")
    run.add_argument(
        "--preset", choices=PRESETS, metavar="NAME", help="settings, listed below; default: by task"
    )
    run.add_argument("--seeds", type=int, nargs="+", metavar="SEED", help="one training after the other")
    run.add_argument("--output", type=Path, default=Path("runs"), metavar="FOLDER", help="default: runs")
    run.add_argument("--resume", type=Path, metavar="CHECKPOINT", help="go on from it, with its settings")
    run.add_argument("--timings", type=Path, metavar="FILE.json", help="write where the time went")
    run.add_argument("--evaluate", type=int, default=10, metavar="N", help="episodes at the end; default: 10")
    run.add_argument(
        "--until-return", type=float, default=math.inf, metavar="R", help="stop when the mean is that"
    )
    run.add_argument("--video", action="store_true", help="film an episode at the end (mp4 or gif)")
    run.add_argument(
        "--compile",
        choices=("auto", "yes", "no"),
        default="auto",
        help=f"torch.compile for updates; auto: small networks from {COMPILE_FROM:,} updates on",
    )
    run.add_argument(
        "--torch-threads", type=int, default=0, metavar="N", help="default: 1 for small networks"
    )
    run.add_argument("--checkpoint-seconds", type=float, default=300.0, metavar="S", help="default: 300")
    run.add_argument("--quiet", action="store_true", help="no progress bar")
    settings = parser.add_argument_group("settings (default: the preset's)")
    for one in fields(Config):
        name, help = "--" + one.name.replace("_", "-"), one.metadata["help"]
        if isinstance(one.default, bool):
            settings.add_argument(name, action=argparse.BooleanOptionalAction, default=None, help=help)
        else:
            choices = one.metadata.get("choices")
            metavar = None if choices else type(one.default).__name__.upper()
            kind = type(one.default)
            settings.add_argument(name, type=kind, metavar=metavar, choices=choices, help=help)
    return parser


def config_of(options: argparse.Namespace) -> Config:
    """What was given, then the preset, then the defaults; or a checkpoint's, changed by what was given."""
    given = {
        one.name: getattr(options, one.name)
        for one in fields(Config)
        if getattr(options, one.name) is not None
    }
    if options.resume:
        return replace(Config(**load_checkpoint(options.resume)["config"]), **given)
    preset = options.preset
    if preset is None:
        preset = FOR_FAMILY.get(task_info(given.get("task", Config.task)).family, "classic")
    return Config(**{**PRESETS[preset][1], **given})


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = make_parser()
    options = parser.parse_args(arguments)
    if options.seeds and options.resume:
        parser.error("--seeds: expected one seed with --resume")
    try:
        config = config_of(options)
        check(config)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    runs, timings = [], []
    for seed in options.seeds or [config.seed]:
        name = f"ppo-{config.task.replace('/', '-')}-{seed}"
        folder = options.resume.parent if options.resume else options.output / name
        training = train(replace(config, seed=seed), options, folder)
        runs.append(training.curve.rows)
        timings.append(training.clock.timings())
        if training.was_stopped:
            break
    if len(runs) > 1:
        path = options.output / f"ppo-{config.task.replace('/', '-')}.png"
        plot_curves(runs, f"PPO on {config.task} (seeds {', '.join(map(str, options.seeds))})", path)
        last = [rows[-1]["return"] for rows in runs]
        print(f"Mean return over {len(last)} seeds: {mean_and_spread(last)}; {path}")
    if options.timings:
        save_json(options.timings, {part: sum(one[part] for one in timings) for part in timings[0]})
    return 0


if __name__ == "__main__":
    sys.exit(main())
