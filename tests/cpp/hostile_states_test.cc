// Saved states that somebody has cut off or changed, for every task of the families that are built: an error
// or another state, and never more than that. Meant for AddressSanitizer.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "client.h"
#include "errors.h"
#include "fixture.h"
#include "pool.h"

namespace torchrl_pool::core {
namespace {

using test::NeverInterrupted;
using test::Tensors;
using Bytes = std::vector<std::uint8_t>;

PoolOptions OneThread() {
  PoolOptions options;
  options.threads.num_threads = 1;
  return options;
}

// A pool of two envs of a task, which always does the first action.
class Stepped {
 public:
  explicit Stepped(const std::shared_ptr<const Config>& config)
      : pool_(Pool::Open({{config, 0}, {config, 0}}, OneThread(), NeverInterrupted)),
        actions_(pool_->layout().actions, 2),
        out_(pool_->layout().outputs, 2),
        root_(pool_->layout().outputs, 2) {
    for (std::size_t column = 0; column < pool_->layout().actions.size(); ++column) {
      for (std::size_t row = 0; row < 2; ++row) {
        auto* bytes = const_cast<std::byte*>(actions_.Row(column, row));
        std::fill_n(bytes, pool_->layout().actions[column].row_bytes, std::byte{0});
      }
    }
    Run(pool_->Begin(Op::kReset));
  }

  Pool& pool() { return *pool_; }

  void Step() {
    Job& job = pool_->Begin(Op::kStepAndReset);
    actions_.BindTo(job.actions);
    root_.BindTo(job.root);
    Run(job);
  }

  void Draw() {
    const auto [height, width] = pool_->RenderSize(0);
    std::vector<std::uint8_t> picture(static_cast<std::size_t>(3 * height * width));
    test::Render(*pool_, 0, picture.data());
  }

 private:
  void Run(Job& job) {
    out_.BindTo(job.out);
    pool_->Submit(job, Delivery::kAwaited, test::NeverInterrupted);
    pool_->Wait(job, NeverInterrupted);
  }

  std::unique_ptr<Pool> pool_;
  Tensors actions_, out_, root_;
};

template <class Function>
bool IsRefused(Function&& function) {
  try {
    function();
  } catch (const StatusError&) {
    return true;
  }
  return false;
}

// Loads a state and, if it is taken, draws it and steps on from there; an env that fails then has failed, no
// more. One that refuses is as it was.
void LoadAndStep(Stepped& stepped, const Bytes& state, const Bytes& before, bool draws) {
  if (IsRefused([&] { test::Load(stepped.pool(), 0, state); })) {
    CHECK(test::Save(stepped.pool(), 0) == before);
    return;
  }
  try {
    if (draws) stepped.Draw();
    for (int i = 0; i < 3; ++i) stepped.Step();
  } catch (const EnvFailure&) {
  }
}

// Where a state of this size is cut and changed: everywhere, or, in a large one, at its front and at a sample
// of other places.
std::vector<std::size_t> Places(std::size_t size, std::size_t most, std::mt19937& rng) {
  std::vector<std::size_t> places(std::min(size, most));
  std::iota(places.begin(), places.end(), std::size_t{0});
  if (size > most) {
    std::uniform_int_distribution<std::size_t> anywhere(0, size - 1);
    for (std::size_t i = most / 2; i < most; ++i) places[i] = anywhere(rng);
  }
  return places;
}

// most_places: how many bytes of a state to change. draws: pictures need no OpenGL, and no images.
void CheckTask(const std::string& plugin, const std::string& id, std::size_t most_places,
               bool draws = false) {
  Stepped stepped(test::MakeConfig(plugin, id));
  for (int i = 0; i < 3; ++i) stepped.Step();
  Bytes good;
  try {
    good = test::Save(stepped.pool(), 0);
  } catch (const StatusError&) {
    return;  // a task without states
  }
  const Bytes other = test::Save(stepped.pool(), 1);
  const auto restore = [&] {
    test::Load(stepped.pool(), 0, good);
    test::Load(stepped.pool(), 1, other);
  };
  std::mt19937 rng(0);
  for (const std::size_t size : Places(good.size(), most_places, rng)) {
    const Bytes cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
    CHECK(IsRefused([&] { test::Load(stepped.pool(), 0, cut); }));
    CHECK(test::Save(stepped.pool(), 0) == good);
  }
  Bytes longer = good;
  longer.push_back(0);
  CHECK(IsRefused([&] { test::Load(stepped.pool(), 0, longer); }));

  for (const std::size_t place : Places(good.size(), most_places, rng)) {
    for (const std::uint8_t value :
         {std::uint8_t{0}, std::uint8_t{0x7f}, std::uint8_t{0xff}, static_cast<std::uint8_t>(rng() & 0xff)}) {
      Bytes changed = good;
      changed[place] = value;
      LoadAndStep(stepped, changed, good, draws);
      restore();
    }
  }
  CHECK(test::Save(stepped.pool(), 0) == good);
  stepped.Step();
}

std::shared_ptr<const Plugin> Load(const std::string& name) {
  const auto plugin = test::LoadPlugin(name);
  std::vector<std::string> folders;
  for (const trp_package& package : plugin->packages()) {
    folders.push_back(PYTHON_PACKAGES "/" + std::string(package.name));
  }
  plugin->Locate(folders);
  return plugin;
}

void CheckFamily(const std::string& plugin, std::size_t most_places, bool draws = false) {
  const auto loaded = Load(plugin);
  const auto tasks = loaded->tasks();
  CHECK(!tasks.empty());
  for (const trp_task* task : tasks) CheckTask(plugin, task->id, most_places, draws);
}

constexpr std::size_t kEveryPlace = 10'000;

TEST(StatesOfClassicControl) { CheckFamily("libtorchrl_pool_classic", kEveryPlace); }
TEST(StatesOfMpe) { CheckFamily("libtorchrl_pool_mpe", kEveryPlace); }
TEST(StatesOfSisl) { CheckFamily("cpp/envs/sisl/libtorchrl_pool_sisl", kEveryPlace, true); }
TEST(StatesOfToyTexts) { CheckFamily("libtorchrl_pool_toy_text", kEveryPlace); }

#ifdef MUJOCO_PLUGIN
TEST(StatesOfMujoco) { CheckFamily(MUJOCO_PLUGIN, 100); }
#endif
#ifdef BOX2D_PLUGIN
TEST(StatesOfBox2d) { CheckFamily(BOX2D_PLUGIN, 100, true); }
#endif
#ifdef DM_CONTROL_PLUGIN
// Those that change their models, and one that does not.
TEST(StatesOfDmControl) {
  Load(DM_CONTROL_PLUGIN);
  for (const char* task :
       {"cheetah-run", "finger-turn_easy", "fish-swim", "lqr-lqr_2_1", "manipulator-insert_peg",
        "point_mass-hard", "quadruped-escape", "reacher-hard", "swimmer-swimmer6"}) {
    CheckTask(DM_CONTROL_PLUGIN, "dm_control/" + std::string(task) + "-v0", 60);
  }
}
#endif
#ifdef ROBOTICS_PLUGIN
TEST(StatesOfRobotics) {
  Load(ROBOTICS_PLUGIN);
  for (const char* task : {"AntMaze_UMaze-v5", "FetchPickAndPlace-v4", "PointMaze_UMaze-v3"}) {
    CheckTask(ROBOTICS_PLUGIN, task, 60);
  }
}
#endif
#ifdef ATARI_PLUGIN
// One game for each kind of cartridge.
TEST(StatesOfAtariGames) {
  Load(ATARI_PLUGIN);
  for (const char* game : {"Pong", "Adventure", "MsPacman", "ElevatorAction", "Tutankham", "Robotank",
                           "Solaris", "Darkchambers", "Pitfall2"}) {
    CheckTask(ATARI_PLUGIN, "ALE/" + std::string(game) + "-v5", 60);
  }
}

// ALE itself would write out of bounds where a length that it reads is wrong.
TEST(NothingDamagedReachesAle) {
  Load(ATARI_PLUGIN);
  Stepped stepped(
      test::MakeConfig(ATARI_PLUGIN, "ALE/ElevatorAction-v5", {{"obs_type", std::string("ram")}}));
  const Bytes good = test::Save(stepped.pool(), 0);
  const std::size_t begin = 200, end = 10'000;       // within what ALE has saved
  CHECK(good.size() > end + 2 * 160 * 300 + 2'600);  // the pictures, and random streams
  for (std::size_t place = begin; place < end; place += 2) {
    Bytes changed = good;
    changed[place] ^= 0x7f;
    CHECK_THROWS(StatusError, "its checksum is wrong", test::Load(stepped.pool(), 0, changed));
  }
  CHECK(test::Save(stepped.pool(), 0) == good);
}
#endif

}  // namespace
}  // namespace torchrl_pool::core
