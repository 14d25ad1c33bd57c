// Faults on demand, for tests: the n-th write or sync of this process fails.
//
// The switch MARATHON_TEST_FAULT=KIND:N[+COUNT] (KIND enospc, eio or short) works on the real
// binary; without it SQLite's own file layer is used and nothing is wrapped. It covers the log
// (through a SQLite VFS) and the artifacts. docs/event-log.md describes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"

namespace marathon::store {

enum class FaultKind {
  enospc,       // nothing is written, the disk is full
  eio,          // nothing is written, the device fails
  short_write,  // half of it is written, then the disk is full
};

struct FaultPlan {
  FaultKind kind = FaultKind::enospc;
  int64_t first = 1;  // 1: the next write or sync
  int64_t count = 1;  // how many in a row fail
};

Result<FaultPlan> parse_fault(std::string_view text);

// Sets the plan for this process and starts to count from here. A log that is open keeps the file
// layer with which it was opened, so set a plan (perhaps a harmless one) before opening.
void set_fault_plan(const FaultPlan& plan);
void clear_fault_plan();  // the file layer stays, and counts on

// Error invalid when MARATHON_TEST_FAULT cannot be read. Reads it once a process.
Status use_fault_switch();

// To be called before each write or sync: the fault to play, or none.
std::optional<FaultKind> next_fault();
int64_t writes_counted();  // since the plan was set

// Name of the wrapping VFS, or null: SQLite's default.
const char* fault_vfs();

}  // namespace marathon::store
