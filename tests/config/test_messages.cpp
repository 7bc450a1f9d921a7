#include <gtest/gtest.h>

#include <sstream>

#include "config/document.hpp"
#include "files/console.hpp"
#include "files/text_format.hpp"

namespace strata::host {
namespace {

TEST(MessageText, IsPrintedAsItIs) {
  EXPECT_EQ(message_text("line 1\n\tStraße, 10 €", 100), "line 1\n\tStraße, 10 €");
  EXPECT_EQ(message_text("\x1b[2J \xff \xc2\x9b \x7f", 100), "\\x1b[2J \\xff \\xc2\\x9b \\x7f");
  EXPECT_EQ(message_text(std::string(1, '\0'), 100), "\\x00");
}

TEST(MessageText, IsBounded) {
  EXPECT_EQ(message_text("found ééééé; accepted: 1", 16), "found é … (13 bytes) … epted: 1");
  EXPECT_LT(message_text(std::string(1 << 20, '\x1b'), 1000).size(), 1100U);
}

/// Results reach a terminal without the commands that foreign text may hold.
TEST(SafeOutputs, ArePrintedAsTheyAre) {
  std::ostringstream target;
  SafeOutput out(target);
  const std::string letter = "é";
  out << "a "
      << "" << letter[0] << std::flush;
  EXPECT_EQ(target.str(), "a ") << "half of a character waits";
  out << letter[1] << " \x1b[2J\n" << std::flush;
  EXPECT_EQ(target.str(), "a é \\x1b[2J\n");
  out.leave_as_it_is();
  out << "\x1b[0m" << std::flush;
  EXPECT_EQ(target.str(), "a é \\x1b[2J\n\x1b[0m");
}

TEST(SafeOutputs, FailAsTheirTargetDoes) {
  std::ostringstream target;
  target.setstate(std::ios::badbit);
  SafeOutput out(target);
  out << "a" << std::flush;
  EXPECT_FALSE(out);
}

TEST(Nesting, IsLimited) {
  const auto place_of = [](const std::string& text) {
    try {
      static_cast<void>(parse_document(text, "t"));
      return std::string("none");
    } catch (const ConfigurationError& error) {
      const std::string message = error.what();
      return message.substr(2, message.find(": nested too deep") - 2);
    }
  };
  const auto chain = [](int parts) {
    std::string text = "a";
    for (int i = 1; i < parts; ++i) text += ".a";
    return text;
  };
  EXPECT_EQ(place_of("[" + chain(kMostKeyParts) + "]\n" + chain(kMostKeyParts) + " = 1.5\n"), "none");
  EXPECT_EQ(place_of("x = 1\n[" + chain(kMostKeyParts + 1) + "]"), "2:33");
  EXPECT_EQ(place_of("x = [" + std::string(200, '.') + "]"), "1:21");
  EXPECT_EQ(place_of("x = [" + std::string(kDeepestBrackets, '[')), "1:21");
  // Strings and comments have no structure.
  const std::string dots(100, '.');
  const std::string opened(100, '[');
  for (const char* const quote : {"\"", "'", "\"\"\"", "'''"}) {
    EXPECT_EQ(place_of("x = " + (quote + dots + opened + quote) + " # " + dots + opened + "\ny = 1"), "none");
    EXPECT_NE(place_of("x = " + (quote + dots + quote) + "\n" + opened), "none") << "the string has an end";
  }
  EXPECT_EQ(place_of("x = \"\\\"" + opened + "\""), "none");
  EXPECT_EQ(place_of("x = '\\'\ny = \"" + opened + "\""), "none");
  EXPECT_EQ(place_of("x = [1.5, 2.5, 1.5, 2.5, 1.5, 2.5, 1.5, 2.5, 1.5, 2.5, 1.5, 2.5, 1.5, 2.5, 1.5, 2.5, 1.5]"),
            "none");
}

}  // namespace
}  // namespace strata::host
