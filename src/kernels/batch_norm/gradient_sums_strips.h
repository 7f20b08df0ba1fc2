// Sums of gradients, in strips. Two rows are interleaved: add_products then adds both rows'
// contributions to a channel.
//
// Include inside an anonymous namespace of mantissa::kernels, after fixed_point_strips.h and, in a
// namespace `loops`, batch_norm_loops.h.

// So many products of 16 and 8 bits fit int32.
constexpr int64_t kExactGradientRows = 508;
static_assert(kExactGradientRows << (15 + 7) < int64_t{1} << 31 && kExactGradientRows % 4 == 0);

// Sums of a strip, in the order of place_of.
struct alignas(64) GradientSumsOfStrip {
  int32_t grads[kLanes] = {}, products[kLanes] = {};
};

// Whether values are bytes, and gradients no wider than words, as the strips want them.
inline bool are_narrow(const BatchNormGradient& args) {
  return args.grad_out.bits <= 16 && args.in.bits <= 8 &&
         (args.output.data == nullptr || args.output.bits <= 8);
}

template <typename T, bool kMasked>
MANTISSA_INLINE void add_gradient_sums(const BatchNormGradient& args, const Block& block,
                                       GradientSumsOfStrip& sums) {
  constexpr int64_t kHalf = kLanes / 2;
  Vector lower = load(sums.grads), upper = load(sums.grads + kHalf);
  Vector lower_products = load(sums.products), upper_products = load(sums.products + kHalf);
  const Vector ones = all_words(1);
  const auto add_rows = [&](Vector grad_a, Vector grad_b, Vector in_a, Vector in_b) {
    const Vector lower_grads = lower_pairs(grad_a, grad_b);
    const Vector upper_grads = upper_pairs(grad_a, grad_b);
    lower = add_products(lower, lower_grads, ones);
    upper = add_products(upper, upper_grads, ones);
    lower_products = add_products(lower_products, lower_grads, lower_pairs(in_a, in_b));
    upper_products = add_products(upper_products, upper_grads, upper_pairs(in_a, in_b));
  };
  const T* grads = args.grad_out.as<T>();
  const auto *in = args.in.as<int8_t>(), *output = args.output.as<int8_t>();
  const auto grad = [&](int64_t at) {
    prefetch_next(grads + at, block);
    if constexpr (kMasked) prefetch_next(output + at, block);
    return load_passing<kMasked>(grads, output, at);
  };
  const auto value = [&](int64_t at) {
    prefetch_next(in + at, block);
    return load_words(in + at);
  };
  int64_t at = block.at, row = 0;
  for (; row + 2 <= block.rows; row += 2, at += 2 * block.step) {
    const int64_t next = at + block.step;
    add_rows(grad(at), grad(next), value(at), value(next));
  }
  if (row < block.rows) add_rows(grad(at), zeros(), value(at), zeros());
  store(sums.grads, lower);
  store(sums.grads + kHalf, upper);
  store(sums.products, lower_products);
  store(sums.products + kHalf, upper_products);
}

inline void gradient_sums_in_strips(const BatchNormGradient& args, int64_t begin_row,
                                    int64_t end_row, int64_t* sum_grad,
                                    int64_t* sum_grad_in) noexcept {
  if (!are_narrow(args)) {
    return loops::gradient_sums(args, begin_row, end_row, sum_grad, sum_grad_in);
  }
  const LongRows rows(args.channels, begin_row, end_row);
  with_gradient_type(args.grad_out.bits, [&](auto type) {
    using T = decltype(type);
    const bool masked = args.output.data != nullptr;
    sum_strips<GradientSumsOfStrip>(
        rows, args.channels, int64_t{sizeof(T)} + 1 + masked, kExactGradientRows,
        [&](const Block& block, GradientSumsOfStrip& sums) {
          masked ? add_gradient_sums<T, true>(args, block, sums)
                 : add_gradient_sums<T, false>(args, block, sums);
        },
        [&](const GradientSumsOfStrip& sums, int64_t channel) {
          for_each_lane(channel, args.channels, [&](int64_t lane, int64_t c) {
            sum_grad[c] += sums.grads[place_of(lane)];
            sum_grad_in[c] += sums.products[place_of(lane)];
          });
        });
  });
  loops::gradient_sums(args, rows.rest_row, end_row, sum_grad, sum_grad_in);
}
