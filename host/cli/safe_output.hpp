#pragma once

#include <ostream>
#include <streambuf>
#include <string>

namespace strata::host {

/// A stream that writes text to another one in the form of message_text(). Names of files, options and runs, the help
/// of plugins and generated text may hold commands of a terminal, which must not reach it.
class SafeOutput : public std::ostream {
 public:
  explicit SafeOutput(std::ostream& target) : std::ostream(nullptr), buffer_(target) { rdbuf(&buffer_); }

  /// Writes all that follows as it is.
  void leave_as_it_is() { buffer_.leave_as_it_is(); }

 private:
  class Buffer : public std::streambuf {
   public:
    explicit Buffer(std::ostream& target) : target_(target) {}
    ~Buffer() override { Buffer::sync(); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    void leave_as_it_is();

   protected:
    int_type overflow(int_type character) override;
    std::streamsize xsputn(const char* text, std::streamsize count) override;
    int sync() override;

   private:
    /// Writes what is pending, except for the beginning of a character, and leaves it in the target's buffer.
    void pass_on(bool with_incomplete);

    std::ostream& target_;
    std::string pending_;
    bool is_raw_ = false;
  };

  Buffer buffer_;
};

}  // namespace strata::host
