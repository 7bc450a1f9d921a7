#include "operation.hpp"

#include <sstream>
#include <utility>

namespace strata::mpi {
namespace {

/// FNV-1a over the ranks.
std::uint64_t hash(const std::vector<int>& ranks) {
  std::uint64_t value = 14695981039346656037U;
  for (const int rank : ranks) {
    for (unsigned shift = 0; shift < 32; shift += 8) {
      value ^= (static_cast<std::uint32_t>(rank) >> shift) & 0xFFU;
      value *= 1099511628211U;
    }
  }
  return value;
}

}  // namespace

Group::Group(std::vector<int> members) : communicators::Group{0, std::move(members)}, key(hash(ranks)) {}

std::string seconds_text(std::chrono::duration<double> duration) {
  std::ostringstream text;
  text << duration.count() << " s";
  return text.str();
}

}  // namespace strata::mpi
