"""Whatever fails first, in whichever call, the next call answers: with what failed again, or with an env."""

from functools import partial

import pytest
from cases import cases
from python_envs import Failing

from torchrl_pool import EnvFailure, PoolEnv

WHERE = {"here": 0, "one worker": 1, "two workers": 2}
WHEN = ["made", "seeded", "reset", "step", "closed"]
#: Where envs are, how they fail, which of three do.
WAYS = [("here", "raises", [1]), ("one worker", "raises", [0, 1, 2]), ("two workers", "raises", [1])]
WAYS += [("one worker", "exits", [0, 1, 2]), ("two workers", "exits", [1])]


def calls(pool, order):
    """Each of these calls, and what became of it."""
    outcomes = []
    for call in order:
        try:
            if call == "set_seed":
                pool.set_seed(3)
            elif call == "seeded reset":
                pool.reset(seed=3)
            elif call == "rollout":
                pool.rollout(2)
            else:
                getattr(pool, call)()
        except (EnvFailure, RuntimeError) as error:
            outcomes.append(type(error).__name__)
        else:
            outcomes.append("fine")
    return outcomes


ORDERS = [
    ("reset", "reset", "rollout"),
    ("set_seed", "reset", "reset", "close", "reset", "reset"),
    ("rollout", "set_seed", "rollout", "seeded reset", "reset"),
    ("close", "reset", "close", "close", "reset"),
]


OPTIONS = [{"seed": 0}, {"seed": 0, "respawn": True}, {}, {"seed": 0}]


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("where", "how", "failing"), WAYS)
@pytest.mark.parametrize("when", cases(default=["made", "step"], also=WHEN))
def test_the_next_call_answers(tmp_path, where, how, failing, when):
    """Until it would succeed; then it does."""
    file = tmp_path / "fails"
    for order, given in zip(ORDERS, OPTIONS, strict=True):
        options = {} if where == "here" and "respawn" in given else given
        makes = [partial(Failing, file, when if env in failing else "never", how) for env in range(3)]
        pool = PoolEnv(makes, 3, num_workers=WHERE[where], **options)
        file.touch()
        outcomes = calls(pool, order)
        file.unlink()
        assert len(outcomes) == len(order)
        assert calls(pool, ("close", "reset", "rollout", "close"))[1:] == ["fine"] * 3, (order, outcomes)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("where", cases(default=["here", "one worker"], also=WHERE))
def test_an_env_whose_first_seeding_fails_is_seeded_as_it_starts_later(tmp_path, where):
    """Not left with whatever stream it has."""

    def drawn(pool):
        return pool.get_attr("np_random")[1].bit_generator.state

    file = tmp_path / "fails"
    make = partial(Failing, file, "seeded", "raises")
    fine, pool = (PoolEnv([make] * 3, 3, num_workers=WHERE[where], seed=0) for _ in range(2))
    fine.reset()
    file.touch()
    for _ in range(2):
        with pytest.raises(EnvFailure, match="not seeded"):
            pool.reset()
    file.unlink()
    pool.reset()
    assert drawn(pool) == drawn(fine)
    pool.close()
    fine.close()


@pytest.mark.parametrize("task", cases(["CartPole-v1", "gymnasium:CartPole-v1"]))
def test_more_envs_than_the_executor_can_number_are_refused_at_once(task):
    """Before lists of that length fill the memory."""
    with pytest.raises(ValueError, match="num_envs: expected at most 2147483647, got 8589934592"):
        PoolEnv(task, 2**33)
