// Envelope, chain and kinds of events. The payloads' JSON is in event_codec.cc.
#include "core/event.h"

#include <array>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/json.h"

namespace marathon {

namespace {

struct EndingName {
  Ending ending;
  std::string_view name;
};

constexpr std::array<EndingName, 8> ending_names = {{
    {Ending::goal_met, "goal_met"},
    {Ending::improved, "improved"},
    {Ending::plateau, "plateau"},
    {Ending::budget_exhausted, "budget_exhausted"},
    {Ending::limit_reached, "limit_reached"},
    {Ending::blocked, "blocked"},
    {Ending::interrupted, "interrupted"},
    {Ending::failed, "failed"},
}};

std::optional<RecordType> record_type_from(std::string_view name) {
  for (const RecordType type :
       {RecordType::event, RecordType::status, RecordType::reconciliation}) {
    if (to_string(type) == name) return type;
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_string(RecordType type) {
  switch (type) {
    case RecordType::event:
      return "event";
    case RecordType::status:
      return "status";
    case RecordType::reconciliation:
      return "reconciliation";
  }
  return "event";
}

std::string_view to_string(Ending ending) {
  for (const EndingName& entry : ending_names) {
    if (entry.ending == ending) return entry.name;
  }
  return "failed";
}

std::optional<Ending> ending_from(std::string_view name) {
  for (const EndingName& entry : ending_names) {
    if (entry.name == name) return entry.ending;
  }
  return std::nullopt;
}

RecordType record_type(const Payload& payload) {
  if (std::holds_alternative<EvaluationStage>(payload)) return RecordType::status;
  if (std::holds_alternative<EvaluationRepeated>(payload)) return RecordType::reconciliation;
  return RecordType::event;
}

std::string chain_hash(const Event& event) {
  Sha256 hash;
  hash.update_field(event.previous_hash);
  hash.update_field(std::to_string(event.schema_version));
  hash.update_field(event.id);
  hash.update_field(event.stream_kind);
  hash.update_field(event.stream_id);
  hash.update_field(std::to_string(event.sequence));
  hash.update_field(std::to_string(event.recorded_at_us));
  hash.update_field(to_string(event.record_type));
  hash.update_field(event.durability);
  hash.update_field(event.causation_id);
  hash.update_field(event.payload_type);
  hash.update_field(std::to_string(event.payload_schema_version));
  hash.update_field(event.payload);
  return hash.finish_hex();
}

std::string to_json_line(const Event& event) {
  // The payload is embedded as the bytes that were written, so that unknown fields pass through and
  // the chain can be checked from an export.
  const Json head = {{"schema_version", event.schema_version},
                     {"id", event.id},
                     {"stream", {{"kind", event.stream_kind}, {"id", event.stream_id}}},
                     {"sequence", event.sequence},
                     {"recorded_at", event.recorded_at_us},
                     {"record_type", to_string(event.record_type)},
                     {"durability", event.durability},
                     {"causation_id", event.causation_id},
                     {"payload_type", event.payload_type},
                     {"payload_schema_version", event.payload_schema_version},
                     {"previous_hash", event.previous_hash},
                     {"hash", event.hash}};
  std::string line = dump_json(head);
  line.pop_back();
  return line + ",\"payload\":" + event.payload + "}";
}

Result<Event> event_from_json_line(std::string_view line) {
  const Json json = TRY(parse_json(line));
  if (!json.is_object() || !json.contains("payload") || !json.contains("stream")) {
    return fail(Fault::corrupt, "a line that is no event: it lacks 'payload' or 'stream'");
  }
  const std::optional<RecordType> type = record_type_from(json_string(json, "record_type"));
  if (!type)
    return fail(Fault::corrupt, "unknown record_type '" + json_string(json, "record_type") + "'");
  Event event;
  event.schema_version = json_int(json, "schema_version");
  event.id = json_string(json, "id");
  event.stream_kind = json_string(json["stream"], "kind");
  event.stream_id = json_string(json["stream"], "id");
  event.sequence = json_int(json, "sequence");
  event.recorded_at_us = json_int(json, "recorded_at");
  event.record_type = *type;
  event.durability = json_string(json, "durability");
  event.causation_id = json_string(json, "causation_id");
  event.payload_type = json_string(json, "payload_type");
  event.payload_schema_version = json_int(json, "payload_schema_version");
  event.payload = dump_json(json["payload"]);
  event.previous_hash = json_string(json, "previous_hash");
  event.hash = json_string(json, "hash");
  return event;
}

}  // namespace marathon
