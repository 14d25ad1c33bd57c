# expect: same|slower|faster
# workspace and two streams in Triton
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


@triton.jit
def copy(source, to, count, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(to + place, tl.load(source + place, mask=place < count, other=0.0), mask=place < count)


def marathon_workspace_bytes(dims):
    return 4 * dims["C"]


def marathon_run(tensors, dims, host, workspace):
    grid = (triton.cdiv(dims["C"], 64),)
    kept = workspace.view(torch.float32)
    main, side = torch.cuda.current_stream(), torch.cuda.Stream()
    side.wait_stream(main)
    with torch.cuda.stream(side):
        copy[grid](tensors["start"], kept, dims["C"], BLOCK=64)
    main.wait_stream(side)
    prefix[grid](tensors["a"], tensors["x"], kept, tensors["y"], tensors["last"], dims["T"], dims["C"],
                 BLOCK=64, num_warps=2)
