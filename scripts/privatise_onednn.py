#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes Kiln's private copy of oneDNN: the same code, with other names for what it asks of OpenMP and
the environment.

usage: scripts/privatise_onednn.py libdnnl.so.3.2 libkdnn.so.3

The copy needs libkomp.so.1 (exec/support/openmp_shim.h) in place of libgomp.so.1, under version names of its own, and has
the soname libkdnn.so.3, so that it never meets another oneDNN or OpenMP in one process. Its getenv is libkomp's too, so
that DNNL_* and ONEDNN_* variables of the host change nothing. The names are as long as
the old ones and are written over them: nothing else in the file changes or moves. Input and output are pinned; the
output is also checked to import what libkomp has and nothing else of OpenMP.
"""
import hashlib
import struct
import sys

INPUT = "e6376208cf6bacb041c346b504207e3aa1189a13f941c92a4383a55ac27058ae"
OUTPUT = "33189eb869aec60eeb936bf9134b6bbbb00adc142e861eda1caeb9b568af0e57"
RENAMES = ((b"libgomp.so.1", b"libkomp.so.1"), (b"GOMP_1.0", b"KILN_1.0"), (b"libdnnl.so.3", b"libkdnn.so.3"),
           (b"getenv", b"kgeten"))
# OMP_1.0 is the tail of GOMP_1.0 in the string table, so it becomes ILN_1.0.
IMPORTS = {
    "KILN_1.0": {"GOMP_barrier", "GOMP_loop_end_nowait", "GOMP_loop_static_next", "GOMP_loop_static_start",
                 "GOMP_parallel_end", "GOMP_parallel_start", "kgeten"},
    "ILN_1.0": {"omp_get_max_threads", "omp_get_num_threads", "omp_get_thread_num", "omp_in_parallel"},
}
DYNSYM, VERNEED, VERSYM = 11, 0x6FFFFFFE, 0x6FFFFFFF


def elf_hash(name):
    value = 0
    for byte in name:
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high & 0xFFFFFFFF
    return value


class Elf:
    """The parts of a 64-bit little-endian ELF file that versions are made of; `data` may be changed."""

    def __init__(self, data):
        self.data = data
        table, = struct.unpack_from("<Q", data, 40)
        count, = struct.unpack_from("<H", data, 60)
        headers = [struct.unpack_from("<IIQQQQIIQQ", data, table + 64 * i) for i in range(count)]
        self.section = {h[1]: h for h in headers if h[1] in (DYNSYM, VERNEED, VERSYM)}
        strings = headers[self.section[DYNSYM][6]]
        self.low, self.high = strings[4], strings[4] + strings[5]

    def name(self, offset):
        start = self.low + offset
        return bytes(self.data[start:self.data.index(0, start)])

    def needed_versions(self):
        """(place of the Vernaux record, version index, name) of each version asked of another library."""
        place = self.section[VERNEED][4]
        for _ in range(self.section[VERNEED][7]):
            _, count, _, inner, following = struct.unpack_from("<HHIII", self.data, place)
            aux = place + inner
            for _ in range(count):
                _, _, index, name, step = struct.unpack_from("<IHHII", self.data, aux)
                yield aux, index, self.name(name)
                aux += step
            place += following

    def set_version(self, symbol, version):
        """Asks for `symbol` under another version that is asked for already."""
        index = next(index for _, index, name in self.needed_versions() if name == version)
        symbols, indices = self.section[DYNSYM], self.section[VERSYM][4]
        for i in range(symbols[5] // 24):
            name, = struct.unpack_from("<I", self.data, symbols[4] + 24 * i)
            if self.name(name) == symbol:
                struct.pack_into("<H", self.data, indices + 2 * i, index)

    def imports(self):
        """Version name -> names of undefined symbols."""
        versions = {index: name.decode() for _, index, name in self.needed_versions()}
        symbols, indices = self.section[DYNSYM], self.section[VERSYM][4]
        found = {}
        for i in range(symbols[5] // 24):
            name, _, _, section = struct.unpack_from("<IBBH", self.data, symbols[4] + 24 * i)
            index, = struct.unpack_from("<H", self.data, indices + 2 * i)
            if section == 0 and index & 0x7FFF in versions:
                found.setdefault(versions[index & 0x7FFF], set()).add(self.name(name).decode())
        return found


def privatise(data):
    elf = Elf(data)
    for old, new in RENAMES:
        at = data.find(old + b"\0", elf.low, elf.high)
        if at < 0 or data[at - 1] != 0 or data.find(old + b"\0", at + 1, elf.high) >= 0:
            sys.exit(f"privatise_onednn: {old.decode()} is not there once and whole; this is not the library it is made for")
        data[at:at + len(new)] = new
    for place, _, name in elf.needed_versions():
        struct.pack_into("<I", data, place, elf_hash(name))
    elf.set_version(b"kgeten", b"KILN_1.0")
    imports = elf.imports()
    for version, names in IMPORTS.items():
        if imports.get(version) != names:
            sys.exit(f"privatise_onednn: {version} is asked for {sorted(imports.get(version, []))}; libkomp has {sorted(names)}")


def check(what, data, pinned):
    digest = hashlib.sha256(data).hexdigest()
    if digest != pinned:
        sys.exit(f"privatise_onednn: {what} has SHA-256 {digest}, expected {pinned}")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    with open(sys.argv[1], "rb") as file:
        data = bytearray(file.read())
    check(sys.argv[1], data, INPUT)
    privatise(data)
    check("the copy", data, OUTPUT)
    with open(sys.argv[2], "wb") as file:
        file.write(data)


if __name__ == "__main__":
    main()
