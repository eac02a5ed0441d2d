# SPDX-License-Identifier: Apache-2.0
"""kiln.Trainer against NumPy."""
import os
import tempfile
import threading
import unittest

import numpy as np
import support  # noqa: F401  (a cache of its own)

import kiln

LINE = b"""graph line
input x : f32 [n, 3]
const w : f32 [3, 2] = [0.5, 0.5, 0.5, 0.5, 0.5, 0.5]
const b : f32 [2] = [0, 0]
z = matmul(x, w)
y = add(z, b)
output y
"""


def trainer(**settings):
    return kiln.Trainer(LINE, name="line.graph", threads=1, compile_mode="never", **settings)


def data(seed, n=8):
    random = np.random.default_rng(seed)
    return {"x": random.standard_normal((n, 3), "f"), "labels": random.integers(0, 2, n)}


class Steps(unittest.TestCase):
    def test_gradient_descent_on_cross_entropy(self):
        t = trainer(optimizer="sgd", lr=0.5)
        w, b = np.full((3, 2), 0.5), np.zeros(2)
        for seed in range(5):
            batch = data(seed)
            z = batch["x"] @ w + b
            p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
            want = -np.log(p[np.arange(8), batch["labels"]]).mean()
            self.assertAlmostEqual(t.step(**batch), want, 5)
            g = (p - np.eye(2)[batch["labels"]]) / 8
            w, b = w - 0.5 * batch["x"].T @ g, b - 0.5 * g.sum(0)
        np.testing.assert_allclose(t.parameter("w"), w, atol=1e-5)
        np.testing.assert_allclose(t.parameter("b"), b, atol=1e-5)
        self.assertEqual(t.steps, 5)
        loss, outputs = t.evaluate(**data(9))
        np.testing.assert_allclose(outputs["y"], data(9)["x"] @ w + b, atol=1e-4)
        self.assertGreater(loss, 0)
        np.testing.assert_array_equal(t.run(x=data(9)["x"])["y"], outputs["y"])

    def test_ports_and_names(self):
        t = trainer(frozen=["b"])
        self.assertEqual([port.name for port in t.inputs], ["x", "labels"])
        self.assertEqual([port.name for port in t.parameters], ["w"])
        self.assertEqual([port.name for port in t.outputs], ["y"])
        self.assertEqual(t.statistics, [])
        t.set_parameter("w", np.ones((3, 2), "f"))
        np.testing.assert_array_equal(t.parameter("w"), np.ones((3, 2)))
        with self.assertRaisesRegex(kiln.NotFoundError, "no parameter or statistic \"v\""):
            t.parameter("v")

    def test_resumed_runs_have_the_same_bits(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.safetensors")
            whole, first, second = trainer(), trainer(), trainer()
            want = [whole.step(**data(seed)) for seed in range(4)]
            got = [first.step(**data(seed)) for seed in range(2)]
            first.save(path, {"epoch": "3"})
            self.assertEqual(second.load(path), {"epoch": "3"})
            got += [second.step(**data(seed)) for seed in range(2, 4)]
            self.assertEqual(got, want)
            np.testing.assert_array_equal(second.parameter("w"), whole.parameter("w"))

    def test_exported_models_answer_as_evaluate_does(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trained.onnx")
            t = trainer(lr=0.1)
            t.step(**data(0))
            t.export_onnx(path)
            x = data(5)["x"]
            np.testing.assert_allclose(kiln.compile(path, compile_mode="never", threads=1)(x), t.run(x=x)["y"], atol=1e-6)

    def test_schedules(self):
        t = trainer(schedule="step:every=1,factor=0.5", lr=1)
        rates = []
        for seed in range(3):
            rates.append(t.learning_rate)
            t.step(**data(seed))
        self.assertEqual(rates, [1, 0.5, 0.25])
        t.set_schedule("constant", 3)
        self.assertEqual(t.learning_rate, 3)


class Errors(unittest.TestCase):
    def test_what_is_wrong_is_said(self):
        for settings, message in (({"loss": "mean"}, "there are cross_entropy"), ({"optimizer": "adam:beta3=1"}, "no \"beta3\""),
                                  ({"schedule": "cosine:steps=1.5"}, "whole number"), ({"parameters": ["q*"]}, "\"q\\*\" names no constant"),
                                  ({"precision": "int8"}, "precision")):
            with self.assertRaisesRegex(kiln.InvalidArgumentError, message):
                trainer(**settings)
        with self.assertRaisesRegex(TypeError, "thread_count"):
            trainer(thread_count=1)
        t = trainer()
        with self.assertRaisesRegex(kiln.InvalidArgumentError, "element 1 of 2 is 7"):
            t.step(x=np.zeros((2, 3), "f"), labels=np.array([0, 7]))
        with self.assertRaisesRegex(kiln.InvalidArgumentError, "\"labels\" is not given"):
            t.step(x=np.zeros((2, 3), "f"))
        with self.assertRaises(kiln.NotFoundError):
            t.load("nosuch.safetensors")

    def test_schedules_that_are_none(self):
        for settings, message in (({"lr": float("nan")}, "lr is nan"), ({"lr": -1}, "lr is -1"), ({"schedule": "step:every=0"}, "every is 0"),
                                  ({"schedule": "cosine:steps=0"}, "steps is 0"), ({"schedule": "cosine"}, "steps is 0"),
                                  ({"schedule": "step"}, "every is 0"), ({"schedule": "constant:warmup=-1"}, "warmup is -1")):
            with self.assertRaisesRegex(kiln.InvalidArgumentError, message):
                trainer(**settings)
        t = trainer()
        with self.assertRaisesRegex(kiln.InvalidArgumentError, "lr is inf"):
            t.set_schedule("constant", float("inf"))

    def test_paths_with_nul(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a\0b")
            t, options = trainer(), kiln.CompileOptions()
            for call in (t.save, t.load, t.export_onnx, kiln.Trainer, kiln.compile, kiln.load, kiln.describe, kiln.Cache,
                         lambda path: kiln.compile(LINE, folder=path), lambda path: kiln.compile(LINE, name=path),
                         lambda path: kiln.Cache(folder, packs=[path]), lambda path: kiln.Cache(folder, shared_directory=path),
                         lambda path: setattr(options, "cache", path), lambda path: setattr(options, "codegen", path),
                         lambda path: setattr(options, "validator", path)):
                with self.assertRaisesRegex(kiln.InvalidArgumentError, "is NUL"):
                    call(path)
            self.assertEqual(os.listdir(folder), [])

    def test_two_threads_do_not_meet(self):
        t = trainer()
        refused = []

        def steps():
            for seed in range(100):
                try:
                    t.step(**data(seed))
                except kiln.FailedPreconditionError:
                    refused.append(seed)

        threads = [threading.Thread(target=steps) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(t.steps + len(refused), 300)


if __name__ == "__main__":
    unittest.main()
