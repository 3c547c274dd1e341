"""Actors: pools that collect with a copy of the policy, beside the learner, each in a thread of its own."""

from __future__ import annotations

import queue
import threading
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import nn
from torchrl.envs.utils import ExplorationType, set_exploration_type

from torchrl_pool import PoolCollector
from torchrl_pool.training import collector_state, flatten_parameters, load_collector_state


class Actor:
    """A collector, and the copy of the policy that it acts with.

    Args:
        collector: of batches ``[N, T]``, with ``track_policy_version=True``.
        policy: what it acts with.
        generator: what the policy draws with, and nobody else; None: it draws with torch's own.
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
        return {
            "collector": collector_state(self.collector),
            "policy": dict(self.policy.state_dict()),
            "generator": None if self.generator is None else self.generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        load_collector_state(self.collector, state["collector"])
        self.policy.load_state_dict(state["policy"])
        if self.generator is not None:
            self.generator.set_state(state["generator"])


class _Explorers:
    """The actors that may be collecting, of all trainings in a process.

    One exploration type holds for all threads. TorchRL sets it in the learner's thread too, here and there,
    and sets it back to what it found: while anybody explores, that must not be what an actor has set for the
    time of a batch, nor the other way round.
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
    """Several actors and when they collect; base of the three architectures.

    Batch n is what update n learns from; ``weights`` have version n after it.

    Args:
        actors: their batches follow one another along the envs, in this order.
        policy: what learns.
    """

    def __init__(self, actors: list[Actor], policy: nn.Module) -> None:
        self.actors = actors
        self._parameters = list(policy.parameters())
        self.lags: Counter[int] = Counter()
        """How many steps were chosen by weights of how many updates before."""
        self.last_lag = 0.0
        """The last batch's mean, and its largest."""
        self.largest_lag = 0

    def weights(self) -> torch.Tensor:
        """A copy of the policy's weights, which nobody writes again."""
        return torch.cat([one.detach().reshape(-1) for one in self._parameters])

    def next(self, version: int) -> TensorDictBase:
        """The next batch ``[all envs, T]``.

        Args:
            version: of the weights as they are now: the number of batches that they have learned from.
        """
        batch = self._next(version)
        stamps = batch.get(("next", "policy_version"), None)
        if stamps is None:  # the weights as they are now have chosen all
            self.lags[0] += batch.numel()
            return batch
        lag = version - stamps
        values, counts = lag.unique(return_counts=True)
        self.lags.update(dict(zip(values.int().tolist(), counts.tolist(), strict=True)))
        self.last_lag, self.largest_lag = lag.float().mean().item(), int(lag.max())
        return batch

    def _next(self, version: int) -> TensorDictBase:
        raise NotImplementedError

    def rest(self) -> None:
        """Waits until no actor collects; the next call of :meth:`next` lets them go on."""
        _explorers.remove(self)

    def _explore(self) -> None:
        _explorers.add(self)

    def close(self) -> None:
        """Ends threads and simulators."""
        self.rest()
        for actor in self.actors:
            actor.collector.shutdown()

    def state_dict(self) -> dict[str, Any]:
        return {"actors": [actor.state_dict() for actor in self.actors]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for actor, saved in zip(self.actors, state["actors"], strict=True):
            actor.load_state_dict(saved)


class Synchronous(Actors):
    """One collector, which waits while the learner learns."""

    def __init__(self, collector: PoolCollector, policy: nn.Module) -> None:
        super().__init__([], policy)
        self._policy, self._collector, self._batches = policy, collector, iter(collector)

    def _next(self, version: int) -> TensorDictBase:
        batch: TensorDictBase = next(self._batches)
        return batch

    def close(self) -> None:
        self._collector.shutdown()

    def state_dict(self) -> dict[str, Any]:
        """With the policy's exploration, which no update knows of."""
        policy = dict(self._policy.state_dict())
        return {"collector": collector_state(self._collector), "policy": policy}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        load_collector_state(self._collector, state["collector"])
        self._policy.load_state_dict(state["policy"])


class Cleanba(Actors):
    """Batch n + 1 is collected while update n is made, with the weights from before it (Huang et al. 2023).

    So all but the first batch are one update old, whatever the speed of either side: queues of size one,
    where the actors do not wait for weights before their second batch, come to the same.
    """

    def __init__(self, actors: list[Actor], policy: nn.Module) -> None:
        super().__init__(actors, policy)
        self._threads = ThreadPoolExecutor(len(actors), "actor")
        self._begun: list[Future[TensorDictBase]] = []

    def _next(self, version: int) -> TensorDictBase:
        self._explore()
        if not self._begun:
            self._begin(version)
        batch = _all_of([one.result() for one in self._begun])
        self._begin(version)
        return batch

    def _begin(self, version: int) -> None:
        weights = self.weights()
        self._begun = [self._threads.submit(actor.collect, version, weights) for actor in self.actors]

    def rest(self) -> None:
        wait(self._begun)
        super().rest()

    def close(self) -> None:
        self._threads.shutdown()
        super().close()

    def state_dict(self) -> dict[str, Any]:
        """What is being collected belongs to it, so it waits for that."""
        begun = [(list(batch.shape), batch.to_dict()) for batch in (one.result() for one in self._begun)]
        return {**super().state_dict(), "begun": begun}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._begun = []
        for shape, batch in state["begun"]:
            future: Future[TensorDictBase] = Future()
            future.set_result(TensorDict.from_dict(batch, batch_size=shape))
            self._begun.append(future)


class Asynchronous(Actors):
    """Actors that never wait for weights: each batch is begun with the newest there are.

    A batch waits in a queue of one for the learner, and the actor, with its next one, for the queue. So
    stamps are one to three updates old, and how old depends on the speed of both sides.
    """

    def __init__(self, actors: list[Actor], policy: nn.Module) -> None:
        super().__init__(actors, policy)
        self._newest: tuple[int, torch.Tensor] | None = None
        self._queues: list[queue.Queue[TensorDictBase | BaseException]] = [queue.Queue(1) for _ in actors]
        self._may_collect, self._ends = threading.Event(), False
        self._turns = [threading.Lock() for _ in actors]
        self._threads: list[threading.Thread] = []

    def _next(self, version: int) -> TensorDictBase:
        self._explore()
        self._newest = version, self.weights()
        self._may_collect.set()
        if not self._threads:
            for i in range(len(self.actors)):
                thread = threading.Thread(target=self._run, args=(i,), name=f"actor-{i}", daemon=True)
                self._threads.append(thread)
                thread.start()
        batches = []
        for one in self._queues:
            batch = one.get()
            if isinstance(batch, BaseException):
                raise batch
            batches.append(batch)
        return _all_of(batches)

    def rest(self) -> None:
        self._may_collect.clear()
        for turn in self._turns:
            with turn:  # it is free where the actor does not collect
                pass
        super().rest()

    def close(self) -> None:
        self._ends = True
        self._may_collect.set()
        while any(thread.is_alive() for thread in self._threads):
            for one in self._queues:
                if not one.empty():
                    one.get()
            for thread in self._threads:
                thread.join(0.01)
        super().close()

    def _run(self, i: int) -> None:
        while True:
            self._may_collect.wait()
            with self._turns[i]:
                if self._ends:
                    return
                if not self._may_collect.is_set():
                    continue
                assert self._newest is not None
                try:
                    batch: TensorDictBase | BaseException = self.actors[i].collect(*self._newest)
                except BaseException as error:
                    batch = error
            self._queues[i].put(batch)
            if isinstance(batch, BaseException):
                return

    def state_dict(self) -> dict[str, Any]:
        """Steps that have been collected and not learned from are left out."""
        self.rest()
        return super().state_dict()


def _all_of(batches: list[TensorDictBase]) -> TensorDictBase:
    return batches[0] if len(batches) == 1 else torch.cat(batches)
