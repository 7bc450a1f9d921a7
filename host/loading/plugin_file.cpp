#include "loading/plugin_file.hpp"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <sstream>

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
  return !name.empty() && std::ranges::all_of(name, [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '_' || letter == '-';
  });
}

std::string other_abi(int abi) {
  const std::string own = std::to_string(kAbiNumber);
  return "it is built for ABI " + std::to_string(abi) + "; accepted: " + own +
         ", the ABI of this host. Build it again with this host's SDK, or install its package for ABI " + own;
}

PluginRecord read_record(const LibraryFile& file) {
  const auto found = ElfFile(file).read(kPluginSection, sizeof(PluginRecord));
  if (!found) throw PluginFileError(std::string("it is no plugin: it has no section ") + kPluginSection);
  const std::vector<std::uint8_t>& bytes = *found;
  PluginRecord record{};
  std::ranges::copy(bytes, reinterpret_cast<std::uint8_t*>(&record));
  const std::string_view magic(record.magic, sizeof(record.magic));
  if (!magic.starts_with(kPluginMagic) || magic.find_first_not_of('\0', kPluginMagic.size()) != magic.npos) {
    throw PluginFileError(std::string("it is no plugin: its section ") + kPluginSection +
                          " does not begin with the magic text");
  }
  if (bytes.size() >= sizeof(PluginRecord) && record.record_size == sizeof(PluginRecord)) return record;
  // Records of all numbers have the same layout up to the ABI number.
  if (bytes.size() >= offsetof(PluginRecord, reserved) && record.abi != kAbiNumber) {
    throw PluginFileError(other_abi(record.abi));
  }
  throw PluginFileError(
      "its plugin record has " + std::to_string(std::min<std::size_t>(record.record_size, 1U << 20U)) +
      " bytes in a section of " + std::to_string(bytes.size()) + "; accepted: " + std::to_string(sizeof(PluginRecord)));
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
  if (description.abi != kAbiNumber && kind > static_cast<std::uint32_t>(PluginKind::dataset)) {
    throw PluginFileError(other_abi(description.abi));
  }
  if (kind < static_cast<std::uint32_t>(PluginKind::strategy) ||
      kind > static_cast<std::uint32_t>(PluginKind::dataset)) {
    throw PluginFileError("its plugin record is damaged: found the kind " + std::to_string(kind) + "; accepted: 1 to " +
                          std::to_string(static_cast<std::uint32_t>(PluginKind::dataset)));
  }
  return description;
}

/// Why the host cannot load a plugin with a valid record. Empty if it can.
std::string incompatibility(const PluginDescription& description) {
  if (description.abi != kAbiNumber) {
    return other_abi(description.abi);
  }
  if (description.flavour != build_flavour()) {
    return "it is of the build flavour '" + description.flavour + "'; accepted: '" + std::string(build_flavour()) + "'";
  }
  return "";
}

constexpr const char* kChecksums = ".strata_checksums";
/// Bytes of the checksums of several hundred sections.
constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 10U;

/// The SHA-256 in hexadecimal digits, as the build writes it.
std::string sha256(const std::vector<std::uint8_t>& bytes) {
  std::array<unsigned char, crypto_hash_sha256_BYTES> hash;
  crypto_hash_sha256(hash.data(), bytes.data(), bytes.size());
  std::array<char, 2 * crypto_hash_sha256_BYTES + 1> digits;
  return sodium_bin2hex(digits.data(), digits.size(), hash.data(), hash.size());
}

}  // namespace

PluginFile inspect_plugin_file(const std::filesystem::path& path) {
  PluginFile file;
  file.path = path;
  try {
    file.library = std::make_shared<const LibraryFile>(path);
    file.path = file.library->path();
    file.refusal = file.library->distrust();
    file.warnings = file.library->warnings();
    file.description = describe(read_record(*file.library));
    if (file.refusal.empty()) file.refusal = incompatibility(*file.description);
  } catch (const Error& error) {
    if (file.refusal.empty()) file.refusal = error.what();
  }
  return file;
}

void check_plugin_checksums(const LibraryFile& file) {
  const ElfFile elf(file);
  const auto checksums = elf.read(kChecksums, kMostBytes);
  if (!checksums) return;
  std::istringstream lines(std::string(checksums->begin(), checksums->end()));
  std::string checksum;
  for (std::string name; lines >> checksum >> name;) {
    const auto bytes = elf.read(name, file.size());
    if (bytes && sha256(*bytes) == checksum) continue;
    const std::string what = bytes ? "its section " + name + " is" : "its checksums are";
    throw PluginFileError("it is damaged: " + what + " not as it was built; install or build it again");
  }
}

}  // namespace strata::host
