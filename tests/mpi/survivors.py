#!/usr/bin/env python3
"""A rank that dies or hangs: every other one gets its rows before, and clean errors after.

survivors.py PROGRAM MPIRUN...
"""

import re
import subprocess
import sys

RANKS = 4


def run(program, mpirun, how):
    command = [*mpirun, "--enable-recovery", "-n", str(RANKS), program, how]
    output = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    found = re.findall(r"rank (\d): (\d+) right, (\d+) wrong, (\d+) errors, (.*)", output)
    expected = [(str(rank), "50", "0", "100", "in time") for rank in range(RANKS - 1)]
    assert sorted(found) == expected, f"{how}: expected {expected}, found {found}\n{output}"
    print(f"{how}: {RANKS - 1} survivors, each 50 lookups right and 100 errors")


for how in ("kill", "stop"):
    run(sys.argv[1], sys.argv[2:], how)
