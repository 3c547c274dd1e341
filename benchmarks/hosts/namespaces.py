"""Machines that are really apart, on one: namespaces of their own, joined by a network that delays and loses.

Each host has a network, mounts and processes of its own. Packets go through TUN devices to one process,
the switch, which delivers them after a delay, loses some, and counts bytes. ``tc netem`` would delay and lose
packets too, but not every kernel has it. Needs root and ``ip`` of iproute2.

    python benchmarks/hosts/namespaces.py --hosts 3 --delay 0.025 -- ip route

runs a command on the first host, and removes all of them when it ends.
"""

from __future__ import annotations

import argparse
import fcntl
import heapq
import json
import os
import random
import selectors
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
MTU = 1500


class NoNamespaces(Exception):
    """This system does not let hosts be made; says why."""


def address_of(host: int) -> str:
    return f"10.77.0.{host + 1}"


class Hosts:
    """So many hosts, which reach one another at :func:`address_of` while the context lasts.

    Args:
        number: of hosts.
        private: a folder of which each host sees its own.

    Raises:
        NoNamespaces: on entry, where they cannot be made.
    """

    def __init__(self, number: int, private: str = "/tmp/ray") -> None:
        self.number, self._private = number, Path(private)
        self._folder = Path(tempfile.mkdtemp(prefix="hosts-"))
        self._holders: list[subprocess.Popen[str]] = []  # each keeps a host's namespaces
        self._switch: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        try:
            devices = [self._make(host) for host in range(self.number)]
        except (OSError, subprocess.CalledProcessError) as error:
            self.__exit__(None, None, None)
            told = getattr(error, "stderr", "") or error
            raise NoNamespaces(f"namespaces and TUN devices cannot be made here: {told}") from error
        self._switch = subprocess.Popen(
            [sys.executable, __file__, "--switch", *map(str, devices)],
            pass_fds=devices,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for device in devices:
            os.close(device)
        self.counted()  # it runs
        return self

    def _make(self, host: int) -> int:
        """A host; returns its network device's other end."""
        own = self._folder / str(host)
        own.mkdir()
        self._private.mkdir(parents=True, exist_ok=True)
        # cat ends with this process, however that ends, and all of the host's processes with it.
        ready = f"mount --bind {own} {self._private} && ip link set lo up && echo ready && exec cat"
        namespaces = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        pipe = subprocess.PIPE
        command = [*namespaces, "sh", "-c", ready]
        holder = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        self._holders.append(holder)
        assert holder.stdout
        assert holder.stderr
        if holder.stdout.readline() != "ready\n":
            raise OSError(holder.stderr.read().strip())
        device, name = os.open("/dev/net/tun", os.O_RDWR), f"hosts{os.getpid()}-{host}"[-15:]
        fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
        _run("ip", "link", "set", name, "netns", str(self._init(host)))
        for line in (
            f"addr add {address_of(host)}/24 dev {name}",
            f"link set {name} mtu {MTU} txqueuelen 10000 up",
            f"route add default dev {name}",
        ):
            _run(*self.on(host, "ip", *line.split()))
        return device

    def _init(self, host: int) -> int:
        """The process with whose end all of the host's processes end."""
        return _child(self._holders[host].pid)

    def on(self, host: int, *command: str) -> list[str]:
        """The command that runs one on a host."""
        return ["nsenter", "--target", str(self._init(host)), "--net", "--mount", "--pid", "--", *command]

    def send_signal(self, process: subprocess.Popen[Any], number: int) -> None:
        """Sends one to a command begun by :meth:`on`, which is a child of the process that begins it."""
        os.kill(_child(process.pid), number)

    def set_link(self, host: int, delay: float = 0.0, loss: float = 0.0, cut: bool = False) -> None:
        """What packets of a host meet: seconds each way, the share that is lost, or no link at all."""
        self._ask({"host": host, "delay": delay, "loss": loss, "cut": cut})

    def counted(self) -> list[dict[str, int]]:
        """Bytes that each host has sent, and has been delivered, until now."""
        counted: list[dict[str, int]] = self._ask({})
        return counted

    def _ask(self, request: dict[str, Any]) -> Any:
        assert self._switch
        assert self._switch.stdin
        assert self._switch.stdout
        self._switch.stdin.write(json.dumps(request) + "\n")
        self._switch.stdin.flush()
        return json.loads(self._switch.stdout.readline())

    def stop_processes(self, host: int, number: int = signal.SIGKILL) -> None:
        """Sends all of a host's processes a signal: they are killed, as by a loss of power, or frozen."""
        listing = f"kill -{int(number)} -1; true"  # all that this process sees, but for itself and init
        subprocess.run(self.on(host, "sh", "-c", listing), check=True)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in [*self._holders, *([self._switch] if self._switch else [])]:
            process.kill()  # devices go with their namespaces
            process.communicate()
        shutil.rmtree(self._folder, ignore_errors=True)


def _child(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


# ---- the switch, a process of its own


def switch(devices: Sequence[int]) -> None:
    """Carries IPv4 packets between TUN devices, until its standard input ends."""
    links = [{"delay": 0.0, "loss": 0.0, "cut": False} for _ in devices]
    counted = [{"sent": 0, "delivered": 0} for _ in devices]
    chance = random.Random(0)
    waiting: list[tuple[float, int, int, bytes]] = []  # due, order, receiver, packet
    order = 0
    selector = selectors.DefaultSelector()
    for host, device in enumerate(devices):
        os.set_blocking(device, False)
        selector.register(device, selectors.EVENT_READ, host)
    selector.register(sys.stdin, selectors.EVENT_READ, None)
    while True:
        timeout = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        for key, _ in selector.select(timeout):
            sender = key.data
            if sender is None:
                line = sys.stdin.readline()
                if not line:
                    return
                request = json.loads(line)
                if request:
                    links[request.pop("host")] = request
                print(json.dumps(counted), flush=True)
                continue
            for _ in range(64):  # then others have their turn
                try:
                    packet = os.read(devices[sender], 65536)
                except BlockingIOError:
                    break
                receiver = packet[19] - 1 if packet[0] >> 4 == 4 and packet[16:19] == b"\x0a\x4d\x00" else -1
                if not 0 <= receiver < len(devices):
                    continue
                ends = links[sender], links[receiver]
                if any(end["cut"] or chance.random() < end["loss"] for end in ends):
                    continue
                counted[sender]["sent"] += len(packet)
                order += 1
                due = time.monotonic() + ends[0]["delay"] + ends[1]["delay"]
                heapq.heappush(waiting, (due, order, receiver, packet))
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, _, receiver, packet = heapq.heappop(waiting)
            if links[receiver]["cut"]:
                continue
            try:
                os.write(devices[receiver], packet)
                counted[receiver]["delivered"] += len(packet)
            except OSError:  # a full queue loses packets, as any does
                pass


def main() -> int:
    if sys.argv[1:2] == ["--switch"]:
        switch([int(device) for device in sys.argv[2:]])
        return 0
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument(
        "--delay", type=float, default=0.0, help="of the first host's packets, seconds each way"
    )
    parser.add_argument("--loss", type=float, default=0.0, help="share of the first host's packets")
    parser.add_argument("command", nargs="+")
    parsed = parser.parse_args()
    try:
        with Hosts(parsed.hosts) as hosts:
            hosts.set_link(0, parsed.delay, parsed.loss)
            return subprocess.run(hosts.on(0, *parsed.command)).returncode
    except NoNamespaces as error:
        parser.error(str(error))


if __name__ == "__main__":
    sys.exit(main())
