#include <algorithm>
#include <stdexcept>

#include "config/sections.hpp"

namespace strata::host {

const SectionDeclaration* find_section(const std::string& path) {
  const auto& all = section_declarations();
  const auto found = std::ranges::find_if(all, [&](const auto& each) { return each.path == path; });
  return found == all.end() ? nullptr : &*found;
}

const SectionDeclaration& section_declaration(const std::string& path) {
  if (const SectionDeclaration* found = find_section(path)) return *found;
  throw std::out_of_range("no section '" + path + "' is declared");
}

std::string declared_path(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  const bool is_number = dot != std::string::npos && path.find_first_not_of("0123456789", dot + 1) == std::string::npos;
  return is_number ? path.substr(0, dot) : path;
}

std::vector<std::string> known_keys(const std::string& path) {
  std::vector<std::string> keys;
  const std::string prefix = path.empty() ? "" : path + ".";
  for (const SectionDeclaration& declaration : section_declarations()) {
    if (declaration.path == path) {
      for (const Key& key : declaration.keys) keys.push_back(key.option.name);
    }
    if (declaration.path.starts_with(prefix) && declaration.path.find('.', prefix.size()) == std::string::npos &&
        declaration.path.size() > prefix.size()) {
      keys.push_back(declaration.path.substr(prefix.size()));
    }
  }
  return keys;
}

OptionValue value_of(RunConfiguration configuration, const std::string& path) {
  const std::size_t dot = path.rfind('.');
  for (const Key& key : section_declaration(path.substr(0, dot)).keys) {
    if (key.option.name == path.substr(dot + 1)) return key.get(configuration, 0);
  }
  throw std::out_of_range("no key '" + path + "' is declared");
}

}  // namespace strata::host
