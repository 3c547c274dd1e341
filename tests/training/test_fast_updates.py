"""Fast updates: the numbers of ClipPPOLoss, GAE and an optimiser, without what surrounds them."""

from functools import partial

import pytest
import torch
from cases import cases
from tensordict import TensorDict
from tensordict.nn import (
    AddStateIndependentNormalScale,
    NormalParamExtractor,
    TensorDictModule,
    TensorDictSequential,
)
from torch import distributions, nn
from torchrl.modules import (
    IndependentNormal,
    MultiAgentMLP,
    OneHotCategorical,
    ProbabilisticActor,
    TanhNormal,
    ValueOperator,
)
from torchrl.objectives import ClipPPOLoss, MAPPOLoss
from torchrl.objectives.value import GAE

from torchrl_pool import PoolCollector, PoolEnv
from torchrl_pool.training import (
    PPOUpdate,
    ReturnScaling,
    collector_state,
    estimate_advantages,
    flatten_parameters,
    load_collector_state,
)

FEATURES, ACTIONS, ROWS = 5, 3, 96
BOUNDS = {"low": torch.tensor([-1.0, -2.0, 0.0]), "high": torch.tensor([1.0, 2.0, 4.0])}
DISTRIBUTIONS = {
    "normal": (IndependentNormal, {}),
    "tanh_normal": (TanhNormal, BOUNDS),
    "categorical": (distributions.Categorical, {}),
    "one_hot": (OneHotCategorical, {}),
}
OPTIONS = {
    "plain": {"entropy_bonus": False},
    "l2": {"entropy_bonus": False, "loss_critic_type": "l2", "critic_coeff": 0.25},
    "all": {
        "clip_value": True,
        "normalize_advantage": True,
        "entropy_coeff": 0.05,
        "critic_coeff": 0.7,
        "loss_critic_type": "l2",
        "clip_epsilon": 0.1,
    },
}


def networks(kind, *, shared=False):
    torch.manual_seed(1)
    distribution, kwargs = DISTRIBUTIONS[kind]
    trunk = TensorDictModule(nn.Sequential(nn.Linear(FEATURES, 16), nn.Tanh()), ["observation"], ["hidden"])
    in_key, width = ("hidden", 16) if shared else ("observation", FEATURES)
    if kind == "normal":
        head = nn.Sequential(nn.Linear(width, ACTIONS), AddStateIndependentNormalScale(ACTIONS))
    elif kind == "tanh_normal":
        head = nn.Sequential(nn.Linear(width, 2 * ACTIONS), NormalParamExtractor())
    else:
        head = nn.Linear(width, ACTIONS)
    keys = ["loc", "scale"] if "normal" in kind else ["logits"]
    module = TensorDictModule(head, [in_key], keys)
    actor = ProbabilisticActor(
        TensorDictSequential(trunk, module) if shared else module,
        in_keys=keys,
        distribution_class=distribution,
        distribution_kwargs=kwargs,
        return_log_prob=True,
    )
    value = ValueOperator(nn.Linear(width, 1), in_keys=[in_key])
    return actor, TensorDictSequential(trunk, value) if shared else value


def batch_of(actor):
    """A batch whose policy is not quite the actor's: ratios on both sides of the clipping."""
    batch = TensorDict({"observation": torch.randn(ROWS, FEATURES)}, [ROWS]).reshape(8, 12)
    with torch.no_grad():
        actor(batch)
    batch["action_log_prob"] += 0.2 * torch.randn(8, 12)
    for key in ("advantage", "value_target", "state_value"):
        batch[key] = torch.randn(8, 12, 1)
    return batch


@pytest.mark.parametrize("shared", [False, True], ids=["apart", "trunk"])
@pytest.mark.parametrize("options", cases(default=["all"], also=OPTIONS))
@pytest.mark.parametrize("kind", cases(default=["categorical", "one_hot"], also=DISTRIBUTIONS))
def test_losses_and_gradients_are_those_of_clip_ppo_loss(kind, options, shared):
    options = dict(OPTIONS[options])
    if kind == "tanh_normal" and "entropy_coeff" in options:
        options["entropy_bonus"] = False
    actor, critic = networks(kind, shared=shared)
    loss = ClipPPOLoss(actor, critic, **options)
    batch = batch_of(actor)
    indices = torch.randperm(ROWS)[:32]
    expected = loss(batch.reshape(-1)[indices])
    names = [name for name in ("loss_objective", "loss_critic", "loss_entropy") if name in expected]
    sum(expected[name] for name in names).backward()
    nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
    gradients = {name: parameter.grad.clone() for name, parameter in loss.named_parameters()}

    update = PPOUpdate(loss, partial(torch.optim.SGD, lr=0.0), max_grad_norm=0.5)
    losses = update(update.columns(batch), indices)
    for name in names:
        torch.testing.assert_close(losses[name], expected[name].detach(), rtol=1e-5, atol=1e-6)
    for name, parameter in loss.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("shared", cases([False, True]), ids=["apart", "trunk"])
@pytest.mark.parametrize("kind", cases(default=["normal", "tanh_normal", "one_hot"], also=DISTRIBUTIONS))
def test_log_probabilities_that_the_batch_lacks_are_worked_out_once(kind, shared):
    actor, critic = networks(kind, shared=shared)
    update = PPOUpdate(ClipPPOLoss(actor, critic, entropy_bonus=False), partial(torch.optim.SGD, lr=0.1))
    batch = batch_of(actor)
    with torch.no_grad():
        scored = actor(batch.select("observation"))
    batch["action"], expected = scored["action"], scored["action_log_prob"]
    del batch["action_log_prob"]
    columns = update.columns(batch)
    torch.testing.assert_close(batch["action_log_prob"], expected, rtol=1e-4, atol=1e-4)
    update(columns, torch.arange(ROWS))  # another policy now
    again = update.columns(batch)
    torch.testing.assert_close(again[1], columns[1], rtol=0, atol=1e-6)


def test_several_updates_end_where_plain_ones_do():
    weights = []
    for fast in (True, False):
        actor, critic = networks("categorical")
        loss = ClipPPOLoss(actor, critic, **OPTIONS["all"])
        batch = batch_of(actor)
        torch.manual_seed(2)
        orders = [torch.randperm(ROWS) for _ in range(3)]
        if fast:
            update = PPOUpdate(loss, partial(torch.optim.Adam, lr=1e-2, fused=True), max_grad_norm=0.5)
            columns = update.columns(batch)
        else:
            optimizer = torch.optim.Adam(loss.parameters(), lr=1e-2)
        for indices in torch.cat(orders).split(32):
            if fast:
                update(columns, indices)
                continue
            losses = loss(batch.reshape(-1)[indices])
            optimizer.zero_grad()
            (losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]).backward()
            nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
            optimizer.step()
        weights.append([parameter.detach().clone() for parameter in loss.parameters()])
    for fast, plain in zip(*weights, strict=True):
        torch.testing.assert_close(fast, plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("parts", "compile"), cases(default=[(2, False), (3, False)], also=[(40, False), (3, True)])
)
def test_a_minibatch_in_parts_gives_the_numbers_of_the_whole(monkeypatch, parts, compile):
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    found, seen = [], []
    for accumulation in (1, parts):
        loss = ClipPPOLoss(*networks("categorical", shared=True), **OPTIONS["all"])
        torch.manual_seed(2)
        batch = batch_of(loss.actor_network)
        loss.critic_network[-1].module.register_forward_hook(lambda *call: seen.append(len(call[1][0])))
        sgd = partial(torch.optim.SGD, lr=0.0)
        options = {"max_grad_norm": 0.5, "gradient_accumulation": accumulation, "compile": compile}
        update = PPOUpdate(loss, sgd, **options)
        seen.clear()
        losses = update(update.columns(batch), torch.arange(0, ROWS, 3))
        assert max(seen) == -(-ROWS // 3 // accumulation)
        found.append((losses, torch.cat([one.grad.reshape(-1) for one in loss.parameters()])))
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-7)


def test_an_annealed_clip_range_is_followed():
    actor, critic = networks("normal")
    loss = ClipPPOLoss(actor, critic, entropy_bonus=False)
    batch, indices = batch_of(actor), torch.arange(ROWS)
    update = PPOUpdate(loss, partial(torch.optim.SGD, lr=0.0))
    columns = update.columns(batch)
    before = update(columns, indices)["loss_objective"]
    loss.clip_epsilon.fill_(0.01)
    after = update(columns, indices)["loss_objective"]
    assert after != before
    torch.testing.assert_close(after, loss(batch.reshape(-1))["loss_objective"].detach())


@pytest.mark.parametrize("compile", cases([False, True]))
def test_a_single_row_is_learned_from_as_it_is(monkeypatch, compile):
    """Whatever is left over at the end of a batch: one number has no deviation to be divided by."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    actor, critic = networks("normal")
    loss = ClipPPOLoss(actor, critic, normalize_advantage=True)
    batch, index = batch_of(actor), torch.tensor([5])
    expected = loss(batch.reshape(-1)[index])
    (expected["loss_objective"] + expected["loss_critic"] + expected["loss_entropy"]).backward()
    gradients = {name: parameter.grad.clone() for name, parameter in loss.named_parameters()}

    update = PPOUpdate(loss, partial(torch.optim.SGD, lr=0.0), compile=compile)
    losses = update(update.columns(batch), index)
    torch.testing.assert_close(losses["loss_objective"], expected["loss_objective"].detach())
    for name, parameter in loss.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name], rtol=1e-4, atol=1e-6)


def test_a_compiled_update_gives_the_same_numbers_for_whole_and_smaller_minibatches(monkeypatch):
    # The graph is made as ever, and run without a compiler, which takes half a minute.
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    weights = []
    for compile in (False, True):
        actor, critic = networks("normal")
        loss = ClipPPOLoss(actor, critic, normalize_advantage=True, clip_value=True)
        batch = batch_of(actor)
        update = PPOUpdate(
            loss, partial(torch.optim.Adam, lr=1e-2, fused=True), max_grad_norm=0.5, compile=compile
        )
        columns = update.columns(batch)
        for indices in torch.arange(ROWS).split(40):  # 40, 40 and 16
            update(columns, indices)
        weights.append(torch.cat([parameter.detach().reshape(-1) for parameter in loss.parameters()]))
    torch.testing.assert_close(*weights, rtol=1e-4, atol=1e-5)


def test_diagnostics_of_an_unchanged_policy():
    actor, critic = networks("categorical")
    loss = ClipPPOLoss(actor, critic)
    batch = batch_of(actor)
    batch["action_log_prob"] = actor.log_prob(batch).detach()
    with torch.no_grad():
        batch["value_target"] = critic(batch)["state_value"].clone()
    update = PPOUpdate(loss, partial(torch.optim.SGD, lr=0.0))
    figures = update.diagnostics(update.columns(batch))
    assert figures["kl"] == pytest.approx(0, abs=1e-6)
    assert figures["clip_fraction"] == 0
    assert figures["explained_variance"] == pytest.approx(1, abs=1e-6)
    assert figures["entropy"] == pytest.approx(actor.get_dist(batch).entropy().mean().item(), rel=1e-5)


def test_a_state_dict_goes_on():
    weights = []
    for interrupted in (False, True):
        actor, critic = networks("one_hot")
        loss = ClipPPOLoss(actor, critic)
        batch = batch_of(actor)
        update = PPOUpdate(loss, partial(torch.optim.Adam, lr=1e-2, fused=True))
        columns = update.columns(batch)
        for i in range(4):
            if interrupted and i == 2:
                state = update.state_dict()
                loss = ClipPPOLoss(*networks("one_hot"))
                update = PPOUpdate(loss, partial(torch.optim.Adam, lr=1e-2, fused=True))
                update.load_state_dict(state)
            update(columns, torch.arange(ROWS))
        weights.append(update.state_dict()["parameters"])
    assert torch.equal(*weights)


@pytest.mark.parametrize(
    ("options", "message"),
    cases(
        default=[
            ({"delay_actor": True}, "delay_actor"),
            ({"max_importance_ratio": 2.0}, "max_importance_ratio"),
            ({"reduction": "sum"}, "reduction"),
        ],
        also=[({"separate_losses": True}, "separate_losses")],
    ),
)
def test_options_that_are_not_known_are_refused(options, message):
    loss = ClipPPOLoss(*networks("normal"), **options)
    with pytest.raises(ValueError, match=message):
        PPOUpdate(loss, partial(torch.optim.SGD, lr=0.0))


def test_another_loss_is_refused():
    with pytest.raises(TypeError, match=r"got MAPPOLoss; without PPOUpdate any loss is learned from"):
        PPOUpdate(MAPPOLoss(*networks("normal")), partial(torch.optim.SGD, lr=0.0))


def test_a_distribution_that_is_not_known_is_refused():
    head = TensorDictModule(nn.Linear(FEATURES, 1), ["observation"], ["rate"])
    actor = ProbabilisticActor(
        head, in_keys=["rate"], distribution_class=distributions.Poisson, return_log_prob=True
    )
    with pytest.raises(TypeError, match="Poisson"):
        PPOUpdate(ClipPPOLoss(actor, networks("normal")[1]), partial(torch.optim.SGD, lr=0.0))


def test_an_entropy_bonus_without_a_formula_is_refused():
    with pytest.raises(ValueError, match="TanhNormal"):
        PPOUpdate(ClipPPOLoss(*networks("tanh_normal")), partial(torch.optim.SGD, lr=0.0))


@pytest.mark.parametrize("share_params", cases([True, False]))
def test_agents_learn_what_torchrl_teaches_them(share_params):
    """Entries of a group of agents, a policy that sees an agent's own, and a critic that sees all of them."""
    torch.manual_seed(1)
    make = partial(MultiAgentMLP, 18, n_agents=3, share_params=share_params, num_cells=[16])
    observation, value = ("agent", "observation"), ("agent", "state_value")
    critic = TensorDictModule(make(1, centralized=True), [observation], [value])
    actor = ProbabilisticActor(
        TensorDictModule(make(5, centralized=False), [observation], [("agent", "logits")]),
        in_keys=[("agent", "logits")],
        out_keys=[("agent", "action")],
        distribution_class=distributions.Categorical,
        return_log_prob=True,
        log_prob_key=("agent", "log_prob"),
    )
    names = ("reward", "done", "terminated")
    keys = {"value": value, **{name: ("agent", name) for name in names}}
    loss = ClipPPOLoss(actor, critic, **OPTIONS["all"])
    loss.set_keys(action=("agent", "action"), sample_log_prob=("agent", "log_prob"), **keys)
    gae = GAE(gamma=0.99, lmbda=0.95, value_network=critic)
    gae.set_keys(**keys)
    options = {"categorical_action_encoding": True, "max_cycles": 10}
    env = PoolEnv("mpe2/simple_spread_v3", num_envs=4, seed=0, **options)
    batch = next(iter(PoolCollector(env, actor, frames_per_batch=4 * 24)))
    batch["next", "agent", "terminated"][1, 5, 2] = batch["next", "agent", "done"][1, 5, 2] = True  # alone
    batch["next", "agent", "done"][2, 9] = False  # as where max_episode_steps ends the env
    with torch.no_grad():
        expected = gae(batch.clone())
    found = estimate_advantages(gae, batch)
    for key in ("advantage", "value_target", value):
        assert found[key].shape == (4, 24, 3, 1)
        torch.testing.assert_close(found[key], expected[key], rtol=1e-5, atol=1e-5)

    step = torch.tensor([1 * 24 + 5])  # whose advantages differ by more than they are rounded
    of_one_step = loss(expected.reshape(-1)[step])["loss_objective"].detach()
    losses = loss(expected.reshape(-1))
    names = ("loss_objective", "loss_critic", "loss_entropy")
    sum(losses[name] for name in names).backward()
    gradients = [parameter.grad.clone() for parameter in loss.parameters()]
    update = PPOUpdate(loss, partial(torch.optim.SGD, lr=0.0))
    updated = update(update.columns(found), torch.arange(4 * 24))
    for name in names:
        torch.testing.assert_close(updated[name], losses[name].detach(), rtol=1e-5, atol=1e-6)
    for parameter, gradient in zip(loss.parameters(), gradients, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-4, atol=1e-6)
    objective = update(update.columns(found), step)["loss_objective"]
    torch.testing.assert_close(objective, of_one_step, rtol=0, atol=1e-4)


# ---- parameters as one


def test_flat_parameters_are_views_of_one():
    net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))
    before = [parameter.detach().clone() for parameter in net.parameters()]
    flat = flatten_parameters(net.parameters())
    for parameter, value in zip(net.parameters(), before, strict=True):
        assert torch.equal(parameter, value)
    net(torch.ones(2, 3)).sum().backward()
    assert torch.equal(flat.grad, torch.cat([parameter.grad.reshape(-1) for parameter in net.parameters()]))
    with torch.no_grad():
        flat.zero_()
    assert net(torch.ones(2, 3)).abs().sum() == 0


def test_flat_parameters_have_one_dtype():
    mixed = [nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2, dtype=torch.float64))]
    with pytest.raises(ValueError, match=r"float32.*float64"):
        flatten_parameters(mixed)
    with pytest.raises(ValueError, match="expected some"):
        flatten_parameters([])


# ---- advantages


def collected(task="CartPole-v1", **kwargs):
    """A batch with episodes that end, by themselves and by the time limit."""
    env = PoolEnv(task, num_envs=4, seed=0, obs_dtype=torch.float32, max_episode_steps=15, **kwargs)
    return next(iter(PoolCollector(env, frames_per_batch=4 * 64)))


@pytest.mark.parametrize("average", cases([False, True]))
@pytest.mark.parametrize("shared", cases([False, True]))
def test_advantages_are_those_of_gae(average, shared):
    batch = collected()
    assert batch["next", "terminated"].any()
    assert (batch["next", "truncated"] & ~batch["next", "terminated"]).any()
    value = ValueOperator(
        nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)), in_keys=["observation"]
    )
    gae = GAE(gamma=0.99, lmbda=0.95, value_network=TensorDictSequential(value) if shared else value)
    gae.average_gae = average
    with torch.no_grad():
        expected = gae(batch.clone())
    found = estimate_advantages(gae, batch, chunk=50)
    for key in ("advantage", "value_target", "state_value", ("next", "state_value")):
        torch.testing.assert_close(found[key], expected[key], rtol=1e-5, atol=1e-5)
        assert found[key].shape == expected[key].shape


@pytest.mark.parametrize(
    "option", cases(default=[{"shifted": True}, {"differentiable": True}], also=[{"auto_reset_env": True}])
)
def test_options_of_gae_that_are_not_known_are_refused(option):
    value = ValueOperator(nn.Linear(4, 1), in_keys=["observation"])
    with pytest.raises(ValueError, match=next(iter(option))):
        estimate_advantages(GAE(gamma=0.9, lmbda=0.9, value_network=value, **option), collected())


# ---- rewards


def test_scaled_rewards_are_those_of_gymnasium_but_for_the_first_steps():
    gymnasium = pytest.importorskip("gymnasium")
    generator = torch.Generator().manual_seed(0)
    rewards = 3 + torch.randn(1, 4000, 1, generator=generator)
    dones = torch.rand(1, 4000, 1, generator=generator) < 0.01

    class Given(gymnasium.Env):
        observation_space = action_space = gymnasium.spaces.Discrete(2)
        t = 0

        def reset(self, **kwargs):
            return 0, {}

        def step(self, action):
            self.t += 1
            return 0, rewards[0, self.t - 1].item(), bool(dones[0, self.t - 1]), False, {}

    env = gymnasium.wrappers.NormalizeReward(Given(), gamma=0.9)
    env.reset()
    expected = torch.tensor([env.step(0)[1] for _ in range(4000)])
    scaling = ReturnScaling(num_envs=1, gamma=0.9)
    found = torch.cat(
        [scaling(r, d) for r, d in zip(rewards.split(50, 1), dones.split(50, 1), strict=True)], 1
    )
    torch.testing.assert_close(found[0, 3000:, 0].double(), expected[3000:].double(), rtol=0.02, atol=0.02)


def test_return_scaling_goes_on_from_its_state():
    rewards, dones = torch.randn(3, 40, 1), torch.rand(3, 40, 1) < 0.1
    whole, first, second = (ReturnScaling(3, gamma=0.9) for _ in range(3))
    whole(rewards[:, :20], dones[:, :20])
    first(rewards[:, :20], dones[:, :20])
    second.load_state_dict(first.state_dict())
    assert torch.equal(whole(rewards[:, 20:], dones[:, 20:]), second(rewards[:, 20:], dones[:, 20:]))


# ---- collectors


def test_a_collector_goes_on_from_another_ones_state(tmp_path):
    def make():
        actor, _ = networks("categorical")
        actor.module[0].module = nn.Linear(4, 2)
        torch.manual_seed(3)
        nn.init.normal_(actor.module[0].module.weight)
        env = PoolEnv(
            "CartPole-v1",
            num_envs=3,
            seed=7,
            info_keys=("episode_reward", "step_count"),
            categorical_action_encoding=True,
        )
        return PoolCollector(env, actor, frames_per_batch=3 * 40)

    one = make()
    batches = iter(one)
    next(batches)
    torch.save(collector_state(one), tmp_path / "state.pt")
    generator = torch.get_rng_state()
    expected = [next(batches) for _ in range(2)]
    other = make()
    load_collector_state(other, torch.load(tmp_path / "state.pt", weights_only=True))
    torch.set_rng_state(generator)
    batches = iter(other)
    for batch in expected:
        assert (next(batches) == batch).all()
    with pytest.raises(ValueError, match="expected 3 simulators, got 1"):
        load_collector_state(other, {"simulators": [b""]})


def test_trajectories_that_have_not_ended_are_in_no_state():
    collector = PoolCollector(PoolEnv("CartPole-v1", 2), frames_per_batch=8, trajs_per_batch=2)
    with pytest.raises(ValueError, match="trajs_per_batch"):
        collector_state(collector)
