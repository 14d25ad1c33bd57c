#include "base/result.h"

#include <cerrno>
#include <cstring>

namespace marathon {

std::string_view to_string(Fault fault) {
  switch (fault) {
    case Fault::invalid:
      return "invalid";
    case Fault::not_found:
      return "not_found";
    case Fault::busy:
      return "busy";
    case Fault::retry:
      return "retry";
    case Fault::no_space:
      return "no_space";
    case Fault::cancelled:
      return "cancelled";
    case Fault::timeout:
      return "timeout";
    case Fault::corrupt:
      return "corrupt";
    case Fault::system:
      return "system";
  }
  return "system";
}

namespace {
Fault fault_of(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      return Fault::no_space;
    case EINTR:
    case EAGAIN:
      return Fault::retry;
    case ENOENT:
      return Fault::not_found;
    default:
      return Fault::system;
  }
}
}  // namespace

tl::unexpected<Error> fail_errno(std::string_view doing, int error_number) {
  return fail(fault_of(error_number), std::string(doing) + ": " + std::strerror(error_number));
}

}  // namespace marathon
