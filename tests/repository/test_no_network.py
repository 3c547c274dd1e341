"""No network at run time: pools live in a process in which asking the kernel for a socket is deadly.

But for Unix sockets, which reach no further than this machine: looking up the user's name may take one. What
TorchRL's imports do comes before: urllib3, if it is there, tries whether there is IPv6.
"""

import platform
import signal
import sys
import textwrap

import pytest
from cases import cases
from processes import run_program

SOCKET_CALLS = {"x86_64": 41, "aarch64": 198}  # the system call's number

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in SOCKET_CALLS,
    reason="forbids a call of Linux's kernel by its number, which is known for x86-64 and 64-bit Arm",
)

# A seccomp filter: it holds for C++ as for Python, for all threads and children, and cannot be taken off.
FORBID_SOCKETS = """
import ctypes, struct
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
KILL_PROCESS, ALLOW = 0x80000000, 0x7FFF0000
CALL, FIRST_ARGUMENT, AF_UNIX = 0, 16, 1
instructions = [
    (LOAD, 0, 0, CALL),
    (JUMP_IF_EQUAL, 0, 3, {socket}),  # to ALLOW if it is another
    (LOAD, 0, 0, FIRST_ARGUMENT),
    (JUMP_IF_EQUAL, 1, 0, AF_UNIX),
    (RETURN, 0, 0, KILL_PROCESS),
    (RETURN, 0, 0, ALLOW),
]
packed = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in instructions))
program = ctypes.create_string_buffer(struct.pack("@HP", len(instructions), ctypes.addressof(packed)))
prctl = ctypes.CDLL(None, use_errno=True).prctl
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, FILTER = 38, 22, 2
for arguments in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, FILTER, ctypes.byref(program))):
    assert prctl(*arguments) == 0, ctypes.get_errno()
"""

LIVES = """
import sys
from torchrl_pool import PoolEnv
for task in sys.argv[1:]:
    print(task, flush=True)
    env = PoolEnv(task, 4, num_threads=2, seed=0)
    env.rollout(5)
    env.async_step_send(env.rand_action(env.reset()), range(4))
    env.async_step_recv(4)
    env.set_state(env.get_state())
    try:
        assert env.render().ndim == 4
    except NotImplementedError as error:  # MuJoCo where OpenGL is missing
        assert task in ("FrozenLake-v1", "HalfCheetah-v5"), error
    env.close()
"""


def run(body, *arguments):
    program = FORBID_SOCKETS.format(socket=SOCKET_CALLS[platform.machine()]) + textwrap.dedent(body)
    return run_program(program, *arguments)


@pytest.mark.parametrize(
    "body",
    cases(["import socket; socket.socket()", "ctypes.CDLL(None).socket(2, 1, 0)"]),
    ids=["Python", "C"],
)
def test_a_socket_would_be_noticed(body):
    assert run(body).returncode == -signal.SIGSYS


def test_pools_open_no_socket():
    tasks = ["CartPole-v1", "FrozenLake-v1", "HalfCheetah-v5", "ALE/Pong-v5"]  # one of each family
    result = run(LIVES, *tasks)
    assert result.returncode == 0, (result.returncode, result.stdout, result.stderr)
    assert result.stdout.split() == tasks
