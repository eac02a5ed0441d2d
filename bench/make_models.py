#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes usual networks with random weights as FOLDER/NAME/model.onnx, to be timed by bench/models.py.

  bench/make_models.py build/models                    all of them, 1.5 GB
  bench/make_models.py build/models --batch 8 resnet50 unet
  bench/make_models.py /tmp/tiny --tiny                the same structures with few layers and channels

Only Python's standard library is used. Weights are normal numbers scaled so that activations keep their size from layer to layer; a
name and its options always give the same file.
"""
import argparse
import array
import math
import os
import random

import onnx_file
import tensors

OPSET = 20


class Net(onnx_file.Graph):
    """Layers of networks. Values are names; channels and lengths are given by the caller."""

    def __init__(self, name):
        super().__init__(name)
        self.normal = array.array("d", tensors.model_values("f32"))
        self.random = random.Random(name)

    def weight(self, shape, scale, mean=0.0):
        start = self.random.randrange(1000)  # another part of the block for each weight
        count = min(math.prod(shape), len(self.normal) - start)
        return self.tensor("f32", shape, [mean + scale * v for v in self.normal[start:start + count]])

    def ints(self, *values):
        return self.tensor("i64", [len(values)], list(values))

    def scalar(self, value):
        return self.tensor("f32", [], [value])

    def reshape(self, x, *shape):
        return self.node("Reshape", x, self.ints(*shape))

    def conv(self, x, cin, cout, kernel, stride=1, groups=1, pad=None):
        pad = kernel // 2 if pad is None else pad
        weight = self.weight([cout, cin // groups, kernel, kernel], math.sqrt(2 / (cin // groups * kernel**2)))
        return self.node("Conv", x, weight, self.weight([cout], .1), kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4,
                         group=groups)

    def batch_norm(self, x, channels, scale=1.0):
        scales = [self.weight([channels], .1 * scale, scale), self.weight([channels], .1), self.weight([channels], .1)]
        return self.node("BatchNormalization", x, *scales, self.weight([channels], .02, 1.0))

    def linear(self, x, cin, cout, gain=1.0):
        return self.node("Add", self.node("MatMul", x, self.weight([cin, cout], gain / math.sqrt(cin))), self.weight([cout], .1))

    def layer_norm(self, x, channels):
        return self.node("LayerNormalization", x, self.weight([channels], .1, 1.0), self.weight([channels], .1), epsilon=1e-5)

    def group_norm(self, x, channels, groups, side):
        """As exporters write it: an instance norm of the groups."""
        x = self.reshape(x, 0, groups, -1)
        x = self.node("InstanceNormalization", x, self.weight([groups], 0, 1.0), self.weight([groups], 0), epsilon=1e-5)
        x = self.node("Mul", self.reshape(x, 0, channels, side, side), self.weight([channels, 1, 1], .1, 1.0))
        return self.node("Add", x, self.weight([channels, 1, 1], .1))

    def silu(self, x):
        return self.node("Mul", x, self.node("Sigmoid", x))

    def attention(self, x, channels, heads, mask=None):
        """Self-attention of [batch, length, channels]; the mask is added to the scores."""
        split = lambda y, order: self.node("Transpose", self.reshape(y, 0, 0, heads, channels // heads), perm=order)
        query, key, value = (split(self.linear(x, channels, channels), order) for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
        scores = self.node("Mul", self.node("MatMul", query, key), self.scalar(1 / math.sqrt(channels // heads)))
        scores = self.node("Add", scores, mask) if mask else scores
        mixed = self.node("MatMul", self.node("Softmax", scores, axis=-1), value)
        mixed = self.reshape(self.node("Transpose", mixed, perm=[0, 2, 1, 3]), 0, 0, channels)
        return self.linear(mixed, channels, channels)

    def mlp(self, x, channels, hidden, approximate="none"):
        return self.linear(self.node("Gelu", self.linear(x, channels, hidden), approximate=approximate), hidden, channels)

    def pre_norm_block(self, x, channels, heads, mask=None, approximate="none"):
        x = self.node("Add", x, self.attention(self.layer_norm(x, channels), channels, heads, mask))
        return self.node("Add", x, self.mlp(self.layer_norm(x, channels), channels, 4 * channels, approximate))

    def patches(self, batch, side, size, channels):
        """An image, cut into squares: [batch, (side / size)^2, channels]."""
        x = self.conv(self.input("image", "f32", [batch, 3, side, side]), 3, channels, size, stride=size, pad=0)
        return self.node("Transpose", self.reshape(x, 0, channels, -1), perm=[0, 2, 1])

    def classes(self, x, channels, count, batch):
        self.output(self.linear(x, channels, count), "f32", [batch, count])

    def image_classes(self, x, channels, count, batch):
        self.classes(self.node("Flatten", self.node("GlobalAveragePool", x)), channels, count, batch)

    def class_token(self, x, batch, channels):
        token = self.node("Expand", self.weight([1, 1, channels], .1), self.ints(batch, 1, channels))
        return self.node("Concat", token, x, axis=1)


def resnet50(net, batch, tiny):
    side, width, depths, count = (32, 8, (1, 1), 10) if tiny else (224, 64, (3, 4, 6, 3), 1000)

    def unit(x, cin, cout, kernel, stride=1, scale=1.0, relu=True):
        x = net.batch_norm(net.conv(x, cin, cout, kernel, stride), cout, scale)
        return net.node("Relu", x) if relu else x

    x = unit(net.input("image", "f32", [batch, 3, side, side]), 3, width, 7, stride=2)
    x = net.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels = width
    for stage, depth in enumerate(depths):
        inner = width << stage
        for i in range(depth):
            stride = 2 if stage and i == 0 else 1
            y = unit(unit(x, channels, inner, 1), inner, inner, 3, stride)
            y = unit(y, inner, 4 * inner, 1, scale=.3, relu=False)
            x = unit(x, channels, 4 * inner, 1, stride, relu=False) if i == 0 else x
            x, channels = net.node("Relu", net.node("Add", y, x)), 4 * inner
    net.image_classes(x, channels, count, batch)


def mobilenetv2(net, batch, tiny):
    # expansion, channels, blocks, stride
    stages = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    side, last, count = (32, 32, 10) if tiny else (224, 1280, 1000)
    stages = [(e, c // 4, min(n, 2), s) for e, c, n, s in stages[:3]] if tiny else stages
    channels = stages[0][1] * 2

    def unit(x, cin, cout, kernel, stride=1, groups=1):
        x = net.batch_norm(net.conv(x, cin, cout, kernel, stride, groups), cout)
        return net.node("Clip", x, net.scalar(0.0), net.scalar(6.0))

    x = unit(net.input("image", "f32", [batch, 3, side, side]), 3, channels, 3, stride=2)
    for expansion, cout, blocks, first in stages:
        for i in range(blocks):
            stride, inner = first if i == 0 else 1, channels * expansion
            y = unit(x, channels, inner, 1) if expansion > 1 else x
            y = unit(y, inner, inner, 3, stride, groups=inner)
            y = net.batch_norm(net.conv(y, inner, cout, 1), cout)
            x, channels = net.node("Add", x, y) if stride == 1 and channels == cout else y, cout
    net.image_classes(unit(x, channels, last, 1), last, count, batch)


def bert_base(net, batch, tiny):
    layers, channels, heads, length, words = (2, 32, 4, 16, 100) if tiny else (12, 768, 12, 128, 30522)
    ids, kinds, seen = (net.input(name, "i64", [batch, length]) for name in ("input_ids", "token_type_ids", "attention_mask"))
    x = net.node("Add", net.node("Gather", net.weight([words, channels], .5), ids),
                 net.node("Gather", net.weight([2, channels], .5), kinds))
    x = net.layer_norm(net.node("Add", x, net.weight([length, channels], .5)), channels)
    hidden = net.node("Sub", net.scalar(1.0), net.node("Cast", seen, to=onnx_file.DTYPES["f32"]))
    mask = net.node("Unsqueeze", net.node("Mul", hidden, net.scalar(-10000.0)), net.ints(1, 2))
    for _ in range(layers):  # norms after the sums
        x = net.layer_norm(net.node("Add", x, net.attention(x, channels, heads, mask)), channels)
        x = net.layer_norm(net.node("Add", x, net.mlp(x, channels, 4 * channels)), channels)
    net.output(x, "f32", [batch, length, channels])
    first = net.node("Gather", x, net.tensor("i64", [], [0]), axis=1)
    net.output(net.node("Tanh", net.linear(first, channels, channels)), "f32", [batch, channels])


def gpt2(net, batch, tiny):
    layers, channels, heads, length, words = (2, 32, 4, 16, 100) if tiny else (12, 768, 12, 128, 50257)
    table = net.weight([words, channels], .1)
    x = net.node("Gather", table, net.input("input_ids", "i64", [batch, length]))
    x = net.node("Add", x, net.weight([length, channels], .1))
    later = [0.0 if column <= row else -10000.0 for row in range(length) for column in range(length)]
    mask = net.tensor("f32", [length, length], later)
    for _ in range(layers):
        x = net.pre_norm_block(x, channels, heads, mask, approximate="tanh")
    x = net.layer_norm(x, channels)
    net.output(net.node("MatMul", x, net.node("Transpose", table, perm=[1, 0])), "f32", [batch, length, words])


def vit_b16(net, batch, tiny):
    layers, channels, heads, side, size, count = (2, 32, 4, 16, 4, 10) if tiny else (12, 768, 12, 224, 16, 1000)
    x = net.class_token(net.patches(batch, side, size, channels), batch, channels)
    x = net.node("Add", x, net.weight([1, (side // size)**2 + 1, channels], .1))
    for _ in range(layers):
        x = net.pre_norm_block(x, channels, heads)
    x = net.node("Gather", net.layer_norm(x, channels), net.tensor("i64", [], [0]), axis=1)
    net.classes(x, channels, count, batch)


def mlp_mixer(net, batch, tiny):
    layers, channels, side, size, count = (2, 32, 16, 4, 10) if tiny else (8, 512, 224, 16, 1000)
    places = (side // size)**2
    x = net.patches(batch, side, size, channels)
    for _ in range(layers):
        y = net.node("Transpose", net.layer_norm(x, channels), perm=[0, 2, 1])
        x = net.node("Add", x, net.node("Transpose", net.mlp(y, places, channels // 2), perm=[0, 2, 1]))
        x = net.node("Add", x, net.mlp(net.layer_norm(x, channels), channels, 4 * channels))
    x = net.node("ReduceMean", net.layer_norm(x, channels), net.ints(1), keepdims=0)
    net.classes(x, channels, count, batch)


def unet(net, batch, tiny):
    """Of a diffusion model: residual blocks of group norm and SiLU, attention at the lowest resolution."""
    side, width = (8, 8) if tiny else (64, 32)

    def block(x, cin, cout, side):
        y = net.conv(net.silu(net.group_norm(x, cin, 4, side)), cin, cout, 3)
        y = net.conv(net.silu(net.group_norm(y, cout, 4, side)), cout, cout, 3)
        return net.node("Add", net.conv(x, cin, cout, 1) if cin != cout else x, y)

    x = net.conv(net.input("latent", "f32", [batch, 4, side, side]), 4, width, 3)
    skips = []
    for level in range(2):
        x = block(x, width << level, width << level, side >> level)
        skips.append(x)
        x = net.conv(x, width << level, width << level + 1, 3, stride=2)
    low, channels = side >> 2, width << 2
    x = block(x, channels, channels, low)
    flat = net.node("Transpose", net.reshape(x, 0, channels, -1), perm=[0, 2, 1])
    y = net.node("Transpose", net.attention(net.layer_norm(flat, channels), channels, 4), perm=[0, 2, 1])
    x = block(net.node("Add", x, net.reshape(y, 0, channels, low, low)), channels, channels, low)
    for level in (1, 0):
        x = net.node("Resize", x, "", net.tensor("f32", [4], [1.0, 1.0, 2.0, 2.0]), mode="nearest",
                     coordinate_transformation_mode="asymmetric", nearest_mode="floor")
        x = net.node("Concat", net.conv(x, 2 * (width << level), width << level, 3), skips[level], axis=1)
        x = block(x, 2 * (width << level), width << level, side >> level)
    x = net.conv(net.silu(net.group_norm(x, width, 4, side)), width, 4, 3)
    net.output(x, "f32", [batch, 4, side, side])


def lstm(net, batch, tiny):
    """Unrolled: each step a product of the state, and the gates."""
    steps, cin, width = (3, 8, 16) if tiny else (35, 256, 512)
    x = net.input("x", "f32", [batch, steps, cin])
    state, cell = (net.input(name, "f32", [batch, width]) for name in ("h", "c"))
    inputs = net.linear(x, cin, 4 * width)
    weight = net.weight([width, 4 * width], 1 / math.sqrt(width))
    results = []
    for step in range(steps):
        part = net.node("Gather", inputs, net.tensor("i64", [], [step]), axis=1)
        gates = net.nodes_of("Split", 4, net.node("Add", part, net.node("MatMul", state, weight)), axis=1, num_outputs=4)
        enter, forget, leave = (net.node("Sigmoid", gates[i]) for i in (0, 1, 3))
        cell = net.node("Add", net.node("Mul", forget, cell), net.node("Mul", enter, net.node("Tanh", gates[2])))
        state = net.node("Mul", leave, net.node("Tanh", cell))
        results.append(net.node("Unsqueeze", state, net.ints(1)))
    net.output(net.node("Concat", *results, axis=1), "f32", [batch, steps, width])


NETWORKS = {f.__name__: f for f in (resnet50, mobilenetv2, bert_base, gpt2, vit_b16, mlp_mixer, unet, lstm)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"all by default: {', '.join(NETWORKS)}")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_intermixed_args()
    if unknown := sorted(set(args.networks) - set(NETWORKS)):
        parser.error(f"{', '.join(unknown)}: is none of {', '.join(NETWORKS)}")
    for name in args.networks or NETWORKS:
        net = Net(name)
        NETWORKS[name](net, args.batch, args.tiny)
        path = os.path.join(args.folder, name, "model.onnx")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        net.write(path, OPSET)
        print(path)


if __name__ == "__main__":
    main()
