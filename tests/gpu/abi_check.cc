// Compares src/bench/cuda/abi.h and driver.h with a CUDA toolkit's own headers. All of it happens
// when this is compiled; CMake leaves it out where there is no toolkit.
#include <cuda.h>
#include <cudaProfilerTypedefs.h>
#include <cudaTypedefs.h>

#include <cstddef>
#include <cstdio>
#include <type_traits>

#if CUDA_VERSION < 12040
int main() {
  std::puts("this toolkit is older than CUDA 12.4: nothing is compared");
  return 0;
}
#else

// What cuda.h makes a macro of cannot be a name of ours.
constexpr long their_devicemap = CU_MEMHOSTALLOC_DEVICEMAP;
#undef CU_MEMHOSTALLOC_DEVICEMAP
// After cuda.h: its macros rename functions (cuMemAlloc to cuMemAlloc_v2), here and in our headers.
#include "bench/cuda/driver.h"

namespace ours = marathon::cuda;

#define VALUE(name) static_assert(static_cast<long>(ours::name) == static_cast<long>(::name), #name)
#define SIZE(type)                                                                              \
  static_assert(sizeof(ours::type) == sizeof(::type) && alignof(ours::type) == alignof(::type), \
                #type)
#define FIELD(type, field)                                                \
  static_assert(offsetof(ours::type, field) == offsetof(::type, field) && \
                    sizeof(ours::type::field) == sizeof(::type::field),   \
                #type "." #field)
// A field of a field: sizeof cannot name it.
#define INNER(type, field) static_assert(offsetof(ours::type, field) == offsetof(::type, field))

VALUE(CUDA_SUCCESS);
VALUE(CUDA_ERROR_INVALID_VALUE);
VALUE(CUDA_ERROR_OUT_OF_MEMORY);
VALUE(CUDA_ERROR_NOT_INITIALIZED);
VALUE(CUDA_ERROR_NO_DEVICE);
VALUE(CUDA_ERROR_INVALID_DEVICE);
VALUE(CUDA_ERROR_INVALID_IMAGE);
VALUE(CUDA_ERROR_INVALID_CONTEXT);
VALUE(CUDA_ERROR_ECC_UNCORRECTABLE);
VALUE(CUDA_ERROR_INVALID_HANDLE);
VALUE(CUDA_ERROR_ILLEGAL_STATE);
VALUE(CUDA_ERROR_NOT_FOUND);
VALUE(CUDA_ERROR_NOT_READY);
VALUE(CUDA_ERROR_ILLEGAL_ADDRESS);
VALUE(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
VALUE(CUDA_ERROR_LAUNCH_TIMEOUT);
VALUE(CUDA_ERROR_ASSERT);
VALUE(CUDA_ERROR_HARDWARE_STACK_ERROR);
VALUE(CUDA_ERROR_ILLEGAL_INSTRUCTION);
VALUE(CUDA_ERROR_MISALIGNED_ADDRESS);
VALUE(CUDA_ERROR_INVALID_ADDRESS_SPACE);
VALUE(CUDA_ERROR_INVALID_PC);
VALUE(CUDA_ERROR_LAUNCH_FAILED);
VALUE(CUDA_ERROR_NOT_SUPPORTED);
VALUE(CUDA_ERROR_MPS_CLIENT_TERMINATED);
VALUE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
VALUE(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
VALUE(CUDA_ERROR_STREAM_CAPTURE_MERGE);
VALUE(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
VALUE(CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
VALUE(CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
VALUE(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
VALUE(CUDA_ERROR_CAPTURED_EVENT);
VALUE(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
VALUE(CUDA_ERROR_EXTERNAL_DEVICE);
#if CUDA_VERSION >= 13000  // younger than the ABI, but a younger driver may say them
VALUE(CUDA_ERROR_CONTAINED);
VALUE(CUDA_ERROR_TENSOR_MEMORY_LEAK);
#endif

VALUE(CU_LIMIT_STACK_SIZE);
VALUE(CU_LIMIT_PRINTF_FIFO_SIZE);
VALUE(CU_LIMIT_MALLOC_HEAP_SIZE);
VALUE(CU_LIMIT_PERSISTING_L2_CACHE_SIZE);
VALUE(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
VALUE(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
VALUE(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
VALUE(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
VALUE(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
VALUE(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
VALUE(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
VALUE(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
VALUE(CU_STREAM_DEFAULT);
VALUE(CU_STREAM_NON_BLOCKING);
VALUE(CU_EVENT_DEFAULT);
VALUE(CU_STREAM_WAIT_VALUE_GEQ);
VALUE(CU_STREAM_WAIT_VALUE_EQ);
VALUE(CU_STREAM_WRITE_VALUE_DEFAULT);
static_assert(ours::CU_MEMHOSTALLOC_DEVICEMAP == their_devicemap);
VALUE(CU_MEM_ALLOC_GRANULARITY_MINIMUM);
VALUE(CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
VALUE(CU_GET_PROC_ADDRESS_DEFAULT);
VALUE(CU_STREAM_CAPTURE_MODE_GLOBAL);
VALUE(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
VALUE(CU_STREAM_CAPTURE_MODE_RELAXED);
VALUE(CU_MEM_ALLOCATION_TYPE_PINNED);
VALUE(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
VALUE(CU_MEM_LOCATION_TYPE_DEVICE);
VALUE(CU_MEM_ACCESS_FLAGS_PROT_READ);
VALUE(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
VALUE(CU_GRAPH_NODE_TYPE_KERNEL);
VALUE(CU_GRAPH_NODE_TYPE_MEMCPY);
VALUE(CU_GRAPH_NODE_TYPE_MEMSET);
VALUE(CU_GRAPH_NODE_TYPE_HOST);
VALUE(CU_GRAPH_NODE_TYPE_GRAPH);
VALUE(CU_GRAPH_NODE_TYPE_EMPTY);
VALUE(CU_GRAPH_NODE_TYPE_WAIT_EVENT);
VALUE(CU_GRAPH_NODE_TYPE_EVENT_RECORD);
VALUE(CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL);
VALUE(CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT);
VALUE(CU_GRAPH_NODE_TYPE_MEM_ALLOC);
VALUE(CU_GRAPH_NODE_TYPE_MEM_FREE);
VALUE(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
VALUE(CU_GRAPH_NODE_TYPE_CONDITIONAL);
VALUE(CU_MEMORYTYPE_HOST);
VALUE(CU_MEMORYTYPE_DEVICE);
VALUE(CU_MEMORYTYPE_ARRAY);
VALUE(CU_MEMORYTYPE_UNIFIED);
VALUE(CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW);
VALUE(CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
VALUE(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
VALUE(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
VALUE(CU_LAUNCH_ATTRIBUTE_PRIORITY);

SIZE(CUresult);
SIZE(CUdevice);
SIZE(CUdeviceptr);
SIZE(CUmemGenericAllocationHandle);
SIZE(CUdevice_attribute);
SIZE(CUfunction_attribute);
SIZE(CUlimit);
SIZE(CUstreamCaptureMode);
SIZE(CUgraphNodeType);
SIZE(CUmemorytype);
SIZE(CUlaunchAttributeID);
SIZE(CUuuid);

SIZE(CUmemLocation);
FIELD(CUmemLocation, type);
FIELD(CUmemLocation, id);
SIZE(CUmemAllocationProp);
FIELD(CUmemAllocationProp, type);
FIELD(CUmemAllocationProp, requestedHandleTypes);
FIELD(CUmemAllocationProp, location);
FIELD(CUmemAllocationProp, win32HandleMetaData);
FIELD(CUmemAllocationProp, allocFlags);
INNER(CUmemAllocationProp, allocFlags.compressionType);
INNER(CUmemAllocationProp, allocFlags.gpuDirectRDMACapable);
INNER(CUmemAllocationProp, allocFlags.usage);
SIZE(CUmemAccessDesc);
FIELD(CUmemAccessDesc, location);
FIELD(CUmemAccessDesc, flags);

SIZE(CUDA_KERNEL_NODE_PARAMS);
FIELD(CUDA_KERNEL_NODE_PARAMS, func);
FIELD(CUDA_KERNEL_NODE_PARAMS, gridDimX);
FIELD(CUDA_KERNEL_NODE_PARAMS, gridDimZ);
FIELD(CUDA_KERNEL_NODE_PARAMS, blockDimX);
FIELD(CUDA_KERNEL_NODE_PARAMS, blockDimZ);
FIELD(CUDA_KERNEL_NODE_PARAMS, sharedMemBytes);
FIELD(CUDA_KERNEL_NODE_PARAMS, kernelParams);
FIELD(CUDA_KERNEL_NODE_PARAMS, extra);
FIELD(CUDA_KERNEL_NODE_PARAMS, kern);
FIELD(CUDA_KERNEL_NODE_PARAMS, ctx);

// The layout without a context: cuGraphAddMemsetNode takes the context as an argument.
SIZE(CUDA_MEMSET_NODE_PARAMS);
FIELD(CUDA_MEMSET_NODE_PARAMS, dst);
FIELD(CUDA_MEMSET_NODE_PARAMS, pitch);
FIELD(CUDA_MEMSET_NODE_PARAMS, value);
FIELD(CUDA_MEMSET_NODE_PARAMS, elementSize);
FIELD(CUDA_MEMSET_NODE_PARAMS, width);
FIELD(CUDA_MEMSET_NODE_PARAMS, height);

SIZE(CUDA_MEMCPY3D);
FIELD(CUDA_MEMCPY3D, srcXInBytes);
FIELD(CUDA_MEMCPY3D, srcLOD);
FIELD(CUDA_MEMCPY3D, srcMemoryType);
FIELD(CUDA_MEMCPY3D, srcHost);
FIELD(CUDA_MEMCPY3D, srcDevice);
FIELD(CUDA_MEMCPY3D, srcArray);
FIELD(CUDA_MEMCPY3D, srcPitch);
FIELD(CUDA_MEMCPY3D, srcHeight);
FIELD(CUDA_MEMCPY3D, dstXInBytes);
FIELD(CUDA_MEMCPY3D, dstLOD);
FIELD(CUDA_MEMCPY3D, dstMemoryType);
FIELD(CUDA_MEMCPY3D, dstHost);
FIELD(CUDA_MEMCPY3D, dstDevice);
FIELD(CUDA_MEMCPY3D, dstArray);
FIELD(CUDA_MEMCPY3D, dstPitch);
FIELD(CUDA_MEMCPY3D, dstHeight);
FIELD(CUDA_MEMCPY3D, WidthInBytes);
FIELD(CUDA_MEMCPY3D, Height);
FIELD(CUDA_MEMCPY3D, Depth);

SIZE(CUgraphEdgeData);
FIELD(CUgraphEdgeData, from_port);
FIELD(CUgraphEdgeData, to_port);
FIELD(CUgraphEdgeData, type);

SIZE(CUlaunchAttributeValue);
FIELD(CUlaunchAttributeValue, accessPolicyWindow);
INNER(CUlaunchAttributeValue, accessPolicyWindow.base_ptr);
INNER(CUlaunchAttributeValue, accessPolicyWindow.num_bytes);
INNER(CUlaunchAttributeValue, accessPolicyWindow.hitRatio);
INNER(CUlaunchAttributeValue, accessPolicyWindow.hitProp);
INNER(CUlaunchAttributeValue, accessPolicyWindow.missProp);
FIELD(CUlaunchAttributeValue, cooperative);
FIELD(CUlaunchAttributeValue, clusterDim);
FIELD(CUlaunchAttributeValue, priority);
SIZE(CUlaunchAttribute);
FIELD(CUlaunchAttribute, value);
SIZE(CUlaunchConfig);
FIELD(CUlaunchConfig, sharedMemBytes);
FIELD(CUlaunchConfig, hStream);
FIELD(CUlaunchConfig, attrs);
FIELD(CUlaunchConfig, numAttrs);

// ---- functions: as many arguments as the toolkit has for the version that we ask for, each of the
// same size, pointers where it has pointers and to things of the same size.

template <class T>
constexpr size_t pointee_size() {
  using Pointee = std::remove_pointer_t<T>;
  if constexpr (!std::is_pointer_v<T> || std::is_void_v<Pointee> || std::is_class_v<Pointee>)
    return 0;  // handles point to what nobody defines; structures are compared above
  else
    return sizeof(Pointee);
}

template <class A, class B>
constexpr bool are_alike() {
  if (sizeof(A) != sizeof(B)) return false;
  if (std::is_pointer_v<A> != std::is_pointer_v<B>) return false;
  return pointee_size<A>() == pointee_size<B>();
}

template <class A, class B>
constexpr bool same_call = false;
template <class R, class... A, class S, class... B>
constexpr bool same_call<R (*)(A...), S (*)(B...)> = [] {
  if constexpr (sizeof...(A) == sizeof...(B))
    return are_alike<R, S>() && (are_alike<A, B>() && ...);
  return false;
}();

// The name, and the youngest version of it that cuGetProcAddress gives to a program of 12.4.
// clang-format off
#define CALLS(CALL)                                                                             \
  CALL(cuInit, 2000) CALL(cuDriverGetVersion, 2020) CALL(cuDeviceGetCount, 2000)                \
  CALL(cuDeviceGet, 2000) CALL(cuDeviceGetName, 2000) CALL(cuDeviceGetUuid, 11040)              \
  CALL(cuDeviceGetAttribute, 2000) CALL(cuDeviceTotalMem, 3020)                                 \
  CALL(cuDevicePrimaryCtxRetain, 7000) CALL(cuDevicePrimaryCtxRelease, 11000)                   \
  CALL(cuCtxSetCurrent, 4000) CALL(cuCtxGetCurrent, 4000) CALL(cuCtxSynchronize, 2000)          \
  CALL(cuCtxResetPersistingL2Cache, 11000) CALL(cuCtxSetLimit, 3010)                            \
  CALL(cuGetErrorName, 6000) CALL(cuGetErrorString, 6000) CALL(cuMemGetInfo, 3020)              \
  CALL(cuMemGetAllocationGranularity, 10020) CALL(cuMemCreate, 10020) CALL(cuMemRelease, 10020) \
  CALL(cuMemAddressReserve, 10020) CALL(cuMemAddressFree, 10020) CALL(cuMemMap, 10020)          \
  CALL(cuMemUnmap, 10020) CALL(cuMemSetAccess, 10020)                                           \
  CALL(cuMemExportToShareableHandle, 10020) CALL(cuMemImportFromShareableHandle, 10020)         \
  CALL(cuMemAlloc, 3020) CALL(cuMemFree, 3020) CALL(cuMemHostAlloc, 2020)                       \
  CALL(cuMemFreeHost, 2000) CALL(cuMemHostGetDevicePointer, 3020) CALL(cuMemcpyHtoD, 3020)      \
  CALL(cuMemcpyDtoH, 3020) CALL(cuMemcpyHtoDAsync, 3020) CALL(cuMemcpyDtoHAsync, 3020)          \
  CALL(cuMemcpyDtoDAsync, 3020) CALL(cuMemsetD8Async, 3020) CALL(cuMemsetD32Async, 3020)        \
  CALL(cuStreamCreate, 2000) CALL(cuStreamDestroy, 4000) CALL(cuStreamSynchronize, 2000)        \
  CALL(cuStreamQuery, 2000) CALL(cuStreamWaitEvent, 3020) CALL(cuStreamWaitValue32, 11070)      \
  CALL(cuStreamWriteValue32, 11070) CALL(cuStreamBeginCapture, 10010)                           \
  CALL(cuStreamEndCapture, 10000) CALL(cuEventCreate, 2000) CALL(cuEventRecord, 2000)           \
  CALL(cuEventSynchronize, 2000) CALL(cuEventQuery, 2000) CALL(cuEventElapsedTime, 2000)        \
  CALL(cuEventDestroy, 4000) CALL(cuModuleLoadData, 2000) CALL(cuModuleUnload, 2000)            \
  CALL(cuModuleGetFunction, 2000) CALL(cuModuleGetFunctionCount, 12040)                         \
  CALL(cuFuncGetAttribute, 2020) CALL(cuFuncSetAttribute, 9000) CALL(cuFuncGetName, 12030)      \
  CALL(cuFuncGetModule, 11000) CALL(cuFuncGetParamInfo, 12040) CALL(cuKernelGetFunction, 12000) \
  CALL(cuKernelGetName, 12030) CALL(cuLaunchKernel, 4000) CALL(cuGraphCreate, 10000)            \
  CALL(cuGraphDestroy, 10000) CALL(cuGraphGetNodes, 10000) CALL(cuGraphGetEdges, 12030)         \
  CALL(cuGraphNodeGetType, 10000) CALL(cuGraphKernelNodeGetParams, 12000)                       \
  CALL(cuGraphKernelNodeGetAttribute, 11000) CALL(cuGraphKernelNodeSetAttribute, 11000)         \
  CALL(cuGraphMemsetNodeGetParams, 10000) CALL(cuGraphMemcpyNodeGetParams, 10000)               \
  CALL(cuGraphChildGraphNodeGetGraph, 10000) CALL(cuGraphAddKernelNode, 12000)                  \
  CALL(cuGraphAddMemsetNode, 10000) CALL(cuGraphAddMemcpyNode, 10000)                           \
  CALL(cuGraphAddEmptyNode, 10000) CALL(cuGraphAddDependencies, 12030)                          \
  CALL(cuGraphInstantiateWithFlags, 11040) CALL(cuGraphExecDestroy, 10000)                      \
  CALL(cuGraphLaunch, 10000) CALL(cuGraphUpload, 11010)                                              \
  CALL(cuProfilerStart, 4000) CALL(cuProfilerStop, 4000)
// clang-format on

#define SAME_CALL(name, version) \
  static_assert(same_call<decltype(ours::Driver::name), PFN_##name##_v##version>, #name);
CALLS(SAME_CALL)

#define COUNT_CALL(name, version) +1
#define COUNT_OURS(name, arguments) +1
constexpr int calls = 0 CALLS(COUNT_CALL);
static_assert(calls == 0 MARATHON_CUDA_FUNCTIONS(COUNT_OURS), "a function is not compared");

int main() {
  std::printf("%d functions of the driver are as CUDA %d.%d declares them\n", calls,
              CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10);
  return 0;
}

#endif
