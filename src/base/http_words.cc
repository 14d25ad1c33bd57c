#include "base/http.h"

namespace marathon {

std::string_view to_string(HttpTrouble trouble) {
  switch (trouble) {
    case HttpTrouble::none:
      return "none";
    case HttpTrouble::bad_url:
      return "bad_url";
    case HttpTrouble::resolve:
      return "resolve";
    case HttpTrouble::connect:
      return "connect";
    case HttpTrouble::proxy:
      return "proxy";
    case HttpTrouble::tls:
      return "tls";
    case HttpTrouble::reset:
      return "reset";
    case HttpTrouble::idle:
      return "idle";
    case HttpTrouble::total_timeout:
      return "total_timeout";
    case HttpTrouble::too_large:
      return "too_large";
    case HttpTrouble::stopped:
      return "stopped";
    case HttpTrouble::other:
      return "other";
  }
  return "other";
}

std::string HttpReply::header(std::string_view lower_name) const {
  for (const auto& [name, value] : headers)
    if (name == lower_name) return value;
  return "";
}

}  // namespace marathon
