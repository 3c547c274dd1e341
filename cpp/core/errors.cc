#include "errors.h"

#include <cstring>
#include <string_view>

namespace torchrl_pool::core {
namespace {

// Bytes of the UTF-8 sequence that `text` begins with; 0 where it begins with none. Text is not empty.
std::size_t SequenceLength(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Longer than needed, a surrogate, or beyond the last character.
  const unsigned second = byte(1);
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f)) return 0;
  if ((first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f)) return 0;
  return length;
}

}  // namespace

std::string ToUtf8(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const std::size_t length = SequenceLength(bytes);
    text += length > 0 ? bytes.substr(0, length) : "?";
    bytes.remove_prefix(length > 0 ? length : 1);
  }
  return text;
}

std::string MessageOf(const trp_error& error) {
  std::string_view bytes(error.message, strnlen(error.message, sizeof error.message));
  if (bytes.size() + 1 >= sizeof error.message) {  // full: the last character may be a part of one
    std::size_t tail = 1;
    while (tail < 4 && (bytes[bytes.size() - tail] & 0xc0) == 0x80) ++tail;
    if (SequenceLength(bytes.substr(bytes.size() - tail)) == 0) bytes.remove_suffix(tail);
  }
  return ToUtf8(bytes);
}

}  // namespace torchrl_pool::core
