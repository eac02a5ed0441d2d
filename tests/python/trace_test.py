# SPDX-License-Identifier: Apache-2.0
"""kiln.Array and kiln.trace against NumPy."""
import inspect
import json
import os
import sys
import tempfile
import threading
import unittest
import unittest.mock

import numpy as np
import support  # noqa: F401  (a cache of its own)

import kiln

VM = {"threads": 1, "compile_mode": "never", "cache": False}


def line():
    """Where the caller is."""
    return inspect.currentframe().f_back.f_lineno


def values(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape, "f")


class Arrays(unittest.TestCase):
    def setUp(self):
        kiln.set_lazy_options(**VM)

    def test_operators_are_numpys(self):
        a, b = values(1, 3, 4), values(2, 4)
        x, y = kiln.array(a), kiln.array(b)
        for f in (lambda p, q: p + q, lambda p, q: p - 2 * q, lambda p, q: 1 / (p * p + 1) + q, lambda p, q: -p % 3.0, lambda p, q: p @ q,
                  lambda p, q: abs(p) ** 2, lambda p, q: p > q, lambda p, q: (p > 0) & (q < 0), lambda p, q: ~(p == p),
                  lambda p, q: p[1:, ::-1] + q[None, ::-1], lambda p, q: p[-1] * q[2], lambda p, q: p[..., 0, None], lambda p, q: p.sum(),
                  lambda p, q: p.max(axis=1, keepdims=True) - q, lambda p, q: p.mean(axis=0)):
            np.testing.assert_allclose(f(x, y), f(a, b), rtol=1e-6, atol=1e-6, err_msg=inspect.getsource(f))
            self.assertEqual(f(x, y).shape, f(a, b).shape)
        np.testing.assert_array_equal(x[np.array([2, 0])], a[[2, 0]])

    def test_numpys_functions_give_arrays(self):
        a = np.abs(values(1, 3, 4)) + 1
        x = kiln.array(a)
        for f in (np.exp, np.log, np.sqrt, np.tanh, np.negative, np.abs, np.floor):
            self.assertIsInstance(f(x), kiln.Array)
            np.testing.assert_allclose(f(x), f(a), rtol=1e-6)
        for f in (lambda p: np.add(a, p), lambda p: np.maximum(p, 1.5), lambda p: a * p, lambda p: np.float32(2) - p, lambda p: np.sum(p, axis=1)):
            self.assertIsInstance(f(x), kiln.Array)
            np.testing.assert_allclose(f(x), f(a), rtol=1e-6)
        with self.assertRaises(TypeError):
            np.frexp(x)

    def test_functions_of_numpy_give_what_numpy_gives(self):
        a, b, flags = values(5, 2, 3, 4), values(6, 2, 3, 4), values(7, 3, 4) > 0
        whole, row = np.arange(-3, 9, dtype="i8").reshape(3, 4), values(8, 4)
        calls = (
            lambda x: np.sum(x), lambda x: np.sum(x, axis=(0, 2), keepdims=True), lambda x: np.prod(x, 1), lambda x: np.max(x, axis=-1),
            lambda x: np.amin(x), lambda x: np.mean(x, axis=1), lambda x: np.var(x, axis=(0, 1), ddof=1), lambda x: np.std(x, keepdims=True),
            lambda x: np.linalg.norm(x, axis=1), lambda x: np.any(x > 1.5, axis=0), lambda x: np.all(x > -9), lambda x: np.count_nonzero(x > 0, axis=1),
            lambda x: np.argmax(x), lambda x: np.argmin(x, axis=1), lambda x: np.argmax(x, -1, keepdims=True), lambda x: np.cumsum(x, axis=1),
            lambda x: np.cumsum(x), lambda x: np.reshape(x, (4, -1)), lambda x: np.ravel(x), lambda x: np.transpose(x),
            lambda x: np.transpose(x, (1, 0, -1)), lambda x: np.swapaxes(x, 0, -1), lambda x: np.moveaxis(x, (0, 1), (-1, 0)),
            lambda x: np.squeeze(x[:, :1]), lambda x: np.expand_dims(x, (0, -1)), lambda x: np.broadcast_to(x[0, 0], (2, 4)),
            lambda x: np.flip(x, 1), lambda x: np.flip(x), lambda x: np.concatenate([x, b], axis=1), lambda x: np.concatenate((x, x), axis=None),
            lambda x: np.stack([x, b], axis=-1), lambda x: np.vstack([x[0, 0], row]), lambda x: np.hstack([x, b]),
            lambda x: np.pad(x, 1), lambda x: np.pad(x, ((0, 1), (2, 0), (0, 0)), constant_values=-2.5), lambda x: np.pad(x[0], (1, 2)),
            lambda x: np.where(flags, x, 0.5), lambda x: np.where(x > 0, 1.5, x), lambda x: np.clip(x, -0.5, row), lambda x: np.clip(x, None, 0.5),
            lambda x: np.round(x), lambda x: np.take(x, [2, 0], axis=1), lambda x: np.take(x, 5), lambda x: np.take_along_axis(x, whole[None] % 3, 1),
            lambda x: np.tril(x), lambda x: np.triu(x, 1), lambda x: np.dot(x, row), lambda x: np.dot(x[0, :, 0], b[0]), lambda x: np.outer(x[0, 0], row),
            lambda x: np.matmul(x, np.swapaxes(b, 1, 2)), lambda x: np.zeros_like(x), lambda x: np.ones_like(x, dtype="int32"),
            lambda x: np.full_like(x, 1.5), lambda x: np.sum(whole * np.ones_like(x[0], dtype="i8"), axis=0))
        x = kiln.array(a)
        for f in calls:
            got, want = f(x), f(a)
            self.assertIsInstance(got, kiln.Array, inspect.getsource(f))
            self.assertEqual((got.shape, got.dtype), (want.shape, want.dtype.name), inspect.getsource(f))
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6, err_msg=inspect.getsource(f))
        for f in (lambda p: np.split(p, 2, axis=2), lambda p: np.split(p, [1, -1], axis=2), lambda p: np.split(p, 1)):
            for got, want in zip(f(x), f(a), strict=True):
                np.testing.assert_array_equal(got, want)
        self.assertEqual((np.shape(x), np.ndim(x), np.size(x), np.size(x, 1)), (a.shape, 3, 24, 3))

    def test_edges_of_numpys_functions_are_numpys(self):
        """What a plain translation to operators gets wrong."""
        a, whole, gaps = values(5, 2, 3), np.array([[1, 2, 0], [4, -1, 2]], "i4"), np.array([[1, np.nan, 0], [np.nan, 3, np.nan]], "f")
        of_floats = (
            lambda x: np.add.reduce(x, axis=None), lambda x: np.maximum.reduce(x), lambda x: np.sum(x, axis=()), lambda x: x.max(axis=(), keepdims=True),
            lambda x: np.mean(x, axis=()), lambda x: np.var(x, axis=()), lambda x: np.any(x > 0, axis=()),
            lambda x: np.sum(x, axis=np.int64(1)), lambda x: np.var(x, ddof=6), lambda x: np.vstack([x[0, 0], x[1, 1]]), lambda x: np.hstack([x[0, 0], x[0]]),
            lambda x: np.tril(x[0]), lambda x: np.triu(x[0], 1), lambda x: np.full_like(x, [1, 2, 3]), lambda x: np.broadcast_to(x, (4, 2, 3)),
            lambda x: x[None], lambda x: x[-5::-1], lambda x: x[:, -4:-5:-1], lambda x: x[:, 5:-9:-2], lambda x: x[:0][::-1], lambda x: x[np.array([1, -2])])
        of_integers = (lambda x: np.logical_and(x, x[::-1]), lambda x: np.logical_or(x, 0), lambda x: np.logical_xor(x, True), np.logical_not,
                       lambda x: x ** 2, lambda x: np.power(2, x * x), lambda x: np.full_like(x, 1.7))
        of_nans = (np.logical_not, lambda x: np.logical_and(x, 2.0), np.argmin, np.argmax, lambda x: np.argmin(x, axis=0), lambda x: np.argmin(x, 1))
        for array, calls in ((a, of_floats), (whole, of_integers), (gaps, of_nans)):
            for f in calls:
                with np.errstate(all="ignore"):
                    got, want = f(kiln.array(array)), f(array)
                self.assertEqual((got.shape, got.dtype), (want.shape, want.dtype.name), getattr(f, "__name__", f))
                np.testing.assert_allclose(got, want, rtol=1e-6, err_msg=inspect.getsource(f) if inspect.isfunction(f) else f.__name__)
        for part, want in zip(np.split(kiln.array(a), [2, 1], axis=1), np.split(a, [2, 1], axis=1), strict=True):
            np.testing.assert_array_equal(part, want)

    def test_what_numpy_refuses_is_refused(self):
        x, whole = kiln.array(values(5, 2, 3)), kiln.array([[1, 2, 0]], "int32")
        for f, error in ((lambda: np.broadcast_to(x, (1, 3)), ValueError), (lambda: np.broadcast_to(x[:1], (3,)), ValueError),
                         (lambda: np.broadcast_to(x[:1], (-1, 3)), ValueError), (lambda: np.pad(x, ((0, -1), (0, 0))), ValueError),
                         (lambda: whole ** -1, ValueError), (lambda: np.power(whole, -2), ValueError), (lambda: x[np.array([0, 2])], IndexError),
                         (lambda: x[np.array([-3])], IndexError), (lambda: np.take(x, [6]), IndexError), (lambda: np.take(x, 3, axis=1), IndexError),
                         (lambda: np.take_along_axis(x, np.array([[0, 3, 0]]), 1), IndexError), (lambda: np.split(x, 0), ValueError),
                         (lambda: np.full_like(whole, 2 ** 40), ValueError)):
            with self.assertRaises(error, msg=inspect.getsource(f)):
                f()

    def test_what_has_another_meaning_than_numpys_is_a_type_error(self):
        x, whole = kiln.array(values(5, 3)), kiln.array([1, 2, 4], "int32")
        for f in (lambda: whole / whole, lambda: whole / 2, lambda: 1 / whole, lambda: np.divide(whole, 2), lambda: np.true_divide(2, whole),
                  lambda: x == [1, 2, 3], lambda: x != (1, 2, 3), lambda: [1, 2, 3] == x, lambda: x == "a", lambda: x == None,  # noqa: E711
                  lambda: x != None, lambda: x == object(), lambda: x[True], lambda: x[x > 0], lambda: x[np.array([True, False, True])]):  # noqa: E711
            with self.assertRaises(TypeError, msg=inspect.getsource(f)):
                f()
        self.assertTrue(x == unittest.mock.ANY)  # which has an answer of its own
        np.testing.assert_array_equal(kiln.ops.div(whole, 2), [0, 1, 2])

    def test_every_function_of_numpy_is_called_in_these_tests(self):
        from kiln import _numpy
        text = inspect.getsource(sys.modules[__name__])
        for name in set(_numpy.FUNCTIONS) - {"around", "amax", "min", "empty_like"}:  # other names of these
            self.assertIn(f"np.{name}(", text)
        for name in _numpy.READERS:
            self.assertTrue(hasattr(np, name), name)

    def test_functions_that_read_elements_are_numpys_own(self):
        x = kiln.array(values(1, 3))
        self.assertTrue(np.allclose(x + 1, np.asarray(x) + 1) and np.array_equal([x, x], [x, x]))
        into = np.zeros(3, "f")
        np.copyto(into, x)
        np.testing.assert_array_equal(into, x)

    def test_named_arguments_are_passed_by_place(self):
        def f(x, y, scale=2.0, *, shift=0.0):
            return (x - y) * scale + shift

        x = kiln.array(np.arange(3, dtype="f"))
        np.testing.assert_array_equal(kiln.trace(f)(x, scale=3.0, y=x * 0), [0, 3, 6])
        loss = kiln.value_and_grad(lambda x, y, scale=2.0: np.sum((x - y) * scale))
        self.assertEqual(loss(x, scale=3.0, y=x * 0)[0].item(), 9)
        with self.assertRaisesRegex(TypeError, "f: shift can be given by name alone"):
            kiln.trace(f)(x, x, shift=1.0)
        with self.assertRaisesRegex(TypeError, "scales"):
            kiln.trace(f)(x, x, scales=1.0)

    def test_what_kiln_has_not_of_numpy_is_a_type_error(self):
        x = kiln.array(np.arange(6).reshape(2, 3))
        for f in (lambda: np.median(x), lambda: np.sort(x), lambda: np.sum(x, dtype="f"), lambda: np.sum(x, where=x > 0), lambda: np.mean(x), lambda: x.mean(),
                  lambda: np.where(x), lambda: np.pad(x, 1, "edge"), lambda: np.linalg.norm(x, 1), lambda: np.concatenate([x, x], out=np.zeros(1))):
            with self.assertRaises(TypeError, msg=inspect.getsource(f)):
                f()
        for f in (lambda: np.sum(x, axis=2), lambda: np.split(x, 2, axis=1), lambda: np.moveaxis(x, (0, 1), 0)):
            with self.assertRaises((ValueError, IndexError), msg=inspect.getsource(f)):
                f()

    def test_every_name_of_the_table_is_an_operator(self):
        from kiln import _arrays
        names = {*_arrays._UFUNCS.values(), *_arrays._LOGICAL.values(), *_arrays._REDUCTIONS.values()}
        self.assertEqual([name for name in names if not hasattr(kiln.ops, {"and": "and_", "or": "or_", "not": "not_"}.get(name, name))], [])
        for name in (*_arrays._UFUNCS, *_arrays._LOGICAL, *_arrays._METHODS):
            self.assertTrue(hasattr(np, name), name)

    def test_operators_by_name(self):
        a = values(3, 2, 3)
        x = kiln.array(a)
        e = np.exp(a - a.max(1, keepdims=True))
        np.testing.assert_allclose(kiln.ops.softmax(x, axis=1), e / e.sum(1, keepdims=True), rtol=1e-6)
        np.testing.assert_array_equal(kiln.ops.where(x > 0, x, 0), np.where(a > 0, a, 0))
        np.testing.assert_array_equal(kiln.ops.concat(x, a, axis=0), np.concatenate([a, a]))
        self.assertEqual(kiln.ops.cast(x, to=np.float64).dtype, "float64")
        first, second = kiln.ops.split(x, split=[1, 2], axis=1)
        self.assertEqual((first.shape, second.shape), ((2, 1), (2, 2)))

    def test_into_and_out_of_numpy(self):
        a = values(4, 5)
        x = kiln.array(a)
        a[:] = 0
        self.assertTrue(np.asarray(x).any())
        with self.assertRaises(ValueError):
            np.asarray(x)[0] = 1
        view = kiln.array(a, copy=False)
        a[:] = 3
        np.testing.assert_array_equal(view + 0, a)
        np.testing.assert_array_equal(np.from_dlpack(x * 2), np.asarray(x) * 2)
        self.assertEqual(np.asarray(x, "float64").dtype, np.float64)
        self.assertEqual(kiln.array([1, 2], "int32").dtype, "int32")
        self.assertEqual((float(x[0]), int(kiln.array([7])), len(x), x.ndim, x.size), (x[0].item(), 7, 5, 1, 5))
        self.assertTrue(x.sum() == x.sum())
        self.assertEqual(repr(x), "<kiln.Array float32 (5,)>")

    def test_errors_have_the_callers_line(self):
        x = kiln.array(np.ones(2, "f"))
        for f in (lambda: x + np.ones(3, "f"), lambda: np.add(x, np.ones(3, "f")), lambda: kiln.ops.add(x, np.ones(3, "f"))):
            with self.assertRaises(kiln.InvalidArgumentError) as caught:
                f()
            self.assertIn(f"trace_test.py:{f.__code__.co_firstlineno}", str(caught.exception))
        with self.assertRaisesRegex(kiln.InvalidArgumentError, "64 bits"):
            x + 2 ** 70
        with self.assertRaises(TypeError):
            x + "1"
        with self.assertRaises(IndexError):
            x[2]
        with self.assertRaisesRegex(kiln.InvalidArgumentError, "expected 1"):
            x.item()

    def test_a_loop_is_few_programs(self):
        before = kiln.lazy_stats()["structures"]
        x = kiln.array(np.zeros(4, "f"))
        for k in range(2000):
            x = x + k % 7 * 0.5
        self.assertEqual(float(x[0]), sum(k % 7 * 0.5 for k in range(2000)))
        self.assertLessEqual(kiln.lazy_stats()["structures"] - before, 4)


class Traces(unittest.TestCase):
    def setUp(self):
        kiln.set_lazy_options(**VM)

    def test_records_then_replays(self):
        @kiln.trace(**VM)
        def step(w, g, rate):
            """Down the gradient."""
            return w - rate * g, w * 2

        self.assertEqual((step.__name__, step.__doc__), ("step", "Down the gradient."))
        for k in range(4):
            w, g = values(k, 3), values(9 + k, 3)
            down, twice = step(w, g, 0.5 / (k + 1))  # another number each time
            np.testing.assert_allclose(down, w - np.float32(0.5 / (k + 1)) * g, rtol=1e-6)
            np.testing.assert_array_equal(twice, w * 2)
        self.assertEqual((step.stats["records"], step.stats["replays"]), (1, 3))
        step(values(1, 5), values(2, 5), 1)
        self.assertEqual(step.stats["variants"], 2)
        step.forget()
        self.assertEqual(step.stats["variants"], 0)

    def test_what_it_returns(self):
        for f, kind in ((lambda x: x + 1, kiln.Array), (lambda x: [x, x + 1], list), (lambda x: (x,), tuple), (lambda x: None, type(None))):
            traced = kiln.trace(f, **VM)
            for _ in range(2):
                self.assertIs(type(traced(np.ones(2, "f"))), kind)
        with self.assertRaisesRegex(TypeError, "returns a kiln.Array"):
            kiln.trace(lambda x: 3, **VM)(np.ones(2, "f"))

    def test_results_stay_when_an_argument_is_written(self):
        for traced in (kiln.trace(lambda x: (x, x * 2), **VM), kiln.freeze(lambda x: (x, x * 2), **VM)):
            for _ in range(4):
                x = np.ones(3, "f")
                same, twice = traced(x)
                x[:] = 7
                np.testing.assert_array_equal(same, [1, 1, 1])
                np.testing.assert_array_equal(twice, [2, 2, 2])

    def test_methods(self):
        class Layer:
            def __init__(self, weight):
                self.weight = kiln.array(weight)

            @kiln.trace(**VM)
            def __call__(self, x):
                return x @ self.weight

        one, other = Layer(np.eye(2, dtype="f")), Layer(np.full((2, 2), 2, "f"))
        x = values(1, 3, 2)
        for layer in (one, other, one):
            np.testing.assert_allclose(layer(x), x @ np.asarray(layer.weight), rtol=1e-6)
        self.assertEqual(Layer.__call__.stats["records"], 1)

    def mismatch(self, f, *calls, **options):
        """The error of the last call."""
        traced = kiln.trace(f, **VM, **options)
        for arguments in calls[:-1]:
            traced(*arguments)
        with self.assertRaises(kiln.TraceError) as caught:
            traced(*calls[-1])
        self.assertEqual(caught.exception.code, kiln.Code.FAILED_PRECONDITION)
        traced(*calls[0])  # the record stays
        self.assertEqual(traced.stats["errors"], 1)
        return caught.exception

    def test_mismatches_have_a_kind_and_both_lines(self):
        x, wide = np.ones(2, "f"), np.ones(2)
        first = line() + 2
        def f(a, up):
            return (np.exp(a) if up else
                    np.log(a))
        error = self.mismatch(f, (x, True), (x, False))
        self.assertEqual(error.kind, "operation")
        self.assertRegex(str(error), f'trace "f": .*log.*trace_test.py:{first + 1}, recorded was exp.*trace_test.py:{first};')
        self.assertEqual(self.mismatch(lambda a: a * 2, (x,), (wide,)).kind, "dtype")
        self.assertEqual(self.mismatch(lambda a: a * 2, (x,), (np.ones(3, "f"),), symbolic_shape=False).kind, "shape")
        self.assertEqual(self.mismatch(lambda a, k: a * k, (x, 2), (x, 3), capture_as_const=True).kind, "constant")
        self.assertEqual(self.mismatch(lambda a, k: a[k:], (x, 0), (x, 1)).kind, "too many operations")
        self.assertEqual(self.mismatch(lambda a, k: a * k, (x, 2), (x, x)).kind, "arguments")
        self.assertEqual(self.mismatch(lambda *a: sum(a), (x, x), (x, x, x)).kind, "arguments")
        self.assertEqual(self.mismatch(lambda a, k: a + 1 if k or a.sum() else a, (x, True), (x, False)).kind, "operation")

    def test_a_trace_in_a_trace(self):
        inner = kiln.trace(lambda a: a + 1, name="inner", **VM)
        outer = kiln.trace(lambda a: inner(a) * 2, **VM)
        with self.assertRaises(kiln.TraceError) as caught:
            outer(np.ones(2, "f"))
        self.assertEqual(caught.exception.kind, "nested")

        @kiln.trace(**VM)
        def allowed(a):
            b = a * 3
            with kiln.Excluded():
                c = inner(b)
            return c * 2
        for _ in range(3):
            np.testing.assert_array_equal(allowed(np.ones(2, "f")), [8, 8])

    def test_exceptions_pass_through_and_the_record_stays(self):
        @kiln.trace(**VM)
        def f(a, breaks):
            b = a + 1
            if breaks:
                raise KeyError(b.shape)
            return b
        f(np.ones(2, "f"), False)
        with self.assertRaises(KeyError):
            f(np.ones(2, "f"), True)
        np.testing.assert_array_equal(f(np.zeros(2, "f"), False), [1, 1])
        self.assertEqual((f.stats["errors"], f.stats["replays"]), (1, 1))

    def test_threads(self):
        x = kiln.array(np.ones(2, "f"))
        pending, seen = x * 2, []

        def use():
            try:
                pending + 1
            except kiln.TraceError as error:
                seen.append(error.kind)
        worker = threading.Thread(target=use)
        worker.start()
        worker.join()
        self.assertEqual(seen, ["thread"])
        traced = kiln.trace(lambda a: traced(a), **VM)
        with self.assertRaises(kiln.TraceError) as caught:
            traced(x)
        self.assertEqual(caught.exception.kind, "thread")

    def test_options(self):
        record = kiln.trace(lambda a: a * 2, record_only=True, **VM)(np.ones((2, 3), "f"))
        self.assertEqual(record.shape, (2, 3))
        with self.assertRaisesRegex(kiln.FailedPreconditionError, "record_only"):
            record.numpy()
        timed = kiln.trace(lambda a: np.exp(a), profiling=True, name="timed", **VM)
        for _ in range(3):
            timed(np.ones(2, "f"))
        self.assertEqual(json.loads(timed.get_profile())["trace"], "timed")
        with self.assertRaises(TypeError):
            kiln.trace(lambda a: a, thread=1)


def loss(w, x, y):
    error = x @ w - y
    return np.mean(error * error), error


class Gradients(unittest.TestCase):
    def setUp(self):
        kiln.set_lazy_options(**VM)
        self.w, self.x, self.y = values(1, 3, 1), values(2, 5, 3), values(3, 5, 1)

    def slope(self):
        return 2 / 5 * self.x.T @ (self.x @ self.w - self.y)

    def test_are_those_of_the_formula(self):
        np.testing.assert_allclose(kiln.grad(loss)(self.w, self.x, self.y), self.slope(), rtol=1e-5)
        d_y, d_w = kiln.grad(loss, (2, 0))(self.w, self.x, self.y)
        np.testing.assert_allclose(d_w, self.slope(), rtol=1e-5)
        np.testing.assert_allclose(d_y, 2 / 5 * (self.y - self.x @ self.w), rtol=1e-5)
        (value, error), d_w = kiln.value_and_grad(loss)(self.w, self.x, self.y)
        np.testing.assert_allclose(error, self.x @ self.w - self.y, rtol=1e-5)
        np.testing.assert_allclose(value, np.mean(np.asarray(error) ** 2), rtol=1e-5)
        np.testing.assert_allclose(d_w, self.slope(), rtol=1e-5)
        self.assertEqual((kiln.grad(loss).__name__, type(kiln.value_and_grad(loss, [0])(self.w, self.x, self.y)[1])), ("loss", tuple))

    def test_of_gradients_and_with_what_is_no_array(self):
        cube = lambda x, power: np.sum(x ** power)  # noqa: E731
        x = values(4, 3)
        np.testing.assert_allclose(kiln.grad(lambda x: np.sum(kiln.grad(cube)(x, 3)))(x), 6 * x, rtol=1e-5)

    def test_stay_when_an_argument_is_written(self):
        w = np.array([1, 2, 3], "f")
        value, d_w = kiln.value_and_grad(lambda w: np.sum(w ** 3))(w)
        w[:] = 10
        self.assertEqual(float(value), 36)
        np.testing.assert_array_equal(d_w, [3, 12, 27])

    def test_in_a_trace(self):
        @kiln.trace(**VM)
        def step(w, x, y):
            (value, _), d_w = kiln.value_and_grad(loss)(w, x, y)
            return value, w - 0.1 * d_w

        w, seen = self.w, []
        for _ in range(4):
            value, w = step(w, self.x, self.y)
            seen.append(float(value))
        self.assertEqual(seen, sorted(seen, reverse=True))
        self.assertEqual((step.stats["records"], step.stats["replays"]), (1, 3))

    def test_errors(self):
        where = line() + 1
        for f, error, text in ((lambda: kiln.grad(lambda x: np.sum(x) * np.sum(x).item())(self.w), kiln.Error, f"trace_test.py:{where}"),
                               (lambda: kiln.grad(lambda x: x)(self.w), kiln.InvalidArgumentError, "one element"),
                               (lambda: kiln.grad(lambda x: x)(np.ones((), "i8")), kiln.InvalidArgumentError, "argument 0 is i64"),
                               (lambda: kiln.grad(lambda k, x: np.sum(x))(1.5, self.w), TypeError, "argument 0 of 2 is no array"),
                               (lambda: kiln.grad(lambda x: None)(self.w), TypeError, "returns nothing"),
                               (lambda: kiln.grad(lambda x: 1.0)(self.w), TypeError, "returns a kiln.Array"),
                               (lambda: kiln.grad(loss, (0, 0)), ValueError, "each once"),
                               (lambda: kiln.grad(kiln.trace(lambda x: np.sum(x), **VM))(self.w), kiln.TraceError, "plain function")):
            with self.assertRaisesRegex(error, text):
                f()
        with self.assertRaises(KeyError):  # passes through
            kiln.grad(lambda x: {}[0])(self.w)
        np.testing.assert_array_equal(kiln.grad(lambda x: np.sum(x))(self.w), np.ones_like(self.w))


CALLS = []


class Frozen(unittest.TestCase):
    def setUp(self):
        kiln.set_lazy_options(**VM)

    def test_runs_the_function_twice(self):
        @kiln.freeze(**VM)
        def act(x, y):
            CALLS.append(x)
            return [np.maximum(x * 3, 0) + y, x - y]

        CALLS.clear()
        for k in range(5):
            x, y = values(k, 4), values(9 - k, 4)
            up, down = act(x, y)
            np.testing.assert_allclose(up, np.maximum(x * 3, 0) + y, rtol=1e-6)
            np.testing.assert_allclose(down, x - y, rtol=1e-6)
            self.assertIs(type(act(x, y)), list)
        self.assertEqual(len(CALLS), 2)
        self.assertEqual(act.stats["frozen_calls"], 8)
        with self.assertRaises(kiln.TraceError) as caught:
            act(np.ones(4), np.ones(4, "f"))
        self.assertEqual(caught.exception.kind, "dtype")

    def test_gives_what_the_function_returns(self):
        for f, kind in ((lambda x: x + 1, kiln.Array), (lambda x: (x, x + 1), tuple), (lambda x: None, type(None))):
            frozen = kiln.freeze(f, **VM)
            self.assertEqual({type(frozen(np.ones(2, "f"))) for _ in range(4)}, {kind})

    def test_functions_like_an_array_capture_none(self):
        frozen = kiln.freeze(lambda x: np.tril(x) + np.ones_like(x) * np.full_like(x, 0.1) - np.zeros_like(x), **VM)
        a = np.arange(9.0).reshape(3, 3)
        for _ in range(4):
            np.testing.assert_array_equal(frozen(a), np.tril(a) + 0.1)

    def test_what_has_a_state_is_refused(self):
        rate = 2
        for f in (lambda x: x * rate, self.setUp, np.sum):
            with self.assertRaisesRegex(TypeError, "pass what it needs as arguments"):
                kiln.freeze(f, **VM)
        with self.assertRaisesRegex(TypeError, "takes arrays alone"):
            kiln.freeze(lambda x, k: x * k, **VM)(np.ones(2, "f"), 2)
        with self.assertRaises(kiln.TraceError) as caught:
            kiln.freeze(lambda x: x * float(x.sum()), **VM)(np.ones(2, "f"))
        self.assertEqual(caught.exception.kind, "not frozen")


class Dumps(unittest.TestCase):
    def setUp(self):
        kiln.set_lazy_options(**VM)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def traced(self):
        weight = kiln.array(values(1, 3, 2))

        @kiln.trace(capture_as_const=True, **VM)
        def layer(x):
            return np.maximum(x @ weight, 0.25)

        self.x = values(2, 4, 3)
        self.want = layer(self.x).numpy()
        return layer

    def test_every_form_gives_what_the_trace_gives(self):
        layer = self.traced()
        for end in ("onnx", "graph", "kiln"):
            path = os.path.join(self.folder, f"layer.{end}")
            info = layer.dump(path, arg_names=["x"], output_names=["y"])
            self.assertIn('inputs=["x"], outputs=["y"]', repr(info))
            self.assertEqual((info.inputs, info.outputs, info.bytes), (["x"], ["y"], os.path.getsize(path)))
            model = kiln.load(path) if end == "kiln" else kiln.compile(path, **VM)
            np.testing.assert_allclose(model(x=self.x), self.want, rtol=1e-6)
        half = kiln.trace(lambda x: (kiln.ops.swish(x, alpha=0.3), kiln.ops.rsqrt(x), x % 0.3), capture_as_const=True, **VM)
        x = np.abs(values(3, 400)).astype("f2")
        wants = half(x)  # rounded once
        half.dump(os.path.join(self.folder, "half.onnx"))
        for got, want in zip(kiln.compile(os.path.join(self.folder, "half.onnx"), **VM)(x), wants, strict=True):
            np.testing.assert_array_equal(got, want)
        frozen = kiln.freeze(lambda x: x + 1, **VM)
        frozen(self.x)
        self.assertEqual(frozen.dump(os.path.join(self.folder, "f.graph")).outputs, ["out_0"])

    def test_options(self):
        layer = self.traced()
        path = os.path.join(self.folder, "layer.graph")
        strip = os.path.join(self.folder, "strip.json")
        options = kiln.DumpOptions()
        options.keep_var_name = 2
        info = layer.dump(path, options, keep_param_name=True, keep_opr_name=True, user_info="of a test", metadata=[("by", "me")],
                          model_version=3, strip_info_file=strip, optimize_for_inference=True)
        self.assertEqual((options.keep_param_name, info.parameters), (False, ["param_0"]))
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for word in ("param_0", "of a test", "trace_test.py"):
            self.assertIn(word, text)
        with open(strip, encoding="utf-8") as file:
            self.assertIn("matmul", file.read())
        half = kiln.OptimizeForInference(enable_io16xc32=True)
        layer.dump(path, optimize_for_inference=half)
        self.assertEqual(kiln.describe(path).outputs[0].dtype, "float16")
        package = os.path.join(self.folder, "layer.kiln")
        layer.dump(package, arg_names=["x"], input_data=["#rand(-1, 1)"], maxerr=1e-3, silent=True)
        for settings, error in (({"append": True}, kiln.UnimplementedError), ({"keep_var_name": 7}, kiln.InvalidArgumentError),
                                ({"keep_var_nam": 1}, TypeError), ({"maxerr": "x"}, kiln.InvalidArgumentError),
                                ({"input_data": ["x:nothing.npy"]}, kiln.Error)):
            with self.assertRaises(error, msg=settings):
                layer.dump(path, **settings)
        with self.assertRaises(kiln.FailedPreconditionError):
            kiln.trace(lambda x: x * 2, **VM).dump(path)


if __name__ == "__main__":
    unittest.main()
