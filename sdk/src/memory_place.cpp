#include "strata/memory_place.hpp"

#include "strata/error.hpp"

namespace strata {

std::string_view to_string(MemoryPlace place) {
  switch (place) {
    case MemoryPlace::device:
      return "device";
    case MemoryPlace::host:
      return "host";
    case MemoryPlace::file:
      return "file";
  }
  throw VerificationError("unknown place of memory");
}

}  // namespace strata
