"""Functions of texts that nothing computes for whole columns: hashes, other spellings, and values
inside of JSON.

Each different text is computed once, without the steps that the evaluator of rows takes around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import RunError
from penstock.expressions.node import Builder, Kernel
from penstock.plan.expressions import Call, Literal
from penstock.scalars.encoded_texts import ENCODED
from penstock.scalars.hashes import HASHES as HASH_OF
from penstock.scalars.json_paths import JSON_AT, path_of

_SAMPLE = 1000  # texts that are looked at, to see whether there are many alike
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
