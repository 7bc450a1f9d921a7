#include <dlfcn.h>

#include <algorithm>

#include "conformance/check.hpp"
#include "conformance/subject.hpp"

namespace strata::host {
namespace {

/// True if the text begins with two numbers joined by a dot, such as "1.0" or "2.13.1-rc".
bool is_version(const std::string& text) {
  const auto is_digit = [](char letter) { return letter >= '0' && letter <= '9'; };
  const std::size_t dot = text.find('.');
  if (dot == std::string::npos || dot == 0 || dot + 1 >= text.size()) return false;
  return std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(dot), is_digit) &&
         is_digit(text[dot + 1]);
}

void require_text(const std::string& text, const std::string& field) {
  const bool is_blank = std::ranges::all_of(text, [](char letter) { return letter == ' '; });
  if (is_blank) throw CheckFailed("the record's field '" + field + "' is empty");
}

std::string check_record(Subject& subject) {
  const PluginFile& file = subject.file();
  if (!file.refusal.empty()) throw CheckFailed(file.refusal);
  const PluginDescription& record = *file.description;
  require_text(record.licence, "licence");
  require_text(record.description, "description");
  if (!is_version(record.version)) {
    throw CheckFailed("the record's version is '" + record.version + "'; accepted: numbers such as 1.0.0");
  }
  return "licence " + record.licence + ", ABI " + std::to_string(record.abi) + ", " + record.flavour;
}

std::string check_loading(Subject& subject) {
  // The library stays loaded, as in a run.
  if (::dlopen(subject.file().path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) != nullptr) return "";
  const char* reason = ::dlerror();
  throw CheckFailed(reason == nullptr ? "the library cannot be loaded" : reason);
}

std::string check_entry(Subject& subject) {
  static_cast<void>(subject.factory());
  return "";
}

/// Loads the factory as the one of these that the record's kind has.
template <class... Factories>
void require_factory(Subject& subject) {
  ((kKindOf<Factories> == subject.kind() ? static_cast<void>(subject.factory<Factories>()) : void()), ...);
}

std::string check_factory_kind(Subject& subject) {
  require_factory<StrategyFactory, ModelFactory, CommunicatorFactory, DeviceFactory, LibraryFactory, OptimizerFactory,
                  DatasetFactory>(subject);
  return "";
}

}  // namespace

std::vector<Check> plugin_checks() {
  return {
      {"P01", "The record is complete and fits this host: name, version, licence, ABI, build flavour.",
       "The host refuses the file, or shows a user nothing to judge it by.", check_record, true},
      {"P02", "The library loads with every symbol and library that it needs.",
       "A run ends with an error of the loader.", check_loading, true},
      {"P03", "The entry point exists and returns a factory.", "No command can use the plugin.", check_entry, true},
      {"P04", "The factory is that of the kind that the record names.", "No command can use the plugin.",
       check_factory_kind, true},
  };
}

}  // namespace strata::host
