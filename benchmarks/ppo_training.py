"""Seconds of a whole iteration of PPO, collecting and training, beside those of others.

The same task, networks and settings (2,048 frames, ten epochs of minibatches of 64) on each side: this
package's example, compiled and not, Stable-Baselines3 with a DummyVecEnv of 8 Python envs and VecNormalize,
PufferLib 3.0 with the same number of them, its own way to normalise and Adam, and TorchRL's
``sota-implementations/ppo/ppo_mujoco.py`` with its one GymEnv. Each side is a process of its own, and their
iterations take turns. ``--sb3-python`` and ``--pufferlib-python`` name interpreters of environments that have
those:

    python -m venv sb3 && sb3/bin/pip install torch==2.13.0 stable-baselines3 'gymnasium[mujoco]'
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

FRAMES, MINIBATCH, EPOCHS, NUM_ENVS = 2048, 64, 10, 8
Sample = dict[str, float]  # seconds of collecting and of training


# ---- the sides, each in a process of its own; they import what their environments have


def pool_side(task: str, threads: int, *, compile: bool) -> Iterator[Sample]:
    import torch

    from torchrl_pool.examples.ppo import PROGRAM, Config
    from torchrl_pool.examples.run import Run

    torch.set_num_threads(threads)
    config: Config = PROGRAM.parse(["--preset", "sb3-mujoco", "--task", task])[1]
    assert (config.frames_per_batch, config.minibatch_size, config.epochs) == (FRAMES, MINIBATCH, EPOCHS)
    with tempfile.TemporaryDirectory() as folder:
        run = Run(PROGRAM.train, config, Path(folder), compile=compile)
        run.iterate()  # it warms up, and compiles
        while True:
            start = time.perf_counter()
            run.iterate()
            total, collecting = time.perf_counter() - start, run.curve.rows[-1]["collecting_seconds"]
            yield {"collecting": collecting, "training": total - collecting}


def sb3_side(task: str, threads: int) -> Iterator[Sample]:
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    torch.set_num_threads(threads)
    seconds: list[float] = []

    class Timed(PPO):
        def collect_rollouts(self, *args: Any, **kwargs: Any) -> bool:
            start = time.perf_counter()
            try:
                return super().collect_rollouts(*args, **kwargs)
            finally:
                seconds.append(time.perf_counter() - start)

        def train(self) -> None:
            start = time.perf_counter()
            super().train()
            seconds.append(time.perf_counter() - start)

    env = VecNormalize(make_vec_env(task, NUM_ENVS))
    model = Timed(
        "MlpPolicy", env, n_steps=FRAMES // NUM_ENVS, batch_size=MINIBATCH, n_epochs=EPOCHS, device="cpu"
    )
    while True:
        seconds.clear()
        model.learn(FRAMES, reset_num_timesteps=False)
        yield {"collecting": seconds[0], "training": seconds[1]}


def torchrl_side(task: str, threads: int) -> Iterator[Sample]:
    import torch
    from tensordict.nn import AddStateIndependentNormalScale, TensorDictModule
    from torch import nn
    from torchrl.collectors import Collector
    from torchrl.data import LazyTensorStorage, SamplerWithoutReplacement, TensorDictReplayBuffer
    from torchrl.envs import (
        ClipTransform,
        Compose,
        DoubleToFloat,
        GymEnv,
        RewardSum,
        StepCounter,
        TransformedEnv,
        VecNorm,
    )
    from torchrl.modules import MLP, ProbabilisticActor, TanhNormal, ValueOperator
    from torchrl.objectives import ClipPPOLoss, group_optimizers
    from torchrl.objectives.value import GAE

    torch.set_num_threads(threads)
    normalise = VecNorm(in_keys=["observation"], decay=0.99999, eps=1e-2)
    clip = ClipTransform(in_keys=["observation"], low=-10, high=10)
    transforms = Compose(normalise, clip, RewardSum(), StepCounter(), DoubleToFloat(in_keys=["observation"]))
    env = TransformedEnv(GymEnv(task), transforms)
    actions, features = env.action_spec_unbatched, env.observation_spec["observation"].shape[-1]
    net = partial(MLP, features, num_cells=[64, 64], activation_class=nn.Tanh)
    network = nn.Sequential(
        net(actions.shape[-1]), AddStateIndependentNormalScale(actions.shape[-1], scale_lb=1e-8)
    )
    actor = ProbabilisticActor(
        TensorDictModule(network, ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        spec=env.full_action_spec_unbatched,
        distribution_class=TanhNormal,
        distribution_kwargs={"low": actions.space.low, "high": actions.space.high, "tanh_loc": False},
        return_log_prob=True,
    )
    critic = ValueOperator(net(1), in_keys=["observation"])
    collector = Collector(
        env, actor, frames_per_batch=FRAMES, total_frames=-1, auto_register_policy_transforms=False
    )
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(FRAMES), sampler=SamplerWithoutReplacement(), batch_size=MINIBATCH
    )
    advantage = GAE(gamma=0.99, lmbda=0.95, value_network=critic, vectorized=True)
    loss = ClipPPOLoss(
        actor,
        critic,
        clip_epsilon=0.2,
        loss_critic_type="l2",
        entropy_coeff=0.0,
        critic_coeff=0.25,
        normalize_advantage=True,
    )
    adam = partial(torch.optim.Adam, lr=torch.tensor(3e-4), eps=1e-5)
    optimizer = group_optimizers(adam(actor.parameters()), adam(critic.parameters()))
    batches = iter(collector)
    while True:
        start = time.perf_counter()
        batch = next(batches)
        collected = time.perf_counter()
        for _ in range(EPOCHS):
            with torch.no_grad():
                batch = advantage(batch)
            buffer.extend(batch.reshape(-1))
            for minibatch in buffer:
                optimizer.zero_grad(set_to_none=True)
                losses = loss(minibatch)
                (losses["loss_critic"] + losses["loss_objective"] + losses["loss_entropy"]).backward()
                optimizer.step()
        yield {"collecting": collected - start, "training": time.perf_counter() - collected}


def pufferlib_side(task: str, threads: int, workers: int) -> Iterator[Sample]:
    import torch
    from torch import nn

    torch.set_num_threads(threads)
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # it leaves a link in the folder that it is imported in
        from pufferlib import pufferl, vector
        from pufferlib.environments.mujoco import env_creator
        from pufferlib.pytorch import layer_init

        os.chdir(here)

    class Policy(nn.Module):
        def __init__(self, features: int, actions: int) -> None:
            super().__init__()
            self.actor, self.critic = (
                nn.Sequential(
                    *(layer_init(nn.Linear(features, 64)), nn.Tanh()),
                    *(layer_init(nn.Linear(64, 64)), nn.Tanh()),
                    layer_init(nn.Linear(64, outputs), std=std),
                )
                for outputs, std in ((actions, 0.01), (1, 1.0))
            )
            self.log_std = nn.Parameter(torch.zeros(actions))

        def forward(self, observations: Any, state: Any = None) -> Any:
            mean = self.actor(observations)
            return torch.distributions.Normal(mean, self.log_std.exp().expand_as(mean)), self.critic(
                observations
            )

        forward_eval = forward

    several = {"backend": vector.Multiprocessing, "num_workers": workers, "overwork": True}
    kind = several if workers else {"backend": vector.Serial}
    envs = vector.make(env_creator(task), num_envs=NUM_ENVS, **kind)
    spinning = [worker.pid for worker in envs.processes] if workers else []

    def tell_spinning(what: signal.Signals) -> None:
        for pid in spinning:
            os.kill(pid, what)

    # They would go on without their parent.
    signal.signal(signal.SIGTERM, lambda *_: (tell_spinning(signal.SIGKILL), os._exit(0)))
    sys.argv = sys.argv[:1]  # it reads them too
    config = pufferl.load_config("HalfCheetah-v4")["train"]  # what it has for MuJoCo
    config |= {
        "env": task,
        "device": "cpu",
        "use_rnn": False,
        "optimizer": "adam",
        "adam_beta1": 0.9,
        "adam_eps": 1e-5,
    }
    config |= {"batch_size": FRAMES, "minibatch_size": MINIBATCH, "update_epochs": EPOCHS, "bptt_horizon": 16}
    config |= {"checkpoint_interval": 1 << 30, "total_timesteps": 1 << 30}
    policy = Policy(envs.single_observation_space.shape[0], envs.single_action_space.shape[0])
    training = pufferl.PuffeRL(config, envs, policy)
    while True:
        tell_spinning(signal.SIGCONT)
        start = time.perf_counter()
        training.evaluate()
        collected = time.perf_counter()
        training.train()
        end = time.perf_counter()
        tell_spinning(signal.SIGSTOP)  # while others have their turn
        yield {"collecting": collected - start, "training": end - collected}


SIDES: dict[str, Callable[[str, int], Iterator[Sample]]] = {
    "torchrl_pool, compiled": partial(pool_side, compile=True),
    "torchrl_pool": partial(pool_side, compile=False),
    "Stable-Baselines3": sb3_side,
    "PufferLib": partial(pufferlib_side, workers=0),
    "PufferLib, 2 workers": partial(pufferlib_side, workers=2),
    "TorchRL's ppo_mujoco": torchrl_side,
}


def serve(side: str, task: str, threads: int) -> None:
    """Makes an iteration for each line of the standard input, and answers with its seconds."""
    answers = sys.stdout
    with redirect_stdout(sys.stderr):
        iterations = SIDES[side](task, threads)
        for _ in sys.stdin:
            print(json.dumps(next(iterations)), file=answers, flush=True)


# ---- the table


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", default="HalfCheetah-v5", help="a task with observations in one vector")
    parser.add_argument("--iterations", type=int, default=10, help="of each side, after two to warm up")
    parser.add_argument(
        "--threads", type=int, nargs="+", default=[1, 2], help="torch's; each side's best counts"
    )
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--sb3-python", help="an interpreter with Stable-Baselines3")
    parser.add_argument("--pufferlib-python", help="an interpreter with PufferLib")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", choices=SIDES, help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if parsed.serve:
        serve(parsed.serve, parsed.task, parsed.threads[0])
        return

    from contenders import PeerProcess
    from throughput import machine_line, save

    from torchrl_pool._tables import print_table

    pythons = {"Stable-Baselines3": parsed.sb3_python, "PufferLib": parsed.pufferlib_python}
    sides = []
    for side in parsed.sides:
        if pythons.setdefault(side.split(",")[0], sys.executable):
            sides.append(side)
        else:
            print(f"{side} is left out: no interpreter was named that has it")
    serve_one = ["-Wignore", __file__, "--task", parsed.task]
    peers = {}
    for side in sides:
        for threads in parsed.threads:
            command = [pythons[side.split(",")[0]], *serve_one, "--serve", side, "--threads", str(threads)]
            peers[side, threads] = PeerProcess(command)
    samples: dict[tuple[str, int], list[Sample]] = {key: [] for key in peers}
    for i in range(parsed.iterations + 2):
        for key, peer in peers.items():
            sample: Sample = json.loads(peer.request())
            if i >= 2:
                samples[key].append(sample)
    for peer in peers.values():
        peer.close()

    def median(key: tuple[str, int], part: str) -> float:
        return statistics.median(sample[part] for sample in samples[key])

    medians = {key: {part: median(key, part) for part in ("collecting", "training")} for key in samples}
    updates = FRAMES // MINIBATCH * EPOCHS
    print(f"{machine_line()}\n\n{parsed.task}, seconds of an iteration (medians of {parsed.iterations})")
    rows = []
    for side in sides:
        best = min((key for key in medians if key[0] == side), key=lambda key: sum(medians[key].values()))
        collecting, training = medians[best]["collecting"], medians[best]["training"]
        update = f"{training / updates * 1e3:.2f}"
        rows.append(
            [
                side,
                str(best[1]),
                f"{collecting:.3f}",
                f"{training:.3f}",
                update,
                f"{collecting + training:.3f}",
            ]
        )
    print_table(["", "torch's threads", "collecting", "training", "ms an update", "all"], rows, numbers=5)
    results = [
        {"side": side, "threads": threads, "samples": taken} for (side, threads), taken in samples.items()
    ]
    save(parsed.json, {"task": parsed.task, "iterations": results})


if __name__ == "__main__":
    main()
