#include "bench/cuda/memory.h"

#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "bench/cuda/channel.h"
#include "bench/cuda/cuda_fixture.h"

namespace marathon {
namespace {

using namespace cuda;
using cuda_test::in_process;
using cuda_test::Lab;
using testing::Each;
using testing::ElementsAre;

constexpr double patience_s = 30;
constexpr int64_t some_bytes = 1000;

// Runs both sides in processes of their own, neither with the other's driver; `maker` is the judge.
void in_two_processes(const std::function<void(Channel&)>& maker,
                      const std::function<void(Channel&)>& user) {
  Result<Channel::Pair> pair = Channel::pair();
  ASSERT_TRUE(pair);
  std::fflush(nullptr);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  // Each side keeps its own end only, or nobody would see that the other is gone.
  if (child == 0) {
    { const Channel theirs_alone = std::move(pair->ours); }
    in_process("", [&] { user(pair->theirs); });
    std::fflush(nullptr);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  { const Channel ours_alone = std::move(pair->theirs); }
  in_process("", [&] { maker(pair->ours); });
  { const Channel over = std::move(pair->ours); }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "see the failures above";
}

Message receive(Channel& channel) {
  Result<Message> message = channel.receive(patience_s);
  EXPECT_TRUE(message) << message.error().what;
  return message ? std::move(*message) : Message{std::make_shared<Json>(Json::object()), {}};
}

TEST(SharedMemory, IsTheSameInTwoProcesses) {
  in_two_processes(
      [](Channel& channel) {
        Lab lab;
        const Result<DeviceArena> arena = DeviceArena::make(lab.gpu, some_bytes);
        ASSERT_TRUE(arena) << arena.error().what;
        EXPECT_EQ(arena->bytes(), 2 << 20) << "rounded up to the granularity";
        ASSERT_EQ(lab.launch("fill32_a", lab.stream, arena->address(), int64_t{4}, uint32_t{7}),
                  CUDA_SUCCESS);
        ASSERT_EQ(lab->cuStreamSynchronize(lab.stream), CUDA_SUCCESS);
        const Result<Fd> fd = arena->share();
        ASSERT_TRUE(fd) << fd.error().what;
        ASSERT_TRUE(
            channel.send({{"bytes", arena->bytes()}, {"address", arena->address()}}, {fd->get()}));
        receive(channel);
        EXPECT_THAT(lab.words(arena->address(), 4), ElementsAre(7, 8, 8, 7));
      },
      [](Channel& channel) {
        Lab lab;
        const Message message = receive(channel);
        ASSERT_EQ(message.descriptors.size(), 1u);
        const uint64_t wish = message.body->at("address").get<uint64_t>();
        const Result<DeviceArena> arena =
            DeviceArena::import(lab.gpu, message.descriptors[0].get(),
                                message.body->at("bytes").get<int64_t>(), wish, false);
        ASSERT_TRUE(arena) << arena.error().what;
        EXPECT_EQ(arena->address(), wish);
        EXPECT_THAT(lab.words(arena->address(), 4), Each(7u));
        ASSERT_EQ(lab.launch("fill32_a", lab.stream, wish + 4, int64_t{2}, uint32_t{8}),
                  CUDA_SUCCESS);
        ASSERT_EQ(lab->cuStreamSynchronize(lab.stream), CUDA_SUCCESS);
        ASSERT_TRUE(channel.send({{"done", true}}));
      });
}

TEST(SharedMemory, LivesOnInTheOtherProcess) {
  in_two_processes(
      [](Channel& channel) {
        Lab lab;
        const Result<DeviceArena> arena = DeviceArena::make(lab.gpu, some_bytes);
        ASSERT_TRUE(arena);
        ASSERT_EQ(lab->cuMemsetD32Async(arena->address(), 6, 4, lab.stream), CUDA_SUCCESS);
        ASSERT_TRUE(channel.send(Json::object(), {arena->share()->get()}));
      },
      [](Channel& channel) {
        Lab lab;
        const Message message = receive(channel);
        ASSERT_EQ(message.descriptors.size(), 1u);
        // The maker is gone, its handle and its mapping with it.
        EXPECT_EQ(channel.receive(patience_s).error().fault, Fault::not_found);
        const Result<DeviceArena> arena =
            DeviceArena::import(lab.gpu, message.descriptors[0].get(), 2 << 20, 0, false);
        ASSERT_TRUE(arena) << arena.error().what;
        EXPECT_THAT(lab.words(arena->address(), 4), Each(6u));
      });
}

TEST(SharedMemory, ReadOnlyCannotBeWritten) {
  in_process("", [] {
    Lab lab;
    const Result<DeviceArena> whole = DeviceArena::make(lab.gpu, some_bytes);
    ASSERT_TRUE(whole);
    ASSERT_EQ(lab->cuMemsetD32Async(whole->address(), 3, 8, lab.stream), CUDA_SUCCESS);
    const Result<Fd> fd = whole->share();
    const Result<DeviceArena> reader =
        DeviceArena::import(lab.gpu, fd->get(), whole->bytes(), 0, true);
    ASSERT_TRUE(reader) << reader.error().what;
    EXPECT_NE(reader->address(), whole->address());
    EXPECT_THAT(lab.words(reader->address(), 8), Each(3u));
    EXPECT_EQ(lab->cuMemsetD32Async(reader->address(), 4, 8, lab.stream), CUDA_ERROR_INVALID_VALUE);
    const CUdeviceptr out = lab.allocate(64);
    EXPECT_EQ(lab.launch("copy_a", lab.stream, reader->address(), out, int64_t{32}), CUDA_SUCCESS);
    EXPECT_THAT(lab.words(out, 8), Each(3u));
    EXPECT_EQ(lab.launch("fill32_a", lab.stream, reader->address(), int64_t{1}, uint32_t{4}),
              CUDA_SUCCESS);
    EXPECT_EQ(lab->cuStreamSynchronize(lab.stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  });
}

TEST(SharedMemory, AnAddressThatIsTakenCanBeTriedElsewhere) {
  in_process("", [] {
    Lab lab;
    const Result<DeviceArena> first = DeviceArena::make(lab.gpu, some_bytes);
    const Result<Fd> fd = first->share();
    const Result<DeviceArena> second =
        DeviceArena::import(lab.gpu, fd->get(), first->bytes(), first->address(), false);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().fault, Fault::retry);
  });
}

TEST(SharedMemory, OnlyADriversDescriptorIsImported) {
  in_process("", [] {
    Lab lab;
    int pipes[2] = {-1, -1};
    ASSERT_EQ(::pipe(pipes), 0);
    EXPECT_FALSE(DeviceArena::import(lab.gpu, pipes[0], 2 << 20, 0, false));
    EXPECT_FALSE(DeviceArena::import(lab.gpu, -1, 2 << 20, 0, false));
    const Fd odd(::memfd_create("odd", 0));
    ASSERT_EQ(::ftruncate(odd.get(), 4096), 0);
    EXPECT_FALSE(DeviceArena::import(lab.gpu, odd.get(), 2 << 20, 0, false));
  });
}

TEST(MappedMemory, IsCheckedStepByStep) {
  in_process("", [] {
    Lab lab;
    constexpr size_t bytes = 2 << 20;
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(lab->cuMemCreate(&handle, bytes + 1, &properties, 0), CUDA_ERROR_INVALID_VALUE);
    ASSERT_EQ(lab->cuMemCreate(&handle, bytes, &properties, 0), CUDA_SUCCESS);
    int fd = -1;
    EXPECT_EQ(
        lab->cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
        CUDA_ERROR_INVALID_VALUE)
        << "nobody said that it would be shared";
    CUdeviceptr address = 0;
    ASSERT_EQ(lab->cuMemAddressReserve(&address, 2 * bytes, 0, 0, 0), CUDA_SUCCESS);
    EXPECT_EQ(address % bytes, 0u);
    EXPECT_EQ(lab->cuMemMap(address + 2 * bytes, bytes, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    ASSERT_EQ(lab->cuMemMap(address, bytes, 0, handle, 0), CUDA_SUCCESS);
    EXPECT_EQ(lab->cuMemMap(address, bytes, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    // Mapped, and nobody may touch it yet.
    EXPECT_EQ(lab->cuMemsetD8Async(address, 1, 1, lab.stream), CUDA_ERROR_INVALID_VALUE);
    CUmemAccessDesc access = {};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    EXPECT_EQ(lab->cuMemSetAccess(address, 2 * bytes, &access, 1), CUDA_ERROR_INVALID_VALUE);
    ASSERT_EQ(lab->cuMemSetAccess(address, bytes, &access, 1), CUDA_SUCCESS);
    EXPECT_EQ(lab->cuMemsetD8Async(address, 1, bytes, lab.stream), CUDA_SUCCESS);
    EXPECT_EQ(lab->cuMemsetD8Async(address, 1, bytes + 1, lab.stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(lab->cuMemAddressFree(address, 2 * bytes), CUDA_ERROR_INVALID_VALUE);
    // The mapping keeps the memory when the handle goes; its going gives the memory back.
    size_t free = 0, total = 0;
    ASSERT_EQ(lab->cuMemRelease(handle), CUDA_SUCCESS);
    EXPECT_EQ(lab->cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(lab.words(address, 1)[0], 0x01010101u);
    lab->cuMemGetInfo(&free, &total);
    EXPECT_EQ(free, total - bytes);
    ASSERT_EQ(lab->cuMemUnmap(address, bytes), CUDA_SUCCESS);
    lab->cuMemGetInfo(&free, &total);
    EXPECT_EQ(free, total);
    EXPECT_EQ(lab->cuMemAddressFree(address, 2 * bytes), CUDA_SUCCESS);
  });
}

}  // namespace
}  // namespace marathon
