# SPDX-License-Identifier: Apache-2.0
"""bench/compare with two stand-ins for kiln: what it asks for, in which order, and what it makes of the answers."""
import json
import os
import pathlib
import stat
import struct
import subprocess
import sys
import tempfile
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))
import comparison
import graph_to_onnx
import kernels
import tensors

# Speaks what bench/compare needs of kiln's command line; the settings are filled in by make_kiln.
KILN = '''#!{python} -IS
import json, os, sys
name, ms, result, compile, refuses = {settings!r}
arguments = sys.argv[1:]
def note(what):
    with open({log!r}, "a") as log:
        log.write(name + " " + what + "\\n")
if arguments == ["--version"]:
    print("kiln 0.1.0 stand-in")
elif arguments[0] == "inspect":
    print(json.dumps(dict(results=dict(inputs=[dict(name="x", dtype="f32", shape=["n", 3])]))))
elif arguments[0] == "run" and "--output" in arguments:
    open(arguments[arguments.index("--output") + 1].split("=@")[1], "w").write(result)
elif arguments[0] == "bench" and "--iters" in arguments:
    note("bench")
    print(json.dumps(dict(results=dict(latency_ms=dict(min=ms, p50=2 * ms)))))
elif arguments[0] == "run":
    note("run " + " ".join(a for a in arguments if a.startswith("--")) + " fresh=" + str(not os.path.exists(os.environ["KILN_CACHE_DIR"] + "/used")))
    open(os.environ["KILN_CACHE_DIR"] + "/used", "w").close()
    print(json.dumps(dict(results=dict(compile=compile))))
else:
    note("serve " + " ".join(arguments))
    for line in sys.stdin:
        request = json.loads(line)
        if request["cmd"] == "load":
            text = open(request["onnx"]).read()
            if refuses and refuses in text:
                print(json.dumps(dict(ok=False, error="refused")), flush=True)
                continue
            assert all(os.path.getsize(path) for path in request["inputs"].values())
            if request["results"]:
                open(request["results"] + "0.npy", "w").write(result)
            print(json.dumps(dict(ok=True, results=1)), flush=True)
        else:
            note("time " + str(request["n"]))
            print(json.dumps(dict(ms=[ms * (1 + i / 10) for i in range(request["n"])])), flush=True)
'''


class CompareTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        self.log = self.folder / "log"
        self.log.write_text("")

    def kiln(self, name, ms=1.0, result="same", compile=None, refuses=""):
        path = self.folder / name / "kiln"
        path.parent.mkdir()
        path.write_text(KILN.format(python=sys.executable, settings=(name, ms, result, compile, refuses), log=str(self.log)))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def compare(self, old, new, *arguments):
        """(the process, its JSON or None)."""
        out = self.folder / "out.json"
        done = subprocess.run([sys.executable, str(BENCH / "compare"), "--old", str(old), "--new", str(new), "--json", str(out),
                               "--round-ms", "5", *arguments], capture_output=True, text=True)
        return done, json.loads(out.read_text()) if out.exists() else None


class Warm(CompareTest):
    def test_rounds_alternate_and_begin_with_either_side_in_turn(self):
        done, _ = self.compare(self.kiln("old"), self.kiln("new"), "--rounds", "6", "k12")
        self.assertEqual(done.returncode, 0, done.stderr)
        served = [line.split()[0] for line in self.log.read_text().splitlines() if " serve " in line]
        self.assertEqual(served[:2], ["old", "new"])  # these build the kernels
        self.assertEqual(served[2:], ["old", "new", "new", "old"] * 3)

    def test_ratios_above_1_mean_that_the_new_one_is_faster(self):
        done, report = self.compare(self.kiln("old", ms=3), self.kiln("new", ms=2), "k12", "k5_ln_512x768")
        self.assertEqual([row["row"] for row in report["rows"]], ["k12", "k5_ln_512x768"])
        for row in report["rows"]:
            self.assertAlmostEqual(row["ratio"]["min"], 1.5)
            self.assertAlmostEqual(row["ratio"]["median"], 1.5)
            self.assertEqual(len(row["ratio"]["by_round"]), 5)
        self.assertAlmostEqual(report["geomean"]["all"]["min"], 1.5)
        self.assertIn("geometric mean of all, 2 rows: 1.500 (minima), 1.500 (medians)", done.stdout)

    def test_the_report_says_what_was_measured_where(self):
        _, report = self.compare(self.kiln("old"), self.kiln("new"), "k12")
        self.assertEqual((report["schema"], report["mode"], report["threads"], report["rounds"]), ("kiln.compare/1", "warm", 1, 5))
        self.assertIn("cpu", report["machine"])
        self.assertEqual(report["old"]["version"], "kiln 0.1.0 stand-in")
        self.assertEqual({"commit", "changed", "program_sha256", "version"}, set(report["new"]))

    def test_results_of_other_bits_are_told(self):
        _, report = self.compare(self.kiln("old"), self.kiln("new", result="other"), "k12")
        self.assertFalse(report["rows"][0]["same_bits"])
        _, report = self.compare(self.folder / "old/kiln", self.folder / "old/kiln", "k12")
        self.assertTrue(report["rows"][0]["same_bits"])

    def test_a_row_that_one_side_cannot_run_is_left_out_and_is_exit_1(self):
        done, report = self.compare(self.kiln("old", refuses="k12"), self.kiln("new"), "k12", "k5_ln_512x768")
        self.assertEqual(done.returncode, 1)
        self.assertEqual([row["row"] for row in report["rows"]], ["k5_ln_512x768"])
        self.assertEqual(report["errors"], [{"row": "k12", "dtype": "f32", "error": "old: refused"}])

    def test_a_side_that_dies_is_an_error_of_its_row(self):
        dead = self.folder / "dead"
        dead.write_text("#!/bin/sh\nexit 1\n")
        dead.chmod(0o755)
        done, report = self.compare(self.kiln("old"), dead, "k12")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(len(report["errors"]), 1)

    def test_types_of_graphs(self):
        _, report = self.compare(self.kiln("old"), self.kiln("new"), "--dtype", "f16,bf16", "k12", "k16")
        self.assertEqual([(row["row"], row["dtype"]) for row in report["rows"]],
                         [("k12", "f16"), ("k16", "f16"), ("k12", "bf16"), ("k16", "bf16")])
        self.assertEqual(set(report["geomean"]), {"all", "f16", "bf16"})
        self.assertEqual([row["by"] for row in report["rows"]], ["serve", "serve", "bench", "bench"])
        self.assertTrue(all(row["same_bits"] for row in report["rows"]))

    def test_flags_for_one_side_alone(self):
        self.compare(self.kiln("old"), self.kiln("new"), "--old-args=--rules greedy", "--threads", "1", "k12")
        log = self.log.read_text()
        self.assertIn("old serve bench --serve -O3 --threads 1 --rules greedy\n", log)
        self.assertIn("new serve bench --serve -O3 --threads 1\n", log)

    def test_models_are_timed_as_they_are(self):
        model = self.folder / "net.onnx"
        model.write_text("model")
        _, report = self.compare(self.kiln("old"), self.kiln("new"), "--dtype", "f16", "--dim", "n=2", str(model))
        self.assertEqual([(row["row"], row["dtype"]) for row in report["rows"]], [("net", "as is")])

    def test_wrong_usage(self):
        old, new = self.kiln("old"), self.kiln("new")
        for arguments in (["--rounds", "4", "k12"], ["--dtype", "i8", "k12"], ["nothing"], ["--threads", "0", "k12"]):
            self.assertEqual(self.compare(old, new, *arguments)[0].returncode, 2, arguments)
        self.assertEqual(self.compare(self.folder / "none", new, "k12")[0].returncode, 2)


class Cold(CompareTest):
    NEW = {"kernels": 2, "built": 2, "build_ms": 30.0, "validate_ms": 10.0, "ms": 50.0}
    OLD = {"kernels": 2, "built": 2, "ms": 50.0}  # a build that does not tell the two times apart

    def test_every_process_has_an_empty_cache(self):
        done, report = self.compare(self.kiln("old", compile=self.OLD), self.kiln("new", compile=self.NEW), "--cold", "k12")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = self.log.read_text().splitlines()
        self.assertEqual([line.split()[0] for line in lines], ["old", "new", "new", "old", "old", "new", "new", "old", "old", "new"])
        self.assertTrue(all(line.endswith("fresh=True") and "--compile-mode" in line for line in lines))

    def test_the_floor_is_what_all_cores_need_for_builds_and_validations(self):
        _, report = self.compare(self.kiln("old", compile=self.OLD), self.kiln("new", compile=self.NEW), "--cold", "k12")
        row = report["rows"][0]
        self.assertEqual((row["new"]["floor_ms"], row["old"]["floor_ms"]), (40.0, None))
        self.assertEqual(row["new"]["compile"], self.NEW)
        self.assertGreater(row["new"]["over_floor"], 0)
        self.assertGreaterEqual(row["new"]["process_ms"], row["new"]["min_ms"])
        self.assertEqual(comparison.floor_ms(self.NEW, 2), 20.0)


class Summary(unittest.TestCase):
    def test_minima_medians_and_spread(self):
        found = comparison.summary({"old": [(4, 5), (2, 9)], "new": [(1, 3), (2, 4)]})
        self.assertEqual((found["old"]["min_ms"], found["old"]["median_ms"]), (2, 7))
        self.assertEqual(found["ratio"], {"min": 2.0, "median": 2.0, "by_round": [4.0, 1.0], "low": 1.0, "high": 4.0})
        self.assertEqual(found["old"]["round_spread"], 2.0)

    def test_turns(self):
        self.assertEqual(list(comparison.in_turns(["o", "n"], 3)), ["o", "n", "n", "o", "o", "n"])

    def test_geometric_means(self):
        rows = [{"dtype": "f16", "ratio": dict.fromkeys(("min", "median", "low", "high"), 2.0)},
                {"dtype": "f32", "ratio": dict.fromkeys(("min", "median", "low", "high"), 0.5)}]
        found = comparison.means(rows)
        self.assertAlmostEqual(found["all"]["min"], 1.0)
        self.assertAlmostEqual(found["f16"]["min"], 2.0)
        self.assertEqual(comparison.means([]), {})


class Graphs(unittest.TestCase):
    def test_every_graph_has_a_form_of_each_type(self):
        for row in kernels.every_row():
            lines = (BENCH / "kernels" / f"{row}.graph").read_text().splitlines()
            text = "\n".join(line for line in lines if not line.startswith("#"))
            for dtype in ("f16", "bf16", "f64"):
                changed = kernels.with_type(text, dtype)
                self.assertNotIn("f32", changed, row)
                self.assertEqual(changed.replace(dtype, "f32"), text, row)
                self.assertEqual({n: s for n, (_, s) in graph_to_onnx.ports(changed).items()},
                                 {n: s for n, (_, s) in graph_to_onnx.ports(text).items()})

    def test_other_types_stay(self):
        types = [t for t, _ in graph_to_onnx.ports(kernels.with_type((BENCH / "kernels/k17.graph").read_text(), "f16")).values()]
        self.assertEqual(types, ["u8", "f16", "u8", "f16", "u8"])

    def test_names(self):
        self.assertEqual(kernels.rows_named(["k14"]), ["k14_argmax", "k14_col", "k14_full", "k14_row"])
        self.assertEqual(kernels.rows_named(["k1_64K"]), ["k1_64K"])
        self.assertEqual(kernels.rows_named([]), kernels.every_row())


class Tensors(unittest.TestCase):
    def read(self, path):
        """(type, shape, bytes) of a .npy file."""
        content = pathlib.Path(path).read_bytes()
        self.assertEqual(content[:8], b"\x93NUMPY\x01\x00")
        end = 10 + struct.unpack("<H", content[8:10])[0]
        self.assertEqual(end % 64, 0)
        header = eval(content[10:end])  # a literal, by the format
        self.assertFalse(header["fortran_order"])
        return header["descr"], header["shape"], content[end:]

    def test_files_hold_the_values_in_every_type(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.npy")
            for dtype, (descr, code) in tensors.TYPES.items():
                tensors.write_npy(path, dtype, [2, 3], [0, 1, 1, 0, 1])
                want = struct.pack("<6" + code, 0, 1, 1, 0, 1, 0) if dtype != "bf16" else bytes.fromhex("0000803f803f0000803f0000")
                self.assertEqual(self.read(path), (descr, (2, 3), want), dtype)

    def test_scalars_and_empty_tensors(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.npy")
            tensors.write_npy(path, "i64", [], [7, 8])
            self.assertEqual(self.read(path), ("<i8", (), struct.pack("<q", 7)))
            tensors.write_npy(path, "f32", [0, 4], [1.0])
            self.assertEqual(self.read(path), ("<f4", (0, 4), b""))

    def test_values_are_ordinary_numbers(self):
        for dtype in tensors.TYPES:
            for values in (tensors.kernel_values(dtype), tensors.model_values(dtype)):
                self.assertEqual(len(values), tensors.BLOCK)
                self.assertTrue(tensors.encode(dtype, values[:100]))
        self.assertTrue(all(.1 <= v < 1.1 for v in tensors.kernel_values("f32")))


if __name__ == "__main__":
    unittest.main()
