// Included once per instruction set, inside an anonymous namespace of mantissa::kernels.

constexpr int kLanes = 16;  // Philox blocks side by side

// 128 random 16-bit numbers of group `group`.
inline void random_group(const RoundingKey& key, int64_t group, uint16_t (&numbers)[128]) {
  uint32_t c0[kLanes], c1[kLanes], c2[kLanes], c3[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    c0[lane] = static_cast<uint32_t>(group * kLanes + lane);
    c1[lane] = key.tensor;
    c2[lane] = key.micro_batch;
    c3[lane] = static_cast<uint32_t>(RandomStream::kRound);
  }
  auto key0 = static_cast<uint32_t>(key.seed), key1 = static_cast<uint32_t>(key.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const uint64_t product0 = uint64_t{0xD2511F53} * c0[lane];
      const uint64_t product1 = uint64_t{0xCD9E8D57} * c2[lane];
      c0[lane] = static_cast<uint32_t>(product1 >> 32) ^ c1[lane] ^ key0;
      c1[lane] = static_cast<uint32_t>(product1);
      c2[lane] = static_cast<uint32_t>(product0 >> 32) ^ c3[lane] ^ key1;
      c3[lane] = static_cast<uint32_t>(product0);
    }
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    numbers[lane] = static_cast<uint16_t>(c0[lane]);
    numbers[16 + lane] = static_cast<uint16_t>(c0[lane] >> 16);
    numbers[32 + lane] = static_cast<uint16_t>(c1[lane]);
    numbers[48 + lane] = static_cast<uint16_t>(c1[lane] >> 16);
    numbers[64 + lane] = static_cast<uint16_t>(c2[lane]);
    numbers[80 + lane] = static_cast<uint16_t>(c2[lane] >> 16);
    numbers[96 + lane] = static_cast<uint16_t>(c3[lane]);
    numbers[112 + lane] = static_cast<uint16_t>(c3[lane] >> 16);
  }
}

template <typename T>
int64_t round_elements(const uint16_t* numbers, const int16_t* in, int shift, int limit,
                       int64_t count, T* out) {
  int clipped = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int rounded = (in[i] + (numbers[i] >> (16 - shift))) >> shift;
    const int narrow = std::max(-limit, std::min(limit, rounded));
    out[i] = static_cast<T>(narrow);
    clipped += narrow != rounded;
  }
  return clipped;
}

int64_t round_stochastically(const RoundStochastically& args, int64_t begin, int64_t end) noexcept {
  const int limit = static_cast<int>(mantissa_limit(args.out.bits));
  int64_t clipped = 0;
  for (int64_t at = begin; at < end; at += kRoundingGroup) {
    uint16_t numbers[kRoundingGroup];
    random_group(args.key, at / kRoundingGroup, numbers);
    const int64_t count = std::min(kRoundingGroup, end - at);
    if (args.out.bits <= 8) {
      clipped += round_elements(numbers, args.in + at, args.shift, limit, count,
                                args.out.as<int8_t>() + at);
    } else {
      clipped += round_elements(numbers, args.in + at, args.shift, limit, count,
                                args.out.as<int16_t>() + at);
    }
  }
  return clipped;
}

uint64_t maximum(const int16_t* in, int64_t begin, int64_t end) noexcept {
  int largest = 0, smallest = 0;
  for (int64_t i = begin; i < end; ++i) {
    largest = std::max<int>(largest, in[i]);
    smallest = std::min<int>(smallest, in[i]);
  }
  return static_cast<uint64_t>(std::max(largest, -smallest));
}
