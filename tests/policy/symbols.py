#!/usr/bin/env python3
"""The library never aborts, exits or prints: symbols.py NM LIBRARY

Reads undefined symbols of every member of the archive.
"""

import re
import subprocess
import sys

FORBIDDEN = re.compile(
    r"^(abort|exit|_exit|quick_exit|_Exit|__assert_fail|printf|fprintf|vprintf|vfprintf|puts|fputs|"
    r"putchar|perror|__printf_chk|__fprintf_chk|syslog|"
    r"_ZSt4cout|_ZSt4cerr|_ZSt4clog)$"
)
output = subprocess.run([sys.argv[1], "-u", sys.argv[2]], capture_output=True, text=True, check=True)
member, problems, members = "", [], 0
for line in output.stdout.splitlines():
    if line.endswith(":"):
        member = line.rstrip(":")
        members += 1
        continue
    symbol = line.split()[-1] if line.split() else ""
    if FORBIDDEN.match(symbol):
        problems.append(f"{member}: {symbol}")
print("\n".join(problems) or f"symbols: {members} members are clean")
sys.exit(1 if problems or members == 0 else 0)
