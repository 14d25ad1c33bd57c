// TLS for the fake server: a certificate for 127.0.0.1 that it makes and signs itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace marathon::fake {

class TlsSession {  // one connection; blocking
 public:
  virtual ~TlsSession() = default;
  virtual bool accept() = 0;
  virtual int64_t read(char* bytes, size_t size) = 0;  // 0 or less: over
  virtual int64_t write(const char* bytes, size_t size) = 0;
  virtual void close() = 0;  // says goodbye
};

class TlsContext {
 public:
  virtual ~TlsContext() = default;
  virtual std::unique_ptr<TlsSession> session(int socket) = 0;
  virtual std::string certificate_pem() const = 0;
};

std::unique_ptr<TlsContext> make_self_signed();

}  // namespace marathon::fake
