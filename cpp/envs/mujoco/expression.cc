#include "expression.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <vector>

#include "fields.h"
#include "torchrl_pool/error.h"

namespace torchrl_pool::mujoco {

// By recursive descent: one method for each precedence, the loosest first.
class ExpressionParser {
 public:
  ExpressionParser(const std::string& text, const Expression::Resolve& resolve, Expression* result)
      : text_(text), resolve_(resolve), result_(*result) {
    Comparison();
    if (Peek() != '\0') Refuse("an operator");
  }

 private:
  static constexpr int kDeepest = 100;  // nested: what is deeper is no law, and would use up the stack

  struct Operator {
    const char* name;
    std::size_t arguments;
    Expression::Function function;
  };
  static constexpr Operator kTests[] = {{"==", 2, [](const double* x) -> double { return x[0] == x[1]; }},
                                        {"!=", 2, [](const double* x) -> double { return x[0] != x[1]; }},
                                        {"<=", 2, [](const double* x) -> double { return x[0] <= x[1]; }},
                                        {">=", 2, [](const double* x) -> double { return x[0] >= x[1]; }},
                                        {"<", 2, [](const double* x) -> double { return x[0] < x[1]; }},
                                        {">", 2, [](const double* x) -> double { return x[0] > x[1]; }}};
  static constexpr Operator kSums[] = {{"+", 2, [](const double* x) { return x[0] + x[1]; }},
                                       {"-", 2, [](const double* x) { return x[0] - x[1]; }}};
  static constexpr Operator kProducts[] = {{"*", 2, [](const double* x) { return x[0] * x[1]; }},
                                           {"/", 2, [](const double* x) { return x[0] / x[1]; }}};
  static constexpr Operator kPower{"**", 2, [](const double* x) { return std::pow(x[0], x[1]); }};
  static constexpr Operator kNegative{"-", 1, [](const double* x) { return -x[0]; }};
  static constexpr Operator kFunctions[] = {
      {"abs", 1, [](const double* x) { return std::abs(x[0]); }},
      {"sqrt", 1, [](const double* x) { return std::sqrt(x[0]); }},
      {"exp", 1, [](const double* x) { return std::exp(x[0]); }},
      {"log", 1, [](const double* x) { return std::log(x[0]); }},
      {"sin", 1, [](const double* x) { return std::sin(x[0]); }},
      {"cos", 1, [](const double* x) { return std::cos(x[0]); }},
      {"tan", 1, [](const double* x) { return std::tan(x[0]); }},
      {"tanh", 1, [](const double* x) { return std::tanh(x[0]); }},
      {"min", 2, [](const double* x) { return std::min(x[0], x[1]); }},
      {"max", 2, [](const double* x) { return std::max(x[0], x[1]); }},
      {"clip", 3, [](const double* x) { return std::min(std::max(x[0], x[1]), x[2]); }},
      {"where", 3, [](const double* x) { return x[0] != 0 ? x[1] : x[2]; }}};

  void Comparison() {
    Sum();
    if (const Operator* test = TakeOneOf(kTests)) {
      Sum();
      Apply(*test);
    }
  }
  void Sum() {
    Product();
    while (const Operator* sum = TakeOneOf(kSums)) {
      Product();
      Apply(*sum);
    }
  }
  void Product() {
    Signed();
    while (const Operator* product = TakeOneOf(kProducts)) {
      Signed();
      Apply(*product);
    }
  }
  void Signed() {
    if (++nested_ > kDeepest) throw InvalidArgument("it is nested too deeply");
    if (Take("-")) {
      Signed();
      Apply(kNegative);
    } else if (Take("+")) {
      Signed();
    } else {
      Operand();
      if (Take(kPower.name)) {
        Signed();
        Apply(kPower);
      }
    }
    --nested_;
  }
  void Operand() {
    const char next = Peek();
    if (Take("(")) {
      Comparison();
      Expect(")");
    } else if (IsDigit(next) || next == '.') {
      Push({.constant = Number<double>("a number")});
    } else if (IsLetter(next)) {
      Name();
    } else {
      Refuse("a number, a name or '('");
    }
  }
  void Name() {
    Expression::Name name{.word = Word(), .part = {}, .index = {}};
    if (Take("(")) return Call(name.word);
    if (Take(":")) {
      const char quote = Peek();
      if (quote == '\'' || quote == '"') {
        const std::size_t end = text_.find(quote, place_ + 1);
        if (end == std::string::npos) Refuse("a closing quote");
        name.part = text_.substr(place_ + 1, end - place_ - 1);
        place_ = end + 1;
      } else if (IsLetter(quote) || IsDigit(quote)) {
        name.part = Word();
      } else {
        Refuse("a name after the colon");
      }
    }
    if (Take("[")) {
      name.index = Number<std::size_t>("a whole number from 0");
      Expect("]");
    }
    Push({.number = resolve_(name)});
  }
  void Call(const std::string& name) {
    const auto* const function = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                                              [&](const Operator& one) { return one.name == name; });
    if (function == std::end(kFunctions)) {
      std::vector<std::string> names;
      for (const Operator& one : kFunctions) names.emplace_back(one.name);
      throw InvalidArgument("there is no function '" + name + "'" + Suggestion(name, names));
    }
    std::size_t count = 0;
    do {
      Comparison();
      ++count;
    } while (Take(","));
    Expect(")");
    if (count != function->arguments) {
      throw InvalidArgument("'" + name + "' takes " + std::to_string(function->arguments) + ", got " +
                            std::to_string(count));
    }
    Apply(*function);
  }

  void Push(const Expression::Operation& operation) {
    result_.operations_.push_back(operation);
    result_.depth_ = std::max(result_.depth_, ++height_);
  }
  void Apply(const Operator& with) {
    result_.operations_.push_back({.function = with.function, .arguments = with.arguments});
    height_ -= with.arguments - 1;
  }

  static bool IsDigit(char c) { return c >= '0' && c <= '9'; }
  static bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
  std::string Word() {
    const std::size_t begin = place_;
    while (place_ < text_.size() && (IsLetter(text_[place_]) || IsDigit(text_[place_]))) ++place_;
    return text_.substr(begin, place_ - begin);
  }
  // The next character that is no space; '\0' at the end.
  char Peek() {
    while (place_ < text_.size() && (text_[place_] == ' ' || text_[place_] == '\n' || text_[place_] == '\t'))
      ++place_;
    return place_ < text_.size() ? text_[place_] : '\0';
  }
  template <class T>
  T Number(const char* expected) {
    Peek();  // past spaces
    T number{};
    const char* const begin = text_.data() + place_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), number);
    if (error != std::errc()) Refuse(expected);
    place_ += static_cast<std::size_t>(end - begin);
    return number;
  }
  template <std::size_t size>
  const Operator* TakeOneOf(const Operator (&operators)[size]) {
    for (const Operator& one : operators) {
      if (Take(one.name)) return &one;
    }
    return nullptr;
  }
  bool Take(std::string_view token) {
    Peek();
    const std::string_view rest = std::string_view(text_).substr(place_);
    if (!rest.starts_with(token) || (token == "*" && rest.starts_with("**"))) return false;
    place_ += token.size();
    return true;
  }
  void Expect(const char* token) {
    if (!Take(token)) Refuse(std::string("'") + token + "'");
  }
  [[noreturn]] void Refuse(const std::string& expected) {
    const std::string rest = Peek() == '\0' ? "the end" : "'" + text_.substr(place_) + "'";
    throw InvalidArgument("expected " + expected + ", got " + rest);
  }

  const std::string& text_;
  const Expression::Resolve& resolve_;
  Expression& result_;
  std::size_t place_ = 0;
  int nested_ = 0;
  std::size_t height_ = 0;  // of the stack
};

Expression::Expression(const std::string& text, const Resolve& resolve) {
  ExpressionParser(text, resolve, this);
}

double Expression::Evaluate(const double* numbers, double* stack) const {
  double* top = stack;  // where the next one goes
  for (const Operation& operation : operations_) {
    if (operation.function) {
      top -= operation.arguments;
      *top = operation.function(top);
    } else {
      *top = operation.number ? numbers[*operation.number] : operation.constant;
    }
    ++top;
  }
  return *stack;
}

}  // namespace torchrl_pool::mujoco
