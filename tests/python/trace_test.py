# SPDX-License-Identifier: Apache-2.0
"""kiln.Array and kiln.trace against NumPy."""
import inspect
import json
import threading
import unittest

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

    def test_every_name_of_the_table_is_an_operator(self):
        from kiln import _arrays
        names = {*_arrays._UFUNCS.values(), *_arrays._REDUCTIONS.values()}
        self.assertEqual([name for name in names if not hasattr(kiln.ops, {"and": "and_", "or": "or_", "not": "not_"}.get(name, name))], [])
        for name in _arrays._UFUNCS:
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


if __name__ == "__main__":
    unittest.main()
