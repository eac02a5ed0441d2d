# SPDX-License-Identifier: Apache-2.0
"""kiln.compile, Model, Context, Tensor and errors, with NumPy."""
import copy
import gc
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import numpy as np
import support

import kiln


def twice(dtype="f32", **settings):
    return kiln.compile(support.TWICE.format(dtype).encode(), name="twice.graph", threads=1, **settings)


def graph(text, **settings):
    return kiln.compile(text.encode(), name="test.graph", threads=1, **settings)


class Sources(unittest.TestCase):
    def test_path_bytes_and_views_of_bytes(self):
        text = pathlib.Path(support.SOFTMAX).read_bytes()
        x, mask = np.ones((2, 64), "f"), np.zeros(64, "f")
        for model in (support.SOFTMAX, pathlib.Path(support.SOFTMAX), text, bytearray(text), memoryview(text)):
            m = kiln.compile(model, name="s.graph", threads=1)
            self.assertAlmostEqual(float(m(x, mask)[0, 0]), 1 / 64)

    def test_bytes_live_as_long_as_the_model(self):
        m = graph(support.SUM)
        gc.collect()
        np.testing.assert_array_equal(m(np.ones(2, "f"), np.ones(2, "f")), [2, 2])

    def test_no_model(self):
        with self.assertRaisesRegex(kiln.InvalidArgumentError, "model: is a int, expected a path, bytes"):
            kiln.compile(3)
        with self.assertRaisesRegex(kiln.NotFoundError, "nosuch.onnx"):
            kiln.compile("nosuch.onnx")
        with self.assertRaises(kiln.DataLossError):
            kiln.compile(b"\xff\xff\xff\xff")

    def test_describe(self):
        told = kiln.describe(support.SOFTMAX)
        self.assertEqual([port.name for port in told.inputs], ["x", "mask"])
        self.assertEqual(told.inputs[0].shape, ("n", 64))
        self.assertEqual((told.form, told.unsupported), ("graph", []))

    def test_package(self):
        with tempfile.TemporaryDirectory() as folder:
            package = os.path.join(folder, "m.kiln")
            done = kiln._tree.run(["compile", support.SOFTMAX, "--dim", "n=2", "-o", package, "-q"])
            self.assertEqual(done.returncode, 0, done.stderr)
            for m in (kiln.load(package, threads=1), kiln.load(package, threads=1, validate=True), kiln.compile(package)):
                y = m(np.ones((2, 64), "f"), np.zeros(64, "f"))
                np.testing.assert_allclose(y, np.full((2, 64), 1 / 64))
            with self.assertRaisesRegex(TypeError, "graph_opt_level"):
                kiln.load(package, graph_opt_level=1)
            damaged = bytearray(pathlib.Path(package).read_bytes())
            damaged[len(damaged) // 2] ^= 1
            pathlib.Path(package).write_bytes(damaged)
            with self.assertRaises(kiln.DataLossError):
                kiln.load(package)


class Arrays(unittest.TestCase):
    def test_every_type(self):
        for name in ("float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
            short = name.replace("float", "f").replace("uint", "u").replace("int", "i")
            m = twice(short, compile_mode="never")
            self.assertEqual(m.inputs[0].dtype, name)
            y = m(np.array([[1, 2, 3]], name))
            self.assertEqual(y.dtype, np.dtype(name))
            np.testing.assert_array_equal(y, np.array([[2, 4, 6]], name))

    def test_bool(self):
        m = graph("graph b\ninput x : bool [3]\ny = not(x)\noutput y\n", compile_mode="never")
        np.testing.assert_array_equal(m(np.array([True, False, True])), [False, True, False])

    def test_bfloat16(self):
        try:
            import ml_dtypes
        except ImportError:
            self.skipTest("ml_dtypes is not installed")
        m = twice("bf16", compile_mode="never")
        x = np.arange(12).reshape(4, 3).astype(ml_dtypes.bfloat16)[::2]
        y = m(x)
        self.assertEqual(y.dtype, np.dtype(ml_dtypes.bfloat16))
        np.testing.assert_array_equal(y.astype("f"), 2 * x.astype("f"))
        x.setflags(write=False)
        with self.assertRaisesRegex(kiln.InvalidArgumentError, 'output "y": the array is read-only'):
            m(x, out=x)

    def test_strides(self):
        m = twice()
        whole = np.arange(24, dtype="f").reshape(8, 3)
        for x in (whole[::2], whole[::-1], whole.reshape(3, 8).T, np.broadcast_to(whole[:1], (4, 3)), whole[:0]):
            np.testing.assert_array_equal(m(x), 2 * x)
        pairs = np.zeros(4, dtype=[("a", "f4", 3), ("b", "i1")])
        with self.assertRaisesRegex(kiln.InvalidArgumentError, "stride 0 is 13 bytes, which is no multiple of its elements of 4"):
            m(pairs["a"])

    def test_objects_with_a_buffer(self):
        m = graph("graph b\ninput x : u8 [3]\ny = add(x, x)\noutput y\n", compile_mode="never")
        for x in (b"\1\2\3", bytearray(b"\1\2\3"), memoryview(b"\1\2\3"), kiln.Tensor(b"\1\2\3")):
            np.testing.assert_array_equal(m(x), [2, 4, 6])

    def test_what_is_no_array(self):
        m = twice()
        for x, why in ((np.ones((1, 3)), 'input "x": type is f64, expected f32'), (np.ones((2, 4), "f"), "dim 1 is 4, expected 3"),
                       (np.ones(3, "f"), r"shape is \[3\], expected \[n, 3\]"), (np.ones((1, 3), ">f4"), 'format ">f" and 4 bytes'),
                       (np.ones((1, 3), "F"), 'format "Zf"'), ([[1, 2, 3]], "is a list, expected an array"), ("abc", "is a str")):
            with self.assertRaisesRegex(kiln.InvalidArgumentError, why):
                m(x)

    def test_no_copy(self):
        y = twice()(np.ones((1, 3), "f"))
        self.assertIsInstance(y.base, kiln.Tensor)
        self.assertEqual(np.asarray(y.base).__array_interface__["data"], y.__array_interface__["data"])
        t = kiln.Tensor(y)
        self.assertEqual(np.from_dlpack(t).__array_interface__["data"][0], y.__array_interface__["data"][0])
        self.assertEqual(t.numpy().__array_interface__["data"], y.__array_interface__["data"])

    def test_output_outlives_the_model(self):
        m = graph(support.SAME)
        x = np.arange(1000, dtype="f")
        y = m(x)
        del m, x
        gc.collect()
        np.testing.assert_array_equal(y, np.arange(1000, dtype="f"))

    def test_inputs_are_given_back(self):
        m = twice()
        x, out = np.ones((1, 3), "f"), np.empty((1, 3), "f")
        for run in (lambda: m(x), lambda: m.run({"x": x}), lambda: m(x, out=out)):
            before = sys.getrefcount(x), sys.getrefcount(out)
            run()
            self.assertEqual((sys.getrefcount(x), sys.getrefcount(out)), before)


class Tensors(unittest.TestCase):
    def test_empty(self):
        t = kiln.empty((2, 3), "int16")
        self.assertEqual((t.shape, t.strides, t.dtype, t.nbytes), ((2, 3), (3, 1), "int16", 12))
        a = np.asarray(t)
        self.assertEqual(a.__array_interface__["data"][0] % 64, 0)
        a[:] = 7
        np.testing.assert_array_equal(np.from_dlpack(t), np.full((2, 3), 7))
        with self.assertRaisesRegex(kiln.InvalidArgumentError, 'dtype: is "float7"'):
            kiln.empty(3, "float7")
        with self.assertRaisesRegex(kiln.InvalidArgumentError, "extent is -1"):
            kiln.empty((2, -1))
        with self.assertRaises((MemoryError, ValueError)):
            kiln.empty((1 << 62, 1 << 62))

    def test_read_only_stays_so(self):
        t = kiln.Tensor(b"abc")
        self.assertTrue(memoryview(t).readonly)
        self.assertFalse(np.asarray(t).flags.writeable)
        self.assertRaises(BufferError, t.__dlpack__)

    def test_strided_and_bfloat16_buffers(self):
        t = kiln.Tensor(np.arange(6, dtype="f").reshape(2, 3).T)
        self.assertEqual(memoryview(t).strides, (4, 12))
        np.testing.assert_array_equal(np.asarray(t), np.arange(6, dtype="f").reshape(2, 3).T)
        with self.assertRaises(BufferError):
            memoryview(kiln.empty(3, "bfloat16"))

    def test_array_arguments(self):
        t = kiln.Tensor(np.ones(3, "f"))
        self.assertEqual(np.array(t, dtype="f8").dtype, np.dtype("f8"))
        self.assertFalse(np.shares_memory(np.array(t, copy=True), np.asarray(t)))


class Calls(unittest.TestCase):
    def test_ports_by_place_and_name(self):
        m = kiln.compile(support.SOFTMAX, threads=1)
        x, mask = np.ones((2, 64), "f"), np.zeros(64, "f")
        self.assertEqual(repr(m.inputs), "[<x: float32 [n, 64]>, <mask: float32 [64]>]")
        for y in (m(x, mask), m(x, mask=mask), m(mask=mask, x=x), m.run({"x": x, "mask": mask})["y"]):
            np.testing.assert_allclose(y, np.full((2, 64), 1 / 64))

    def test_wrong_ports(self):
        m = kiln.compile(support.SOFTMAX, threads=1)
        x, mask = np.ones((2, 64), "f"), np.zeros(64, "f")
        for call, why in ((lambda: m(x), 'input "mask": not bound'), (lambda: m(x, mask, z=x), 'input "z": the model has no such input'),
                          (lambda: m(x, mask, x=x), 'input "x": given twice'), (lambda: m(x, mask, mask), "3 arrays are given, and the model has 2"),
                          (lambda: m.run([x]), "inputs: is a list, expected a dict"),
                          (lambda: m(x, mask, out={"q": x}), 'out: the model has no output "q"'),
                          (lambda: m(x, mask, out=[x, x]), "out: has 2 arrays, and the model 1 outputs"),
                          (lambda: m(x, mask, out=mask), r'output "y": shape is \[64\], expected \[n, 64\]')):
            with self.assertRaisesRegex(kiln.Error, why):
                call()

    def test_several_outputs(self):
        m = graph(support.BOTH)
        x = np.arange(4, dtype="f")
        a, b = m(x)
        np.testing.assert_array_equal((a, b), (2 * x, x * x))
        out = np.empty(4, "f")
        for given in ({"b": out}, [None, out], (None, out)):
            out[:] = -1
            a, b = m(x, out=given)
            self.assertIs(b, out)
            np.testing.assert_array_equal((a, b), (2 * x, x * x))
        with self.assertRaisesRegex(kiln.InvalidArgumentError, "out: is one array, and the model has 2"):
            m(x, out=out)

    def test_out_is_not_written_later(self):
        """A context that was bound to an array of an earlier call never writes there again."""
        m = graph(support.BOTH)
        first = np.empty(4, "f")
        m(np.ones(4, "f"), out={"a": first})
        before = first.copy()
        for out in ({"b": np.empty(4, "f")}, {"a": np.empty(4, "f")}, [np.empty(4, "f"), np.empty(4, "f")]):
            m(np.full(4, 5, "f"), out=out)
        np.testing.assert_array_equal(first, before)

    def test_prepare_and_shapes(self):
        m = twice()
        m.prepare(x=(5, 3))
        self.assertEqual(m.output_shapes(x=(5, 3)), {"y": (5, 3)})
        with self.assertRaisesRegex(kiln.InvalidArgumentError, "expected whole numbers"):
            m.prepare(x=("a", 3))
        with self.assertRaisesRegex(kiln.InvalidArgumentError, "expected 3"):
            m.prepare(x=(5, 4))

    def test_update(self):
        m = graph("graph u\ninput x : f32 [2]\nconst w : f32 [2] = [1, 2]\ny = mul(x, w)\noutput y\n", updatable=["w"])
        x = np.ones(2, "f")
        np.testing.assert_array_equal(m(x), [1, 2])
        m.update("w", np.array([3, 4], "f"))
        np.testing.assert_array_equal(m(x), [3, 4])
        self.assertEqual(m.updatable[0].name, "w")
        with self.assertRaises(kiln.NotFoundError):
            m.update("v", x)

    def test_reports(self):
        m = kiln.compile(support.SOFTMAX, threads=1)
        x, mask = np.ones((2, 64), "f"), np.zeros(64, "f")
        launches = m.profile(x, mask)
        self.assertEqual([launch.kind for launch in launches], ["kernel"])
        self.assertGreater(launches[0].ms, 0)
        self.assertGreater(m.memory()["plans"], 0)
        m.trim()
        self.assertEqual(m.threads, 1)
        self.assertGreater(kiln.Runtime.default().metrics()["runs"], 0)

    def test_timeout_and_cancel(self):
        m = twice()
        x = np.ones((1, 3), "f")
        with self.assertRaises(kiln.DeadlineExceededError) as late:
            m.run({"x": x}, timeout=0)
        self.assertIsInstance(late.exception, TimeoutError)
        cancel = kiln.Cancel()
        m.run({"x": x}, cancel=cancel, timeout=60)
        cancel.set()
        with self.assertRaises(kiln.CancelledError):
            m.run({"x": x}, cancel=cancel)

    def test_timeouts_of_any_number(self):
        m, x = twice(), {"x": np.ones((1, 3), "f")}
        for timeout in (float("inf"), 1e300, 10**12, True):
            m.run(x, timeout=timeout)
        for timeout in (float("-inf"), -1e300, 0.0):
            with self.assertRaises(kiln.DeadlineExceededError):
                m.run(x, timeout=timeout)
        with self.assertRaisesRegex(kiln.InvalidArgumentError, "timeout: is nan"):
            m.run(x, timeout=float("nan"))
        with self.assertRaises(TypeError):
            m.run(x, timeout="1")
        with self.assertRaisesRegex(kiln.InvalidArgumentError, "cancel: is a str"):
            m.run(x, cancel="now")


class Contexts(unittest.TestCase):
    def test_bound_ports(self):
        m = kiln.compile(support.SOFTMAX, threads=1)
        c = m.context()
        x, y = np.ones((2, 64), "f"), np.empty((2, 64), "f")
        c.bind("x", x)
        c.bind("mask", np.zeros(64, "f"))
        c.bind_output("y", y)
        c.run()
        np.testing.assert_allclose(y, np.full((2, 64), 1 / 64))
        self.assertTrue(np.shares_memory(c.output("y"), y))
        self.assertEqual(c.report()["kernel_launches"], 1)
        self.assertEqual(len(c.profile()), 1)
        y.setflags(write=False)
        with self.assertRaisesRegex(kiln.InvalidArgumentError, "read-only"):
            c.bind_output("y", y)

    def test_outputs_stay_as_they_are(self):
        c = graph(support.BOTH).context()
        first = c(x=np.ones(100, "f"))["a"]
        c(x=np.full(100, 9, "f"))
        c.trim()
        np.testing.assert_array_equal(first, np.full(100, 2))

    def test_wanted_outputs_and_parts(self):
        c = graph(support.BOTH).context()
        c.set_outputs(["b"])
        c.bind_parts("x", [np.array([1, 2], "f"), np.array([3], "f")])
        c.run()
        np.testing.assert_array_equal(c.output("b"), [1, 4, 9])
        with self.assertRaisesRegex(kiln.FailedPreconditionError, "not computed"):
            c.output("a")

    def test_order_of_calls(self):
        c = graph(support.BOTH).context()
        with self.assertRaises(kiln.FailedPreconditionError) as early:
            c.output("a")
        self.assertEqual(early.exception.code, kiln.Code.FAILED_PRECONDITION)

    def test_states(self):
        m = graph(support.SUM, states=[("total", "next")])
        c = m.context()
        for _ in range(3):
            c(x=np.ones(2, "f"))
        np.testing.assert_array_equal(c.state("total"), [3, 3])
        c.set_state("total", np.array([10, 20], "f"))
        c(x=np.ones(2, "f"))
        np.testing.assert_array_equal(c.state("total"), [11, 21])
        c.reset_states()
        np.testing.assert_array_equal(c.state("total"), [0, 0])

    def test_two_threads_in_one_context(self):
        c = twice().context()
        c.bind("x", np.ones((200_000, 3), "f"))
        refused, right = [], []

        def many():
            for _ in range(50):
                try:
                    c.run()
                    right.append(1)
                except kiln.FailedPreconditionError as error:
                    refused.append(str(error))

        threads = [threading.Thread(target=many) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertTrue(right)
        for message in refused:
            self.assertIn("another thread uses it", message)


class Options(unittest.TestCase):
    def test_settings_and_attributes(self):
        options = kiln.CompileOptions()
        options.threads, options.math, options.states = 3, "strict", [("a", "b")]
        made = copy.copy(options)
        made.threads = 4
        self.assertEqual((options.threads, made.threads, made.states), (3, 4, [("a", "b")]))
        self.assertEqual(options.compile_mode, "block")
        options.cache = pathlib.Path("/nowhere")
        self.assertEqual(options.cache, "/nowhere")
        options.cache = False
        self.assertIs(options.cache, False)
        m = kiln.compile(support.SOFTMAX, options, cache=None, states=[], threads=2)
        self.assertEqual(m.threads, 2)

    def test_wrong_ones(self):
        for settings, error, why in (
                ({"thread": 1}, TypeError, 'did you mean "threads"'), ({"threads": "a"}, kiln.InvalidArgumentError, "'a'"),
                ({"threads": -1}, kiln.InvalidArgumentError, "-1"), ({"math": "slow"}, kiln.InvalidArgumentError, "strict or fast"),
                ({"math": "fast"}, kiln.UnimplementedError, "fast"), ({"target": "z80"}, kiln.InvalidArgumentError, "z80"),
                ({"output_memory": "reused"}, kiln.InvalidArgumentError, "not for Python"),
                ({"graph_opt_level": 9}, kiln.InvalidArgumentError, "9")):
            with self.assertRaisesRegex(error, why):
                kiln.compile(support.SOFTMAX, **settings)

    def test_cache(self):
        events = []
        with tempfile.TemporaryDirectory() as folder:
            for counted in ("published", "hits"):
                cache = kiln.Cache(folder, on_event=lambda kind, key, target, ms: events.append((kind, len(key))))
                self.assertEqual(os.path.realpath(cache.directory), os.path.realpath(folder))
                m = kiln.compile(support.SOFTMAX, threads=1, cache=cache)
                m(np.ones((2, 64), "f"), np.zeros(64, "f"))
                for _ in range(200):  # published by a thread
                    if cache.counters()[counted] > 0:
                        break
                    time.sleep(0.05)
                self.assertGreater(cache.counters()[counted], 0, counted)
                del m, cache
        self.assertIn(("miss", 32), events)
        self.assertIn(("hit", 32), events)

    def test_a_device(self):
        runtime = kiln.Runtime(device="cuda-emulated", require_device=True)
        m = twice(runtime=runtime)
        np.testing.assert_array_equal(m(np.ones((1, 3), "f")), [[2, 2, 2]])
        self.assertGreater(m.memory()["device_arenas"], 0)
        with self.assertRaisesRegex(kiln.FailedPreconditionError, "require_device"):
            twice(runtime=runtime, compile_mode="never")

    def test_runtime(self):
        runtime = kiln.Runtime(threads=2, memory_budget=1 << 20)
        m = kiln.compile(support.TWICE.format("f32").encode(), name="t.graph", runtime=runtime)
        self.assertEqual((runtime.threads, m.threads), (2, 2))
        m(np.ones((1, 3), "f"))
        self.assertEqual(runtime.metrics()["runs"], 1)
        with self.assertRaises(kiln.ResourceExhaustedError) as full:
            m(np.ones((1_000_000, 3), "f"))
        self.assertIsInstance(full.exception, MemoryError)


class Threads(unittest.TestCase):
    def test_runs_give_the_gil_up(self):
        """While one thread runs for long, another goes on."""
        text = "graph g\ninput x : f32 [n, 3]\na = exp(x)\nb = log(a)\nc = exp(b)\ny = log(c)\noutput y\n"
        m = graph(text, compile_mode="never")
        x = np.ones((600_000, 3), "f")
        seconds, ticks = [], []
        done = threading.Event()

        def run():
            begin = time.monotonic()
            m(x)
            seconds.append(time.monotonic() - begin)
            done.set()

        thread = threading.Thread(target=run)
        thread.start()
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)
        thread.join()
        self.assertGreater(len(ticks), 5, seconds)

    def test_many_callers(self):
        m = kiln.compile(support.SOFTMAX, threads=2)
        wrong = []

        def many(k):
            x, mask, out = np.full((k + 1, 64), k, "f"), np.zeros(64, "f"), np.empty((k + 1, 64), "f")
            for turn in range(60):
                y = m(x, mask) if turn % 2 else m(x, mask, out=out)
                if not np.allclose(y, 1 / 64):
                    wrong.append(k)

        threads = [threading.Thread(target=many, args=(k,)) for k in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_first_calls_at_once(self):
        """What a first call imports gives the GIL up meanwhile."""
        script = ("import kiln, numpy, support, threading\n"
                  "m = kiln.compile(support.SOFTMAX, threads=1)\n"
                  "x, mask = numpy.ones((2, 64), 'f'), numpy.zeros(64, 'f')\n"
                  "threads = [threading.Thread(target=m, args=(x, mask)) for _ in range(4)]\n"
                  "for thread in threads: thread.start()\n")
        for _ in range(5):
            subprocess.run([sys.executable, "-c", script], timeout=30, check=True, cwd=support.ROOT / "tests/python")


class Log(unittest.TestCase):
    def test_lines_go_to_logging(self):
        kiln.set_log_level("debug")
        try:
            with self.assertLogs("kiln", logging.DEBUG) as caught:
                kiln.compile(support.SOFTMAX, threads=1, cache="/proc/nowhere")
        finally:
            kiln.set_log_level("warning")
        self.assertTrue(any(record.levelno == logging.WARNING for record in caught.records), caught.output)
        with self.assertRaisesRegex(kiln.InvalidArgumentError, 'level: is "loud"'):
            kiln.set_log_level("loud")

    def test_a_process_ends_quietly(self):
        """Models, contexts, outputs and waiting lines are there when the interpreter ends."""
        script = ("import kiln, numpy, support, tempfile\nkiln.set_log_level('debug')\n"
                  "m = kiln.compile(support.SOFTMAX, threads=2, compile_mode='background', cache=False)\nc = m.context()\n"
                  "cache = kiln.Cache(tempfile.mkdtemp(), on_event=lambda *event: cache)\n"
                  "y = m(numpy.ones((2, 64), 'f'), numpy.zeros(64, 'f'))\n"
                  "t = kiln.compile(open(support.SOFTMAX, 'rb').read(), name='s.graph', compile_mode='background', cache=False)\n")
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False,
                              cwd=support.ROOT / "tests/python")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_process_ends_while_daemon_threads_run(self):
        script = ("import kiln, numpy, support, threading, time\n"
                  "m = kiln.compile(support.SOFTMAX, threads=1)\n"
                  "x, mask = numpy.ones((20000, 64), 'f'), numpy.zeros(64, 'f')\n"
                  "m(x, mask)\n"
                  "def run():\n"
                  "    while True: m(x, mask)\n"
                  "for _ in range(2): threading.Thread(target=run, daemon=True).start()\n"
                  "time.sleep(0.1)\n")
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False,
                              cwd=support.ROOT / "tests/python")
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Tools(unittest.TestCase):
    def test_explain(self):
        told = kiln.explain(support.SOFTMAX)
        self.assertTrue(all(edge["fused"] for edge in told["edges"]))
        with self.assertRaises(kiln.InvalidArgumentError):  # exit 3
            kiln.explain(b"\xff\xff\xff\xff")

    def test_doctor(self):
        told = kiln.doctor()
        self.assertIn("compiler", [check["name"] for check in told["checks"]])


if __name__ == "__main__":
    unittest.main()
