#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace datasets {

/// A stream of tokens, by position. Implementations are thread-safe.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  /// The file, for messages.
  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual std::int64_t size() const = 0;
  /// Reads the tokens [begin, begin + count). \throws strata::RuntimeError with file and offset.
  virtual void read(std::int64_t begin, std::int64_t count, std::int32_t* destination) const = 0;
  /// The positions in (begin, begin + count) at which a document starts, ascending. Default: documents are unknown.
  [[nodiscard]] virtual std::vector<std::int64_t> document_starts(std::int64_t /*begin*/,
                                                                  std::int64_t /*count*/) const {
    return {};
  }
};

}  // namespace datasets
