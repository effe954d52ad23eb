"""The Engram conditional memory of DeepSeek-V4.1: token ids to gated residual.

    import libengram

    with libengram.Model.open("DeepSeek-V4.1-Flash", tier="direct", cache="4G") as model:
        session = model.session()
        session.advance(token_ids)          # a prefill chunk, or one decoded token
        session.apply(1, hidden)            # before block 1: float32 or bfloat16, in place
        rows = session.lookup(14)           # or the rows themselves [tokens, 24, 256]

Arrays go in and out without copies: NumPy, torch CPU tensors, anything that speaks DLPack. NumPy has
no bfloat16, so arrays that the package makes hold its bit patterns as uint16; `out=` may be a real
bfloat16 array of torch or ml_dtypes. Calls that work release the interpreter lock. Failures raise a
subclass of `libengram.Error` that says what, where, expected and found.
"""

from libengram._core import (
    BEFORE_START,
    MASKED,
    Distance,
    Gate,
    Hasher,
    HashSpec,
    Model,
    Session,
    TableCheck,
    TableComparison,
    Ticket,
    Tokenizer,
    TokenMap,
    VerifyReport,
    __version__,
    check,
    compare,
    convert,
    load_shared,
    make_model,
    shard,
    unload_shared,
    verify,
    write_manifest,
)
from libengram._errors import (
    CorruptError,
    Error,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    OutOfMemoryError,
    OutOfRangeError,
    SystemError,
    UnavailableError,
    UnsupportedError,
)
from libengram._options import ModelOptions

__all__ = [name for name in dir() if not name.startswith("_")]
