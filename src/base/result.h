// Errors as values. No exception crosses a room's door (design: docs/architecture.md).
//
// An Error means that *we* could not work. A candidate that fails is a Verdict, never an Error.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace marathon {

// What the caller can do about it.
enum class Fault {
  invalid,    // the input is wrong: the caller must change it
  not_found,  // the thing named does not exist
  busy,       // somebody else holds it: wait or stop them
  retry,      // the same call may succeed later
  no_space,   // a disk or quota is full: free room, then the same call may succeed
  cancelled,  // a stop was requested
  timeout,    // a limit that the caller set has passed
  corrupt,    // stored data contradicts itself
  system,     // the operating system refused
};

std::string_view to_string(Fault fault);

struct Error {
  Fault fault = Fault::system;
  std::string what;  // one or more sentences; says what to do next where a person can do something
};

template <class T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
};

using Status = Result<void>;

// Unexpected value, to be returned from any function that returns a Result.
inline tl::unexpected<Error> fail(Fault fault, std::string what) {
  return tl::unexpected<Error>(Error{fault, std::move(what)});
}

// The same error with a sentence put in front: "while <doing>: <what>".
inline tl::unexpected<Error> fail(const Error& cause, std::string_view doing) {
  return tl::unexpected<Error>(Error{cause.fault, std::string(doing) + ": " + cause.what});
}

// Error from errno: "<doing>: <strerror>". ENOSPC and EDQUOT give no_space, EINTR and EAGAIN retry,
// ENOENT not_found.
tl::unexpected<Error> fail_errno(std::string_view doing, int error_number);

}  // namespace marathon

// Value of a Result, or return its error from the enclosing function. A GNU statement expression
// (gcc and clang), so that it can stand inside another expression: `auto text = TRY(read_file(p));`
// The counter in the name lets one TRY stand inside another without shadowing.
#define TRY(...) MARATHON_TRY_(MARATHON_JOIN_(try_result_, __COUNTER__), __VA_ARGS__)
#define MARATHON_JOIN_(a, b) MARATHON_JOIN2_(a, b)
#define MARATHON_JOIN2_(a, b) a##b
#define MARATHON_TRY_(name, ...)                                 \
  ({                                                             \
    auto&& name = (__VA_ARGS__);                                 \
    if (!name) return ::tl::unexpected(std::move(name).error()); \
    ::marathon::detail::unwrap(std::move(name));                 \
  })

namespace marathon::detail {
template <class T>
T unwrap(Result<T>&& result) {
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}
template <class T>
T unwrap(tl::expected<T, Error>&& result) {
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}
}  // namespace marathon::detail
