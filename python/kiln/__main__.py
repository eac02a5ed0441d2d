# SPDX-License-Identifier: Apache-2.0
"""python -m kiln."""
from kiln._cli import main

main()
