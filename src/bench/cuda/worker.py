"""Runs a Python module (a Triton candidate, or a trusted baseline in torch) for marathon-judge.

  python3 worker.py --library libmarathon_torch.so --module FILE.py --task TASK.json --temp DIR
                    [--trusted] [--unsafe-no-sandbox]

TASK.json: {"dims": [names], "tensors": [{"name", "dtype", "host"}]}. Everything that maps memory,
captures, replays and measures is in the library.
"""
import argparse
import ctypes
import hashlib
import importlib.util
import json
import os
import sys
import traceback

GAVE_UP = 124


class Args(ctypes.Structure):  # MarathonArgs of marathon_kernel.h
    _fields_ = [
        ("abi", ctypes.c_int64),
        ("dim_count", ctypes.c_int64),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
        ("tensor_count", ctypes.c_int64),
        ("tensors", ctypes.POINTER(ctypes.c_void_p)),
        ("workspace", ctypes.c_void_p),
        ("workspace_bytes", ctypes.c_int64),
        ("stream", ctypes.c_void_p),
        ("host", ctypes.POINTER(ctypes.c_void_p)),
    ]


RUN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Args))
WORKSPACE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.POINTER(ctypes.c_int64), ctypes.c_int64)


class Memory:
    """Device memory of the judge as torch can take it without a copy."""

    def __init__(self, address, count, typestr):
        self.__cuda_array_interface__ = {
            "data": (address, False), "shape": (count,), "typestr": typestr, "version": 3}


def main():
    parser = argparse.ArgumentParser()
    for name in ("library", "module", "task", "temp"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--trusted", action="store_true")
    parser.add_argument("--unsafe-no-sandbox", action="store_true")
    options = parser.parse_args()

    library = ctypes.CDLL(options.library)
    library.marathon_torch_request.restype = ctypes.c_char_p
    with open(options.task) as file:
        task = json.load(file)
    import torch  # before the jail: seconds, while the compiler of something else runs
    import triton

    def loaded(*arguments, **named):
        """Triton has loaded a kernel: which cubin it came from."""
        function = named.get("function", arguments[1] if len(arguments) > 1 else None)
        group = named.get("metadata_group", arguments[3] if len(arguments) > 3 else {})
        for name, path in dict(group or {}).items():
            if str(name).endswith(".cubin"):
                with open(path, "rb") as cubin:
                    image = hashlib.sha256(cubin.read()).hexdigest()
                library.marathon_torch_loaded(ctypes.c_uint64(function), image.encode())

    triton.knobs.runtime.kernel_load_end_hook.add(loaded)

    torch_types = {"fp32": torch.float32, "fp64": torch.float64, "bf16": torch.bfloat16,
                   "fp16": torch.float16, "int32": torch.int32, "int64": torch.int64}
    carriers = {"fp32": "<f4", "fp64": "<f8", "bf16": "<i2", "fp16": "<f2", "int32": "<i4",
                "int64": "<i8"}

    if not options.trusted:
        code = library.marathon_torch_jail(
            os.path.dirname(os.path.abspath(options.module)).encode(), options.temp.encode(),
            int(not options.unsafe_no_sandbox))
        if code != 0:
            os._exit(code)
    torch.cuda.init()
    sys.path.insert(0, os.path.dirname(os.path.abspath(options.module)))
    spec = importlib.util.spec_from_file_location("solution", options.module)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        entry = module.marathon_run
    except BaseException:
        traceback.print_exc()
        os._exit(GAVE_UP)

    def dims_of(pointer, count):
        return {name: pointer[i] for i, name in enumerate(task["dims"][:count])}

    def device_tensor(address, dtype, extents):
        count = 1
        for extent in extents:
            count *= extent
        if count == 0:
            return torch.empty(extents, dtype=torch_types[dtype], device="cuda")
        flat = torch.as_tensor(Memory(address, count, carriers[dtype]), device="cuda")
        return flat.view(torch_types[dtype]).view(extents)

    def host_tensor(address, dtype, extents):
        count = 1
        for extent in extents:
            count *= extent
        element = torch.empty((), dtype=torch_types[dtype]).element_size()
        data = bytearray(ctypes.string_at(address, count * element))
        return torch.frombuffer(data, dtype=torch_types[dtype]).view(extents)

    def run(pointer):
        try:
            args = pointer.contents
            extents = json.loads(library.marathon_torch_request())["extents"]
            tensors, host = {}, {}
            for i, tensor in enumerate(task["tensors"]):
                tensors[tensor["name"]] = device_tensor(args.tensors[i], tensor["dtype"], extents[i])
                if args.host[i]:
                    host[tensor["name"]] = host_tensor(args.host[i], tensor["dtype"], extents[i])
            workspace = None
            if args.workspace_bytes > 0:
                workspace = torch.as_tensor(
                    Memory(args.workspace, args.workspace_bytes, "|u1"), device="cuda")
            with torch.cuda.stream(torch.cuda.ExternalStream(args.stream)):
                entry(tensors, dims_of(args.dims, args.dim_count), host, workspace)
            return 0
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            return GAVE_UP

    def workspace_bytes(dims, count):
        try:
            if not hasattr(module, "marathon_workspace_bytes"):
                return 0
            return int(module.marathon_workspace_bytes(dims_of(dims, count)))
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            return -1

    run_entry, workspace_entry = RUN(run), WORKSPACE(workspace_bytes)
    code = library.marathon_torch_serve(run_entry, workspace_entry, int(options.trusted))
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
