#include "bytes.hpp"

#include <sodium.h>

#include "strata/error.hpp"

namespace strata::rendezvous {
namespace {

constexpr std::size_t kLongestText = 160;

static_assert(kDigestBytes == crypto_generichash_BYTES && kTagBytes >= crypto_generichash_BYTES_MIN);

/// libsodium chooses the processor's fastest functions once, before its first use.
void require_sodium() {
  static const bool ready = ::sodium_init() >= 0;
  if (!ready) throw RuntimeError("rendezvous: libsodium cannot be used: it finds no source of random numbers");
}

const unsigned char* data(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

}  // namespace

void ByteWriter::number(std::uint32_t value) {
  for (unsigned shift = 32; shift > 0; shift -= 8) bytes_ += static_cast<char>(value >> (shift - 8));
}

void ByteWriter::text(std::string_view value) {
  number(static_cast<std::uint32_t>(value.size()));
  bytes_ += value;
}

std::uint32_t ByteReader::number() {
  std::uint32_t value = 0;
  for (const char byte : cut(4)) value = value << 8U | static_cast<std::uint8_t>(byte);
  return value;
}

std::string ByteReader::text() {
  const std::uint32_t bytes = number();
  return std::string(cut(bytes));
}

void ByteReader::end() const {
  if (rest_.empty()) return;
  throw RuntimeError("rendezvous: a message has " + std::to_string(rest_.size()) + " bytes too many");
}

std::string_view ByteReader::cut(std::size_t bytes) {
  if (bytes > rest_.size()) {
    throw RuntimeError("rendezvous: a message ends after " + std::to_string(rest_.size()) + " of " +
                       std::to_string(bytes) + " bytes");
  }
  const std::string_view head = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return head;
}

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

std::string digest(std::string_view message) { return keyed_digest("", {message}); }

std::string keyed_digest(std::string_view key, std::initializer_list<std::string_view> parts, std::size_t bytes) {
  require_sodium();
  crypto_generichash_state state;
  ::crypto_generichash_init(&state, key.empty() ? nullptr : data(key), key.size(), bytes);
  for (const std::string_view part : parts) ::crypto_generichash_update(&state, data(part), part.size());
  std::string result(bytes, '\0');
  ::crypto_generichash_final(&state, reinterpret_cast<unsigned char*>(result.data()), result.size());
  return result;
}

bool equal_in_constant_time(std::string_view left, std::string_view right) {
  return left.size() == right.size() && ::sodium_memcmp(left.data(), right.data(), left.size()) == 0;
}

std::string random_text(std::size_t bytes) {
  require_sodium();
  std::string text(bytes, '\0');
  ::randombytes_buf(text.data(), text.size());
  return text;
}

std::string to_hex(std::string_view bytes) {
  std::string text(2 * bytes.size() + 1, '\0');
  ::sodium_bin2hex(text.data(), text.size(), data(bytes), bytes.size());
  text.pop_back();
  return text;
}

}  // namespace strata::rendezvous
