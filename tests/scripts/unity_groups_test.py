# SPDX-License-Identifier: Apache-2.0
"""cmake/unity_groups.py: which sources are compiled together."""
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "cmake"))
import unity_groups  # noqa: E402


class Groups(unittest.TestCase):
    def grouped(self, most=8, **files):
        """The names of the sources in each group; x_h is the header x.h."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        root = pathlib.Path(folder.name)
        for name, text in files.items():
            (root / (name.replace("_h", ".h") if name.endswith("_h") else f"{name}.cc")).write_text(text)
        sources = [str(root / f"{name}.cc") for name in sorted(files) if not name.endswith("_h")]
        made = unity_groups.groups(sources, [str(root)], most)
        return ["".join(pathlib.Path(source).stem for source in group) for group in made]

    def private(self, text):
        return f"namespace kiln {{\nnamespace {{\n{text}\n}}  // namespace\n}}  // namespace kiln\n"

    def test_sources_with_nothing_in_common_share_a_group(self):
        self.assertEqual(self.grouped(a=self.private("int F() { return 1; }"), b=self.private("int G() { return 2; }")), ["ab"])

    def test_private_names_that_clash(self):
        for one in ("int F() { return 1; }", "constexpr int F = 1;", "struct F {\n  int x;\n};", "enum class F { kA };",
                    "using F = int;", "template <typename T>\nT F(T x) {\n  return x;\n}", "const char* const F[] = {\"a\"};",
                    "std::vector<std::pair<int, long>> F(const std::string& x,\n      int y) {\n  return {};\n}", "thread_local int F = 1;",
                    "enum { F, G };", "int F(\n    int x);"):
            with self.subTest(one):
                self.assertEqual(self.grouped(a=self.private(one), b=self.private("bool F(double) { return true; }")), ["a", "b"])

    def test_the_last_of_several_private_names(self):
        def source(first):
            return self.private(f"int {first}() {{\n  return 1;\n}}\nint F() {{\n  return 1;\n}}")
        self.assertEqual(self.grouped(a=source("G"), b=source("H")), ["a", "b"])

    def test_a_private_name_would_be_found_by_another_source(self):
        self.assertEqual(self.grouped(a=self.private("int F(int) { return 1; }"), b="int G() { return F(1L); }\n"), ["a", "b"])
        self.assertEqual(self.grouped(a=self.private("int F(int) { return 1; }"), b="int G() { return x.F(1L) + y->F(2) + N::F(3); }\n"), ["ab"])
        self.assertEqual(self.grouped(a=self.private("int F(int) { return 1; }"), b="// F\nconst char* g = \"F(1)\";\n"), ["ab"])

    def test_a_header_of_another_source_has_that_name(self):
        self.assertEqual(self.grouped(a=self.private("int F(int) { return 1; }"), b='#include "one.h"\n', one_h='#include "two.h"\n',
                                      two_h="int F(long);\n"), ["a", "b"])

    def test_members_have_names_of_their_own(self):
        private = self.private("int F(int) { return 1; }")
        self.assertEqual(self.grouped(a=private, b="struct S {\n  std::vector<int> F(long x);\n};\n"), ["ab"])
        for use in ("return F(1L);", "int x = F(1L);", "x = y + F(1L);", "F(1L);", "g(1, F(1L));", "if (x) F(1L);", "else F(1L);"):
            with self.subTest(use):
                self.assertEqual(self.grouped(a=private, b=f"void G() {{\n  {use}\n}}\n"), ["a", "b"])

    def test_static_functions_and_macros(self):
        self.assertEqual(self.grouped(a="static int F(int x) { return x; }\n", b="int G() { return F(1L); }\n"), ["a", "b"])
        self.assertEqual(self.grouped(a="#define F 1\n", b="int F = 2;\n"), ["a", "b"])

    def test_names_for_the_names_of_others(self):
        self.assertEqual(self.grouped(a="using Halide::Expr;\n", b="using Halide::Expr;\nExpr f();\n"), ["ab"])
        self.assertEqual(self.grouped(a="using Halide::Expr;\n", b="Expr f();\n"), ["a", "b"])
        self.assertEqual(self.grouped(a="using Expr = int;\n", b="using Expr = long;\nExpr f();\n"), ["a", "b"])

    def test_as_many_as_asked_for_in_order(self):
        files = {name: self.private(f"int F{name}() {{ return 1; }}") for name in "abcde"}
        self.assertEqual(self.grouped(most=2, **files), ["ab", "cd", "e"])

    def test_each_source_of_the_project_is_in_one_group(self):
        for component in ("graph", "fusion", "exec"):
            sources = sorted(str(path) for path in (ROOT / component).glob("*.cc"))
            made = unity_groups.groups(sources, [str(ROOT), str(ROOT / "include")], 8)
            self.assertEqual(sorted(sum(made, [])), sources)
            self.assertLess(len(made), len(sources) / 2)  # else they gain nothing


if __name__ == "__main__":
    unittest.main()
