// Steps through the public interface, for bench/api_cost: prints their median time in microseconds.
//
//   api_cost NETWORK.json PIXELS LABELS STEPS SETTING=VALUE...
//
// PIXELS and LABELS are raw: uint8 pictures of the network's size, and as many int32 labels.
#include <mantissa/training.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace {

std::vector<char> read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

int fail(const std::string& error) {
  std::fprintf(stderr, "%s\n", error.c_str());
  return 1;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 5) return fail("usage: api_cost NETWORK.json PIXELS LABELS STEPS SETTING=VALUE...");
  const auto network = mantissa::Network::read(arguments[1]);
  if (!network) return fail(network.error());
  const std::vector<char> pixels = read(arguments[2]), labels = read(arguments[3]);
  mantissa::Settings settings;
  for (int i = 5; i < count; ++i) {
    const std::string text = arguments[i];
    const size_t equals = text.find('=');
    settings.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  auto trainer = mantissa::Trainer::create(*network, settings);
  if (!trainer) return fail(trainer.error());

  const auto dims = network->inputs()[0].dims;
  int64_t picture = 1;
  for (const int64_t dim : dims) picture *= dim;
  const int64_t batch = std::stoll(settings["batch-size"]);
  const int64_t batches = static_cast<int64_t>(pixels.size()) / picture / batch;
  if (batches < 1) return fail("fewer pictures than a batch has");
  std::vector<double> times;
  for (int64_t step = 0; step < std::atoll(arguments[4]); ++step) {
    const int64_t first = step % batches * batch;
    const mantissa::ArraySet set = {
        batch,
        {{"pixels", mantissa::Elements::kUint8, dims, pixels.data() + first * picture},
         {"labels", mantissa::Elements::kInt32, {}, labels.data() + first * 4}}};
    const auto start = std::chrono::steady_clock::now();
    const auto report = trainer->step(set, 0.01);
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
    if (!report) return fail(report.error());
    times.push_back(time.count());
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  std::printf("%.3f\n", times[times.size() / 2]);
}
