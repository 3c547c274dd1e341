#include "babyai_instruction.h"

namespace torchrl_pool::minigrid {
namespace {

std::string SayAll(const Orders& orders) {
  std::string said;
  for (const Order& order : orders) said += (said.empty() ? "" : " and ") + order.Say();
  return said;
}

}  // namespace

std::string Description::Say() const {
  constexpr const char* kPlaces[] = {"", " on your left", " on your right", " in front of you",
                                     " behind you"};
  std::string said = things.count() > 1 ? "a " : "the ";
  if (color) said += std::string(kColorNames[*color]) + " ";
  return said + (type ? kTypeNames[*type] : "object") + kPlaces[location];
}

std::string Order::Say() const {
  constexpr const char* kVerbs[] = {"go to ", "open ", "pick up ", "put "};
  const std::string said = kVerbs[verb] + what.Say();
  return verb == kPutNext ? said + " next to " + next_to.Say() : said;
}

std::string Instruction::Say() const {
  if (second.empty()) return SayAll(first);
  return said_backwards ? SayAll(second) + " after you " + SayAll(first)
                        : SayAll(first) + ", then " + SayAll(second);
}

int Instruction::Navigations() const {
  int count = 0;
  for (const Orders* orders : {&first, &second}) {
    for (const Order& order : *orders) count += order.verb == Order::kPutNext ? 2 : 1;
  }
  return count;
}

}  // namespace torchrl_pool::minigrid
