#include "loading/plugin_checksums.hpp"

#include <sodium.h>

#include <array>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "loading/elf_section.hpp"

namespace strata::host {
namespace {

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

void check_plugin_checksums(const LibraryFile& file) {
  const ElfSections sections(file);
  const auto checksums = sections.read(kChecksums, kMostBytes);
  if (!checksums) return;
  std::istringstream lines(std::string(checksums->begin(), checksums->end()));
  std::string checksum;
  for (std::string name; lines >> checksum >> name;) {
    const auto bytes = sections.read(name, file.size());
    if (bytes && sha256(*bytes) == checksum) continue;
    const std::string what = bytes ? "its section " + name + " is" : "its checksums are";
    throw PluginFileError("it is damaged: " + what + " not as it was built; install or build it again");
  }
}

}  // namespace strata::host
