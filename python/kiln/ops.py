# SPDX-License-Identifier: Apache-2.0
"""Operators as functions of arrays, with the names, operands and attributes of `kiln ops`.

    kiln.ops.softmax(x, axis=1)
    kiln.ops.where(x > 0, x, 0.0)
    kiln.ops.concat(x, y, axis=0)

Operands are kiln.Array, numbers, or arrays of other libraries, which are copied; types of elements are names ("float32") or
NumPy's. Where Python has the word (`and`), the name ends in an underscore. Made of the registry by trace_ops_header_test
(KILN_WRITE_TRACE_OPS=1 writes it anew).
"""
# pylint: disable=redefined-builtin,too-many-lines,line-too-long
from collections.abc import Sequence
from typing import Any

from kiln._arrays import dtype_name as _dtype
from kiln._kiln import Array, apply as _apply


def abs(a: Any) -> Array:
    """|x|; |-0| is 0; integers wrap."""
    made: Array = _apply("abs", (a,), {}, {}, 1)
    return made


def acos(a: Any) -> Array:
    """The arc cosine; NaN outside [-1, 1]."""
    made: Array = _apply("acos", (a,), {}, {}, 1)
    return made


def acosh(a: Any) -> Array:
    """The inverse of cosh; NaN below 1."""
    made: Array = _apply("acosh", (a,), {}, {}, 1)
    return made


def add(a: Any, b: Any) -> Array:
    """a + b; integers wrap."""
    made: Array = _apply("add", (a, b), {}, {}, 1)
    return made


def and_(a: Any, b: Any) -> Array:
    """a and b; bit by bit for integers."""
    made: Array = _apply("and", (a, b), {}, {}, 1)
    return made


def asin(a: Any) -> Array:
    """The arc sine; NaN outside [-1, 1]."""
    made: Array = _apply("asin", (a,), {}, {}, 1)
    return made


def asinh(a: Any) -> Array:
    """The inverse of sinh."""
    made: Array = _apply("asinh", (a,), {}, {}, 1)
    return made


def atan(a: Any) -> Array:
    """The arc tangent."""
    made: Array = _apply("atan", (a,), {}, {}, 1)
    return made


def atanh(a: Any) -> Array:
    """The inverse of tanh; NaN outside [-1, 1]."""
    made: Array = _apply("atanh", (a,), {}, {}, 1)
    return made


def average_pool(a: Any, *, kernel: Sequence[int] | None = None, strides: Sequence[int] | None = None, pads: Sequence[int] | None = None, dilations: Sequence[int] | None = None, ceil_mode: int = 0, count_include_pad: int = 0) -> Array:
    """The mean over a window."""
    made: Array = _apply("average_pool", (a,), {"kernel": kernel, "strides": strides, "pads": pads, "dilations": dilations, "ceil_mode": int(ceil_mode), "count_include_pad": int(count_include_pad)}, {}, 1)
    return made


def average_pool_backward(a: Any, *, kernel: Sequence[int] | None = None, strides: Sequence[int] | None = None, pads: Sequence[int] | None = None, dilations: Sequence[int] | None = None, ceil_mode: int = 0, count_include_pad: int = 0, shape: Sequence[int] | None = None) -> Array:
    """What the input of average_pool takes from the cotangent of its result."""
    made: Array = _apply("average_pool_backward", (a,), {"kernel": kernel, "strides": strides, "pads": pads, "dilations": dilations, "ceil_mode": int(ceil_mode), "count_include_pad": int(count_include_pad), "shape": shape}, {}, 1)
    return made


def batch_norm(a: Any, b: Any, c: Any, d: Any, e: Any, *, epsilon: float = 1e-05) -> Array:
    """(x - mean) * (scale / sqrt(variance + epsilon)) + bias; inputs x, scale, bias, mean, variance."""
    made: Array = _apply("batch_norm", (a, b, c, d, e), {"epsilon": float(epsilon)}, {}, 1)
    return made


def bernoulli(a: Any, b: Any = None, *, to: Any = None, seed: int = 0, stream: int = 0) -> Array:
    """1 with the probability that the element is, else 0. Input 1 is the step."""
    made: Array = _apply("bernoulli", (a, b), {"seed": int(seed), "stream": int(stream)}, {"to": None if to is None else _dtype(to)}, 1)
    return made


def cast(a: Any, *, to: Any) -> Array:
    """x in another type. Float to integer truncates and saturates, NaN gives 0; integers wrap; to bool is x != 0."""
    made: Array = _apply("cast", (a,), {}, {"to": _dtype(to)}, 1)
    return made


def ceil(a: Any) -> Array:
    """Rounds up."""
    made: Array = _apply("ceil", (a,), {}, {}, 1)
    return made


def celu(a: Any, *, alpha: float = 1) -> Array:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    made: Array = _apply("celu", (a,), {"alpha": float(alpha)}, {}, 1)
    return made


def clip(a: Any, b: Any = None, c: Any = None) -> Array:
    """min(max(x, low), high); both bounds are optional; NaN stays NaN."""
    made: Array = _apply("clip", (a, b, c), {}, {}, 1)
    return made


def concat(*operands: Any, axis: int) -> Array:
    """The inputs one after the other along an axis."""
    made: Array = _apply("concat", operands, {"axis": int(axis)}, {}, 1)
    return made


def constant_of_shape(*, shape: Sequence[int] | None = None) -> Array:
    """One value everywhere."""
    made: Array = _apply("constant_of_shape", (), {"shape": shape}, {}, 1)
    return made


def conv(a: Any, b: Any, c: Any = None, *, strides: Sequence[int] | None = None, pads: Sequence[int] | None = None, dilations: Sequence[int] | None = None, group: int = 1) -> Array:
    """Convolution (not flipped); weight [M, C / group, ...]."""
    made: Array = _apply("conv", (a, b, c), {"strides": strides, "pads": pads, "dilations": dilations, "group": int(group)}, {}, 1)
    return made


def conv_backward_weights(a: Any, b: Any, *, kernel: Sequence[int] | None = None, strides: Sequence[int] | None = None, pads: Sequence[int] | None = None, dilations: Sequence[int] | None = None, group: int = 1) -> Array:
    """What the weight of conv(x, w) takes from the cotangent g of its result: [M, C / group, kernel...] of x [N, C, ...] and g [N, M, ...]."""
    made: Array = _apply("conv_backward_weights", (a, b), {"kernel": kernel, "strides": strides, "pads": pads, "dilations": dilations, "group": int(group)}, {}, 1)
    return made


def conv_integer(a: Any, b: Any, c: Any = None, d: Any = None, *, strides: Sequence[int] | None = None, pads: Sequence[int] | None = None, dilations: Sequence[int] | None = None, group: int = 1) -> Array:
    """conv of bytes less their zero points, inputs 2 and 3: one, or of the weight one for each channel; sums of 32 bits that wrap."""
    made: Array = _apply("conv_integer", (a, b, c, d), {"strides": strides, "pads": pads, "dilations": dilations, "group": int(group)}, {}, 1)
    return made


def conv_transpose(a: Any, b: Any, c: Any = None, *, strides: Sequence[int] | None = None, pads: Sequence[int] | None = None, dilations: Sequence[int] | None = None, group: int = 1, output_padding: Sequence[int] | None = None, extents: Sequence[int] | None = None) -> Array:
    """The transpose of a convolution; weight [C, M / group, ...]."""
    made: Array = _apply("conv_transpose", (a, b, c), {"strides": strides, "pads": pads, "dilations": dilations, "group": int(group), "output_padding": output_padding, "extents": extents}, {}, 1)
    return made


def cos(a: Any) -> Array:
    """The cosine; NaN at infinity."""
    made: Array = _apply("cos", (a,), {}, {}, 1)
    return made


def cosh(a: Any) -> Array:
    """The hyperbolic cosine."""
    made: Array = _apply("cosh", (a,), {}, {}, 1)
    return made


def cumulative(a: Any, *, axis: int = 0, product: int = 0, exclusive: int = 0, reverse: int = 0) -> Array:
    """Running sums, or products, along an axis; integers wrap."""
    made: Array = _apply("cumulative", (a,), {"axis": int(axis), "product": int(product), "exclusive": int(exclusive), "reverse": int(reverse)}, {}, 1)
    return made


def div(a: Any, b: Any) -> Array:
    """a / b. Integers truncate; x / 0 is 0 and the least number / -1 is itself."""
    made: Array = _apply("div", (a, b), {}, {}, 1)
    return made


def dropout(a: Any, b: Any = None, *, ratio: float = 0.5, seed: int = 0, stream: int = 0) -> tuple[Array, ...]:
    """x / (1 - ratio), or 0 for a random share of `ratio`; and where x is kept. Input 1 is the step."""
    made: tuple[Array, ...] = _apply("dropout", (a, b), {"ratio": float(ratio), "seed": int(seed), "stream": int(stream)}, {}, 2)
    return made


def elu(a: Any, *, alpha: float = 1) -> Array:
    """x, or alpha * (exp(x) - 1) up to zero."""
    made: Array = _apply("elu", (a,), {"alpha": float(alpha)}, {}, 1)
    return made


def equal(a: Any, b: Any) -> Array:
    """a == b; false with NaN."""
    made: Array = _apply("equal", (a, b), {}, {}, 1)
    return made


def erf(a: Any) -> Array:
    """The error function."""
    made: Array = _apply("erf", (a,), {}, {}, 1)
    return made


def exp(a: Any) -> Array:
    """e to the power x."""
    made: Array = _apply("exp", (a,), {}, {}, 1)
    return made


def expand(a: Any, *, shape: Sequence[int] | None = None) -> Array:
    """Repeats along axes of extent 1, as broadcasting does."""
    made: Array = _apply("expand", (a,), {"shape": shape}, {}, 1)
    return made


def flatten(a: Any, *, axis: int = 1) -> Array:
    """A matrix: the axes before `axis`, and the others."""
    made: Array = _apply("flatten", (a,), {"axis": int(axis)}, {}, 1)
    return made


def floor(a: Any) -> Array:
    """Rounds down."""
    made: Array = _apply("floor", (a,), {}, {}, 1)
    return made


def gather(a: Any, b: Any, *, axis: int = 0) -> Array:
    """Elements of input 0 whose coordinate along `axis` input 1 gives; negative ones count from the end; clamped."""
    made: Array = _apply("gather", (a, b), {"axis": int(axis)}, {}, 1)
    return made


def gather_elements(a: Any, b: Any, *, axis: int = 0) -> Array:
    """Element o is the input's at o, but for its coordinate along `axis`, which input 1 has at o; negative ones count from the end; clamped."""
    made: Array = _apply("gather_elements", (a, b), {"axis": int(axis)}, {}, 1)
    return made


def gelu(a: Any, *, approximate: str = "none") -> Array:
    """x * (1 + erf(x / sqrt(2))) / 2, or the form by tanh."""
    made: Array = _apply("gelu", (a,), {"approximate": approximate}, {}, 1)
    return made


def gemm(a: Any, b: Any, c: Any = None, *, alpha: float = 1, beta: float = 1, trans_a: int = 0, trans_b: int = 0) -> Array:
    """alpha * a * b + beta * c for matrices a and b; c is optional and broadcasts."""
    made: Array = _apply("gemm", (a, b, c), {"alpha": float(alpha), "beta": float(beta), "trans_a": int(trans_a), "trans_b": int(trans_b)}, {}, 1)
    return made


def global_average_pool(a: Any) -> Array:
    """The mean over all axes but the first two."""
    made: Array = _apply("global_average_pool", (a,), {}, {}, 1)
    return made


def global_max_pool(a: Any) -> Array:
    """The maximum over all axes but the first two."""
    made: Array = _apply("global_max_pool", (a,), {}, {}, 1)
    return made


def greater(a: Any, b: Any) -> Array:
    """a > b; false with NaN."""
    made: Array = _apply("greater", (a, b), {}, {}, 1)
    return made


def greater_equal(a: Any, b: Any) -> Array:
    """a >= b; false with NaN."""
    made: Array = _apply("greater_equal", (a, b), {}, {}, 1)
    return made


def hard_sigmoid(a: Any, *, alpha: float = 0.2, beta: float = 0.5) -> Array:
    """alpha * x + beta, kept within [0, 1]."""
    made: Array = _apply("hard_sigmoid", (a,), {"alpha": float(alpha), "beta": float(beta)}, {}, 1)
    return made


def hard_swish(a: Any) -> Array:
    """x * hard_sigmoid(x) with alpha 1/6 and beta 1/2."""
    made: Array = _apply("hard_swish", (a,), {}, {}, 1)
    return made


def identity(a: Any) -> Array:
    """x."""
    made: Array = _apply("identity", (a,), {}, {}, 1)
    return made


def instance_norm(a: Any, b: Any, c: Any, *, epsilon: float = 1e-05) -> Array:
    """Normalises every channel of every sample; inputs x, scale, bias."""
    made: Array = _apply("instance_norm", (a, b, c), {"epsilon": float(epsilon)}, {}, 1)
    return made


def iota(*, shape: Sequence[int] | None = None, axis: int = 0) -> Array:
    """Every element is its own coordinate along an axis, i64."""
    made: Array = _apply("iota", (), {"shape": shape, "axis": int(axis)}, {}, 1)
    return made


def is_inf(a: Any, *, detect_negative: int = 1, detect_positive: int = 1) -> Array:
    """Whether x is infinite."""
    made: Array = _apply("is_inf", (a,), {"detect_negative": int(detect_negative), "detect_positive": int(detect_positive)}, {}, 1)
    return made


def is_nan(a: Any) -> Array:
    """Whether x is NaN."""
    made: Array = _apply("is_nan", (a,), {}, {}, 1)
    return made


def layer_norm(a: Any, b: Any = None, c: Any = None, *, axis: int = -1, epsilon: float = 1e-05) -> Array:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias over the last axes."""
    made: Array = _apply("layer_norm", (a, b, c), {"axis": int(axis), "epsilon": float(epsilon)}, {}, 1)
    return made


def leaky_relu(a: Any, *, alpha: float = 0.01) -> Array:
    """x, or alpha * x below zero."""
    made: Array = _apply("leaky_relu", (a,), {"alpha": float(alpha)}, {}, 1)
    return made


def less(a: Any, b: Any) -> Array:
    """a < b; false with NaN."""
    made: Array = _apply("less", (a, b), {}, {}, 1)
    return made


def less_equal(a: Any, b: Any) -> Array:
    """a <= b; false with NaN."""
    made: Array = _apply("less_equal", (a, b), {}, {}, 1)
    return made


def log(a: Any) -> Array:
    """The natural logarithm; -inf at 0, NaN below."""
    made: Array = _apply("log", (a,), {}, {}, 1)
    return made


def log_softmax(a: Any, *, axis: int = -1) -> Array:
    """x - max - log(sum(exp(x - max))) over an axis."""
    made: Array = _apply("log_softmax", (a,), {"axis": int(axis)}, {}, 1)
    return made


def lookup(a: Any, b: Any, *, axis: int = 0) -> Array:
    """The element of input 1, [rows, 256], at the byte that is the element of input 0, in the row of its own coordinate along `axis`, or in the only row."""
    made: Array = _apply("lookup", (a, b), {"axis": int(axis)}, {}, 1)
    return made


def matmul(a: Any, b: Any, *, trans_a: int = 0, trans_b: int = 0) -> Array:
    """Matrix product over the last two axes; the others broadcast. A vector is a row on the left, a column on the right."""
    made: Array = _apply("matmul", (a, b), {"trans_a": int(trans_a), "trans_b": int(trans_b)}, {}, 1)
    return made


def matmul_integer(a: Any, b: Any, c: Any = None, d: Any = None) -> Array:
    """matmul of bytes less their zero points, inputs 2 and 3: one for each row of a, each column of b, or fewer; sums of 32 bits that wrap."""
    made: Array = _apply("matmul_integer", (a, b, c, d), {}, {}, 1)
    return made


def max(a: Any, b: Any) -> Array:
    """The larger one; NaN if either is NaN."""
    made: Array = _apply("max", (a, b), {}, {}, 1)
    return made


def max_pool(a: Any, *, kernel: Sequence[int] | None = None, strides: Sequence[int] | None = None, pads: Sequence[int] | None = None, dilations: Sequence[int] | None = None, ceil_mode: int = 0) -> Array:
    """The maximum over a window; padding does not count; NaN wins."""
    made: Array = _apply("max_pool", (a,), {"kernel": kernel, "strides": strides, "pads": pads, "dilations": dilations, "ceil_mode": int(ceil_mode)}, {}, 1)
    return made


def max_pool_backward(a: Any, b: Any, *, kernel: Sequence[int] | None = None, strides: Sequence[int] | None = None, pads: Sequence[int] | None = None, dilations: Sequence[int] | None = None, ceil_mode: int = 0) -> Array:
    """What x takes from the cotangent g of max_pool(x): all of it goes to the first element of a window that is its maximum."""
    made: Array = _apply("max_pool_backward", (a, b), {"kernel": kernel, "strides": strides, "pads": pads, "dilations": dilations, "ceil_mode": int(ceil_mode)}, {}, 1)
    return made


def min(a: Any, b: Any) -> Array:
    """The smaller one; NaN if either is NaN."""
    made: Array = _apply("min", (a, b), {}, {}, 1)
    return made


def mish(a: Any) -> Array:
    """x * tanh(softplus(x))."""
    made: Array = _apply("mish", (a,), {}, {}, 1)
    return made


def mod(a: Any, b: Any, *, fmod: int = 0) -> Array:
    """The remainder of a / b, with the sign of b (or of a: attribute fmod); x mod 0 is 0 for integers. Of floats it is C's fmod, exact."""
    made: Array = _apply("mod", (a, b), {"fmod": int(fmod)}, {}, 1)
    return made


def mul(a: Any, b: Any) -> Array:
    """a * b; integers wrap."""
    made: Array = _apply("mul", (a, b), {}, {}, 1)
    return made


def multinomial(a: Any, b: Any = None, *, to: Any, samples: int = 1, seed: int = 0, stream: int = 0) -> Array:
    """Classes drawn from rows of logits: class k as often as exp(x[k]). Input 1 is the step."""
    made: Array = _apply("multinomial", (a, b), {"samples": int(samples), "seed": int(seed), "stream": int(stream)}, {"to": _dtype(to)}, 1)
    return made


def neg(a: Any) -> Array:
    """-x; integers wrap."""
    made: Array = _apply("neg", (a,), {}, {}, 1)
    return made


def not_(a: Any) -> Array:
    """not x; bit by bit for integers."""
    made: Array = _apply("not", (a,), {}, {}, 1)
    return made


def not_equal(a: Any, b: Any) -> Array:
    """a != b; true with NaN."""
    made: Array = _apply("not_equal", (a, b), {}, {}, 1)
    return made


def or_(a: Any, b: Any) -> Array:
    """a or b; bit by bit for integers."""
    made: Array = _apply("or", (a, b), {}, {}, 1)
    return made


def pad(a: Any, c: Any = None, *, pads: Sequence[int] | None = None, axes: Sequence[int] | None = None, mode: str = "constant", value: float = 0) -> Array:
    """Surrounds the input with a fill value."""
    made: Array = _apply("pad", (a, None, c), {"pads": pads, "axes": axes, "mode": mode, "value": float(value)}, {}, 1)
    return made


def pow(a: Any, b: Any) -> Array:
    """a to the power b, in the type of a. A constant exponent of 1 to 4 is multiplication. Integer powers wrap."""
    made: Array = _apply("pow", (a, b), {}, {}, 1)
    return made


def prelu(a: Any, b: Any) -> Array:
    """x, or slope * x below zero."""
    made: Array = _apply("prelu", (a, b), {}, {}, 1)
    return made


def qlinear_conv(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any, i: Any = None, *, strides: Sequence[int] | None = None, pads: Sequence[int] | None = None, dilations: Sequence[int] | None = None, group: int = 1, to: Any) -> Array:
    """conv_integer with bytes for sums: clip(round((sum + bias) * x_scale * w_scale / y_scale) + y_zero) in f64; inputs x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias."""
    made: Array = _apply("qlinear_conv", (a, b, c, d, e, f, g, h, i), {"strides": strides, "pads": pads, "dilations": dilations, "group": int(group)}, {"to": _dtype(to)}, 1)
    return made


def random_bits(a: Any, b: Any) -> Array:
    """64 bits that look random, a function of counter and key, both u64: Philox2x32-10 of Random123, whose key is the low word of input 1."""
    made: Array = _apply("random_bits", (a, b), {}, {}, 1)
    return made


def random_normal(b: Any = None, *, shape: Sequence[int] | None = None, type: Any = None, mean: float = 0, scale: float = 1, seed: int = 0, stream: int = 0) -> Array:
    """Normally distributed random numbers, by Box and Muller. Input 1 is the step."""
    made: Array = _apply("random_normal", (None, b), {"shape": shape, "mean": float(mean), "scale": float(scale), "seed": int(seed), "stream": int(stream)}, {"type": None if type is None else _dtype(type)}, 1)
    return made


def random_uniform(b: Any = None, *, shape: Sequence[int] | None = None, type: Any = None, low: float = 0, high: float = 1, seed: int = 0, stream: int = 0) -> Array:
    """Random numbers of [low, high). Input 1, the step, gives other ones for each of its values."""
    made: Array = _apply("random_uniform", (None, b), {"shape": shape, "low": float(low), "high": float(high), "seed": int(seed), "stream": int(stream)}, {"type": None if type is None else _dtype(type)}, 1)
    return made


def reciprocal(a: Any) -> Array:
    """1 / x."""
    made: Array = _apply("reciprocal", (a,), {}, {}, 1)
    return made


def reduce_l1(a: Any, *, axes: Sequence[int] | None = None, keepdims: int = 1) -> Array:
    """The sum of absolute values."""
    made: Array = _apply("reduce_l1", (a,), {"axes": axes, "keepdims": int(keepdims)}, {}, 1)
    return made


def reduce_l2(a: Any, *, axes: Sequence[int] | None = None, keepdims: int = 1) -> Array:
    """The square root of the sum of squares."""
    made: Array = _apply("reduce_l2", (a,), {"axes": axes, "keepdims": int(keepdims)}, {}, 1)
    return made


def reduce_max(a: Any, *, axes: Sequence[int] | None = None, keepdims: int = 1) -> Array:
    """The largest, or NaN if there is one; the least value of the type of nothing."""
    made: Array = _apply("reduce_max", (a,), {"axes": axes, "keepdims": int(keepdims)}, {}, 1)
    return made


def reduce_mean(a: Any, *, axes: Sequence[int] | None = None, keepdims: int = 1) -> Array:
    """The sum divided by the number of elements; NaN of nothing."""
    made: Array = _apply("reduce_mean", (a,), {"axes": axes, "keepdims": int(keepdims)}, {}, 1)
    return made


def reduce_min(a: Any, *, axes: Sequence[int] | None = None, keepdims: int = 1) -> Array:
    """The smallest, or NaN if there is one; the greatest value of the type of nothing."""
    made: Array = _apply("reduce_min", (a,), {"axes": axes, "keepdims": int(keepdims)}, {}, 1)
    return made


def reduce_prod(a: Any, *, axes: Sequence[int] | None = None, keepdims: int = 1) -> Array:
    """The product; 1 of nothing."""
    made: Array = _apply("reduce_prod", (a,), {"axes": axes, "keepdims": int(keepdims)}, {}, 1)
    return made


def reduce_sum(a: Any, *, axes: Sequence[int] | None = None, keepdims: int = 1) -> Array:
    """The sum; 0 of nothing."""
    made: Array = _apply("reduce_sum", (a,), {"axes": axes, "keepdims": int(keepdims)}, {}, 1)
    return made


def reduce_sum_square(a: Any, *, axes: Sequence[int] | None = None, keepdims: int = 1) -> Array:
    """The sum of squares."""
    made: Array = _apply("reduce_sum_square", (a,), {"axes": axes, "keepdims": int(keepdims)}, {}, 1)
    return made


def relu(a: Any) -> Array:
    """max(x, 0); NaN stays NaN."""
    made: Array = _apply("relu", (a,), {}, {}, 1)
    return made


def reshape(a: Any, *, shape: Sequence[int] | None = None, allowzero: int = 0) -> Array:
    """The same elements, row-major, under another shape."""
    made: Array = _apply("reshape", (a,), {"shape": shape, "allowzero": int(allowzero)}, {}, 1)
    return made


def round(a: Any) -> Array:
    """Rounds to the nearest whole number, ties to even."""
    made: Array = _apply("round", (a,), {}, {}, 1)
    return made


def rsqrt(a: Any) -> Array:
    """1 / sqrt(x)."""
    made: Array = _apply("rsqrt", (a,), {}, {}, 1)
    return made


def scatter_elements(a: Any, b: Any, c: Any, *, reduction: int = 0, axis: int = 0) -> Array:
    """Input 0, with element i of input 2 written to its own coordinates, but for that along `axis`, which input 1 gives. Updates of one element follow each other."""
    made: Array = _apply("scatter_elements", (a, b, c), {"reduction": int(reduction), "axis": int(axis)}, {}, 1)
    return made


def scatter_nd(a: Any, b: Any, c: Any, *, reduction: int = 0) -> Array:
    """Input 0, with slices of input 2 written where the rows of input 1 say. Updates of one place follow each other."""
    made: Array = _apply("scatter_nd", (a, b, c), {"reduction": int(reduction)}, {}, 1)
    return made


def scatter_sum(a: Any, b: Any, *, shape: Sequence[int] | None = None) -> Array:
    """Zeros, with slices of input 1 added in order where the rows of input 0 say, from the end where negative, clamped: what a gather's input takes."""
    made: Array = _apply("scatter_sum", (a, b), {"shape": shape}, {}, 1)
    return made


def selu(a: Any, *, alpha: float = 1.67326, gamma: float = 1.0507) -> Array:
    """gamma * elu(x)."""
    made: Array = _apply("selu", (a,), {"alpha": float(alpha), "gamma": float(gamma)}, {}, 1)
    return made


def shift_left(a: Any, b: Any) -> Array:
    """a << b; an amount outside the bits of a gives 0."""
    made: Array = _apply("shift_left", (a, b), {}, {}, 1)
    return made


def shift_right(a: Any, b: Any) -> Array:
    """a >> b, with the sign; an amount outside the bits of a gives 0 or -1."""
    made: Array = _apply("shift_right", (a, b), {}, {}, 1)
    return made


def sigmoid(a: Any) -> Array:
    """1 / (1 + exp(-x))."""
    made: Array = _apply("sigmoid", (a,), {}, {}, 1)
    return made


def sign(a: Any) -> Array:
    """-1, 0 or 1; NaN and -0 stay."""
    made: Array = _apply("sign", (a,), {}, {}, 1)
    return made


def sin(a: Any) -> Array:
    """The sine; NaN at infinity."""
    made: Array = _apply("sin", (a,), {}, {}, 1)
    return made


def sinh(a: Any) -> Array:
    """The hyperbolic sine."""
    made: Array = _apply("sinh", (a,), {}, {}, 1)
    return made


def slice(a: Any, *, starts: Sequence[int] | None = None, ends: Sequence[int] | None = None, axes: Sequence[int] | None = None, steps: Sequence[int] | None = None) -> Array:
    """A range of elements of some axes, with a step."""
    made: Array = _apply("slice", (a,), {"starts": starts, "ends": ends, "axes": axes, "steps": steps}, {}, 1)
    return made


def softmax(a: Any, *, axis: int = -1) -> Array:
    """exp(x - max) * (1 / sum(exp(x - max))) over an axis."""
    made: Array = _apply("softmax", (a,), {"axis": int(axis)}, {}, 1)
    return made


def softplus(a: Any) -> Array:
    """log(1 + exp(x))."""
    made: Array = _apply("softplus", (a,), {}, {}, 1)
    return made


def softsign(a: Any) -> Array:
    """x / (1 + |x|)."""
    made: Array = _apply("softsign", (a,), {}, {}, 1)
    return made


def split(a: Any, *, axis: int = 0, split: Sequence[int] | None = None) -> tuple[Array, ...]:
    """Consecutive parts along an axis; the inverse of concat."""
    made: tuple[Array, ...] = _apply("split", (a,), {"axis": int(axis), "split": split}, {}, len(split or ()))
    return made


def sqrt(a: Any) -> Array:
    """The square root; NaN below zero; -0 stays."""
    made: Array = _apply("sqrt", (a,), {}, {}, 1)
    return made


def squeeze(a: Any, *, axes: Sequence[int] | None = None) -> Array:
    """Drops axes of extent 1."""
    made: Array = _apply("squeeze", (a,), {"axes": axes}, {}, 1)
    return made


def stop_gradient(a: Any) -> Array:
    """x; no gradient goes through it."""
    made: Array = _apply("stop_gradient", (a,), {}, {}, 1)
    return made


def sub(a: Any, b: Any) -> Array:
    """a - b; integers wrap."""
    made: Array = _apply("sub", (a, b), {}, {}, 1)
    return made


def swish(a: Any, *, alpha: float = 1) -> Array:
    """x * sigmoid(alpha * x)."""
    made: Array = _apply("swish", (a,), {"alpha": float(alpha)}, {}, 1)
    return made


def take(*operands: Any, batch: int = 0) -> Array:
    """Slices of input 0 at coordinates that the other inputs, all of one shape, give for its first axes behind `batch`; clamped."""
    made: Array = _apply("take", operands, {"batch": int(batch)}, {}, 1)
    return made


def tan(a: Any) -> Array:
    """The tangent."""
    made: Array = _apply("tan", (a,), {}, {}, 1)
    return made


def tanh(a: Any) -> Array:
    """The hyperbolic tangent."""
    made: Array = _apply("tanh", (a,), {}, {}, 1)
    return made


def thresholded_relu(a: Any, *, alpha: float = 1) -> Array:
    """x above alpha, else 0."""
    made: Array = _apply("thresholded_relu", (a,), {"alpha": float(alpha)}, {}, 1)
    return made


def top_k(a: Any, *, k: int, axis: int = -1, largest: int = 1) -> tuple[Array, ...]:
    """The k largest elements along an axis in order, and their places; of equal ones the first; NaN counts as largest."""
    made: tuple[Array, ...] = _apply("top_k", (a,), {"k": int(k), "axis": int(axis), "largest": int(largest)}, {}, 2)
    return made


def transpose(a: Any, *, perm: Sequence[int] | None = None) -> Array:
    """The axes in another order."""
    made: Array = _apply("transpose", (a,), {"perm": perm}, {}, 1)
    return made


def unsqueeze(a: Any, *, axes: Sequence[int] | None = None) -> Array:
    """Adds axes of extent 1."""
    made: Array = _apply("unsqueeze", (a,), {"axes": axes}, {}, 1)
    return made


def upsample(a: Any, *, scales: Sequence[int] | None = None) -> Array:
    """Repeats every element: element i of an axis is element i / scale."""
    made: Array = _apply("upsample", (a,), {"scales": scales}, {}, 1)
    return made


def where(a: Any, b: Any, c: Any) -> Array:
    """b where a is true, else c; the bits of the chosen one."""
    made: Array = _apply("where", (a, b, c), {}, {}, 1)
    return made


def xor(a: Any, b: Any) -> Array:
    """Either a or b; bit by bit for integers."""
    made: Array = _apply("xor", (a, b), {}, {}, 1)
    return made
