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
    for (const char* name : {"eve", "bob", "alice"}) AddAgents(1, {.name = name, .is_silent = false});
    AddLandmarks(kNumMessages, {});
  }
  static Specs MakeSpecs(const Options& options) {
    return SimpleCrypto(options).Describe(
        "Alice: the message and the key; Bob: the key and Alice's words; Eve: these");
  }
  template <class Visitor>
  void VisitState(Visitor& visit) {
    Scenario::VisitState(visit);
    visit.Bounded(message_, 0, kNumMessages - 1);
    visit.Bounded(key_, 0, kNumMessages - 1);
  }

 protected:
  void Begin(Rng& rng) override {
    message_ = rng.Integers(0, kNumMessages);
    key_ = rng.Integers(0, kNumMessages);
    Scatter(rng, agents());
    Scatter(rng, landmarks());
  }
  double RewardOf(const Entity& agent) override {
    const double of_eve = Error(agents()[kEve]);
    return IndexOf(agent) == kEve ? 0 - of_eve : of_eve + (0 - Error(agents()[kBob]));
  }
  void Observe(const Entity& agent, View& view) override {
    if (IndexOf(agent) == kAlice) view.Add(Encoded(message_));
    if (IndexOf(agent) != kEve) view.Add(Encoded(key_));
    if (IndexOf(agent) != kAlice) AddWords(&agents()[kAlice], view);
  }

 private:
  static constexpr std::size_t kEve = 0, kBob = 1, kAlice = 2;
  static constexpr std::size_t kNumWords = 4;
  static constexpr std::int64_t kNumMessages = 2;

  static Message Encoded(std::int64_t number) {
    Message message{};
    message[static_cast<std::size_t>(number)] = 1;
    return message;
  }
  // How far what an agent says is from the message; 0 where it says nothing.
  double Error(const Entity& agent) const {
    if (std::ranges::all_of(agent.words, [](double word) { return word == 0; })) return 0;
    Message error = Encoded(message_);
    for (std::size_t i = 0; i < error.size(); ++i) error[i] = agent.words[i] - error[i];
    return SumOfSquares(error.data(), error.size());
  }

  std::int64_t message_ = 0, key_ = 0;
};

const bool registered_crypto =
    Register<SimpleCrypto>({.id = "mpe2/simple_crypto_v3",
                            .description = "tell a message so that who has no key does not understand it"});

}  // namespace
}  // namespace torchrl_pool::mpe
