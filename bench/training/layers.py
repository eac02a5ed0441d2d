# SPDX-License-Identifier: Apache-2.0
"""Layers that networks.py is written with, three times: as text of Kiln's graphs, in torch, in jax.

Inputs are declared by name, and their values are given by seeded.py; so all three begin with the same numbers. Weights have torch's
layouts. Torch has its own fused calls where somebody who trains with it would use them (attention, LSTM, norms).
"""
import math


class Port:
    """An input: a `parameter`, a running statistic (`state`) or `data`; numbers from low to high, or integers below high."""

    def __init__(self, name, role, shape, low, high, type="f32"):
        self.name, self.role, self.shape, self.low, self.high, self.type = name, role, list(shape), low, high, type


class Ports(dict):
    """What a network takes, by name, in the order in which it asks for it. The first call for a name declares it."""

    def parameter(self, name, shape, scale, mean=0.0):
        return self.declare(Port(name, "parameter", shape, mean - scale, mean + scale))

    def weight(self, name, shape, gain=1.0):
        """Numbers of the variance gain / fan_in."""
        return self.parameter(name, shape, gain * math.sqrt(3 / math.prod(shape[1:])))

    def bias(self, name, count):
        return self.parameter(name, [count], .1)

    def scale(self, name, count):
        return self.parameter(name, [count], .1, 1.0)

    def state(self, name, count, value):
        return self.declare(Port(name, "state", [count], value, value))

    def floats(self, name, shape, low=-1.7, high=1.7):
        return self.declare(Port(name, "data", shape, low, high))

    def integers(self, name, shape, below):
        return self.declare(Port(name, "data", shape, 0, below, "i64"))

    def declare(self, port):
        if port.name not in self:
            self[port.name] = port
        return self.given(port)


class Layers(Ports):
    """What is the same everywhere."""

    def conv(self, x, name, cin, cout, kernel, stride=1, groups=1, bias=False, gain=1.4, pad=None):
        w = self.weight(f"{name}.weight", [cout, cin // groups, kernel, kernel], gain)
        b = self.bias(f"{name}.bias", cout) if bias else None
        return self.convolve(x, w, b, stride, kernel // 2 if pad is None else pad, groups)

    def batch_norm(self, x, name, channels, scale=1.0):
        s = self.parameter(f"{name}.scale", [channels], .1 * scale, scale)
        return self.normalize_batch(x, name, s, self.bias(f"{name}.bias", channels), self.state(f"{name}.mean", channels, 0.0),
                                    self.state(f"{name}.variance", channels, 1.0))

    def linear(self, x, name, cin, cout, gain=1.0, bias=True):
        return self.product(x, self.weight(f"{name}.weight", [cout, cin], gain), self.bias(f"{name}.bias", cout) if bias else None)

    def layer_norm(self, x, name, channels):
        return self.normalize_last(x, self.scale(f"{name}.scale", channels), self.bias(f"{name}.bias", channels))

    def group_norm(self, x, name, channels, groups):
        return self.normalize_groups(x, groups, self.scale(f"{name}.scale", channels), self.bias(f"{name}.bias", channels))

    def rms_norm(self, x, name, channels):
        return self.normalize_rms(x, self.scale(f"{name}.scale", channels))

    def embedding(self, ids, name, count, channels):
        return self.rows(self.parameter(f"{name}.weight", [count, channels], .5), ids)

    def lstm(self, x, name, cin, width):
        w = [self.weight(f"{name}.weight_ih", [4 * width, cin]), self.weight(f"{name}.weight_hh", [4 * width, width])]
        return self.recur(x, *w, self.bias(f"{name}.bias_ih", 4 * width), self.bias(f"{name}.bias_hh", 4 * width))

    def self_attention(self, x, name, channels, heads, causal=False):
        q, k, v = (self.split_heads(self.linear(x, f"{name}.{part}", channels, channels), heads) for part in ("query", "key", "value"))
        return self.linear(self.join_heads(self.attention(q, k, v, causal)), f"{name}.out", channels, channels)

    def split_heads(self, x, heads):
        batch, length, channels = x.shape
        return self.transpose(self.reshape(x, [batch, length, heads, channels // heads]), [0, 2, 1, 3])

    def join_heads(self, x):
        batch, heads, length, depth = x.shape
        return self.reshape(self.transpose(x, [0, 2, 1, 3]), [batch, length, heads * depth])

    def silu(self, x):
        return self.mul(x, self.sigmoid(x))


class Value:
    """A value of a graph in text form."""

    def __init__(self, name, shape):
        self.name, self.shape = name, tuple(shape)


class Text(Layers):
    """Lines of a .graph file. What a network ends with is an output `loss`, or the operands of `head`, a loss of graph/training."""

    def __init__(self, name):
        super().__init__()
        self.lines, self.ends, self.next, self.inputs, self.head = [f"graph {name}"], [], 0, {}, "value"

    def text(self):
        return "\n".join(["# SPDX-License-Identifier: Apache-2.0", *self.lines, *self.ends]) + "\n"

    def given(self, port):
        if port.name not in self.inputs:
            self.lines.append(f"input {port.name} : {port.type} {port.shape}")
            self.inputs[port.name] = Value(port.name, port.shape)
        return self.inputs[port.name]

    def node(self, op, shape, /, *operands, **attributes):
        self.next += 1
        y = Value(f"v{self.next}", shape)
        words = ", ".join(f"{k} = {self.word(v)}" for k, v in attributes.items())
        self.lines.append(f"{y.name} = {op}({', '.join(v.name for v in operands)})" + (f" {{{words}}}" if words else ""))
        return y

    def word(self, v):
        return f'"{v}"' if isinstance(v, str) else str(list(v)) if isinstance(v, (list, tuple)) else str(int(v) if v is True else v)

    def constant(self, value, type="f32"):
        self.next += 1
        self.lines.append(f"const v{self.next} : {type} [] = {value}")
        return Value(f"v{self.next}", [])

    def output(self, value, name):
        self.ends.append(f"output {name} = {value.name}")

    def broadcast(self, a, b):
        rank = max(len(a.shape), len(b.shape))
        padded = [(1,) * (rank - len(v.shape)) + v.shape for v in (a, b)]
        return [max(x, y) for x, y in zip(*padded)]

    def pair(self, op, a, b):
        a, b = (v if isinstance(v, Value) else self.constant(v) for v in (a, b))
        return self.node(op, self.broadcast(a, b), a, b)

    add, sub, mul = (lambda self, a, b, op=op: self.pair(op, a, b) for op in ("add", "sub", "mul"))
    relu, sigmoid, tanh, exp = (lambda self, x, op=op: self.node(op, x.shape, x) for op in ("relu", "sigmoid", "tanh", "exp"))

    def relu6(self, x):
        return self.node("clip", x.shape, x, self.constant(0.0), self.constant(6.0))

    def gelu(self, x, approximate="none"):
        return self.node("gelu", x.shape, x, approximate=approximate)

    def convolve(self, x, w, b, stride, pad, groups):
        size = [(x.shape[i] + 2 * pad - w.shape[i]) // stride + 1 for i in (2, 3)]
        return self.node("conv", [x.shape[0], w.shape[0], *size], x, w, *([b] if b else []), strides=[stride] * 2, pads=[pad] * 4,
                         group=groups)

    def max_pool(self, x, kernel, stride, pad=0):
        size = [(x.shape[i] + 2 * pad - kernel) // stride + 1 for i in (2, 3)]
        return self.node("max_pool", [*x.shape[:2], *size], x, kernel=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)

    def mean(self, x, axes):
        return self.node("reduce_mean", [d for i, d in enumerate(x.shape) if i not in axes], x, axes=axes, keepdims=0)

    def sum(self, x, axes):
        return self.node("reduce_sum", [d for i, d in enumerate(x.shape) if i not in axes], x, axes=axes, keepdims=0)

    def normalize_batch(self, x, name, scale, bias, mean, variance):
        """As an ONNX BatchNormalization in training mode is imported."""
        axes, kept = [0, 2, 3], [1, x.shape[1], 1, 1]
        now = self.node("reduce_mean", kept, x, axes=axes, keepdims=1)
        d = self.sub(x, now)
        spread = self.node("reduce_mean", kept, self.mul(d, d), axes=axes, keepdims=1)
        now, spread = (self.node("squeeze", [x.shape[1]], v, axes=axes) for v in (now, spread))
        for running, v in ((mean, now), (variance, spread)):
            self.output(self.add(self.mul(running, .9), self.mul(v, .1)), f"{running.name}_next")
        return self.node("batch_norm", x.shape, x, scale, bias, now, spread, epsilon=1e-5)

    def normalize_last(self, x, scale, bias):
        return self.node("layer_norm", x.shape, x, scale, bias, axis=-1, epsilon=1e-5)

    def normalize_rms(self, x, scale):
        mean = self.node("reduce_mean", [*x.shape[:-1], 1], self.mul(x, x), axes=[-1], keepdims=1)
        return self.mul(self.pair("div", x, self.node("sqrt", mean.shape, self.add(mean, 1e-5))), scale)

    def normalize_groups(self, x, groups, scale, bias):
        batch, channels, *size = x.shape
        y = self.reshape(x, [batch, groups, math.prod(x.shape[1:]) // groups])
        mean = self.node("reduce_mean", [batch, groups, 1], y, axes=[2], keepdims=1)
        d = self.sub(y, mean)
        variance = self.node("reduce_mean", mean.shape, self.mul(d, d), axes=[2], keepdims=1)
        y = self.pair("div", d, self.node("sqrt", mean.shape, self.add(variance, 1e-5)))
        y, over = self.reshape(y, x.shape), [1, channels, 1, 1]
        return self.add(self.mul(y, self.reshape(scale, over)), self.reshape(bias, over))

    def product(self, x, w, bias=None):
        y = self.node("matmul", [*x.shape[:-1], w.shape[0]], x, w, trans_b=1)
        return self.add(y, bias) if bias else y

    def attention(self, q, k, v, causal):
        """Of [batch, heads, length, depth]."""
        shape = [*q.shape[:-1], k.shape[-2]]
        scores = self.mul(self.node("matmul", shape, q, k, trans_b=1), 1 / math.sqrt(q.shape[-1]))
        if causal:
            row, column = (self.node("iota", shape[2:], shape=shape[2:], axis=axis) for axis in (0, 1))
            scores = self.node("where", shape, self.pair("less_equal", column, row), scores, self.constant("-inf"))
        return self.node("matmul", q.shape, self.node("softmax", shape, scores, axis=-1), v)

    def rows(self, table, ids):
        return self.node("gather", [*ids.shape, table.shape[1]], table, ids, axis=0)

    def recur(self, x, w_ih, w_hh, b_ih, b_hh):
        """Unrolled, the product of the inputs before."""
        batch, length, _ = x.shape
        width = w_hh.shape[1]
        inputs = self.product(x, w_ih, self.add(b_ih, b_hh))
        h = cell = None
        results = []
        for step in range(length):
            y = self.node("slice", [batch, 1, 4 * width], inputs, starts=[step], ends=[step + 1], axes=[1])
            y = self.reshape(y, [batch, 4 * width])
            y = self.add(y, self.product(h, w_hh)) if h else y
            i, f, g, o = (self.node("slice", [batch, width], y, starts=[k * width], ends=[(k + 1) * width], axes=[1]) for k in range(4))
            new = self.mul(self.sigmoid(i), self.tanh(g))
            cell = self.add(self.mul(self.sigmoid(f), cell), new) if cell else new
            h = self.mul(self.sigmoid(o), self.tanh(cell))
            results.append(self.reshape(h, [batch, 1, width]))
        return self.concat(results, 1)

    def reshape(self, x, shape):
        return self.node("reshape", shape, x, shape=list(shape))

    def transpose(self, x, order):
        return self.node("transpose", [x.shape[i] for i in order], x, perm=order)

    def concat(self, parts, axis):
        shape = list(parts[0].shape)
        shape[axis] = sum(v.shape[axis] for v in parts)
        return self.node("concat", shape, *parts, axis=axis)

    def take(self, x, axis, begin, end):
        shape = list(x.shape)
        shape[axis] = end - begin
        return self.node("slice", shape, x, starts=[begin], ends=[end], axes=[axis])

    def double(self, x):
        """Twice as high and wide, every pixel four times."""
        return self.node("upsample", [*x.shape[:2], 2 * x.shape[2], 2 * x.shape[3]], x, scales=[1, 1, 2, 2])

    def ends_with(self, head, **operands):
        self.head = head
        for name, value in operands.items():
            self.output(value, name)

    def cross_entropy(self, logits, target):
        self.ends_with("cross_entropy", logits=logits, target=target)

    def squares(self, x, y):
        self.ends_with("mean_squared_error", x=x, y=y)

    def binary_cross_entropy(self, logits, target, extra):
        self.ends_with("binary_cross_entropy", logits=logits, target=target, extra=extra)


class Eager(Layers):
    """What torch and jax have in common. `tensors`: by name; `type`: what floats become."""

    def __init__(self, tensors):
        super().__init__()
        self.tensors = tensors

    def given(self, port):
        return self.tensors[port.name]

    add, sub, mul = (lambda self, a, b: a + b), (lambda self, a, b: a - b), (lambda self, a, b: a * b)

    def reshape(self, x, shape):
        return x.reshape(shape)

    def take(self, x, axis, begin, end):
        return x[(slice(None),) * axis + (slice(begin, end),)]


class Torch(Eager):
    def __init__(self, tensors):
        super().__init__(tensors)
        import torch
        self.torch, self.F = torch, torch.nn.functional
        self.relu, self.sigmoid, self.tanh, self.exp = torch.relu, torch.sigmoid, torch.tanh, torch.exp
        self.relu6, self.attend = self.F.relu6, self.F.scaled_dot_product_attention

    def gelu(self, x, approximate="none"):
        return self.F.gelu(x, approximate=approximate)

    def convolve(self, x, w, b, stride, pad, groups):
        return self.F.conv2d(x, w, b, stride, pad, 1, groups)

    def max_pool(self, x, kernel, stride, pad=0):
        return self.F.max_pool2d(x, kernel, stride, pad)

    def mean(self, x, axes):
        return x.mean(axes)

    def sum(self, x, axes):
        return x.sum(axes)

    def normalize_batch(self, x, name, scale, bias, mean, variance):
        return self.F.batch_norm(x, mean, variance, scale, bias, True, .1, 1e-5)

    def normalize_last(self, x, scale, bias):
        return self.F.layer_norm(x, scale.shape, scale, bias, 1e-5)

    def normalize_rms(self, x, scale):
        return self.F.rms_norm(x, scale.shape, scale, 1e-5)

    def normalize_groups(self, x, groups, scale, bias):
        return self.F.group_norm(x, groups, scale, bias, 1e-5)

    def product(self, x, w, bias=None):
        return self.F.linear(x, w, bias)

    def attention(self, q, k, v, causal):
        return self.attend(q, k, v, is_causal=causal)

    def rows(self, table, ids):
        return self.F.embedding(ids, table)

    def recur(self, x, w_ih, w_hh, b_ih, b_hh):
        zeros = x.new_zeros([1, x.shape[0], w_hh.shape[1]])
        return self.torch._VF.lstm(x, [zeros, zeros], [w_ih, w_hh, b_ih, b_hh], True, 1, 0.0, True, False, True)[0]

    def transpose(self, x, order):
        return x.permute(order)

    def concat(self, parts, axis):
        return self.torch.cat(parts, axis)

    def double(self, x):
        return self.F.interpolate(x, scale_factor=2, mode="nearest")

    def cross_entropy(self, logits, target):
        return self.F.cross_entropy(logits, target)

    def squares(self, x, y):
        return self.F.mse_loss(x, y)

    def binary_cross_entropy(self, logits, target, extra):
        return self.F.binary_cross_entropy_with_logits(logits, target) + extra


class Jax(Eager):
    """What MLP, LSTM and BERT need."""

    def __init__(self, tensors):
        super().__init__(tensors)
        import jax
        self.jax, self.np, nn = jax, jax.numpy, jax.nn
        self.relu, self.sigmoid, self.tanh, self.exp = nn.relu, nn.sigmoid, self.np.tanh, self.np.exp

    def gelu(self, x, approximate="none"):
        return self.jax.nn.gelu(x, approximate=approximate == "tanh")

    def mean(self, x, axes):
        return x.mean(tuple(axes))

    def normalize_last(self, x, scale, bias):
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) * self.jax.lax.rsqrt(variance + 1e-5) * scale + bias

    def product(self, x, w, bias=None):
        y = x @ w.T
        return y if bias is None else y + bias

    def attention(self, q, k, v, causal):
        scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
        if causal:
            scores = self.np.where(self.np.tril(self.np.ones(scores.shape[-2:], bool)), scores, -self.np.inf)
        return self.jax.nn.softmax(scores) @ v

    def rows(self, table, ids):
        return table[ids]

    def recur(self, x, w_ih, w_hh, b_ih, b_hh):
        def step(carry, y):
            h, cell = carry
            i, f, g, o = self.np.split(y + h @ w_hh.T, 4, -1)
            cell = self.sigmoid(f) * cell + self.sigmoid(i) * self.tanh(g)
            h = self.sigmoid(o) * self.tanh(cell)
            return (h, cell), h

        zeros = self.np.zeros([x.shape[0], w_hh.shape[1]], x.dtype)
        inputs = self.product(x, w_ih, b_ih + b_hh).swapaxes(0, 1)
        return self.jax.lax.scan(step, (zeros, zeros), inputs)[1].swapaxes(0, 1)

    def transpose(self, x, order):
        return x.transpose(order)

    def concat(self, parts, axis):
        return self.np.concatenate(parts, axis)

    def cross_entropy(self, logits, target):
        return -self.np.take_along_axis(self.jax.nn.log_softmax(logits), target[:, None], -1).mean()

    def squares(self, x, y):
        return ((x - y)**2).mean()
