"""python -m libengram: the command line `engram`, which the package contains."""

import os
import sys


def main() -> None:
    program = os.path.join(os.path.dirname(__file__), "engram")
    os.execv(program, ["engram", *sys.argv[1:]])


if __name__ == "__main__":
    main()
