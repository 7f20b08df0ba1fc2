// Included once per instruction set, inside an anonymous namespace of mantissa::kernels, after the
// set's lanes of integers.

constexpr int kBlocks = 16;  // Philox blocks side by side, of which a group consists
constexpr int kVectors = kBlocks / 2 / kLanes;  // of the even blocks; as many of the odd ones
constexpr int kHalves = sizeof(Halves) / sizeof(int16_t);

inline UnsignedLanes in_all_lanes(uint64_t value) { return UnsignedLanes{} + value; }

inline UnsignedLanes product_of_lows(UnsignedLanes a, UnsignedLanes b) {
  return reinterpret_cast<UnsignedLanes>(
      unsigned_product(reinterpret_cast<Lanes>(a), reinterpret_cast<Lanes>(b)));
}

// Word w of the Philox blocks is the low half of the lanes of words[w]; the high halves are not
// used.
inline void philox_rounds(uint64_t seed, UnsignedLanes (&words)[4]) {
  const UnsignedLanes multiplier0 = in_all_lanes(0xD2511F53);
  const UnsignedLanes multiplier2 = in_all_lanes(0xCD9E8D57);
  auto key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const UnsignedLanes product0 = product_of_lows(words[0], multiplier0);
    const UnsignedLanes product2 = product_of_lows(words[2], multiplier2);
    words[0] = exclusive_or(product2 >> 32, words[1], in_all_lanes(key0));
    words[1] = product2;
    words[2] = exclusive_or(product0 >> 32, words[3], in_all_lanes(key1));
    words[3] = product0;
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
}

// 128 random 16-bit numbers of group `group`.
inline void random_group(const RandomKey& key, int64_t group, uint16_t (&numbers)[kRandomGroup]) {
  UnsignedLanes even_numbers = {};
  for (int lane = 0; lane < kLanes; ++lane) even_numbers[lane] = static_cast<uint64_t>(2 * lane);
  Words words[4][kVectors];
  for (int v = 0; v < kVectors; ++v) {
    const auto first = static_cast<uint32_t>(group * kBlocks + 2 * v * kLanes);
    UnsignedLanes even[4] = {even_numbers + in_all_lanes(first), in_all_lanes(key.tensor),
                             in_all_lanes(key.micro_batch),
                             in_all_lanes(static_cast<uint32_t>(key.stream))};
    UnsignedLanes odd[4] = {even[0] + 1, even[1], even[2], even[3]};
    philox_rounds(key.seed, even);
    philox_rounds(key.seed, odd);
    for (int word = 0; word < 4; ++word) {
      words[word][v] =
          interleaved(reinterpret_cast<Lanes>(even[word]), reinterpret_cast<Lanes>(odd[word]));
    }
  }
  for (int word = 0; word < 4; ++word) store_halves_apart(numbers + 32 * word, words[word]);
}

inline void store_mantissas(int8_t* to, Halves mantissas) { store_halves(to, mantissas); }
inline void store_mantissas(int16_t* to, Halves mantissas) {
  std::memcpy(to, &mantissas, sizeof(mantissas));
}

// A group; shift < 16. The sum of the cut-off bits and the random number fits 16 bits: its carry is
// added to the rest.
template <typename T>
int64_t round_group(const uint16_t (&numbers)[kRandomGroup], const int16_t* in, int shift,
                    int limit, T* out) {
  const UnsignedHalves cut_off = UnsignedHalves{} + static_cast<uint16_t>((1 << shift) - 1);
  const Halves most = Halves{} + static_cast<int16_t>(limit), least = -most;
  int64_t clipped = 0;
  for (int i = 0; i < kRandomGroup; i += kHalves) {
    Halves mantissas;
    UnsignedHalves random;
    std::memcpy(&mantissas, in + i, sizeof(mantissas));
    std::memcpy(&random, numbers + i, sizeof(random));
    const UnsignedHalves below =
        (reinterpret_cast<UnsignedHalves>(mantissas) & cut_off) + shift_right(random, 16 - shift);
    const Halves rounded =
        shift_right(mantissas, shift) + reinterpret_cast<Halves>(shift_right(below, shift));
    const Halves above = rounded < least ? least : rounded;
    const Halves narrow = above > most ? most : above;
    clipped += count_different(narrow, rounded);
    store_mantissas(out + i, narrow);
  }
  return clipped;
}

// The same with shift 16: of each mantissa nothing but its sign is left.
template <typename T>
int64_t round_to_sign(const uint16_t (&numbers)[kRandomGroup], const int16_t* in, T* out) {
  for (int64_t i = 0; i < kRandomGroup; ++i) out[i] = static_cast<T>((in[i] + numbers[i]) >> 16);
  return 0;
}

template <typename T>
int64_t round_groups(const RoundStochastically& args, int64_t begin, int64_t end) {
  const int limit = static_cast<int>(mantissa_limit(args.out.bits));
  T* out = args.out.as<T>();
  int64_t clipped = 0;
  for (int64_t at = begin; at < end; at += kRandomGroup) {
    uint16_t numbers[kRandomGroup];
    random_group(args.key, at / kRandomGroup, numbers);
    const auto round = [&](const int16_t* from, T* to) {
      clipped += args.shift == 16 ? round_to_sign(numbers, from, to)
                                  : round_group(numbers, from, args.shift, limit, to);
    };
    if (end - at >= kRandomGroup) {
      round(args.in + at, out + at);
      continue;
    }
    int16_t last_in[kRandomGroup] = {};  // zeros are rounded to zeros
    T last_out[kRandomGroup];
    std::copy(args.in + at, args.in + end, last_in);
    round(last_in, last_out);
    std::copy(last_out, last_out + (end - at), out + at);
  }
  return clipped;
}

int64_t round_stochastically(const RoundStochastically& args, int64_t begin, int64_t end) noexcept {
  return args.out.bits <= 8 ? round_groups<int8_t>(args, begin, end)
                            : round_groups<int16_t>(args, begin, end);
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

uint64_t maximum(ConstMantissaSpan in, int64_t begin, int64_t end) noexcept {
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
