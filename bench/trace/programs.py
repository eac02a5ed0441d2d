# SPDX-License-Identifier: Apache-2.0
"""The ten programs of bench/trace/kiln_programs.cc in Python, and their inputs.

A program is a function of (library, arrays); a library has NumPy's names. Dr.Jit's differ in a few (DrJit in peers.py).
"""
import numpy as np

LENGTH, ROWS, COLUMNS = 1 << 18, 512, 512
POINTS, DIMENSIONS, CENTRES = 16384, 8, 16
SAMPLES, FEATURES = 4096, 64


def saxpy_chain(np, x, y):
    for k in range(8):
        y = y * 0.9 + x * (0.1 * (k + 1))
    return y


def polynomial(np, x):
    y = x * 0.0 + 1.0
    for k in range(15):
        y = y * x + (0.5 - 0.0625 * k)
    return y


def softmax_rows(np, x):
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def normal_cdf(np, d):
    """By tanh: not all libraries have erf."""
    return 0.5 * (1.0 + np.tanh(0.7978845608 * (d + 0.044715 * d * d * d)))


def black_scholes(np, spot, strike, years):
    deviation = 0.3 * np.sqrt(years)
    d = (np.log(spot / strike) + (0.02 + 0.045) * years) / deviation
    return spot * normal_cdf(np, d) - strike * np.exp(-0.02 * years) * normal_cdf(np, d - deviation)


def mandelbrot_steps(np, re, im):
    x, y, steps = re, im, re * 0.0
    for _ in range(16):
        xx, yy = x * x, y * y
        inside = xx + yy < 4.0
        y = np.where(inside, 2.0 * x * y + im, y)
        x = np.where(inside, xx - yy + re, x)
        steps = steps + np.where(inside, 1.0, 0.0)
    return steps


def normalise_rows(np, x):
    centred = x - np.mean(x, axis=1, keepdims=True)
    return centred / np.sqrt(np.mean(centred * centred, axis=1, keepdims=True) + 1e-5)


def kmeans_distances(np, points, centres):
    difference = np.reshape(points, (POINTS, 1, DIMENSIONS)) - np.reshape(centres, (1, CENTRES, DIMENSIONS))
    return np.min(np.sum(difference * difference, axis=2), axis=1)


def heat_step(np, u):
    inner = u[1:-1, 1:-1]
    return inner + 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * inner)


def sum_of_squares(np, x, y):
    difference = x - y
    return np.sum(difference * difference)


def logistic_gradient(np, samples, labels, weights):
    error = 1.0 / (1.0 + np.exp(-np.matmul(samples, weights))) - labels
    return np.matmul(error, samples) * (1.0 / SAMPLES)


PROGRAMS = {f.__name__: f for f in (saxpy_chain, polynomial, softmax_rows, black_scholes, mandelbrot_steps, normalise_rows,
                                    kmeans_distances, heat_step, sum_of_squares, logistic_gradient)}


def inputs(name):
    """Arrays of float32, of a fixed seed."""
    random = np.random.default_rng(1)

    def uniform(shape, low=-1.0, high=1.0):
        return random.uniform(low, high, shape).astype(np.float32)

    return {"saxpy_chain": lambda: [uniform(LENGTH), uniform(LENGTH)],
            "polynomial": lambda: [uniform(LENGTH)],
            "softmax_rows": lambda: [uniform((ROWS, COLUMNS), -4, 4)],
            "black_scholes": lambda: [uniform(LENGTH, 50, 150), uniform(LENGTH, 50, 150), uniform(LENGTH, 0.25, 2)],
            "mandelbrot_steps": lambda: [uniform(LENGTH, -2, 1), uniform(LENGTH, -1.5, 1.5)],
            "normalise_rows": lambda: [uniform((ROWS, COLUMNS), -4, 4)],
            "kmeans_distances": lambda: [uniform((POINTS, DIMENSIONS)), uniform((CENTRES, DIMENSIONS))],
            "heat_step": lambda: [uniform((ROWS, COLUMNS))],
            "sum_of_squares": lambda: [uniform(LENGTH), uniform(LENGTH)],
            "logistic_gradient": lambda: [uniform((SAMPLES, FEATURES)), uniform(SAMPLES, 0, 1), uniform(FEATURES)]}[name]()
