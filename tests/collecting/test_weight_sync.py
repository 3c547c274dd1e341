"""TorchRL's weight-sync schemes: PoolCollector sends and receives as TorchRL's Collector does."""

import threading

import pytest
import torch
from cases import cases
from collecting import FRAMES, N, assert_equal_batches, categorical_actor
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector, MultiSyncCollector
from torchrl.collectors.distributed import DistributedCollector
from torchrl.collectors.weight_update import RemoteModuleWeightUpdater
from torchrl.weight_update import (
    DistributedWeightSyncScheme,
    MultiProcessWeightSyncScheme,
    NoWeightSyncScheme,
    RayModuleTransformScheme,
    RayWeightSyncScheme,
    RPCWeightSyncScheme,
    SharedMemWeightSyncScheme,
)
from torchrl.weight_update.llm import VLLMWeightSyncScheme

from torchrl_pool import PoolCollector, PoolEnv

BATCHES = 3
WITH_QUEUES = [SharedMemWeightSyncScheme, MultiProcessWeightSyncScheme]
pytestmark = [
    pytest.mark.filterwarnings("ignore:Using WeightUpdaterBase:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*TransportBackend.*"),
]


def make_env():
    return PoolEnv("CartPole-v1", N, seed=0, num_threads=1)


def make(cls, **options):
    torch.manual_seed(0)
    options = {"frames_per_batch": FRAMES, "total_frames": BATCHES * FRAMES, **options}
    return cls(make_env(), categorical_actor(make_env()), track_policy_version=True, **options)


def weights_of(policy):
    return TensorDict.from_module(policy).data


def after_updates(collector, update):
    """The batches, with an update after each, and what weights and version were after it."""
    batches = []
    torch.manual_seed(1)
    for batch in collector:
        update()
        weights = weights_of(collector.policy).flatten_keys().expand(batch.shape).clone()
        version = torch.full(batch.shape, collector.policy_version)
        batches.append(batch.set("weights", weights).set("version", version))
    return batches


def assert_alike(collect):
    """Of both classes, with some versions and weights."""
    got, expected = collect(PoolCollector), collect(Collector)
    assert_equal_batches(got, expected)
    return [int(batch["version"].max()) for batch in got]


@pytest.mark.parametrize("scheme", cases(WITH_QUEUES))
def test_weights_are_received(scheme):
    def collect(cls):
        torch.manual_seed(2)  # other weights than the collector's
        trained = categorical_actor(make_env())
        sender, receiver = scheme(), scheme()
        sender.init_on_sender(model_id="policy", model=trained, devices=[torch.device("cpu")])
        receiver.__setstate__(sender.__getstate__())  # as a process that it is sent to
        connecting = threading.Thread(target=sender.connect)
        connecting.start()
        collector = make(cls, worker_idx=0, weight_recv_schemes={"policy": receiver})
        connecting.join()

        def send():
            with torch.no_grad():
                for weight in trained.parameters():
                    weight.fill_(collector.policy_version + 1)
            sender.send(weights_of(trained))

        try:
            batches = after_updates(collector, send)
        finally:
            receiver.shutdown()  # not the sender: its closed queue would be polled for ever
        assert (weights_of(collector.policy) == BATCHES).all()
        return batches

    assert assert_alike(collect) == [1, 2, 3]


def test_no_sync():
    def collect(cls):
        collector = make(cls, weight_sync_schemes={"policy": NoWeightSyncScheme()})
        weights = weights_of(collector.policy).apply(lambda weight: weight + 1)
        return after_updates(collector, lambda: collector.update_policy_weights_(weights))

    assert assert_alike(collect) == [1, 2, 3]


@pytest.mark.parametrize("scheme", cases(WITH_QUEUES))
def test_weights_are_passed_on(scheme):
    """To receivers that the scheme has got by hand."""

    def collect(cls):
        sender = scheme(sync=False)
        trained = categorical_actor(make_env())
        sender.init_on_sender(model_id="policy", model=trained, devices=[torch.device("cpu")])
        collector = make(cls, weight_sync_schemes={"policy": sender})
        try:
            return after_updates(collector, lambda: collector.update_policy_weights_(weights_of(trained)))
        finally:
            sender.shutdown()

    assert assert_alike(collect) == [1, 2, 3]


@pytest.mark.parametrize(
    "scheme",
    cases(
        [*WITH_QUEUES, RayModuleTransformScheme],
        also=[
            DistributedWeightSyncScheme,
            RPCWeightSyncScheme,
            RayWeightSyncScheme,
            VLLMWeightSyncScheme,
        ],
    ),
)
def test_a_sender_without_receivers_is_refused(scheme):
    schemes = {"policy": scheme()}
    with pytest.raises((ValueError, TypeError, NotImplementedError)):
        make(Collector, weight_sync_schemes=schemes)
    with pytest.raises(
        ValueError, match=r"expected schemes that know their receivers.*update_policy_weights_"
    ):
        make(PoolCollector, weight_sync_schemes=schemes)


def test_a_weight_updater():
    def collect(cls):
        collector = make(cls, weight_updater=RemoteModuleWeightUpdater)
        weights = weights_of(collector.policy).apply(lambda weight: weight + 1)
        return after_updates(collector, lambda: collector.update_policy_weights_(weights))

    assert assert_alike(collect) == [1, 2, 3]


class Greedy(nn.Linear):
    """Draws nothing: torch's generator of another process has another seed each time."""

    def forward(self, observation):
        return nn.functional.one_hot(super().forward(observation).argmax(-1), 2)


def below(cls, of, **options):
    """Batches of a collector in another process, which gets weights by the scheme of the one above it."""
    torch.manual_seed(0)
    policy = TensorDictModule(Greedy(4, 2), ["observation"], ["action"])
    options = {"frames_per_batch": FRAMES, "total_frames": BATCHES * FRAMES, **options}
    collector = of([make_env], policy, collector_class=cls, **options)
    batches = []
    try:
        for batch in collector:
            batches.append(batch.clone())
            with torch.no_grad():
                for weight in policy.parameters():
                    weight.neg_()
            collector.update_policy_weights_()
    finally:
        collector.shutdown()
    return batches


@pytest.mark.slow  # each process imports TorchRL
@pytest.mark.parametrize("scheme", WITH_QUEUES)
def test_collectors_of_other_processes(scheme):
    def collect(cls):
        return below(
            cls, MultiSyncCollector, weight_sync_schemes={"policy": scheme()}, track_policy_version=True
        )

    assert_equal_with_versions(collect)


@pytest.mark.slow  # each process imports TorchRL
def test_distributed_collectors():
    def collect(cls):
        options = {"launcher": "mp", "backend": "gloo", "sync": True}
        return below(cls, DistributedCollector, collector_kwargs={"track_policy_version": True}, **options)

    assert_equal_with_versions(collect)


def assert_equal_with_versions(collect):
    got = collect(PoolCollector)
    assert_equal_batches(got, collect(Collector))
    assert [int(batch["next", "policy_version"].max()) for batch in got] == [0, 1, 2]
