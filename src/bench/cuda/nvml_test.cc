#include "bench/cuda/nvml.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>

#include "bench/cuda/cuda_fixture.h"

namespace marathon {
namespace {

using cuda_test::in_process;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* uuid = "GPU-fa0b1c2d-3e4f-6071-8293-a4b5c6d7e8f9";

TEST(Nvml, ReadsClocksHeatPowerAndCompany) {
  in_process("", [] {
    const GpuReading reading = Nvml::open().read(uuid);
    EXPECT_EQ(reading.missing, "");
    EXPECT_EQ(reading.sm_clock_mhz, 1980);
    EXPECT_EQ(reading.memory_clock_mhz, 3201);
    EXPECT_EQ(reading.temperature_c, 41);
    EXPECT_DOUBLE_EQ(reading.power_w.value(), 350.5);
    EXPECT_EQ(reading.throttle_mask, 0x24u);
    EXPECT_THAT(reading.throttle, ElementsAre("power cap", "software thermal slowdown"));
    EXPECT_EQ(reading.driver_version, "550.0.1");
    EXPECT_THAT(reading.compute_pids.value(), ElementsAre(4242, 4343));
  });
}

TEST(Nvml, WhatCannotBeReadIsAbsentAndTheRestIsNot) {
  in_process("",
             [] {
               const GpuReading reading = Nvml::open().read(uuid);
               EXPECT_EQ(reading.power_w, std::nullopt);
               EXPECT_EQ(reading.missing, "power: Not Supported");
               EXPECT_EQ(reading.sm_clock_mhz, 1980);
             },
             {{"MARATHON_FAKE_NVML", "no_power"}});
}

TEST(Nvml, AnotherDeviceIsNotFound) {
  in_process("", [] {
    const GpuReading reading = Nvml::open().read("GPU-0");
    EXPECT_EQ(reading.missing, "GPU-0: Not Found");
    EXPECT_EQ(reading.sm_clock_mhz, std::nullopt);
    EXPECT_EQ(reading.driver_version, "550.0.1");
  });
}

TEST(Nvml, WithoutTheLibraryReadingsAreEmptyWithAReason) {
  const auto missing = [](const char* library, const char* asked, const char* why) {
    in_process("",
               [why] {
                 const GpuReading reading = Nvml::open().read(uuid);
                 EXPECT_THAT(reading.missing, HasSubstr(why));
                 EXPECT_EQ(reading.temperature_c, std::nullopt);
                 EXPECT_EQ(reading.compute_pids, std::nullopt);
                 EXPECT_EQ(reading.driver_version, "");
               },
               {{"MARATHON_NVML", library}, {"MARATHON_FAKE_NVML", asked}});
  };
  missing("/nowhere/nvml.so", "", "no NVML here");
  missing("libm.so.6", "", "is no NVML that is known here");
  missing(std::getenv("MARATHON_NVML"), "no_start", "NVML does not start: Driver Not Loaded");
}

TEST(Nvml, NamesEveryReasonForSlowClocks) {
  EXPECT_THAT(throttle_words(0), IsEmpty());
  EXPECT_EQ(throttle_words(0x1ff).size(), 9u);
  EXPECT_THAT(throttle_words(0x80 | 0x40 | 0x4000),
              ElementsAre("hardware thermal slowdown", "power brake", "0x4000"));
}

TEST(Nvml, MpsIsSeenByItsPipes) {
  in_process("", [] { EXPECT_TRUE(mps_in_use()); }, {{"CUDA_MPS_PIPE_DIRECTORY", "/tmp/pipes"}});
  in_process("", [] { EXPECT_EQ(mps_in_use(), ::access("/tmp/nvidia-mps/control", F_OK) == 0); },
             {{"CUDA_MPS_PIPE_DIRECTORY", ""}});
}

}  // namespace
}  // namespace marathon
