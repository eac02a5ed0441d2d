# SPDX-License-Identifier: Apache-2.0
"""What kiln.Array does in Python: places of it, and NumPy's functions on it."""
import inspect
import operator
import sys
from collections.abc import Callable
from typing import Any

from kiln import _kiln

_LAST = sys.maxsize


def dtype_name(dtype: Any) -> str:
    """"float32", of a name or of what NumPy takes for a type."""
    if isinstance(dtype, str):
        return dtype
    import numpy  # pylint: disable=import-outside-toplevel

    return str(numpy.dtype(dtype).name)


def by_place(function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of a call that names some, by their places alone."""
    bound = inspect.signature(function).bind(*arguments, **named)
    if bound.kwargs:
        raise TypeError(f"{function.__name__}: {', '.join(bound.kwargs)} can be given by name alone, and a traced or differentiated function "
                        "takes arguments by place; write a function that gives it")
    return bound.args


def _whole(array: _kiln.Array, places: tuple[Any, ...]) -> list[Any]:
    """Places for each axis, without an Ellipsis."""
    given = sum(place is not None and place is not Ellipsis for place in places)
    if given > array.ndim:
        raise IndexError(f"array: {given} indices for {array.ndim} axes")
    if sum(place is Ellipsis for place in places) > 1:
        raise IndexError("array: more than one Ellipsis")
    if not any(place is Ellipsis for place in places):
        places = (*places, Ellipsis)
    at = next(k for k, place in enumerate(places) if place is Ellipsis)
    return [*places[:at], *[slice(None)] * (array.ndim - given), *places[at + 1:]]


def _index(place: Any) -> int | None:
    """A whole number, of Python or NumPy; None for what is none."""
    try:
        return operator.index(place)
    except TypeError:
        return None


def whole_numbers(given: Any) -> list[int]:
    """One whole number, or several: axes, extents."""
    one = _index(given)
    return [operator.index(number) for number in given] if one is None else [one]


def check_places(places: Any, extent: int, axis: int) -> Any:
    """Places of an axis as they are; an IndexError where one is outside. Those of a kiln.Array are not looked at: it is not read for that."""
    numpy = sys.modules.get("numpy")  # without it nothing but Kiln's own arrays gets here
    if numpy is None or isinstance(places, _kiln.Array):
        return places
    known = numpy.asarray(places)
    if known.dtype.kind not in "iu":
        raise IndexError(f"array: indices are {known.dtype.name}, expected whole numbers")
    for place in (known.min(), known.max()) if known.size else ():
        if not -extent <= place < extent:
            raise IndexError(f"array: index {place} is out of bounds for axis {axis} of {extent} elements")
    return places


def get(array: _kiln.Array, key: Any) -> _kiln.Array:
    """array[key]: places, slices, None, Ellipsis; or one array of places of axis 0."""
    places = _whole(array, key if isinstance(key, tuple) else (key,))
    starts, ends, steps, axes, dropped, added = [], [], [], [], [], []
    axis = kept = 0
    for place in places:
        if place is None:
            added.append(kept)
            kept += 1
            continue
        if isinstance(place, bool) or getattr(place, "dtype", None) == "bool":
            raise TypeError("array: an index is of bools, which does not choose elements; numpy.where does, and keeps the shape")
        extent = array.shape[axis]
        if isinstance(place, slice):
            begin, end, step = place.indices(extent)
            if not range(begin, end, step):  # a begin of -1 is before the axis here, and the last place in an operator
                begin, end, step = 0, 0, 1
            if (begin, end, step) != (0, extent, 1):
                starts.append(begin)
                ends.append(end if end >= 0 else -_LAST)
                steps.append(step)
                axes.append(axis)
            kept += 1
        elif (at := _index(place)) is not None:
            if not -extent <= at < extent:
                raise IndexError(f"array: index {at} is out of bounds for axis {axis} of {extent} elements")
            starts.append(at % extent)
            ends.append(at % extent + 1)
            steps.append(1)
            axes.append(axis)
            dropped.append(axis)
        elif not isinstance(key, tuple) or len(key) == 1:
            return _one("gather", (array, check_places(place, extent, 0)), {"axis": 0})
        else:
            raise TypeError(f"array: an index is {type(place).__name__}, expected int, slice, None, Ellipsis, or one array alone")
        axis += 1
    if axes:
        array = _one("slice", (array,), {"starts": starts, "ends": ends, "axes": axes, "steps": steps})
    if dropped:
        array = _one("squeeze", (array,), {"axes": dropped})
    return _one("unsqueeze", (array,), {"axes": added}) if added else array


def _one(name: str, operands: tuple[Any, ...], attributes: dict[str, Any]) -> _kiln.Array:
    made = _kiln.apply(name, operands, attributes, {}, 1)
    assert isinstance(made, _kiln.Array)
    return made


#: NumPy's universal functions by the operator that each is.
_UFUNCS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "remainder": "mod", "mod": "mod", "matmul": "matmul", "maximum": "max",
    "minimum": "min", "negative": "neg", "absolute": "abs", "exp": "exp", "log": "log", "sqrt": "sqrt", "reciprocal": "reciprocal",
    "sign": "sign", "floor": "floor", "ceil": "ceil", "rint": "round",
    "sin": "sin", "cos": "cos", "tan": "tan", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "sinh": "sinh", "cosh": "cosh",
    "tanh": "tanh", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "less": "less", "less_equal": "less_equal",
    "greater": "greater", "greater_equal": "greater_equal", "equal": "equal", "not_equal": "not_equal",
    "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor",
    "invert": "not", "isnan": "is_nan", "isinf": "is_inf"}
#: The same of whether elements are not 0.
_LOGICAL = {"logical_and": "and", "logical_or": "or", "logical_xor": "xor", "logical_not": "not"}
#: Those that are methods of kiln.Array, which know what integers do not have.
_METHODS = {"divide": "truediv", "true_divide": "truediv", "power": "pow"}
_REDUCTIONS = {"add": "reduce_sum", "multiply": "reduce_prod", "maximum": "reduce_max", "minimum": "reduce_min"}


def ufunc(function: Any, method: str, operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """__array_ufunc__: NumPy's functions give kiln.Array; what Kiln has no operator for is a TypeError of NumPy's."""
    name = function.__name__
    given = {key for key, value in settings.items() if value is not None}
    if method == "__call__" and not given:
        if name in _METHODS:
            left, right = operands
            own, side, other = (left, "__", right) if isinstance(left, _kiln.Array) else (right, "__r", left)
            return getattr(own, side + _METHODS[name] + "__")(other)
        if name in _LOGICAL:
            return _kiln.apply(_LOGICAL[name], tuple(map(truth, operands)), {}, {}, 1)
        if name in _UFUNCS:
            return _kiln.apply(_UFUNCS[name], operands, {}, {}, 1)
    if method == "reduce" and name in _REDUCTIONS and not given - {"axis", "keepdims"}:
        return reduce(_REDUCTIONS[name], operands[0], settings.get("axis", 0), settings.get("keepdims", False))
    return NotImplemented


def as_array(a: Any) -> _kiln.Array:
    """A kiln.Array of it, or itself."""
    return a if isinstance(a, _kiln.Array) else _kiln.array(a)


def floats(name: str, a: Any) -> _kiln.Array:
    """A kiln.Array of floats; a TypeError for others, of which NumPy's function makes floats."""
    made = as_array(a)
    if "float" not in made.dtype:
        raise TypeError(f"{name}: the array is {made.dtype}, expected floats; cast it (kiln.ops.cast)")
    return made


def truth(a: Any) -> _kiln.Array:
    """Whether each element is not 0."""
    made = as_array(a)
    return made if made.dtype == "bool" else _one("not_equal", (made, 0), {})


def expect_none(name: str, **given: Any) -> None:
    """A TypeError for a parameter of NumPy's that Kiln's function has not, unless it is None."""
    for key, value in given.items():
        if value is not None:
            raise TypeError(f"{name}: {key} is {value!r}, expected None; cast the array")


def reduce(name: str, array: Any, axis: Any, keepdims: bool, **more: Any) -> _kiln.Array:
    """A reduction over an axis, several, none, or (None) all. NumPy's functions say `dtype` and `out` too, which are to be None."""
    expect_none(name, **more)
    if name == "reduce_mean":
        floats("mean", array)
    axes = None if axis is None else whole_numbers(axis)
    if axes == []:  # of NumPy no axis; of an operator all of them
        array, axes, keepdims = _one("unsqueeze", (array,), {"axes": [array.ndim]}), [array.ndim], False
    return _one(name, (array,), {"axes": axes, "keepdims": int(keepdims)})
