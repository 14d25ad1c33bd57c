#include "store/redact.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "store/artifact_files.h"

namespace marathon::store {

namespace {

// Fields that are left out whole, by kind; "*" in any kind.
struct LeftOut {
  std::string_view payload_type, key;
};
constexpr std::array<LeftOut, 6> left_out = {{{"turn.finished", "text"},
                                              {"turn.finished", "arguments"},
                                              {"tool.finished", "result"},
                                              {"note.added", "text"},
                                              {"*", "build_output"},
                                              {"*", "prompt"}}};

bool is_left_out(std::string_view payload_type, std::string_view key) {
  return std::ranges::any_of(left_out, [&](const LeftOut& entry) {
    return entry.key == key && (entry.payload_type == "*" || entry.payload_type == payload_type);
  });
}

std::string left_out_mark(const std::string& text) {
  return text.empty() ? "" : fmt::format("[left out: {} bytes]", text.size());
}

class Redactor {
 public:
  Redactor(std::string_view payload_type, const PrivateNames& names, bool known)
      : payload_type_(payload_type), names_(names), known_(known) {}

  Json redact(const Json& value, const std::string& key) const {
    if (value.is_object()) {
      Json object = Json::object();
      for (const auto& [name, member] : value.items())
        object[redact_text(name, names_)] = redact(member, name);
      return object;
    }
    if (value.is_array()) {
      Json list = Json::array();
      for (const Json& member : value) list.push_back(redact(member, key));
      return list;
    }
    return value.is_string() ? Json(string(value.get<std::string>(), key)) : value;
  }

 private:
  std::string string(const std::string& text, const std::string& key) const {
    if (!known_ || is_left_out(payload_type_, key)) return left_out_mark(text);
    if (key == "host") return text.empty() ? "" : "[host]";
    if (key == "task_folder") return text.substr(text.find_last_of('/') + 1);
    return is_hash(text) ? text : redact_text(text, names_);
  }

  std::string_view payload_type_;
  const PrivateNames& names_;
  bool known_;
};

void add_host(const std::string& host, std::set<std::string>& hosts) {
  std::string low = host;
  for (char& c : low) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (low.size() < 3 || low == "localhost") return;
  hosts.insert(low);
  const std::string first = low.substr(0, low.find('.'));
  if (first.size() >= 3) hosts.insert(first);
}

void add_person(const std::string& folder, std::set<std::string>& people) {
  for (const std::string_view root : {"/home/", "/Users/"}) {
    const size_t at = folder.find(root);
    if (at == std::string::npos) continue;
    const size_t begin = at + root.size();
    std::string name = folder.substr(begin, folder.find('/', begin) - begin);
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (name.size() >= 3) people.insert(name);
  }
}

}  // namespace

void PrivateNames::collect(const Payload& payload) {
  if (const RunStarted* started = std::get_if<RunStarted>(&payload)) {
    add_host(started->host, hosts);
    add_person(started->task_folder, people);
  } else if (const RunResumed* resumed = std::get_if<RunResumed>(&payload)) {
    add_host(resumed->host, hosts);
  } else if (const EvaluationFinished* finished = std::get_if<EvaluationFinished>(&payload)) {
    add_host(finished->verdict.provenance.host, hosts);
    if (const auto& gpu = finished->verdict.provenance.gpu) add_host(gpu->uuid, hosts);
  }
}

Event redact_event(const Event& event, const PrivateNames& names) {
  Event redacted = event;
  const Result<Payload> payload = decode_payload(event.payload_type, event.payload);
  const bool known = payload && !std::holds_alternative<Unknown>(*payload);
  // A known kind is written anew: fields that only a newer version knows fall away.
  const Result<Json> json = parse_json(known ? encode_payload(*payload) : event.payload);
  const Redactor redactor(event.payload_type, names, known);
  redacted.payload = json ? dump_json(redactor.redact(*json, "")) : "null";
  return redacted;
}

}  // namespace marathon::store
