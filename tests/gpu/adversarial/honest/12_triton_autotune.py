# expect: same|slower|faster
# one fixed configuration by the autotuner's own syntax, chosen by a helper
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": 128}, num_warps=4)], key=["channels"])
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
    grid = lambda meta: (triton.cdiv(dims["C"], meta["BLOCK"]),)
    prefix[grid](tensors["a"], tensors["x"], tensors["start"], tensors["y"], tensors["last"], dims["T"],
                 dims["C"])
