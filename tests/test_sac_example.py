"""The SAC example: updates with the numbers of SACLoss, and trainings that can be repeated."""

from functools import partial

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import NormalParamExtractor, TensorDictModule
from torch import nn
from torchrl.modules import MLP, ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import SACLoss, SoftUpdate

pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")

from off_policy import assert_equal_trainings, curve_in, parsed, slow, trained

from torchrl_pool.examples.off_policy import Priorities, Replay
from torchrl_pool.examples.sac import PROGRAM, SACTraining
from torchrl_pool.training import SACUpdate

ROWS, FEATURES, ACTIONS = 96, 5, 3
BOUNDS = {"low": torch.tensor([-1.0, -2.0, 0.0]), "high": torch.tensor([1.0, 2.0, 4.0])}
SMALL = [
    "--task",
    "InvertedPendulum-v5",
    "--hidden",
    "16,16",
    "--batch-size",
    "16",
    "--learning-starts",
    "40",
]
SMALL += ["--buffer-size", "120", "--frames-per-row", "48", "--total-frames", "192"]


def make_loss(**options):
    torch.manual_seed(1)
    network = nn.Sequential(MLP(FEATURES, 2 * ACTIONS, num_cells=[16]), NormalParamExtractor())
    actor = ProbabilisticActor(
        TensorDictModule(network, ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        distribution_kwargs=BOUNDS,
        return_log_prob=True,
    )
    critic = ValueOperator(MLP(FEATURES + ACTIONS, 1, num_cells=[16]), in_keys=["observation", "action"])
    loss = SACLoss(
        actor, critic, **{"loss_function": "l2", "target_entropy": -3.0, "alpha_init": 0.5, **options}
    )
    loss.make_value_estimator(gamma=0.9)
    return loss


def transitions():
    after = {
        "observation": torch.randn(ROWS, FEATURES),
        "reward": torch.randn(ROWS, 1),
        "terminated": torch.rand(ROWS, 1) < 0.3,
    }
    after["done"] = after["terminated"] | (torch.rand(ROWS, 1) < 0.3)  # time limits do not count
    action = BOUNDS["low"] + torch.rand(ROWS, ACTIONS) * (BOUNDS["high"] - BOUNDS["low"])
    return TensorDict({"observation": torch.randn(ROWS, FEATURES), "action": action, "next": after}, [ROWS])


def noise_from(seed, count):
    """The numbers that SACLoss draws: for the next actions, then for today's."""
    torch.manual_seed(seed)
    return torch.stack([torch.randn(count, ACTIONS) for _ in range(2)])


@pytest.mark.parametrize(
    ("extra", "compile"),
    [
        ("plain", False),
        ("weights", False),
        ("steps", False),
        ("smooth", False),
        ("weights", "trace"),
        pytest.param("weights", True, marks=pytest.mark.slow),  # test_dqn_example.py compiles a smaller one
    ],
)
def test_losses_and_gradients_are_those_of_sac_loss(extra, compile):
    options = {"loss_function": "smooth_l1", "fixed_alpha": True} if extra == "smooth" else {}
    loss, rows = make_loss(**options), transitions()
    weights = torch.rand(ROWS) + 0.1 if extra == "weights" else None
    if weights is not None:
        rows["priority_weight"] = weights
    if extra == "steps":
        rows["steps_to_next_obs"] = torch.randint(1, 4, (ROWS, 1))
    indices = torch.randperm(ROWS)[:32]
    noise = noise_from(5, 32)
    torch.manual_seed(5)
    sample = rows[indices]
    expected = loss(sample)
    (expected["loss_actor"] + expected["loss_qvalue"] + expected["loss_alpha"]).backward()
    gradients = {name: parameter.grad.clone() for name, parameter in loss.named_parameters()}

    update = SACUpdate(loss, partial(torch.optim.SGD, lr=0.0), tau=0.1, compile=compile)
    found = update(update.columns(rows), indices, None if weights is None else weights[indices], noise)
    for name in update.names:
        torch.testing.assert_close(found[name], expected[name].detach(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found["td_error"], sample["td_error"].reshape(-1), rtol=1e-5, atol=1e-5)
    for name, parameter in loss.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name], rtol=1e-4, atol=1e-6)


def test_several_updates_end_where_torchrls_do():
    rows, ends = transitions(), []
    for lean in (True, False):
        loss = make_loss()
        if lean:
            update = SACUpdate(loss, partial(torch.optim.Adam, lr=1e-2), tau=0.1)
        else:
            optimizer, targets = torch.optim.Adam(loss.parameters(), lr=1e-2), SoftUpdate(loss, tau=0.1)
        for seed in range(5):
            indices, noise = torch.arange(seed, seed + 32), noise_from(seed, 32)
            if lean:
                update(update.columns(rows), indices, noise=noise)
                continue
            torch.manual_seed(seed)
            out = loss(rows[indices])
            (out["loss_actor"] + out["loss_qvalue"] + out["loss_alpha"]).backward()
            optimizer.step()
            optimizer.zero_grad()
            targets.step()
        own = torch.cat([one.detach().reshape(-1) for one in loss.parameters()])
        after = loss.target_qvalue_network_params.flatten_keys(".").items()
        ends.append((own, torch.cat([tensor.reshape(-1) for _, tensor in sorted(after)])))
    for lean_end, end in zip(*ends, strict=True):
        torch.testing.assert_close(lean_end, end, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_alpha": 0.1}, "min_alpha"),
        ({"delay_actor": True}, "delay_actor"),
        ({"reduction": "sum"}, "reduction"),
    ],
)
def test_options_that_are_not_known(options, message):
    with pytest.raises(ValueError, match=message):
        SACUpdate(make_loss(**options), partial(torch.optim.SGD, lr=0.0), tau=0.1)


VARIANTS = {
    "one": [],
    "parallel": ["--parallel", "--num-envs", "4", "--frames-per-batch", "8", "--updates-per-batch", "3"],
    "n_steps": ["--n-steps", "3", "--priority-alpha", "0.6"],
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_resumed_training_ends_with_the_same_weights_and_buffer(tmp_path, variant):
    config = parsed(PROGRAM, *SMALL, *VARIANTS[variant])
    whole = trained(SACTraining, config, tmp_path / "whole")
    parts = trained(SACTraining, config, tmp_path / "parts", stop_after=3)
    assert len(whole["replay"]["rows"]["action"]) == 120  # it has wrapped around
    assert_equal_trainings(whole, parts)


@pytest.mark.parametrize("slow_side", ["envs", "updates"])
def test_parallel_trainings_do_not_depend_on_speed(tmp_path, slow_side):
    config = parsed(PROGRAM, *SMALL, *VARIANTS["parallel"], "--total-frames", "96")

    def delayed(config, folder):
        training = SACTraining(config, folder)
        if slow_side == "envs":
            actor = training.actors.actors[0]
            actor.collect = slow(actor.collect, 0.03)
        else:
            training._learn = slow(training._learn, 0.03)
        return training

    as_it_is = trained(SACTraining, config, tmp_path / "as_it_is")
    assert_equal_trainings(as_it_is, trained(delayed, config, tmp_path / "delayed"))


def test_a_batch_is_collected_with_the_weights_from_before_the_updates_beside_it(tmp_path):
    config = parsed(PROGRAM, *SMALL, *VARIANTS["parallel"], "--frames-per-row", "8", "--learning-starts", "8")
    training = SACTraining(config, tmp_path)
    acting = list(training.actors.actors[0].policy.parameters())
    own = list(training.actor.parameters())
    training.iterate()
    for _ in range(3):
        before = [one.clone() for one in own]
        training.iterate()
        training.actors.rest()  # waits for what is collected beside the updates
        assert all(torch.equal(*pair) for pair in zip(acting, before, strict=True))
        assert not all(torch.equal(*pair) for pair in zip(acting, own, strict=True))
    training.close()


def test_each_batch_has_its_updates(tmp_path):
    state = trained(SACTraining, parsed(PROGRAM, *SMALL, *VARIANTS["parallel"]), tmp_path)
    assert state["update"]["count"] == (192 // 8 - 40 // 8) * 3


def test_transitions_of_several_steps():
    """Rewards are added up as far as the episode goes, across batches; values stand for what follows."""
    steps, ends, n_steps = 24, {6, 15}, 3
    replay = Replay(100, torch.Generator(), n_steps=n_steps, gamma=0.5, alpha=0.0)
    observed = torch.arange(steps).float()
    ended = torch.tensor([step in ends for step in range(steps)])
    terminated = torch.tensor([step == 6 for step in range(steps)])
    after = {"observation": observed + 0.5, "reward": observed + 1, "terminated": terminated, "done": ended}
    after = {key: value.reshape(1, steps, 1) for key, value in after.items()}
    whole = {"observation": observed.reshape(1, steps, 1), "action": torch.zeros(1, steps, 1), "next": after}
    whole = TensorDict(whole, [1, steps])
    for begin in range(0, steps, 4):
        replay.extend(whole[:, begin : begin + 4])
    rows = replay.rows[: len(replay)]
    assert len(replay) == steps - n_steps
    for start, row in enumerate(rows.unbind(0)):
        last = min([start + n_steps - 1, *(end for end in ends if end >= start)])
        assert row["observation"].item() == start
        assert row["steps_to_next_obs"].item() == last - start + 1
        assert row["next", "observation"].item() == last + 0.5
        reward = sum(0.5 ** (step - start) * (step + 1) for step in range(start, last + 1))
        assert row["next", "reward"].item() == pytest.approx(reward)
        assert row["next", "terminated"].item() == (last == 6)


def test_samples_follow_priorities():
    priorities, generator = Priorities(10, alpha=0.5), torch.Generator().manual_seed(0)
    priorities.begin(torch.arange(4))
    priorities.update(torch.arange(3), torch.tensor([1.0, 4.0, 9.0]))
    priorities.begin(torch.tensor([3]))
    assert priorities.values[:4].tolist() == pytest.approx([1, 2, 3, 3], rel=1e-5)
    indices, weights = priorities.sample(4, 9000, 1.0, generator)
    assert (indices.bincount() / 1000).tolist() == pytest.approx([1, 2, 3, 3], rel=0.1)
    assert weights[indices == 2].unique().tolist() == pytest.approx([1 / 3], rel=1e-5)


def test_it_learns_to_balance_a_pole(tmp_path):
    arguments = [
        "--task",
        "InvertedPendulum-v5",
        "--hidden",
        "32,32",
        "--batch-size",
        "64",
        "--learning-rate",
        "3e-3",
    ]
    arguments += [
        "--total-frames",
        "3000",
        "--learning-starts",
        "500",
        "--frames-per-row",
        "100",
        "--num-envs",
        "4",
    ]
    arguments += ["--frames-per-batch", "4", "--updates-per-batch", "2", "--quiet", "--compile", "no"]
    arguments += ["--until-return", "12", "--evaluate", "0"]
    assert PROGRAM.main([*arguments, "--output", str(tmp_path)]) == 0
    returns = [float(row["return"]) for row in curve_in(tmp_path / "sac-InvertedPendulum-v5-0")]
    assert returns[3] < 8
    assert returns[-1] >= 12


@pytest.mark.parametrize("preset", PROGRAM.presets)
def test_presets_make_trainings(preset, tmp_path):
    arguments = [
        "--preset",
        preset,
        "--frames-per-batch",
        "16",
        "--learning-starts",
        "16",
        "--batch-size",
        "8",
    ]
    arguments += [
        "--frames-per-row",
        "32",
        "--total-frames",
        "32",
        "--updates-per-batch",
        "1",
        "--buffer-size",
        "64",
    ]
    trained(SACTraining, parsed(PROGRAM, *arguments), tmp_path)


def test_tasks_of_dm_control_have_their_bounds(tmp_path):
    pytest.importorskip("dm_control")
    config = parsed(PROGRAM, *SMALL, "--task", "dm_control/cartpole-swingup-v0", "--total-frames", "48")
    trained(SACTraining, config, tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tau", "0"], "--tau"),
        (["--buffer-size", "4", "--frames-per-batch", "8"], "--buffer-size"),
        (["--updates-per-batch", "0"], "--updates-per-batch"),
    ],
)
def test_wrong_options(arguments, message, capsys):
    with pytest.raises(SystemExit):
        PROGRAM.main(arguments)
    assert message in capsys.readouterr().err
