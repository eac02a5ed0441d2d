# SPDX-License-Identifier: Apache-2.0
"""Numeric constants of schedules, code generation, fusion and the executor, and what each is for.

Each constant has a tag, the first words of the comment on its line:

    constexpr int kAhead = 2048;  // speed: bytes between what is read and what is prefetched

    speed         another value makes some kernel or run slower. What depends on a CPU belongs into
                  the machine description instead
    compile time  a bound on what is generated, searched or tried, or on how long that may take
    correctness   another value computes, stores or accepts something else, or is wrong: formats,
                  facts of the hardware, of Halide and of mathematics, sizes that code is written for

In schedule/ and halide_gen/ every number that could tune something is looked at, named or not; in fusion/
and exec/ constants with names are: the patterns of the one are made of numbers, and the loops of the
other are written for vectors of so many lanes and bytes.
"""
import re

TAGS = ("correctness", "compile time", "speed")
ALL_NUMBERS = ("schedule", "halide_gen")
NAMED_ONLY = ("fusion", "exec")

NUMBER = re.compile(
    r"(?<![\w.])(?:0[xX][\da-fA-F']+(?:\.[\da-fA-F]+)?(?:p[-+]?\d+)?|\d[\d']*(?:\.\d*)?(?:[eE][-+]?\d+)?)[uUlLfF]*(?![\w.])")
PLAIN = re.compile(r"[012](?:\.0*)?[uUlLfF]*")  # they say how often or whether, and tune nothing
# Numbers that are part of a type, a format, an index, a unit or the range of a stored field.
STRUCTURE = re.compile(
    r"/ 1000\b|% 1000 \* 1000\b"
    r"|\b(?:Int|UInt|Float|PutNumber|Number|substr|remove_prefix|Near|pow|sqrt)(?:<\w+>)?\((?:[^()]|\([^()]*\))*\)"
    r"|(?:<<|>>|[=!]=|[%&|])\s*~?(?:Expr\(uint32_t|uint32_t|uint64_t|int64_t)?[{(]?(?:0x)?[\da-fA-F']+[uUlL]*"
    r"|(?:bits\(\)|bits|dim|dims|dim\(\)|SizeOf\([^()]*\)|size\(\)|size|level|i)\s*[<>-]=?\s*\d+"
    r"|\b(?:uint32_t\{0x\w+\}|8 \* (?:slot|kiln|kNum))|size_t>\(64|, 0[0-7]{3}\b"
    r"|(?:vector_bytes\)?|bytes|\(type\)\)) / 4\b|,\s*\d+>|\[\d+\]|fields\.\w+\([^;]*;")
CONSTANT = re.compile(r"\b(k[A-Z]\w*)(?:\[\])?(?:\s*=|\{|\()\s*([^,;]*)")
FIELD = re.compile(r"\s*(?:u?int\d+_t|size_t|int|double)\s+\w+ = [^;]*;")  # a default that nobody relies on
TAG = re.compile(r"//\s*(" + "|".join(TAGS) + r")\b:?\s*(.*)")


def without_comments(text):
    """The code of `text`, without what comments and strings say; lines stay where they are."""
    def blank(match):
        return ("" if match.group().startswith("/") else '""') + "\n" * match.group().count("\n")
    return re.sub(r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*.*?\*/',
                  blank, text, flags=re.S)


def tunes(code):
    return any(not PLAIN.fullmatch(number) for number in NUMBER.findall(STRUCTURE.sub(" ", code)))


def constants(path, text):
    """(line, names, tag, reason) of each line of one file with a constant; the tag of an untagged one is None."""
    component = path.parts[0]
    if component not in ALL_NUMBERS + NAMED_ONLY or path.suffix not in (".cc", ".h"):
        return
    lines = text.splitlines()
    for at, code in enumerate(without_comments(text).splitlines()):
        names = []
        if re.search(r"\bconstexpr\b", code) and not re.search(r"\bif constexpr\b", code):
            names = [name for name, value in CONSTANT.findall(code)
                     if tunes(value) or re.fullmatch(r"[12](?:\.0*)?", value.strip(" {}()"))]
            if not names:
                continue
        elif component in NAMED_ONLY or code.startswith("#") or FIELD.match(code) or not tunes(code):
            continue
        tag = TAG.search(lines[at])
        yield at + 1, names or ["-"], tag.group(1) if tag else None, tag.group(2) if tag else lines[at].strip()


def report(files):
    """Prints each constant with its tag, and how many have each. `files`: (path, text)."""
    count = dict.fromkeys(TAGS, 0)
    for path, text in files:
        for line, names, tag, reason in constants(path, text):
            count[tag] = count.get(tag, 0) + len(names)
            print(f"{tag or 'no tag'}\t{path}:{line}\t{' '.join(names)}\t{reason}")
    print(", ".join(f"{number} {tag}" for tag, number in count.items() if tag))
