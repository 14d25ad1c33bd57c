#include "fakes/self_signed.h"

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <stdexcept>

namespace marathon::fake {

namespace {

template <auto release>
struct Release {
  template <class T>
  void operator()(T* what) const {
    release(what);
  }
};
template <class T, auto release>
using Owned = std::unique_ptr<T, Release<release>>;

void demand(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

class Session : public TlsSession {
 public:
  Session(SSL_CTX* context, int socket) : ssl_(SSL_new(context)) {
    demand(ssl_ != nullptr && SSL_set_fd(ssl_.get(), socket) == 1, "SSL_new");
  }
  bool accept() override { return SSL_accept(ssl_.get()) == 1; }
  int64_t read(char* bytes, size_t size) override {
    return SSL_read(ssl_.get(), bytes, static_cast<int>(size));
  }
  int64_t write(const char* bytes, size_t size) override {
    return SSL_write(ssl_.get(), bytes, static_cast<int>(size));
  }
  void close() override { SSL_shutdown(ssl_.get()); }

 private:
  Owned<SSL, SSL_free> ssl_;
};

class Context : public TlsContext {
 public:
  Context()
      : key_(EVP_EC_gen("P-256")),
        certificate_(X509_new()),
        context_(SSL_CTX_new(TLS_server_method())) {
    demand(key_ && certificate_ && context_, "OpenSSL has no memory");
    make_certificate();
    demand(SSL_CTX_use_certificate(context_.get(), certificate_.get()) == 1 &&
               SSL_CTX_use_PrivateKey(context_.get(), key_.get()) == 1,
           "SSL_CTX");
  }

  std::unique_ptr<TlsSession> session(int socket) override {
    return std::make_unique<Session>(context_.get(), socket);
  }

  std::string certificate_pem() const override {
    const Owned<BIO, BIO_free_all> memory(BIO_new(BIO_s_mem()));
    demand(PEM_write_bio_X509(memory.get(), certificate_.get()) == 1, "PEM_write_bio_X509");
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(memory.get(), &bytes);
    return {bytes, static_cast<size_t>(size)};
  }

 private:
  void make_certificate() {
    X509* x = certificate_.get();
    X509_set_version(x, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
    X509_gmtime_adj(X509_getm_notBefore(x), -3600);
    X509_gmtime_adj(X509_getm_notAfter(x), 24 * 3600);
    X509_set_pubkey(x, key_.get());
    X509_NAME* name = X509_get_subject_name(x);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("marathon fake"), -1, -1, 0);
    X509_set_issuer_name(x, name);
    add(NID_subject_alt_name, "IP:127.0.0.1");
    add(NID_basic_constraints, "critical,CA:TRUE");
    demand(X509_sign(x, key_.get(), EVP_sha256()) > 0, "X509_sign");
  }
  void add(int nid, const char* value) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, certificate_.get(), certificate_.get(), nullptr, nullptr, 0);
    const Owned<X509_EXTENSION, X509_EXTENSION_free> extension(
        X509V3_EXT_conf_nid(nullptr, &context, nid, value));
    demand(extension && X509_add_ext(certificate_.get(), extension.get(), -1) == 1, "X509_add_ext");
  }

  Owned<EVP_PKEY, EVP_PKEY_free> key_;
  Owned<X509, X509_free> certificate_;
  Owned<SSL_CTX, SSL_CTX_free> context_;
};

}  // namespace

std::unique_ptr<TlsContext> make_self_signed() { return std::make_unique<Context>(); }

}  // namespace marathon::fake
