#include "printable.hpp"

#include "hashing.hpp"

namespace strata::rendezvous {
namespace {

constexpr std::size_t kLongestText = 160;

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  for (const char byte : text.substr(0, kLongestText)) {
    if (byte == '\\') {
      result += "\\\\";
    } else if (byte >= ' ' && byte <= '~') {
      result += byte;
    } else {
      result += "\\x" + to_hex({&byte, 1});
    }
  }
  if (text.size() > kLongestText) result += "… (" + std::to_string(text.size()) + " bytes)";
  return result;
}

}  // namespace strata::rendezvous
