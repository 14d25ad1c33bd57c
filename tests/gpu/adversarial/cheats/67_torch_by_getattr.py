# expect: rule_broken
# reaches torch by a name that is computed
# reason: getattr
import torch
import triton
import triton.language as tl


@triton.jit
def prefix(a, x, start, y, last, tokens, channels, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < channels
    state = tl.load(start + place, mask=inside, other=0.0)
    for t in range(tokens):
        at = t * channels + place
        state = tl.load(a + at, mask=inside, other=0.0) * state + tl.load(x + at, mask=inside, other=0.0)
        tl.store(y + at, state, mask=inside)
    tl.store(last + place, state, mask=inside)


def marathon_run(tensors, dims, host, workspace):
    prefix[(triton.cdiv(dims["C"], 64),)](tensors["a"], tensors["x"], tensors["start"], tensors["y"],
                                          tensors["last"], dims["T"], dims["C"], BLOCK=64, num_warps=2)
    getattr(torch, "cum" + "sum")(tensors["x"], 0, out=tensors["y"])
