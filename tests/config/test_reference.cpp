#include <gtest/gtest.h>

#include "build_paths.hpp"
#include "config/sections.hpp"
#include "files/file_io.hpp"

namespace strata::host {
namespace {

TEST(Reference, CommittedPageIsTheGeneratedOne) {
  EXPECT_EQ(read_text(source_path("docs/configuration.md")), reference_markdown())
      << "write it anew: strata help configuration --markdown > docs/configuration.md";
}

TEST(Reference, EveryKeyIsDocumentedInOneSentence) {
  for (const SectionDeclaration& section : section_declarations()) {
    EXPECT_TRUE(section.documentation.ends_with('.')) << section.path;
    for (const OptionSpecification& option : section.schema.options()) {
      EXPECT_TRUE(option.documentation.ends_with('.')) << section.path << '.' << option.name;
      EXPECT_NE(reference_text().find("  " + option.name + ": "), std::string::npos) << option.name;
      if (option.default_value) {
        EXPECT_NO_THROW((void)section.schema.checked(option, *option.default_value)) << option.name;
      }
    }
  }
}

}  // namespace
}  // namespace strata::host
