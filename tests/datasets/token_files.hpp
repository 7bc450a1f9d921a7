#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "open_dataset.hpp"

namespace strata::testing {

/// A file in llm.c's format.
template <class Token>
std::string llmc_file(std::int32_t magic, std::int32_t version, std::int32_t count, const std::vector<Token>& tokens) {
  std::vector<std::int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return bytes_of(header) + bytes_of(tokens);
}

/// Writes the two files of Megatron-LM's indexed dataset, as it publishes the format. Members may be damaged before
/// index() is called.
template <class Token>
struct IndexedFiles {
  std::string magic = std::string("MMIDIDX\0\0", 9);
  std::uint64_t version = 1;
  std::uint8_t type = 8;
  std::vector<std::int32_t> lengths = {};
  std::vector<std::int64_t> pointers = {};
  std::vector<std::int64_t> documents = {0};
  std::vector<Token> tokens = {};

  /// Adds a document that consists of sequences.
  void add(const std::vector<std::vector<Token>>& sequences) {
    for (const std::vector<Token>& sequence : sequences) {
      lengths.push_back(static_cast<std::int32_t>(sequence.size()));
      pointers.push_back(static_cast<std::int64_t>(tokens.size() * sizeof(Token)));
      tokens.insert(tokens.end(), sequence.begin(), sequence.end());
    }
    documents.push_back(static_cast<std::int64_t>(lengths.size()));
  }

  [[nodiscard]] std::string index() const {
    const std::vector<std::uint64_t> counts{lengths.size(), documents.size()};
    return magic + bytes_of(std::vector<std::uint64_t>{version}) + static_cast<char>(type) + bytes_of(counts) +
           bytes_of(lengths) + bytes_of(pointers) + bytes_of(documents);
  }

  /// Writes NAME.idx and NAME.bin. \return the path of the former.
  [[nodiscard]] std::string write(const host::test::TemporaryFolder& folder, const std::string& name) const {
    static_cast<void>(folder.file(name + ".bin", bytes_of(tokens)));
    return folder.file(name + ".idx", index()).string();
  }
};

}  // namespace strata::testing
