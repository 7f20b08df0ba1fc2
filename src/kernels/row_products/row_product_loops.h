// The loops of row products, compiled for each instruction set.

// A block's sum, within int32.
inline int32_t sum_of(const int16_t* a, const int16_t* b, int64_t count) {
  int32_t sum = 0;
  for (int64_t j = 0; j < count; ++j) sum += int32_t{a[j]} * b[j];
  return sum;
}

inline void multiply(const RowProducts& args, int64_t* sums) noexcept {
  for (int64_t i = 0; i < args.count; ++i) {
    const int16_t* row = args.rows + i * args.width;
    int64_t sum = 0;
    for (int64_t j = 0; j < args.width; j += args.block) {
      sum += sum_of(row + j, args.vector + j, std::min(args.block, args.width - j));
    }
    sums[i] = sum;
  }
}
