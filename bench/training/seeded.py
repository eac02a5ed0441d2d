# SPDX-License-Identifier: Apache-2.0
"""Numbers that depend on a name and a place alone, as tests/training/network.cc makes them, too: initial parameters, data, directions."""
import numpy as np

MASK = (1 << 64) - 1


def seed(name):
    """FNV-1a of 64 bits."""
    h = 0xcbf29ce484222325
    for byte in name.encode():
        h = (h ^ byte) * 0x100000001b3 & MASK
    return h


def units(name, count):
    """`count` numbers of [0, 1), multiples of 2^-53: those of SplitMix64."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed(name)) + (np.arange(count, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9e3779b97f4a7c15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xbf58476d1ce4e5b9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94d049bb133111eb)
        return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def values(port):
    """Of an input as networks.Port says: i64 below `high`, or f32 from `low` to `high`."""
    u = units(port.name, int(np.prod(port.shape, dtype=np.int64))).reshape(port.shape)
    if port.type == "i64":
        return (u * port.high).astype(np.int64)
    return (port.low + (port.high - port.low) * u).astype(np.float32)


def direction(name, count):
    """What a gradient is projected on: numbers of [-1, 1)."""
    return 2 * units(f"direction of {name}", count) - 1
