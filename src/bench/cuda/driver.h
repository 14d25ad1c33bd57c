// The CUDA driver by dlopen: libcuda.so.1, or the library that $MARATHON_CUDA_DRIVER names (the
// fake one of the tests). The third seam: timing, oracle and fault paths run where there is no GPU.
#pragma once

#include <string_view>

#include "base/result.h"
#include "bench/cuda/abi.h"

namespace marathon::cuda {

// name, arguments; every one returns CUresult. By the names of cuda.h without version suffixes.
#define MARATHON_CUDA_FUNCTIONS(F)                                                               \
  F(cuInit, (unsigned flags))                                                                    \
  F(cuDriverGetVersion, (int* version))                                                          \
  F(cuDeviceGetCount, (int* count))                                                              \
  F(cuDeviceGet, (CUdevice * device, int ordinal))                                               \
  F(cuDeviceGetName, (char* name, int length, CUdevice device))                                  \
  F(cuDeviceGetUuid, (CUuuid * uuid, CUdevice device))                                           \
  F(cuDeviceGetAttribute, (int* value, CUdevice_attribute which, CUdevice device))               \
  F(cuDeviceTotalMem, (size_t * bytes, CUdevice device))                                         \
  F(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                            \
  F(cuDevicePrimaryCtxRelease, (CUdevice device))                                                \
  F(cuCtxSetCurrent, (CUcontext context))                                                        \
  F(cuCtxGetCurrent, (CUcontext * context))                                                      \
  F(cuCtxSynchronize, ())                                                                        \
  F(cuCtxResetPersistingL2Cache, ())                                                             \
  F(cuCtxSetLimit, (CUlimit limit, size_t value))                                                \
  F(cuGetErrorName, (CUresult error, const char** name))                                         \
  F(cuGetErrorString, (CUresult error, const char** text))                                       \
  F(cuMemGetInfo, (size_t * free, size_t * total))                                               \
  F(cuMemGetAllocationGranularity,                                                               \
    (size_t * granularity, const CUmemAllocationProp* properties, unsigned option))              \
  F(cuMemCreate, (CUmemGenericAllocationHandle * handle, size_t bytes,                           \
                  const CUmemAllocationProp* properties, unsigned long long flags))              \
  F(cuMemRelease, (CUmemGenericAllocationHandle handle))                                         \
  F(cuMemAddressReserve, (CUdeviceptr * address, size_t bytes, size_t alignment,                 \
                          CUdeviceptr wish, unsigned long long flags))                           \
  F(cuMemAddressFree, (CUdeviceptr address, size_t bytes))                                       \
  F(cuMemMap, (CUdeviceptr address, size_t bytes, size_t offset,                                 \
               CUmemGenericAllocationHandle handle, unsigned long long flags))                   \
  F(cuMemUnmap, (CUdeviceptr address, size_t bytes))                                             \
  F(cuMemSetAccess, (CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access,           \
                     size_t count))                                                              \
  F(cuMemExportToShareableHandle, (void* shareable, CUmemGenericAllocationHandle handle,         \
                                   int type, unsigned long long flags))                          \
  F(cuMemImportFromShareableHandle,                                                              \
    (CUmemGenericAllocationHandle * handle, void* shareable, int type))                          \
  F(cuMemAlloc, (CUdeviceptr * address, size_t bytes))                                           \
  F(cuMemFree, (CUdeviceptr address))                                                            \
  F(cuMemHostAlloc, (void** address, size_t bytes, unsigned flags))                              \
  F(cuMemFreeHost, (void* address))                                                              \
  F(cuMemHostGetDevicePointer, (CUdeviceptr * address, void* host, unsigned flags))              \
  F(cuMemcpyHtoD, (CUdeviceptr to, const void* from, size_t bytes))                              \
  F(cuMemcpyDtoH, (void* to, CUdeviceptr from, size_t bytes))                                    \
  F(cuMemcpyHtoDAsync, (CUdeviceptr to, const void* from, size_t bytes, CUstream stream))        \
  F(cuMemcpyDtoHAsync, (void* to, CUdeviceptr from, size_t bytes, CUstream stream))              \
  F(cuMemcpyDtoDAsync, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))        \
  F(cuMemsetD8Async, (CUdeviceptr to, unsigned char value, size_t count, CUstream stream))       \
  F(cuMemsetD32Async, (CUdeviceptr to, unsigned value, size_t count, CUstream stream))           \
  F(cuStreamCreate, (CUstream * stream, unsigned flags))                                         \
  F(cuStreamDestroy, (CUstream stream))                                                          \
  F(cuStreamSynchronize, (CUstream stream))                                                      \
  F(cuStreamQuery, (CUstream stream))                                                            \
  F(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))                         \
  F(cuStreamWaitValue32, (CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags)) \
  F(cuStreamWriteValue32,                                                                        \
    (CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags))                      \
  F(cuStreamBeginCapture, (CUstream stream, CUstreamCaptureMode mode))                           \
  F(cuStreamEndCapture, (CUstream stream, CUgraph * graph))                                      \
  F(cuEventCreate, (CUevent * event, unsigned flags))                                            \
  F(cuEventRecord, (CUevent event, CUstream stream))                                             \
  F(cuEventSynchronize, (CUevent event))                                                         \
  F(cuEventQuery, (CUevent event))                                                               \
  F(cuEventElapsedTime, (float* ms, CUevent begin, CUevent end))                                 \
  F(cuEventDestroy, (CUevent event))                                                             \
  F(cuModuleLoadData, (CUmodule * module, const void* image))                                    \
  F(cuModuleUnload, (CUmodule module))                                                           \
  F(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char* name))             \
  F(cuModuleGetFunctionCount, (unsigned* count, CUmodule module))                                \
  F(cuFuncGetAttribute, (int* value, CUfunction_attribute which, CUfunction function))           \
  F(cuFuncSetAttribute, (CUfunction function, CUfunction_attribute which, int value))            \
  F(cuFuncGetName, (const char** name, CUfunction function))                                     \
  F(cuFuncGetModule, (CUmodule * module, CUfunction function))                                   \
  F(cuFuncGetParamInfo,                                                                          \
    (CUfunction function, size_t index, size_t * offset, size_t * size))                         \
  F(cuKernelGetFunction, (CUfunction * function, CUkernel kernel))                               \
  F(cuKernelGetName, (const char** name, CUkernel kernel))                                       \
  F(cuLaunchKernel, (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,     \
                     unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,      \
                     CUstream stream, void** parameters, void** extra))                          \
  F(cuGraphCreate, (CUgraph * graph, unsigned flags))                                            \
  F(cuGraphDestroy, (CUgraph graph))                                                             \
  F(cuGraphGetNodes, (CUgraph graph, CUgraphNode * nodes, size_t * count))                       \
  F(cuGraphGetEdges, (CUgraph graph, CUgraphNode * from, CUgraphNode * to,                       \
                      CUgraphEdgeData * data, size_t * count))                                   \
  F(cuGraphNodeGetType, (CUgraphNode node, CUgraphNodeType * type))                              \
  F(cuGraphKernelNodeGetParams, (CUgraphNode node, CUDA_KERNEL_NODE_PARAMS * params))            \
  F(cuGraphKernelNodeGetAttribute,                                                               \
    (CUgraphNode node, CUlaunchAttributeID id, CUlaunchAttributeValue * value))                  \
  F(cuGraphKernelNodeSetAttribute,                                                               \
    (CUgraphNode node, CUlaunchAttributeID id, const CUlaunchAttributeValue* value))             \
  F(cuGraphMemsetNodeGetParams, (CUgraphNode node, CUDA_MEMSET_NODE_PARAMS * params))            \
  F(cuGraphMemcpyNodeGetParams, (CUgraphNode node, CUDA_MEMCPY3D * params))                      \
  F(cuGraphChildGraphNodeGetGraph, (CUgraphNode node, CUgraph * graph))                          \
  F(cuGraphAddKernelNode, (CUgraphNode * node, CUgraph graph, const CUgraphNode* after,          \
                           size_t count, const CUDA_KERNEL_NODE_PARAMS* params))                 \
  F(cuGraphAddMemsetNode,                                                                        \
    (CUgraphNode * node, CUgraph graph, const CUgraphNode* after, size_t count,                  \
     const CUDA_MEMSET_NODE_PARAMS* params, CUcontext context))                                  \
  F(cuGraphAddMemcpyNode, (CUgraphNode * node, CUgraph graph, const CUgraphNode* after,          \
                           size_t count, const CUDA_MEMCPY3D* params, CUcontext context))        \
  F(cuGraphAddEmptyNode,                                                                         \
    (CUgraphNode * node, CUgraph graph, const CUgraphNode* after, size_t count))                 \
  F(cuGraphAddDependencies, (CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,      \
                             const CUgraphEdgeData* data, size_t count))                         \
  F(cuGraphInstantiateWithFlags,                                                                 \
    (CUgraphExec * exec, CUgraph graph, unsigned long long flags))                               \
  F(cuGraphExecDestroy, (CUgraphExec exec))                                                      \
  F(cuGraphLaunch, (CUgraphExec exec, CUstream stream))                                          \
  F(cuGraphUpload, (CUgraphExec exec, CUstream stream))                                          \
  F(cuProfilerStart, ())                                                                         \
  F(cuProfilerStop, ())

struct Driver {
// NOLINTNEXTLINE(bugprone-macro-parentheses): arguments of a declaration
#define MARATHON_CUDA_MEMBER(name, arguments) CUresult(*name) arguments = nullptr;
  MARATHON_CUDA_FUNCTIONS(MARATHON_CUDA_MEMBER)
#undef MARATHON_CUDA_MEMBER

  // Loaded and initialised once a process. Error not_found: no driver or no device; invalid: too
  // old; each says what to do.
  static Result<const Driver*> load();

  // Names what failed and how the driver calls it. Fault: no_space for memory, retry for what a
  // fresh process may do, system else.
  Status ok(CUresult result, std::string_view doing) const;
};

// After these the context, and with it the process, is lost.
bool is_sticky(CUresult result);

}  // namespace marathon::cuda
