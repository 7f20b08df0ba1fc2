// Products of two rows of mantissas, on lanes.
//
// Include inside an anonymous namespace of mantissa::kernels, after wide.h and lanes/arithmetic.h.

template <typename A, typename B, typename Round>
inline int64_t products_of(const Products& args, int64_t begin, int64_t end,
                           const Round& round) noexcept {
  const auto* const a = args.a.as<A>();
  const auto* const b = args.b.as<B>();
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    const Lanes wide = round(product(load(a + i), load(b + i)));
    std::memcpy(args.wide + i, &wide, sizeof(wide));
  }
  return i;
}

inline void products(const Products& args, int64_t begin, int64_t end) noexcept {
  constexpr int kMostLeft = 30;  // products have 30 bits, and shifts to the left saturate at 61
  const int left = -args.shift;
  if (left > kMostLeft) return kWideReference.products(args, begin, end);
  with_value_type(args.a.bits, [&](auto a) {
    with_value_type(args.b.bits, [&](auto b) {
      using A = decltype(a);
      using B = decltype(b);
      if (left > 0) {
        const UnsignedLanes count = wrapping(all(left));
        begin = products_of<A, B>(args, begin, end, [&](Lanes n) {
          return as_signed(wrapping(n) << count);
        });
      } else {
        begin = products_of<A, B>(args, begin, end, RoundEvenLanes{RoundEven64(args.shift)});
      }
    });
  });
  kWideReference.products(args, begin, end);
}
