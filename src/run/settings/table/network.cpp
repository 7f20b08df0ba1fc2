// The network, and the start of its weights.
#include "run/settings/starting_point.h"
#include "run/settings/table/rows.h"

namespace mantissa {
namespace {

using namespace traits;

constexpr auto kImport = &Config::import_options;
constexpr auto kLora = &Config::lora;
constexpr int64_t kMostRank = 4096;
constexpr double kLeastAlpha = 0x1p-10, kMostAlpha = 0x1p16;

Result<std::vector<double>> parse_reals(const std::string& text) {
  std::vector<double> numbers;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    MANTISSA_ASSIGN(const double number,
                    parse_real("a number", text.substr(begin, end - begin), 0, 1e6));
    numbers.push_back(number);
    begin = end + 1;
  }
  return numbers;
}

const Setting kNetworkRows[] = {
    {"model",
     "network: mlp, lenet5, vgg8b, resnet8, resnet20, or another that info lists; or a file "
     "NAME.json that describes one (docs/networks.md), or NAME.onnx (docs/onnx.md)",
     "resnet8", parse_text<&Config::model>, kIdentity | kRun | kInBench | kInInfo,
     [](const Config& c) { return c.network ? std::string(kNetworkFile) : c.model; }},
    {"data",
     "data set: fashion-mnist, cifar-10, cifar-100, a CSV or NPZ file, or a folder with IDX files, "
     "CIFAR's binary files, tables, arrays or pictures (docs/data.md); for language models a text "
     "file",
     "fashion-mnist", parse_text<&Config::data>, kRun | kInInfo, print_text<&Config::data>},
    {"from",
     "start with trained weights: the folder of a run, a checkpoint, a model.safetensors, or "
     "NAME.onnx; without --model the network is that of the run or file (docs/networks.md, "
     "docs/onnx.md)",
     "", parse_text<&Config::from>, kIdentity | kIfGiven | kInPlan | kInBench | kInFile | kOfSource,
     [](const Config& c) { return std::string(c.start ? kStartFile : ""); }},
    // The network and its weights already contain the effect of the next two.
    {"input-mean",
     "mean of the pixels, divided by 255, that a network from ONNX was trained with: one number, "
     "or one for each channel (0.485,0.456,0.406: assumed for three channels; 0 for others)",
     "", parse_by<parse_reals, kImport, &onnx::ImportOptions::mean>,
     kSteps | kInImport | kOfImports | kOfSource},
    {"input-std", "their standard deviation (0.229,0.224,0.225, or 1)", "",
     parse_by<parse_reals, kImport, &onnx::ImportOptions::deviation>,
     kSteps | kInImport | kOfImports | kOfSource},
    {"output",
     "outputs of an ONNX model that the network has: a name, names with commas between them, or all "
     "(left out: the first)",
     "",
     parse_text<kImport, &onnx::ImportOptions::output>, kRun | kInImport | kOfImports | kOfSource},
    {"classifier",
     "layer of a network from a file that is replaced for another number of classes; several, with "
     "commas between them, where their channels add up (left out: the one that makes the output)",
     "", parse_text<&Config::classifier>, kRun | kInImport | kOfSource},
    // They are in the network, and their numbers among the weights.
    {"insert-batch-norm",
     "put batch norms behind the convolutions of an ONNX model whose own were folded away, set "
     "from training pictures so that it computes the same",
     "false", parse_switch<&Config::inserts_batch_norm>, kSwitch | kRun | kInImport | kOfSource},
    {"fold-batch-norm",
     "fold the batch norms of the trained network that --from names into its layers, so that "
     "training goes on in the frozen network's arithmetic; for --format "
     "bfp:w=7,block=channel,ties=up",
     "false", parse_switch<&Config::folds_batch_norm>, kSwitch | kRun | kOfSource},
    {"freeze",
     "parameters that are not trained: names, with * for any text, separated by commas "
     "(stem*,stage1.*)",
     "", parse_text<&Config::freeze>, kIdentity | kIfGiven | kInPlan | kInBench | kInFile,
     print_text<&Config::freeze>},
    {"lora",
     "rank of adapters beside linear layers; they alone are trained, and the weights of --from "
     "stay as they are (docs/language.md; 0: no adapters)",
     "0", parse_whole<0, kMostRank, kLora, &LoraChoice::rank>,
     kIdentity | kIfGiven | kInPlan | kInBench | kInFile, print_unless<0, kLora, &LoraChoice::rank>},
    {"lora-on",
     "layers with adapters: names or their ends, with * for any text, separated by commas "
     "(query,value; left out: all linear layers but those of logits)",
     "", parse_text<kLora, &LoraChoice::on>, kIdentity | kIfGiven | kInPlan | kInBench | kInFile,
     print_text<kLora, &LoraChoice::on>},
    {"lora-alpha",
     "adapters' results are multiplied by this divided by the rank (left out: twice the rank)", "",
     [](const std::string& name, const std::string& text, Config& c) {
       return assign(parse_real(name, text, kLeastAlpha, kMostAlpha), c.lora.alpha);
     },
     kIdentity | kIfGiven | kInPlan | kInBench | kInFile,
     [](const Config& c) { return c.lora.alpha > 0 ? real_text(c.lora.alpha) : ""; }},
    {"lora-also",
     "parameters that are trained beside adapters, as patterns like those of --freeze (*norm*)", "",
     parse_text<kLora, &LoraChoice::also>, kIdentity | kIfGiven | kInPlan | kInBench | kInFile,
     print_text<kLora, &LoraChoice::also>},
    {"reestimate",
     "batches over which the running statistics of batch norms are averaged anew before the first "
     "step and behind the last one; for few bits, and for a start whose layers changed",
     "0", parse_whole<0, 100000, &Config::reestimate>,
     kIdentity | kIfGiven | kInPlan | kInTrainer | kInFile, print_unless<0, &Config::reestimate>},
};

}  // namespace

std::span<const Setting> network_rows() { return kNetworkRows; }

}  // namespace mantissa
