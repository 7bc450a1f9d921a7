#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "strata/export.hpp"
#include "strata/options.hpp"

namespace strata {

/// Version of the binary interface. The host loads a plugin only if both have the same number. Within one number,
/// classes that plugins derive from and structs that they pass by value keep their layout. The number is also the
/// SONAME of libstrata.
inline constexpr std::uint16_t kAbiNumber = 7;

/// The kind of a plugin, which determines its factory.
enum class PluginKind : std::uint32_t {
  strategy = 1,
  model = 2,
  communicator = 3,
  device = 4,
  library = 5,  ///< registers ops and kernels only
  optimizer = 6,
  dataset = 7
};

STRATA_API std::string_view to_string(PluginKind kind);

/// Description of a plugin in its file. The host reads it from the ELF section `.strata_plugin` before it runs any code
/// of the plugin. The layout is fixed. Strings are zero-padded and zero-terminated.
struct PluginRecord {
  char magic[16];
  std::uint32_t record_size;
  PluginKind kind;
  std::uint16_t abi;
  std::uint16_t reserved;  ///< always 0
  char name[32];
  char version[16];
  char licence[32];
  /// Properties of the build that host and plugin must share to pass C++ objects: the compiler's ABI, the standard
  /// library, type information, sanitizers.
  char flavour[64];
  char description[160];
};
static_assert(sizeof(PluginRecord) == 332, "The record's layout is part of the ABI.");

/// PluginRecord::magic, the ELF section of the record, and the name of the entry point.
inline constexpr std::string_view kPluginMagic = "STRATA-PLUGIN\n\x1a";
inline constexpr const char* kPluginSection = ".strata_plugin";
inline constexpr const char* kPluginEntry = "strata_plugin_entry";

class Registration;

/// The object through which the host uses a plugin. Depending on the kind it is a StrategyFactory, ModelFactory,
/// CommunicatorFactory, DeviceFactory, LibraryFactory, OptimizerFactory or DatasetFactory.
class STRATA_API PluginFactory {
 public:
  virtual ~PluginFactory();
  /// The plugin's options, each with a unique name.
  [[nodiscard]] virtual const OptionSchema& options() const = 0;
  /// Registers the plugin's ops and kernels. The host calls it once per run, before it creates objects of any plugin.
  /// Default: none.
  virtual void provide(Registration& registration, const Options& options) const;
};

/// The factory of a class that is made from its options alone: `Product::schema()` lists them, and the constructor
/// takes them. `Factory`: that of the kind of plugin, such as StrategyFactory. Example:
///
///     using TensorFactory = FactoryOf<StrategyFactory, TensorParallel>;
template <class Factory, class Product>
class FactoryOf : public Factory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }
  [[nodiscard]] decltype(std::declval<const Factory&>().create({})) create(const Options& options) const override {
    return std::make_unique<Product>(options);
  }

 private:
  OptionSchema schema_ = Product::schema();
};

/// The factory of a library plugin, which only registers ops and kernels.
class STRATA_API LibraryFactory : public PluginFactory {
 public:
  ~LibraryFactory() override;
};

/// PluginRecord::flavour of this build of the SDK.
STRATA_API std::string_view build_flavour();

namespace detail {

/// Copies a literal into a zero-padded field at compile time. A text that is too long does not compile.
template <std::size_t N, std::size_t M>
constexpr void assign_field(char (&field)[N], const char (&text)[M]) {
  static_assert(M <= N, "The text is too long for its field of the plugin record.");
  for (std::size_t i = 0; i < M; ++i) field[i] = text[i];
}

}  // namespace detail
}  // namespace strata

// Macros make up the flavour, so that the plugin's own compiler determines the plugin's flavour.
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
#if defined(__GXX_RTTI)
#define STRATA_FLAVOUR_TYPES ""
#else
#define STRATA_FLAVOUR_TYPES " without-rtti"
#endif
#define STRATA_FLAVOUR "itanium-abi " STRATA_FLAVOUR_LIBRARY STRATA_FLAVOUR_TYPES STRATA_FLAVOUR_SANITIZER

/// Writes the record and the entry point of a plugin. Use it once per plugin, outside of any namespace. `KIND` is an
/// enumerator of PluginKind. `FACTORY` is a default-constructible class derived from the factory of that kind.
#define STRATA_PLUGIN(KIND, NAME, VERSION, LICENCE, DESCRIPTION, FACTORY)                                             \
  namespace {                                                                                                         \
  constexpr ::strata::PluginRecord make_strata_plugin_record() {                                                      \
    ::strata::PluginRecord record{};                                                                                  \
    ::strata::detail::assign_field(record.magic, "STRATA-PLUGIN\n\x1a");                                              \
    record.record_size = sizeof(::strata::PluginRecord);                                                              \
    record.kind = ::strata::PluginKind::KIND;                                                                         \
    record.abi = ::strata::kAbiNumber;                                                                                \
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
