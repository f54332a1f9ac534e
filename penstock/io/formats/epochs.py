"""Numbers that count the time since 1970, read as moments or days, by column or one by one.

What is finer than the type holds is cut off: the microsecond, or the day, that has begun.  A column
that has a number beyond the type fails as a whole (`pa.ArrowInvalid`), as Arrow's casts do.
"""

from __future__ import annotations

from decimal import ROUND_FLOOR, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.types import EXACT, INT64_MAX, INT64_MIN, Epoch, Kind, Type

# Powers of ten: how many microseconds (or days) are one of the unit.
_POWERS = {
    Epoch.DAYS: 0,
    Epoch.SECONDS: 6,
    Epoch.MILLISECONDS: 3,
    Epoch.MICROSECONDS: 0,
    Epoch.NANOSECONDS: -3,
}
_WIDTH, _FRACTION = 56, 12  # digits; wider ones have no room to be multiplied with a power
_LONGEST = 37  # digits of a text that certainly fit
_LARGEST = 1e23  # doubles beyond are no moments in any unit
_SMALLEST = 1e-12
# From which number on a count since 1970 is more likely one of the next smaller unit: 1973 to 5138.
_LIKELY: tuple[tuple[int, Epoch], ...] = (
    (10**11, Epoch.SECONDS),
    (10**14, Epoch.MILLISECONDS),
    (10**17, Epoch.MICROSECONDS),
)


def likely_epoch(number: Decimal | float) -> Epoch:
    """Unit by which a number is a time of these centuries, for hints.

    >>> likely_epoch(1769860800).value, likely_epoch(1769860800_000).value
    ('SECONDS', 'MILLISECONDS')
    """
    size = abs(float(number))
    return next((each for end, each in _LIKELY if size < end), Epoch.NANOSECONDS)


def moment_of(number: Decimal | int, sql_type: Type) -> int | None:
    """Value of one number, or None if it is beyond the type.

    >>> from penstock.model.types import Epoch, Kind
    >>> moment_of(Decimal("-0.0000005"), Type(Kind.TIMESTAMP, epoch=Epoch.SECONDS))
    -1
    """
    assert sql_type.epoch is not None
    number = Decimal(number)
    if not number.is_finite() or number.adjusted() > 25:
        return None
    scaled = number.scaleb(_POWERS[sql_type.epoch], EXACT)
    # not quantize(), which would count the digits behind the point, too
    moment = int(scaled.to_integral_value(ROUND_FLOOR, EXACT))
    low, high = _range(sql_type)
    return moment if low <= moment <= high else None


def from_integers(array: pa.Array, sql_type: Type) -> pa.Array:
    """Convert a column of integers."""
    assert sql_type.epoch is not None
    counted = array.cast(pa.int64())
    power = _POWERS[sql_type.epoch]
    if power > 0:
        counted = pc.multiply_checked(counted, pa.scalar(10**power, pa.int64()))
    elif power < 0:
        counted = floor_divided(counted, 10**-power)
    return _of_type(counted, sql_type)


def from_decimals(array: pa.Array, sql_type: Type) -> pa.Array:
    assert sql_type.epoch is not None
    power = _POWERS[sql_type.epoch]
    ten = pa.array([f"1e{power}"]).cast(pa.decimal256(19, max(0, -power)))[0]
    fraction = max(_FRACTION, array.type.scale if pa.types.is_decimal(array.type) else 0)
    scaled = pc.multiply(array.cast(pa.decimal256(_WIDTH, fraction)), ten)
    whole = pc.floor(scaled).cast(pa.decimal256(_WIDTH, 0)).cast(pa.int64())
    return _of_type(whole, sql_type)


def from_doubles(array: pa.Array, sql_type: Type) -> pa.Array:
    """Convert by the shortest decimal text, which is how JSON and CSV would have the numbers."""
    doubles = array.cast(pa.float64())
    values = doubles.drop_null().to_numpy(zero_copy_only=False)
    if not np.all(np.abs(values) < _LARGEST):  # nor is it true of NaN
        raise pa.ArrowInvalid("a number that is no moment")
    if np.all(values == np.trunc(values)) and np.all(np.abs(values) < 2**53):
        return from_integers(doubles.cast(pa.int64()), sql_type)
    try:
        if np.any((values != 0) & (np.abs(values) < _SMALLEST)):
            raise pa.ArrowInvalid("digits that Arrow would drop")
        return from_decimals(doubles.cast(pa.string()), sql_type)
    except pa.ArrowInvalid:  # more digits behind the point than any clock has
        found = [moment_of(Decimal(repr(each)), sql_type) for each in values.tolist()]
        moments = [each for each in found if each is not None]
        if len(moments) < len(found):
            raise
        nulls = doubles.is_null().to_numpy(zero_copy_only=False)
        placed = np.zeros(len(doubles), np.int64)
        placed[~nulls] = moments
        return _of_type(pa.array(placed, mask=nulls), sql_type)


def from_texts(texts: pa.StringArray, sql_type: Type) -> pa.Array:
    """Convert a column of numbers as text; it fails if they are written in other ways."""
    if pc.any(pc.match_substring_regex(texts, "[^0-9.+-]")).as_py():
        raise pa.ArrowInvalid("no plain numbers")  # hexadecimal digits, exponents, times
    if (pc.max(pc.binary_length(texts)).as_py() or 0) > _LONGEST:
        raise pa.ArrowInvalid("long numbers")
    if not pc.any(pc.match_substring(texts, ".")).as_py():
        return from_integers(texts.cast(pa.int64()), sql_type)
    return from_decimals(texts, sql_type)


def floor_divided(integers: pa.Array, divisor: int) -> pa.Array:
    """Divide int64s, rounding down, which is towards the past."""
    nulls = integers.is_null().to_numpy(zero_copy_only=False) if integers.null_count else None
    values = integers.fill_null(0).to_numpy(zero_copy_only=False)
    return pa.array(values // divisor, pa.int64(), mask=nulls)


def _range(sql_type: Type) -> tuple[int, int]:
    if sql_type.kind is Kind.DATE:
        return -(2**31), 2**31 - 1
    return INT64_MIN, INT64_MAX


def _of_type(counted: pa.Array, sql_type: Type) -> pa.Array:
    if sql_type.kind is Kind.DATE:
        counted = counted.cast(pa.int32())
    return counted.cast(sql_type.arrow)
