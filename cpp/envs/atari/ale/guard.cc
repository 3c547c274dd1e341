#include "guard.h"

#include <stdexcept>
#include <string>

namespace std {
namespace {

// A buffer of fixed size that starts over when it is full: some games write on every frame.
class Log : public streambuf {
 public:
  Log() { setp(text_, text_ + sizeof text_); }
  string Take() {
    string text(pbase(), pptr());
    setp(text_, text_ + sizeof text_);
    return text;
  }

 private:
  int_type overflow(int_type next) override {
    setp(text_, text_ + sizeof text_);
    return next == traits_type::eof() ? traits_type::not_eof(next) : sputc(traits_type::to_char_type(next));
  }
  char text_[512];
};

thread_local Log log_buffer;
thread_local ostream log_stream(&log_buffer);

}  // namespace

ostream& torchrl_pool_log() { return log_stream; }

void torchrl_pool_exit(int) {
  string message = log_buffer.Take();
  while (!message.empty() && isspace(static_cast<unsigned char>(message.back()))) message.pop_back();
  throw runtime_error("the emulator failed: " + message);
}

}  // namespace std
