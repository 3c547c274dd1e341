"""What workers do in tests of how they are started."""

import os
import random
import signal
import sys
import threading
import time

import numpy as np


def answering(launcher):
    """A worker that answers what it is sent."""
    worker = launcher.launch("worker_bodies:answer")
    worker.wait_until_loaded()
    return worker


def answer(factories, channel, fds, *arguments):
    """Evaluates expressions until the other side closes."""
    scope = {"factories": factories, "fds": fds, "arguments": arguments}
    scope |= {"os": os, "sys": sys, "signal": signal, "random": random, "np": np, "threading": threading}
    while True:
        try:
            question = channel.recv()
        except EOFError:
            return
        channel.send(eval(question, scope))


def sleep(factories, channel, fds):
    time.sleep(1000)


def end(factories, channel, fds, how):
    channel.recv()
    match how:
        case int():
            sys.exit(how)
        case "raise":
            raise ValueError("no more")
        case "crash":
            os.kill(os.getpid(), signal.SIGSEGV)


def write(factories, channel, fds):
    print("from the worker", flush=True)
