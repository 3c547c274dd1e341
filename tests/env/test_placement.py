"""Every env has a home: a thread that creates it, steps it, and is the first to touch its memory."""

import ctypes
import itertools
import os
import platform
import textwrap
import threading
from pathlib import Path

import pytest
import torch
from building import build_plugin
from cases import cases
from processes import printed

from torchrl_pool import load_plugin

load_plugin(build_plugin("placed"))

THREADS = 3
# So large that the allocator asks the kernel for fresh pages, some of which belong to one row alone even
# where pages are huge.
BIG_ROW, BIG_N = 1 << 22, 12
MOVE_PAGES = {"x86_64": 279, "aarch64": 239}


def homes_of(num_envs, num_threads=THREADS):
    """Consecutive envs, as equally shared as can be."""
    bounds = [num_envs * home // num_threads for home in range(num_threads + 1)]
    return [range(first, last) for first, last in itertools.pairwise(bounds)]


def some_action(pool):
    return pool.full_action_spec.rand()["action"]


def step(pool, root):
    return pool.step(root.set("action", some_action(pool)))["next"]


def test_envs_are_created_by_their_homes_alone(make_pool):
    """Nobody else takes over, although one env takes longer than all others together."""
    slow_first = [{"create_seconds": 0.3 if env == 0 else 0.0} for env in range(12)]
    pool = make_pool("Placed-v0", 12, num_threads=THREADS, info_keys=["creator"], env_options=slow_first)
    creators = pool.reset()["creator"].tolist()
    assert [len({creators[env] for env in home}) for home in homes_of(12)] == [1] * THREADS
    assert len(set(creators)) == THREADS
    assert threading.get_native_id() not in creators


@pytest.mark.parametrize("road", cases(["call", "async"]))
def test_envs_stay_with_their_homes(road, make_pool):
    """But for what is stolen, which is little where all envs take equally long."""
    pool = make_pool(
        "Placed-v0", 12, num_threads=THREADS, info_keys=["creator", "visitor"], step_seconds=0.02
    )
    root = pool.reset()
    at_home = []
    for _ in range(10):
        if road == "call":
            data = step(pool, root)
        else:
            pool.async_step_send(root.set("action", some_action(pool)), range(12))
            data = pool.async_step_recv(12)["next"]
        at_home += (data["creator"] == data["visitor"]).tolist()
    assert sum(at_home) > len(at_home) / 2  # without homes: a third


def test_nobody_touches_a_row_before_its_env():
    """Each env's first write brings the pages of its row: they did not exist.

    In a process of its own: where much memory was let go of, rows may lie in that, and its pages exist.
    """
    program = """
        import sys
        from torchrl_pool import PoolEnv, load_plugin
        load_plugin(sys.argv[1])
        num_envs, num_threads, row_bytes = map(int, sys.argv[2:])
        env = PoolEnv(
            "Placed-v0", num_envs, num_threads=num_threads, info_keys=["faults"], row_bytes=row_bytes
        )
        root = env.reset()
        print(root["faults"].min().item(), env.rand_step(root)["next", "faults"].min().item())
    """
    program = textwrap.dedent(program)
    fewest = printed(program, build_plugin("placed"), BIG_N, THREADS, BIG_ROW).split()
    assert all(int(faults) >= 1 for faults in fewest), fewest


def nodes():
    return [int(path.name[4:]) for path in Path("/sys/devices/system/node").glob("node[0-9]*")]


def node_of(addresses):
    """The memory node on which each address lies."""
    if platform.machine() not in MOVE_PAGES:
        pytest.skip(f"the number of move_pages is not known for {platform.machine()}")
    page = os.sysconf("SC_PAGE_SIZE")
    count = len(addresses)
    pages = (ctypes.c_void_p * count)(*[address // page * page for address in addresses])
    status = (ctypes.c_int * count)()
    libc = ctypes.CDLL(None, use_errno=True)
    number = ctypes.c_long(MOVE_PAGES[platform.machine()])
    if libc.syscall(number, 0, ctypes.c_ulong(count), pages, None, status, 0) != 0:
        pytest.skip(f"the kernel does not tell where pages lie: {os.strerror(ctypes.get_errno())}")
    return list(status)


def processors_of_several_nodes():
    """One processor of each node that has any."""
    allowed = os.sched_getaffinity(0)
    found = []
    for node in nodes():
        text = Path(f"/sys/devices/system/node/node{node}/cpulist").read_text().strip()
        for part in filter(None, text.split(",")):
            first, _, last = part.partition("-")
            usable = allowed & set(range(int(first), int(last or first) + 1))
            if usable:
                found.append(min(usable))
                break
    return found


def test_memory_lies_on_the_node_of_its_home(make_pool):
    """An env's own and its rows', asked of the kernel."""
    processors = processors_of_several_nodes()
    if len(processors) < 2:
        pytest.skip("this process may use the processors of one memory node only")
    pool = make_pool(
        "Placed-v0",
        BIG_N,
        num_threads=len(processors),
        thread_affinity=processors,
        info_keys=["creator", "visitor", "node", "memory"],
        row_bytes=BIG_ROW,
        step_seconds=0.02,  # so long that the caller leaves it to the homes
    )
    data = step(pool, pool.reset())
    assert len(data["node"].unique()) == len(processors)
    middle = BIG_ROW // 2
    assert node_of([address + middle for address in data["memory"].tolist()]) == data["node"].tolist()
    row_nodes = node_of([row.data_ptr() + middle for row in data["observation"]])
    at_home = data["creator"] == data["visitor"]  # a row that was stolen lies with the thief
    assert at_home.any()
    assert torch.equal(torch.tensor(row_nodes)[at_home], data["node"][at_home])
