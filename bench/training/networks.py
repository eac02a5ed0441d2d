# SPDX-License-Identifier: Apache-2.0
"""Networks in training form, each written once for layers.py: what ends each is its loss.

  text = networks.text("resnet50", small=True)       # a .graph and its ports, for Kiln
  networks.NETWORKS["resnet50"](layers.Torch(tensors), small=True)      # torch's loss

`small` has the same structures with few layers and channels: to be compared number by number. The other sizes are for timing.
"""
import layers


def images(f, batch, side):
    return f.floats("image", [batch, 3, side, side])


def classify(f, x, channels, count, batch):
    f_logits = f.linear(x, "classes", channels, count)
    return f.cross_entropy(f_logits, f.integers("target", [batch], count))


def mlp(f, small):
    batch, *widths = (8, 12, 16, 16, 5) if small else (128, 784, 1024, 1024, 10)
    x = f.floats("x", [batch, widths[0]])
    for k, (cin, cout) in enumerate(zip(widths[:-2], widths[1:-1])):
        x = f.relu(f.linear(x, f"layer{k}", cin, cout, 1.4))
    return classify(f, x, widths[-2], widths[-1], batch)


def lstm(f, small):
    """A sequence's class by the last state of two layers."""
    batch, length, cin, width, count = (4, 5, 6, 8, 5) if small else (32, 35, 256, 512, 10)
    x = f.lstm(f.lstm(f.floats("x", [batch, length, cin]), "lower", cin, width), "upper", width, width)
    return classify(f, f.reshape(f.take(x, 1, length - 1, length), [batch, width]), width, count, batch)


def alexnet(f, small):
    batch, side, thin, hidden, count = (2, 64, 16, 24, 5) if small else (16, 224, 1, 4096, 1000)
    x, cin = images(f, batch, side), 3
    for k, (cout, kernel, stride, pad) in enumerate([(64, 11, 4, 2), (192, 5, 1, 2), (384, 3, 1, 1), (256, 3, 1, 1), (256, 3, 1, 1)]):
        x, cin = f.relu(f.conv(x, f"conv{k}", cin, cout // thin, kernel, stride, bias=True, pad=pad)), cout // thin
        side = (side + 2 * pad - kernel) // stride + 1
        if k in (0, 1, 4) and side >= 3:
            x, side = f.max_pool(x, 3, 2), (side - 3) // 2 + 1
    x, cin = f.reshape(x, [batch, cin * side * side]), cin * side * side
    for k in range(2):
        x, cin = f.relu(f.linear(x, f"hidden{k}", cin, hidden, 1.4)), hidden
    return classify(f, x, hidden, count, batch)


def resnet50(f, small):
    batch, side, width, depths, count = (2, 16, 4, (1, 2), 5) if small else (8, 224, 64, (3, 4, 6, 3), 1000)

    def unit(x, name, cin, cout, kernel, stride=1, scale=1.0):
        return f.batch_norm(f.conv(x, name, cin, cout, kernel, stride), f"{name}.norm", cout, scale)

    x = f.max_pool(f.relu(unit(images(f, batch, side), "stem", 3, width, 7, 2)), 3, 2, 1)
    channels = width
    for stage, depth in enumerate(depths):
        inner = width << stage
        for i in range(depth):
            name, stride = f"stage{stage}.{i}", 2 if stage and i == 0 else 1
            y = f.relu(unit(x, f"{name}.a", channels, inner, 1))
            y = f.relu(unit(y, f"{name}.b", inner, inner, 3, stride))
            y = unit(y, f"{name}.c", inner, 4 * inner, 1, scale=.3)
            x = unit(x, f"{name}.skip", channels, 4 * inner, 1, stride) if i == 0 else x
            x, channels = f.relu(f.add(y, x)), 4 * inner
    return classify(f, f.mean(x, [2, 3]), channels, count, batch)


def mobilenetv2(f, small):
    # expansion, channels, blocks, stride
    stages = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    batch, side, last, count = (2, 16, 32, 5) if small else (8, 224, 1280, 1000)
    stages = [(min(e, 3), c // 4, n, s) for e, c, n, s in stages[:2]] if small else stages
    channels = stages[0][1] * 2

    def unit(x, name, cin, cout, kernel, stride=1, groups=1):
        return f.batch_norm(f.conv(x, name, cin, cout, kernel, stride, groups), f"{name}.norm", cout)

    x = f.relu6(unit(images(f, batch, side), "stem", 3, channels, 3, 2))
    for stage, (expansion, cout, blocks, first) in enumerate(stages):
        for i in range(blocks):
            name, stride, inner = f"stage{stage}.{i}", first if i == 0 else 1, channels * expansion
            y = f.relu6(unit(x, f"{name}.a", channels, inner, 1)) if expansion > 1 else x
            y = unit(f.relu6(unit(y, f"{name}.b", inner, inner, 3, stride, inner)), f"{name}.c", inner, cout, 1)
            x, channels = f.add(x, y) if stride == 1 and channels == cout else y, cout
    x = f.relu6(unit(x, "last", channels, last, 1))
    return classify(f, f.mean(x, [2, 3]), last, count, batch)


def feed_forward(f, x, name, channels, inner, approximate="none"):
    return f.linear(f.gelu(f.linear(x, f"{name}.up", channels, inner), approximate), f"{name}.down", inner, channels)


def pre_norm_block(f, x, name, channels, heads, causal=False, approximate="none"):
    x = f.add(x, f.self_attention(f.layer_norm(x, f"{name}.norm0", channels), f"{name}.attention", channels, heads, causal))
    return f.add(x, feed_forward(f, f.layer_norm(x, f"{name}.norm1", channels), name, channels, 4 * channels, approximate))


def bert(f, small):
    """BERT-small with a classifier on its first word."""
    batch, layers_, channels, heads, length, words, count = (2, 2, 16, 2, 6, 20, 3) if small else (8, 4, 512, 8, 128, 30522, 2)
    ids, kinds = f.integers("ids", [batch, length], words), f.integers("kinds", [batch, length], 2)
    x = f.add(f.embedding(ids, "words", words, channels), f.embedding(kinds, "kinds_of", 2, channels))
    x = f.layer_norm(f.add(x, f.parameter("places", [length, channels], .5)), "norm", channels)
    for k in range(layers_):  # norms after the sums
        x = f.layer_norm(f.add(x, f.self_attention(x, f"layer{k}.attention", channels, heads)), f"layer{k}.norm0", channels)
        x = f.layer_norm(f.add(x, feed_forward(f, x, f"layer{k}", channels, 4 * channels)), f"layer{k}.norm1", channels)
    x = f.reshape(f.take(x, 1, 0, 1), [batch, channels])
    return classify(f, f.tanh(f.linear(x, "pool", channels, channels)), channels, count, batch)


def gpt2(f, small):
    """The next word, by the table that embeds the words."""
    batch, layers_, channels, heads, length, words = (2, 2, 16, 2, 6, 20) if small else (1, 12, 768, 12, 256, 50257)
    ids, target = f.integers("ids", [batch, length], words), f.integers("target", [batch * length], words)
    table = f.parameter("words", [words, channels], .1)
    x = f.add(f.rows(table, ids), f.parameter("places", [length, channels], .1))
    for k in range(layers_):
        x = pre_norm_block(f, x, f"layer{k}", channels, heads, True, "tanh")
    x = f.reshape(f.layer_norm(x, "norm", channels), [batch * length, channels])
    return f.cross_entropy(f.product(x, table), target)


def transformer(f, small):
    """Encoder and decoder; RMS norm and gated SiLU."""
    batch, layers_, channels, heads, length, words = (2, 1, 16, 2, 6, 20) if small else (4, 3, 512, 8, 64, 8000)
    source, ids = f.integers("source", [batch, length], words), f.integers("ids", [batch, length], words)

    def attend(x, memory, name):
        parts = [(x, "query"), (memory, "key"), (memory, "value")]
        q, k, v = (f.split_heads(f.linear(y, f"{name}.{part}", channels, channels, bias=False), heads) for y, part in parts)
        return f.linear(f.join_heads(f.attention(q, k, v, False)), f"{name}.out", channels, channels, bias=False)

    def gated(x, name):
        up = f.mul(f.silu(f.linear(x, f"{name}.gate", channels, 2 * channels, bias=False)),
                   f.linear(x, f"{name}.up", channels, 2 * channels, bias=False))
        return f.linear(up, f"{name}.down", 2 * channels, channels, bias=False)

    def norm(x, name):
        return f.rms_norm(x, name, channels)

    memory, x = f.embedding(source, "words", words, channels), f.embedding(ids, "words", words, channels)
    for k in range(layers_):
        y = norm(memory, f"encoder{k}.norm0")
        memory = f.add(memory, attend(y, y, f"encoder{k}.attention"))
        memory = f.add(memory, gated(norm(memory, f"encoder{k}.norm1"), f"encoder{k}"))
    for k in range(layers_):
        x = f.add(x, f.self_attention(norm(x, f"decoder{k}.norm0"), f"decoder{k}.attention", channels, heads, True))
        x = f.add(x, attend(norm(x, f"decoder{k}.norm1"), memory, f"decoder{k}.cross"))
        x = f.add(x, gated(norm(x, f"decoder{k}.norm2"), f"decoder{k}"))
    x = f.reshape(norm(x, "norm"), [batch * length, channels])
    return f.cross_entropy(f.linear(x, "classes", channels, words), f.integers("target", [batch * length], words))


def patches(f, batch, side, size, channels):
    x = f.conv(images(f, batch, side), "patches", 3, channels, size, size, bias=True, gain=1.0, pad=0)
    return f.transpose(f.reshape(x, [batch, channels, (side // size)**2]), [0, 2, 1])


def mlp_mixer(f, small):
    batch, layers_, channels, side, size, count = (2, 2, 12, 12, 4, 5) if small else (8, 8, 512, 224, 16, 1000)
    x, places = patches(f, batch, side, size, channels), (side // size)**2
    for k in range(layers_):
        y = f.transpose(f.layer_norm(x, f"layer{k}.norm0", channels), [0, 2, 1])
        x = f.add(x, f.transpose(feed_forward(f, y, f"layer{k}.places", places, channels // 2), [0, 2, 1]))
        x = f.add(x, feed_forward(f, f.layer_norm(x, f"layer{k}.norm1", channels), f"layer{k}.channels", channels, 4 * channels))
    return classify(f, f.mean(f.layer_norm(x, "norm", channels), [1]), channels, count, batch)


def vit(f, small):
    batch, layers_, channels, heads, side, size, count = (2, 2, 16, 2, 12, 4, 5) if small else (4, 6, 384, 6, 224, 16, 1000)
    x = f.add(patches(f, batch, side, size, channels), f.parameter("places", [(side // size)**2, channels], .1))
    for k in range(layers_):
        x = pre_norm_block(f, x, f"layer{k}", channels, heads)
    return classify(f, f.mean(f.layer_norm(x, "norm", channels), [1]), channels, count, batch)


def vae(f, small):
    """Noise is data. The loss is the cross-entropy of the pixels and the divergence from a normal distribution."""
    batch, pixels, hidden, latent = (6, 20, 16, 4) if small else (64, 784, 400, 20)
    x = f.floats("x", [batch, pixels], 0.0, 1.0)
    y = f.tanh(f.linear(x, "encoder", pixels, hidden))
    mean, log_variance = f.linear(y, "mean", hidden, latent), f.linear(y, "log_variance", hidden, latent)
    z = f.add(mean, f.mul(f.exp(f.mul(log_variance, .5)), f.floats("noise", [batch, latent])))
    logits = f.linear(f.tanh(f.linear(z, "decoder", latent, hidden)), "pixels", hidden, pixels)
    spread = f.sub(f.sub(f.add(log_variance, 1.0), f.mul(mean, mean)), f.exp(log_variance))
    return f.binary_cross_entropy(logits, x, f.mul(f.sum(spread, [0, 1]), -.5 / (batch * pixels)))


def unet(f, small):
    """Of a diffusion model: residual blocks of group norm and SiLU, attention at the lowest resolution; noise from what is noisy."""
    batch, side, width = (2, 8, 8) if small else (2, 64, 32)

    def convolve(x, name, cin, cout, kernel, stride=1):
        return f.conv(x, name, cin, cout, kernel, stride, bias=True, gain=1.0)

    def block(x, name, cin, cout):
        y = convolve(f.silu(f.group_norm(x, f"{name}.norm0", cin, 4)), f"{name}.conv0", cin, cout, 3)
        y = convolve(f.silu(f.group_norm(y, f"{name}.norm1", cout, 4)), f"{name}.conv1", cout, cout, 3)
        return f.add(convolve(x, f"{name}.skip", cin, cout, 1) if cin != cout else x, y)

    x, skips = convolve(f.floats("latent", [batch, 4, side, side]), "first", 4, width, 3), []
    for level in range(2):
        x = block(x, f"down{level}", width << level, width << level)
        skips.append(x)
        x = convolve(x, f"down{level}.shrink", width << level, width << level + 1, 3, 2)
    low, channels = side >> 2, width << 2
    flat = f.transpose(f.reshape(block(x, "middle0", channels, channels), [batch, channels, low * low]), [0, 2, 1])
    flat = f.add(flat, f.self_attention(f.layer_norm(flat, "attention.norm", channels), "attention", channels, 4))
    x = block(f.reshape(f.transpose(flat, [0, 2, 1]), [batch, channels, low, low]), "middle1", channels, channels)
    for level in (1, 0):
        x = convolve(f.double(x), f"up{level}.grow", 2 * (width << level), width << level, 3)
        x = block(f.concat([x, skips[level]], 1), f"up{level}", 2 * (width << level), width << level)
    x = convolve(f.silu(f.group_norm(x, "last.norm", width, 4)), "last", width, 4, 3)
    return f.squares(x, f.floats("noise", [batch, 4, side, side]))


NETWORKS = {n.__name__: n for n in (alexnet, bert, gpt2, lstm, mlp, mlp_mixer, mobilenetv2, resnet50, transformer, unet, vae, vit)}

# What each is trained with: optimizer (sgd with momentum 0.9, or adam) and learning rate.
OPTIMIZERS = {"alexnet": ("sgd", 1e-3), "bert": ("adam", 1e-3), "gpt2": ("adam", 1e-3), "lstm": ("adam", 1e-2), "mlp": ("sgd", .02),
              "mlp_mixer": ("adam", 1e-3), "mobilenetv2": ("sgd", .02), "resnet50": ("sgd", .02), "transformer": ("adam", 1e-3),
              "unet": ("adam", 1e-3), "vae": ("adam", 1e-2), "vit": ("adam", 1e-3)}


def text(name, small):
    """A layers.Text: `text()`, its ports by name, `head`."""
    f = layers.Text(name)
    NETWORKS[name](f, small)
    return f
