#include "bench/cuda/nvml.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "bench/cuda/cuda_fixture.h"
#include "bench/cuda/gpu_watch.h"

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
    EXPECT_EQ(reading.ecc_errors, 2);
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

// ---- what becomes of the readings

GpuReading reading(int64_t mhz, double watts, std::vector<std::string> throttle = {}) {
  GpuReading made;
  made.sm_clock_mhz = mhz;
  made.power_w = watts;
  made.temperature_c = mhz / 40;
  made.throttle = std::move(throttle);
  made.driver_version = "580.1";
  made.ecc_errors = 7;
  return made;
}

TEST(GpuWatching, ClocksPowerAndWhatHeldThemDown) {
  std::vector<GpuReading> readings = {reading(1980, 300), reading(1200, 690, {"idle", "power cap"}),
                                      reading(1500, 650, {"power cap", "hardware slowdown"})};
  readings.back().ecc_errors = 9;
  const GpuEvidence evidence = evidence_of(readings);
  EXPECT_EQ(evidence.readings, 3);
  EXPECT_EQ(evidence.driver, "580.1");
  EXPECT_EQ(evidence.sm_clock_min_mhz, 1200);
  EXPECT_EQ(evidence.sm_clock_mhz, 1500);
  EXPECT_EQ(evidence.sm_clock_max_mhz, 1980);
  EXPECT_EQ(evidence.power_w, 650);
  EXPECT_EQ(evidence.power_max_w, 690);
  EXPECT_EQ(evidence.temperature_max_c, 49);
  EXPECT_EQ(evidence.throttled, "hardware slowdown in 1, power cap in 2 of 3 readings");
  EXPECT_EQ(evidence.ecc_errors, 2);
  EXPECT_EQ(evidence_of({}).readings, 0);
  EXPECT_EQ(evidence_of({GpuReading()}).sm_clock_mhz, 0);
}

TEST(GpuWatching, OthersAreWhoIsNotOurs) {
  const int64_t self = ::getpid(), parent = ::getppid();
  EXPECT_EQ(other_processes({self}), 0);
  EXPECT_EQ(other_processes({self, parent, 1}), 2);
  // Without us in it, the list is numbered elsewhere: nothing can be said.
  EXPECT_EQ(other_processes({parent}), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  EXPECT_EQ(other_processes({self, child}), 0);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(GpuWatching, FromTheLibraryToTheEvidence) {
  in_process("", [] {
    GpuWatch watch(uuid);
    watch.look();
    watch.look();
    const GpuEvidence evidence = watch.evidence("Fake GPU");
    EXPECT_EQ(evidence.name, "Fake GPU");
    EXPECT_EQ(evidence.uuid, uuid);
    EXPECT_EQ(evidence.readings, 2);
    EXPECT_EQ(evidence.sm_clock_mhz, 1980);
    EXPECT_EQ(evidence.throttled,
              "power cap in 2, software thermal slowdown in 2 of 2 readings");
  });
}

}  // namespace
}  // namespace marathon
