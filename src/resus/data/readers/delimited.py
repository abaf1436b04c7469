"""A strict reader of delimited text: it names every row with a missing field, an open quote or a wrong byte.

It finds the rows by array operations on the bytes of the file. So a row keeps its line number in the file even where
quoted cells span lines, and all problems are known before the parser runs.
"""

import codecs
import csv
import errno
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from resus.arrays import Booleans, Integers
from resus.data.problems import Findings, Problem
from resus.data.readers.packed import DamagedError, open_text
from resus.files import memory_bytes, reason_of

SEPARATORS = (",", "\t", ";", "|", "::")
_UNIT_SEPARATOR = "\x1f"  # stands in for separators of several characters, which polars does not take
_BOM = b"\xef\xbb\xbf"
_NEWLINE, _RETURN, _QUOTE = b'\n\r"'
_ASCII_INSIDE = ("utf-8", "ascii", "iso8859-1", "cp1252")  # pure ASCII needs no decoding in these
_BLOCK = 1 << 25
_LONGEST_RECORD = 1 << 26


@dataclass(frozen=True)
class FileRows:
    """The usable rows of a file, the line on which each begins, and the problems of the file.

    If there are several files, `starts` are the first rows of the files `names`.
    """

    where: str
    frame: pl.DataFrame | None
    lines: pl.Series | None
    problems: tuple[Problem, ...]
    starts: tuple[int, ...] = (0,)
    names: tuple[str, ...] = ()

    def place(self, row: int) -> tuple[str, int]:
        """File and line of a row."""
        line = int(self.lines[row]) if self.lines is not None else 1 + row
        return self.names[bisect_right(self.starts, row) - 1] if self.names else self.where, line


class TextBlock(NamedTuple):
    """Consecutive rows of a file, and the line on which each begins."""

    frame: pl.DataFrame
    lines: pl.Series


class _UnreadableError(Exception):
    """No row can be read. The arguments are those of a Problem, without the file."""


@dataclass(frozen=True)
class _Records:
    starts: Integers
    ends: Integers
    fields: Integers
    lines: Integers


def read_delimited(
    path: Path,
    *,
    separator: str,
    encoding: str = "utf-8",
    names: Sequence[str] | None = None,
    quoted: bool = True,
    wanted: Collection[str] = (),
) -> FileRows:
    """Read a file whose first line names its columns, or whose columns are `names`.

    The separator is wrong if it gives none of the `wanted` columns and another separator does.
    """
    findings = Findings()
    blocks = read_delimited_blocks(
        path, findings, separator=separator, encoding=encoding, names=names, quoted=quoted, wanted=wanted
    )
    read = [(block.frame, block.lines) for block in blocks]
    problems = tuple(findings.problems())
    if not read or findings.stopped:
        return FileRows(str(path), None, None, problems)
    frames, lines = zip(*read, strict=True)
    return FileRows(str(path), pl.concat(frames), pl.concat(lines), problems)


def read_delimited_blocks(
    path: Path,
    findings: Findings,
    *,
    separator: str,
    encoding: str = "utf-8",
    names: Sequence[str] | None = None,
    quoted: bool = True,
    wanted: Collection[str] = (),
    block_bytes: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[TextBlock]:
    """The same, block by block of about `block_bytes`; problems go to `findings`, which says if they stop the reading.

    There is at least one block if anything can be read. `progress` hears how many bytes of the file were taken.
    """
    where = str(path)
    lines_before, first = 0, True
    try:
        codec = _codec(encoding)
        for raw in _blocks_of_records(path, codec, quoted, block_bytes, progress):
            text = _as_utf8(raw, codec, encoding, where, lines_before, findings)
            lines = raw.count(b"\n")
            if first:
                _check_separator(text, separator, names, wanted)
            inside = separator
            if len(separator) > 1:
                text, inside = text.replace(separator.encode(), _UNIT_SEPARATOR.encode()), _UNIT_SEPARATOR
            quotes = np.flatnonzero(np.frombuffer(text, np.uint8) == _QUOTE) if quoted else np.empty(0, np.int64)
            _check_quotes(text, quotes, inside, lines_before)
            records = _without_blank(_scan(text, inside, quotes, lines_before), text)
            if names is None:
                if not len(records.starts):  # only blank lines so far
                    lines_before += lines
                    continue
                header = text[records.starts[0] : records.ends[0]].decode().rstrip("\r\n")
                names = _header(header, inside, quoted)
                records = _only(records, np.arange(len(records.starts)) > 0)
            first = False
            _ragged(records, len(names), text, where, findings)
            kept = _only(records, records.fields == len(names))
            frame = _parse(_bytes_in(text, kept), inside, names, quoted)
            if frame.height != len(kept.starts):
                what = f"it reads as {frame.height:,} rows but has {len(kept.starts):,}"
                raise _UnreadableError(None, None, what, "write it again with a CSV writer")
            yield TextBlock(frame, pl.Series("line", kept.lines))
            lines_before += lines
    except _UnreadableError as error:
        findings.stop(Problem(where, *error.args))


def read_columns(path: Path, columns: Sequence[str], *, separator: str, quoted: bool = True) -> FileRows:
    """These columns of a published file, which must have all of them. Spaces around their names are dropped."""
    read = read_delimited(path, separator=separator, quoted=quoted, wanted=columns)
    if read.frame is None:
        return read
    frame = read.frame.rename(str.strip)
    missing = [name for name in columns if name not in frame.columns]
    what = f"there is no such column among {', '.join(frame.columns)}"
    absent = [Problem(read.where, 1, name, what, "use the file as it is published") for name in missing]
    return FileRows(read.where, None if missing else frame.select(columns), read.lines, (*read.problems, *absent))


def _blocks_of_records(
    path: Path, codec: str, quoted: bool, size: int | None, progress: Callable[[int], None] | None
) -> Iterator[bytes]:
    """The bytes of the file in blocks of whole records; without a `size`, or in a codec of wide signs, in one block."""
    whole = size is None or not _splits_at_bytes(codec)
    limit = memory_bytes() if whole else _LONGEST_RECORD + (size or 0)
    rest, empty = b"", True
    try:
        with open_text(path) as stream:
            if whole and stream.size > limit:
                raise OSError(errno.EINVAL, f"it has {stream.size:,} bytes, more than {limit:,}")
            while block := stream.read(limit + 1 if whole or size is None else size):
                if progress is not None:
                    progress(stream.taken)
                held = rest + block
                if len(held) > limit:
                    raise OSError(errno.EINVAL, f"a row, or the whole text, has more than {limit:,} bytes")
                cut = 0 if whole else _last_end(held, quoted)
                ready, rest = held[:cut], held[cut:]
                if ready:
                    empty = empty and not ready.removeprefix(_BOM).strip()
                    yield ready
    except OSError as error:
        raise _unreadable(error) from None
    except DamagedError as error:
        what = f"the compressed file is damaged or cut short{' after this row' if error.lines else ''} ({error})"
        raise _UnreadableError(error.lines or None, None, what, "fetch or write it again") from None
    if empty and not rest.removeprefix(_BOM).strip():
        raise _UnreadableError(None, None, "the file is empty", "fetch or write it again")
    if rest:
        yield rest


def _unreadable(error: OSError) -> _UnreadableError:
    if isinstance(error, IsADirectoryError):
        return _UnreadableError(None, None, "it is a folder, not a file", "name the file")
    if isinstance(error, FileNotFoundError):
        return _UnreadableError(None, None, "the file does not exist", "check the path")
    return _UnreadableError(None, None, f"it cannot be read ({reason_of(error)})", "check the path")


def _last_end(held: bytes, quoted: bool) -> int:
    """Where the last whole record ends; 0 if there is none."""
    end = held.rfind(b"\n") + 1
    quote = held.rfind(b'"') if quoted else -1
    if end == 0 or quote < 0:
        return end
    data = np.frombuffer(held, np.uint8)
    quotes = np.flatnonzero(data == _QUOTE)
    newlines = np.flatnonzero(data == _NEWLINE)
    outside = newlines[np.searchsorted(quotes, newlines) % 2 == 0]
    return int(outside[-1]) + 1 if len(outside) else 0


def _codec(encoding: str) -> str:
    try:
        return codecs.lookup(encoding).name
    except LookupError:
        fix = "use a Python codec such as utf-8, latin-1 or gbk"
        raise _UnreadableError(None, None, f"the encoding '{encoding}' is unknown", fix) from None


def _splits_at_bytes(codec: str) -> bool:
    """Whether the byte of a line end is never a part of another sign."""
    return not codec.startswith(("utf-16", "utf-32", "utf-7", "iso2022", "hz"))


def _as_utf8(raw: bytes, codec: str, encoding: str, where: str, lines_before: int, findings: Findings) -> bytes:
    """The bytes in UTF-8 without a byte order mark. Wrong bytes are replaced, so that the rest can be checked, too."""
    if codec not in _ASCII_INSIDE or not raw.isascii():
        try:
            text = raw.decode(codec)
        except UnicodeDecodeError as error:
            what = f"the byte 0x{raw[error.start]:02x} is not {encoding.upper()}"
            fix = "save the file as UTF-8, or name its encoding in the schema (for instance 'encoding: latin-1')"
            line = lines_before + 1 + raw.count(b"\n", 0, error.start)
            findings.add((where, "encoding"), where, line, None, what, fix, noun=None)
            text = raw.decode(codec, "replace")
        raw = text.encode()
    zero = raw.find(b"\0")
    if zero >= 0:
        what = "there are zero bytes, so it is not text in this encoding"
        line = lines_before + 1 + raw.count(b"\n", 0, zero)
        raise _UnreadableError(line, None, what, "save the file as UTF-8 text")
    return raw if lines_before else raw.removeprefix(_BOM)


def _check_separator(raw: bytes, separator: str, names: Sequence[str] | None, wanted: Collection[str]) -> None:
    """Refuse a separator that does not give the columns if another one does."""
    first = raw.lstrip(b"\r\n").partition(b"\n")[0].decode(errors="replace").rstrip("\r")

    def fits(candidate: str) -> bool:
        fields = [field.strip('"') for field in first.split(candidate)]
        if names is not None:
            return len(fields) == len(names)
        return not set(wanted).isdisjoint(fields) if wanted else len(fields) > 1

    other = next((candidate for candidate in (separator, *SEPARATORS) if fits(candidate)), separator)
    if other != separator:
        what = f"the columns are separated by {other!r}, not by {separator!r}"
        in_yaml = other.replace("\t", "\\t")
        fix = f"save it with {separator!r}, or write 'separator: \"{in_yaml}\"' in the schema of a table of your own"
        raise _UnreadableError(1, None, what, fix)


def _check_quotes(raw: bytes, quotes: Integers, separator: str, lines_before: int) -> None:
    """Refuse a quote that does not open at the start of a cell or does not close at its end."""
    if len(quotes) == 0:
        return
    data = np.frombuffer(raw, dtype=np.uint8)
    opening, closing = quotes[::2], quotes[1::2]
    before = np.where(opening > 0, data[opening - 1], _NEWLINE)
    after = np.where(closing + 1 < len(data), data[np.minimum(closing + 1, len(data) - 1)], _NEWLINE)
    good_open = np.isin(before, [ord(separator), _NEWLINE, _QUOTE])
    good_close = np.isin(after, [ord(separator), _NEWLINE, _RETURN, _QUOTE])
    pairs = len(closing)
    bad = ~good_open
    bad[:pairs] |= ~good_close
    if len(opening) > pairs:
        bad[-1] = True
    if bad.any():
        line = lines_before + 1 + raw.count(b"\n", 0, int(opening[np.argmax(bad)]))
        fix = 'write a quote in a cell as "" and put the whole cell in quotes'
        raise _UnreadableError(line, None, "a quote opens inside a cell or never closes", fix)


def _scan(raw: bytes, separator: str, quotes: Integers, lines_before: int) -> _Records:
    """Where each record starts and ends, its number of fields and its line; block by block, to save memory."""
    data = np.frombuffer(raw, dtype=np.uint8)
    ends, fields, lines = [], [], []
    separators_before, first_line = 0, lines_before
    for start in range(0, len(data), _BLOCK):
        block = data[start : start + _BLOCK]
        newlines = start + np.flatnonzero(block == _NEWLINE)
        separators = start + np.flatnonzero(block == ord(separator))
        outside = newlines
        if len(quotes):
            outside = newlines[np.searchsorted(quotes, newlines) % 2 == 0]
            separators = separators[np.searchsorted(quotes, separators) % 2 == 0]
        ends.append(outside + 1)
        fields.append(separators_before + np.searchsorted(separators, outside))
        lines.append(lines_before + np.searchsorted(newlines, outside, side="right"))
        separators_before += len(separators)
        lines_before += len(newlines)
    if raw[-1] != _NEWLINE:
        ends.append(np.array([len(data)]))
        fields.append(np.array([separators_before]))
        lines.append(np.array([lines_before]))
    end, counts = np.concatenate(ends), np.concatenate(fields)
    return _Records(
        starts=np.concatenate([[0], end[:-1]]),
        ends=end,
        fields=1 + np.ediff1d(counts, to_begin=counts[:1]),
        lines=1 + np.concatenate([[first_line], np.concatenate(lines)[:-1]]),
    )


def _only(records: _Records, keep: Booleans) -> _Records:
    return _Records(records.starts[keep], records.ends[keep], records.fields[keep], records.lines[keep])


def _without_blank(records: _Records, raw: bytes) -> _Records:
    """Skip blank lines."""
    data = np.frombuffer(raw, dtype=np.uint8)
    first, last = data[records.starts], data[records.ends - 1]
    length = records.ends - records.starts
    blank = (length == 1) & ((first == _NEWLINE) | (first == _RETURN))
    return _only(records, ~blank & ~((length == 2) & (first == _RETURN) & (last == _NEWLINE)))


def _header(line: str, separator: str, quoted: bool) -> list[str]:
    try:
        names = next(csv.reader([line], delimiter=separator)) if quoted else line.split(separator)
    except csv.Error:
        raise _UnreadableError(1, None, "a line break stands inside a name", "write each name without one") from None
    if "" in names:
        what = f"column number {names.index('') + 1} has no name"
        raise _UnreadableError(1, None, what, "name every column in the first line")
    twice = next((name for index, name in enumerate(names) if name in names[:index]), None)
    if twice is not None:
        raise _UnreadableError(1, twice, "two columns have this name", "give each column its own name")
    return names


def _ragged(records: _Records, expected: int, raw: bytes, where: str, findings: Findings) -> None:
    few, many = records.fields < expected, records.fields > expected
    if len(few) and few[-1] and raw[-1] != _NEWLINE:
        what = f"the last line is cut short: {_count(records.fields[-1])} instead of {expected}"
        fix = "fetch or write the file again"
        findings.add((where, "cut"), where, int(records.lines[-1]), None, what, fix)
        few = np.append(few[:-1], False)
    for name, mask, fix in (
        ("few", few, "add the missing ones, or delete the row"),
        ("many", many, "put a cell that contains the separator in quotes, or delete the row"),
    ):
        bad = np.flatnonzero(mask)
        if len(bad):
            what = f"{_count(records.fields[bad[0]])} instead of {expected}"
            findings.add((where, name), where, int(records.lines[bad[0]]), None, what, fix, count=len(bad))


def _count(fields: int) -> str:
    return f"{fields} field{'' if fields == 1 else 's'}"


def _bytes_in(raw: bytes, records: _Records) -> bytes:
    lengths = records.ends - records.starts
    if not len(lengths):
        return b""
    if int(lengths.sum()) == records.ends[-1] - records.starts[0]:
        return raw[records.starts[0] : records.ends[-1]]
    steps = np.zeros(len(raw) + 1, dtype=np.int8)
    steps[records.starts] += 1
    steps[records.ends] -= 1
    kept = np.cumsum(steps[:-1], dtype=np.int8).astype(np.bool_)
    return np.frombuffer(raw, dtype=np.uint8)[kept].tobytes()


def _parse(raw: bytes, separator: str, names: Sequence[str], quoted: bool) -> pl.DataFrame:
    if not raw:
        return pl.DataFrame(schema=dict.fromkeys(names, pl.String))
    return pl.read_csv(
        raw,
        separator=separator,
        has_header=False,
        new_columns=list(names),
        infer_schema=False,
        quote_char='"' if quoted else None,
    )
