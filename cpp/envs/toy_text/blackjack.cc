// Blackjack against a dealer who draws to 17, from an infinite deck.
// Sutton and Barto (2018), example 5.1; reference: gymnasium/envs/toy_text/blackjack.py.
#include <algorithm>
#include <string>

#include "picture.h"
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
    suit_ = rng_.Choice(4);
    if (open_card_ == 10) face_ = rng_.Choice(3);
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

  static ImageSize RenderSize(const Options&) { return {376, 384}; }

  void Render(std::uint8_t* rgb) const {
    pictures::Picture picture(rgb, RenderSize(options_), {196, 216, 158});
    const auto load = [](const std::string& name) -> const pictures::Image& {
      return pictures::GymnasiumImage("toy_text/img/blackjack/" + name);
    };
    const auto number = [&](std::int64_t value, const std::string& size, std::int64_t gap, std::int64_t x,
                            std::int64_t y) {
      for (const char digit : std::to_string(value)) {
        const auto& image = load("digit_" + size + "_" + digit);
        picture.Blit(image, x, y);
        x += image.width + gap;
      }
    };
    const auto centred = [&](std::int64_t width) { return (picture.width() - width) / 2 / 4 * 4; };

    const auto& label = load("label_dealer");
    picture.Blit(label, 40, 32);
    number(open_card_, "small", 4, 40 + label.width + 12, 32);
    picture.Blit(load("card_" + OpenCard()), 96, 72);
    picture.Blit(load("card_back"), 208, 72);

    picture.Blit(load("label_player"), 40, 208);
    const auto digits = static_cast<std::int64_t>(std::to_string(player_.Sum()).size());
    const std::int64_t gap = 12;
    number(player_.Sum(), "big", gap, centred(digits * (load("digit_big_0").width + gap) - gap), 248);
    if (player_.HasUsableAce()) {
      const auto& ace = load("label_usable_ace");
      picture.Blit(ace, centred(ace.width), 328);
    }
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
    visit.Bounded(suit_, 0, 3);
    visit.Bounded(face_, 0, 2);
  }

 private:
  // Jack, queen and king count 10.
  std::int64_t DrawCard() { return std::min<std::int64_t>(rng_.Choice(13) + 1, 10); }

  // The name of its image.
  std::string OpenCard() const {
    std::string rank = std::to_string(open_card_);
    if (open_card_ == 1) rank = "A";
    if (open_card_ == 10) rank = "JQK"[face_];
    return rank + "CDHS"[suit_];
  }

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
  std::int64_t suit_ = 0,
               face_ = 0;  // of the open card, for pictures: club, diamond, heart, spade; jack, queen, king
};

const bool registered =
    Register<Blackjack>({.id = "Blackjack-v1", .description = "beat the dealer at cards"});

}  // namespace
}  // namespace torchrl_pool::toy_text
