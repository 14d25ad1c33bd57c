"""KDA forward in two Triton kernels, chunks of 32 tokens.

  prepare   all chunks at once: norms, gates, and all that does not need the state
  scan      a program a sequence, head and 32 columns of V walks over its chunks with the state

With G the sum of the gate inside a chunk (in powers of two), for each chunk and head:

  from_k = k 2^G     from_q = K^-0.5 q 2^G     to_end = k 2^(G_last - G)
  A[i,j] = beta_i (k_i 2^(G_i - a)) . (k_j 2^(a - G_j))  for i > j;  inverse = (I + A)^-1 diag(beta)
  among[i,j] = K^-0.5 (q_i 2^(G_i - a)) . (k_j 2^(a - G_j))  for i >= j

  u = inverse (v - from_k S)     o = from_q S + among u     S = 2^G_last S + to_end' u

The anchor a is G in the middle of the chunk: from there no factor passes e^80 with gates of -5.
"""
import torch
import triton
import triton.language as tl

WIDTH, CHUNK, PART = 128, 32, 32  # K = V; tokens; columns of V a program

# The workspace holds, for each chunk and head, in bf16 elements:
# from_k, from_q, to_end [32, 128], inverse, among [32, 32], decay [128] in fp32.
ELEMENTS = tl.constexpr(3 * CHUNK * WIDTH + 2 * CHUNK * CHUNK + 2 * WIDTH)
INVERSE = tl.constexpr(3 * CHUNK * WIDTH)
DECAY = tl.constexpr(3 * CHUNK * WIDTH + 2 * CHUNK * CHUNK)


@triton.jit
def prepare(q, k, gate, beta, a_log, dt_bias, offsets, workspace, heads, sequences, steps,
            CHUNK: tl.constexpr, WIDTH: tl.constexpr):
    slot = tl.program_id(0).to(tl.int64)
    h = tl.program_id(1).to(tl.int64)

    # Sequence n has its chunks from slot offsets[n] / 32 + n on: the last that starts here or before.
    n = tl.zeros([], tl.int64)
    above = n + sequences
    for _ in range(steps):
        middle = (n + above) // 2
        is_before = tl.load(offsets + middle) // CHUNK + middle <= slot
        n = tl.where(is_before, middle, n)
        above = tl.where(is_before, above, middle)
    begin = tl.load(offsets + n)
    first = begin + (slot - begin // CHUNK - n) * CHUNK
    left = tl.load(offsets + n + 1) - first
    if left > 0:
        t = tl.arange(0, CHUNK)
        d = tl.arange(0, WIDTH)
        is_there = t < left
        rows = (first + t) * heads + h
        at = rows[:, None] * WIDTH + d[None, :]
        key = tl.load(k + at, mask=is_there[:, None], other=0.0).to(tl.float32)
        query = tl.load(q + at, mask=is_there[:, None], other=0.0).to(tl.float32)
        raw = tl.load(gate + at, mask=is_there[:, None], other=0.0).to(tl.float32)
        b = tl.load(beta + rows, mask=is_there, other=0.0).to(tl.float32)
        b = tl.where(is_there, tl.sigmoid(b), 0.0)
        key = key * tl.rsqrt(tl.sum(key * key, 1) + 1e-6)[:, None]
        query = query * (0.08838834764 * tl.rsqrt(tl.sum(query * query, 1) + 1e-6))[:, None]
        rate = tl.exp(tl.load(a_log + h))
        raw = rate * (raw + tl.load(dt_bias + h * WIDTH + d)[None, :])
        g = tl.where(is_there[:, None], -7.21347520444 * tl.sigmoid(raw), 0.0)
        total = tl.sum(g, 0)
        g = tl.cumsum(g, 0)
        anchor = tl.sum(tl.where((t == CHUNK // 2)[:, None], g, 0.0), 0)

        base = workspace + (slot * heads + h) * ELEMENTS
        tile = t[:, None] * WIDTH + d[None, :]
        tl.store(base + tile, (key * tl.exp2(g)).to(tl.bfloat16))
        tl.store(base + CHUNK * WIDTH + tile, (query * tl.exp2(g)).to(tl.bfloat16))
        tl.store(base + 2 * CHUNK * WIDTH + tile, (key * tl.exp2(total[None, :] - g)).to(tl.bfloat16))
        tl.store((base + DECAY).to(tl.pointer_type(tl.float32)) + d, tl.exp2(total))

        up = tl.exp2(g - anchor[None, :])
        left_k = (key * up).to(tl.bfloat16)
        left_q = (query * up).to(tl.bfloat16)
        right = (key * tl.exp2(anchor[None, :] - g)).to(tl.bfloat16)
        # By choice, not by multiplying: beyond the diagonal may stand infinity.
        i = t[:, None]
        j = t[None, :]
        among = tl.where(i >= j, tl.dot(left_q, tl.trans(right)), 0.0)
        small = i * CHUNK + j
        tl.store(base + INVERSE + CHUNK * CHUNK + small, among.to(tl.bfloat16))
        # A transposed, so that its row l is a column here. Row by row: an inverse by powers of A is
        # wrong where keys are alike.
        system = tl.where(i < j, tl.dot(right, tl.trans(left_k)) * b[None, :], 0.0)
        inverse = tl.where(i == j, 1.0, 0.0)
        for step in range(1, CHUNK):
            row = tl.sum(tl.where(j == step, system, 0.0), 1)
            new = tl.sum(row[:, None] * inverse, 0)
            inverse = tl.where(i == step, inverse - new[None, :], inverse)
        tl.store(base + INVERSE + small, (inverse * b[None, :]).to(tl.bfloat16))


@triton.jit
def scan(v, start, offsets, workspace, out, last, heads,
         CHUNK: tl.constexpr, WIDTH: tl.constexpr, PART: tl.constexpr):
    PARTS: tl.constexpr = WIDTH // PART
    program = tl.program_id(0).to(tl.int64)
    first_column = program % PARTS * PART
    n = program // PARTS // heads
    h = program // PARTS % heads
    begin = tl.load(offsets + n)
    end = tl.load(offsets + n + 1)
    slot = begin // CHUNK + n

    t = tl.arange(0, CHUNK)
    d = tl.arange(0, WIDTH)
    columns = first_column + tl.arange(0, PART)
    tile = t[:, None] * WIDTH + d[None, :]
    small = t[:, None] * CHUNK + t[None, :]
    state_at = ((n * heads + h) * WIDTH + d[:, None]) * WIDTH + columns[None, :]
    state = tl.load(start + state_at)
    for c in range(0, tl.cdiv(end - begin, CHUNK)):
        base = workspace + ((slot + c) * heads + h) * ELEMENTS
        from_k = tl.load(base + tile)
        from_q = tl.load(base + CHUNK * WIDTH + tile)
        to_end = tl.load(base + 2 * CHUNK * WIDTH + tile)
        inverse = tl.load(base + INVERSE + small)
        among = tl.load(base + INVERSE + CHUNK * CHUNK + small)
        decay = tl.load((base + DECAY).to(tl.pointer_type(tl.float32)) + d)
        token = begin + c * CHUNK + t
        at = (token * heads + h)[:, None] * WIDTH + columns[None, :]
        is_there = (token < end)[:, None]
        value = tl.load(v + at, mask=is_there, other=0.0).to(tl.float32)

        rounded = state.to(tl.bfloat16)
        rest = (value - tl.dot(from_k, rounded)).to(tl.bfloat16)
        update = tl.dot(inverse, rest).to(tl.bfloat16)
        o = tl.dot(from_q, rounded)
        o = tl.dot(among, update, acc=o)
        tl.store(out + at, o.to(tl.bfloat16), mask=is_there)
        state = tl.dot(tl.trans(to_end), update, acc=state * decay[:, None])
    tl.store(last + state_at, state)


def slots_of(dims):
    return dims["B"] * dims["T"] // CHUNK + dims["N"]


def marathon_workspace_bytes(dims):
    return slots_of(dims) * dims["H"] * ELEMENTS.value * 2


def marathon_run(tensors, dims, host, workspace):
    heads, sequences = dims["H"], dims["N"]
    if heads * sequences == 0:
        return
    scratch = workspace[:marathon_workspace_bytes(dims)].view(torch.bfloat16)
    prepare[(slots_of(dims), heads)](
        tensors["q"], tensors["k"], tensors["g"], tensors["beta"], tensors["A_log"],
        tensors["dt_bias"], tensors["cu_seqlens"], scratch, heads, sequences,
        max(sequences - 1, 0).bit_length(), CHUNK=CHUNK, WIDTH=WIDTH, num_warps=4)
    scan[(sequences * heads * (WIDTH // PART),)](
        tensors["v"], tensors["h0"], tensors["cu_seqlens"], scratch, tensors["o"], tensors["ht"],
        heads, CHUNK=CHUNK, WIDTH=WIDTH, PART=PART, num_warps=4, num_stages=2)
