# SPDX-License-Identifier: Apache-2.0
"""tests/training/networks are what bench/training/files.py writes, with torch's figures for every parameter."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
STORED = ROOT / "tests" / "training" / "networks"


class TrainingNetworksTest(unittest.TestCase):
    def test_stored_files_are_up_to_date(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(STORED, folder, dirs_exist_ok=True)
            subprocess.run([sys.executable, "-B", ROOT / "bench" / "training" / "files.py", "--small", folder], check=True)
            made = sorted(p.name for p in pathlib.Path(folder).iterdir())
            self.assertEqual(made, sorted(p.name for p in STORED.iterdir()))
            self.assertEqual(len(made), 24)
            for name in made:
                with self.subTest(name):
                    self.assertEqual(pathlib.Path(folder, name).read_text(), (STORED / name).read_text())

    def test_every_parameter_has_figures(self):
        for path in sorted(STORED.glob("*.json")):
            with self.subTest(path.name):
                record = json.loads(path.read_text())
                parameters = [name for name, (role, *_) in record["ports"].items() if role == "parameter"]
                self.assertEqual(sorted(record["gradients"]), sorted(parameters))
                self.assertGreaterEqual(len(record["curve"]["losses"]), 10)


if __name__ == "__main__":
    unittest.main()
