#!/usr/bin/env python3
"""Includes go only along the arrows of docs/ARCHITECTURE.md, and files keep their size.

layers.py ROOT: exits 1 and names each offender.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])

# module -> modules whose headers under src/ it may include, besides its own.
ALLOWED = {
    "base": set(),
    "os": {"base"},
    "simd": {"base"},
    "token": {"base", "os"},
    "hash": {"base", "simd"},
    "codec": {"base", "simd"},
    "table": {"base", "hash", "codec"},
    "checkpoint": {"base", "os", "hash", "codec", "table"},
    "store": {"base", "os", "table", "checkpoint", "codec"},
    "memory": {"base", "hash", "codec", "store"},
    "gate": {"base", "simd", "codec"},
    "engine": {"base", "os", "token", "hash", "codec", "table", "checkpoint", "store", "memory", "gate"},
    "convert": {"base", "os", "simd", "token", "hash", "codec", "table", "checkpoint", "gate"},
    "capi": set(),
    "cli": set(),
}
# public header -> the module that implements it.
PUBLIC = {
    "status": "base", "types": "base", "export": "base", "token_map": "token", "hash": "hash",
    "table": "table", "checkpoint": "checkpoint", "row_store": "store", "memory": "memory", "gate": "gate",
    "engine": "engine", "convert": "convert", "engram": "capi",
}
FILE_LINES_MAX = 400
PUBLIC_HEADER_LINES_MAX = 250
PUBLIC_HEADERS_MAX = 12  # each one idea; export.h is none
# Only these may make system calls, name Highway, or know ICU.
RESTRICTED = {
    r"<(unistd|fcntl|sys/[a-z]+)\.h>": {"os", "cli/terminal.cpp"},
    r"<liburing\.h>": {"os"},
    r"<hwy/": {"simd"},
    r"<unicode/": {"token"},
    r"<simdjson\.h>": {"base", "token"},
    r"<openssl/": {"base"},
    r"<xxhash\.h>": {"table"},
}

problems = []


def reach(module):
    """Everything a module may see of public headers: what it may include, and what that may."""
    seen, queue = {module}, [module]
    while queue:
        for other in ALLOWED[queue.pop()] - seen:
            seen.add(other)
            queue.append(other)
    return seen


for path in sorted(ROOT.glob("src/*/*.[ch]pp")):
    module, name = path.parent.name, path.relative_to(ROOT)
    if module not in ALLOWED:
        problems.append(f"{name}: module '{module}' is not in the table")
        continue
    text = path.read_text()
    if len(text.splitlines()) > FILE_LINES_MAX:
        problems.append(f"{name}: more than {FILE_LINES_MAX} lines")
    for include in re.findall(r'#include "([^"]+)"', text):
        target = include.split("/")[0]
        if target == "engram":
            header = include.split("/")[1].split(".")[0]
            if module not in ("cli", "capi") and PUBLIC[header] not in reach(module) | {"base"}:
                problems.append(f"{name}: includes {include}, against the arrows")
        elif target != module and target not in ALLOWED[module]:
            problems.append(f"{name}: includes {include}, against the arrows")
    for pattern, places in RESTRICTED.items():
        if re.search("#include " + pattern, text):
            if module not in places and f"{module}/{path.name}" not in places:
                problems.append(f"{name}: includes {pattern}, which only {sorted(places)} may")

for path in sorted([*ROOT.glob("python/bindings/*.[ch]pp"), *ROOT.glob("mpi/src/*.[ch]pp")]):
    text = path.read_text()
    if len(text.splitlines()) > FILE_LINES_MAX:
        problems.append(f"{path.relative_to(ROOT)}: more than {FILE_LINES_MAX} lines")
    for include in re.findall(r'#include "([^"]+)"', text):
        if include == "capi/handles.hpp" and path.name == "c_interface.cpp":
            continue
        if "/" in include and not include.startswith("engram/"):
            problems.append(f"{path.relative_to(ROOT)}: includes {include}, not a public header")

headers = sorted(ROOT.glob("include/engram/*"))
if len(headers) - 1 > PUBLIC_HEADERS_MAX:
    problems.append(f"{len(headers) - 1} public headers, more than {PUBLIC_HEADERS_MAX}")
for path in headers:
    if len(path.read_text().splitlines()) > PUBLIC_HEADER_LINES_MAX:
        problems.append(f"{path.relative_to(ROOT)}: more than {PUBLIC_HEADER_LINES_MAX} lines")

for path in sorted([*ROOT.glob("src/**/*.[ch]pp"), *ROOT.glob("tests/**/*.[ch]pp"), *headers]):
    text = path.read_text()
    if not text.startswith(("// ", "/* ")):
        problems.append(f"{path.relative_to(ROOT)}: does not open with its charter")
    if "src/" in str(path) and re.search(r"\bthrow\b", re.sub(r"//.*", "", text)):
        problems.append(f"{path.relative_to(ROOT)}: throws; failures are Status and Result")
    if re.search(r"\b(TODO|FIXME|XXX)\b", text):
        problems.append(f"{path.relative_to(ROOT)}: unfinished mark")

print("\n".join(problems) or "layers: every include follows the arrows")
sys.exit(1 if problems else 0)
