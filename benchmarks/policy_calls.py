"""What a call of a policy costs: written by hand in torch, taken apart as PoolCollector does it, by TorchRL.

By hand: the network, a draw and its log-probability, with no more operations than that takes. Contenders take
turns.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from pathlib import Path

import torch
from tensordict import TensorDict
from tensordict.nn import NormalParamExtractor, TensorDictModule
from torch import nn
from torch.nn import functional
from torchrl.envs.utils import ExplorationType, set_exploration_type
from torchrl.modules import OneHotCategorical, ProbabilisticActor, TanhNormal

from torchrl_pool._bench.alternate import summary
from torchrl_pool._bench.document import machine_line, save
from torchrl_pool._bench.steppers import one_torch_thread
from torchrl_pool._collecting.lean_policy import take_apart
from torchrl_pool._tables import print_table

OBSERVATION, ACTION = 17, 6


def network(outputs: int, *last: nn.Module) -> nn.Sequential:
    hidden = nn.Linear(OBSERVATION, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh()
    return nn.Sequential(*hidden, nn.Linear(64, outputs), *last)


def tanh_normal() -> tuple[ProbabilisticActor, Callable[[torch.Tensor], object]]:
    net = network(2 * ACTION, NormalParamExtractor())

    def by_hand(observation: torch.Tensor) -> object:
        loc, scale = net(observation)
        latent = loc + torch.randn_like(loc) * scale
        log_prob = -((latent - loc) ** 2) / (2 * scale**2) - scale.log() - math.log(math.sqrt(2 * math.pi))
        slope = 2.0 * (math.log(2.0) - latent - functional.softplus(-2.0 * latent))
        return latent.tanh(), (log_prob - slope).sum(-1)

    module = TensorDictModule(net, ["observation"], ["loc", "scale"])
    actor = ProbabilisticActor(
        module, in_keys=["loc", "scale"], distribution_class=TanhNormal, return_log_prob=True
    )
    return actor, by_hand


def one_hot_categorical() -> tuple[ProbabilisticActor, Callable[[torch.Tensor], object]]:
    net = network(ACTION)

    def by_hand(observation: torch.Tensor) -> object:
        log_probs = functional.log_softmax(net(observation), -1)
        index = torch.multinomial(log_probs.exp(), 1)
        return functional.one_hot(index.squeeze(-1), ACTION), log_probs.gather(-1, index).squeeze(-1)

    module = TensorDictModule(net, ["observation"], ["logits"])
    actor = ProbabilisticActor(
        module, in_keys=["logits"], distribution_class=OneHotCategorical, return_log_prob=True
    )
    return actor, by_hand


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--num-envs", type=int, nargs="+", default=[8, 64])
    parser.add_argument("--calls", type=int, default=200, help="between two turns")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    parsed = parser.parse_args()
    one_torch_thread()
    rows, results = [], []
    for n in parsed.num_envs:
        for make in (tanh_normal, one_hot_categorical):
            actor, by_hand = make()
            root = TensorDict({"observation": torch.randn(n, OBSERVATION)}, [n])
            with set_exploration_type(ExplorationType.RANDOM):
                lean = take_apart(actor)
                assert lean is not None
                contenders: dict[str, Callable[[], object]] = {
                    "by hand": lambda by_hand=by_hand, root=root: by_hand(root["observation"]),
                    "taken apart": lambda lean=lean, root=root: lean(root),
                    "TorchRL": lambda actor=actor, root=root: actor(root),
                }
                samples: dict[str, list[float]] = {name: [] for name in contenders}
                for i in range(parsed.rounds + 1):
                    for name, call in contenders.items():
                        start = time.perf_counter()
                        for _ in range(parsed.calls):
                            call()
                        if i > 0:  # the first one warms up
                            samples[name].append((time.perf_counter() - start) / parsed.calls)
            times = {name: summary(values) for name, values in samples.items()}
            for name, seconds in times.items():
                share = f"{seconds.median / times['by hand'].median:.2f}"
                rows.append([make.__name__, str(n), name, f"{seconds.median * 1e6:,.0f}", share])
            results.append({"policy": make.__name__, "num_envs": n, "seconds_per_call": times})
    print(f"{machine_line()}\n")
    print_table(["policy", "envs", "", "µs a call", "of by hand"], rows, numbers=2)
    save(parsed.json, results)


if __name__ == "__main__":
    main()
