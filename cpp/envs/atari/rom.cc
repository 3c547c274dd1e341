#include "rom.h"

#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

#include "ale/emucore/MD5.hxx"
#include "ale/games/RomSettings.hpp"
#include "ale/games/Roms.hpp"
#include "torchrl_pool/env.h"

namespace torchrl_pool::atari {
namespace {

const Package ale_py("ale_py", "0.12.1");

}  // namespace

std::string FindRom(const std::string& game) {
  const std::string path = ale_py.folder() + "/roms/" + game + ".bin";
  std::ifstream file(path, std::ios::binary);
  if (!file) throw FileNotFound("the ROM " + path + " is missing: reinstall the Python package ale-py");
  const std::vector<std::uint8_t> bytes(std::istreambuf_iterator<char>(file), {});
  const std::unique_ptr<ale::RomSettings> settings(ale::buildRomRLWrapper(path, ""));
  if (!settings) throw InvalidArgument("ALE does not know the game '" + game + "'");
  const std::string sum = ale::stella::MD5(bytes.data(), static_cast<std::uint32_t>(bytes.size()));
  if (sum != settings->md5()) {
    throw InvalidArgument("the ROM " + path + " is corrupt: expected the MD5 sum " + settings->md5() +
                          ", got " + sum + "; reinstall the Python package ale-py");
  }
  return path;
}

}  // namespace torchrl_pool::atari
