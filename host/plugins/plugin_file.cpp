#include "plugins/plugin_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "plugins/elf_section.hpp"

namespace strata::host {
namespace {

/// The text of a field. \throws PluginFileError unless it is printable and zero-terminated within the field.
template <std::size_t N>
std::string field_text(const char (&field)[N], const char* what) {
  const char* end = std::find(field, field + N, '\0');
  // Control characters could manipulate the terminal. Bytes above 0x7F may be UTF-8.
  const bool printable = std::none_of(static_cast<const char*>(field), end, [](char letter) {
    const auto code = static_cast<unsigned char>(letter);
    return code < 0x20 || code == 0x7F;
  });
  if (end == field + N || !printable)
    throw PluginFileError(std::string("its plugin record is damaged: field '") + what + "'");
  return {field, end};
}

bool is_name(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '_' || letter == '-';
  });
}

PluginRecord read_record(const std::filesystem::path& path) {
  const ReadOnlyFile file(path);
  const std::vector<std::uint8_t> bytes = read_elf_section(file, kPluginSection, sizeof(PluginRecord));
  PluginRecord record{};
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::uint8_t*>(&record));
  const std::string_view magic(record.magic, sizeof(record.magic));
  if (!magic.starts_with(kPluginMagic) || magic.find_first_not_of('\0', kPluginMagic.size()) != magic.npos) {
    throw PluginFileError(std::string("it is no plugin: its section ") + kPluginSection +
                          " does not begin with the magic text");
  }
  if (bytes.size() < sizeof(PluginRecord) || record.record_size != sizeof(PluginRecord)) {
    throw PluginFileError("its plugin record has " +
                          std::to_string(std::min<std::size_t>(record.record_size, 1U << 20U)) +
                          " bytes in a section of " + std::to_string(bytes.size()) +
                          "; accepted: " + std::to_string(sizeof(PluginRecord)));
  }
  return record;
}

PluginDescription describe(const PluginRecord& record) {
  PluginDescription description{.kind = record.kind,
                                .name = field_text(record.name, "name"),
                                .version = field_text(record.version, "version"),
                                .licence = field_text(record.licence, "licence"),
                                .flavour = field_text(record.flavour, "flavour"),
                                .description = field_text(record.description, "description"),
                                .abi = record.abi};
  if (!is_name(description.name)) {
    throw PluginFileError("its plugin record is damaged: found the name '" + description.name +
                          "'; accepted: lower-case letters, digits, '_' and '-'");
  }
  const auto kind = static_cast<std::uint32_t>(record.kind);
  if (kind < static_cast<std::uint32_t>(PluginKind::strategy) ||
      kind > static_cast<std::uint32_t>(PluginKind::dataset)) {
    throw PluginFileError("its plugin record is damaged: found the kind " + std::to_string(kind) +
                          "; accepted: 1 to 6");
  }
  return description;
}

/// Why the host cannot load a plugin with a valid record. Empty if it can.
std::string incompatibility(const PluginDescription& description) {
  if (description.abi != kAbiNumber) {
    return "it is built for ABI " + std::to_string(description.abi) + "; accepted: " + std::to_string(kAbiNumber) +
           ", the ABI of this host. Build it again with this host's SDK";
  }
  if (description.flavour != build_flavour()) {
    return "it is of the build flavour '" + description.flavour + "'; accepted: '" + std::string(build_flavour()) + "'";
  }
  return "";
}

}  // namespace

std::string distrust(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::string("it cannot be read: ") + std::strerror(errno);
  const std::string what = S_ISDIR(status.st_mode) ? "the folder " + path.string() : "it";
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return what + " can be written by " + ((status.st_mode & S_IWOTH) != 0 ? "anyone" : "its group") +
           "; accepted: by its owner only (chmod go-w)";
  }
  if (status.st_uid != 0 && status.st_uid != ::geteuid()) {
    return what + " belongs to user " + std::to_string(status.st_uid) + "; accepted: root or user " +
           std::to_string(::geteuid());
  }
  return "";
}

PluginFile inspect_plugin_file(const std::filesystem::path& path) {
  PluginFile file;
  file.path = path;
  try {
    // Resolve links once, so that the inspected file is the file that is loaded.
    std::error_code error;
    file.path = std::filesystem::canonical(path, error);
    if (error) {
      file.path = path;
      throw PluginFileError("it cannot be read: " + error.message());
    }
    file.refusal = distrust(file.path.parent_path());
    if (file.refusal.empty()) file.refusal = distrust(file.path);
    file.description = describe(read_record(file.path));
    if (file.refusal.empty()) file.refusal = incompatibility(*file.description);
  } catch (const PluginFileError& error) {
    if (file.refusal.empty()) file.refusal = error.what();
  }
  return file;
}

}  // namespace strata::host
