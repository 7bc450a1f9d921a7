#pragma once

#include <string>

#include "protocol.hpp"
#include "store.hpp"

namespace strata::rendezvous {

/// \file
/// What the frames of ranks say about the store. The functions that read throw a RuntimeError if the contents are not
/// what the functions that write make.

struct Put {
  std::string key;
  int readers = 0;
  std::string value;
};
struct Value {
  std::string key;
  std::string value;
};

/// \throws RuntimeError if key and value do not fit in a frame.
void require_storable(const std::string& key, const std::string& value);

[[nodiscard]] Frame put_frame(const Put& put);
[[nodiscard]] Put read_put(const Frame& frame);

[[nodiscard]] Frame take_frame(const std::string& key);
[[nodiscard]] std::string read_take(const Frame& frame);

[[nodiscard]] Frame value_frame(const Value& value);
[[nodiscard]] Value read_value(const Frame& frame);

/// A very long reason is cut.
[[nodiscard]] Frame failure_frame(const Failure& failure);
[[nodiscard]] Failure read_failure(const Frame& frame);

}  // namespace strata::rendezvous
