#!/usr/bin/env python3
"""Makes data/fingerprints.bin: fingerprints of known kernels, which marathon-judge's notes on a candidate
look for (src/judge/fingerprint.h). No source is kept, only hashes.

  tools/fingerprint.py --out data/fingerprints.bin [--common FOLDER …] NAME=FOLDER …
  tools/fingerprint.py --hashes FILE          the fingerprints of one file, a line each (for tests)

NAME is what a note says ("fla-core 0.6.0"). What also stands below a --common folder (examples that
everybody starts from) is left out. Winnowing: Schleimer, Wilkerson and Aiken, SIGMOD 2003.
"""
import argparse
import array
import pathlib
import re
import sys

GRAM, WINDOW = 12, 8
MASK = (1 << 64) - 1
PYTHON = {".py"}
CPP = {".cu", ".cuh", ".h", ".hpp", ".hh", ".cc", ".cpp", ".cxx", ".c", ".inl"}

# Words that keep their meaning in everybody's code. The same list is in src/judge/fingerprint.cc.
KEYWORDS = frozenset("""
and as asm assert auto bool break case char class const constexpr continue def default del do double elif
else enum except extern float for from global if import in inline int is lambda long namespace not operator
or pass private public raise return short signed sizeof static struct switch template this try typedef
typename union unsigned using virtual void volatile while with yield
None True False true false nullptr
__global__ __device__ __shared__ __constant__ __launch_bounds__ __restrict__ __host__ __forceinline__
threadIdx blockIdx blockDim gridDim uint32_t uint64_t int32_t int64_t size_t
""".split())

TOKENS = {
    "python": re.compile(r"""
        (?P<comment>\#[^\n]*)
      | (?P<text>(?:[rRbBuUfFtT]{1,2}(?=["']))?(?:\"{3}(?:\\[\s\S]|(?!\"{3})[\s\S])*(?:\"{3}|\\?\Z)
          | '{3}(?:\\[\s\S]|(?!'{3})[\s\S])*(?:'{3}|\\?\Z)
          | "(?:\\[\s\S]|[^"\\\n])*(?:"|(?=\n)|\\?\Z) | '(?:\\[\s\S]|[^'\\\n])*(?:'|(?=\n)|\\?\Z)))
      | (?P<name>[A-Za-z_\x80-\xff][A-Za-z0-9_\x80-\xff]*)
      | (?P<number>(?:[0-9]|\.[0-9])(?:(?<=[eEpP])[+-]|[A-Za-z0-9_.\x80-\xff])*)
      | (?P<join>\\\r?\n)
      | (?P<sign>[^\s\x00])""", re.X),
    "cpp": re.compile(r"""
        (?P<comment>//[^\n]*|/\*[\s\S]*?(?:\*/|\Z))
      | (?P<text>(?:u8R|LR|uR|UR|R)"(?P<mark>[^(]*)\([\s\S]*?(?:\)(?P=mark)"|\Z)
          | (?:u8R?|LR?|uR?|UR?|R)?(?:"(?:\\[\s\S]|[^"\\\n])*(?:"|(?=\n)|\\?\Z)
          | '(?:\\[\s\S]|[^'\\\n])*(?:'|(?=\n)|\\?\Z)))
      | (?P<name>[A-Za-z_\x80-\xff][A-Za-z0-9_\x80-\xff]*)
      | (?P<number>(?:[0-9]|\.[0-9])(?:(?<=[eEpP])[+-]|[A-Za-z0-9_.\x80-\xff]|'(?=[A-Za-z0-9_\x80-\xff]))*)
      | (?P<sign>[^\s\x00])""", re.X),
}


def fnv(text):
    value = 0xcbf29ce484222325
    for byte in text.encode("latin-1"):
        value = (value ^ byte) * 0x100000001b3 & MASK
    return value


PLACES = [fnv("\x01" + chr(65 + i)) for i in range(GRAM)]
ANY_TEXT = fnv("\x02")


def normalised(text, syntax):
    """(hash, name or None): names that anybody could change are known by their place only."""
    if syntax == "cpp":
        text = re.sub(r"\\\r?\n", "", text)
    tokens, known = [], {}
    before = two_before = ""
    for match in TOKENS[syntax].finditer(text):
        kind, word = match.lastgroup, match.group()
        if kind == "mark":
            kind = "text"
        if kind in ("comment", "join") or (syntax == "python" and kind == "sign" and word == ";"):
            continue
        if kind == "text":
            tokens.append((ANY_TEXT, None))
        else:
            if word not in known:
                known[word] = fnv(word)
            member = before == "." or (before == ":" and two_before == ":") or (
                before == ">" and two_before == "-")
            free = kind == "name" and word not in KEYWORDS and not member
            tokens.append((known[word], word if free else None))
        two_before, before = before, ("" if kind == "text" else word)
    return tokens


def mixed(z):
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9 & MASK
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb & MASK
    return z ^ (z >> 31)


def grams(tokens):
    result = []
    for start in range(len(tokens) - GRAM + 1):
        value, places = 0, {}
        for code, name in tokens[start:start + GRAM]:
            if name is not None:
                code = PLACES[places.setdefault(name, len(places))]
            value = (value * 0x9e3779b97f4a7c15 + code) & MASK
        result.append(mixed(value))
    return result


def winnowed(hashes):
    """The rightmost least hash of every window."""
    kept, last = [], -1
    for start in range(max(1, len(hashes) - WINDOW + 1)):
        window = hashes[start:start + WINDOW]
        if not window:
            break
        least = min(window)
        place = start + max(i for i, value in enumerate(window) if value == least)
        if place != last:
            kept.append(least)
            last = place
    return kept


def fingerprints(path):
    suffix = path.suffix
    syntax = "python" if suffix in PYTHON else "cpp" if suffix in CPP else None
    if syntax is None:
        return []
    return winnowed(grams(normalised(path.read_bytes().decode("latin-1"), syntax)))


def of_folder(folder):
    found = set()
    for path in sorted(pathlib.Path(folder).rglob("*")):
        if path.is_file():
            found.update(fingerprints(path))
    return found


def written(projects, modulus):
    body = b""
    head = f"marathon fingerprints 1\ngram {GRAM} window {WINDOW} modulus {modulus}\n"
    for name, found in projects:
        kept = array.array("Q", sorted(value for value in found if value % modulus == 0))
        if sys.byteorder == "big":
            kept.byteswap()
        head += f"project {len(kept)} {name}\n"
        body += kept.tobytes()
    return head.encode() + b"\n" + body


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", default="data/fingerprints.bin")
    parser.add_argument("--common", action="append", default=[], metavar="FOLDER")
    parser.add_argument("--max-bytes", type=int, default=900_000)
    parser.add_argument("--hashes", metavar="FILE")
    parser.add_argument("projects", nargs="*", metavar="NAME=FOLDER")
    options = parser.parse_args()
    if options.hashes:
        for value in fingerprints(pathlib.Path(options.hashes)):
            print(f"{value:016x}")
        return
    if not options.projects:
        parser.error("name at least one NAME=FOLDER")
    common = set()
    for folder in options.common:
        common |= of_folder(folder)
    projects = []
    for project in options.projects:
        name, _, folder = project.rpartition("=")
        if not name or not pathlib.Path(folder).is_dir():
            parser.error(f"{project}: want NAME=FOLDER")
        projects.append((name, of_folder(folder) - common))
    modulus = 1
    while len(written(projects, modulus)) > options.max_bytes:
        modulus *= 2
    pathlib.Path(options.out).write_bytes(written(projects, modulus))
    for name, found in projects:
        print(f"{name}: {len(found)} fingerprints")
    print(f"one in {modulus} is kept in {options.out}")


if __name__ == "__main__":
    main()
