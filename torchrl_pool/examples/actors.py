"""Where batches come from: the learner's own pool, or actors that collect in threads while it learns."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import nn
from torchrl.envs import EnvBase
from torchrl.envs.utils import ExplorationType, set_exploration_type
from torchrl.modules import ProbabilisticActor

from torchrl_pool import PoolCollector
from torchrl_pool.examples.envs import make_env
from torchrl_pool.examples.options import expect
from torchrl_pool.training import collector_state, flatten_parameters, load_collector_state

Weights = tuple[int, torch.Tensor]
"""A version, the number of batches that were learned from, and the policy's weights of it."""


class Actor:
    """A collector, and the copy of the policy that it acts with.

    Args:
        collector: of batches ``[N, T]``, with ``track_policy_version=True``.
        policy: what it acts with.
        generator: what the policy draws with, which nothing else uses; None: torch's own.
    """

    def __init__(
        self, collector: PoolCollector, policy: nn.Module, generator: torch.Generator | None = None
    ) -> None:
        self.collector, self.policy, self.generator = collector, policy, generator
        self._weights = flatten_parameters(policy.parameters())
        self._batches = iter(collector)

    @torch.no_grad()
    def collect(self, version: int, weights: torch.Tensor) -> TensorDictBase:
        """A batch, chosen by these weights and stamped with their version."""
        self._weights.copy_(weights)
        self.collector.policy_version_tracker.version = version
        batch: TensorDictBase = next(self._batches)
        return batch

    def state_dict(self) -> dict[str, Any]:
        """Without the weights, which come with each request."""
        weights = dict(self.policy.named_parameters(remove_duplicate=False))
        policy = {name: one for name, one in self.policy.state_dict().items() if name not in weights}
        return {
            "collector": collector_state(self.collector),
            "policy": policy,
            "generator": None if self.generator is None else self.generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        load_collector_state(self.collector, state["collector"])
        self.policy.load_state_dict(state["policy"], strict=False)
        if self.generator is not None:
            restore(self.generator, state["generator"])

    def close(self) -> None:
        self.collector.shutdown()


class _Explorers:
    """The actors that may be collecting, of all trainings in a process.

    One exploration type holds for all threads. TorchRL also sets it in the learner's thread now and then, and
    back to what it found: while any actor explores, that must not be what an actor has set for a batch.
    """

    def __init__(self) -> None:
        self._actors: set[Actors] = set()
        self._setting = set_exploration_type(ExplorationType.RANDOM)

    def add(self, actors: Actors) -> None:
        if not self._actors:
            self._setting.__enter__()
        self._actors.add(actors)

    def remove(self, actors: Actors) -> None:
        if self._actors == {actors}:
            self._setting.__exit__(None, None, None)
        self._actors.discard(actors)


_explorers = _Explorers()


class Actors:
    """What gives batches to a learner, one after the other: base of the ways to do so.

    Args:
        policy: what learns.
    """

    def __init__(self, policy: nn.Module) -> None:
        self._parameters = list(policy.parameters())
        self.device = self._parameters[0].device
        """Where batches are learned from."""
        self.seconds = 0.0
        """How long the learner has waited for batches."""
        self.lag_row: dict[str, float] = {"lag": 0.0, "largest_lag": 0}
        """How many updates before its batch was learned from a step was chosen: mean and largest, for the
        curve."""

    def weights(self) -> torch.Tensor:
        """A copy of the policy's weights."""
        return torch.cat([one.detach().reshape(-1) for one in self._parameters])

    def next(self, version: int) -> TensorDictBase:
        """The next batch ``[all envs, T]``, for a learner with weights of that version."""
        start = time.perf_counter()
        batch = self._next(version)
        first = next(iter(batch.values(True, True)))
        if first.device != self.device:  # of an actor elsewhere, or from a checkpoint
            batch = batch.to(self.device)
        self.seconds += time.perf_counter() - start
        if ("next", "policy_version") in batch.keys(True):
            lag = version - batch.get(("next", "policy_version"))
            self.lag_row = {"lag": lag.double().mean().item(), "largest_lag": int(lag.max())}
        return batch

    def _next(self, version: int) -> TensorDictBase:
        raise NotImplementedError

    def rest(self) -> None:
        """Waits until no actor collects; the next call of :meth:`next` lets them go on."""


class Synchronous(Actors):
    """One collector, which acts with the very policy that learns, and waits while that learns."""

    def __init__(self, collector: PoolCollector, policy: nn.Module) -> None:
        super().__init__(policy)
        self.policy, self.collector, self._batches = policy, collector, iter(collector)

    def _next(self, version: int) -> TensorDictBase:
        batch: TensorDictBase = next(self._batches)
        return batch

    def close(self) -> None:
        self.collector.shutdown()

    def state_dict(self) -> dict[str, Any]:
        """With the policy's exploration, which no update knows of."""
        return {"collector": collector_state(self.collector), "policy": dict(self.policy.state_dict())}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        load_collector_state(self.collector, state["collector"])
        self.policy.load_state_dict(state["policy"])


class Threaded(Actors):
    """Actors that collect while the learner learns, each in a thread, at most ``max_lag`` batches ahead.

    Batch n is begun when batch ``n - max_lag`` is taken. So no step is chosen by weights that are more
    updates old, and none is thrown away. Actors take the newest weights there are, and how old these are
    depends on the speed of both sides. With ``exact``, batch n is collected with the weights that batch
    ``n - max_lag`` is learned with: the same seed gives the same weights. With ``max_lag=1`` that is Cleanba
    (Huang et al. 2023).

    Args:
        actors: each an :class:`Actor`, or one on another machine; their batches follow one another along the
            envs, in this order.
        policy: what learns.
        max_lag: in batches; 0: actors and learner take turns.
        exact: whether weights are exactly that old.
        refreshes: rollouts in a batch, each begun with the newest weights.
        end: is called after all actors are closed.
    """

    def __init__(
        self,
        actors: Sequence[Any],
        policy: nn.Module,
        max_lag: int,
        *,
        exact: bool = False,
        refreshes: int = 1,
        end: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(policy)
        self._end = end
        self.actors, self._max_lag, self._exact, self._refreshes = actors, max_lag, exact, refreshes
        self._threads = [ThreadPoolExecutor(1, "actor") for _ in actors]
        self._begun: deque[list[Future[TensorDictBase]]] = deque()  # batches, of each actor its part
        self._taken = 0
        self._history: dict[int, Weights] = {}  # by the batch that is learned with them
        self.publish(0)

    def publish(self, version: int) -> None:
        """Lets the next rollout be made with today's weights."""
        self.published = version, self.weights()

    def _next(self, version: int) -> TensorDictBase:
        _explorers.add(self)
        self.publish(version)
        self._history[self._taken] = self.published
        self._history.pop(self._taken - self._max_lag - 1, None)
        while len(self._begun) < self._max_lag + 1:
            self._begin(self._taken + len(self._begun))
        parts = [part.result() for part in self._begun[0]]
        self._begun.popleft()
        self._taken += 1
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _begin(self, batch: int) -> None:
        parts = []
        for actor, thread in zip(self.actors, self._threads, strict=True):
            if self._max_lag or len(self.actors) > 1:
                parts.append(thread.submit(self._collect, actor, batch))
            else:
                parts.append(_done(self._collect(actor, batch)))
        self._begun.append(parts)

    def _collect(self, actor: Any, batch: int) -> TensorDictBase:
        rollouts = []
        for _ in range(self._refreshes):
            due = self._history[max(0, batch - self._max_lag)] if self._exact else self.published
            rollouts.append(actor.collect(*due))
        return rollouts[0] if len(rollouts) == 1 else torch.cat(rollouts, 1)

    def rest(self) -> None:
        wait([part for parts in self._begun for part in parts])
        _explorers.remove(self)

    def close(self) -> None:
        for thread in self._threads:
            thread.shutdown(cancel_futures=True)
        _explorers.remove(self)
        for actor in self.actors:
            actor.close()
        self._end()

    def state_dict(self) -> dict[str, Any]:
        """With what has been collected and not learned from."""
        self.rest()
        begun = [[part.result() for part in parts] for parts in self._begun]
        return {
            "actors": [actor.state_dict() for actor in self.actors],
            "begun": [[(list(part.shape), part.to_dict()) for part in parts] for parts in begun],
            "taken": self._taken,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.rest()
        self._begun.clear()
        self._history.clear()
        for actor, saved in zip(self.actors, state["actors"], strict=True):
            actor.load_state_dict(saved)
        for parts in state["begun"][: self._max_lag]:  # which may be less than the saved training's
            batches = [TensorDict.from_dict(part, batch_size=shape) for shape, part in parts]
            self._begun.append([_done(batch) for batch in batches])
        self._taken = state["taken"]


def _done(batch: TensorDictBase) -> Future[TensorDictBase]:
    future: Future[TensorDictBase] = Future()
    future.set_result(batch)
    return future


# ---- the actors of on-policy programs

MAX_LAGS = {"synchronous": 0, "cleanba": 1, "asynchronous": 2}
"""How many batches ahead actors are, at most, by the architecture."""
CPU = torch.device("cpu")
MakeNetworks = Callable[..., tuple[ProbabilisticActor, nn.Module]]
"""Makes actor and critic of ``(config, env, generator)``; actions are drawn with the generator."""


def make_actor_env(config: Any, number: int = 0) -> EnvBase:
    """The env of an actor, seeded as if all were in one pool."""
    size = config.num_envs // config.actors
    return make_env(config, size, config.seed + number * size)


def on_device(device: torch.device, storing_device: torch.device | None = None) -> dict[str, Any]:
    """Arguments of a collector whose simulators are on the CPU, and whose policy and batches may not be."""
    if device.type == "cpu":
        return {}
    return {"policy_device": device, "storing_device": storing_device or device}


def restore(generator: torch.Generator, state: torch.Tensor) -> None:
    """Sets a generator's state; one of another kind of device is left aside: it goes on from its seed."""
    if state.shape == generator.get_state().shape:
        generator.set_state(state)


def make_actor(
    make_networks: MakeNetworks,
    config: Any,
    number: int,
    frames: int,
    env: EnvBase | None = None,
    *,
    double_buffered: bool = False,
    device: torch.device = CPU,
) -> Actor:
    """An actor by its number, with batches of so many frames, in an env of its own if there is none."""
    env = env or make_actor_env(config, number)
    generator = torch.Generator(device)
    acting, _ = make_networks(config, env, generator)
    acting = acting.to(device)
    collector = PoolCollector(
        env,
        acting,
        frames_per_batch=frames,
        total_frames=-1,
        track_policy_version=True,
        double_buffered=double_buffered,
        **on_device(device),
    )
    generator.manual_seed(config.seed + number)  # the collector may have tried the policy
    return Actor(collector, acting, generator)


def begin_actors(
    config: Any, env: EnvBase, policy: ProbabilisticActor, make_networks: MakeNetworks, steps: int
) -> Actors:
    """What collects ``steps`` of each env in a batch, as the settings' ``architecture`` and ``actors`` say.

    Args:
        config: the settings.
        env: of the first actor, see :func:`make_actor_env`.
        policy: what learns.
        make_networks: makes a copy for each actor that is not synchronous.
        steps: of each env.
    """
    frames, device = env.batch_size[0] * steps, next(policy.parameters()).device
    if config.acts_itself:
        collector = PoolCollector(
            env,
            policy,
            frames_per_batch=frames,
            total_frames=-1,
            **on_device(device),
        )
        return Synchronous(collector, policy)
    actors = [
        make_actor(make_networks, config, number, frames, None if number else env, device=device)
        for number in range(config.actors)
    ]
    return Threaded(actors, policy, **threads_of(config.architecture))


def threads_of(architecture: str) -> dict[str, Any]:
    """Arguments of :class:`Threaded`: how far actors are ahead in an architecture."""
    return {"max_lag": MAX_LAGS[architecture], "exact": architecture == "cleanba"}


def check_actors(config: Any) -> None:
    """Raises ValueError: envs or statistics cannot be shared among so many actors."""
    share = f"a multiple of {config.actors} actors"
    expect(config.num_envs % config.actors == 0, "num_envs", share, config.num_envs)
    alone = config.actors == 1 or not config.normalize_observations
    expect(alone, "actors", "1 with --normalize-observations, which is one pool's", config.actors)
