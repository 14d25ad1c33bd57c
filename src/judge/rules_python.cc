// What a candidate in Triton may import and name. An early answer in words, not a wall: the jail
// holds the code, and only Triton kernels of the module itself are replayed.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "judge/rules.h"
#include "judge/tokens.h"

namespace marathon {

namespace {

using Words = std::set<std::string, std::less<>>;

// A name that ends in .* stands for the module and all below it.
const Words allowed_modules = {"__future__",
                               "abc",
                               "collections",
                               "collections.abc",
                               "dataclasses",
                               "enum",
                               "functools",
                               "itertools",
                               "marathon_params",
                               "math",
                               "numbers",
                               "torch",
                               "triton",
                               "triton.experimental.gluon.*",
                               "triton.language.*",
                               "triton.tools.tensor_descriptor",
                               "typing"};

// Types and views: nothing of torch that computes, allocates or loads.
const Words allowed_of_torch = {"Size",        "Tensor",
                                "as_strided",  "bfloat16",
                                "bool",        "contiguous_format",
                                "cuda",        "device",
                                "double",      "dtype",
                                "finfo",       "float",
                                "float16",     "float32",
                                "float64",     "float8_e4m3fn",
                                "float8_e5m2", "half",
                                "iinfo",       "inference_mode",
                                "int",         "int16",
                                "int32",       "int64",
                                "int8",        "is_floating_point",
                                "is_tensor",   "long",
                                "no_grad",     "short",
                                "strided",     "uint16",
                                "uint32",      "uint64",
                                "uint8"};
const Words allowed_of_torch_cuda = {
    "Event",          "Stream", "StreamContext",         "current_device",
    "current_stream", "device", "get_device_capability", "get_device_properties",
    "stream"};
const Words allowed_of_triton = {"Config",      "autotune",      "cdiv",     "experimental",
                                 "heuristics",  "jit",           "language", "next_power_of_2",
                                 "reinterpret", "set_allocator", "tools"};
const Words makers_of_memory = {
    "arange", "cat",       "empty",    "empty_like", "empty_strided", "eye",
    "full",   "full_like", "linspace", "ones",       "ones_like",     "rand",
    "randn",  "stack",     "tensor",   "zeros",      "zeros_like"};
// Methods that only a tensor of torch has.
const Words products = {"addbmm", "addmm",  "addmv", "baddbmm", "bmm",
                        "einsum", "matmul", "mm",    "mv"};

const Words refused_names = {"__builtins__", "__import__", "__loader__", "__spec__",
                             "breakpoint",   "compile",    "delattr",    "eval",
                             "exec",         "globals",    "importlib",  "input",
                             "locals",       "open",       "setattr",    "vars"};
const Words allowed_dunders = {
    "__all__",  "__annotations__", "__call__",    "__debug__", "__doc__",  "__enter__",  "__eq__",
    "__exit__", "__future__",      "__getitem__", "__hash__",  "__init__", "__iter__",   "__len__",
    "__name__", "__post_init__",   "__repr__",    "__slots__", "__str__",  "__version__"};

bool is_dunder(std::string_view name) {
  return name.size() > 4 && name.starts_with("__") && name.ends_with("__");
}

bool is_allowed_module(const std::string& module) {
  return std::any_of(allowed_modules.begin(), allowed_modules.end(), [&](const std::string& known) {
    if (!known.ends_with(".*")) return module == known;
    const std::string above = known.substr(0, known.size() - 2);
    return module == above || module.starts_with(above + ".");
  });
}

// The code between the braces of an f-string stands behind it.
void add_with_formatted(std::vector<Token>&& tokens, int64_t shift, std::vector<Token>& to) {
  for (Token& token : tokens) {
    token.line += shift;
    const bool formatted = token.is_formatted;
    const std::string text = formatted ? token.text : std::string();
    const int64_t line = token.line;
    to.push_back(std::move(token));
    for (size_t at = text.find('{'); at < text.size(); at = text.find('{', at + 1)) {
      const std::string_view rest = std::string_view(text).substr(at + 1);
      std::vector<Token> inside = tokens_of(rest.substr(0, rest.find('}')), TokenSyntax::python);
      std::erase_if(inside, [](const Token& t) { return t.kind == TokenKind::newline; });
      for (Token& t : inside) t.starts_line = false;
      add_with_formatted(std::move(inside), line - 1, to);
    }
  }
}

class PythonScan {
 public:
  PythonScan(const SourceFile& file, const Words& own) : path_(file.path.string()), own_(own) {
    add_with_formatted(tokens_of(file.content, TokenSyntax::python), 0, tokens_);
  }

  std::optional<std::string> run() {
    while (at_ < tokens_.size() && !broken_) {
      if (is_word("from") && is_import_from())
        import_from();
      else if (is_word("import"))
        import_modules();
      else
        look();
    }
    return broken_;
  }

 private:
  const Token& token(size_t i) const {
    static const Token none{TokenKind::newline, "", 0, false, false};
    return i < tokens_.size() ? tokens_[i] : none;
  }
  bool is_word(std::string_view word) const { return is_name(at_) && token(at_).text == word; }
  bool is_name(size_t i) const { return token(i).kind == TokenKind::name; }
  bool is_sign(size_t i, char sign) const {
    return token(i).kind == TokenKind::sign && token(i).text[0] == sign;
  }
  bool is_attribute(size_t i) const { return i > 0 && is_sign(i - 1, '.'); }

  void refuse(size_t at, const std::string& what, std::string_view why) {
    if (!broken_)
      broken_ = fmt::format("{}:{}: {}: {}", path_, token(at).line, what.substr(0, 100), why);
  }

  // ---- imports

  // a.b.c, at its first name; moves behind it.
  std::string dotted() {
    std::string name;
    while (is_name(at_) || is_sign(at_, '.')) {
      if (is_word("import") || is_word("as")) break;
      name += token(at_++).text;
    }
    return name;
  }

  std::string alias_or(const std::string& otherwise) {
    if (!is_word("as")) return otherwise;
    ++at_;
    return is_name(at_) ? token(at_++).text : otherwise;
  }

  bool is_own_module(const std::string& module) const {
    return module.starts_with('.') || own_.contains(module.substr(0, module.find('.')));
  }

  void check_module(size_t at, const std::string& module) {
    if (is_allowed_module(module) || is_own_module(module)) return;
    refuse(at, "import " + module,
           "allowed are torch (types and views), triton, triton.language, math, typing, functools, "
           "itertools, dataclasses, enum, collections and the candidate's own files");
  }

  void import_modules() {
    do {
      ++at_;
      const size_t at = at_;
      const std::string module = dotted();
      check_module(at, module);
      const std::string alias = alias_or("");
      // `import triton.language` binds triton.
      if (alias.empty())
        modules_[module.substr(0, module.find('.'))] = module.substr(0, module.find('.'));
      else
        modules_[alias] = module;
    } while (is_sign(at_, ',') && !broken_);
  }

  // `raise … from …` and `yield from` are none.
  bool is_import_from() const {
    size_t i = at_ + 1;
    while ((is_name(i) && token(i).text != "import") || is_sign(i, '.')) ++i;
    return i > at_ + 1 && is_name(i) && token(i).text == "import";
  }

  void import_from() {
    const size_t start = at_++;
    const std::string module = dotted();
    check_module(start, module);
    ++at_;  // import
    if (is_sign(at_, '(')) ++at_;
    while (is_name(at_) || is_sign(at_, '*')) {
      const size_t at = at_;
      const std::string name = token(at_++).text;
      if (name == "*" && (module == "torch" || module == "triton"))
        refuse(at, "from " + module + " import *", "name what you use of it");
      const std::string path = fmt::format("{}.{}", module, name);
      check_member(at, {module, name});
      const std::string alias = alias_or(name);
      if (is_allowed_module(path) || path == "torch.cuda") modules_[alias] = path;
      if (!is_sign(at_, ',')) break;
      ++at_;
    }
  }

  // ---- what is used of a module

  // `path`: module, then attributes: {"torch", "cuda", "graph"}, {"torch.cuda", "graph"}.
  void check_member(size_t at, const std::vector<std::string>& path) {
    std::vector<std::string> parts;
    for (const std::string& part : path) {
      size_t begin = 0;
      for (size_t dot = part.find('.'); dot != std::string::npos; dot = part.find('.', begin)) {
        parts.push_back(part.substr(begin, dot - begin));
        begin = dot + 1;
      }
      parts.push_back(part.substr(begin));
    }
    if (parts.size() < 2) return;
    const std::string shown = parts[0] + "." + parts[1];
    if (parts[0] == "triton" && !allowed_of_triton.contains(parts[1]) && parts[1] != "*")
      return refuse(at, shown,
                    "of triton a module has jit, autotune, heuristics, Config, cdiv, "
                    "next_power_of_2, reinterpret and language");
    if (parts[0] != "torch" || parts[1] == "*") return;
    if (makers_of_memory.contains(parts[1]))
      return refuse(at, shown,
                    "memory comes from the workspace, and torch's kernels are not replayed");
    if (!allowed_of_torch.contains(parts[1]))
      return refuse(at, shown,
                    "of torch a module has types and views; what computes is written in "
                    "Triton");
    if (parts[1] == "cuda" && parts.size() > 2 && !allowed_of_torch_cuda.contains(parts[2]))
      return refuse(at, shown + "." + parts[2],
                    "of torch.cuda a module has streams, events and the properties of the device");
  }

  void check_module_use() {
    const std::string& module = modules_.at(token(at_).text);
    std::vector<std::string> path = {module};
    size_t i = at_ + 1;
    for (; is_sign(i, '.') && is_name(i + 1); i += 2) path.push_back(token(i + 1).text);
    const bool is_large = module == "torch" || module == "triton" || module == "torch.cuda";
    const bool is_keyword_argument = is_sign(i, '=') && !is_sign(i + 1, '=');
    if (path.size() == 1 && is_large && !is_keyword_argument)
      return refuse(at_, module, "a module is not passed on; name what you use of it");
    check_member(at_, path);
    check_attributes(at_ + 1, i);
    at_ = std::max(at_ + 1, i);
  }

  void check_attributes(size_t from, size_t to) {
    for (size_t i = from; i < to; ++i) {
      if (is_name(i)) check_dunder(i);
    }
  }

  void check_dunder(size_t i) {
    const std::string& name = token(i).text;
    if (is_dunder(name) && !allowed_dunders.contains(name))
      refuse(i, name, "what is behind a name is none of a kernel's business");
  }

  // getattr(x, "name") is as good as x.name; anything else could be any name.
  void check_getattr() {
    size_t i = at_ + 1;
    int64_t depth = 0;
    if (is_sign(i, '(')) {
      for (; i < tokens_.size(); ++i) {
        if (is_sign(i, '(') || is_sign(i, '[') || is_sign(i, '{')) ++depth;
        if (is_sign(i, ')') || is_sign(i, ']') || is_sign(i, '}')) --depth;
        if (depth == 0 || (depth == 1 && is_sign(i, ','))) break;
      }
    }
    const Token& name = token(i + 1);
    const bool is_plain = depth == 1 && name.kind == TokenKind::text && !name.is_formatted &&
                          (is_sign(i + 2, ',') || is_sign(i + 2, ')')) && !is_dunder(name.text) &&
                          name.text.find('\\') == std::string::npos;
    if (!is_plain) refuse(at_, "getattr", "with a name that is computed it could reach anything");
  }

  void look() {
    const Token& now = token(at_);
    // At the start of a line it is a decorator.
    if (is_sign(at_, '@') && !now.starts_line)
      refuse(at_, "@", "the matrix product of torch is none of the module's kernels; use tl.dot");
    if (now.kind != TokenKind::name) return void(++at_);
    if (is_attribute(at_)) {
      check_dunder(at_);
      if (products.contains(now.text) && is_sign(at_ + 1, '('))
        refuse(at_, "." + now.text,
               "torch's products are none of the module's kernels; use tl.dot");
      return void(++at_);
    }
    if (modules_.contains(now.text)) return check_module_use();
    if (now.text == "getattr") check_getattr();
    if (refused_names.contains(now.text))
      refuse(at_, now.text, "a kernel computes and does nothing else");
    check_dunder(at_);
    ++at_;
  }

  std::string path_;
  const Words& own_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  std::map<std::string, std::string> modules_;  // by the name that stands for them here
  std::optional<std::string> broken_;
};

}  // namespace

std::optional<std::string> broken_python_rule(const std::vector<SourceFile>& editable,
                                              const std::vector<SourceFile>& all) {
  Words own;
  for (const SourceFile& file : all) {
    if (file.path.extension() != ".py") continue;
    const std::filesystem::path first = *file.path.begin();
    own.insert(first.stem().string());
  }
  for (const SourceFile& file : editable) {
    if (file.path.extension() != ".py") continue;
    if (std::optional<std::string> broken = PythonScan(file, own).run()) return broken;
  }
  return std::nullopt;
}

std::optional<std::string> broken_import_rule(Language language,
                                              const std::vector<SourceFile>& editable,
                                              const std::vector<SourceFile>& all) {
  switch (language) {
    case Language::cpp:
      return std::nullopt;
    case Language::cuda:
      return broken_include_rule(editable, all);
    case Language::triton:
      return broken_python_rule(editable, all);
  }
  return std::nullopt;
}

}  // namespace marathon
