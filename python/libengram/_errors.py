"""Exceptions: one class for each code of the library, also of the built-in kind it is like."""


class Error(Exception):
    """Base class. `code`: the library's number (engram.h); `errno` where the system was involved."""

    code = 0


class InvalidArgumentError(Error, ValueError):
    """The call is wrong: fix the caller."""

    code = 1


class NotFoundError(Error, LookupError):
    """A file, tensor or layer is not there."""

    code = 2


class CorruptError(Error):
    """Bytes contradict their own description: fetch them again."""

    code = 3


class UnsupportedError(Error):
    """Well-formed, but this library does not read it."""

    code = 4


class SystemError(Error, OSError):
    """The operating system refused; `errno` says why."""

    code = 5


class OutOfMemoryError(Error, MemoryError):
    """The plan does not fit this machine."""

    code = 6


class OutOfRangeError(Error, IndexError):
    """An id or index outside its table."""

    code = 7


class UnavailableError(Error):
    """Not now: another owner, or not ready yet."""

    code = 8


class InternalError(Error):
    """Our bug."""

    code = 9


_BY_CODE = {
    kind.code: kind
    for kind in (
        InvalidArgumentError,
        NotFoundError,
        CorruptError,
        UnsupportedError,
        SystemError,
        OutOfMemoryError,
        OutOfRangeError,
        UnavailableError,
        InternalError,
    )
}


def exception_of(code: int, message: str, errno: int) -> Error:
    """The exception of a failed call; the module raises it."""
    exception = _BY_CODE.get(code, InternalError)(message)
    if errno:
        exception.errno = errno
    return exception
