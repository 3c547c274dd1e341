// A task with an option of every type, which shows in its observations what arrived.
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "torchrl_pool/env.h"

namespace torchrl_pool::test {
namespace {

const Package first_package("first_package", "1.2");
const Package second_package("second_package");

class OptionsEnv {
 public:
  struct Options {
    bool flag = true;
    std::int64_t number = 3;
    std::int32_t small = -4;
    double real = 0.25;
    std::string word = "red";
    std::vector<std::int64_t> numbers = {1, 2};
    std::vector<double> reals = {};
    std::array<double, 2> range{-0.5, 0.5};
    std::optional<std::int64_t> maybe = std::nullopt;
    std::optional<double> perhaps = 1.5;
    IntOrString which = "left";
    std::optional<FloatListMap> table = FloatListMap{{"a", {1}}, {"b", {2, 3}}};

    std::vector<std::string> lines = {"up", "down"};

    std::int64_t opened = 0;  // no option: set by Open

    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("flag", flag, "a bool");
      visit("number", number, "an int", Limits<std::int64_t>{.choices = {}, .minimum = 0, .maximum = 10});
      visit("small", small, "a narrower int");
      visit("real", real, "a float", Limits<double>{.choices = {0.25, 0.5}});
      visit("word", word, "a string", Limits<std::string>{.choices = {"red", "green"}});
      visit("numbers", numbers, "ints");
      visit("reals", reals, "floats");
      visit("range", range, "two floats");
      visit("maybe", maybe, "an int or None");
      visit("perhaps", perhaps, "a float or None");
      visit("which", which, "a number or a name");
      visit("table", table, "numbers by name, or None");
      visit("lines", lines, "strings");
    }
    void Open() {
      if (number > 10) throw InvalidArgument("number is too large");
      if (word == "lost") throw FileNotFound("no file for this word");
      if (word == "package") throw InvalidArgument("second_package is in " + second_package.folder());
      if (word == "new") throw Unsupported("not yet");
      opened = 77;
    }
  };

  static Specs MakeSpecs(const Options& options) {
    const auto size = static_cast<std::int64_t>(options.numbers.size());
    return {Observation("ints", Box<std::int64_t>({7})), Observation("numbers", Box<std::int64_t>({size})),
            Observation("floats", Box<double>({5})),     Observation("word", Box<std::uint8_t>({8})),
            Observation("more", Box<double>({4})),       Action("action", Discrete(2))};
  }

  explicit OptionsEnv(const Options& options) : options_(options) {}
  void Seed(Entropy) {}
  void Reset(Row& row) {
    const Options& o = options_;
    std::int64_t lengths = 0;  // a digit for each line
    for (const auto& line : o.lines) lengths = 10 * lengths + static_cast<std::int64_t>(line.size());
    const std::array<std::int64_t, 7> ints = {
        o.flag,   o.number, o.small, o.maybe.value_or(-1), static_cast<std::int64_t>(o.reals.size()),
        o.opened, lengths};
    const std::array<double, 5> floats = {o.real, o.range[0], o.range[1], o.perhaps.value_or(-1),
                                          o.reals.empty() ? 0 : o.reals.back()};
    std::copy(ints.begin(), ints.end(), row.Out<std::int64_t>(0));
    std::copy(o.numbers.begin(), o.numbers.end(), row.Out<std::int64_t>(1));
    std::copy(floats.begin(), floats.end(), row.Out<double>(2));
    std::fill_n(row.Out<std::uint8_t>(3), 8, std::uint8_t{0});
    std::copy_n(o.word.begin(), std::min<std::size_t>(o.word.size(), 8), row.Out<std::uint8_t>(3));
    double* more = row.Out<double>(4);
    const auto* number = std::get_if<std::int64_t>(&o.which);
    more[0] =
        number ? static_cast<double>(*number) : -static_cast<double>(std::get<std::string>(o.which).size());
    more[1] = o.table ? static_cast<double>(o.table->size()) : -1;
    more[2] = more[3] = 0;
    for (const auto& [key, numbers] : o.table.value_or(FloatListMap{})) {
      more[2] = more[2] * 100 + static_cast<double>(key[0]);
      for (const double value : numbers) more[3] = more[3] * 10 + value;
    }
  }
  Outcome Step(Row& row) {
    Reset(row);
    return {};
  }

 private:
  const Options& options_;
};

const bool registered = Register<OptionsEnv>({.id = "Options-v0",
                                              .description = "shows its options",
                                              .max_episode_steps = 12,
                                              .reward_threshold = 9.5});

}  // namespace
}  // namespace torchrl_pool::test

TORCHRL_POOL_PLUGIN("options", "0.1")
