#include "errors.h"

#include <cstring>
#include <string>

#include "check.h"

namespace torchrl_pool::core {
namespace {

std::string MessageOf(const std::string& bytes) {
  trp_error error{};
  std::memcpy(error.message, bytes.data(), std::min(bytes.size(), sizeof error.message));
  return core::MessageOf(error);
}

TEST(MessagesArePassedOn) {
  CHECK_EQ(MessageOf(""), "");
  CHECK_EQ(MessageOf("plain"), "plain");
  CHECK_EQ(MessageOf("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"), "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
}

TEST(ACharacterThatIsCutOffAtTheEndIsLeftOut) {
  for (const std::string character : {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"}) {
    for (std::size_t ascii = 0; ascii < character.size(); ++ascii) {
      std::string text(ascii, 'x');
      while (text.size() < 2000) text += character;
      for (const std::size_t room : {std::size_t{1023}, std::size_t{1024}}) {  // with a NUL, or to the brim
        const std::string message = MessageOf(text.substr(0, room));
        CHECK_EQ(message, text.substr(0, message.size()));
        CHECK(room - message.size() < character.size());
        CHECK_EQ((message.size() - ascii) % character.size(), 0u);
      }
    }
  }
}

TEST(WhatIsNotUtf8BecomesAQuestionMark) {
  CHECK_EQ(MessageOf("a\xff"), "a?");
  CHECK_EQ(MessageOf("\x80z"), "?z");
  CHECK_EQ(MessageOf("\xc3(\xe2\x82"), "?(??");     // cut, but not by the end of the memory
  CHECK_EQ(MessageOf("\xc0\xaf"), "??");            // longer than needed
  CHECK_EQ(MessageOf("\xed\xa0\x80"), "???");       // a surrogate
  CHECK_EQ(MessageOf("\xf4\x90\x80\x80"), "????");  // beyond the last character
}

}  // namespace
}  // namespace torchrl_pool::core
