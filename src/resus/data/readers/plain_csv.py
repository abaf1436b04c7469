"""A fast reader for large CSV files of whole numbers, block by block.

It takes plain files only: every row has all cells, no number is missing or has a sign or leading zero, and there is no
quote and no blank line. Then a number and its text are the same. For other files it raises `NotPlain`: the strict
reader can read them, or name the row that is wrong.
"""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from resus.files import open_regular

_BOM = b"\xef\xbb\xbf"
_LONGEST_LINE = 1 << 20


class NotPlain(Exception):  # noqa: N818 - not an error: the strict reader takes the file
    """The file has a mistake, or is unusual."""


def read_plain_blocks(
    path: Path, *, numbers: Sequence[str], texts: Sequence[str], block_bytes: int
) -> Iterator[tuple[pl.DataFrame, int]]:
    """Rows of these columns, and how many bytes of the file have been read so far."""
    blocks = _blocks_of_lines(path, block_bytes)
    first = next(blocks, b"").removeprefix(_BOM)
    header, _, rows = first.partition(b"\n")
    names = _names(header)
    if not {*numbers, *texts} <= set(names):
        raise NotPlain
    done = len(first) - len(rows)
    for block in itertools.chain([rows] if rows else [], blocks):
        done += len(block)
        yield _parse(block, names, numbers).select(*numbers, *texts), done


def _blocks_of_lines(path: Path, size: int) -> Iterator[bytes]:
    """The file in blocks of about `size` bytes, each ending where a line ends."""
    with open_regular(path) as stream:
        while block := stream.read(size):
            rest = stream.readline(_LONGEST_LINE) if block[-1:] != b"\n" else b""
            if len(rest) == _LONGEST_LINE:
                raise NotPlain
            yield block + rest


def _names(header: bytes) -> list[str]:
    try:
        names = [name.strip() for name in header.decode().rstrip("\r").split(",")]
    except UnicodeDecodeError:
        raise NotPlain from None
    if '"' in header.decode() or "" in names or len(set(names)) < len(names):
        raise NotPlain
    return names


def _parse(block: bytes, names: Sequence[str], numbers: Sequence[str]) -> pl.DataFrame:
    kinds = {name: pl.Int64 if name in numbers else pl.String for name in names}
    try:
        frame = pl.read_csv(block, has_header=False, schema=kinds, quote_char=None)
    except pl.exceptions.PolarsError:
        raise NotPlain from None
    lines, separators = block.count(b"\n"), block.count(b",")
    written = separators + lines + block.count(b"\r\n")
    written += sum(
        _digits(frame[name]) if name in numbers else int(frame[name].str.len_bytes().sum()) for name in names
    )
    whole = frame.height == lines + (block[-1:] != b"\n") and separators == frame.height * (len(names) - 1)
    # an unusual spelling of a number is longer than needed
    if not whole or written != len(block) or b'"' in block or b"\0" in block:
        raise NotPlain
    return frame


def _digits(numbers: pl.Series) -> int:
    """How many digits all numbers have together."""
    if numbers.null_count():
        raise NotPlain
    values = numbers.to_numpy()
    low, high = int(values.min()), int(values.max())
    if low < 0:
        raise NotPlain
    total = len(values) * len(str(low))
    for digits in range(len(str(low)), len(str(high))):
        total += int(np.count_nonzero(values >= 10**digits))
    return total
