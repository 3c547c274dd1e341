// Alice tells Bob a message with a key that Eve, who listens, does not have.
// Reference: mpe2/simple_crypto/simple_crypto.py.
#include <algorithm>
#include <array>

#include "numpy_sum.h"
#include "scenario.h"

namespace torchrl_pool::mpe {
namespace {

using Message = std::array<double, 4>;

class SimpleCrypto : public Scenario {
 public:
  using Options = CommonOptions;

  explicit SimpleCrypto(const Options& options) : Scenario(options, kNumWords) {
    AddAgents(1, {.name = "eve", .is_silent = false, .colour = {0.75, 0.25, 0.25}});
    for (const char* name : {"bob", "alice"}) AddAgents(1, {.name = name, .is_silent = false});
    AddLandmarks(1, {.colour = {1, 0, 0}});
    AddLandmarks(1, {.colour = {0, 1, 0}});
    goals_.resize(2);
  }
  static Specs MakeSpecs(const Options& options) {
    return SimpleCrypto(options).Describe(
        "Alice: the message and the key; Bob: the key and Alice's words; Eve: these");
  }

 protected:
  double RewardOf(const Entity& agent) override {
    const double of_eve = Error(agents()[kEve]);
    return IndexOf(agent) == kEve ? 0 - of_eve : of_eve + (0 - Error(agents()[kBob]));
  }
  void Observe(const Entity& agent, View& view) override {
    if (IndexOf(agent) == kAlice) view.Add(Encoded(goals_[kMessage]));
    if (IndexOf(agent) != kEve) view.Add(Encoded(goals_[kKey]));
    if (IndexOf(agent) != kAlice) AddWords(&agents()[kAlice], view);
  }
  std::optional<Colour> ColourOf(const Entity& entity) override {
    return IndexOf(entity) == kBob ? Goal(kMessage).colour : entity.colour;
  }

 private:
  static constexpr std::size_t kEve = 0, kBob = 1, kAlice = 2;
  static constexpr std::size_t kMessage = 0, kKey = 1;  // of the goals
  static constexpr std::size_t kNumWords = 4;

  static Message Encoded(std::size_t number) {
    Message message{};
    message[number] = 1;
    return message;
  }
  // How far what an agent says is from the message; 0 where it says nothing.
  double Error(const Entity& agent) const {
    if (std::ranges::all_of(agent.words, [](double word) { return word == 0; })) return 0;
    Message error = Encoded(goals_[kMessage]);
    for (std::size_t i = 0; i < error.size(); ++i) error[i] = agent.words[i] - error[i];
    return SumOfSquares(error.data(), error.size());
  }
};

const bool registered_crypto =
    Register<SimpleCrypto>({.id = "mpe2/simple_crypto_v3",
                            .description = "tell a message so that who has no key does not understand it"});

}  // namespace
}  // namespace torchrl_pool::mpe
