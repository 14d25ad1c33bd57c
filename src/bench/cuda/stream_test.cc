// Order and time on the fake driver: what the judge's clock relies on.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "bench/cuda/cuda_fixture.h"

namespace marathon {
namespace {

using namespace cuda;
using cuda_test::in_process;
using cuda_test::Lab;
using testing::Each;
using testing::ElementsAre;

// As cuEventElapsedTime says it, in float milliseconds.
double as_events_say(double ns) { return 1e6 * static_cast<double>(static_cast<float>(1e-6 * ns)); }

void open(uint32_t* gate, uint32_t value) { std::atomic_ref<uint32_t>(*gate).store(value); }

TEST(Streams, WorkAtOnceUnlessTheyWait) {
  in_process("", [] {
    Lab lab;
    CUdeviceptr on_device = 0;
    uint32_t* gate = lab.make_gate(on_device);
    const CUdeviceptr place = lab.allocate(64);
    ASSERT_EQ(lab.launch("fill32_a", lab.stream, place, int64_t{1}, uint32_t{1}), CUDA_SUCCESS);
    EXPECT_THAT(lab.words(place, 1), ElementsAre(1));
    ASSERT_EQ(lab->cuStreamWaitValue32(lab.stream, on_device, 1, CU_STREAM_WAIT_VALUE_EQ),
              CUDA_SUCCESS);
    ASSERT_EQ(lab.launch("fill32_a", lab.stream, place, int64_t{1}, uint32_t{2}), CUDA_SUCCESS);
    EXPECT_EQ(lab->cuStreamQuery(lab.stream), CUDA_ERROR_NOT_READY);
    EXPECT_THAT(lab.words(place, 1), ElementsAre(1));
    open(gate, 1);
    EXPECT_EQ(lab->cuStreamQuery(lab.stream), CUDA_SUCCESS);
    EXPECT_THAT(lab.words(place, 1), ElementsAre(2));
    // At least: the value has passed already.
    ASSERT_EQ(lab->cuStreamWaitValue32(lab.stream, on_device, 0, CU_STREAM_WAIT_VALUE_GEQ),
              CUDA_SUCCESS);
    EXPECT_EQ(lab->cuStreamQuery(lab.stream), CUDA_SUCCESS);
  });
}

TEST(Streams, AnotherThreadOpensTheGate) {
  in_process("", [] {
    Lab lab;
    CUdeviceptr on_device = 0;
    uint32_t* gate = lab.make_gate(on_device);
    ASSERT_EQ(lab->cuStreamWaitValue32(lab.stream, on_device, 1, CU_STREAM_WAIT_VALUE_EQ),
              CUDA_SUCCESS);
    std::thread opener([gate] { open(gate, 1); });
    EXPECT_EQ(lab->cuStreamSynchronize(lab.stream), CUDA_SUCCESS);
    opener.join();
  });
}

TEST(Streams, OpenEachOthersGates) {
  in_process("", [] {
    Lab lab;
    CUdeviceptr on_device = 0;
    lab.make_gate(on_device);
    const CUstream other = lab.make_stream();
    ASSERT_EQ(lab->cuStreamWaitValue32(lab.stream, on_device, 5, CU_STREAM_WAIT_VALUE_EQ),
              CUDA_SUCCESS);
    EXPECT_EQ(lab->cuStreamQuery(lab.stream), CUDA_ERROR_NOT_READY);
    ASSERT_EQ(lab->cuStreamWriteValue32(other, on_device, 5, CU_STREAM_WRITE_VALUE_DEFAULT),
              CUDA_SUCCESS);
    EXPECT_EQ(lab->cuStreamSynchronize(lab.stream), CUDA_SUCCESS);
  });
}

// What the replayer does: behind a blocked stream no launch gap is in the window.
TEST(Streams, BlockedOnesAreTimedWithoutLaunchGaps) {
  in_process("", [] {
    Lab lab;
    CUdeviceptr on_device = 0;
    uint32_t* gate = lab.make_gate(on_device);
    const CUevent begin = lab.make_event(), end = lab.make_event();
    const auto time = [&](bool blocked) {
      open(gate, 0);
      if (blocked) lab->cuStreamWaitValue32(lab.stream, on_device, 1, CU_STREAM_WAIT_VALUE_EQ);
      lab->cuEventRecord(begin, lab.stream);
      for (int i = 0; i < 3; ++i) EXPECT_EQ(lab.launch("nop_a", lab.stream), CUDA_SUCCESS);
      lab->cuEventRecord(end, lab.stream);
      if (blocked) {
        float ms = 0;
        EXPECT_EQ(lab->cuEventElapsedTime(&ms, begin, end), CUDA_ERROR_NOT_READY);
      }
      open(gate, 1);
      EXPECT_EQ(lab->cuStreamSynchronize(lab.stream), CUDA_SUCCESS);
      return lab.elapsed_ns(begin, end);
    };
    EXPECT_NEAR(time(true), 30'000, 5);
    EXPECT_NEAR(time(false), 30'000 + 3 * 1500, 5);
    EXPECT_NEAR(time(true), 30'000, 5) << "the same each time";
  });
}

TEST(Streams, CopiesAndMemsetsTakeTimeByTheirBytes) {
  in_process("", [] {
    Lab lab;
    CUdeviceptr on_device = 0;
    uint32_t* gate = lab.make_gate(on_device);
    const CUdeviceptr from = lab.allocate(8 << 20), to = lab.allocate(8 << 20);
    const CUevent begin = lab.make_event(), middle = lab.make_event(), end = lab.make_event();
    lab->cuStreamWaitValue32(lab.stream, on_device, 1, CU_STREAM_WAIT_VALUE_EQ);
    lab->cuEventRecord(begin, lab.stream);
    ASSERT_EQ(lab->cuMemsetD8Async(from, 3, 4'000'000, lab.stream), CUDA_SUCCESS);
    lab->cuEventRecord(middle, lab.stream);
    ASSERT_EQ(lab->cuMemcpyDtoDAsync(to, from, 8'000'000, lab.stream), CUDA_SUCCESS);
    lab->cuEventRecord(end, lab.stream);
    open(gate, 1);
    ASSERT_EQ(lab->cuEventSynchronize(end), CUDA_SUCCESS);
    EXPECT_DOUBLE_EQ(lab.elapsed_ns(begin, middle), as_events_say(2000));
    EXPECT_DOUBLE_EQ(lab.elapsed_ns(middle, end), as_events_say(3000));
  });
}

TEST(Streams, PageableMemoryIsReadAtOncePinnedMemoryWhenItsTurnComes) {
  in_process("", [] {
    Lab lab;
    CUdeviceptr on_device = 0;
    uint32_t* gate = lab.make_gate(on_device);
    uint32_t* pinned = gate + 4;
    uint32_t pageable = 1;
    *pinned = 1;
    const CUdeviceptr place = lab.allocate(64);
    lab->cuStreamWaitValue32(lab.stream, on_device, 1, CU_STREAM_WAIT_VALUE_EQ);
    ASSERT_EQ(lab->cuMemcpyHtoDAsync(place, &pageable, 4, lab.stream), CUDA_SUCCESS);
    ASSERT_EQ(lab->cuMemcpyHtoDAsync(place + 4, pinned, 4, lab.stream), CUDA_SUCCESS);
    pageable = *pinned = 2;
    open(gate, 1);
    ASSERT_EQ(lab->cuStreamSynchronize(lab.stream), CUDA_SUCCESS);
    EXPECT_THAT(lab.words(place, 2), ElementsAre(1, 2));
  });
}

TEST(Streams, WaitForEventsOfOthers) {
  in_process("", [] {
    Lab lab;
    CUdeviceptr on_device = 0;
    uint32_t* gate = lab.make_gate(on_device);
    const CUstream other = lab.make_stream();
    const CUevent event = lab.make_event();
    const CUdeviceptr place = lab.allocate(64);
    ASSERT_EQ(lab->cuStreamWaitEvent(other, event, 0), CUDA_SUCCESS) << "never recorded";
    lab->cuStreamWaitValue32(lab.stream, on_device, 1, CU_STREAM_WAIT_VALUE_EQ);
    ASSERT_EQ(lab.launch("fill32_a", lab.stream, place, int64_t{1}, uint32_t{1}), CUDA_SUCCESS);
    ASSERT_EQ(lab->cuEventRecord(event, lab.stream), CUDA_SUCCESS);
    ASSERT_EQ(lab->cuStreamWaitEvent(other, event, 0), CUDA_SUCCESS);
    // The event's next recording is not what the other stream waits for.
    ASSERT_EQ(lab.launch("copy_a", other, place, place + 4, int64_t{4}), CUDA_SUCCESS);
    EXPECT_EQ(lab->cuStreamQuery(other), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(lab->cuEventQuery(event), CUDA_ERROR_NOT_READY);
    open(gate, 1);
    EXPECT_EQ(lab->cuStreamSynchronize(other), CUDA_SUCCESS);
    EXPECT_EQ(lab->cuEventQuery(event), CUDA_SUCCESS);
    EXPECT_THAT(lab.words(place, 2), Each(1u));
  });
}

TEST(Streams, TheDefaultStreamTakesTurnsWithBlockingOnes) {
  in_process("", [] {
    Lab lab;
    CUdeviceptr on_device = 0;
    uint32_t* gate = lab.make_gate(on_device);
    const CUstream blocking = lab.make_stream(CU_STREAM_DEFAULT);
    const CUdeviceptr place = lab.allocate(64);
    lab->cuStreamWaitValue32(blocking, on_device, 1, CU_STREAM_WAIT_VALUE_EQ);
    ASSERT_EQ(lab->cuMemsetD32Async(place, 1, 1, blocking), CUDA_SUCCESS);
    ASSERT_EQ(lab->cuMemsetD32Async(place, 2, 1, nullptr), CUDA_SUCCESS);
    ASSERT_EQ(lab->cuMemsetD32Async(place + 4, 3, 1, blocking), CUDA_SUCCESS);
    EXPECT_EQ(lab->cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
    // A stream that does not block goes on beside them.
    ASSERT_EQ(lab->cuMemsetD32Async(place + 8, 4, 1, lab.stream), CUDA_SUCCESS);
    EXPECT_EQ(lab->cuStreamQuery(lab.stream), CUDA_SUCCESS);
    open(gate, 1);
    EXPECT_EQ(lab->cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_THAT(lab.words(place, 3), ElementsAre(2, 3, 4));
  });
}

TEST(Streams, WhatIsGoneIsNoHandle) {
  in_process("", [] {
    Lab lab;
    const CUstream other = lab.make_stream();
    const CUevent event = lab.make_event();
    ASSERT_EQ(lab->cuStreamDestroy(other), CUDA_SUCCESS);
    EXPECT_EQ(lab->cuStreamSynchronize(other), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(lab.launch("nop_a", other), CUDA_ERROR_INVALID_HANDLE);
    ASSERT_EQ(lab->cuEventDestroy(event), CUDA_SUCCESS);
    EXPECT_EQ(lab->cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
    // A context is needed, and is one of the thread.
    ASSERT_EQ(lab->cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
    EXPECT_EQ(lab->cuStreamSynchronize(lab.stream), CUDA_ERROR_INVALID_CONTEXT);
  });
}

}  // namespace
}  // namespace marathon
