"""MLA prefill in one Triton kernel: a program a head and 64 query tokens.

It walks over all latents that its tokens see. A tile of latents is read once and used twice, as keys
and (its first 512 channels) as values.
"""
import triton
import triton.language as tl

WIDTH = 512


@triton.jit
def prefill(q, latent, o, lse, heads, tokens, keys, offset, scale, CAUSAL: tl.constexpr,
            ROWS: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr, ROPE: tl.constexpr):
    DEPTH: tl.constexpr = WIDTH + ROPE
    # The last tokens see the most keys: they begin first.
    tile = (tl.num_programs(0) - 1 - tl.program_id(0)).to(tl.int64)
    b = tl.program_id(2).to(tl.int64)
    head = b * heads + tl.program_id(1)
    token = tile * ROWS + tl.arange(0, ROWS)
    is_token = token < tokens
    row = head * tokens + token
    end = keys
    if CAUSAL:
        end = tl.maximum(tl.minimum(tl.minimum(tile * ROWS + ROWS, tokens) + offset, keys), 0)

    d = tl.arange(0, WIDTH)
    query = tl.load(q + row[:, None] * DEPTH + d[None, :], mask=is_token[:, None], other=0.0)
    if ROPE > 0:
        e = WIDTH + tl.arange(0, ROPE)
        query_rope = tl.load(q + row[:, None] * DEPTH + e[None, :], mask=is_token[:, None], other=0.0)
    base = latent + b * keys * DEPTH
    top = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    out = tl.zeros([ROWS, WIDTH], tl.float32)
    for first in range(0, end, KEYS):
        key = first + tl.arange(0, KEYS)
        is_key = key < keys
        values = tl.load(base + key[:, None] * DEPTH + d[None, :], mask=is_key[:, None], other=0.0)
        score = tl.dot(query, tl.trans(values))
        if ROPE > 0:
            rope = tl.load(base + key[:, None] * DEPTH + e[None, :], mask=is_key[:, None], other=0.0)
            score = tl.dot(query_rope, tl.trans(rope), acc=score)
        is_seen = is_key[None, :]
        if CAUSAL:
            is_seen = is_seen & (key[None, :] <= token[:, None] + offset)
        score = tl.where(is_seen, score * scale, float("-inf"))
        new_top = tl.maximum(top, tl.max(score, 1))
        from_top = tl.where(new_top == float("-inf"), 0.0, new_top)  # no key yet: every p is 0
        p = tl.exp2(score - from_top[:, None])
        factor = tl.exp2(top - from_top)
        total = total * factor + tl.sum(p, 1)
        out = tl.dot(p.to(tl.bfloat16), values, acc=out * factor[:, None])
        top = new_top
    is_empty = total == 0.0
    total = tl.where(is_empty, 1.0, total)
    tl.store(o + row[:, None] * WIDTH + d[None, :], (out / total[:, None]).to(tl.bfloat16),
             mask=is_token[:, None])
    tl.store(lse + row, tl.where(is_empty, 0.0, 0.69314718056 * (top + tl.log2(total))), mask=is_token)


def marathon_run(tensors, dims, host, workspace):
    rows, tokens = 64, dims["T"]
    if dims["B"] * dims["H"] * tokens == 0:
        return
    prefill[((tokens + rows - 1) // rows, dims["H"], dims["B"])](
        tensors["q"], tensors["latent"], tensors["o"], tensors["lse"], dims["H"], tokens, dims["S"],
        dims["offset"], 1.44269504089 / (WIDTH + dims["R"]) ** 0.5, CAUSAL=dims["causal"] != 0,
        ROWS=rows, KEYS=64, WIDTH=WIDTH, ROPE=dims["R"], num_warps=8, num_stages=2)
