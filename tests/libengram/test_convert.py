"""Writing, comparing and checking models from Python."""

import conftest
import numpy as np
import pytest

import libengram


def test_convert_compare_check_verify(directory, tmp_path):
    seen = []
    paged = tmp_path / "paged"
    libengram.convert(directory, paged, to="paged", progress=lambda *at: seen.append(at))
    assert seen and seen[-1][0] == seen[-1][1]
    for table in libengram.compare(directory, paged):
        assert table.all.exact_share == 1 and table.all.max_abs == 0 and not table.finding
        assert len(table.columns) == 24
    assert [table.layer for table in libengram.check(paged, level="full")] == [1, 14]
    report = libengram.verify(paged)
    assert report.against.endswith("engram-manifest.json") and report.files > 0
    rows = np.arange(50)
    with libengram.Model.open(directory) as a, libengram.Model.open(paged, tier="direct") as b:
        np.testing.assert_array_equal(a.lookup(1, rows=rows), b.lookup(1, rows=rows))
    with open(next(paged.glob("*.safetensors")), "r+b") as file:
        file.seek(5000)
        byte = file.read(1)
        file.seek(5000)
        file.write(bytes([byte[0] ^ 1]))
    with pytest.raises(libengram.CorruptError):
        libengram.verify(paged)
    with pytest.raises(libengram.InvalidArgumentError, match="exists"):
        libengram.convert(directory, paged, to="paged")
    with pytest.raises(libengram.Error, match="zip"):
        libengram.convert(directory, tmp_path / "zip", to="zip")


def test_mxfp4_is_lossy_and_measured(directory, tmp_path):
    libengram.convert(directory, tmp_path / "mxfp4", to="mxfp4", layers=[1], tables_only=True)
    with pytest.raises(libengram.NotFoundError, match="layers.14"):
        libengram.compare(directory, tmp_path / "mxfp4")
    libengram.convert(directory, tmp_path / "both", to="mxfp4", tables_only=True)
    for table in libengram.compare(directory, tmp_path / "both"):
        assert 0.05 < table.all.relative_l2 < 0.2 and table.all.worst_cosine > 0.9


def test_shard(directory, model, tmp_path):
    libengram.shard(directory, tmp_path / "shards", world=3, by="heads")
    rows = model.hasher.rows(1, model.hasher.hash(conftest.TOKENS)[0])
    expected = model.lookup(1, rows=rows)
    for rank in range(3):
        path = tmp_path / "shards" / f"rank-{rank:05}"
        with libengram.Model.open(path, load="rows") as part:
            mine = rows[:, rank * 8 : rank * 8 + 8]
            np.testing.assert_array_equal(
                part.lookup(1, rows=np.ascontiguousarray(mine)),
                expected[:, rank * 8 : rank * 8 + 8],
            )
            with pytest.raises(libengram.OutOfRangeError):
                part.lookup(1, rows=rows)


def test_manifest(directory, tmp_path):
    libengram.make_model(tmp_path / "m", tokenizer=conftest.DEMO_TOKENIZER)
    libengram.write_manifest(tmp_path / "m", threads=2)
    assert libengram.verify(tmp_path / "m").files >= 3
    with pytest.raises(libengram.InvalidArgumentError, match="by: expected one of"):
        libengram.shard(directory, tmp_path / "x", world=2, by="rank")
