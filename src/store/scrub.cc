// Keys, addresses, hosts and people in free text.
//
// A scanner by hand: std::regex recurses once a character and ends on a long line, and these texts
// may come from a candidate. It rather takes away a word too many than a key too few.
#include <algorithm>
#include <array>
#include <cctype>

#include "store/redact.h"

namespace marathon::store {

namespace {

constexpr std::string_view key_mark = "[key]", host_mark = "[host]", person_mark = "[person]";

constexpr std::array<std::string_view, 33> key_prefixes = {
    "sk-",         "sk_",    "pk_live_", "rk_live_", "ghp_",  "gho_",  "ghu_",  "ghs_",  "ghr_",
    "github_pat_", "glpat-", "xoxb-",    "xoxa-",    "xoxp-", "xoxr-", "xoxs-", "xapp-", "AKIA",
    "ASIA",        "AIza",   "hf_",      "nvapi-",   "ya29.", "eyJ",   "npm_",  "pypi-", "dop_v1_",
    "SG.",         "gsk_",   "xai-",     "r8_",      "sess-", "whsec_"};

constexpr std::array<std::string_view, 16> secret_words = {
    "password",    "passwd",     "passphrase",    "passwort", "pwd",        "secret",
    "token",       "apikey",     "api_key",       "api-key",  "access_key", "access-key",
    "private_key", "credential", "authorization", "cookie"};

constexpr std::array<std::string_view, 14> host_endings = {
    "com",   "net",      "org", "io",   "ai",    "edu",         "gov",
    "local", "internal", "lan", "corp", "intra", "localdomain", "cluster"};

bool is_alnum(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_space(char c) { return c == ' ' || c == '\t'; }
bool is_name(char c) { return is_alnum(c) || c == '_' || c == '-' || c == '.'; }
bool is_key_char(char c) { return is_name(c) || c == '~' || c == '+' || c == '/' || c == '='; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

std::string lower(std::string_view text) {
  std::string low(text);
  for (char& c : low) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return low;
}

// No name is longer. The limit keeps the scan linear: a word is looked at again behind each '-'.
constexpr size_t longest_name = 256;

template <class Is>
size_t length_while(std::string_view text, Is is, size_t limit = std::string_view::npos) {
  size_t n = 0;
  while (n < text.size() && n < limit && is(text[n])) ++n;
  return n;
}

struct Match {
  size_t length = 0;  // 0: none
  std::string replacement;
};

Match match_pem(std::string_view text) {
  if (!text.starts_with("-----BEGIN")) return {};
  const size_t end = text.find("-----END");
  if (end == std::string_view::npos) return {text.size(), std::string(key_mark)};
  const size_t dashes = text.find("-----", end + 8);
  return {dashes == std::string_view::npos ? text.size() : dashes + 5, std::string(key_mark)};
}

Match match_prefix(std::string_view text) {
  for (const std::string_view prefix : key_prefixes) {
    if (!text.starts_with(prefix)) continue;
    const size_t rest = length_while(text.substr(prefix.size()), is_key_char);
    if (rest >= 8) return {prefix.size() + rest, std::string(key_mark)};
  }
  return {};
}

// "Bearer abc…", also in upper or lower case.
Match match_scheme(std::string_view text) {
  for (const std::string_view word : {"bearer", "basic", "digest"}) {
    if (text.size() <= word.size() || lower(text.substr(0, word.size())) != word) continue;
    const size_t spaces = length_while(text.substr(word.size()), is_space);
    const size_t key = length_while(text.substr(word.size() + spaces), is_key_char);
    if (spaces == 0 || key < 6) continue;
    const std::string_view value = text.substr(word.size() + spaces, key);
    const bool plain_word = std::ranges::all_of(value, is_lower);  // "basic arithmetic"
    if (plain_word && word != "bearer") continue;
    return {word.size() + spaces + key, std::string(text.substr(0, word.size())) + " [key]"};
  }
  return {};
}

bool is_secret_name(std::string_view name) {
  const std::string low = lower(name);
  return std::ranges::any_of(
      secret_words, [&](std::string_view word) { return low.find(word) != std::string::npos; });
}

bool is_quote(char c) { return c == '"' || c == '\'' || c == '\\' || c == '`'; }

// What stands between a name and its value: quotes, spaces and one of = : => " is ", or for an
// option of a command line only a space. 0: no value follows.
size_t separator_length(std::string_view text, bool option) {
  size_t n = length_while(text, is_quote);
  n += length_while(text.substr(n), is_space);
  const std::string_view rest = text.substr(n);
  size_t mark = 0;
  if (rest.starts_with("=>")) {
    mark = 2;
  } else if (rest.starts_with("=") || rest.starts_with(":")) {
    mark = 1;
  } else if (n > 0 && rest.starts_with("is ")) {
    mark = 3;
  } else if (!option || n == 0) {
    return 0;
  }
  n += mark;
  n += length_while(text.substr(n), is_space);
  return n + length_while(text.substr(n), is_quote);
}

// Up to a space, a quote or what else ends a value; a header's goes on to the end of its line.
size_t value_length(std::string_view text, bool header) {
  size_t n = 0;
  for (; n < text.size(); ++n) {
    const char c = text[n];
    const bool escaped_quote = c == '\\' && n + 1 < text.size() && text[n + 1] == '"';
    if (escaped_quote || c == '\n' || c == '\r' || c == '"' || c == '\'' || c == '`') break;
    if (!header && (is_space(c) || c == ',' || c == ';' || c == '&' || c == '}' || c == ')')) break;
  }
  return n;
}

// name=value, "name": "value", --name value, Name: value.
Match match_assignment(std::string_view text) {
  const size_t dashes = text.starts_with("--") ? 2 : 0;
  const size_t name = length_while(text.substr(dashes), is_name, longest_name);
  if (name < 3 || name > 100 || !is_secret_name(text.substr(dashes, name))) return {};
  const size_t begin = dashes + name + separator_length(text.substr(dashes + name), dashes == 2);
  if (begin == dashes + name) return {};
  const std::string low = lower(text.substr(dashes, name));
  const bool header = low.ends_with("authorization") || low.ends_with("cookie");
  const size_t value = value_length(text.substr(begin), header);
  const std::string_view content = text.substr(begin, value);
  const bool count = low.ends_with("tokens") && std::ranges::all_of(content, is_digit);
  if (value == 0 || count) return {};
  return {begin + value, std::string(text.substr(0, begin)) + std::string(key_mark)};
}

Match match_url(std::string_view text) {
  const size_t scheme = length_while(
      text, [](char c) { return is_alnum(c) || c == '+' || c == '.' || c == '-'; }, 21);
  if (scheme == 0 || scheme > 20 || !text.substr(scheme).starts_with("://")) return {};
  const size_t authority = length_while(text.substr(scheme + 3), [](char c) {
    return is_name(c) || c == ':' || c == '@' || c == '%' || c == '[' || c == ']' || c == '~' ||
           c == '!' || c == '$' || c == '*' || c == '+' || c == '=';
  });
  if (authority == 0) return {};
  return {scheme + 3 + authority, std::string(text.substr(0, scheme + 3)) + std::string(host_mark)};
}

Match match_address(std::string_view text) {
  const size_t local = length_while(
      text, [](char c) { return is_name(c) || c == '%' || c == '+'; }, longest_name);
  if (local == 0 || local >= text.size() || text[local] != '@') return {};
  const size_t domain = length_while(text.substr(local + 1), is_name);
  if (domain < 2) return {};
  return {local + 1 + domain, "[address]"};
}

Match match_ipv4(std::string_view text) {
  size_t at = 0;
  for (int part = 0; part < 4; ++part) {
    const size_t digits = length_while(text.substr(at), is_digit);
    if (digits == 0 || digits > 3) return {};
    at += digits;
    if (part == 3) break;
    if (at >= text.size() || text[at] != '.') return {};
    ++at;
  }
  if (at < text.size() && (is_alnum(text[at]) || text[at] == '_')) return {};
  return {at, std::string(host_mark)};
}

Match match_ipv6(std::string_view text) {
  const size_t length = length_while(
      text, [](char c) { return is_hex(c) || c == ':' || c == '.'; }, longest_name);
  const std::string_view word = text.substr(0, length);
  const int64_t colons = std::ranges::count(word, ':');
  const bool digit = std::ranges::any_of(word, is_digit);
  if (length < 6 || !digit || colons < 2) return {};
  if (word.find("::") == std::string_view::npos && colons != 7) return {};
  return {length, std::string(host_mark)};
}

Match match_home(std::string_view text) {
  for (const std::string_view root : {"/home/", "/Users/", "\\Users\\"}) {
    if (!text.starts_with(root)) continue;
    const size_t name = length_while(text.substr(root.size()), is_name);
    if (name > 0) return {root.size() + name, std::string(root) + std::string(person_mark)};
  }
  return {};
}

Match match_names(std::string_view text, const PrivateNames& names) {
  const size_t length = length_while(text, is_name, longest_name);
  // A sentence's full stop is no part of the name.
  std::string word = lower(text.substr(0, length));
  while (word.ends_with('.')) word.pop_back();
  if (word.empty()) return {};
  if (names.hosts.contains(word)) return {word.size(), std::string(host_mark)};
  if (names.people.contains(word)) return {word.size(), std::string(person_mark)};
  const size_t dot = word.rfind('.');
  if (dot == std::string::npos || dot == 0) return {};
  const bool ending = std::ranges::find(host_endings, word.substr(dot + 1)) != host_endings.end();
  return ending ? Match{word.size(), std::string(host_mark)} : Match{};
}

// A long word of digits, capitals and small letters is more likely a key than prose. So is a hex
// word that has not the length of a hash that the log uses.
Match match_random(std::string_view text) {
  const auto is_part = [](char c) { return is_alnum(c) || c == '_' || c == '-' || c == '+'; };
  const std::string_view word = text.substr(0, length_while(text, is_part, longest_name));
  const bool mixed = std::ranges::any_of(word, is_digit) && std::ranges::any_of(word, is_upper) &&
                     std::ranges::any_of(word, is_lower);
  const bool hex = word.size() != 40 && word.size() != 64 && std::ranges::all_of(word, is_hex);
  if (!(mixed && word.size() >= 24) && !(hex && word.size() >= 32)) return {};
  size_t length = length_while(text, is_part);
  length += length_while(text.substr(length), [](char c) { return c == '='; });  // base64's end
  return {length, std::string(key_mark)};
}

Match match_any(std::string_view text, const PrivateNames& names) {
  for (const auto matcher : {match_pem, match_prefix, match_scheme, match_assignment, match_url,
                             match_address, match_ipv4, match_ipv6, match_home}) {
    if (Match match = matcher(text); match.length > 0) return match;
  }
  if (Match match = match_names(text, names); match.length > 0) return match;
  return match_random(text);
}

}  // namespace

std::string redact_text(std::string_view text, const PrivateNames& names) {
  std::string out;
  out.reserve(text.size());
  size_t i = 0;
  while (i < text.size()) {
    const bool inside = i > 0 && (is_alnum(text[i - 1]) || text[i - 1] == '_');
    Match match = inside ? Match{} : match_any(text.substr(i), names);
    if (match.length > 0) {
      out += match.replacement;
      i += match.length;
    } else {
      out += text[i++];
    }
  }
  return out;
}

}  // namespace marathon::store
