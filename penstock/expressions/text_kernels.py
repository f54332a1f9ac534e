"""Functions on columns of texts, which count in characters (code points); and functions that are
computed once for each distinct text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import RunError
from penstock.expressions.columns import (
    Builder,
    Kernel,
    always,
    arrow,
    by_rows,
    column_of,
    fixed_width,
    flags_of,
    holds_somewhere,
    ints_of,
    length,
    same,
    validity,
    values_of,
)
from penstock.functions.json_paths import JSON_AT, path_of
from penstock.functions.texts import CODES, ENCODED, no_character
from penstock.functions.texts import HASHES as HASH_OF
from penstock.model.arrays import Ints
from penstock.model.types import BIGINT, INT
from penstock.plan.expressions import Call, Literal

_Bytes: TypeAlias = npt.NDArray[np.uint8]


class Characters:
    """Characters of all texts of a column, numbered from 0."""

    def __init__(self, texts: pa.Array) -> None:
        count = len(texts)
        _, offsets, data = texts.buffers()
        ends = np.zeros(1, np.int32)
        if count:
            ends = np.frombuffer(offsets, np.int32, count + 1, texts.offset * 4)
        self.ends = ends.astype(np.int64) - ends[0]  # of the texts, in bytes; before them, a 0
        self.data: _Bytes = np.empty(0, np.uint8)
        if self.ends[-1]:
            self.data = np.frombuffer(data, np.uint8, self.ends[-1], ends[0])
        is_first = (self.data & 0xC0) != 0x80  # the other bytes of a character begin with 10
        self.before = np.concatenate([[0], np.cumsum(is_first)])  # how many begin before a byte
        self.first_bytes = np.append(np.flatnonzero(is_first), len(self.data))
        self.firsts: Ints = self.before[self.ends[:-1]]
        self.lengths: Ints = np.diff(self.before[self.ends])

    def numbered(self, bytes_: Ints) -> Ints:
        """Numbers, within their texts, of the characters at these bytes of the texts."""
        numbers: Ints = self.before[self.ends[:-1] + bytes_] - self.firsts
        return numbers

    def cut(self, begin: Ints, end: Ints, *inputs: pa.Array | pa.Scalar) -> pa.Array:
        """Cut the characters from `begin` to before `end` from each text; NULL where an
        input is.
        """
        begin = np.clip(begin, 0, self.lengths)
        end = np.clip(end, begin, self.lengths)
        first_bytes = self.first_bytes[self.firsts + begin]
        sizes = self.first_bytes[self.firsts + end] - first_bytes
        ends = np.concatenate([[0], np.cumsum(sizes)])
        # for each byte of the result, the byte it comes from
        origins = np.repeat(first_bytes - ends[:-1], sizes) + np.arange(ends[-1])
        buffers = [
            validity(*inputs),
            pa.py_buffer(ends.astype(np.int32)),
            pa.py_buffer(self.data[origins]),
        ]
        return pa.Array.from_buffers(pa.string(), len(sizes), buffers)


# Functions on texts, which are counted in characters (code points), not in bytes.

_LENGTH = arrow("utf8_length")
_BYTES = arrow("binary_length")
_REPEAT = arrow("binary_repeat")
_CHARACTERS = pa.array([chr(code) for code in range(CODES)])
_IS_ASCII = arrow("string_is_ascii")
_JOIN = arrow("binary_join_element_wise")
_COALESCE = arrow("coalesce")
_IF_ELSE = arrow("if_else")
_IS_VALID = arrow("is_valid")
_NOTHING = pa.scalar("")
_NULL = pa.scalar(None, pa.string())
_FAR = 2**31  # characters: more than a text has


def _on_constant(make: Callable[..., Kernel]) -> Builder:
    """Builder of a kernel for literals after the first argument; without them, row by row."""

    def build(_: Call, literals: Sequence[Literal | None]) -> Kernel | None:
        values: list[Any] = []
        for literal in literals[1:]:
            if literal is None:
                return None
            values.append(literal.value)
        kernel = make(*values)
        return lambda texts, *_: kernel(texts)

    return build


def _length(texts: pa.Array) -> pa.Array:
    lengths = _LENGTH(texts)
    return column_of(values_of(lengths, INT), BIGINT, lengths)


def _octet_length(texts: pa.Array) -> pa.Array:
    lengths = _BYTES(texts)
    return column_of(values_of(lengths, INT), BIGINT, lengths)


def _repeat(texts: pa.Array | pa.Scalar, counts: pa.Array | pa.Scalar) -> pa.Array:
    sizes = ints_of(_LENGTH(texts).cast(pa.int64()), BIGINT)
    most = np.where(sizes > 0, _FAR, 0)  # '' may be repeated any number of times
    times = np.minimum(np.maximum(ints_of(counts, BIGINT), 0), most)
    given = pa.scalar(int(times)) if times.ndim == 0 else column_of(times, BIGINT, counts)
    return _REPEAT(texts, given)


def _chr(codes: pa.Array) -> pa.Array:
    values = values_of(codes, BIGINT)
    odd = (values < 0) | (values >= CODES)
    if holds_somewhere(odd, codes):
        raise no_character(int(values[odd][0]))
    return _CHARACTERS.take(column_of(np.where(odd, 0, values), BIGINT, codes))


def _concat(*texts: pa.Array | pa.Scalar) -> pa.Array:
    return _JOIN(*texts, _NOTHING)


# --- upper and lower -----------------------------------------------------------------------------


def _cased(name: str, convert: Callable[[str], str]) -> Builder:
    ascii_only = arrow(f"ascii_{name}")

    def build(call: Call, _: Sequence[Literal | None]) -> Kernel:
        rows = by_rows(call)

        def kernel(texts: pa.Array) -> pa.Array:
            is_ascii = _IS_ASCII(texts)
            converted = ascii_only(texts)
            if not is_ascii.false_count:
                return converted
            others = pa.array(~flags_of(is_ascii.fill_null(True)))
            some = texts.filter(others)
            at_once = _at_once(some, convert)
            replacements = rows(some) if at_once is None else at_once
            return pc.replace_with_mask(converted, others, replacements)

        return kernel

    return build


def _at_once(texts: pa.Array, convert: Callable[[str], str]) -> pa.Array | None:
    """Apply Python's rules (ß becomes SS, a last Σ becomes ς) to all texts joined into one, unless
    they contain the separator.
    """
    listed = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    joined = convert(pc.binary_join(listed, "\0")[0].as_py())
    parts = pc.split_pattern(pa.array([joined]), pattern="\0").flatten()
    return parts if len(parts) == len(texts) else None


# --- parts of texts ------------------------------------------------------------------------------


def _slice(begin: int, end: int | None) -> Kernel:
    """Substrings by positions as in Python."""
    begin = max(-_FAR, min(begin, _FAR))
    if end is not None:
        end = max(-_FAR, min(end, _FAR))
        if end <= begin and (end < 0) == (begin < 0):  # Arrow is not prepared for this
            begin, end = 0, 0
    return arrow("utf8_slice_codeunits", pc.SliceOptions(begin, end))


def _positioned(
    constant: Callable[..., Kernel], of_columns: Callable[..., tuple[Ints, Ints]]
) -> Builder:
    """Substrings: by Arrow for constant positions, by `Characters` for positions in columns."""
    on_constant = _on_constant(constant)

    def cut(texts: pa.Array | pa.Scalar, *positions: pa.Array | pa.Scalar) -> pa.Array:
        if isinstance(texts, pa.Scalar):
            texts = pa.repeat(texts, length(positions))
        characters = Characters(texts)
        given = (ints_of(each, BIGINT) for each in positions)
        return characters.cut(*of_columns(characters.lengths, *given), texts, *positions)

    return lambda call, literals: on_constant(call, literals) or cut


def _substr(start: int, size: int | None = None) -> Kernel:
    end = None if size is None else start + max(0, size)
    if start < 0:
        return _slice(start, end if end is not None and end < 0 else None)
    return _slice(max(0, start - 1), None if end is None else max(0, end - 1))


def _substr_bounds(lengths: Ints, start: Ints, size: Ints | None = None) -> tuple[Ints, Ints]:
    begin = np.where(start > 0, start - 1, np.where(start < 0, lengths + start, -1))
    if size is None:
        return begin, lengths
    size = np.maximum(0, size)
    # A sum that is too large for an int64 is a position beyond the end.
    far = np.minimum(begin, _FAR) + np.minimum(size, _FAR)
    return begin, np.where(begin > 0, far, begin + size)


def _left(count: int) -> Kernel:
    return _slice(0, max(0, count))


def _left_bounds(lengths: Ints, count: Ints) -> tuple[Ints, Ints]:
    return np.zeros_like(lengths), np.maximum(0, count)


def _right(count: int) -> Kernel:
    return _slice(-count, None) if count > 0 else _slice(0, 0)


def _right_bounds(lengths: Ints, count: Ints) -> tuple[Ints, Ints]:
    return lengths - np.maximum(0, count), lengths


def _trimmed(name: str) -> Builder:
    def without(characters: str = " ") -> Kernel:
        return arrow(name, pc.TrimOptions(characters)) if characters else same

    return _on_constant(without)


# --- finding and replacing -----------------------------------------------------------------------


def _replace(old: str, new: str) -> Kernel:
    return arrow("replace_substring", pc.ReplaceSubstringOptions(old, new)) if old else same


def _matching(name: str) -> Builder:
    return _on_constant(lambda part: arrow(name, pc.MatchSubstringOptions(part)))


def _strpos(part: str) -> Kernel:
    find = arrow("find_substring", pc.MatchSubstringOptions(part))

    def kernel(texts: pa.Array) -> pa.Array:
        found = find(texts)  # in bytes
        positions = values_of(found, INT).astype(np.int64)
        if _IS_ASCII(texts).false_count:
            numbers = Characters(texts).numbered(np.maximum(0, positions))
            positions = np.where(positions < 0, positions, numbers)
        return column_of(positions + 1, BIGINT, texts)

    return kernel


def _split_part(separator: str, number: int) -> Kernel:
    if not separator:
        return same if number in (1, -1) else _slice(0, 0)
    if number < 0:
        return _piece_from_the_end(separator, number)
    if not 1 <= number < _FAR:
        return _slice(0, 0)
    cut = _piece(separator, number)

    def kernel(texts: pa.Array) -> pa.Array:
        pieces = cut(texts)
        if pieces.null_count == texts.null_count:
            return pieces
        pieces = _COALESCE(pieces, _NOTHING)
        return _IF_ELSE(_IS_VALID(texts), pieces, _NULL) if texts.null_count else pieces

    return kernel


def _piece_from_the_end(separator: str, number: int) -> Kernel:
    split = arrow("split_pattern", pc.SplitPatternOptions(separator))

    def kernel(texts: pa.Array) -> pa.Array:
        lists = split(texts)
        sizes = lists.value_lengths().fill_null(0).to_numpy()
        places = fixed_width(lists, np.dtype(np.int32)) + np.maximum(sizes + max(number, -_FAR), 0)
        pieces = lists.values.take(pa.array(places, mask=sizes < -number))
        pieces = _COALESCE(pieces, _NOTHING)
        return _IF_ELSE(_IS_VALID(texts), pieces, _NULL) if texts.null_count else pieces

    return kernel


def _split_index(separator: str, index: int) -> Kernel:
    if not separator and index == 0:
        return same
    if not separator or not 0 <= index < _FAR - 1:
        return lambda texts: pa.nulls(len(texts), pa.string())
    return _piece(separator, index + 1)


def _piece(separator: str, number: int) -> Kernel:
    """The n-th piece, NULL if there is none."""
    split = arrow("split_pattern", pc.SplitPatternOptions(separator, max_splits=number))

    def kernel(texts: pa.Array) -> pa.Array:
        lists = split(texts)
        firsts = fixed_width(lists, np.dtype(np.int32))
        missing = lists.value_lengths().fill_null(0).to_numpy() < number
        return lists.values.take(pa.array(firsts + (number - 1), mask=missing))

    return kernel


TEXTS: dict[str, Builder] = {
    "upper": _cased("upper", str.upper),
    "lower": _cased("lower", str.lower),
    "length": always(_length),
    "trim": _trimmed("utf8_trim"),
    "ltrim": _trimmed("utf8_ltrim"),
    "rtrim": _trimmed("utf8_rtrim"),
    "btrim": _trimmed("utf8_trim"),
    "trim_leading": _trimmed("utf8_ltrim"),
    "trim_trailing": _trimmed("utf8_rtrim"),
    "substr": _positioned(_substr, _substr_bounds),
    "left": _positioned(_left, _left_bounds),
    "right": _positioned(_right, _right_bounds),
    "replace": _on_constant(_replace),
    "concat": always(_concat),
    "reverse": always(arrow("utf8_reverse")),
    "starts_with": _matching("starts_with"),
    "ends_with": _matching("ends_with"),
    "contains": _matching("match_substring"),
    "strpos": _on_constant(_strpos),
    "split_part": _on_constant(_split_part),
    "split_index": _on_constant(_split_index),
    "repeat": always(_repeat),
    "octet_length": always(_octet_length),
    "chr": always(_chr),
}


# Functions on texts without a columnar kernel: hashes, encodings, and values inside JSON.
#
# They are computed once for each distinct text, without the overhead of the evaluator of rows.

_SAMPLE = 1000  # texts sampled to estimate the share of distinct ones
_MANY = 0.8  # of them that differ: then looking for equal ones does not pay


def _by_value(function: Callable[[str], Any], call: Call) -> Kernel:
    made = call.type.arrow

    def kernel(texts: pa.Array, *_: pa.Scalar) -> pa.Array:
        if _many_differ(texts):
            found = [None if each is None else function(each) for each in texts.to_pylist()]
            return pa.array(found, made)
        encoded = texts.dictionary_encode()
        different = encoded.dictionary.to_pylist()
        return pa.array([function(each) for each in different], made).take(encoded.indices)

    return kernel


def _many_differ(texts: pa.Array) -> bool:
    sample = texts.slice(0, _SAMPLE)
    return bool(pc.count_distinct(sample).as_py() > _MANY * len(sample))


def _hash(call: Call, literals: Sequence[Literal | None]) -> Kernel | None:
    return None if literals[0] is not None else _by_value(HASH_OF[call.function], call)


def _json(call: Call, literals: Sequence[Literal | None]) -> Kernel | None:
    text, path = literals
    if text is not None or path is None or path.value is None:
        return None
    try:
        steps = path_of(path.value)
    except RunError:
        return None  # the evaluator of rows knows the tuple to blame, if there is one
    return _by_value(partial(JSON_AT[call.function], path=steps), call)


def _encoded(call: Call, literals: Sequence[Literal | None]) -> Kernel | None:
    text, *others = literals
    constants = [each.value for each in others if each is not None]
    if text is not None or len(constants) < len(others):
        return None
    return _by_value(lambda value: ENCODED[call.function](value, *constants), call)


BY_VALUE: dict[str, Builder] = {
    **dict.fromkeys(("ascii", "to_base64", "translate"), _encoded),
    **dict.fromkeys(HASH_OF, _hash),
    **dict.fromkeys(JSON_AT, _json),
}
