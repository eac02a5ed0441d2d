# SPDX-License-Identifier: Apache-2.0
"""bench/make_models.py --tiny writes networks that Kiln imports and runs as its float64 interpreter does. Usage: make_models_test.py KILN"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
KILN = ""


def make(folder, *options):
    made = subprocess.run([sys.executable, "-B", ROOT / "bench" / "make_models.py", folder, "--tiny", *options], check=True,
                          capture_output=True, text=True)
    return [pathlib.Path(line) for line in made.stdout.splitlines()]


def kiln(folder, *arguments):
    return subprocess.run([KILN, *arguments], env={"KILN_CACHE_DIR": folder + "/cache"}, capture_output=True, text=True)


class MakeModelsTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name

    def test_every_network_agrees_with_the_interpreter(self):
        paths = make(self.folder)
        self.assertGreaterEqual(len(paths), 8)
        for path in paths:
            with self.subTest(path.parent.name):
                verified = kiln(self.folder, "verify", path, "--compile-mode", "never")
                self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)
                self.assertIn("ok", verified.stdout)

    def test_a_batch_is_the_first_dim_of_what_goes_in_and_out(self):
        (path,) = make(self.folder, "--batch", "3", "bert_base")
        shown = kiln(self.folder, "inspect", path).stdout
        self.assertIn("input   input_ids : i64 [3,16]", shown)
        self.assertIn(": f32 [3,16,32]", shown)

    def test_a_name_always_gives_the_same_file(self):
        first, second = (make(f"{self.folder}/{which}", "unet")[0] for which in ("a", "b"))
        self.assertEqual(first.read_bytes(), second.read_bytes())


if __name__ == "__main__":
    KILN = sys.argv.pop(1)
    unittest.main()
