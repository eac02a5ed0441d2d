# SPDX-License-Identifier: Apache-2.0
"""What scripts/lint finds in texts."""
import importlib.machinery
import importlib.util
import pathlib
import unittest

PATH = pathlib.Path(__file__).resolve().parents[2] / "scripts/lint"
LOADER = importlib.machinery.SourceFileLoader("lint", str(PATH))
lint = importlib.util.module_from_spec(importlib.util.spec_from_loader("lint", LOADER))
LOADER.exec_module(lint)

PROTO = """
syntax = "proto3";
message Buffer {
  enum Kind {
    TEMPORARY = 0;
    INPUT = 1;
    STATE = 2;  // buffer.kind() == Buffer::STATE
  }
  Kind kind = 1;
  repeated int32 sizes = 2;
  string Device = 3;
}
message Program {
  oneof of {
    Buffer buffer = 1;
    Loop loop = 2;
  }
}
message Loop {}
message Unused {}
"""


class DeadPartsTest(unittest.TestCase):
    def dead(self, code):
        return sorted(lint.dead_parts(PROTO, code))

    def test_everything_is_dead_without_code(self):
        self.assertEqual(self.dead(""), [
            "enum value INPUT", "enum value STATE", "field Device", "field buffer", "field kind", "field loop",
            "field sizes", "message Program", "message Unused"])

    def test_accessors_enum_values_and_names_of_messages_are_uses(self):
        code = "b.set_kind(Buffer::INPUT); p.buffer(); p.mutable_loop(); b.sizes_size(); b.device(); Buffer_Kind_STATE; Program x;"
        self.assertEqual(self.dead(code), ["message Unused"])

    def test_part_of_a_word_is_no_use(self):
        self.assertIn("field kind", self.dead("x.mankind(); kinds(); kind"))
        self.assertIn("enum value INPUT", self.dead("INPUT INPUTS Buffer::INPUTS"))


class PublicEnumsTest(unittest.TestCase):
    def test_a_public_enum_fills_a_register(self):
        narrow = "enum class A : uint8_t {};\nstruct S {\n  enum class B : unsigned char { kX };\n};\nenum C { kY };\nenum class D : bool;\n"
        self.assertEqual([fault.split()[1] for fault in lint.narrow_enums(narrow)], ["A", "B", "C", "D"])
        self.assertEqual(list(lint.narrow_enums("enum class A : int { kX };\nenum class B { kY };  // enum C\nenum struct D : int;\n")), [])

    def test_headers_are_looked_at(self):
        faults = list(lint.check_public(pathlib.PurePosixPath("include/kiln/tensor.h"), "enum class A : int8_t {};\n"))
        self.assertEqual(len(faults), 1)
        self.assertIn("enum A is int8_t", faults[0])


class LiteralsTest(unittest.TestCase):
    def found(self, code, path="schedule/a.cc"):
        return [(line, *names, tag) for line, names, tag, _ in lint.literals.constants(pathlib.PurePosixPath(path), code)]

    def test_a_constant_has_a_tag_on_its_line(self):
        self.assertEqual(self.found("constexpr int kA = 7;\nconstexpr int kB = 7;  // speed: why\n"),
                         [(1, "kA", None), (2, "kB", "speed")])
        self.assertEqual(self.found("// speed\nconstexpr double kC = 0.5, kD = 3;  // compile time\n"),
                         [(2, "kC", "kD", "compile time")])
        self.assertEqual(self.found("constexpr std::chrono::microseconds kE(20);\n", "exec/a.cc"), [(1, "kE", None)])

    def test_numbers_without_a_name_count_where_schedules_are_made(self):
        code = "if (row > 200) return;\n"
        self.assertEqual(self.found(code), [(1, "-", None)])
        self.assertEqual(self.found(code, "exec/a.cc"), [])
        self.assertEqual(self.found(code, "graph/a.cc"), [])

    def test_types_comments_strings_and_small_numbers_tune_nothing(self):
        self.assertEqual(self.found('auto x = Halide::Int(32);  // 77\nf("99", 2, a[1] >> 5);\nconstexpr int kN = kM;\n'), [])


if __name__ == "__main__":
    unittest.main()
