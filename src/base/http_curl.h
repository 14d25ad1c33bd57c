// Between the parts of the HTTP client. libcurl's own header stays in .cc files.
#pragma once

#include <string>

#include "base/http.h"

namespace marathon {

// Scheme, host and port of a URL, without what may be secret in it (user, password, query).
struct HttpTarget {
  std::string scheme, host;
  int port = 0;
  std::string text() const;  // "https://api.example.com" with the port where it is not usual
};

// "" when the request may be sent, else why not.
std::string check_request(const HttpRequest& request, HttpTarget& target);

struct CurlEnd {
  int code = 0;  // CURLcode
  void* easy = nullptr;
  std::string text;  // of libcurl: may quote a secret, so it is read here and never shown
  bool over_proxy = false;
};

HttpTrouble trouble_of(const CurlEnd& end);
// One sentence, made of fixed words, the target and what the operating system or the certificate's
// check said.
std::string words_of(const CurlEnd& end, HttpTrouble trouble, const HttpTarget& target);

}  // namespace marathon
