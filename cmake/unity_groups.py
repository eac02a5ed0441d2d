#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Groups sources that can be compiled as one translation unit.

    unity_groups.py --most 8 ROOT SOURCE...      # prints a line "GROUP SOURCE" for each

Two sources share a group only if neither uses a name that is private to the other: what one defines in an unnamed
namespace, or as static, would be ambiguous in the other, or, worse, a better overload. The same sources give the same groups.
"""
import argparse
import dataclasses
import functools
import os
import re

COMMENTS_AND_STRINGS = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.S)
# What follows a dot, an arrow or :: is a member, or qualified.
FREE_NAME = re.compile(r'(?<![\w.])(?<!->)(?<!::)[A-Za-z_]\w*')
# A member: indented, between its type and its parameters.
MEMBER = re.compile(r'(?m)^ +[^\n(=]*?(?:(?<!return)(?<!else)(?<!throw)(?<!new)(?<!case)(?<=\w)|[>&*])[ ]([A-Za-z_]\w*)(?=\()')
UNNAMED = re.compile(r'^namespace \{\n(.*?)(?:^\}  // namespace$|\Z)', re.S | re.M)  # as clang-format ends them
TYPE = re.compile(r'^(?:struct|class|union|enum(?: class| struct)?) (\w+)', re.M)
ALIAS = re.compile(r'^using (\w+) = ([^;]*);', re.M)
USING = re.compile(r'^using ([\w:]*::(\w+));', re.M)
ENUMERATORS = re.compile(r'^enum (?:\w+ )?(?:: \w+ )?\{([^}]*)\}', re.M)
# The last name before the parameters of a function, or before the value of a variable, of a declaration that starts a line.
DECLARED = re.compile(r'^(?!struct |class |union |enum |using |namespace |template |return |#|\})\w[^;{}()=]*?[\s*&>](\w+)(?:\[[^\]]*\])*\s*(?=[({=;])', re.M)
DEFINED_MACRO = re.compile(r'^#define (\w+)', re.M)
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)


@functools.lru_cache(None)
def text_of(path):
    with open(path, encoding='utf-8') as file:
        raw = file.read()
    return raw, COMMENTS_AND_STRINGS.sub(' ', raw)


def private_names(path):
    raw, text = text_of(path)
    parts = [COMMENTS_AND_STRINGS.sub(' ', part) for part in UNNAMED.findall(raw)]
    names = set(DEFINED_MACRO.findall(text))
    for part in parts:
        for pattern in (TYPE, DECLARED):
            names.update(pattern.findall(part))
        for block in ENUMERATORS.findall(part):
            names.update(re.findall(r'\w+', block))
    names.update(m for line in re.findall(r'^static [^\n]*', text, re.M) for m in DECLARED.findall(line))
    return names - {'operator', 'class', 'struct'}  # an operator goes with the type that it is for


def aliases(path):
    """Names that the source has for others': name -> what it stands for. Two sources may have the same."""
    text = text_of(path)[1]
    return {**dict(ALIAS.findall(text)), **{name: of for of, name in USING.findall(text)}}


def headers_of(path, roots, seen):
    for name in INCLUDE.findall(text_of(path)[0]):
        for root in roots:
            header = os.path.join(root, name)
            if header not in seen and os.path.isfile(header):
                seen.add(header)
                headers_of(header, roots, seen)
    return seen


def used_names(path, roots):
    used = set(free_names(path))
    for header in headers_of(path, roots, set()):
        if not header.endswith('.pb.h'):
            used.update(free_names(header))
    return used


@functools.lru_cache(None)
def free_names(path):
    def without_name(match):
        return match[0][:match.start(1) - match.start()]
    return set(FREE_NAME.findall(MEMBER.sub(without_name, text_of(path)[1])))


@dataclasses.dataclass
class Unit:
    sources: list
    private: set
    used: set
    aliases: dict

    def takes(self, other):
        if self.private & other.used or other.private & self.used:
            return False
        return not any(name in there.used and there.aliases.get(name) != of
                       for here, there in ((self, other), (other, self)) for name, of in here.aliases.items())

    def add(self, other):
        self.sources += other.sources
        self.private |= other.private
        self.used |= other.used
        self.aliases |= other.aliases


def groups(sources, roots, most):
    made = []
    for source in sources:
        new = Unit([source], private_names(source), used_names(source, roots), aliases(source))
        for unit in made:
            if len(unit.sources) < most and unit.takes(new):
                unit.add(new)
                break
        else:
            made.append(new)
    return [unit.sources for unit in made]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--most', type=int, default=8)
    parser.add_argument('root')
    parser.add_argument('sources', nargs='+')
    args = parser.parse_args()
    roots = [args.root, os.path.join(args.root, 'include')]
    for number, group in enumerate(groups(args.sources, roots, args.most)):
        for source in group:
            print(number, source)


if __name__ == '__main__':
    main()
