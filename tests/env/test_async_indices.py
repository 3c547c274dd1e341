"""Which envs are sent and received: whatever may stand for them, and what may not."""

import numpy as np
import pytest
import torch
from cases import cases
from flights import KINDS, calls_of
from tensordict.tensorclass import NonTensorStack


@pytest.mark.parametrize(
    "form",
    cases(
        default=[np.array, lambda i: torch.tensor(i, dtype=torch.uint8)],
        also=[
            list,
            tuple,
            iter,
            torch.tensor,
            lambda i: torch.tensor(i)[:, None],
            lambda i: [np.int64(i[0]), torch.tensor(i[1])],
            lambda i: NonTensorStack(*i),
            "entry",
            "list entry",
        ],
    ),
)
def test_forms_of_env_index(form, make_pool):
    pool, twin = make_pool(seed=0), make_pool(seed=0)
    root = pool.rand_action(pool.reset())
    rows = root[[4, 1]]
    if form == "entry":
        pool.async_step_send(rows.set("env_index", torch.tensor([4, 1])))
    elif form == "list entry":
        pool.async_step_send(rows.set("env_index", NonTensorStack(4, 1)))
    else:
        pool.async_step_send(rows, env_index=form([4, 1]))
    data = pool.async_step_recv(2)
    assert data["env_index"].tolist() == [1, 4]
    twin.reset()
    assert (data["next"] == twin.step(root)["next"][[1, 4]]).all()


@pytest.mark.parametrize(
    "form", cases(default=[list, lambda i: torch.tensor(i)[:, None]], also=[torch.tensor, np.array])
)
def test_env_index_may_be_a_mask(form, make_pool):
    pool = make_pool(seed=0)
    root = pool.rand_action(pool.reset())
    mask = form([False, True, False, False, True, False])
    pool.async_step_send(root[[1, 4]], env_index=mask)
    assert pool.async_step_recv(2)["env_index"].tolist() == [1, 4]
    assert pool.get_state(mask) == pool.get_state([1, 4])


@pytest.mark.parametrize(
    "form", [np.int64, int, np.uint8, torch.tensor, np.array, lambda i: torch.tensor(i, dtype=torch.int32)]
)
@pytest.mark.parametrize("kind", cases(default=["step_and_maybe_reset", "reset"], also=KINDS))
def test_forms_of_the_index_of_one_env(kind, form, make_pool):
    """A number of any kind stands for the env alone, whose row needs no batch dimension."""
    pool, twin = make_pool(seed=0), make_pool(seed=0)
    send, receive = calls_of(pool, kind)
    root, expected = pool.reset(), twin.reset()
    root["action"] = pool.rand_action()["action"]
    send(root[2], env_index=form(2))
    got = receive(env_index=form(2))
    expected = getattr(twin, kind)(*([] if kind == "reset" else [expected.set("action", root["action"])]))
    if kind != "step_and_maybe_reset":
        got, expected = [got], [expected]
    for ours, theirs in zip(got, expected, strict=True):
        assert ours.batch_size == torch.Size([])
        ours, theirs = ours.exclude("env_index", "action"), theirs[2].exclude("action")
        assert (ours == theirs).all()
    assert pool.get_state(form(1)) == pool.get_state([1])


def test_rows_sent_by_their_own_entry_are_received_together(make_pool):
    pool = make_pool(seed=0)
    pool.async_reset_send()
    root = pool.rand_action(pool.async_reset_recv(6))
    for row in root.unbind(0):
        pool.async_step_send(row)
    assert pool.async_step_recv(6)["env_index"].tolist() == list(range(6))


@pytest.mark.parametrize("kind", cases(default=["step", "reset"], also=KINDS))
def test_an_env_index_of_another_kind_is_refused(kind, make_pool):
    pool = make_pool(seed=0)
    root = pool.rand_action(pool.reset())
    send, receive = calls_of(pool, kind)
    expected = "env_index: expected ints or a mask of 6 bools, got"
    for env_index, error, message in (
        (torch.tensor([0.0, 1.0]), TypeError, f"{expected} 0.0"),
        (torch.tensor(1.0), TypeError, f"{expected} 1.0"),
        (np.array([0.0, 1.0]), TypeError, f"{expected} 0.0"),
        (1.0, TypeError, f"{expected} 1.0"),
        ([0, 1.5], TypeError, f"{expected} 1.5"),
        (["0", "1"], TypeError, f"{expected} '0'"),
        ("01", TypeError, f"{expected} '01'"),
        (True, TypeError, f"{expected} True"),
        (torch.tensor(True), TypeError, f"{expected} True"),
        ([0, True], TypeError, f"{expected} True"),
        (torch.tensor([True, False]), ValueError, "expected a mask of 6 bools, got 2"),
        (torch.zeros(6, dtype=torch.bool), ValueError, "expected at least one env, got none"),
        ([], ValueError, "expected at least one env, got none"),
        (torch.tensor([0, 6]), IndexError, "expected 0 to 5, got 6"),
        (np.int64(-1), IndexError, "expected 0 to 5, got -1"),
    ):
        for call in (lambda index: send(root[[0, 1]], index), pool.get_state, lambda i: receive(env_index=i)):
            with pytest.raises(error, match=message):
                call(env_index)
        with pytest.raises((error, ValueError)):  # a row alone
            send(root[0], env_index)
        if hasattr(env_index, "shape") and env_index.shape == (2,):
            entry = root[[0, 1]].set("env_index", torch.as_tensor(env_index))
            for call in (send, pool.rand_action):
                with pytest.raises(error, match=message):
                    call(entry)
    with pytest.raises(ValueError, match=r"env_index: expected one env, got \[0, 1\]"):
        receive(env_index=[0, 1])
    send(root, range(6))  # none of them was left in flight
    receive(6)
