// Blackjack against a dealer who draws to 17, from an infinite deck.
// Sutton and Barto (2018), example 5.1; reference: gymnasium/envs/toy_text/blackjack.py.
#include <algorithm>

#include "torchrl_pool/env.h"

namespace torchrl_pool::toy_text {
namespace {

// What the rules need to know of the cards in a hand.
struct Hand {
  std::int64_t total = 0;  // aces count 1
  std::int64_t cards = 0;
  bool has_ace = false;

  void Add(std::int64_t card) {
    total += card;
    ++cards;
    has_ace = has_ace || card == 1;
  }
  bool HasUsableAce() const { return has_ace && total + 10 <= 21; }
  std::int64_t Sum() const { return HasUsableAce() ? total + 10 : total; }
  bool IsBust() const { return Sum() > 21; }
  std::int64_t Score() const { return IsBust() ? 0 : Sum(); }
  bool IsNatural() const { return cards == 2 && has_ace && total == 11; }
};

class Blackjack {
 public:
  struct Options {
    bool natural = false;
    bool sab = true;

    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("natural", natural, "winning with an ace and a ten earns 1.5; without effect where sab is set");
      visit("sab", sab, "an ace and a ten win unless the dealer has them too, as in Sutton and Barto's book");
    }
  };

  static Specs MakeSpecs(const Options&) {
    return {Observation("observation", MultiDiscrete({32, 11, 2}),
                        "sum of the player's cards, the dealer's open card (ace: 1), usable ace"),
            Action("action", Discrete(2), "stick, hit")};
  }

  explicit Blackjack(const Options& options) : options_(options) {}

  void Seed(Entropy entropy) { rng_ = Rng(entropy); }

  void Reset(Row& row) {
    dealer_ = player_ = {};
    open_card_ = DrawCard();
    dealer_.Add(open_card_);
    dealer_.Add(DrawCard());
    player_.Add(DrawCard());
    player_.Add(DrawCard());
    rng_.Choice(4);                        // the suit
    if (open_card_ == 10) rng_.Choice(3);  // jack, queen or king: for the reference's pictures only
    Write(row);
  }

  Outcome Step(Row& row) {
    Outcome outcome;
    if (row.Action<std::int64_t>()[0] == 1) {
      player_.Add(DrawCard());
      outcome.terminated = player_.IsBust();
      outcome.reward = outcome.terminated ? -1 : 0;
    } else {
      while (dealer_.Sum() < 17) dealer_.Add(DrawCard());
      outcome.terminated = true;
      outcome.reward = (player_.Score() > dealer_.Score()) - (player_.Score() < dealer_.Score());
      if (options_.sab) {
        if (player_.IsNatural() && !dealer_.IsNatural()) outcome.reward = 1;
      } else if (options_.natural && player_.IsNatural() && outcome.reward == 1) {
        outcome.reward = 1.5;
      }
    }
    Write(row);
    return outcome;
  }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    visit(rng_);
    for (Hand* hand : {&dealer_, &player_}) {
      visit.Bounded(hand->total, 0, 31);
      visit.Bounded(hand->cards, 0, 31);
      visit(hand->has_ace);
    }
    visit.Bounded(open_card_, 1, 10);
  }

 private:
  // Jack, queen and king count 10.
  std::int64_t DrawCard() { return std::min<std::int64_t>(rng_.Choice(13) + 1, 10); }

  void Write(Row& row) const {
    auto* out = row.Out<std::int64_t>();
    out[0] = player_.Sum();
    out[1] = open_card_;
    out[2] = player_.HasUsableAce();
  }

  const Options& options_;
  Rng rng_;
  Hand dealer_, player_;
  std::int64_t open_card_ = 0;
};

const bool registered =
    Register<Blackjack>({.id = "Blackjack-v1", .description = "beat the dealer at cards"});

}  // namespace
}  // namespace torchrl_pool::toy_text
