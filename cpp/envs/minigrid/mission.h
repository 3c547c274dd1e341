// Missions, and the forms in which they are observed.
#ifndef TORCHRL_POOL_ENVS_MINIGRID_MISSION_H_
#define TORCHRL_POOL_ENVS_MINIGRID_MISSION_H_

#include <cstdint>
#include <string>
#include <vector>

namespace torchrl_pool::minigrid {

// The missions that a world may have.
struct Missions {
  std::vector<std::string> all =
      {};           // in minigrid's order of what fills their gaps; empty where it counts none
  int longest = 0;  // in characters

  int NumberOf(const std::string& mission) const;  // its place among all
};

// One for each way to fill the gaps {} of a sentence; the last gap changes first.
Missions EachOf(const std::string& sentence, const std::vector<std::vector<std::string>>& gaps = {});
// Of up to so many characters, and not counted.
inline Missions UpTo(int longest) { return {.longest = longest}; }

const std::vector<std::string>& ColorsByName();

// Each of these writes all it is given.
void WriteChars(const std::string& mission, int count, std::uint8_t* chars);  // zeros behind

// Words are numbered from 1 as minigrid's DictObservationSpaceWrapper does, and those that it does not know,
// of BabyAI's missions, behind; zeros follow the last word.
constexpr int kMaxWords = 50;
int LastWord();
void WriteWords(const std::string& mission, std::int64_t* words);

// As minigrid's FlatObsWrapper: a row for each character, one-hot.
constexpr int kFlatChars = 96, kFlatCodes = 28;
void WriteFlatChars(const std::string& mission, std::uint8_t* codes);

}  // namespace torchrl_pool::minigrid

#endif  // TORCHRL_POOL_ENVS_MINIGRID_MISSION_H_
