"""Random sequences of calls with faults, interrupts and held-up threads, against a model that counts."""

import copy
import ctypes
import signal
import time
from dataclasses import dataclass

import pytest
import torch
from building import build_plugin
from cases import LONG
from flights import without_memory
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from torchrl_pool import EnvFailure, PoolEnv, load_plugin

N, THREADS = 5, 3
FAILS, HOLDS, WAITS = 2, 3, 4  # actions, the last two of which wait at a gate
INDICES = st.sets(st.integers(0, N - 1), min_size=1).map(sorted)
KINDS = st.sampled_from(["reset", "step", "step_and_maybe_reset"])
MANY_SECONDS = 60.0  # for broken code only

load_plugin(build_plugin("gated"))
GATES = ctypes.CDLL(build_plugin("gated"))


class Gate:
    """Closed while it is entered: envs that are given its action wait in their step."""

    def __init__(self, action):
        self.number = action - HOLDS

    def __enter__(self):
        GATES.set_gate(self.number, True)

    def __exit__(self, *_):
        GATES.set_gate(self.number, False)


class Interrupt:
    """Raises KeyboardInterrupt soon, in a call that does not end by itself."""

    def __enter__(self):
        self.handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
        # Once more, should the first come where Python passes over exceptions, as in a finalizer.
        signal.setitimer(signal.ITIMER_REAL, 0.02, 5.0)

    def __exit__(self, *_):
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self.handler)


@dataclass
class Row:
    """One env of the model."""

    status: str = "ready"  # or "failed", "unknown", "in flight"
    resets: int = 1
    steps: int = 0
    sum: int = 0
    kind: str = ""  # in flight: what is done to it
    action: int = 0
    held: bool = False  # by the gate

    def reset(self):
        self.status, self.steps, self.sum = "ready", 0, 0
        self.resets += 1

    def step(self, action):
        self.status = "ready"
        self.steps += 1
        self.sum += action

    @property
    def observation(self):
        return [self.resets, self.steps, self.sum]


class Interrupted(RuleBasedStateMachine):
    """A pool and its model, from one call to the next."""

    def __init__(self):
        super().__init__()
        # With a timeout a call waits and never works: an interrupt reaches it.
        self.pool = PoolEnv(
            "Gated-v0", N, num_threads=THREADS, step_timeout=MANY_SECONDS, categorical_action_encoding=True
        )
        self.pool.reset()
        self.rows = [Row() for _ in range(N)]
        self.gate = Gate(HOLDS)
        self.saved = []

    def those(self, *statuses):
        return [i for i in range(N) if self.rows[i].status in statuses]

    def root(self, indices, actions):
        root = self.pool.full_done_spec.zero()
        root["action"] = self.pool.full_action_spec.zero()["action"]
        for i, action in zip(indices, actions, strict=True):
            root["action"][i] = action
        return root

    def draw_actions(self, data, indices):
        return [data.draw(st.sampled_from([0, 1, 0, 1, FAILS])) for _ in indices]

    def mask(self, indices):
        return torch.isin(torch.arange(N), torch.tensor(indices))

    # ---- calls that are waited for

    @rule(indices=INDICES)
    def reset(self, indices):
        indices = [i for i in indices if i not in self.those("in flight")]
        if indices:
            root = self.pool.reset(self.pool.full_done_spec.zero().set("_reset", self.mask(indices)))
            for i in indices:
                self.rows[i].reset()
                assert root["observation"][i].tolist() == self.rows[i].observation

    @rule(data=st.data(), indices=INDICES)
    def step(self, data, indices):
        indices = [i for i in indices if i in self.those("ready")]
        if not indices:
            return
        actions = self.draw_actions(data, indices)
        failing = [i for i, action in zip(indices, actions, strict=True) if action == FAILS]
        root = self.root(indices, actions).set("_step", self.mask(indices))
        try:
            following, failed = self.pool._step(root), []
        except EnvFailure as failure:
            following, failed = failure.tensordict, failure.env_index
        assert failed == failing
        for i, action in zip(indices, actions, strict=True):
            if i in failing:
                self.rows[i].status = "failed"
            else:
                self.rows[i].step(action)
                assert following["observation"][i].tolist() == self.rows[i].observation

    @rule(indices=INDICES, waits=st.booleans())
    def interrupted_step(self, indices, waits):
        indices = [i for i in indices if i in self.those("ready")]
        if not indices:
            return
        root = self.root(indices, [WAITS] * len(indices)).set("_step", self.mask(indices))
        has_begun = False
        while not has_begun:  # what is drawn next must not depend on when the interrupt came
            with Gate(WAITS), pytest.raises(KeyboardInterrupt), Interrupt():
                self.pool._step(root)
            has_begun = self.has_begun_a_step(indices[0], waits)
        for i in indices:
            self.rows[i].status = "unknown"

    def has_begun_a_step(self, index, waits):
        """If it waits, once what was given up has come to rest, before anything else asks the pool."""
        deadline = time.monotonic() + MANY_SECONDS
        is_at_work = True
        while is_at_work:
            assert time.monotonic() < deadline
            try:
                self.pool.get_state(index)
            except RuntimeError as refused:
                is_at_work = waits and "still at work" in str(refused)
            else:
                return False
        return True

    # ---- envs in flight

    def send_rows(self, kind, indices, actions, held=False):
        getattr(self.pool, f"async_{kind}_send")(self.root(indices, actions)[indices], indices)
        for i, action in zip(indices, actions, strict=True):
            row = self.rows[i]
            row.status, row.kind, row.action, row.held = "in flight", kind, action, held

    @rule(data=st.data(), kind=KINDS, indices=INDICES)
    def send(self, data, kind, indices):
        allowed = self.those("ready", "failed", "unknown") if kind == "reset" else self.those("ready")
        indices = [i for i in indices if i in allowed]
        if indices:
            self.send_rows(kind, indices, self.draw_actions(data, indices))

    @precondition(lambda self: not any(row.held for row in self.rows))
    @rule(index=st.integers(0, N - 1))
    def hold_up_a_thread(self, index):
        if self.rows[index].status == "ready":
            self.gate.__enter__()
            self.send_rows("step", [index], [HOLDS], held=True)

    @rule()
    def open_the_gate(self):
        self.gate.__exit__()
        for row in self.rows:
            row.held = False

    @rule(kind=KINDS, fails=st.sampled_from([None, None, MemoryError, KeyboardInterrupt]))
    def receive(self, kind, fails):
        """All that are not held up come, although a thread is; a fault is told to whoever asks first."""
        pending = {i for i, row in enumerate(self.rows) if row.status == "in flight" and row.kind == kind}
        pending = {i for i in pending if not self.rows[i].held}
        receive = getattr(self.pool, f"async_{kind}_recv")
        while pending:
            try:
                if fails and not any(self.fails(i) for i in pending):
                    with without_memory(self.pool, fails), pytest.raises(fails):
                        receive(1, max_get=1, timeout=MANY_SECONDS)  # of more it would wait for one held up
                    fails = None
                received = receive(1, max_get=1, timeout=MANY_SECONDS)
            except EnvFailure as failure:
                for i in failure.env_index:
                    assert self.fails(i)
                    self.rows[i].status = "failed"
                    pending.remove(i)
                continue
            self.compare(kind, received, pending)

    def fails(self, index):
        return self.rows[index].kind != "reset" and self.rows[index].action == FAILS

    def compare(self, kind, received, pending):
        tensordict, root = received if kind == "step_and_maybe_reset" else (received, received)
        (i,) = tensordict["env_index"].tolist()
        pending.remove(i)
        row = self.rows[i]
        if kind == "reset":
            row.reset()
        else:
            row.step(row.action)
            assert tensordict["next", "observation"][0].tolist() == row.observation
            assert tensordict["next", "done"].item() == (row.steps == 4)
        if kind == "step_and_maybe_reset" and row.steps == 4:
            row.reset()
        if kind != "step":
            assert root["observation"][0].tolist() == row.observation

    # ---- states

    @rule(index=st.integers(0, N - 1))
    def get_state(self, index):
        if self.rows[index].status == "ready":
            (state,) = self.pool.get_state(index)
            self.saved.append((state, copy.copy(self.rows[index])))

    @precondition(lambda self: self.saved)
    @rule(data=st.data(), index=st.integers(0, N - 1))
    def set_state(self, data, index):
        if self.rows[index].status == "ready":
            state, row = data.draw(st.sampled_from(self.saved))
            self.pool.set_state(state, index)
            self.rows[index] = copy.copy(row)
            assert self.pool.get_state(index) == [state]

    # ---- what is always refused, and changes nothing

    @invariant()
    def envs_in_flight_are_left_alone(self):
        for i in self.those("in flight"):
            with pytest.raises(RuntimeError, match=r"in flight|still at work"):
                self.pool.get_state(i)
            if self.saved:
                with pytest.raises(RuntimeError, match=r"in flight|still at work"):
                    self.pool.set_state(self.saved[0][0], i)

    @invariant()
    def envs_that_must_be_reset_are_not_stepped(self):
        for i in self.those("failed", "unknown"):
            root = self.root([i], [0]).set("_step", self.mask([i]))
            with pytest.raises(RuntimeError, match=r"has failed|was interrupted"):
                self.pool._step(root)

    def teardown(self):
        self.gate.__exit__()
        self.pool.close()


def test_any_sequence_with_faults_interrupts_and_held_up_threads_does_what_the_model_does():
    Interrupted.TestCase.settings = settings(
        max_examples=500 if LONG else 20,
        stateful_step_count=40,
        phases=[Phase.generate],  # shrinking what hangs would take for ever
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    Interrupted.TestCase().runTest()
