"""Random actions, options, names and saved states: the right exception or none, and a pool that works on."""

import copy

import pytest
import torch
from cases import LONG, cases
from hypothesis import event, given, settings
from hypothesis import strategies as st
from own_tasks import ONE_OF_EACH_KIND, OWN_TASKS

from torchrl_pool import EnvFailure, PoolEnv, list_tasks, task_info

N = 3
DTYPES = [torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool, torch.complex64]
FUZZ = settings(max_examples=2000 if LONG else 150, derandomize=True, database=None, deadline=None)


class Subclass(torch.Tensor):
    pass


def non_contiguous(values):
    wide = torch.stack([values, values], -1)
    return wide[..., 0]


FORMS = {
    "plain": lambda t: t,
    "non-contiguous": non_contiguous,
    "differentiable": lambda t: t.clone().requires_grad_() if t.is_floating_point() else t,
    "parameter": lambda t: torch.nn.Parameter(t, requires_grad=t.is_floating_point()),
    "subclass": lambda t: t.as_subclass(Subclass),
    "meta": lambda t: t.to("meta"),
    "sparse": lambda t: t.to_sparse(),
    "negated view": lambda t: torch._neg_view(t) if t.dtype not in (torch.bool, torch.uint8) else t,
    "array": lambda t: t.numpy(),
    "list": lambda t: t.tolist(),
}


@pytest.fixture(scope="module", params=["Pendulum-v1", "CartPole-v1"])
def pool(request):
    env = PoolEnv(request.param, N, seed=0, categorical_action_encoding=True)
    env.reset()
    yield env
    env.close()


def test_actions(pool):
    """Only choices that there are, or finite numbers, move the simulators, the same in whichever form."""
    spec = pool.full_action_spec["action"]
    fitting = st.tuples(st.just(spec.dtype), st.just(tuple(spec.shape)))
    anything = st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 4), max_size=3).map(tuple))
    twin = PoolEnv(pool.task, N, categorical_action_encoding=True)
    twin.reset()
    outcomes = set()

    @FUZZ
    @given(
        kind=st.one_of(fitting, fitting, anything),
        form=st.sampled_from(sorted(FORMS)),
        value=st.one_of(st.integers(-2, 3), st.floats(-3, 3), st.sampled_from([torch.nan, torch.inf])),
        expanded=st.booleans(),
    )
    def check(kind, form, value, expanded):
        dtype, shape = kind
        if not dtype.is_floating_point and value in (torch.nan, torch.inf):
            value = 1
        plain = torch.full(() if expanded else shape, value).to(dtype)
        plain = plain.expand(shape) if expanded else plain
        action = FORMS[form](plain)
        before = pool.get_state()
        twin.set_state(before)
        root = pool.full_done_spec.zero()
        root._tensordict["action"] = action  # as it is: a tensordict would convert it
        valid = (
            isinstance(action, torch.Tensor)
            and form not in ("meta", "sparse")
            and (dtype is spec.dtype or not (dtype.is_floating_point or spec.dtype.is_floating_point))
            and shape == tuple(spec.shape)
        )
        # What a negated view means is its negation.
        meant = action.detach().resolve_neg().to(spec.dtype, copy=True) if valid else None
        if valid and (
            meant.isfinite().all() if dtype.is_floating_point else spec.is_in(meant.as_subclass(torch.Tensor))
        ):
            got = pool._step(root)
            want = twin._step(twin.full_done_spec.zero().set("action", meant.as_subclass(torch.Tensor)))
            assert (got == want).all()
            outcomes.add("taken")
            if got["done"].any():
                pool.reset()
        else:
            with pytest.raises((TypeError, ValueError)):
                pool._step(root)
            assert pool.get_state() == before
            outcomes.add("refused")

    check()
    assert outcomes == {"taken", "refused"}


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-3, 300),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=3),
    st.lists(st.one_of(st.integers(-3, 300), st.floats(), st.text(max_size=3)), max_size=3),
    st.dictionaries(st.text(max_size=3), st.floats(), max_size=2),
    st.builds(object),
)
FAST_FAMILIES = ("classic", "minigrid", "mpe", "sisl", "toy_text")
FAST_TASKS = [task for task in ONE_OF_EACH_KIND if task_info(task).family in FAST_FAMILIES]


@FUZZ
@given(data=st.data(), task=st.sampled_from(FAST_TASKS))
def test_options(data, task):
    """A pool with the option works, or there is a TypeError or ValueError that names the option."""
    known = [option.name for option in task_info(task).options]
    name = data.draw(st.one_of(st.sampled_from(known), st.text(max_size=8))) if known else "x"
    try:
        env = PoolEnv(task, 2, **{name: data.draw(VALUES)})
    except (TypeError, ValueError):
        return
    try:
        env.rollout(3)
    except EnvFailure as failure:  # a simulator that cannot go on with it
        event(str(failure))
    env.close()


@FUZZ
@given(name=st.one_of(st.text(max_size=20), st.sampled_from(OWN_TASKS).map(lambda t: t[:-1]), VALUES))
def test_names(name):
    tasks = list_tasks()
    if isinstance(name, str) and name in tasks:
        return
    with pytest.raises((TypeError, ValueError)):
        PoolEnv(name, 2)


STATES = [
    "ALE/Pong-v5",
    "Acrobot-v1",
    "BabyAI-MiniBossLevel-v0",
    "BabyAI-PutNextS4N1-v0",
    "Blackjack-v1",
    "CartPole-v1",
    "Hopper-v5",
    "MiniGrid-Dynamic-Obstacles-5x5-v0",
    "MiniGrid-RedBlueDoors-6x6-v0",
    "Taxi-v4",
    "mpe2/collect_treasure_v1",
    "sisl/multiwalker_v9",
]


@pytest.mark.parametrize(
    "task",
    cases(
        default=[
            "ALE/Pong-v5",
            "BabyAI-MiniBossLevel-v0",
            "Blackjack-v1",
            "CartPole-v1",
            "MiniGrid-Dynamic-Obstacles-5x5-v0",
        ],
        also=[task for task in OWN_TASKS if task in STATES],
    ),
)
def test_saved_states(task):
    """Cut, lengthened or with other bytes: refused, or else a state to go on from."""
    env = PoolEnv(task, 2, seed=0, max_episode_steps=50)
    env.reset()
    (good,) = env.get_state(0)
    outcomes = set()

    @settings(FUZZ, max_examples=1000 if LONG else 40)
    @given(
        data=st.data(),
        size=st.one_of(st.just(len(good)), st.integers(0, len(good) + 8)),
        changes=st.integers(0, 8),
    )
    def check(data, size, changes):
        bad = bytearray(good[:size].ljust(size, b"\x07"))
        for _ in range(changes if size else 0):
            bad[data.draw(st.integers(0, size - 1))] = data.draw(st.integers(0, 255))
        before = env.get_state(1)
        try:
            env.set_state(bytes(bad), 1)
        except (ValueError, RuntimeError):
            assert env.get_state(1) == before
            outcomes.add("refused")
            return
        outcomes.add("taken")
        assert size == len(good)
        try:
            env.step_and_maybe_reset(env.rand_action())
        except EnvFailure as failure:  # a simulator that cannot go on from there says so
            event(str(failure))
            env.reset()
        env.set_state(good)

    check()
    env.set_state(copy.copy(good))
    env.rollout(3)
    assert "refused" in outcomes
    env.close()
