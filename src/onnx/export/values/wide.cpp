#include "onnx/export/wide.h"

#include <cmath>

namespace mantissa::onnx {

void round_to(ExportContext& context, const std::string& tensor, const Exported& out) {
  ExportBuilder& to = context.builder;
  const std::string units =
      to.add("Mul", out.name + "/units", {tensor, to.power(-out.exponent)});
  const std::string whole = to.add("Round", out.name + "/whole", {units});
  const auto end = [&](int mantissa) {
    return to.scalar(static_cast<float>(mantissa), "mantissa_" + std::to_string(mantissa));
  };
  const std::string clipped =
      to.add("Clip", out.name + "/clipped", {whole, end(out.least), end(out.most)});
  to.add("Mul", out.name, {clipped, to.power(out.exponent)});
}

std::string as_double(ExportContext& context, const std::string& tensor) {
  const std::string name = tensor + "/double";
  if (context.builder.makes(name)) return name;
  return context.builder.cast(name, tensor, ElementType::kDouble);
}

std::string rounded_product(ExportContext& context, const std::string& tensor, double factor,
                            int exponent, const std::string& name) {
  ExportBuilder& to = context.builder;
  const std::string units = to.add(
      "Mul", name + "/units_double",
      {tensor, to.double_scalar(std::ldexp(factor, -exponent), name + "/factor_double")});
  const std::string whole = to.add("Round", name + "/whole_double", {units});
  const std::string mantissas = to.cast(name + "/mantissas", whole, ElementType::kFloat);
  return to.add("Mul", name, {mantissas, to.power(exponent)});
}

}  // namespace mantissa::onnx
