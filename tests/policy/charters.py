#!/usr/bin/env python3
"""docs/ARCHITECTURE.md lists every source file with the sentence that opens it.

charters.py ROOT [--update]: compares, or rewrites the list between its two markers.
"""

import pathlib
import sys

BEGIN, END = "<!-- charters: begin -->\n", "<!-- charters: end -->"


def charter(path):
    """The first sentence of the opening comment, or of the docstring."""
    if path.suffix == ".py":
        return path.read_text().split('"""')[1].splitlines()[0].strip()
    words = []
    for line in path.read_text().splitlines():
        if not line.startswith(("//", "/*", " *")):
            break
        words.append(line[2:].strip())
        if words[-1].endswith((".", ":")) or not words[-1]:
            break
    return " ".join(words).strip()


def listing(root):
    lines = []
    sources = sorted(f"src/{p.name}" for p in root.glob("src/*"))
    for folder in ["include/engram", *sources, "mpi/include/engram", "mpi/src",
                   "python/bindings", "python/libengram"]:
        lines.append(f"\n`{folder}`\n\n")
        seen = set()
        for path in sorted(p for p in (root / folder).glob("*") if p.suffix in (".cpp", ".hpp", ".h", ".py")):
            text = charter(path)
            # A header and its source share one charter and one line.
            if path.stem not in seen or text not in "".join(lines):
                lines.append(f"* `{path.stem}`: {text}\n")
            seen.add(path.stem)
    return "".join(lines) + "\n"


def main():
    root = pathlib.Path(sys.argv[1])
    document = root / "docs" / "ARCHITECTURE.md"
    text = document.read_text()
    head, rest = text.split(BEGIN)
    current, tail = rest.split(END)
    wanted = listing(root)
    if "--update" in sys.argv:
        document.write_text(head + BEGIN + wanted + END + tail)
    elif current != wanted:
        print("docs/ARCHITECTURE.md: charters differ; run tests/policy/charters.py . --update")
        return 1
    return 0


sys.exit(main())
