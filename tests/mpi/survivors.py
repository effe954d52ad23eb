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
    found = re.findall(r"rank (\d): (\d+) right, (\d+) wrong, (\d+) errors, (in time|late)", output)
    assert sorted(int(rank) for rank, *_ in found) == list(range(RANKS - 1)), f"{how}: {output}"
    for rank, right, wrong, errors, pace in found:
        # The 50th may be lost: its last reply can die with the rank that sent it.
        fine = right in ("49", "50") and wrong == "0" and int(right) + int(errors) == 150
        assert fine and pace == "in time", f"{how}: rank {rank}: {output}"
    print(f"{how}: {RANKS - 1} survivors, rows right before, errors after")


for how in ("kill", "stop"):
    run(sys.argv[1], sys.argv[2:], how)
