"""Compares Triton starts and baselines of the GPU tasks with the definitions in fp64, without any judge.

  task_smoke_triton.py [--time] [TASK ...]     --time: the listed shapes too, from a captured graph
"""
import importlib.util
import math
import os
import sys
import traceback

import torch

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tasks")
DEVICE = os.environ.get("SMOKE_DEVICE", "cuda")
BF16 = torch.bfloat16


def normal(*extents, mean=0.0, deviation=1.0, dtype=BF16):
    return (torch.randn(*extents, device=DEVICE) * deviation + mean).to(dtype)


def unwritten(*extents, dtype=BF16):
    return torch.full(extents, float("nan"), dtype=dtype, device=DEVICE)


# ---- kda-forward

def kda_case(b, t, h, lengths, gate_mean=0.0, gate_deviation=0.5):
    n = len(lengths)
    offsets = torch.tensor([sum(lengths[:i]) for i in range(n + 1)], dtype=torch.int64)
    half_life = torch.exp(torch.rand(h, 128, device=DEVICE) * math.log(4096) + math.log(4))
    p = math.log(2) / (5 * half_life)
    tensors = {
        "q": normal(b, t, h, 128), "k": normal(b, t, h, 128), "v": normal(b, t, h, 128),
        "g": normal(b, t, h, 128, mean=gate_mean, deviation=gate_deviation), "beta": normal(b, t, h),
        "A_log": torch.zeros(h, device=DEVICE), "dt_bias": torch.log(p / (1 - p)),
        "h0": normal(n, h, 128, 128, dtype=torch.float32), "cu_seqlens": offsets.to(DEVICE),
        "o": unwritten(b, t, h, 128), "ht": unwritten(n, h, 128, 128, dtype=torch.float32)}
    dims = {"B": b, "T": t, "H": h, "N": n, "K": 128, "V": 128}
    return tensors, dims, {"cu_seqlens": offsets}


def kda_truth(tensors, dims):
    x = {name: tensors[name].double() for name in ("q", "k", "v", "g", "beta", "A_log", "dt_bias", "h0")}
    h = dims["H"]
    q, k, v, g = (x[name].reshape(-1, h, 128) for name in ("q", "k", "v", "g"))
    q, k = (y / torch.sqrt((y * y).sum(-1, keepdim=True) + 1e-6) for y in (q, k))
    decay = torch.exp(-5 * torch.sigmoid(torch.exp(x["A_log"])[:, None] * (g + x["dt_bias"])))
    beta = torch.sigmoid(x["beta"].reshape(-1, h, 1))
    out, last = torch.zeros_like(v), x["h0"].clone()
    offsets = tensors["cu_seqlens"].tolist()
    for n in range(dims["N"]):
        state = last[n]
        for t in range(offsets[n], offsets[n + 1]):
            state = state * decay[t][:, :, None]
            u = beta[t] * (v[t] - torch.einsum("hkv,hk->hv", state, k[t]))
            state = state + k[t][:, :, None] * u[:, None, :]
            out[t] = torch.einsum("hkv,hk->hv", state, q[t]) / math.sqrt(128)
        last[n] = state
    return {"o": out.reshape(tensors["o"].shape), "ht": last}


# ---- MLA

def attend(q, latent, is_seen):
    """q [..., rows, depth], latent [..., keys, depth], is_seen [..., rows, keys]"""
    score = q @ latent.transpose(-1, -2) / math.sqrt(q.shape[-1])
    score = score.masked_fill(~is_seen, float("-inf"))
    is_empty = ~is_seen.any(-1)
    p = torch.nan_to_num(torch.softmax(score, -1))
    lse = torch.logsumexp(score, -1).masked_fill(is_empty, 0.0)
    return p @ latent[..., :512], lse


def decode_case(q, h, s, r, lengths):
    b = len(lengths)
    tensors = {"q": normal(b, q, h, 512 + r), "latent": normal(b, s, 512 + r),
               "lengths": torch.tensor(lengths, dtype=torch.int32, device=DEVICE),
               "o": unwritten(b, q, h, 512), "lse": unwritten(b, q, h, dtype=torch.float32)}
    return tensors, {"B": b, "Q": q, "H": h, "S": s, "R": r, "L": min(lengths)}, {}


def decode_truth(tensors, dims):
    rows = dims["Q"] * dims["H"]
    is_seen = torch.arange(dims["S"], device=DEVICE) < tensors["lengths"][:, None]
    out, lse = attend(tensors["q"].double().flatten(1, 2), tensors["latent"].double(),
                      is_seen[:, None, :].expand(-1, rows, -1))
    return {"o": out.reshape(tensors["o"].shape), "lse": lse.reshape(tensors["lse"].shape)}


def prefill_case(b, h, t, s, r, causal, offset):
    tensors = {"q": normal(b, h, t, 512 + r), "latent": normal(b, s, 512 + r),
               "o": unwritten(b, h, t, 512), "lse": unwritten(b, h, t, dtype=torch.float32)}
    return tensors, {"B": b, "H": h, "T": t, "S": s, "R": r, "causal": causal, "offset": offset}, {}


def prefill_truth(tensors, dims):
    last = torch.arange(dims["T"], device=DEVICE) + dims["offset"]
    if not dims["causal"]:
        last = torch.full_like(last, dims["S"])
    is_seen = torch.arange(dims["S"], device=DEVICE) <= last[:, None]
    out, lse = attend(tensors["q"].double(), tensors["latent"].double()[:, None], is_seen)
    return {"o": out, "lse": lse}


TASKS = {
    "kda-forward": (kda_case, kda_truth, {
        "one sequence": (1, 150, 2, [150]), "batch of three": (3, 65, 2, [65] * 3),
        "tails and empty ones": (1, 181, 2, [0, 1, 64, 33, 0, 17, 65, 1, 0]),
        "across the batch": (2, 100, 2, [150, 30, 20]), "gate -5": (1, 100, 2, [100], 200.0, 0.0),
        "gate 0": (1, 300, 2, [300], -200.0, 0.0)}, {
        "B1-T8192-H96": (1, 8192, 96, [8192]), "B1-T8192-H64": (1, 8192, 64, [8192]),
        "B1-T8192-H32": (1, 8192, 32, [8192]), "B2-T16384-H16": (2, 16384, 16, [16384] * 2),
        "B1-T65536-H32": (1, 65536, 32, [65536]),
        "varlen-T8192-H96": (1, 8192, 96, [1300, 547, 2048, 963, 271, 3063])}),
    "mla-decode": (decode_case, decode_truth, {
        "one key": (1, 64, 1, 0, [1]), "tail": (1, 64, 1003, 64, [1003]),
        "any length": (1, 16, 300, 64, [0, 1, 31, 32, 33, 64, 65, 129, 299, 300]),
        "three tokens": (3, 20, 200, 0, [200, 77]),
        "many sequences": (1, 64, 150, 64, [150] * 40)}, {
        "decode-512": (1, 64, 8192, 0, [8192]), "decode-576": (1, 64, 8192, 64, [8192]),
        "decode-b64-32k": (1, 64, 32768, 64, [32768] * 64)}),
    "mla-prefill": (prefill_case, prefill_truth, {
        "one token": (1, 3, 1, 1, 0, 1, 0), "causal": (1, 2, 130, 130, 64, 1, 0),
        "full": (2, 3, 100, 70, 0, 0, 0), "chunk": (1, 4, 129, 1130, 64, 1, 1001),
        "no keys at first": (1, 2, 90, 90, 0, 1, -3)}, {
        f"prefill-{512 + r}-{'causal' if c else 'full'}": (1, 64, 8192, 8192, r, c, 0)
        for r in (0, 64) for c in (0, 1)}),
}
# Relative RMS over the whole output. Baselines in bf16 are looser: eager PyTorch rounds its scores.
LIMITS = {"start-triton": {"o": 6e-3, "ht": 6e-3, "lse": 1e-4}, "baseline": {"o": 1e-2, "ht": 1e-2, "lse": 3e-3}}


def load(task, folder, file):
    path = os.path.join(ROOT, task, folder, file)
    sys.path.insert(0, os.path.dirname(path))
    try:
        spec = importlib.util.spec_from_file_location(f"{task}-{folder}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.pop(0)


def workspace_of(module, dims):
    if not hasattr(module, "marathon_workspace_bytes"):
        return None
    return torch.full((max(module.marathon_workspace_bytes(dims), 16),), 255, dtype=torch.uint8, device=DEVICE)


def figures(got, want):
    got, want = got.double(), want.double()
    odd = int((~torch.isfinite(got)).sum())
    error = math.sqrt(float(((got - want) ** 2).sum()) / max(float((want ** 2).sum()), 1e-300))
    return error, odd


def compare(module, folder, label, case, truth):
    tensors, dims, host = case
    module.marathon_run(tensors, dims, host, workspace_of(module, dims))
    is_right, words = True, []
    for name, want in truth(tensors, dims).items():
        error, odd = figures(tensors[name], want)
        words.append(f"{name} {error:.2e}" + (f" {odd} NOT FINITE" if odd else ""))
        is_right = is_right and odd == 0 and error <= LIMITS[folder][name]
    print(f"  {label:<22} {'  '.join(words)}  {'ok' if is_right else 'WRONG'}", flush=True)
    return is_right


def time_in_graph(module, label, case):
    """As the judge does it: once as it is, then captured without torch's own graph machinery."""
    tensors, dims, host = case
    workspace = workspace_of(module, dims)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        module.marathon_run(tensors, dims, host, workspace)
        stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        module.marathon_run(tensors, dims, host, workspace)
    times = []
    for _ in range(12):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop))
    odd = sum(int((~torch.isfinite(tensors[name])).sum()) for name in ("o", "ht", "lse") if name in tensors)
    print(f"  {label:<22} {sorted(times[2:])[5]:.4f} ms in a graph" + (f"  {odd} NOT FINITE" if odd else ""), flush=True)
    return odd == 0


def main():
    timed = "--time" in sys.argv
    names = [name for name in sys.argv[1:] if not name.startswith("--")] or list(TASKS)
    failed = 0
    torch.manual_seed(3)
    for task in names:
        make, truth, small, large = TASKS[task]
        for folder, file in (("start-triton", "solution.py"), ("baseline", "baseline.py")):
            print(f"== {task}: {folder} against the definition", flush=True)
            try:
                module = load(task, folder, file)
            except ImportError as error:
                print(f"  not run: {error}")
                continue
            for label, arguments in small.items():
                try:
                    failed += not compare(module, folder, label, make(*arguments), truth)
                except Exception:
                    failed += 1
                    print(f"  {label:<22} FAILED\n{traceback.format_exc(limit=-4)}", flush=True)
            if not timed:
                continue
            for label, arguments in large.items():
                try:
                    failed += not time_in_graph(module, label, make(*arguments))
                except Exception:
                    failed += 1
                    print(f"  {label:<22} FAILED\n{traceback.format_exc(limit=-4)}", flush=True)
                torch.cuda.empty_cache()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
