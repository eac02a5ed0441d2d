# SPDX-License-Identifier: Apache-2.0
"""What the tests of the Python package share: small models, and a cache of their own."""
import os
import pathlib
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = os.environ.get("KILN_CACHE_DIR") or tempfile.mkdtemp(prefix="kiln-test-")

SOFTMAX = str(ROOT / "examples/masked_softmax.graph")
#: y = x + x for any n, in a type.
TWICE = "graph twice\ninput x : {0} [n, 3]\ny = add(x, x)\noutput y\n"
#: What a context keeps: total += x.
SUM = "graph sum\ninput x : f32 [2]\ninput total : f32 [2]\nnext = add(total, x)\noutput next\n"
#: Two outputs.
BOTH = "graph both\ninput x : f32 [n]\na = add(x, x)\nb = mul(x, x)\noutput a\noutput b\n"
#: An output that is an input.
SAME = "graph same\ninput x : f32 [n]\noutput x\n"
