#include "strata/error.hpp"

#include <cxxabi.h>
#include <sys/resource.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <utility>

namespace strata {

// Key functions: libstrata holds the only type information, which `catch` compares.
Error::~Error() = default;
ConfigurationError::~ConfigurationError() = default;
OptionError::~OptionError() = default;
VerificationError::~VerificationError() = default;
RuntimeError::~RuntimeError() = default;

OptionError::OptionError(std::string option, const std::string& message)
    : ConfigurationError(message), option_(std::move(option)) {}

namespace {

/// The C++ name of the type of the exception being handled.
std::string current_exception_type() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  if (type == nullptr) return "an unknown type";
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(type->name(), nullptr, nullptr, &status),
                                                    std::free);
  return name ? name.get() : type->name();
}

/// what() of an exception of any plugin, which may return null.
std::string text_of(const std::exception& error) {
  const char* text = error.what();
  return text == nullptr ? "(its what() returns a null pointer)" : text;
}

/// The process's limit of address space in words. Empty without one.
std::string address_space_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  return "; this process may address no more than " + std::to_string(limit.rlim_cur >> 20) + " MiB (ulimit -v)";
}

}  // namespace

std::string current_exception_text() {
  try {
    throw;
  } catch (const Error& error) {
    return text_of(error);
  } catch (const std::bad_alloc&) {
    return "std::bad_alloc: out of memory" + address_space_limit();
  } catch (const std::system_error& error) {
    // A thread that cannot be started throws it.
    const bool is_short = error.code() == std::errc::resource_unavailable_try_again;
    return current_exception_type() + ": " + text_of(error) + (is_short ? address_space_limit() : "");
  } catch (const std::exception& error) {
    return current_exception_type() + ": " + text_of(error);
  } catch (...) {
    return "an exception of type " + current_exception_type();
  }
}

}  // namespace strata
