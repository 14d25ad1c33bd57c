"""The baseline: chunk_kda of Flash Linear Attention (fla-core) on its Triton kernels.

Its fastest correct setting: norm, gate and (where the version has it) beta inside of the kernels,
safe_gate, FlashKDA off. A long sequence is tried with and without FLA's split of a sequence over the
card (FLA_INTRACARD_CP); the faster one is taken, once for each dims and lengths, and printed.

The judge runs this eagerly once and then captures one graph a buffer set. While it captures nothing may
be copied from the host, and FLA makes tables from cu_seqlens there and caches them by the identity
of that tensor. So each content of cu_seqlens has one tensor here, kept for ever, and a content that is
new during a capture is first run by a thread of its own, on another stream.
"""
import contextlib
import functools
import inspect
import os
import statistics
import sys
import threading
import types

os.environ["FLA_FLASH_KDA"] = "0"
os.environ["FLA_INTRACARD_CP"] = "0"
os.environ["FLA_TENSOR_CACHE_SIZE"] = "4096"

import torch

try:
    import fla.ops.common.intracard_cp as intracard
    import fla.ops.gla.chunk as gla_chunk
    from fla.ops.kda import chunk_kda
except ImportError as error:
    raise ImportError("the baseline of kda-forward is FLA's chunk_kda: install fla-core (0.5.1 or "
                      f"later) and einops for {sys.executable} ({error})") from error

LONG = 16384  # tokens: below this FLA never splits a sequence
FEW = 150000  # tokens × heads: shapes that are only checked; what FLA cannot do there must not end a run

takes_raw_beta = "use_beta_sigmoid_in_kernel" in inspect.signature(inspect.unwrap(chunk_kda)).parameters


class Torch(types.ModuleType):
    """torch as one module of FLA sees it, with a function or two replaced."""

    def __init__(self, **replaced):
        super().__init__("torch")
        self.__dict__.update(replaced)

    def __getattr__(self, name):
        return getattr(torch, name)


# ---- FLA writes o where the judge wants it, which saves a copy that is not FLA's work

target = threading.local()


def zeros_like(x, **options):
    out = getattr(target, "out", None)
    if out is None or options or out.shape != x.shape or out.dtype != x.dtype:
        return torch.zeros_like(x, **options)
    return out.zero_()


gla_chunk.torch = Torch(zeros_like=zeros_like)


@contextlib.contextmanager
def output_to(out):
    target.out = out
    try:
        yield
    finally:
        target.out = None


# ---- what the split makes from host lists in every call is made once: a graph can hold it then

@functools.lru_cache(maxsize=None)
def kept_tensor(values, dtype, device):
    return torch.tensor(values, dtype=dtype, device=device)


def tensor(values, dtype=None, device=None):
    return kept_tensor(tuple(values), dtype, str(device))


precompute = intracard._precompute_intracard_indices


def precompute_on_device(*args, **options):
    # (cu_seqlens, count, three lists of places, count, offsets, offsets)
    result = list(precompute(*args, **options))
    for place in (2, 3, 4):
        result[place] = tensor(result[place], torch.long, "cuda")
    return tuple(result)


intracard.torch = Torch(tensor=tensor)
intracard._precompute_intracard_indices = precompute_on_device


# ---- calls

@functools.lru_cache(maxsize=None)
def sequences_of(offsets):
    return (torch.tensor(offsets, dtype=torch.long, device="cuda"),
            torch.tensor(offsets, dtype=torch.long))


def call(tensors, sequences, split):
    os.environ["FLA_INTRACARD_CP"] = "1" if split else "0"
    options = {}
    flat = {name: tensors[name] for name in ("q", "k", "v", "g", "beta", "o")}
    if sequences is not None:
        flat = {name: x.reshape(1, -1, *x.shape[2:]) for name, x in flat.items()}
        options.update(cu_seqlens=sequences[0], cu_seqlens_cpu=sequences[1])
    if takes_raw_beta:
        options["use_beta_sigmoid_in_kernel"] = True
    else:
        flat["beta"] = flat["beta"].float().sigmoid()
    with torch.inference_mode(), output_to(flat["o"]):
        o, last = chunk_kda(
            flat["q"], flat["k"], flat["v"], flat["g"], flat["beta"], scale=128 ** -0.5,
            initial_state=tensors["h0"], output_final_state=True, use_qk_l2norm_in_kernel=True,
            use_gate_in_kernel=True, safe_gate=True, lower_bound=-5.0, A_log=tensors["A_log"],
            dt_bias=tensors["dt_bias"].reshape(-1), **options)
        if o.data_ptr() != flat["o"].data_ptr():
            flat["o"].copy_(o)
        tensors["ht"].copy_(last)


def in_a_thread(work):
    """Runs `work` on another thread and stream and waits; a capture on this thread goes on undisturbed."""
    failure = []

    def run():
        try:
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                work()
            stream.synchronize()
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]


def time_ms(work):
    work()
    times = []
    for _ in range(5):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop))
    return statistics.median(times)


def can_be_captured(work):
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="thread_local"):
            work()
        return True
    except Exception as error:
        print(f"baseline: the split cannot be captured: {error}", file=sys.stderr)
        return False


class Way:
    """How dims and lengths are run: decided at their first call, which is never captured."""

    def __init__(self, tensors, dims, offsets):
        lengths = [b - a for a, b in zip(offsets, offsets[1:])]
        self.is_even = dims["N"] == dims["B"] and all(n == dims["T"] for n in lengths)
        self.split = False
        self.known = set()  # contents of cu_seqlens that have run
        if max(lengths) < LONG:
            return
        times = {}
        for split in (False, True):
            self.split = split
            times[split] = time_ms(lambda: self.run(tensors, offsets))
        self.split = times[True] < times[False] and can_be_captured(lambda: self.run(tensors, offsets))
        print(f"baseline: {dims}: {times[False]:.3f} ms whole, {times[True]:.3f} ms split, "
              f"takes {'split' if self.split else 'whole'}", file=sys.stderr)

    def run(self, tensors, offsets):
        call(tensors, None if self.is_even and not self.split else sequences_of(offsets), self.split)
        self.known.add(offsets)


ways = {}


def marathon_run(tensors, dims, host, workspace):
    offsets = tuple(host["cu_seqlens"].tolist())
    if offsets[-1] == 0 or dims["H"] == 0:
        tensors["ht"].copy_(tensors["h0"])
        return
    key = (*sorted(dims.items()), *sorted(b - a for a, b in zip(offsets, offsets[1:])))
    captures = torch.cuda.is_current_stream_capturing()
    if key not in ways and not captures:
        try:
            ways[key] = Way(tensors, dims, offsets)
            ways[key].run(tensors, offsets)
            torch.cuda.synchronize()
            return
        except Exception as error:
            if offsets[-1] * dims["H"] >= FEW:
                raise
            print(f"baseline: FLA cannot do {dims}: {error}", file=sys.stderr)
            ways[key] = None
    way = ways[key]
    if way is None:
        tensors["ht"].copy_(tensors["h0"])
        return
    if captures and offsets not in way.known:
        in_a_thread(lambda: way.run(tensors, offsets))
    way.run(tensors, offsets)
