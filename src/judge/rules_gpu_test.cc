// Rules on the text of candidates for a GPU.
#include "judge/judge_fixture.h"
#include "judge/rules.h"
#include "judge/tokens.h"

namespace marathon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> texts_of(const std::string& text, TokenSyntax syntax) {
  std::vector<std::string> texts;
  for (const Token& token : tokens_of(text, syntax))
    texts.push_back(token.kind == TokenKind::newline ? "\\n" : token.text);
  return texts;
}

TEST(Tokens, OfCpp) {
  EXPECT_THAT(texts_of("a/*b\n*/ +=1'000.5e-3f; // c\nx", TokenSyntax::cpp),
              ElementsAre("a", "+", "=", "1'000.5e-3f", ";", "x"));
  EXPECT_THAT(texts_of("R\"(a\n\")\" u8\"b\\\"\" '\\'' L\"\"", TokenSyntax::cpp),
              ElementsAre("a\n\"", "b\\\"", "\\'", ""));
  EXPECT_THAT(texts_of("in\\\nt a;", TokenSyntax::cpp), ElementsAre("int", "a", ";"));
  EXPECT_THAT(texts_of("/* open", TokenSyntax::cpp), ElementsAre());
  EXPECT_THAT(texts_of("\"open\nx", TokenSyntax::cpp), ElementsAre("open", "x"));
}

TEST(Tokens, OfPython) {
  EXPECT_THAT(
      texts_of("a = 1; b = (2,\n  3)\n\n# c\nd", TokenSyntax::python),
      ElementsAre("a", "=", "1", "\\n", "b", "=", "(", "2", ",", "3", ")", "\\n", "d", "\\n"));
  EXPECT_THAT(texts_of("'''a\n'b''' + rb'c\\'d' \\\n + x", TokenSyntax::python),
              ElementsAre("a\n'b", "+", "c\\'d", "+", "x", "\\n"));
}

TEST(Tokens, LinesAreThoseOfTheFile) {
  const std::vector<Token> tokens = tokens_of("a\\\n\\\nb\n/*\n*/c\n", TokenSyntax::cpp);
  ASSERT_EQ(tokens.size(), 2u);
  EXPECT_EQ(tokens[0].text, "ab");
  EXPECT_EQ(tokens[0].line, 1);
  EXPECT_EQ(tokens[1].line, 5);
  EXPECT_TRUE(tokens[1].starts_line);
}

TEST(Tokens, NothingEndsThem) {
  for (const std::string text :
       {"\\", "R\"", "R\"x(", "'", "'''", "f'{", "0x", "1e", ".", "\"\\", "#"}) {
    tokens_of(text, TokenSyntax::cpp);
    tokens_of(text, TokenSyntax::python);
  }
}

// ---- CUDA C++

std::string includes(const std::string& text, const std::string& file = "solution.cu") {
  const std::vector<SourceFile> files = {{file, text}, {"detail/tile.cuh", ""}, {"other.cuh", ""}};
  return broken_import_rule(Language::cuda, files, files).value_or("");
}

TEST(Includes, WhatIsAllowed) {
  EXPECT_EQ(includes("#include <cuda_bf16.h>\n#include <cuda_runtime.h>\n#include <cuda.h>\n"
                     "#include <cooperative_groups.h>\n#include <cooperative_groups/reduce.h>\n"
                     "#include <cub/block/block_reduce.cuh>\n#include <cuda/std/array>\n"
                     "#include <cuda/ptx>\n#include <mma.h>\n#include <cudaTypedefs.h>\n"
                     "#include <cstdint>\n#include <type_traits>\n#include <math.h>\n"
                     "#include \"marathon_kernel.h\"\n#include \"detail/tile.cuh\"\n"),
            "");
  EXPECT_EQ(includes("#include \"tile.cuh\"\n#include \"../other.cuh\"\n", "detail/a.cuh"), "");
  EXPECT_EQ(includes("// #include <thrust/sort.h>\n/*\n#include <cublas_v2.h>\n*/\n"
                     "const char* s = R\"(\n#include <cutlass/cutlass.h>\n)\";\n"),
            "");
}

TEST(Includes, ParametersAreNoSource) {
  EXPECT_EQ(includes("# include whatever\nA = 1\n", "params.toml"), "");
  EXPECT_NE(includes("#include <dlfcn.h>", "tile.inc"), "");
}

TEST(Includes, WhatIsRefusedWithFileAndLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"\n#include <cutlass/cutlass.h>\n",
       "solution.cu:2: #include <cutlass/cutlass.h>: no library of kernels"},
      {"#include <thrust/sort.h>", "thrust launches kernels of its own"},
      {"#include <cublas_v2.h>", "solution.cu:1: #include <cublas_v2.h>"},
      {"#include <cudnn.h>", "<cudnn.h>"},
      {"#include <nvrtc.h>", "<nvrtc.h>"},
      {"#include <torch/extension.h>", "<torch/extension.h>"},
      {"#include <thread>", "<thread>"},
      {"#include <dlfcn.h>", "<dlfcn.h>"},
      {"#include <unistd.h>", "<unistd.h>"},
      {"#include \"/etc/passwd\"", "\"/etc/passwd\""},
      {"#include \"nowhere.cuh\"", "\"nowhere.cuh\""},
      {"#include \"../tile.cuh\"", "\"../tile.cuh\""},
      {"  #  include /* x */ <dlfcn.h>", "<dlfcn.h>"},
      {"#inc\\\nlude <dlfcn.h>", "solution.cu:1: #include <dlfcn.h>"},
      {"/* a */ #include <dlfcn.h>", "<dlfcn.h>"},
      {"%:include <dlfcn.h>", "<dlfcn.h>"},
      {"#define H <dlfcn.h>\n#include H", "solution.cu:2: #include H: name the header itself"},
      {"#include_next <dlfcn.h>", "<dlfcn.h>"},
      {"#import <dlfcn.h>", "<dlfcn.h>"},
      {"#include", "name the header itself"},
  };
  for (const auto& [text, want] : cases) EXPECT_THAT(includes(text), HasSubstr(want)) << text;
}

// ---- Triton

std::string python(const std::string& text) {
  const std::vector<SourceFile> files = {{"solution.py", text}, {"tiles.py", ""}, {"lib/a.py", ""}};
  return broken_import_rule(Language::triton, files, files).value_or("");
}

const std::string honest_module = R"(from __future__ import annotations
import math
from dataclasses import dataclass
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from tiles import BLOCK, other as mine
from .lib import a
import marathon_params as params

@dataclass
class Plan:
    """Mentions eval(x), import os and torch.matmul: a text is no code."""
    grid: tuple = (1,)

@triton.autotune(configs=[triton.Config({"B": 32}, num_warps=4)], key=["n"])
@triton.jit
def scale(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + i, mask=i < n, other=0.0)
    a = tl.dot(a, a).to(tl.float32).sum(0)
    tl.store(y + i, libdevice.exp(a), mask=i < n)

def marathon_run(tensors, dims, host, workspace):
    x = tensors["x"].view(torch.bfloat16)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        pass
    blocks = getattr(params, "BLOCK", 32)
    lengths = host["cu_seqlens"].tolist()
    try:
        scale[(triton.cdiv(dims["n"], 32),)](x, tensors["y"], dims["n"])
    except ValueError as error:
        raise RuntimeError(f"{dims['n']} rows") from error

if __name__ == "__main__":
    print(math.ceil(1.5))
)";

TEST(Python, AnHonestModule) { EXPECT_EQ(python(honest_module), ""); }

TEST(Python, WhatIsRefusedWithFileAndLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"\nimport fla\n", "solution.py:2: import fla: allowed are torch"},
      {"from fla.ops.kda import chunk_kda", "solution.py:1: import fla.ops.kda"},
      {"import math, flash_mla as m", "import flash_mla"},
      {"import cuda.bindings.driver", "import cuda.bindings.driver"},
      {"import ctypes", "import ctypes"},
      {"import os", "import os"},
      {"from os import environ", "import os"},
      {"import importlib.util", "import importlib.util"},
      {"if True: import sys", "import sys"},
      {"x = 1; import sys", "import sys"},
      {"import \\\n  sys", "solution.py:2: import sys"},
      {"def f():\n    from sys import (modules,\n      path)", "solution.py:2: import sys"},
      {"import triton.runtime.driver", "import triton.runtime.driver"},
      {"from triton.backends import nvidia", "import triton.backends"},
      {"import torch.nn.functional as F", "import torch.nn.functional"},
      {"from torch.utils.cpp_extension import load_inline", "import torch.utils.cpp_extension"},
      {"from torch import matmul as m", "torch.matmul: of torch a module has types"},
      {"from torch import *", "from torch import *"},
      {"import torch\n\ny = torch.matmul(q, k)", "solution.py:3: torch.matmul"},
      {"import torch\ny = torch.ops.aten.mm(q, k)", "torch.ops"},
      {"import torch as t\ny = t.softmax(q)", "torch.softmax"},
      {"import torch\ny = torch.empty(3)", "torch.empty: memory comes from the workspace"},
      {"import torch\ng = torch.cuda.CUDAGraph()", "torch.cuda.CUDAGraph"},
      {"from torch import cuda\ng = cuda.synchronize()", "torch.cuda.synchronize"},
      {"import torch.cuda", "import torch.cuda"},
      {"import torch\nt = torch\ny = t.mm(a, b)",
       "solution.py:2: torch: a module is not passed on"},
      {"import torch\nf(torch)", "torch: a module is not passed on"},
      {"import torch\ny = torch.compile(f)", "torch.compile"},
      {"import triton\nt = triton.knobs.runtime", "triton.knobs"},
      {"import triton\ny = triton.testing.do_bench(f)", "triton.testing"},
      {"y = q @ k", "@: the matrix product"},
      {"y = q.matmul(k)", ".matmul: torch's products"},
      {"m = __import__('os')", "__import__"},
      {"eval('1')", "eval"},
      {"e = exec", "exec"},
      {"compile('1', '', 'eval')", "compile"},
      {"open('/proc/self/maps')", "open"},
      {"globals()['x'] = 1", "globals"},
      {"getattr(x, name)", "getattr: with a name that is computed"},
      {"getattr(x, 'a' + 'b')", "getattr"},
      {"getattr(x, f'{a}')", "getattr"},
      {"getattr(x, '__globals__')", "getattr"},
      {"getattr(x, '\\x5f_globals__')", "getattr"},
      {"g = getattr", "getattr"},
      {"map(getattr, a, b)", "getattr"},
      {"f.__globals__", "__globals__"},
      {"().__class__.__bases__[0].__subclasses__()", "__class__"},
      {"s = f\"{__import__('os').getpid()}\"", "__import__"},
      {"s = f'{f\"{eval(x)}\"}'", "eval"},
      {"import torch\nx = torch.Tensor.__subclasses__()", "__subclasses__"},
  };
  for (const auto& [text, want] : cases) EXPECT_THAT(python(text), HasSubstr(want)) << text;
}

TEST(Python, OtherFilesOfTheFolderAreScannedToo) {
  const std::vector<SourceFile> files = {{"solution.py", "import tiles\n"},
                                         {"tiles.py", "import math\nimport os\n"},
                                         {"notes.txt", "import os\n"}};
  EXPECT_THAT(broken_import_rule(Language::triton, files, files).value_or(""),
              HasSubstr("tiles.py:2: import os"));
}

// The shipped starts keep the rules.
TEST(GpuRules, TheShippedStarts) {
  const fs::path tasks = fs::path(MARATHON_SOURCE_DIR) / "tasks";
  int64_t count = 0;
  const std::vector<fs::path> all = list_files(tasks).value();
  for (const fs::path& file : all) {
    if (file.string().find("/start") == std::string::npos) continue;
    const bool triton = file.extension() == ".py";
    if (!triton && file.extension() != ".cu") continue;
    const std::vector<SourceFile> files = {{file.filename(), text_of(tasks / file)}};
    EXPECT_EQ(
        broken_import_rule(triton ? Language::triton : Language::cuda, files, files).value_or(""),
        "")
        << file;
    ++count;
  }
  EXPECT_GE(count, 2);
}

}  // namespace
}  // namespace marathon
