"""A stand-in for a GPU that runs its code: PTX is rewritten in C, and compiled for the CPU.

What is tested with it is what the compiler of a GPU has made of the kernels. It needs a C compiler
and knows the instructions that occur in programs of this package; others raise ``ValueError``.
Semantics: NVIDIA, Parallel Thread Execution ISA, version 9.0.
"""

import ctypes
import hashlib
import re
import shutil
import subprocess
from pathlib import Path

from coopbench_envs.cuda.gpu import BLOCK
from coopbench_envs.cuda.ptx import ptx_of
from studies.checks.fake_gpu import FakeGpu

__all__ = ["COMPILER", "PtxGpu", "in_c"]

COMPILER = shutil.which("gcc") or shutil.which("clang")
# Products and sums are not contracted; integers wrap; memory is read as any type.
_OPTIONS = ("-O1", "-w", "-shared", "-fPIC", "-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing")
_TYPES = {f"{k}{n}": f"{'u' * (k != 's')}int{n}_t" for k in "usb" for n in (8, 16, 32, 64)}
_TYPES |= {"f32": "float", "f64": "double", "pred": "int"}
_SPECIAL = {"%tid.x": "thread", "%ctaid.x": "block", "%ntid.x": str(BLOCK)}
_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
# Of reals; "u": true as well where one is not a number.
_REAL_SIGNS = {name: f"{{0}} {sign} {{1}}" for name, sign in _SIGNS.items()}
_REAL_SIGNS |= {
    "ne": "{0} < {1} || {0} > {1}",
    "equ": "!({0} < {1} || {0} > {1})",
    "neu": "{0} != {1}",
    "ltu": "!({0} >= {1})",
    "leu": "!({0} > {1})",
    "gtu": "!({0} <= {1})",
    "geu": "!({0} < {1})",
    "num": "{0} == {0} && {1} == {1}",
    "nan": "{0} != {0} || {1} != {1}",
}
_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "rem": "%"}
_LOGIC = {"and": "&", "or": "|", "xor": "^"}
_ROUNDED = {"rmi": "floor", "rpi": "ceil", "rzi": "trunc", "rni": "rint"}
_HEAD = """
#include <math.h>
#include <stdint.h>
#include <string.h>
static double double_of(uint64_t word) { double x; memcpy(&x, &word, 8); return x; }
static float float_of(uint32_t word) { float x; memcpy(&x, &word, 4); return x; }
static double max_f(double a, double b) {
  return a != a ? b : b != b ? a : a == b ? (signbit(a) ? b : a) : a > b ? a : b;
}
static double min_f(double a, double b) {
  return a != a ? b : b != b ? a : a == b ? (signbit(a) ? a : b) : a < b ? a : b;
}
static int64_t whole(double x, double end) {
  return x != x ? (end > 4e9 ? INT64_MIN : 0)
    : x >= end ? (int64_t)(end - 1) : x < -end ? (int64_t)-end : (int64_t)x;
}
"""
_LINE = re.compile(r"(?:@(!?)%(p\d+)\s+)?([a-z][\w.]*)\s*(.*);$")
_REGISTERS = re.compile(r"\.reg \.(\w+)\s+%(\w+)<(\d+)>;")
_LOCAL = re.compile(r"\.local \.align \d+ \.b8\s+(\w+)\[(\d+)\];")
_PARAMETER = re.compile(r"\.param (?:\.align \d+ )?\.\w+ (\w+)")


class PtxGpu(FakeGpu):
    """A GPU whose memory is the host's; ``folder`` takes what is compiled."""

    def __init__(self, folder):
        super().__init__()
        if COMPILER is None:
            raise RuntimeError("There is no C compiler: apt install gcc.")
        self.folder = Path(folder)

    def load(self, program):
        """Return the program as a function of the CPU."""
        source = in_c(ptx_of(program, self.arch))
        name = hashlib.sha256(source.encode()).hexdigest()[:16]
        file, library = self.folder / f"{name}.c", self.folder / f"{name}.so"
        if not library.exists():
            file.write_text(source, encoding="ascii")
            subprocess.run([COMPILER, *_OPTIONS, file, "-o", library, "-lm"], check=True)
        function = ctypes.CDLL(str(library)).run
        function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_int64], None
        return function

    def launch(self, function, lanes, parameters, stream):
        """Run a function for all lanes, one after the other."""
        function(parameters, -(-lanes // BLOCK))


def in_c(text):
    """Return PTX as a function in C of the addresses of its parameters and the number of blocks."""
    text = text[text.index(".visible .entry") :]
    head, body = text[: text.index("{")], text[text.index("{") + 1 : text.rindex("}")]
    places = {name: place for place, name in enumerate(_PARAMETER.findall(head))}
    declared, code = [], []
    for line in body.split("\n"):
        line = line.split("//")[0].strip()
        if not line or line.startswith(".pragma"):
            continue
        if match := _REGISTERS.fullmatch(line):
            names = ", ".join(f"{match[2]}{k} = 0" for k in range(int(match[3])))
            declared.append(f"{_TYPES[match[1]]} {names};")
        elif match := _LOCAL.fullmatch(line):
            declared.append(f"uint8_t {match[1]}[{match[2]}] __attribute__((aligned(16)));")
        elif line.startswith("$"):
            code.append(line.replace("$", "") + ";")
        elif match := _LINE.fullmatch(line):
            guard = f"if ({'!' if match[1] else ''}{match[2]}) " if match[2] else ""
            code.append(guard + _Instruction(line, match[3], match[4], places).in_c())
        else:
            raise ValueError(f"This line of PTX is not known: {line}")
    return "\n".join(
        [
            _HEAD,
            "static void lane(char **given, uint32_t thread, uint32_t block) {",
            *declared,
            *code,
            "}",
            "void run(char **given, int64_t blocks) {",
            f"for (int64_t k = 0; k < blocks * {BLOCK}; k++)",
            f"lane(given, k % {BLOCK}, k / {BLOCK});",
            "}\n",
        ]
    )


class _Instruction:
    """One instruction: ``name`` with its modifiers, the last of which is a type, and operands."""

    def __init__(self, line, name, operands, places):
        self.line, self.places = line, places
        self.name, *self.modifiers = name.split(".")
        self.type = self.modifiers[-1] if self.modifiers else ""
        self.operands = [part.strip() for part in operands.split(",")] if operands else []

    def in_c(self):
        """Return it in C."""
        way = getattr(self, f"_{self.name}", None)
        if way is not None:
            return way()
        return f"{self._value(0)} = {self._result()};"

    def _value(self, k):
        word = self.operands[k]
        if word in _SPECIAL:
            return _SPECIAL[word]
        if word.startswith("%"):
            return word[1:]
        if word[:2] in ("0d", "0f"):
            return f"{'double' if word[1] == 'd' else 'float'}_of(0x{word[2:]}u)"
        if re.fullmatch(r"-?\d+", word):
            return "INT64_MIN" if int(word) == -(2**63) else f"{word}ll"
        raise self._unknown()

    def _cast(self, k, kind=None):
        return f"({_TYPES[kind or self.type]}){self._value(k)}"

    def _unknown(self):
        return ValueError(f"This instruction of PTX is not known: {self.line}")

    @property
    def _is_real(self):
        return self.type in ("f32", "f64")

    # What gives no value to a register, or the bits of something.

    def _mov(self):
        if self.type[0] == "b" and self.operands[1].startswith("%f"):
            return f"memcpy(&{self._value(0)}, &{self._value(1)}, {int(self.type[1:]) // 8});"
        if self.type[0] == "b" and self.operands[0].startswith("%f"):
            word = "double_of" if self.type == "b64" else "float_of"
            return f"{self._value(0)} = {word}({self._value(1)});"
        return f"{self._value(0)} = {self._value(1)};"

    def _ret(self):
        return "return;"

    def _bra(self):
        return f"goto {self.operands[0].replace('$', '')};"

    def _place(self, k):
        match = re.fullmatch(r"\[(%?)(\w+)(?:\+(-?\d+))?\]", self.operands[k])
        if match is None:
            raise self._unknown()
        base = match[2] if match[1] else f"given[{self.places[match[2]]}]"
        return f"*({_TYPES[self.type]} *)((char *){base} + {match[3] or 0})"

    def _ld(self):
        return f"{self._value(0)} = {self._place(1)};"

    def _st(self):
        return f"{self._place(0)} = {self._cast(1)};"

    def _bfi(self):
        base, start, length = self._value(2), self._value(3), int(self.operands[4])
        mask = f"({(1 << length) - 1}ull << {start})"
        return f"{self._value(0)} = ({base} & ~{mask}) | (({self._value(1)} << {start}) & {mask});"

    # What does.

    def _result(self):
        for names, way in (
            (("cvta",), lambda: self._value(1)),
            (("setp",), self._compared),
            (("selp",), lambda: f"{self._value(3)} ? {self._value(1)} : {self._value(2)}"),
            (_OPERATORS, self._calculated),
            (("mad",), self._multiplied_and_added),
            (_LOGIC, lambda: f"{self._value(1)} {_LOGIC[self.name]} {self._value(2)}"),
            (("not",), lambda: f"{'!' if self.type == 'pred' else '~'}{self._value(1)}"),
            (("neg",), lambda: f"-{self._value(1)}"),
            (("rcp",), lambda: f"1.0 / {self._value(1)}"),
            (("sqrt",), lambda: f"sqrt({self._value(1)})"),
            (("copysign",), lambda: f"copysign({self._value(2)}, {self._value(1)})"),
            (("abs",), self._absolute),
            (("min", "max"), self._extreme),
            (("shl", "shr"), self._shifted),
            (("cvt",), self._converted),
        ):
            if self.name in names:
                return way()
        raise self._unknown()

    def _compared(self):
        how, *more = self.modifiers[:-1]
        if more:
            raise self._unknown()
        if self._is_real:
            return _REAL_SIGNS[how].format(self._value(1), self._value(2))
        return f"{self._cast(1)} {_SIGNS[how]} {self._cast(2)}"

    def _calculated(self):
        sign, part = _OPERATORS[self.name], self.modifiers[0]
        if self._is_real:
            return f"{self._value(1)} {sign} {self._value(2)}"
        if part == "wide":
            wide = f"({'u' * (self.type[0] == 'u')}int64_t)"
            return f"{wide}{self._cast(1)} * {wide}{self._cast(2)}"
        if part == "hi":
            wide = f"({'unsigned ' * (self.type[0] == 'u')}__int128)"
            return f"({wide}{self._cast(1)} * {wide}{self._cast(2)}) >> {self.type[1:]}"
        return f"{self._cast(1)} {sign} {self._cast(2)}"

    def _multiplied_and_added(self):
        if self.modifiers[0] != "lo":
            raise self._unknown()
        return f"{self._cast(1)} * {self._cast(2)} + {self._cast(3)}"

    def _absolute(self):
        value = self._cast(1)
        return f"fabs({value})" if self._is_real else f"{value} < 0 ? -{value} : {value}"

    def _extreme(self):
        if self._is_real:
            return f"{self.name}_f({self._value(1)}, {self._value(2)})"
        sign = ">" if self.name == "max" else "<"
        return f"{self._cast(1)} {sign} {self._cast(2)} ? {self._cast(1)} : {self._cast(2)}"

    def _shifted(self):
        bits, by = int(self.type[1:]), f"(uint32_t){self._value(2)}"
        if self.name == "shl":
            return f"{by} >= {bits} ? 0 : {self._cast(1)} << {by}"
        if self.type[0] == "s":
            return f"{self._cast(1)} >> ({by} >= {bits} ? {bits - 1} : {by})"
        return f"{by} >= {bits} ? 0 : {self._cast(1)} >> {by}"

    def _converted(self):
        to, source = self.modifiers[-2:]
        if source[0] == "f" and to[0] == "f" and to == source:
            return f"{_ROUNDED[self.modifiers[0]]}({self._value(1)})"
        if source[0] == "f" and to[0] != "f":
            if self.modifiers[0] != "rzi" or to[0] != "s":
                raise self._unknown()
            return f"({_TYPES[to]})whole({self._value(1)}, {2.0 ** (int(to[1:]) - 1)!r})"
        return f"({_TYPES[to]}){self._cast(1, source)}"
