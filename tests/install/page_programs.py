# SPDX-License-Identifier: Apache-2.0
"""usage: page_programs.py PAGE DIRECTORY
Writes the blocks of code of a page as programs, a function for each block: DIRECTORY/page.cc of those in ```cpp, page.c of ```c and page17.cc of ```cpp17.
A block in cpp may return an absl::Status, the others return 0 where all is well. The programs exit with 1 where a block fails."""
import pathlib
import re
import sys

HEADERS = ("cache", "compile", "dim", "gradients", "graph", "trainer", "log", "model", "options", "runtime", "status", "target", "tensor")
FORMS = {  # language: file, includes, head of a function, its end, main
    "cpp": ("page.cc", "#include <cstdint>\n#include <iostream>\n#include <memory>\n#include <string>\n#include <utility>\n#include <vector>\n"
            + "".join(f'#include "kiln/{name}.h"\n' for name in HEADERS), "static absl::Status Block{}() {{", "return absl::OkStatus();\n",
            "int main() {{\n  for (const auto block : {{{}}}) {{\n    const absl::Status status = block();\n    if (status.ok()) continue;\n"
            "    std::cerr << status << \"\\n\";\n    return 1;\n  }}\n  return 0;\n}}\n"),
    "c": ("page.c", "#include <stdio.h>\n#include \"kiln/kiln.h\"\n", "static int Block{}(void) {{", "",
          "int main(void) {{\n  int (*const blocks[])(void) = {{{}}};\n  int failed = 0;\n"
          "  for (size_t k = 0; k < sizeof blocks / sizeof blocks[0]; ++k) failed |= blocks[k]();\n  return failed;\n}}\n"),
    "cpp17": ("page17.cc", "#include <iostream>\n#include \"kiln/kiln.hpp\"\n", "static int Block{}() {{", "",
              "int main() {{\n  int failed = 0;\n  for (const auto block : {{{}}}) failed |= block();\n  return failed;\n}}\n"),
}


def main():
    text, directory = pathlib.Path(sys.argv[1]).read_text(), pathlib.Path(sys.argv[2])
    for language, (name, includes, head, end, caller) in FORMS.items():
        found = re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)
        if not found:
            sys.exit(f"{sys.argv[1]}: has no block of {language}")
        functions = [head.format(k) + "\n" + block + end + "}\n" for k, block in enumerate(found)]
        names = ", ".join(f"Block{k}" for k in range(len(found)))
        (directory / name).write_text("\n".join([includes, *functions, caller.format(names)]))


if __name__ == "__main__":
    main()
