#include "store/store_fixture.h"

#include <sqlite3.h>

#include <nlohmann/json.hpp>

namespace marathon {

std::string text_of(const State& state) { return dump_json(to_json(state)); }

namespace {
constexpr const char* no_update =
    "CREATE TRIGGER events_no_update BEFORE UPDATE ON events BEGIN "
    "SELECT RAISE(ABORT, 'events are for ever: no UPDATE'); END";
constexpr const char* no_delete =
    "CREATE TRIGGER events_no_delete BEFORE DELETE ON events BEGIN "
    "SELECT RAISE(ABORT, 'events are for ever: no DELETE'); END";
}  // namespace

void StoreTest::tamper(const std::string& sql) const {
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(log_path().c_str(), &handle), SQLITE_OK);
  for (const std::string& statement :
       {std::string("DROP TRIGGER events_no_update; DROP TRIGGER events_no_delete"), sql,
        std::string(no_update), std::string(no_delete)}) {
    char* message = nullptr;
    ASSERT_EQ(sqlite3_exec(handle, statement.c_str(), nullptr, nullptr, &message), SQLITE_OK)
        << message;
  }
  sqlite3_close(handle);
}

}  // namespace marathon
