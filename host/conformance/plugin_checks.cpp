#include <dlfcn.h>

#include <algorithm>
#include <memory>

#include "conformance/checks.hpp"
#include "strata/error.hpp"

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
  const bool is_blank = std::all_of(text.begin(), text.end(), [](char letter) { return letter == ' '; });
  if (is_blank) throw CheckFailed("the record's field '" + field + "' is empty");
}

}  // namespace

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

std::string check_factory_kind(Subject& subject) {
  switch (subject.kind()) {
    case PluginKind::strategy:
      static_cast<void>(subject.factory<StrategyFactory>());
      break;
    case PluginKind::model:
      static_cast<void>(subject.factory<ModelFactory>());
      break;
    case PluginKind::communicator:
      static_cast<void>(subject.factory<CommunicatorFactory>());
      break;
    case PluginKind::device:
      static_cast<void>(subject.factory<DeviceFactory>());
      break;
    case PluginKind::library:
      static_cast<void>(subject.factory<LibraryFactory>());
      break;
    case PluginKind::optimizer:
      static_cast<void>(subject.factory<OptimizerFactory>());
      break;
    case PluginKind::dataset:
      static_cast<void>(subject.factory<DatasetFactory>());
      break;
  }
  return "";
}

}  // namespace strata::host
