// What the tasks of the family have in common: options, specs, how worlds are observed.
// Chevalier-Boisvert et al. (2023), (2019); reference: minigrid 3.2.0 and its wrappers.
#include "task.h"

#include <map>
#include <optional>

#include "tiles.h"
#include "view.h"

namespace torchrl_pool::minigrid {
namespace {

constexpr int kRenderedTile = 32;

struct Registered {
  const Kind* kind;
  const Kind::Task* task;
};
std::map<std::string, Registered>& Table() {
  static auto& table = *new std::map<std::string, Registered>;
  return table;
}

enum class Shown { kPartial, kFull, kOneHot, kRgb, kRgbPartial, kFlat };
const std::vector<std::string>& ShownNames() {
  static const auto& names =
      *new std::vector<std::string>{"partial", "full", "one-hot", "rgb", "rgb-partial", "flat"};
  return names;
}
enum class Told { kChars, kWords, kId, kNone };
const std::vector<std::string>& ToldNames() {
  static const auto& names = *new std::vector<std::string>{"chars", "words", "id", "none"};
  return names;
}
template <class Enum>
Enum ByName(const std::vector<std::string>& names, const std::string& name) {
  return static_cast<Enum>(std::find(names.begin(), names.end(), name) - names.begin());
}

class GridTask {
 public:
  struct Options {
    std::string observation = "partial";
    std::string mission = "chars";
    std::int32_t view_size = 7;
    std::int32_t tile_size = 8;
    std::optional<std::int32_t> max_steps;

    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("observation", observation,
            "partial: what the agent sees; full: all; one-hot: as partial, each number one-hot; rgb, "
            "rgb-partial: pictures of these; flat: one row of numbers, of the partial image and the mission",
            {.choices = ShownNames()});
      visit("mission", mission,
            "chars: the mission's characters; words: their numbers in minigrid's order; id: the number of "
            "the mission, where they are counted; none: no such entry",
            {.choices = ToldNames()});
      visit("view_size", view_size, "cells on a side of what the agent sees; odd",
            {.minimum = 3, .maximum = kMaxView});
      visit("tile_size", tile_size, "pixels on a side of a cell, in rgb and rgb-partial",
            {.minimum = 1, .maximum = kMaxTileSize});
      visit("max_steps", max_steps, "steps after which an episode is truncated; None: the task's own",
            {.minimum = 1});
    }

    void Open(const std::string& task_id) {
      const Registered& entry = Table().at(task_id);
      kind = entry.kind;
      task = entry.task;
      shown = ByName<Shown>(ShownNames(), observation);
      told = shown == Shown::kFlat ? Told::kNone : ByName<Told>(ToldNames(), mission);
      size = task->make()->size();
      if (view_size % 2 == 0) throw InvalidArgument("option 'view_size': expected an odd number");
      if (told == Told::kId && kind->missions.all.empty()) {
        throw InvalidArgument("option 'mission': the missions of this task are not counted: take 'words'");
      }
      if (shown == Shown::kFlat && kind->missions.longest > kFlatChars) {
        throw InvalidArgument(
            "option 'observation': 'flat' holds missions of 96 characters, those of this task have up to " +
            std::to_string(kind->missions.longest) + ": take 'partial'");
      }
      if (shown == Shown::kRgb || shown == Shown::kRgbPartial) tiles = &Tiles::Of(tile_size);
    }

    int MissionChars() const { return std::max(kind->missions.longest, 1); }

    const Kind* kind = nullptr;
    const Kind::Task* task = nullptr;
    Shown shown{};
    Told told{};
    Size size{};
    const Tiles* tiles = nullptr;
  };

  static Specs MakeSpecs(const Options& options) {
    const auto action =
        Action("action", Discrete(options.kind->actions),
               options.kind->actions == kActions ? "left, right, forward, pick up, drop, toggle, done"
                                                 : "left, right, forward");
    const std::int64_t view = options.view_size, tile = options.tile_size;
    const auto [width, height] = options.size;
    if (options.shown == Shown::kFlat) {
      const std::int64_t size = view * view * 3 + kFlatChars * kFlatCodes;
      return {Observation("observation", Box<std::uint8_t>({size}, 0, 255),
                          "the image, then 28 numbers for each of the mission's 96 characters"),
              action};
    }
    Specs specs{Image(options.shown, view, width, height, tile),
                Observation("direction", Discrete(4), "looks right, looks down, looks left, looks up")};
    if (options.told == Told::kChars) {
      specs.push_back(Observation("mission", Box<std::uint8_t>({options.MissionChars()}, 0, 255),
                                  "characters, then zeros; decode_text makes strings of them"));
    } else if (options.told == Told::kWords) {
      specs.push_back(Observation("mission", Box<std::int64_t>({kMaxWords}, 0, LastWord()),
                                  "numbers of words, then zeros; decode_text makes strings of them"));
    } else if (options.told == Told::kId) {
      const auto count = static_cast<std::int64_t>(options.kind->missions.all.size());
      specs.push_back(Observation("mission", Discrete(count), "number of the mission"));
    }
    specs.push_back(action);
    return specs;
  }

  explicit GridTask(const Options& options) : options_(options), world_(options.task->make()) {
    if (options.max_steps) world_->SetMaxSteps(*options.max_steps);
  }

  void Seed(Entropy entropy) { world_->Seed(entropy); }

  void Reset(Row& row) {
    world_->Reset();
    if (world_->mission().size() > static_cast<std::size_t>(options_.kind->missions.longest)) {
      throw std::runtime_error("the mission is longer than this task says: " + world_->mission());
    }
    TellMission();
    // minigrid's wrappers look at the env once it has begun.
    const bool is_wrapped = options_.shown == Shown::kFull || options_.tiles;
    if (is_wrapped) world_->Begin();
    Write(row);
    if (!is_wrapped) world_->Begin();
  }

  Outcome Step(Row& row) {
    const Outcome outcome = world_->Step(static_cast<int>(row.Action<std::int64_t>()[0]));
    Write(row);
    return outcome;
  }

  static ImageSize RenderSize(const Options& options) {
    return {options.size.height * kRenderedTile, options.size.width * kRenderedTile};
  }
  void Render(std::uint8_t* rgb) const {
    Tiles::Of(kRenderedTile).DrawFull(*world_, options_.view_size, rgb);
  }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    world_->VisitState(visit);
    if constexpr (Visitor::kReading) {
      const std::string& mission = world_->mission();
      const auto is_text = [](char c) { return (c >= 'a' && c <= 'z') || c == ' ' || c == ','; };
      if (mission.size() > static_cast<std::size_t>(options_.kind->missions.longest) ||
          !std::all_of(mission.begin(), mission.end(), is_text)) {
        throw InvalidArgument("corrupt saved state: a value is out of its range");
      }
      if (!mission.empty()) TellMission();  // it is empty before the first reset
    }
  }

 private:
  static Spec Image(Shown shown, std::int64_t view, std::int64_t width, std::int64_t height,
                    std::int64_t tile) {
    const auto box = [](std::int64_t rows, std::int64_t columns, std::int64_t depth) {
      return Box<std::uint8_t>({rows, columns, depth}, 0, 255);
    };
    switch (shown) {
      case Shown::kFull:
        return Observation("image", box(width, height, 3), "type, colour and state; the agent's direction");
      case Shown::kOneHot:
        return Observation("image", box(view, view, kOneHot), "type, colour and state, each one-hot");
      case Shown::kRgb:
        return Observation("image", box(height * tile, width * tile, 3), "a picture");
      case Shown::kRgbPartial:
        return Observation("image", box(view * tile, view * tile, 3), "a picture of what the agent sees");
      default:
        return Observation("image", box(view, view, 3), "type, colour and state, column by column");
    }
  }

  // Makes what each step writes of the mission.
  void TellMission() {
    const std::string& mission = world_->mission();
    if (options_.shown == Shown::kFlat) {
      chars_.resize(kFlatChars * kFlatCodes);
      WriteFlatChars(mission, chars_.data());
    } else if (options_.told == Told::kChars) {
      chars_.resize(static_cast<std::size_t>(options_.MissionChars()));
      WriteChars(mission, options_.MissionChars(), chars_.data());
    } else if (options_.told == Told::kWords) {
      numbers_.resize(kMaxWords);
      WriteWords(mission, numbers_.data());
    } else if (options_.told == Told::kId) {
      numbers_.assign(1, options_.kind->missions.NumberOf(mission));
    }
  }

  void Write(Row& row) const {
    auto* image = row.Out<std::uint8_t>(0);
    WriteImage(image);
    if (options_.shown == Shown::kFlat) {
      std::copy(chars_.begin(), chars_.end(), image + options_.view_size * options_.view_size * 3);
      return;
    }
    *row.Out<std::int64_t>(1) = world_->direction();
    if (options_.told == Told::kChars) {
      std::copy(chars_.begin(), chars_.end(), row.Out<std::uint8_t>(2));
    } else if (options_.told != Told::kNone) {
      std::copy(numbers_.begin(), numbers_.end(), row.Out<std::int64_t>(2));
    }
  }

  void WriteImage(std::uint8_t* image) const {
    switch (options_.shown) {
      case Shown::kPartial:
      case Shown::kFlat:
        return WritePartial(*world_, options_.view_size, image);
      case Shown::kFull:
        return WriteFull(*world_, image);
      case Shown::kOneHot:
        return WriteOneHot(*world_, options_.view_size, image);
      case Shown::kRgb:
        return options_.tiles->DrawFull(*world_, options_.view_size, image);
      case Shown::kRgbPartial:
        return options_.tiles->DrawPartial(*world_, options_.view_size, image);
    }
  }

  const Options& options_;
  std::unique_ptr<World> world_;
  std::vector<std::uint8_t> chars_;
  std::vector<std::int64_t> numbers_;
};

}  // namespace

bool RegisterKind(Kind kind) {
  const Kind* kept = new Kind(std::move(kind));  // for good, like the registry of tasks
  for (const auto& task : kept->tasks) {
    Table()[task.id] = {kept, &task};
    Register<GridTask>({.id = task.id, .description = kept->description});
  }
  return true;
}

}  // namespace torchrl_pool::minigrid
