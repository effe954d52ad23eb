#!/usr/bin/env python3
"""Runs one script test: run.py ENGRAM DEMO_TOKENIZER SHARED_DIR SCRIPT.test

A script is a header of comments (name, description, group), then statements, each a block of lines
that ends with a blank line:

    run                      shell                     error 1
    engram COMMAND ...       any bash line             engram COMMAND ...
    ----                                               ----
    exact standard output                              text that standard error contains

`run` expects exit status 0; without `----` its output is not compared. `require shared` skips the
script (exit 77) where the optional data folder is not there. $TMP, $DEMO and $SHARED stand for a
fresh folder, the demo tokenizer and the data folder, $NAME for a name that no other test has; in
expected text too. Shell lines find the program as $ENGRAM.
"""

import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

ENGRAM, DEMO, SHARED, SCRIPT = sys.argv[1], sys.argv[2], sys.argv[3], pathlib.Path(sys.argv[4])


def blocks(text):
    """(line number, lines) of every statement; comments are dropped."""
    current, start = [], 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.startswith("#") and not current:
            continue
        if line.strip():
            start = start if current else number
            current.append(line)
        elif current:
            yield start, current
            current = []


def fail(number, message):
    print(f"{SCRIPT}:{number}: {message}")
    sys.exit(1)


def execute(number, statement, command, variables):
    environment = dict(os.environ, **variables)
    if statement == "shell":
        done = subprocess.run(["bash", "-euc", command], env=environment)
        if done.returncode != 0:
            fail(number, f"shell: exit {done.returncode}")
        return None
    arguments = [os.path.expandvars(word) for word in shlex.split(command)]
    if arguments[0] != "engram":
        fail(number, f"expected an engram command, found '{arguments[0]}'")
    return subprocess.run([ENGRAM, *arguments[1:]], capture_output=True, text=True, timeout=120)


def check(number, statement, done, expected):
    if statement == "run":
        if done.returncode != 0:
            fail(number, f"exit {done.returncode}: {done.stderr}")
        if expected is not None and done.stdout.rstrip("\n") != expected:
            fail(number, f"expected\n{expected}\nfound\n{done.stdout}")
    else:
        status = int(statement.split()[1])
        if done.returncode != status:
            fail(number, f"expected exit {status}, found {done.returncode}: {done.stderr}")
        if status == 1 and not done.stderr.startswith("engram: "):
            fail(number, f"expected 'engram: ...', found {done.stderr!r}")
        for line in (expected or "").splitlines():
            if line not in done.stderr:
                fail(number, f"expected an error with\n{line}\nfound\n{done.stderr}")


def main():
    text = SCRIPT.read_text()
    header = [line for line in text.splitlines() if line.startswith("# ")]
    if [line.split(":")[0] for line in header[:3]] != ["# name", "# description", "# group"]:
        fail(1, "expected a header of name, description and group")
    with tempfile.TemporaryDirectory() as folder:
        # The programs' own temporary files go to a folder of their own, where a test can look.
        scratch = pathlib.Path(folder, "scratch")
        scratch.mkdir()
        variables = {"TMP": folder, "DEMO": DEMO, "SHARED": SHARED, "TMPDIR": str(scratch),
                     "NAME": pathlib.Path(folder).name, "ENGRAM": ENGRAM}
        os.environ.update(variables)
        count = 0
        for number, lines in blocks(text):
            statement = lines[0]
            if statement == "require shared":
                if not pathlib.Path(SHARED, "data").exists():
                    print(f"skipped: no {SHARED}/data")
                    sys.exit(77)
                continue
            if statement not in ("run", "shell") and not statement.startswith("error "):
                fail(number, f"unknown statement '{statement}'")
            split = lines.index("----") if "----" in lines else len(lines)
            expected = os.path.expandvars("\n".join(lines[split + 1 :])) if split < len(lines) else None
            command = ("\n" if statement == "shell" else " ").join(lines[1:split])
            done = execute(number, statement, command, variables)
            if done is not None:
                check(number, statement, done, expected)
            count += 1
    print(f"{SCRIPT.name}: {count} statements")
    if count == 0:
        fail(1, "no statements")


main()
