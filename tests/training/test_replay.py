"""The replay buffer of the training programs: transitions of several steps, priorities, its state."""

import pytest
import torch
from cases import cases
from programs import finish, small, through_a_file
from tensordict import TensorDict

from torchrl_pool.examples.replay import Priorities, Replay, ReplayOptions


def test_transitions_of_several_steps():
    """Rewards are added up as far as the episode goes, across batches; values stand for what follows."""
    steps, ends, n_steps = 24, {6, 15}, 3
    replay = Replay(ReplayOptions(buffer_size=100, n_steps=n_steps, gamma=0.5), torch.Generator())
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


def test_a_buffer_goes_on_from_steps_that_are_no_transition_yet():
    """Three steps are summed up, and it was saved after the first."""

    def replay():
        return Replay(ReplayOptions(buffer_size=8, n_steps=3), torch.Generator())

    def batch(number):
        done = torch.zeros(2, 1, 1, dtype=torch.bool)
        value = torch.full((2, 1, 1), float(number))
        after = {"observation": value + 1, "reward": value, "terminated": done, "done": done}
        return TensorDict(
            {"observation": value, "action": value, "next": after}, [2, 1], names=[None, "time"]
        )

    whole, saved, resumed = replay(), replay(), replay()
    saved.extend(batch(0))
    assert not len(saved)
    resumed.load_state_dict(saved.state_dict())
    for number in range(5):
        whole.extend(batch(number))
        if number:
            resumed.extend(batch(number))
    assert whole.seen == resumed.seen
    assert len(whole) == len(resumed) > 0
    assert (whole.rows[: len(whole)] == resumed.rows[: len(whole)]).all()


def test_it_wraps_around_and_its_saved_rows_are_those_it_had(begin):
    state = finish(begin("sac"))["replay"]
    assert len(state["rows"]["action"]) == 120
    assert (state["written"], state["seen"]) == (192, 192)


def test_without_its_buffer_a_resumed_training_fills_a_new_one(begin, tmp_path):
    first = begin("dqn", "--no-save-replay", "--total-frames", "480")
    for _ in range(5):
        first.iterate()
    state = through_a_file(first.state_dict(), tmp_path)
    assert state["replay"].keys() == {"seen", "generator"}
    second = begin("dqn", "--no-save-replay", "--total-frames", "480")
    second.load_state_dict(state)
    assert finish(second)["update"]["count"] == 2 * (240 - 40) // 4


@pytest.mark.parametrize(
    ("size", "goes_on"), cases(default=[("400", True), ("100", False)], also=[("192", True)])
)
def test_a_buffer_goes_on_where_it_has_room(size, goes_on, tmp_path, capsys):
    program, options = small(
        "sac", "--buffer-size", "300", "--quiet", "--evaluate", "0", "--output", str(tmp_path)
    )
    assert program.main(options) == 0
    (folder,) = tmp_path.iterdir()
    resume = [
        "--resume",
        str(folder),
        "--total-frames",
        "240",
        "--buffer-size",
        size,
        "--quiet",
        "--evaluate",
        "0",
    ]
    if goes_on:
        assert program.main(resume) == 0
    else:
        with pytest.raises(SystemExit):
            program.main(resume)
        assert "--buffer-size: expected 192, as the buffer was, got 100" in capsys.readouterr().err


def test_random_steps_are_whole_rounds(begin, recwarn):
    """TorchRL's collectors warn where they are not."""
    finish(begin("sac", "--frames-per-batch", "2", "--num-envs", "2", "--learning-starts", "43"))
    assert not [one for one in recwarn if "init_random_frames" in str(one.message)]


def test_random_actions_become_fewer(begin):
    training = begin("dqn", "--epsilon-frames", "384")
    finish(training)
    epsilon = training.parts["actors"].policy[-1].eps.item()
    assert epsilon == pytest.approx(1 - 0.95 * 192 / 384, abs=1e-3)
