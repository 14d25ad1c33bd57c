"""MLA decode in two Triton kernels: keys are split over programs, then the parts are put together.

All query tokens and heads of a sequence see the same latents, so a program takes 16 of these rows (64
where there are sequences enough) and one part of the keys. A tile of latents is read once and used
twice, as keys and (its first 512 channels) as values.
"""
import torch
import triton
import triton.language as tl

WIDTH, MULTIPROCESSORS = 512, 132


@triton.jit
def attend(q, latent, lengths, sums, tops, totals, rows, keys, splits, tiles, scale,
           ROWS: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr, ROPE: tl.constexpr):
    DEPTH: tl.constexpr = WIDTH + ROPE
    program = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1).to(tl.int64)
    b = program // tiles
    row = program % tiles * ROWS + tl.arange(0, ROWS)
    is_row = row < rows
    row = b * rows + row
    length = tl.minimum(tl.load(lengths + b), keys).to(tl.int64)
    share = tl.cdiv(tl.cdiv(length, splits), KEYS) * KEYS
    begin = tl.minimum(part * share, length)
    end = tl.minimum(begin + share, length)

    d = tl.arange(0, WIDTH)
    query = tl.load(q + row[:, None] * DEPTH + d[None, :], mask=is_row[:, None], other=0.0)
    if ROPE > 0:
        e = WIDTH + tl.arange(0, ROPE)
        query_rope = tl.load(q + row[:, None] * DEPTH + e[None, :], mask=is_row[:, None], other=0.0)
    base = latent + b * keys * DEPTH
    top = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    out = tl.zeros([ROWS, WIDTH], tl.float32)
    for first in range(begin, end, KEYS):
        key = first + tl.arange(0, KEYS)
        is_key = key < end
        values = tl.load(base + key[:, None] * DEPTH + d[None, :], mask=is_key[:, None], other=0.0)
        score = tl.dot(query, tl.trans(values))
        if ROPE > 0:
            rope = tl.load(base + key[:, None] * DEPTH + e[None, :], mask=is_key[:, None], other=0.0)
            score = tl.dot(query_rope, tl.trans(rope), acc=score)
        score = tl.where(is_key[None, :], score * scale, float("-inf"))
        new_top = tl.maximum(top, tl.max(score, 1))
        p = tl.exp2(score - new_top[:, None])
        factor = tl.exp2(top - new_top)
        total = total * factor + tl.sum(p, 1)
        out = tl.dot(p.to(tl.bfloat16), values, acc=out * factor[:, None])
        top = new_top
    place = row * splits + part
    tl.store(sums + place[:, None] * WIDTH + d[None, :], out, mask=is_row[:, None])
    tl.store(tops + place, top, mask=is_row)
    tl.store(totals + place, total, mask=is_row)


@triton.jit
def combine(sums, tops, totals, o, lse, splits, WIDTH: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, WIDTH)
    top = tl.full([], float("-inf"), tl.float32)
    for i in range(splits):
        top = tl.maximum(top, tl.load(tops + row * splits + i))
    base = tl.where(top == float("-inf"), 0.0, top)  # no key at all: every weight is 0
    total = tl.zeros([], tl.float32)
    out = tl.zeros([WIDTH], tl.float32)
    for i in range(splits):
        place = row * splits + i
        weight = tl.exp2(tl.load(tops + place) - base)
        total += weight * tl.load(totals + place)
        out += weight * tl.load(sums + place * WIDTH + d)
    is_empty = total == 0.0
    total = tl.where(is_empty, 1.0, total)
    tl.store(o + row * WIDTH + d, (out / total).to(tl.bfloat16))
    tl.store(lse + row, tl.where(is_empty, 0.0, 0.69314718056 * (base + tl.log2(total))))


def plan_of(dims):
    """Rows a program, programs a sequence, parts of the keys."""
    rows = dims["Q"] * dims["H"]
    block = 64 if dims["B"] * ((rows + 63) // 64) >= MULTIPROCESSORS // 4 else 16
    tiles = (rows + block - 1) // block
    parts = MULTIPROCESSORS // max(dims["B"] * tiles, 1)
    return block, tiles, max(1, min(parts, (dims["S"] + 63) // 64))


def marathon_workspace_bytes(dims):
    return dims["B"] * dims["Q"] * dims["H"] * plan_of(dims)[2] * (WIDTH + 2) * 4


def marathon_run(tensors, dims, host, workspace):
    rows, keys, rope = dims["Q"] * dims["H"], dims["S"], dims["R"]
    all_rows = dims["B"] * rows
    if all_rows == 0:
        return
    block, tiles, splits = plan_of(dims)
    scratch = workspace[:marathon_workspace_bytes(dims)].view(torch.float32)
    places = all_rows * splits
    sums, tops, totals = scratch[:places * WIDTH], scratch[places * WIDTH:places * (WIDTH + 1)], \
        scratch[places * (WIDTH + 1):]
    scale = 1.44269504089 / (WIDTH + rope) ** 0.5
    attend[(dims["B"] * tiles, splits)](
        tensors["q"], tensors["latent"], tensors["lengths"], sums, tops, totals, rows, keys, splits,
        tiles, scale, ROWS=block, KEYS=64 if block == 16 else 32, WIDTH=WIDTH, ROPE=rope,
        num_warps=4 if block == 16 else 8, num_stages=2)
    combine[(all_rows,)](sums, tops, totals, tensors["o"], tensors["lse"], splits, WIDTH=WIDTH,
                         num_warps=4)
