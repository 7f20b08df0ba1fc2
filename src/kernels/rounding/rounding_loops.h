// Included once per instruction set, inside an anonymous namespace of mantissa::kernels, after
// Lanes (a vector of uint64_t) and multiply_halves.

constexpr int kBlocks = 16;  // Philox blocks side by side, of which a group consists
constexpr int kLanes = sizeof(Lanes) / sizeof(uint64_t);
constexpr int kVectors = kBlocks / 2 / kLanes;  // of the even blocks; as many of the odd ones

inline Lanes in_all_lanes(uint64_t value) { return Lanes{} + value; }

// Word w of the Philox blocks is the low half of the lanes of words[w]; what is in the high halves
// is not used.
inline void philox_rounds(uint64_t seed, Lanes (&words)[4]) {
  const Lanes multiplier0 = in_all_lanes(0xD2511F53), multiplier2 = in_all_lanes(0xCD9E8D57);
  auto key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const Lanes product0 = multiply_halves(words[0], multiplier0);
    const Lanes product2 = multiply_halves(words[2], multiplier2);
    words[0] = (product2 >> 32) ^ words[1] ^ in_all_lanes(key0);
    words[1] = product2;
    words[2] = (product0 >> 32) ^ words[3] ^ in_all_lanes(key1);
    words[3] = product0;
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
}

// 128 random 16-bit numbers of group `group`.
inline void random_group(const RandomKey& key, int64_t group, uint16_t (&numbers)[128]) {
  const auto first = static_cast<uint32_t>(group * kBlocks);
  uint32_t words[4][kBlocks];
  for (int v = 0; v < kVectors; ++v) {
    Lanes even[4] = {{},
                     in_all_lanes(key.tensor),
                     in_all_lanes(key.micro_batch),
                     in_all_lanes(static_cast<uint32_t>(key.stream))};
    for (int lane = 0; lane < kLanes; ++lane) {
      even[0][lane] = first + static_cast<uint32_t>(2 * (v * kLanes + lane));
    }
    Lanes odd[4] = {even[0] + 1, even[1], even[2], even[3]};
    philox_rounds(key.seed, even);
    philox_rounds(key.seed, odd);
    for (int word = 0; word < 4; ++word) {
      const Lanes both = (even[word] & 0xFFFFFFFF) | (odd[word] << 32);
      std::memcpy(words[word] + 2 * v * kLanes, &both, sizeof(both));
    }
  }
  for (int word = 0; word < 4; ++word) {
    for (int block = 0; block < kBlocks; ++block) {
      numbers[32 * word + block] = static_cast<uint16_t>(words[word][block]);
      numbers[32 * word + 16 + block] = static_cast<uint16_t>(words[word][block] >> 16);
    }
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
  for (int64_t at = begin; at < end; at += kRandomGroup) {
    uint16_t numbers[kRandomGroup];
    random_group(args.key, at / kRandomGroup, numbers);
    const int64_t count = std::min(kRandomGroup, end - at);
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

template <typename From, typename To>
int64_t round_range(const From* __restrict in, const RoundEven64& round, int64_t limit,
                    int64_t count, To* __restrict out) {
  int64_t clipped = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t rounded = round(in[i]);
    const int64_t above = rounded < -limit ? -limit : rounded;
    const int64_t narrow = above > limit ? limit : above;
    clipped += narrow != rounded;
    out[i] = static_cast<To>(narrow);
  }
  return clipped;
}

int64_t round_to_nearest(const RoundToNearest& args, int64_t begin, int64_t end) noexcept {
  return with_wide_gradient_type(args.in.bits, [&](auto from) {
    return with_gradient_type(args.out.bits, [&](auto to) {
      return round_range(args.in.as<decltype(from)>() + begin, RoundEven64(args.shift),
                         mantissa_limit(args.out.bits), end - begin,
                         args.out.as<decltype(to)>() + begin);
    });
  });
}

// The range is symmetric: -smallest exists.
template <typename T>
uint64_t maximum_of(const T* in, int64_t count) {
  int largest = 0, smallest = 0;
  for (int64_t i = 0; i < count; ++i) {
    largest = std::max<int>(largest, in[i]);
    smallest = std::min<int>(smallest, in[i]);
  }
  return static_cast<uint64_t>(std::max(largest, -smallest));
}

uint64_t maximum(ConstGradient in, int64_t begin, int64_t end) noexcept {
  return with_wide_gradient_type(
      in.bits, [&](auto type) { return maximum_of(in.as<decltype(type)>() + begin, end - begin); });
}

void keep_mask(const RandomKey& key, uint32_t dropped, int64_t begin, int64_t end,
               int8_t* keep) noexcept {
  for (int64_t at = begin; at < end; at += kRandomGroup) {
    uint16_t numbers[kRandomGroup];
    random_group(key, at / kRandomGroup, numbers);
    const int64_t count = std::min(kRandomGroup, end - at);
    int8_t* to = keep + (at - begin);
    for (int64_t i = 0; i < count; ++i) to[i] = numbers[i] >= dropped ? 1 : 0;
  }
}
