#!/usr/bin/env python3
"""The same tests over TCP between hosts: network and host-name namespaces of this machine.

two_hosts.py PROGRAM MPIRUN...; skipped (77) where namespaces may not be made.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HOSTS = {"engram-a": "10.77.31.1", "engram-b": "10.77.31.2"}


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def ip(*arguments):
    return subprocess.run(["ip", *arguments], capture_output=True, text=True)


def make_hosts():
    """Two namespaces joined by one cable."""
    for host in HOSTS:
        made = ip("netns", "add", host)
        if made.returncode:
            skip(f"ip netns add: {made.stderr.strip()}")
    first, second = HOSTS
    ip("link", "add", "engram-cable", "netns", first, "type", "veth", "peer", "engram-cable", "netns", second)
    for host, address in HOSTS.items():
        for arguments in (
            ["addr", "add", f"{address}/24", "dev", "engram-cable"],
            ["link", "set", "engram-cable", "up"],
            ["link", "set", "lo", "up"],
        ):
            done = ip("-n", host, *arguments)
            if done.returncode:
                skip(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


def remove_hosts():
    for host in HOSTS:
        ip("netns", "del", host)


def inside(host):
    """The command that runs another one on a host."""
    return ["ip", "netns", "exec", host, "unshare", "--uts", "sh", "-c", f'hostname {host}; exec "$@"', "sh"]


def run(folder, program, mpirun):
    # mpirun starts its daemon on the other host through what it takes for ssh.
    agent = folder / "agent"
    other = list(HOSTS)[1]
    agent.write_text(
        "#!/bin/sh\n"
        "# agent HOST COMMAND...\n"
        "shift\n"
        f"exec ip netns exec {other} unshare --uts sh -c \"hostname {other}; $*\"\n"
    )
    agent.chmod(0o755)
    hosts = ",".join(f"{address}:2" for address in HOSTS.values())
    options = ["--host", hosts, "-n", "4", "--map-by", "node"]
    for name, value in {
        "plm_rsh_agent": agent,
        "btl": "self,tcp",  # no memory is shared between hosts
        "btl_tcp_if_include": "engram-cable",
        "oob_tcp_if_include": "engram-cable",
        "orte_keep_fqdn_hostnames": "1",
    }.items():
        options += ["--mca", name, str(value)]
    command = [*inside(next(iter(HOSTS))), *mpirun, *options, program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    print(done.stdout, done.stderr, sep="")
    return done.returncode


def main():
    if os.geteuid() != 0:
        skip("needs root for namespaces")
    for tool in ("ip", "unshare", "hostname"):
        if shutil.which(tool) is None:
            skip(f"needs {tool}")
    remove_hosts()
    make_hosts()
    try:
        with tempfile.TemporaryDirectory() as folder:
            return run(pathlib.Path(folder), sys.argv[1], sys.argv[2:])
    finally:
        remove_hosts()


sys.exit(main())
