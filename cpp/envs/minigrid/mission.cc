#include "mission.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>

#include "thing.h"
#include "torchrl_pool/error.h"

namespace torchrl_pool::minigrid {
namespace {

// minigrid's words, in the order of its wrapper; behind them what BabyAI's missions say beside these.
// Python's MISSION_WORDS is the same list.
constexpr std::string_view kWords[] = {
    "red",  "green",   "blue",  "yellow", "purple",   "grey",   "unseen",  "empty",  "wall",     "floor",
    "box",  "key",     "ball",  "door",   "goal",     "agent",  "lava",    "pick",   "avoid",    "get",
    "find", "put",     "use",   "open",   "go",       "fetch",  "reach",   "unlock", "traverse", "up",
    "the",  "a",       "at",    ",",      "square",   "and",    "then",    "to",     "of",       "rooms",
    "near", "opening", "must",  "you",    "matching", "end",    "hallway", "object", "from",     "room",
    "maze", "next",    "after", "in",     "front",    "behind", "on",      "your",   "left",     "right"};

int NumberOfWord(std::string_view word) {
  const auto found = std::find(std::begin(kWords), std::end(kWords), word);
  if (found == std::end(kWords)) throw InvalidArgument("the mission has an unknown word");
  return static_cast<int>(found - std::begin(kWords)) + 1;
}

}  // namespace

int Missions::NumberOf(const std::string& mission) const {
  const auto found = std::find(all.begin(), all.end(), mission);
  if (found == all.end()) throw InvalidArgument("the mission is not one of this task");
  return static_cast<int>(found - all.begin());
}

Missions EachOf(const std::string& sentence, const std::vector<std::vector<std::string>>& gaps) {
  Missions missions{.all = {sentence}};
  for (const auto& fillings : gaps) {
    std::vector<std::string> filled;
    for (const auto& begun : missions.all) {
      for (const auto& filling : fillings) {
        filled.push_back(begun);
        filled.back().replace(begun.find("{}"), 2, filling);
      }
    }
    missions.all = std::move(filled);
  }
  for (const auto& one : missions.all)
    missions.longest = std::max(missions.longest, static_cast<int>(one.size()));
  return missions;
}

const std::vector<std::string>& ColorsByName() {
  static const auto& names = *new std::vector<std::string>([] {
    std::vector<std::string> sorted;
    for (const Color color : kByName) sorted.push_back(kColorNames[color]);
    return sorted;
  }());
  return names;
}

void WriteChars(const std::string& mission, int count, std::uint8_t* chars) {
  const auto length = std::min(mission.size(), static_cast<std::size_t>(count));
  std::memcpy(chars, mission.data(), length);
  std::memset(chars + length, 0, static_cast<std::size_t>(count) - length);
}

int LastWord() { return static_cast<int>(std::size(kWords)); }

void WriteWords(const std::string& mission, std::int64_t* words) {
  std::int64_t* const end = words + kMaxWords;
  const std::string_view text = mission;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t size = text[begin] == ',' ? 1 : text.substr(begin).find_first_of(" ,");
    size = std::min(size, text.size() - begin);
    if (size > 0) {
      if (words == end) throw InvalidArgument("the mission has too many words");
      *words++ = NumberOfWord(text.substr(begin, size));
    }
    begin += std::max<std::size_t>(size, 1);
  }
  std::fill(words, end, 0);
}

void WriteFlatChars(const std::string& mission, std::uint8_t* codes) {
  if (mission.size() > kFlatChars) throw InvalidArgument("the mission is too long for a flat observation");
  std::memset(codes, 0, kFlatChars * kFlatCodes);
  for (const char c : mission) {
    codes[c == ' ' ? 26 : c == ',' ? 27 : c - 'a'] = 1;
    codes += kFlatCodes;
  }
}

}  // namespace torchrl_pool::minigrid
