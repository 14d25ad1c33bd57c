/* marathon_kernel.h: what a candidate, a baseline and an oracle of a kernel task look like (ABI 1).
 *
 * This page speaks of a CPU; docs/gpu.md says what differs under CUDA.
 *
 * A candidate exports `marathon_run` and, if it needs scratch memory, `marathon_workspace_bytes`.
 * It may allocate nothing, start no thread, open no file and keep no state between two calls: every
 * call gets other inputs at other addresses.
 *
 * An oracle exports `marathon_oracle`. It is compiled twice: once with `real` = double (the
 * reference) and once with `real` = float (an honest low-precision emulation from which the judge
 * takes the error that it allows). It sees every floating tensor as `real`, every integer tensor as
 * int64_t, whatever their dtype in the task is.
 */
#ifndef MARATHON_KERNEL_H
#define MARATHON_KERNEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef MARATHON_REAL
#define MARATHON_REAL double
#endif
typedef MARATHON_REAL real;

typedef struct MarathonArgs {
  int64_t abi;               /* 1 */
  int64_t dim_count;         /* number of dims */
  const int64_t* dims;       /* values, in the order of [dims] names in task.toml */
  int64_t tensor_count;      /* number of tensors */
  void* const* tensors;      /* row-major and dense, 64-byte aligned, in the order of [[tensor]] */
  void* workspace;           /* 4096-byte aligned, full of random bits at every call */
  int64_t workspace_bytes;   /* at least what marathon_workspace_bytes said */
  void* stream;              /* CUDA: the cudaStream_t to launch on. Null on a CPU. */
  const void* const* host;   /* CUDA: for each tensor its content on the host where the task says
                                host = true, else null. Null on a CPU. */
} MarathonArgs;

/* CUDA oracles only: the places of one axis of an output that are computed (docs/gpu.md). */
typedef struct MarathonSample {
  int64_t axis;              /* of the tensor's shape; -1: the whole tensor */
  int64_t count;             /* places in `indices` */
  const int64_t* indices;    /* device memory, ascending */
} MarathonSample;

/* Computes every output from the inputs. Returns 0, or any other number to refuse the shape. */
int marathon_run(const MarathonArgs* args);

/* Scratch bytes that marathon_run needs for these dims; at most 1 GiB. Optional: absent means 0. */
int64_t marathon_workspace_bytes(const int64_t* dims, int64_t dim_count);

/* The oracle's entry. Same order of dims and tensors. It must be a pure function: it is called from
 * several threads at once. */
#ifdef __CUDACC__
int marathon_oracle(const MarathonArgs* args, const MarathonSample* samples);
#else
int marathon_oracle(const MarathonArgs* args);
#endif

#ifdef __cplusplus
}
#endif
#endif
