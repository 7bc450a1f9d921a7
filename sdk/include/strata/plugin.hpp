#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "strata/export.hpp"
#include "strata/options.hpp"

namespace strata {

/// The interface version. Major: incompatible; minor: virtual functions or fields were appended.
inline constexpr std::uint16_t kAbiMajor = 1;
inline constexpr std::uint16_t kAbiMinor = 2;

enum class PluginKind : std::uint32_t { strategy = 1, model = 2, communicator = 3, device = 4 };

STRATA_API std::string_view to_string(PluginKind kind);

/// What a plugin file says of itself, read from the ELF section `.strata_plugin` before any of its code runs. Fixed
/// layout; strings are zero-padded and zero-terminated.
struct PluginRecord {
  char magic[16];
  std::uint32_t record_size;
  PluginKind kind;
  std::uint16_t abi_major;
  std::uint16_t abi_minor;
  char name[32];
  char version[16];
  char licence[32];
  /// What must agree between host and plugin for C++ objects to cross: compiler family and its ABI, standard library,
  /// sanitizer.
  char flavour[64];
  char description[160];
};
static_assert(sizeof(PluginRecord) == 332, "The record's layout is part of the ABI.");

inline constexpr std::string_view kPluginMagic = "STRATA-PLUGIN\n\x1a";
inline constexpr const char* kPluginSection = ".strata_plugin";
inline constexpr const char* kPluginEntry = "strata_plugin_entry";

/// What every plugin hands to the host, by kind a StrategyFactory, ModelFactory, CommunicatorFactory or DeviceFactory.
class STRATA_API PluginFactory {
 public:
  virtual ~PluginFactory();
  /// The plugin's options: type, default, range and one sentence each.
  [[nodiscard]] virtual const OptionSchema& options() const = 0;
};

/// The flavour of this build of the SDK.
STRATA_API std::string_view build_flavour();

namespace detail {

/// Copies a literal into a zero-padded field at compile time; too long a text does not compile.
template <std::size_t N, std::size_t M>
constexpr void assign_field(char (&field)[N], const char (&text)[M]) {
  static_assert(M <= N, "The text is too long for its field of the plugin record.");
  for (std::size_t i = 0; i < M; ++i) field[i] = text[i];
}

}  // namespace detail
}  // namespace strata

// The flavour is spelt out of macros so that it is known when a plugin is compiled.
#if defined(__SANITIZE_THREAD__)
#define STRATA_FLAVOUR_SANITIZER "+tsan"
#elif defined(__SANITIZE_ADDRESS__)
#define STRATA_FLAVOUR_SANITIZER "+asan"
#else
#define STRATA_FLAVOUR_SANITIZER ""
#endif
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#undef STRATA_FLAVOUR_SANITIZER
#define STRATA_FLAVOUR_SANITIZER "+tsan"
#elif __has_feature(address_sanitizer)
#undef STRATA_FLAVOUR_SANITIZER
#define STRATA_FLAVOUR_SANITIZER "+asan"
#endif
#endif
#if defined(_LIBCPP_VERSION)
#define STRATA_FLAVOUR_LIBRARY "libc++"
#elif defined(_GLIBCXX_USE_CXX11_ABI) && _GLIBCXX_USE_CXX11_ABI
#define STRATA_FLAVOUR_LIBRARY "libstdc++-cxx11"
#else
#define STRATA_FLAVOUR_LIBRARY "libstdc++-old"
#endif
#define STRATA_FLAVOUR "itanium-abi " STRATA_FLAVOUR_LIBRARY STRATA_FLAVOUR_SANITIZER

/// Put once, at namespace scope outside of any namespace, into a plugin: writes the record and the entry point.
/// `KIND` is an enumerator of PluginKind; `FACTORY` a default-constructible class derived from that kind's factory.
#define STRATA_PLUGIN(KIND, NAME, VERSION, LICENCE, DESCRIPTION, FACTORY)                                             \
  namespace {                                                                                                         \
  constexpr ::strata::PluginRecord make_strata_plugin_record() {                                                      \
    ::strata::PluginRecord record{};                                                                                  \
    ::strata::detail::assign_field(record.magic, "STRATA-PLUGIN\n\x1a");                                              \
    record.record_size = sizeof(::strata::PluginRecord);                                                              \
    record.kind = ::strata::PluginKind::KIND;                                                                         \
    record.abi_major = ::strata::kAbiMajor;                                                                           \
    record.abi_minor = ::strata::kAbiMinor;                                                                           \
    ::strata::detail::assign_field(record.name, NAME);                                                                \
    ::strata::detail::assign_field(record.version, VERSION);                                                          \
    ::strata::detail::assign_field(record.licence, LICENCE);                                                          \
    ::strata::detail::assign_field(record.flavour, STRATA_FLAVOUR);                                                   \
    ::strata::detail::assign_field(record.description, DESCRIPTION);                                                  \
    return record;                                                                                                    \
  }                                                                                                                   \
  }                                                                                                                   \
  extern "C" {                                                                                                        \
  [[gnu::section(".strata_plugin"), gnu::used]] STRATA_API extern const ::strata::PluginRecord strata_plugin_record = \
      make_strata_plugin_record();                                                                                    \
  STRATA_API ::strata::PluginFactory* strata_plugin_entry();                                                          \
  STRATA_API ::strata::PluginFactory* strata_plugin_entry() {                                                         \
    static FACTORY factory;                                                                                           \
    return &factory;                                                                                                  \
  }                                                                                                                   \
  }                                                                                                                   \
  static_assert(true)
