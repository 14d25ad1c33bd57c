#include "bench/cuda/driver.h"

#include <gmock/gmock.h>

#include "bench/cuda/cuda_fixture.h"

namespace marathon {
namespace {

using namespace cuda;
using cuda_test::in_process;
using cuda_test::Lab;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

// ---- loading

TEST(Driver, DescribesTheDevice) {
  in_process("", [] {
    const Result<Gpu> gpu = open_gpu(0);
    ASSERT_TRUE(gpu) << gpu.error().what;
    EXPECT_EQ(gpu->name, "Fake H200");
    EXPECT_EQ(gpu->uuid, "GPU-fa0b1c2d-3e4f-6071-8293-a4b5c6d7e8f9");
    EXPECT_EQ(gpu->compute_capability, 90);
    EXPECT_EQ(gpu->multiprocessors, 132);
    EXPECT_EQ(gpu->l2_bytes, 60'000'000);
    EXPECT_EQ(gpu->memory_bytes, 4LL << 30);
    EXPECT_EQ(gpu->driver_version, 12040);
    EXPECT_EQ(open_gpu(1).error().fault, Fault::system);
  });
}

TEST(Driver, AnotherComputeCapability) {
  in_process("cc=8.0", [] { EXPECT_EQ(Lab().gpu.compute_capability, 80); });
}

TEST(Driver, TooOldSaysWhatToInstall) {
  in_process("old_driver", [] {
    const Result<const Driver*> loaded = Driver::load();
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().fault, Fault::invalid);
    EXPECT_THAT(loaded.error().what, HasSubstr("CUDA 12.2, too old"));
    EXPECT_THAT(loaded.error().what, HasSubstr("install driver 550 (CUDA 12.4) or newer"));
  });
}

TEST(Driver, OlderThanCuda12IsToldByItsMissingDoor) {
  in_process("",
             [] {
               const Result<const Driver*> loaded = Driver::load();
               ASSERT_FALSE(loaded);
               EXPECT_EQ(loaded.error().fault, Fault::invalid);
               EXPECT_THAT(loaded.error().what, HasSubstr("older than CUDA 12"));
             },
             {{"MARATHON_CUDA_DRIVER", "libm.so.6"}});
}

TEST(Driver, AbsentSaysWhatToDo) {
  in_process("",
             [] {
               const Result<const Driver*> loaded = Driver::load();
               ASSERT_FALSE(loaded);
               EXPECT_EQ(loaded.error().fault, Fault::not_found);
               EXPECT_THAT(loaded.error().what, HasSubstr("/nowhere/libcuda.so"));
               EXPECT_THAT(loaded.error().what, HasSubstr("install it"));
             },
             {{"MARATHON_CUDA_DRIVER", "/nowhere/libcuda.so"}});
}

TEST(Driver, NoDeviceSaysWhereToLook) {
  in_process("no_device", [] {
    const Result<const Driver*> loaded = Driver::load();
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().fault, Fault::not_found);
    EXPECT_THAT(loaded.error().what, HasSubstr("nvidia-smi"));
  });
}

TEST(Driver, AFaultThatTheFakeDoesNotKnowIsRefused) {
  in_process("no_devise", [] { EXPECT_FALSE(Driver::load()); });
}

TEST(Driver, IsLoadedOnce) {
  in_process("", [] { EXPECT_EQ(*Driver::load(), *Driver::load()); });
}

TEST(Driver, AForkedChildHasNoDriver) {
  in_process("", [] {
    Lab lab;
    in_process("", [&] {
      CUdeviceptr address = 0;
      EXPECT_EQ(lab->cuMemAlloc(&address, 64), CUDA_ERROR_NOT_INITIALIZED);
    });
  });
}

// ---- errors

TEST(Driver, NamesErrors) {
  in_process("", [] {
    const Driver& driver = **Driver::load();
    EXPECT_TRUE(driver.ok(CUDA_SUCCESS, "work"));
    const Status lost = driver.ok(CUDA_ERROR_ILLEGAL_ADDRESS, "run a kernel");
    ASSERT_FALSE(lost);
    EXPECT_EQ(lost.error().fault, Fault::retry);
    EXPECT_EQ(lost.error().what,
              "could not run a kernel: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was "
              "encountered)");
    EXPECT_EQ(driver.ok(CUDA_ERROR_OUT_OF_MEMORY, "x").error().fault, Fault::no_space);
    EXPECT_EQ(driver.ok(CUDA_ERROR_INVALID_VALUE, "x").error().fault, Fault::system);
    EXPECT_EQ(driver.ok(12345, "x").error().what, "could not x: 12345 (no text)");
  });
}

TEST(Driver, KnowsWhatIsLostWithTheContext) {
  for (const CUresult sticky :
       {CUDA_ERROR_ECC_UNCORRECTABLE, CUDA_ERROR_CONTAINED, CUDA_ERROR_ILLEGAL_ADDRESS,
        CUDA_ERROR_LAUNCH_TIMEOUT, CUDA_ERROR_ASSERT, CUDA_ERROR_HARDWARE_STACK_ERROR,
        CUDA_ERROR_ILLEGAL_INSTRUCTION, CUDA_ERROR_MISALIGNED_ADDRESS, CUDA_ERROR_INVALID_PC,
        CUDA_ERROR_INVALID_ADDRESS_SPACE, CUDA_ERROR_LAUNCH_FAILED})
    EXPECT_TRUE(is_sticky(sticky)) << sticky;
  for (const CUresult fine :
       {CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_NOT_READY,
        CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED})
    EXPECT_FALSE(is_sticky(fine)) << fine;
}

// ---- faults

TEST(Faults, MemoryRunsOutAfterSoManyAllocations) {
  in_process("oom_after=2", [] {
    Lab lab;
    lab.allocate(64);
    EXPECT_TRUE(DeviceArena::make(lab.gpu, 64));
    CUdeviceptr address = 0;
    EXPECT_EQ(lab->cuMemAlloc(&address, 64), CUDA_ERROR_OUT_OF_MEMORY);
    const Result<DeviceArena> arena = DeviceArena::make(lab.gpu, 64);
    ASSERT_FALSE(arena);
    EXPECT_EQ(arena.error().fault, Fault::no_space);
    EXPECT_THAT(arena.error().what, HasSubstr("nvidia-smi"));
    // No context is lost.
    EXPECT_EQ(lab.launch("nop_a", lab.stream), CUDA_SUCCESS);
    EXPECT_EQ(lab->cuCtxSynchronize(), CUDA_SUCCESS);
  });
}

TEST(Faults, MemoryIsAsLargeAsTheDeviceSays) {
  in_process("", [] {
    Lab lab;
    CUdeviceptr first = 0, second = 0;
    ASSERT_EQ(lab->cuMemAlloc(&first, size_t{3} << 30), CUDA_SUCCESS);
    EXPECT_EQ(lab->cuMemAlloc(&second, size_t{2} << 30), CUDA_ERROR_OUT_OF_MEMORY);
    size_t free = 0, total = 0;
    ASSERT_EQ(lab->cuMemGetInfo(&free, &total), CUDA_SUCCESS);
    EXPECT_EQ(free, size_t{1} << 30);
    ASSERT_EQ(lab->cuMemFree(first), CUDA_SUCCESS);
    EXPECT_EQ(lab->cuMemAlloc(&second, size_t{2} << 30), CUDA_SUCCESS);
  });
}

// The launch that goes wrong succeeds, as on a GPU; from then on every call fails.
void expect_lost(const Lab& lab, CUresult error) {
  EXPECT_TRUE(is_sticky(error));
  EXPECT_EQ(lab->cuStreamSynchronize(lab.stream), error);
  EXPECT_EQ(lab->cuStreamQuery(lab.stream), error);
  EXPECT_EQ(lab.launch("nop_a", lab.stream), error);
  CUdeviceptr address = 0;
  EXPECT_EQ(lab->cuMemAlloc(&address, 64), error);
  CUstream stream = nullptr;
  EXPECT_EQ(lab->cuStreamCreate(&stream, 0), error);
  EXPECT_EQ(lab->cuCtxSynchronize(), error);
  // The device itself still answers.
  char name[64] = {};
  EXPECT_EQ(lab->cuDeviceGetName(name, sizeof name, 0), CUDA_SUCCESS);
}

TEST(Faults, IllegalAccessAtTheNthKernel) {
  in_process("illegal_access_at=2", [] {
    Lab lab;
    ASSERT_EQ(lab.launch("nop_a", lab.stream), CUDA_SUCCESS);
    ASSERT_EQ(lab->cuStreamSynchronize(lab.stream), CUDA_SUCCESS);
    ASSERT_EQ(lab.launch("nop_a", lab.stream), CUDA_SUCCESS);
    expect_lost(lab, CUDA_ERROR_ILLEGAL_ADDRESS);
  });
}

TEST(Faults, EccAtTheNthKernel) {
  in_process("ecc_at=1", [] {
    Lab lab;
    ASSERT_EQ(lab.launch("nop_a", lab.stream), CUDA_SUCCESS);
    expect_lost(lab, CUDA_ERROR_ECC_UNCORRECTABLE);
  });
}

TEST(Faults, ASecondFaultStandsBesideTheFirst) {
  in_process("slow=2,ecc_at=3,cc=8.6", [] {
    Lab lab;
    EXPECT_EQ(lab.gpu.compute_capability, 86);
    for (const CUresult expected : {CUDA_SUCCESS, CUDA_SUCCESS, CUDA_ERROR_ECC_UNCORRECTABLE}) {
      ASSERT_EQ(lab.launch("nop_a", lab.stream), CUDA_SUCCESS);
      EXPECT_EQ(lab->cuStreamSynchronize(lab.stream), expected);
    }
  });
}

// Never ready, and what stands behind it never runs; another stream goes on.
void expect_hanging(const Lab& lab, CUdeviceptr untouched) {
  const CUevent event = lab.make_event();
  ASSERT_EQ(lab->cuMemsetD32Async(untouched, 7, 1, lab.stream), CUDA_SUCCESS);
  ASSERT_EQ(lab->cuEventRecord(event, lab.stream), CUDA_SUCCESS);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(lab->cuStreamQuery(lab.stream), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(lab->cuEventQuery(event), CUDA_ERROR_NOT_READY);
  }
  EXPECT_THAT(lab.words(untouched, 1), ElementsAre(5));
  const CUstream other = lab.make_stream();
  EXPECT_EQ(lab->cuMemsetD32Async(untouched, 9, 1, other), CUDA_SUCCESS);
  EXPECT_EQ(lab->cuStreamSynchronize(other), CUDA_SUCCESS);
  EXPECT_THAT(lab.words(untouched, 1), ElementsAre(9));
}

TEST(Faults, TheNthKernelHangs) {
  in_process("hang_at=2", [] {
    Lab lab;
    const CUdeviceptr place = lab.allocate(64);
    ASSERT_EQ(lab.launch("fill32_a", lab.stream, place, int64_t{1}, uint32_t{5}), CUDA_SUCCESS);
    ASSERT_EQ(lab->cuStreamQuery(lab.stream), CUDA_SUCCESS);
    ASSERT_EQ(lab.launch("nop_a", lab.stream), CUDA_SUCCESS);
    expect_hanging(lab, place);
  });
}

TEST(Faults, AKernelThatHangsByItsName) {
  in_process("", [] {
    Lab lab;
    const CUdeviceptr place = lab.allocate(64);
    ASSERT_EQ(lab->cuMemsetD32Async(place, 5, 1, lab.stream), CUDA_SUCCESS);
    ASSERT_EQ(lab.launch("hang_a", lab.stream), CUDA_SUCCESS);
    expect_hanging(lab, place);
  });
}

TEST(Faults, AKernelThatReadsWhereNothingIs) {
  in_process("", [] {
    Lab lab;
    const CUdeviceptr place = lab.allocate(4096);
    ASSERT_EQ(lab.launch("copy_a", lab.stream, uint64_t{0x1000}, place, int64_t{64}), CUDA_SUCCESS);
    expect_lost(lab, CUDA_ERROR_ILLEGAL_ADDRESS);
  });
}

TEST(Faults, OneWordTooFarDamagesANeighbourOrIsIllegal) {
  in_process("", [] {
    Lab lab;
    const CUdeviceptr place = lab.allocate(4096);
    ASSERT_EQ(lab->cuMemsetD32Async(place, 1, 8, lab.stream), CUDA_SUCCESS);
    ASSERT_EQ(lab.launch("out_of_bounds_a", lab.stream, place, int64_t{2}, uint32_t{3}),
              CUDA_SUCCESS);
    EXPECT_THAT(lab.words(place, 4), ElementsAre(3, 3, 3, 1));
    ASSERT_EQ(lab.launch("out_of_bounds_a", lab.stream, place, int64_t{1024}, uint32_t{3}),
              CUDA_SUCCESS);
    expect_lost(lab, CUDA_ERROR_ILLEGAL_ADDRESS);
  });
}

TEST(Faults, SlowKernelsTakeSoManyTimesAsLong) {
  in_process("slow=2.5", [] {
    Lab lab;
    CUdeviceptr on_device = 0;
    uint32_t* gate = lab.make_gate(on_device);
    const CUevent begin = lab.make_event(), end = lab.make_event();
    ASSERT_EQ(lab->cuStreamWaitValue32(lab.stream, on_device, 1, CU_STREAM_WAIT_VALUE_EQ),
              CUDA_SUCCESS);
    lab->cuEventRecord(begin, lab.stream);
    ASSERT_EQ(lab.launch("nop_a", lab.stream), CUDA_SUCCESS);
    lab->cuEventRecord(end, lab.stream);
    *gate = 1;
    ASSERT_EQ(lab->cuStreamSynchronize(lab.stream), CUDA_SUCCESS);
    EXPECT_DOUBLE_EQ(lab.elapsed_ns(begin, end), 1e6 * static_cast<double>(0.025f));
  });
}

// ---- functions

TEST(Functions, SayTheirNameModuleAndParameters) {
  in_process("", [] {
    Lab lab;
    unsigned count = 0;
    ASSERT_EQ(lab->cuModuleGetFunctionCount(&count, lab.module), CUDA_SUCCESS);
    EXPECT_EQ(count, 8u);
    const CUfunction function = lab.kernel("scale_f32_a");
    const char* name = nullptr;
    CUmodule module = nullptr;
    ASSERT_EQ(lab->cuFuncGetName(&name, function), CUDA_SUCCESS);
    EXPECT_STREQ(name, "scale_f32_a");
    ASSERT_EQ(lab->cuFuncGetModule(&module, function), CUDA_SUCCESS);
    EXPECT_EQ(module, lab.module);
    std::vector<size_t> offsets, sizes;
    size_t offset = 0, size = 0;
    for (size_t i = 0; lab->cuFuncGetParamInfo(function, i, &offset, &size) == CUDA_SUCCESS; ++i) {
      offsets.push_back(offset);
      sizes.push_back(size);
    }
    EXPECT_THAT(offsets, ElementsAre(0, 8, 16, 20));
    EXPECT_THAT(sizes, ElementsAre(8, 8, 4, 4));
    CUfunction unknown = nullptr;
    EXPECT_EQ(lab->cuModuleGetFunction(&unknown, lab.module, "nop_b"), CUDA_ERROR_NOT_FOUND);
  });
}

TEST(Functions, TakeAsMuchSharedMemoryAsTheyWereGiven) {
  in_process("", [] {
    Lab lab;
    const CUfunction function = lab.kernel("fill32_a");
    const CUdeviceptr place = lab.allocate(64);
    const auto launch = [&](unsigned shared) {
      uint64_t to = place, count = 1;
      uint32_t value = 1;
      void* parameters[] = {&to, &count, &value};
      return lab->cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, shared, lab.stream, parameters,
                                 nullptr);
    };
    const auto allow = [&](int bytes) {
      return lab->cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                     bytes);
    };
    EXPECT_EQ(launch(48 * 1024), CUDA_SUCCESS);
    EXPECT_EQ(launch(48 * 1024 + 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(allow(65537), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(allow(65536), CUDA_SUCCESS);
    EXPECT_EQ(launch(65536), CUDA_SUCCESS);
  });
}

TEST(Functions, AreTakenFromPackedParametersToo) {
  in_process("", [] {
    Lab lab;
    struct Packed {
      uint64_t to, count;
      uint32_t value;
    } packed = {lab.allocate(64), 3, 11};
    size_t bytes = 20;
    void* extra[] = {reinterpret_cast<void*>(1), &packed, reinterpret_cast<void*>(2), &bytes,
                     nullptr};
    ASSERT_EQ(lab->cuLaunchKernel(lab.kernel("fill32_a"), 1, 1, 1, 1, 1, 1, 0, lab.stream, nullptr,
                                  extra),
              CUDA_SUCCESS);
    EXPECT_THAT(lab.words(packed.to, 3), Each(11u));
    bytes = 16;
    EXPECT_EQ(lab->cuLaunchKernel(lab.kernel("fill32_a"), 1, 1, 1, 1, 1, 1, 0, lab.stream, nullptr,
                                  extra),
              CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(Functions, OfAnImageThatIsNoneAreNotLoaded) {
  in_process("", [] {
    Lab lab;
    CUmodule module = nullptr;
    for (const char* image :
         {"",
          "\x7f"
          "ELF",
          "fakecubin 2\n", "fakecubin 1\nkernel\n", "fakecubin 1\nkernel unheard_of\n",
          "fakecubin 1\nkernel nop_a cost_ns=fast\n",
          "fakecubin 1\nkernel nop_a param_sizes=8,,8\n", "fakecubin 1\nfunction nop_a\n"})
      EXPECT_EQ(lab->cuModuleLoadData(&module, image), CUDA_ERROR_INVALID_IMAGE) << image;
    EXPECT_EQ(lab->cuModuleUnload(lab.module), CUDA_SUCCESS);
    EXPECT_EQ(lab->cuModuleUnload(lab.module), CUDA_ERROR_INVALID_HANDLE);
  });
}

}  // namespace
}  // namespace marathon
