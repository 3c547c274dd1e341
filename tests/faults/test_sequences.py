"""Random sequences of calls against a slow model: one Gymnasium env per row, stepped one after the other."""

import copy
import os
import signal

import gymnasium
import numpy as np
import pytest
import torch
from cases import LONG
from flights import without_memory
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from torchrl._utils import seed_generator

from torchrl_pool import EnvFailure, PoolEnv

N, LIMIT = 3, 3  # so short that most sequences see ends of episodes
INDICES = st.sets(st.integers(0, N - 1), min_size=1).map(sorted)
SEEDS = st.integers(0, 2**40)
KINDS = st.sampled_from(["reset", "step", "step_and_maybe_reset"])


class Row:
    """One env of the model, and what it has last given."""

    def __init__(self, task):
        self.env = gymnasium.make(task, disable_env_checker=True, max_episode_steps=LIMIT)
        self.status = "unset"  # or "ready", "done", "in flight"

    def reset(self, seed=None):
        self.observation = np.array(self.env.reset(seed=seed)[0])
        self.reward, self.flags, self.status = None, [False, False], "ready"

    def step(self, action):
        observation, reward, *self.flags, _ = self.env.step(action)
        self.observation, self.reward = np.array(observation), reward
        self.status = "done" if any(self.flags) else "ready"


class Sequences(RuleBasedStateMachine):
    """A pool and its model, from one call to the next."""

    task, options = "CartPole-v1", {"num_threads": 2}

    def __init__(self):
        super().__init__()
        self.pool = PoolEnv(
            self.task,
            N,
            **self.options,
            max_episode_steps=LIMIT,
            categorical_action_encoding=True,
            seed=0,
        )
        self.seeds = self.chain(0)[0]
        self.close()
        self.saved = []

    def chain(self, seed):
        seeds = []
        for _ in range(N):
            seeds.append(seed)
            seed = seed_generator(seed)
        return seeds, seed

    def idle(self):
        return all(row.status != "in flight" for row in self.rows)

    def running(self):
        return self.open and self.idle()

    def all_ready(self):
        return self.open and all(row.status == "ready" for row in self.rows)

    def action_of(self, data):
        spec = self.rows[0].env.action_space
        if hasattr(spec, "n"):
            return data.draw(st.integers(0, int(spec.n) - 1))
        return np.array([data.draw(st.floats(-1, 1, width=32))], np.float32)

    def actions(self, data, indices):
        chosen = {i: self.action_of(data) for i in indices}
        zero = self.pool.full_action_spec.zero()["action"]
        for i, action in chosen.items():
            zero[i] = torch.as_tensor(action)
        return chosen, zero

    def compare(self, tensordict, row):
        assert tensordict["observation"].numpy().tobytes() == row.observation.tobytes()
        assert [tensordict["terminated"].item(), tensordict["truncated"].item()] == row.flags
        assert tensordict["done"].item() == any(row.flags)

    def compare_next(self, tensordict, row):
        self.compare(tensordict, row)
        assert tensordict["reward"].item() == np.float32(row.reward)

    def start(self):
        if not self.open:
            self.open = True
            for row, seed in zip(self.rows, self.seeds, strict=True):
                row.reset(seed)

    # ---- the calls

    @precondition(idle)
    @rule(seed=SEEDS)
    def set_seed(self, seed):
        self.seeds, following = self.chain(seed)
        assert self.pool.set_seed(seed) == following
        if self.open:
            for row, one in zip(self.rows, self.seeds, strict=True):
                row.reset(one)

    @precondition(idle)
    @rule(indices=st.one_of(st.none(), INDICES))
    def reset(self, indices):
        self.start()
        if indices is None:
            root = self.pool.reset()
        else:
            mask = torch.zeros(N, dtype=torch.bool)
            mask[indices] = True
            root = self.pool.reset(self.pool.full_done_spec.zero().set("_reset", mask))
        for i in range(N) if indices is None else indices:
            self.rows[i].reset()
            self.compare(root[i], self.rows[i])

    @precondition(idle)
    @rule(seed=SEEDS)
    def reset_with_seed(self, seed):
        self.start()
        root = self.pool.reset(seed=seed)
        for i, row in enumerate(self.rows):
            row.reset(seed + i)
            self.compare(root[i], row)

    @precondition(running)
    @rule(data=st.data(), indices=INDICES)
    def step(self, data, indices):
        indices = [i for i in indices if self.rows[i].status == "ready"]
        if not indices:
            return
        chosen, actions = self.actions(data, indices)
        mask = torch.zeros(N, dtype=torch.bool)
        mask[indices] = True
        root = self.pool.full_done_spec.zero().set("action", actions).set("_step", mask)
        following = self.pool._step(root)
        for i in indices:
            self.rows[i].step(chosen[i])
            self.compare_next(following[i], self.rows[i])

    @precondition(all_ready)
    @rule(data=st.data())
    def step_and_maybe_reset(self, data):
        chosen, actions = self.actions(data, range(N))
        tensordict, root = self.pool.step_and_maybe_reset(
            self.pool.full_done_spec.zero().set("action", actions)
        )
        for i, row in enumerate(self.rows):
            self.visit("step_and_maybe_reset", row, chosen[i], tensordict["next"][i], root[i])

    def visit(self, kind, row, action, after, root):
        """What a call of this kind does to one env, compared with what the pool gave."""
        if kind == "reset":
            row.reset()
            return self.compare(root, row)
        row.step(action)
        self.compare_next(after, row)
        if kind == "step_and_maybe_reset":
            if row.status == "done":
                row.reset()
            self.compare(root, row)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), kind=KINDS, indices=INDICES)
    def send(self, data, kind, indices):
        allowed = {"ready", "done"} if kind == "reset" else {"ready"}
        indices = [i for i in indices if self.rows[i].status in allowed]
        if not indices:
            return
        chosen, actions = self.actions(data, indices)
        root = self.pool.full_done_spec.zero().set("action", actions)[indices]
        getattr(self.pool, f"async_{kind}_send")(root, indices)
        for i in indices:
            self.rows[i].status = "in flight"
            self.flight[i] = kind, chosen[i]

    @precondition(lambda self: self.open and not self.idle())
    @rule(data=st.data(), fails=st.sampled_from([None, None, MemoryError, KeyboardInterrupt]))
    def receive(self, data, fails):
        kind = data.draw(st.sampled_from(sorted({kind for kind, _ in self.flight.values()})))
        outstanding = sum(of == kind for of, _ in self.flight.values())
        least = data.draw(st.integers(1, outstanding))
        receive = getattr(self.pool, f"async_{kind}_recv")
        with pytest.raises(RuntimeError, match="outstanding"):
            receive(outstanding + 1)
        if fails:
            with without_memory(self.pool, fails), pytest.raises(fails):
                receive(least)
        while outstanding:  # how many are there at once is up to the threads, what follows must not be
            received = receive(min(least, outstanding))
            tensordict, root = received if kind == "step_and_maybe_reset" else (received, received)
            indices = tensordict["env_index"].tolist()
            assert len(indices) >= min(least, outstanding)
            assert indices == sorted(indices)
            for k, i in enumerate(indices):
                sent, action = self.flight.pop(i)
                assert sent == kind
                after = None
                if kind != "reset":
                    after = tensordict["next"][k]
                    assert tensordict["action"][k].tolist() == np.asarray(action).tolist()
                self.visit(kind, self.rows[i], action, after, root[k])
            outstanding -= len(indices)

    @precondition(running)
    @rule(index=st.integers(0, N - 1))
    def get_state(self, index):
        (state,) = self.pool.get_state(index)
        self.saved.append((state, copy.deepcopy(self.rows[index])))

    @precondition(lambda self: self.running() and self.saved)
    @rule(data=st.data(), index=st.integers(0, N - 1))
    def set_state(self, data, index):
        state, row = data.draw(st.sampled_from(self.saved))
        self.pool.set_state(state, index)
        self.rows[index] = copy.deepcopy(row)
        if "num_threads" in self.options:  # pickles of equal Python envs may differ
            assert self.pool.get_state(index) == [state]

    @precondition(lambda self: self.running() and "num_workers" in self.options)
    @rule(data=st.data(), number=st.integers(0, 1), seed=SEEDS)
    def kill_a_worker(self, data, number, seed):
        """Its envs fail, and a reset starts another process."""
        worker = self.pool._source.workers._workers[number]
        os.kill(worker.pid, signal.SIGKILL)
        assert worker.wait(20)
        if self.all_ready():
            _, actions = self.actions(data, range(N))
            with pytest.raises(EnvFailure, match="SIGKILL"):
                self.pool.step(self.pool.full_done_spec.zero().set("action", actions))
        self.reset_with_seed(seed)

    @precondition(lambda self: self.open)
    @rule()
    def fork(self):
        """The child is refused in words, and the parent goes on."""
        if not (child := os.fork()):
            try:
                with pytest.raises(RuntimeError, match="fork"):
                    self.pool.reset()
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    @rule()
    def close(self):
        self.pool.close()
        self.rows = [Row(self.task.removeprefix("gymnasium:")) for _ in range(N)]
        self.flight = {}
        self.open = False

    # ---- what is always refused, and changes nothing

    @invariant()
    def calls_for_all_wait_for_those_in_flight(self):
        if not self.idle():
            index = next(iter(self.flight))
            with pytest.raises(RuntimeError, match="in flight"):
                self.pool.reset()
            with pytest.raises(RuntimeError, match="in flight"):
                self.pool.async_reset_send(None, [index])
            with pytest.raises(RuntimeError, match="in flight"):
                self.pool.get_state(index)

    @invariant()
    def a_closed_pool_does_not_step(self):
        if not self.open:
            with pytest.raises(RuntimeError, match=r"before the first step|was closed"):
                self.pool.step(self.pool.rand_action())

    def teardown(self):
        self.pool.close()


@pytest.mark.filterwarnings("ignore:.*Casting input x to numpy array")
@pytest.mark.parametrize("options", [{"num_threads": 2}, {"num_threads": 1}, {"num_workers": 2}], ids=str)
@pytest.mark.parametrize("task", ["MountainCarContinuous-v0", "CartPole-v1"])
def test_any_sequence_of_calls_does_what_the_model_does(task, options):
    if "num_workers" in options:
        task = f"gymnasium:{task}"
    machine = type("Machine", (Sequences,), {"task": task, "options": options})
    machine.TestCase.settings = settings(
        max_examples=1000 if LONG else 25,
        stateful_step_count=40,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    machine.TestCase().runTest()
