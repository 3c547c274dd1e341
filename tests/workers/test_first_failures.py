"""Whatever fails first, in whichever call, the next call answers: with what failed again, or with an env."""

import os
from functools import partial

import gymnasium
import numpy as np
import pytest

from torchrl_pool import EnvFailure, PoolEnv

WHERE = {"here": 0, "one worker": 1, "two workers": 2}
WHEN = ["made", "seeded", "reset", "step", "closed"]
HOW = ["raises", "exits"]


class Failing(gymnasium.Env):
    """Fails while a file is there, in what it was told to fail in."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, file, when, how):
        self.file, self.when, self.how = file, when, how
        self.act("made")

    def act(self, now):
        if now == self.when and os.path.exists(self.file):
            if self.how == "exits":
                os._exit(3)
            raise ValueError(f"not {now}")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.act("reset" if seed is None else "seeded")
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.act("step")
        return np.zeros(1, np.float32), 0.0, False, False, {}

    def close(self):
        self.act("closed")


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


@pytest.mark.timeout(120)
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("which", ["one env", "all envs"])
def test_the_next_call_answers(tmp_path, where, when, how, which):
    """Until it would succeed; then it does."""
    if how == "exits" and where == "here":
        pytest.skip("an env that ends its process ends the program")
    for number, order in enumerate(ORDERS):
        for options in ({"seed": 0}, {"seed": 0, "respawn": True}, {}):
            if options.get("respawn") and where == "here":
                continue
            file = tmp_path / f"fails {number}"
            fails, works = (partial(Failing, file, one, how) for one in (when, "never"))
            pool = PoolEnv([works, fails if which == "one env" else works, fails], 3, num_workers=WHERE[where], **options)
            file.touch()
            outcomes = calls(pool, order)
            file.unlink()
            assert len(outcomes) == len(order)
            assert calls(pool, ("close",))[0] in ("fine", "EnvFailure")
            assert calls(pool, ("reset", "rollout", "close")) == ["fine"] * 3, (order, options, outcomes)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("where", WHERE)
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
