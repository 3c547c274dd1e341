#include "rom.h"

#include <cstdint>
#include <cstdlib>
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

// Any release: what counts is that a ROM has the checksum that ALE knows.
const Package ale_py("ale_py");

// As ale-py itself looks for them.
std::string RomFolder(const std::string& game) {
  if (const char* folder = std::getenv("ALE_ROMS_DIR"); folder && *folder) return folder;
  if (ale_py.is_installed()) return ale_py.folder() + "/roms";
  throw FileNotFound(
      "the game needs its ROM " + game + ".bin: install the Python package ale-py, any release (" +
      "pip install ale-py), or name the folder of ROMs in the environment variable ALE_ROMS_DIR");
}

}  // namespace

std::string FindRom(const std::string& game) {
  const std::string path = RomFolder(game) + "/" + game + ".bin";
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw FileNotFound("the ROM " + path +
                       " is missing: reinstall the Python package ale-py, or name the folder " +
                       "of ROMs in the environment variable ALE_ROMS_DIR");
  }
  const std::vector<std::uint8_t> bytes(std::istreambuf_iterator<char>(file), {});
  const std::unique_ptr<ale::RomSettings> settings(ale::buildRomRLWrapper(path, ""));
  if (!settings) throw InvalidArgument("ALE does not know the game '" + game + "'");
  const std::string sum = ale::stella::MD5(bytes.data(), static_cast<std::uint32_t>(bytes.size()));
  if (sum != settings->md5()) {
    throw InvalidArgument("the ROM " + path + " is corrupt: expected the MD5 sum " + settings->md5() +
                          ", got " + sum + "; reinstall the Python package ale-py, or name another folder " +
                          "in ALE_ROMS_DIR");
  }
  return path;
}

}  // namespace torchrl_pool::atari
