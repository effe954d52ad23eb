#!/usr/bin/env python3
"""The C symbols of the shared library are exactly those of abi_symbols.txt: abi.py NM LIBRARY

A symbol may be added to the list; one that has been released is never removed.
"""

import pathlib
import subprocess
import sys

listed = pathlib.Path(__file__).with_name("abi_symbols.txt").read_text().split()
output = subprocess.run(
    [sys.argv[1], "-D", "--defined-only", sys.argv[2]], capture_output=True, text=True, check=True
)
found = sorted(
    line.split()[-1] for line in output.stdout.splitlines() if line.split()[-1].startswith("engram_")
)
for symbol in sorted(set(listed) - set(found)):
    print(f"missing: {symbol}")
for symbol in sorted(set(found) - set(listed)):
    print(f"not listed: {symbol}")
sys.exit(0 if found == listed else 1)
