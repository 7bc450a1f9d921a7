#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/executor.hpp"

namespace strata::host {

/// Random tokens, keyed by global index, so that every layout sees the same ones. One target in five is left out, so
/// that ranks have different token counts.
class RandomInputs final : public InputSource {
 public:
  RandomInputs(std::uint64_t seed, std::int64_t vocab) : seed_(seed), vocab_(vocab) {}

  void load(const std::string& name, std::uint64_t step, const std::vector<IndexMap>& dims,
            std::int32_t* destination) override;

 private:
  void fill(const std::string& name, std::uint64_t key, const std::vector<IndexMap>& dims, std::size_t dim,
            std::int64_t index, std::int32_t*& destination) const;
  [[nodiscard]] std::int32_t value(const std::string& name, std::uint64_t key, std::int64_t index) const;

  std::uint64_t seed_;
  std::int64_t vocab_;
};

}  // namespace strata::host
