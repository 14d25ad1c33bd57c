// A model's server on loopback that does what real ones do, also when they fail: OpenAI's chat
// completions and Anthropic's messages, told apart by the path. Every request takes the next thing
// that it was told to do; the last of them goes on until it is told something else.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"

namespace marathon {

struct ScriptedCall {
  std::string id, name, arguments;
};

struct ScriptedAnswer {
  std::string reasoning, text;
  std::vector<ScriptedCall> calls;
  int64_t input_tokens = 100, cached_tokens = 40, output_tokens = 20;  // input without cached
};

struct SeenRequest {
  std::string method, path, body;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string header(std::string_view lower_name) const;
};

// All that behave() takes, with what each does beside its line in model_behaviours.cc.
std::vector<std::string> model_behaviours();

class ModelServer {
 public:
  enum class Transport : uint8_t { plain, tls };  // tls: with a certificate that it signed itself

  explicit ModelServer(Transport transport = Transport::plain);
  ModelServer(const ModelServer&) = delete;
  ModelServer& operator=(const ModelServer&) = delete;
  ~ModelServer();

  ModelServer& behave(std::string_view behaviour);  // throws on a name that there is not
  ModelServer& answer(ScriptedAnswer answer);       // as it should be

  int port() const;
  std::string url() const;         // "http://127.0.0.1:port"
  std::string openai_url() const;  // …/v1
  std::string ca_file() const;     // of tls: what a client must trust

  std::vector<SeenRequest> requests() const;
  void wait_for_requests(size_t count) const;  // until so many have come in
  void wait_for_connection() const;            // until one is open

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A port of loopback at which nobody listens, as long as this lives.
class ClosedPort {
 public:
  ClosedPort();
  int port() const { return port_; }

 private:
  int port_ = 0;  // first: making the socket sets it
  Fd socket_;
};

// A port at which connecting goes on for ever: the queue of its listener is full.
class DeafPort {
 public:
  DeafPort();
  int port() const { return port_; }
  void wait_for_caller() const;  // until one more than at the beginning tries to connect

 private:
  int port_ = 0;  // first: making the socket sets it
  Fd listener_;
  std::vector<Fd> waiting_;
  int64_t callers_ = 0;
};

}  // namespace marathon
