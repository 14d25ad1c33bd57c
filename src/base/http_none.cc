// http.h in a build without libcurl (MARATHON_HTTP=OFF): for machines that judge and ask no model.
#include "base/http.h"

namespace marathon {

HttpReply http_request(const HttpRequest&, const HttpSink&, std::stop_token) {
  HttpReply reply;
  reply.trouble = HttpTrouble::other;
  reply.what =
      "This marathon was built without an HTTP client (MARATHON_HTTP=OFF), so it can ask no model. "
      "Use the program that ./build.sh makes.";
  return reply;
}

}  // namespace marathon
