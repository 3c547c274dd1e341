"""Recurrent PPO, also with older weights: what it learns from is what was collected, and it remembers."""

from functools import partial

import pytest
import torch
from building import build_plugin
from cases import cases
from programs import finish
from torchrl.modules import set_recurrent_mode
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE, VTrace

pytest.importorskip("tyro")

import torchrl_pool
from torchrl_pool import PoolCollector, PoolEnv
from torchrl_pool.examples.networks import Memory, actor_and_critic
from torchrl_pool.examples.results import evaluate
from torchrl_pool.training import PPOUpdate, estimate_advantages, estimate_vtrace, minibatches
from torchrl_pool.training._vtrace import _log_ratios

N, T, LENGTH = 6, 40, 20
CELLS = pytest.mark.parametrize("cell", cases(["lstm", "gru"]))


class Learner:
    """Actor and critic of a memory, an update of them, and the second batch that the actor collects."""

    def __init__(self, cell, task="CartPole-v1", length=LENGTH, **options):
        torch.manual_seed(3)
        options = {"max_episode_steps": 11, "obs_dtype": torch.float32, **options}
        env = PoolEnv(task, N, seed=1, categorical_action_encoding=True, **options)
        self.actor, self.critic = actor_and_critic(env, "16", "tanh-normal", memory=Memory(cell, 8))
        self.gae = GAE(gamma=0.99, lmbda=0.95, value_network=self.critic)
        self.loss = ClipPPOLoss(self.actor, self.critic, entropy_bonus=task == "CartPole-v1")
        self.update = PPOUpdate(self.loss, partial(torch.optim.SGD, lr=0.0), sequence_length=length)
        collector = PoolCollector(env, self.actor, frames_per_batch=N * T, total_frames=2 * N * T)
        _, self.batch = collector
        collector.shutdown()

    def log_probs(self):
        """Those that training computes of the actions, by way of the ratio."""
        estimate_advantages(self.gae, self.batch)
        columns = self.update.columns(self.batch)
        columns[1] = torch.zeros_like(columns[1])
        terms = self.update._terms
        tensors = dict(zip(terms.observed, columns[4 + terms.clips_value :], strict=True))
        for call in terms.calls:
            call(tensors)
        return terms.density.log_prob(tensors, columns[0]).view(N, T), tensors["state_value"].view(N, T, 1)


@CELLS
@pytest.mark.parametrize("length", cases([T, LENGTH, 1]))
@pytest.mark.parametrize("task", ["CartPole-v1", "HalfCheetah-v5"])
def test_training_computes_the_log_probs_of_the_collection(cell, task, length):
    learner = Learner(cell, task, length)
    batch = learner.batch
    assert batch["is_init"][:, 1:].any(1).all()
    assert batch["is_init"].sum() > 2 * N
    assert batch["hidden"][:, 0].any(), "a sequence must begin within an episode"
    log_probs, values = learner.log_probs()
    expected = learner.update.columns(batch)[1].view(N, T)
    torch.testing.assert_close(log_probs, expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(values, batch["state_value"], rtol=0, atol=1e-5)
    again, _ = Learner(cell, task, length).log_probs()
    assert torch.equal(log_probs, again)


@CELLS
def test_a_reset_inside_a_sequence_cuts_what_came_before(cell):
    learner = Learner(cell)
    batch = learner.batch.clone()
    log_probs, _ = learner.log_probs()
    env, step = (int(i) for i in batch["is_init"][:, 1:LENGTH, 0].nonzero()[0] + torch.tensor([0, 1]))
    learner.batch["observation"][env, :step] += 1
    changed, _ = learner.log_probs()
    assert torch.equal(changed[env, step:], log_probs[env, step:])
    assert (changed[env, :step] != log_probs[env, :step]).all()


@CELLS
def test_losses_and_gradients_are_those_of_torchrl(cell):
    learner = Learner(cell)
    estimate_advantages(learner.gae, learner.batch)
    indices = next(minibatches(N * T, N * T // 2, LENGTH))
    minibatch = learner.batch.reshape(-1)[indices].view(-1, LENGTH)
    with set_recurrent_mode(True):
        expected = learner.loss(minibatch)
    expected = {name: expected[name] for name in ("loss_objective", "loss_critic", "loss_entropy")}
    learner.update._flat.grad.zero_()
    sum(expected.values()).backward()
    gradient = learner.update._flat.grad.clone()
    got = learner.update(learner.update.columns(learner.batch), indices)
    for name, loss in expected.items():
        torch.testing.assert_close(got[name], loss.detach(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(learner.update._flat.grad, gradient, rtol=1e-4, atol=1e-6)


def test_a_minibatch_in_parts_of_whole_sequences_gives_the_numbers_of_the_whole():
    found = []
    for parts in (1, 3):
        learner = Learner("lstm")
        estimate_advantages(learner.gae, learner.batch)
        sgd = partial(torch.optim.SGD, lr=0.0)
        update = PPOUpdate(learner.loss, sgd, sequence_length=LENGTH, gradient_accumulation=parts)
        losses = update(update.columns(learner.batch), torch.arange(N * T - LENGTH))  # 11 sequences: 4, 4, 3
        found.append((losses, update._flat.grad.clone()))
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-6)


def test_values_of_what_follows_go_on_from_the_state_before():
    learner = Learner("lstm")
    batch = estimate_advantages(learner.gae, learner.batch.clone())
    with torch.no_grad():
        after = learner.critic(batch["next"].select(*learner.critic.in_keys).reshape(-1))
    ended = batch["next", "done"]
    assert ended.any()
    following = after["state_value"].view(N, T, 1)
    torch.testing.assert_close(batch["next", "state_value"][ended], following[ended], rtol=0, atol=1e-6)


# ---- weights that have learned since


@CELLS
@pytest.mark.parametrize(
    "options", cases(default=["", "--double-buffered"], also=["--max-lag 1 --refreshes 2"])
)
def test_v_trace_computes_the_log_probs_of_the_collection(begin, cell, options):
    sizes = f"--num-envs {N} --frames-per-batch {N * T} --minibatch-size {N * T} --total-frames {3 * N * T}"
    memory = f"--recurrent {cell} --sequence-length {LENGTH} --refreshes 1 --max-lag 0"
    # No weight moves, and the policy ends episodes early.
    training = begin("appo", sizes, memory, "--learning-rate", "1e-12", options)
    training.iterate()
    batch = training.parts["actors"].next(1)
    assert batch["is_init"].sum() > N
    assert batch["hidden"][:, 0].any(), "a sequence must begin within an episode"
    loss = training.parts["update"].loss
    vtrace = VTrace(gamma=0.99, actor_network=loss.actor_network, value_network=loss.critic_network)
    log_ratios = _log_ratios(vtrace, batch, 2 * LENGTH, LENGTH)
    torch.testing.assert_close(log_ratios, torch.zeros(N * T), rtol=0, atol=1e-5)


@CELLS
def test_v_trace_compares_with_what_is_learned_from(cell):
    """Newer weights would remember something else, too: sequences as in TorchRL's recurrent mode."""
    learner = Learner(cell)
    with torch.no_grad():
        for parameter in {*learner.actor.parameters(), *learner.critic.parameters()}:
            parameter.add_(0.2 * torch.randn_like(parameter))
    vtrace = VTrace(gamma=0.99, actor_network=learner.actor, value_network=learner.critic)
    batch = learner.batch
    sequences = batch.reshape(-1).view(-1, LENGTH)
    with set_recurrent_mode(True), torch.no_grad():
        expected = learner.actor.get_dist(sequences).log_prob(sequences["action"]).reshape(-1)
        values = learner.critic(sequences)["state_value"].view(N, T, 1)
    found = _log_ratios(vtrace, batch, 4096, LENGTH)
    torch.testing.assert_close(found, expected - batch["action_log_prob"].reshape(-1), rtol=0, atol=1e-5)
    assert not torch.allclose(found, _log_ratios(vtrace, batch, 4096, 1), rtol=0, atol=1e-3)
    estimate_vtrace(vtrace, batch, sequence_length=LENGTH)
    torch.testing.assert_close(batch["state_value"], values, rtol=0, atol=1e-5)


def test_minibatches_are_whole_sequences():
    seen = list(minibatches(N * T, 3 * LENGTH, LENGTH))
    assert [len(indices) for indices in seen] == [3 * LENGTH] * 4
    assert sorted(torch.cat(seen).tolist()) == list(range(N * T))
    for indices in seen:
        rows = indices.view(-1, LENGTH)
        assert (rows[:, 0] % LENGTH == 0).all()
        assert (rows.diff() == 1).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    cases(
        default=[
            ((25, 8, 4), r"num_rows: expected a multiple of sequence_length \(4\), got 25"),
            ((3, 8, 4), r"num_rows: expected a multiple of sequence_length \(4\), got 3"),
            ((24, 0), "size: expected at least 1, got 0"),
        ],
        also=[
            ((0, 8), "num_rows: expected at least 1, got 0"),
            ((24, 8, 0), "sequence_length: expected at least 1, got 0"),
        ],
    ),
)
def test_minibatches_that_would_lack_rows_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        minibatches(*arguments)


def test_sequences_that_would_hold_steps_of_two_envs_are_refused():
    learner = Learner("gru", length=16)  # T is 40
    message = r"batch: T: expected a multiple of sequence_length \(16\), got 40"
    vtrace = VTrace(gamma=0.99, actor_network=learner.actor, value_network=learner.critic)
    estimate_advantages(learner.gae, learner.batch)
    for estimate in (
        lambda: estimate_advantages(learner.gae, learner.batch, sequence_length=16),
        lambda: estimate_vtrace(vtrace, learner.batch, sequence_length=16),
        lambda: learner.update.columns(learner.batch),
    ):
        with pytest.raises(ValueError, match=message):
            estimate()


def test_a_batch_whose_time_comes_first_is_refused():
    learner = Learner("gru", length=1)
    turned = learner.batch.transpose(0, 1)
    with pytest.raises(ValueError, match=r"batch: expected \[N, T\], time last, got \[40, 6\]"):
        estimate_advantages(learner.gae, turned)


@pytest.mark.parametrize("indices", cases([torch.arange(0), torch.arange(LENGTH + 1)]), ids=len)
def test_minibatches_without_rows_or_with_parts_of_sequences_are_refused(indices):
    learner = Learner("gru")
    columns = learner.update.columns(estimate_advantages(learner.gae, learner.batch))
    with pytest.raises(ValueError, match=r"indices: expected a positive multiple of sequence_length \(20\)"):
        learner.update(columns, indices)


def test_sequences_are_not_compiled():
    learner = Learner("gru")
    with pytest.raises(ValueError, match="compile: expected False"):
        PPOUpdate(learner.loss, torch.optim.SGD, compile=True, sequence_length=LENGTH)


# ---- the programs


def test_pictures_are_remembered(begin):
    pytest.importorskip("ale_py")
    sizes = "--num-envs 2 --frames-per-batch 16 --minibatch-size 8 --epochs 1 --total-frames 32"
    finish(begin("ppo", "--task", "ALE/Pong-v5", "--recurrent", "gru", sizes))


@pytest.mark.parametrize(
    ("name", "recurrent"), cases(default=[("ppo", "none"), ("appo", "gru")], also=[("ppo", "lstm")])
)
def test_only_a_memory_knows_the_cue_when_it_is_asked_for(begin, name, recurrent):
    torchrl_pool.load_plugin(build_plugin("cue"))
    sizes = "--hidden 16 --frames-per-batch 640 --minibatch-size 320 --epochs 5 --num-envs 32"
    memory = "--hidden-size 16 --sequence-length 20" if recurrent != "none" else ""
    options = ["--task", "Cue-v0", "--preset", "classic", "--recurrent", recurrent, "--total-frames", "19200"]
    training = begin(name, *options, sizes, memory, *(["--max-lag", "1"] * (name == "appo")))
    while not training.is_over:
        training.iterate()
    returns, _ = evaluate(training.evaluation_env(200), training.actor)
    mean = sum(returns) / len(returns)
    assert abs(mean) < 0.4 if recurrent == "none" else mean == 1
