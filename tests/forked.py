"""A process that has imported torch and TorchRL and done nothing else; programs run in forks of it.

The imports take ten times as long as most programs. To a program its fork is a new interpreter: it is
``__main__``, no thread was ever started before it, and at its end the interpreter ends as always.
``processes.py`` starts this and sends the programs.
"""

import gc
import json
import os
import signal
import socket
import sys
from types import CodeType

import torch

import torchrl_pool._explain  # noqa: F401 (which imports the rest)


def program() -> CodeType:
    """Waits for programs; returns in the fork of each, for its ``__main__`` to execute it."""
    torch.set_num_threads(1)
    gc.freeze()  # else the end of each fork takes seconds: the collector looks at all that was imported
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who wait for programs
    control = socket.socket(fileno=os.dup(0))
    while True:
        message, descriptors, *_ = socket.recv_fds(control, 1 << 20, maxfds=3)
        if not message:  # the tests are over
            sys.exit()
        if os.fork() == 0:
            break
        for descriptor in descriptors:
            os.close(descriptor)
    control.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request = json.loads(message)
    output, errors, status = descriptors
    if child := os.fork():
        signal.signal(signal.SIGALRM, lambda *_: os.killpg(child, signal.SIGKILL))
        signal.alarm(request["timeout"])
        os.write(status, str(os.waitpid(child, 0)[1]).encode())
        os._exit(0)
    os.setpgid(0, 0)
    for descriptor, place in ((os.open(os.devnull, os.O_RDONLY), 0), (output, 1), (errors, 2)):
        os.dup2(descriptor, place)
        os.close(descriptor)
    os.close(status)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv[1:] = request["arguments"]
    return compile(request["program"], "<program>", "exec")
