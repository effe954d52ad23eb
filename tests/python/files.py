"""Files that tests read and write themselves: safetensors, pages by the tables of docs/FORMAT.md, and
the MXFP4 rule in plain NumPy. Nothing here comes from the library under test.
"""

import hashlib
import json
import pathlib
import struct

import numpy as np
import xxhash

FORMAT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "FORMAT.md"


def safetensors(path):
    """{name: (dtype, array of bytes, shape)} and metadata."""
    data = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, info in header.items():
        begin, end = info["data_offsets"]
        raw = np.frombuffer(data[8 + size + begin : 8 + size + end], np.uint8)
        tensors[name] = (info["dtype"], raw, info["shape"])
    return tensors, metadata


def write_safetensors(path, tensors, metadata, align):
    header, payload = {"__metadata__": metadata}, b""
    for name, (dtype, raw, shape) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(payload), len(payload) + raw.nbytes]}
        payload += raw.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % align)
    path.write_bytes(struct.pack("<Q", len(text)) + text + payload)


def model_tensors(directory):
    tensors = {}
    for path in sorted(pathlib.Path(directory).glob("*.safetensors")):
        tensors.update(safetensors(path)[0])
    return tensors


def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def tree(directory):
    return {str(p.relative_to(directory)): digest(p) for p in sorted(pathlib.Path(directory).rglob("*")) if p.is_file()}


def format_table(first_cell):
    """Rows of the table of FORMAT.md whose header begins with this cell."""
    lines = FORMAT.read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {first_cell} |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().strip("`") for cell in line.strip("|").split("|")])
    return rows


class Pages:
    """The numbers of docs/FORMAT.md."""

    fields = {name: (int(offset), int(size)) for name, offset, size, _ in format_table("field")}
    keys = [row[0] for row in format_table("key")]
    codecs = {name: (int(row), int(per_page)) for name, row, per_page in format_table("codec")}

    @staticmethod
    def identity(metadata):
        text = "".join(f"{k}={metadata[k]}\n" for k in sorted(metadata) if k.startswith("engram."))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")

    @classmethod
    def number(cls, page, field):
        offset, size = cls.fields[field]
        return int.from_bytes(page[offset : offset + size], "little")

    @classmethod
    def rows(cls, path, layer):
        """Checks every page and returns the rows [rows, row bytes]."""
        tensors, metadata = safetensors(path)
        missing = [key for key in cls.keys if key not in metadata]
        assert not missing, missing
        dtype, raw, shape = tensors[f"layers.{layer}.engram.embed.pages"]
        assert dtype == "U8" and shape[1] == 4096
        row_bytes, per_page = cls.codecs[metadata["engram.codec"]]
        assert int(metadata["engram.rows_per_page"]) == per_page == cls.fields["rows"][1] // row_bytes
        identity = cls.identity(metadata)
        found = []
        for number, page in enumerate(raw.reshape(-1, 4096)):
            data = page.tobytes()
            assert cls.number(data, "page_number") == number
            assert cls.number(data, "identity") == identity & 0xFFFFFFFF
            end = cls.fields["checksum"][0]
            assert cls.number(data, "checksum") == xxhash.xxh3_64_intdigest(data[:end], seed=identity)
            assert not any(data[per_page * row_bytes : cls.fields["rows"][1]])
            found.append(page[: per_page * row_bytes].reshape(per_page, row_bytes))
        return np.concatenate(found)[: int(metadata["engram.rows"])]

    @classmethod
    def write(cls, path, layer, rows, metadata):
        """The same file, made here."""
        row_bytes, per_page = cls.codecs[metadata["engram.codec"]]
        identity = cls.identity(metadata)
        pages = []
        for number in range(-(-len(rows) // per_page)):
            body = rows[number * per_page : (number + 1) * per_page].tobytes()
            body += b"\0" * (cls.fields["rows"][1] - len(body))
            body += struct.pack("<II", number, identity & 0xFFFFFFFF)
            pages.append(body + struct.pack("<Q", xxhash.xxh3_64_intdigest(body, seed=identity)))
        raw = np.frombuffer(b"".join(pages), np.uint8)
        name = f"layers.{layer}.engram.embed.pages"
        write_safetensors(path, {name: ("U8", raw, [len(pages), 4096])}, metadata, 4096)


def mxfp4_reference(values, exponent="search", ties="even"):
    """[rows, 256] -> codes [rows, 128] and scale bytes [rows, 8], by the rule in plain NumPy."""
    grid = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    groups = values.reshape(-1, 32).astype(np.float64)
    amax = np.abs(groups).max(axis=1)
    low = np.floor(np.log2(np.where(amax > 0, amax, 1))) - 2
    codes = {}
    for shift in (0, 1):
        r = np.abs(groups) / np.exp2(low + shift)[:, None]
        distance = np.abs(r[:, :, None] - grid)
        best = distance.argmin(axis=2)  # the lower of two equally near
        up = np.clip(best + 1, 0, 7)
        tie = np.take_along_axis(distance, up[:, :, None], 2)[..., 0] == distance.min(axis=2)
        odd = best % 2 == 1
        codes[shift] = np.where(tie & odd & (best < 7) & (ties == "even"), up, best)
    error = [((np.abs(groups) - grid[codes[s]] * np.exp2(low + s)[:, None]) ** 2).sum(axis=1) for s in (0, 1)]
    larger = {"floor": np.zeros(len(groups), bool), "ceil": amax > 6 * np.exp2(low),
              "search": error[1] < error[0]}[exponent]
    nibble = np.where(larger[:, None], codes[1], codes[0]) | np.where(np.signbit(groups), 8, 0)
    packed = (nibble[:, 0::2] | nibble[:, 1::2] << 4).astype(np.uint8)
    scale = np.where(amax > 0, low + larger + 127, 127).astype(np.uint8)
    return packed.reshape(len(values), -1), scale.reshape(len(values), -1)
