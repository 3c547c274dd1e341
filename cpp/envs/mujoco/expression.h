// Arithmetic as text, compiled once to a short program for a stack: "kp * (action - qpos:hip) ** 2".
#ifndef TORCHRL_POOL_ENVS_MUJOCO_EXPRESSION_H_
#define TORCHRL_POOL_ENVS_MUJOCO_EXPRESSION_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace torchrl_pool::mujoco {

// Operators, their precedence and the functions' results are Python's, in double precision: + - * / **, < <=
// > >= (1 or 0), abs, sqrt, exp, log, sin, cos, tan, tanh, min, max, clip(x, low, high), where(test, a, b).
class Expression {
 public:
  // What stands for a number: `word`, `word:part`, `word:'any part'`, each perhaps with `[index]`.
  struct Name {
    std::string word;
    std::optional<std::string> part;
    std::optional<std::size_t> index;
  };
  // Where a name's number will lie among those that Evaluate is given; throws InvalidArgument.
  using Resolve = std::function<std::size_t(const Name&)>;

  // Throws InvalidArgument with what was expected.
  Expression(const std::string& text, const Resolve& resolve);

  // How many numbers Evaluate needs room for.
  std::size_t depth() const { return depth_; }
  double Evaluate(const double* numbers, double* stack) const;

 private:
  friend class ExpressionParser;
  using Function = double (*)(const double* arguments);
  struct Operation {
    Function function = nullptr;  // null: `number`, or without one `constant`, goes onto the stack
    std::size_t arguments = 0;
    std::optional<std::size_t> number = {};
    double constant = 0;
  };

  std::vector<Operation> operations_;
  std::size_t depth_ = 0;
};

}  // namespace torchrl_pool::mujoco

#endif  // TORCHRL_POOL_ENVS_MUJOCO_EXPRESSION_H_
