# SPDX-License-Identifier: Apache-2.0
"""NumPy's functions on kiln.Array, beside the universal ones: what each is in Kiln's operators.

Their operands and defaults are NumPy's; types stay as they are (a sum of int32 is int32). A function or parameter that is not here is a
TypeError of NumPy's: numpy.asarray(array) reads the elements.
"""
# pylint: disable=redefined-builtin
import math
import operator
from collections.abc import Callable
from typing import Any, TypeVar

from kiln import ops
from kiln._arrays import as_array as _array
from kiln._arrays import check_places, expect_none, floats, reduce, truth, whole_numbers
from kiln._kiln import Array, array

Function = TypeVar("Function", bound=Callable[..., Any])

#: By NumPy's name: "sum", "linalg.norm".
FUNCTIONS: dict[str, Callable[..., Any]] = {}
#: Those that look at elements, and give nothing to compute with: they are NumPy's own.
READERS = {"allclose", "array2string", "array_equal", "array_equiv", "array_repr", "array_str", "copyto", "save", "savetxt", "savez",
           "savez_compressed"}


def call(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """__array_function__."""
    name = ".".join([*function.__module__.split(".")[1:], function.__name__])
    if name in READERS:
        return function(*_read(args), **_read(kwargs))
    if name not in FUNCTIONS:
        return NotImplemented
    return FUNCTIONS[name](*args, **kwargs)


def _read(given: Any) -> Any:
    if isinstance(given, Array):
        return given.numpy()
    if isinstance(given, (list, tuple)):
        return type(given)(map(_read, given))
    return {key: _read(value) for key, value in given.items()} if isinstance(given, dict) else given


def _is(*names: str) -> Callable[[Function], Function]:
    def add(function: Function) -> Function:
        FUNCTIONS.update(dict.fromkeys(names, function))
        return function
    return add


def _operand(a: Any) -> Any:
    """Of an operator, which takes arrays and numbers, and no lists."""
    return array(a) if isinstance(a, (list, tuple)) else a


def _axis(axis: int, rank: int) -> int:
    place = operator.index(axis)
    if not -rank <= place < rank:
        raise ValueError(f"axis {axis} of an array of {rank} axes")
    return place % rank


def _axes(axes: Any, rank: int) -> list[int]:
    """Counted from the front; None: all of them."""
    if axes is None:
        return list(range(rank))
    return [_axis(axis, rank) for axis in whole_numbers(axes)]


# ---- Reductions.


for _names, _op in ((("sum",), "reduce_sum"), (("prod",), "reduce_prod"), (("mean",), "reduce_mean"),
                    (("max", "amax"), "reduce_max"), (("min", "amin"), "reduce_min")):
    @_is(*_names)
    def _reduction(a: Any, axis: Any = None, dtype: None = None, out: None = None, keepdims: bool = False, *, op: str = _op) -> Array:
        return reduce(op, _array(a), axis, keepdims, dtype=dtype, out=out)


@_is("var")
def _var(a: Any, axis: Any = None, dtype: None = None, out: None = None, ddof: int = 0, keepdims: bool = False) -> Array:
    a = floats("numpy.var", a)
    apart = a - reduce("reduce_mean", a, axis, True, dtype=dtype, out=out)
    count = math.prod(a.shape[k] for k in _axes(axis, a.ndim))
    return reduce("reduce_sum", apart * apart, axis, keepdims) * (1 / (count - ddof) if count > ddof else math.inf)


@_is("std")
def _std(a: Any, axis: Any = None, dtype: None = None, out: None = None, ddof: int = 0, keepdims: bool = False) -> Array:
    return ops.sqrt(_var(a, axis, dtype, out, ddof, keepdims))


@_is("linalg.norm")
def _norm(x: Any, ord: None = None, axis: Any = None, keepdims: bool = False) -> Array:
    if ord is not None:
        raise TypeError(f"numpy.linalg.norm: ord is {ord!r}, expected None, the root of the sum of squares")
    return reduce("reduce_l2", floats("numpy.linalg.norm", x), axis, keepdims)


def _bits(a: Any) -> Array:
    return ops.cast(truth(a), to="uint8")


@_is("any")
def _any(a: Any, axis: Any = None, out: None = None, keepdims: bool = False) -> Array:
    return ops.cast(reduce("reduce_max", _bits(a), axis, keepdims, out=out), to="bool")


@_is("all")
def _all(a: Any, axis: Any = None, out: None = None, keepdims: bool = False) -> Array:
    return ops.cast(reduce("reduce_min", _bits(a), axis, keepdims, out=out), to="bool")


@_is("count_nonzero")
def _count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Array:
    return reduce("reduce_sum", ops.cast(_bits(a), to="int64"), axis, keepdims)


for _name, _largest in (("argmax", 1), ("argmin", 0)):
    @_is(_name)
    def _place(a: Any, axis: int | None = None, out: None = None, *, keepdims: bool = False, largest: int = _largest) -> Array:
        expect_none("numpy.argmax, argmin", out=out)
        a = _array(a)
        along = ops.reshape(a, shape=[-1]) if axis is None else a
        at = _axis(axis or 0, along.ndim)
        if not largest and "float" in a.dtype:
            along, largest = -along, 1  # the first NaN, as NumPy: it is above all numbers
        found = ops.top_k(along, k=1, axis=at, largest=largest)[1]
        if axis is None:
            return ops.reshape(found, shape=[1] * a.ndim if keepdims else [])
        return found if keepdims else ops.squeeze(found, axes=[at])


@_is("cumsum")
def _cumsum(a: Any, axis: int | None = None, dtype: None = None, out: None = None) -> Array:
    expect_none("numpy.cumsum", dtype=dtype, out=out)
    a = _array(a)
    return ops.cumulative(ops.reshape(a, shape=[-1]), axis=0) if axis is None else ops.cumulative(a, axis=axis)


# ---- Shapes.


@_is("reshape")
def _reshape(a: Any, /, shape: Any, order: str = "C") -> Array:
    if order != "C":
        raise TypeError(f'numpy.reshape: order is "{order}", expected "C"')
    return ops.reshape(a, shape=whole_numbers(shape), allowzero=1)


@_is("ravel")
def _ravel(a: Any) -> Array:
    return ops.reshape(a, shape=[-1])


@_is("transpose")
def _transpose(a: Any, axes: Any = None) -> Array:
    a = _array(a)
    return ops.transpose(a, perm=list(range(a.ndim))[::-1] if axes is None else _axes(axes, a.ndim))


@_is("swapaxes")
def _swapaxes(a: Any, axis1: int, axis2: int) -> Array:
    a = _array(a)
    perm = list(range(a.ndim))
    one, other = _axis(axis1, a.ndim), _axis(axis2, a.ndim)
    perm[one], perm[other] = other, one
    return ops.transpose(a, perm=perm)


@_is("moveaxis")
def _moveaxis(a: Any, source: Any, destination: Any) -> Array:
    a = _array(a)
    sources, places = _axes(source, a.ndim), _axes(destination, a.ndim)
    if len(sources) != len(places):
        raise ValueError("numpy.moveaxis: source and destination have the same number of axes")
    perm = [axis for axis in range(a.ndim) if axis not in sources]
    for place, axis in sorted(zip(places, sources)):
        perm.insert(place, axis)
    return ops.transpose(a, perm=perm)


@_is("squeeze")
def _squeeze(a: Any, axis: Any = None) -> Array:
    a = _array(a)
    axes = [k for k, extent in enumerate(a.shape) if extent == 1] if axis is None else _axes(axis, a.ndim)
    return ops.squeeze(a, axes=axes) if axes else a


@_is("expand_dims")
def _expand_dims(a: Any, axis: Any) -> Array:
    a = _array(a)
    return ops.unsqueeze(a, axes=_axes(axis, a.ndim + len(whole_numbers(axis))))


@_is("broadcast_to")
def _broadcast_to(a: Any, /, shape: Any) -> Array:
    a, extents = _array(a), whole_numbers(shape)
    pairs = zip(reversed(a.shape), reversed(extents))
    if len(extents) < a.ndim or min(extents, default=0) < 0 or any(one not in (1, other) for one, other in pairs):
        raise ValueError(f"numpy.broadcast_to: an array of shape {a.shape} does not become {tuple(extents)}")
    return ops.expand(a, shape=extents)


@_is("flip")
def _flip(m: Any, axis: Any = None) -> Array:
    made = _array(m)
    axes = _axes(axis, made.ndim)
    return made[tuple(slice(None, None, -1 if k in axes else None) for k in range(made.ndim))]


@_is("concatenate")
def _concatenate(arrays: Any, /, axis: int | None = 0, out: None = None) -> Array:
    expect_none("numpy.concatenate", out=out)
    if axis is None:
        return ops.concat(*(ops.reshape(a, shape=[-1]) for a in arrays), axis=0)
    return ops.concat(*arrays, axis=axis)


@_is("stack")
def _stack(arrays: Any, axis: int = 0, out: None = None) -> Array:
    return _concatenate([_expand_dims(a, axis) for a in arrays], axis, out)


@_is("vstack")
def _vstack(tup: Any) -> Array:
    arrays = map(_array, tup)
    return _concatenate([ops.reshape(a, shape=[1, -1]) if a.ndim < 2 else a for a in arrays], 0)


@_is("hstack")
def _hstack(tup: Any) -> Array:
    arrays = [ops.reshape(a, shape=[1]) if a.ndim == 0 else a for a in map(_array, tup)]
    return _concatenate(arrays, 0 if arrays[0].ndim == 1 else 1)


@_is("split")
def _split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    ary = _array(ary)
    axis = _axis(axis, ary.ndim)
    extent = ary.shape[axis]
    places = whole_numbers(indices_or_sections)
    if not hasattr(indices_or_sections, "__len__"):
        count = places[0]
        if count <= 0 or extent % count != 0:
            raise ValueError(f"numpy.split: {extent} elements do not divide into {count} equal parts")
        return list(ops.split(ary, axis=axis, split=[extent // count] * count)) if count > 1 else [ary]
    whole = (slice(None),) * axis
    return [ary[(*whole, slice(begin, end))] for begin, end in zip([0, *places], [*places, extent])]


@_is("pad")
def _pad(a: Any, /, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0) -> Array:
    if mode != "constant":
        raise TypeError(f'numpy.pad: mode is "{mode}", expected "constant"')
    a = _array(a)
    given: list[Any] = [pad_width] if isinstance(pad_width, int) else list(pad_width)
    if len(given) == 2 and all(isinstance(width, int) for width in given):
        given = [given]  # before and after, of every axis
    widths = [(width, width) if isinstance(width, int) else (width[0], width[-1]) for width in given]
    pairs = widths * a.ndim if len(widths) == 1 else widths
    if min(map(min, pairs), default=0) < 0:
        raise ValueError(f"numpy.pad: a width of {pad_width} is below 0; a slice crops")
    return ops.pad(a, constant_values, pads=[pair[0] for pair in pairs] + [pair[1] for pair in pairs])


# ---- Choice, and products.


@_is("where")
def _where(condition: Any, x: Any, y: Any, /) -> Array:
    return ops.where(truth(condition), _operand(x), _operand(y))


@_is("clip")
def _clip(a: Any, a_min: Any = None, a_max: Any = None, out: None = None, *, min: Any = None, max: Any = None) -> Array:
    expect_none("numpy.clip", out=out)
    low, high = (min if a_min is None else a_min), (max if a_max is None else a_max)
    made = _array(a)
    made = made if low is None else ops.max(made, _operand(low))
    return made if high is None else ops.min(made, _operand(high))


@_is("round", "around")
def _round(a: Any, decimals: int = 0, out: None = None) -> Array:
    if decimals != 0 or out is not None:
        raise TypeError("numpy.round: decimals and out are to be 0 and None")
    return ops.round(a)


@_is("take")
def _take(a: Any, indices: Any, axis: int | None = None) -> Array:
    along = ops.reshape(a, shape=[-1]) if axis is None else _array(a)
    at = _axis(axis or 0, along.ndim)
    return ops.gather(along, _operand(check_places(indices, along.shape[at], at)), axis=at)


@_is("take_along_axis")
def _take_along_axis(arr: Any, indices: Any, axis: int = -1) -> Array:
    arr = _array(arr)
    at = _axis(axis, arr.ndim)
    indices = _array(check_places(indices, arr.shape[at], at))
    if indices.ndim != arr.ndim:
        raise ValueError(f"numpy.take_along_axis: indices have {indices.ndim} axes, the array {arr.ndim}")
    around = [max(one, other) for one, other in zip(arr.shape, indices.shape)]
    along = [[*around[:at], of.shape[at], *around[at + 1:]] for of in (arr, indices)]
    return ops.gather_elements(ops.expand(arr, shape=along[0]), ops.expand(indices, shape=along[1]), axis=at)


for _name, _keep in (("tril", ops.less_equal), ("triu", ops.greater_equal)):
    @_is(_name)
    def _triangle(m: Any, k: int = 0, *, keep: Callable[..., Array] = _keep) -> Array:
        m = _array(m)
        shape = list(m.shape[-2:]) if m.ndim > 1 else [*m.shape, *m.shape]
        return ops.where(keep(ops.iota(shape=shape, axis=1) - k, ops.iota(shape=shape, axis=0)), m, _zeros_like(m))


@_is("dot")
def _dot(a: Any, b: Any, out: None = None) -> Array:
    a, b = _array(a), _array(b)
    if out is not None or (b.ndim > 2 and a.ndim > 0):
        raise TypeError(f"numpy.dot: the second operand has {b.ndim} axes, expected at most 2, and out None; use numpy.matmul")
    return a * b if a.ndim == 0 or b.ndim == 0 else ops.matmul(a, b)


@_is("outer")
def _outer(a: Any, b: Any) -> Array:
    return ops.reshape(a, shape=[-1, 1]) * ops.reshape(b, shape=[1, -1])


# ---- Arrays of one number, and what asks for a shape alone.


@_is("full_like")
def _full_like(a: Any, fill_value: Any, dtype: Any = None) -> Array:
    import numpy  # pylint: disable=import-outside-toplevel

    a = _array(a)
    name = a.dtype if dtype is None else numpy.dtype(dtype).name
    if not isinstance(fill_value, (bool, int, float, numpy.generic)):
        return _broadcast_to(ops.cast(_array(fill_value), to=name), a.shape)
    # A number, which a trace has as one: an array would be another captured one in each call.
    kind = bool if name == "bool" else int if "int" in name else float
    return ops.where(ops.cast(False, to="bool"), a if a.dtype == name else ops.cast(a, to=name), kind(fill_value))


@_is("zeros_like", "empty_like")
def _zeros_like(a: Any, dtype: Any = None) -> Array:
    return _full_like(a, 0, dtype)


@_is("ones_like")
def _ones_like(a: Any, dtype: Any = None) -> Array:
    return _full_like(a, 1, dtype)


@_is("shape")
def _shape_of(a: Array) -> tuple[int, ...]:
    return a.shape


@_is("ndim")
def _ndim(a: Array) -> int:
    return a.ndim


@_is("size")
def _size(a: Array, axis: int | None = None) -> int:
    return a.size if axis is None else a.shape[axis]
