"""Tables over ranks from Python: equal rows, and what ranks refuse."""

import os
import shutil
import subprocess
import sys

import pytest

import libengram
from libengram import _core

PROGRAM = """
import sys
import numpy as np
import libengram

model = sys.argv[1]
with libengram.Model.open(model, load="rows") as alone:
    rows = np.random.default_rng().integers(0, alone.row_count(14), size=(7, 24))
    expected = alone.lookup(14, rows=rows, dtype="raw")
for partition in ("rows", "heads", "strided", "layer-order"):
    options = {"load": "rows", "tier": "ram", "partition": partition, "rank_timeout": 20}
    with libengram.Model.open(model, comm="world", **options) as together:
        assert together.tiers()[1]["tier"] == "sharded"
        np.testing.assert_array_equal(together.lookup(14, rows=rows, dtype="raw"), expected)
        session = together.session()
        session.advance([5, 6, 7])
        session.prefetch()
        assert session.lookup(1).shape == (3, 24, 256) and session.lookup(14).any()
print("equal")  # the last session, and with it the model's stores, outlive MPI
"""


@pytest.mark.skipif(not _core.has_mpi, reason="built without MPI")
def test_ranks_give_the_rows_of_one_process(directory, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    # Sanitizers belong to the ranks, not to what starts them.
    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    launch = [shutil.which("mpirun"), "--allow-run-as-root", "--oversubscribe", "-n", "3"]
    preload = os.environ.get("LD_PRELOAD")
    if preload:
        launch += ["env", f"LD_PRELOAD={preload}"]
    command = [*launch, sys.executable, str(program), str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=200)
    # Ranks print at once: words may stand on one line.
    assert done.returncode == 0 and done.stdout.count("equal") == 3, done.stdout + done.stderr


@pytest.mark.skipif(_core.has_mpi, reason="built with MPI")
def test_a_package_without_mpi_says_so(directory):
    with pytest.raises(libengram.UnsupportedError, match="built without MPI"):
        libengram.Model.open(directory, comm="world")
