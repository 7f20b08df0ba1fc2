// The texts of --help for each command, and the functions that run it.
#include "cli/command_line/command_table.h"

#include "cli/commands/commands.h"
#include "cli/commands/printers.h"
#include "cli/commands/run_and_print.h"
#include "cli/launch/launch.h"
#include "cli/serve.h"

namespace mantissa::cli {
namespace {

constexpr Command kCommands[] = {
    {"train", "Train a network; write its checkpoints, results and the frozen network", run_train,
     "  mantissa train --model resnet8 --data fashion-mnist --epochs 3 --out runs/a\n"
     "  mantissa train --model mlp --epochs 1 --batch-size 64 --seed 7 --out runs/b --json\n"
     "  mantissa train --model lenet5 --optimizer adam --validation 0.1 --early-stop 3 --epochs 50 "
     "--out runs/c\n"
     "  mantissa train --model resnet8 --data fashion-mnist --epochs 3 --out runs/a --resume\n"
     "  mantissa train --model lenet5 --out runs/d --tensorboard events/d\n"
     "  mantissa train --model mine.json --data fashion-mnist --out runs/e\n"
     "  mantissa train --model mlp --data flowers.csv --target species --out runs/h\n"
     "  mantissa train --from runs/a --data pictures/ --freeze 'stem*,stage1.*' --out runs/f\n"
     "  mantissa train --from smollm2.safetensors --data book.txt --lora 8 --out runs/g\n"
     "  mantissa train --from smollm2.safetensors --data book.txt --lora 16 --lora-alpha 16 \\\n"
     "      --lora-on query,value --out runs/h\n"
     "  mantissa train --from resnet18.onnx --data pictures/ --input-size 224 --out runs/g\n"
     "  mantissa train --model resnet20 --stages 2 --pipeline async --accumulate 4 --sync-last 400 "
     "--out runs/h\n"
     "  mantissa train --model transformer_lm --data book.txt --sequence 128 --out runs/lm\n"
     "  mantissa train --model resnet20 --partition mine.json --accumulate 4 --trace "
     "runs/i/trace.json "
     "--out runs/i\n",
     "mantissa info --model resnet8 --graph > mine.json prints a network to begin with; "
     "docs/networks.md describes such files."},
    {"eval", "Evaluate a trained network on the test examples",
     run_and_print<evaluate, print_evaluation>,
     "  mantissa eval --checkpoint runs/a --data fashion-mnist\n"
     "  mantissa eval --checkpoint runs/a/model.safetensors --data fashion-mnist --json\n"
     "  mantissa eval --checkpoint a.onnx --data fashion-mnist\n"
     "  mantissa eval --checkpoint smollm2.safetensors --data book.txt --format fp32\n"},
    {"predict", "Classify pictures or some test examples, and show them",
     run_and_print<predict, print_predictions>,
     "  mantissa predict --checkpoint runs/a --input picture.png\n"
     "  mantissa predict --checkpoint runs/a --input holiday/ more/*.jpg --csv classes.csv\n"
     "  mantissa predict --checkpoint runs/a --data fashion-mnist --index 0-9\n"
     "  mantissa predict --checkpoint runs/a --data fashion-mnist --index 0-999 --raw out.npz\n"
     "  mantissa predict --checkpoint runs/h --input new.csv --csv species.csv\n"
     "  mantissa predict --checkpoint a.onnx --input picture.png\n",
     "--raw: in Python, numpy.load('out.npz') has mantissas and exponent; the logits are "
     "mantissas * 2.0 ** exponent. A run in fp32 has logits alone. Of a class for each pixel they "
     "are [N, height, width, classes]."},
    {"generate", "Let a language model go on with a text", run_and_print<generate, print_generated>,
     "  mantissa train --model transformer_lm --data book.txt --sequence 128 --out runs/lm\n"
     "  mantissa generate --checkpoint runs/lm --prompt 'It was' --length 200\n"
     "  mantissa generate --checkpoint runs/lm --prompt 'It was' --temperature 0.7 --top-k 20 "
     "--seed 3\n"
     "  mantissa generate --checkpoint SmolLM2-135M-Instruct.Q4_1.gguf --prompt 'The capital of "
     "France is' --temperature 0\n",
     "The same settings give the same text on any machine, in integer formats. A model that brings "
     "its tokens may end its text before. docs/language.md."},
    {"chat", "Talk with a language model that has a chat template", run_chat,
     "  mantissa chat --checkpoint SmolLM2-135M-Instruct.Q4_1.gguf\n"
     "  mantissa chat --checkpoint runs/assistant --system 'Answer in one sentence.'\n"
     "  mantissa chat --checkpoint smollm2.safetensors --temperature 0 < questions.txt\n",
     "Each line is a turn, and the conversation is kept until the end of the input (Ctrl-D). "
     "Ctrl-C ends an answer. With --json each answer is a line of JSON. docs/language.md."},
    {"fill-mask", "Find the missing tokens of a text by a masked language model",
     run_and_print<fill_mask, print_masks>,
     "  mantissa train --model bert_tiny --data book.txt --sequence 64 --out runs/bert\n"
     "  mantissa fill-mask --checkpoint runs/bert --text 'It w[MASK]s the best of times'\n",
     "docs/language.md."},
    {"translate", "Translate sentences by a network that was trained on pairs of them",
     run_and_print<translate, print_translations>,
     "  examples/translate/get-data help-en-de.tsv\n"
     "  mantissa train --model transformer_nmt --data help-en-de.tsv --out runs/nmt\n"
     "  mantissa translate --checkpoint runs/nmt --text 'Click the icon.'\n"
     "  mantissa translate --checkpoint runs/nmt --data english.txt --out german.txt --beam 8\n",
     "docs/translation.md."},
    {"embed", "Give each sentence of a text a vector, by an encoder",
     run_and_print<embed, print_embeddings>,
     "  mantissa import all-MiniLM-L6-v2/ --out minilm.safetensors\n"
     "  mantissa embed --from minilm.safetensors --data sentences.txt --out vectors.npy\n"
     "  mantissa embed --from all-MiniLM-L6-v2/ --data sentences.txt --sequence 256 --out "
     "vectors.npz\n",
     "A vector is the mean of the tokens' vectors, of length 1: the product of two is their "
     "cosine. "
     "docs/language.md."},
    {"export", "Write a trained network for other programs: ONNX, TensorFlow Lite, C, GGUF",
     run_and_print<export_model, print_exported>,
     "  mantissa export --checkpoint runs/a --out a.onnx\n"
     "  mantissa export --checkpoint runs/a/model.safetensors --target portable --out a.onnx\n"
     "  mantissa export --from all-MiniLM-L6-v2/ --out minilm.onnx\n"
     "  mantissa export --from minilm.safetensors --format fp32 --out minilm-fp32.onnx\n"
     "  mantissa export --checkpoint runs/g --target gguf --out g.gguf\n"
     "  mantissa export --checkpoint runs/g --target huggingface --weights bf16 --out g/\n"
     "  mantissa export --checkpoint runs/g --target peft --out adapter/\n",
     "The file takes pictures as they are (pixels: uint8 [N, C, H, W]), or the numbers of a "
     "table's rows (columns: float32 [N, columns]), and gives logits (float32 [N, classes]), equal "
     "to those of predict --raw; of --target portable ONNX Runtime may round some otherwise. It is "
     "a checkpoint, too: predict, eval, serve and train --from take it. Norms of one picture, "
     "attention and recurrent layers make results near, not equal, and such a file no checkpoint: "
     "the command names these layers. "
     "Networks that read tokens take input_ids, attention_mask and token_type_ids, translators "
     "decoder_input_ids, too, and give results near those of Mantissa. "
     "docs/onnx.md describes both. Language models of import, and runs of them, also become files "
     "of llama.cpp, transformers and PEFT: docs/language.md."},
    {"data",
     "Describe a data set: classes, counts, sizes, and what is odd about it",
     run_and_print<describe_data, print_data>,
     "  mantissa data fashion-mnist\n"
     "  mantissa data pictures/ --input-size 32 --contact-sheet sheet.png\n"
     "  mantissa data flowers.csv --target species\n"
     "  mantissa data --data pictures/ --json\n",
     "A folder of pictures has a folder for each class, in train/, test/ and, if there is one, "
     "val/, "
     "or without these: then a tenth of each class is kept for testing. docs/data.md describes all "
     "kinds. Exit code 2: training would refuse the data; what there is of it is described.",
     {},
     "data"},
    {"import",
     "Read a network and its weights from an ONNX model, an encoder or a language model",
     run_import,
     "  mantissa import resnet18.onnx --out resnet18.safetensors\n"
     "  mantissa import mnist.onnx --input-mean 0.1307 --input-std 0.3081 --out mnist.safetensors\n"
     "  mantissa import folded.onnx --insert-batch-norm --data pictures/ --input-size 224 \\\n"
     "      --classes 10 --out folded.safetensors\n"
     "  mantissa train --from resnet18.safetensors --data pictures/ --out runs/a\n"
     "  mantissa train --from resnet18.onnx --data pictures/ --out runs/a\n"
     "  mantissa import gpt.onnx --sequence 128 --out gpt.safetensors\n"
     "  mantissa import all-MiniLM-L6-v2/ --out minilm.safetensors\n"
     "  mantissa import SmolLM2-135M-Instruct.Q4_1.gguf --out smollm2.safetensors\n",
     "A language model is a GGUF file, or a folder with config.json, model.safetensors (or its "
     "index) and tokenizer.json; import first prints what it is (docs/language.md). "
     "An encoder is a folder with model.safetensors, config.json and tokenizer.json or vocab.txt; "
     "mantissa embed runs it. train --from reads ONNX models itself: import shows whether that is "
     "possible, and writes "
     "what "
     "it starts from. What cannot be imported is listed. docs/onnx.md has the operators.",
     {"MODEL",
      "ONNX model, NAME.onnx, an encoder's folder or safetensors file, or a language model's GGUF "
      "file or folder",
      1, 1}},
    {"plan", "Show the program and the memory that a training run would take; run nothing",
     run_and_print<plan, print_plan>,
     "  mantissa plan --model resnet20 --batch-size 128\n"
     "  mantissa plan --model vgg8b --batch-size 256 --memory-budget 512MiB --json\n"
     "  mantissa plan --model resnet20 --memory-budget 80MiB --explain\n"
     "  mantissa plan --model lenet5 --format dfp8 --show exponents\n"
     "  mantissa plan --model mine.json --data fashion-mnist\n"
     "  mantissa plan --from runs/a --data pictures/ --freeze 'stem*'\n"
     "  mantissa plan --model resnet20 --stages 4 --pipeline async --accumulate 8 --diagram\n"},
    {"launch",
     "Train in several processes, on one machine or several, by MPI",
     run_launch,
     "  mantissa launch -n 2 -- train --model resnet20 --accumulate 8 --out runs/a\n"
     "  mantissa launch -n 4 -- train --model resnet20 --replicas 2 --accumulate 8 --out runs/b\n"
     "  mantissa launch -n 2 --hosts hosts.txt -- train --model resnet20 --pipeline async \\\n"
     "      --accumulate 8 --out runs/c\n",
     "Each process works on a stage, or on that of a replica. The first one has the data and "
     "writes "
     "the files; --threads are those of each process. Ctrl-C ends the step and writes a "
     "checkpoint. docs/pipelines.md has srun and Kubernetes, too.",
     {},
     "",
     "processes"},
    {"simulate", "Simulate a pipeline of stages: idle time, missed updates, throughput",
     run_and_print<simulate, print_simulation>,
     "  mantissa simulate --stages 14 --accumulate 56\n"
     "  mantissa simulate --stages 1000 --pipeline async --hop 50us --jitter 0.3\n"
     "  mantissa simulate --stages 3 --pipeline async --windows full --fused --diagram\n"
     "  mantissa simulate --stages 3 --accumulate 8 --trace simulated.json\n"
     "  mantissa simulate --from-trace runs/i/trace.json --pipeline async\n",
     "Stages are alike, unless a trace of a run has their times; mantissa plan --stages simulates "
     "those of a network. docs/pipelines.md."},
    {"quantize", "Quantise a trained network to few bits, and train it on from there", run_quantize,
     "  mantissa quantize --from runs/a --weights 4 --activations 4 --out runs/w4a4\n"
     "  mantissa quantize --from runs/a --weights 2 --activations 2 --epochs 5 --learning-rate "
     "0.02 "
     "--out runs/w2a2\n"
     "  mantissa quantize --from runs/a --weights 4 --activations 8 --bits 'stage3.*=3' --out "
     "runs/mixed\n"
     "  mantissa quantize --from runs/a --weights 3 --activations 3 --sensitivity\n"
     "  mantissa quantize --from smollm2.safetensors --blocks q4_0 --data book.txt --out "
     "base4.safetensors\n",
     "The result is a run like those of train: eval, predict, report and train --from take it. "
     "docs/quantisation.md says what is computed. With --blocks it is a file, and no run: "
     "docs/language.md."},
    {"serve",
     "Serve a trained network over HTTP: predictions, and weights that others start from; or a "
     "language model, as OpenAI's API does",
     run_serve,
     "  mantissa serve --checkpoint runs/a --port 8080\n"
     "  mantissa serve --checkpoint SmolLM2-135M-Instruct.Q4_1.gguf\n"
     "  mantissa train --from http://127.0.0.1:8080 --data pictures/ --out runs/b\n"
     "  mantissa train --from 'http://127.0.0.1:8080/parameters?take=*.range' --model "
     "runs/w4a4/network.json --out runs/c\n",
     "Prints its address, and listens on this machine alone unless --host says otherwise. There is "
     "no password. docs/serve.md lists what can be asked."},
    {"bench",
     "Measure training steps or predictions: time, speed and share of the CPU's peak per "
     "instruction",
     run_and_print<bench, print_bench, CtrlC::kEndsAfterStep>,
     "  mantissa bench --model resnet20 --format bfp8 --batch-size 128\n"
     "  mantissa bench --model resnet8 --input-size 32x32x3 --threads 1 --sort time\n"
     "  mantissa bench --model resnet8 --data fashion-mnist --out before.json\n"
     "  mantissa bench --model mine.json --input-size 28x28x1\n"
     "  mantissa bench --model resnet8 --data fashion-mnist --compare before.json\n"
     "  mantissa bench --checkpoint runs/a --batch-size 1 --threads 1\n",
     "GOPS count a multiply-add as two operations, a product with a 16-bit gradient as one "
     "multiply-add. peak% is relative to the integer peak measured in this run with as many "
     "threads. MB and GB/s count operands read and written, each once."},
    {"profile",
     "Measure what this machine takes for what it does, so that plans under a budget fit it",
     run_and_print<profile, print_profile, CtrlC::kEndsAfterStep>,
     "  mantissa profile\n"
     "  mantissa profile --threads 1 --out one-thread.toml\n"
     "  mantissa plan --model resnet20 --memory-budget 80MiB --profile one-thread.toml --explain\n",
     "Takes some seconds, and writes a text file that may be edited. Plans change with it, "
     "results never do."},
    {"verify",
     "Compare two runs step by step, by the hashes of their states",
     run_and_print<verify, print_comparison>,
     "  mantissa verify runs/a runs/b\n"
     "  mantissa verify runs/a/hashes.jsonl /elsewhere/hashes.jsonl --json\n",
     "Exit codes: 0 the same, 1 different (with the first differing step and its tensors), 2 they "
     "cannot be compared, or no difference was found but hashes are missing. Runs with other "
     "settings or data are not compared: it says which differ.",
     {"RUN", "two folders of runs, or their hashes.jsonl", 2, 2}},
    {"report",
     "Write a report on one or more runs as one HTML file that needs nothing else",
     run_and_print<report, print_written_report>,
     "  mantissa report runs/a --out a.html\n"
     "  mantissa report runs/a runs/b runs/c --out compared.html\n"
     "  mantissa report runs/a runs/b --tensorboard events\n",
     "Curves, tensors over time, confusions, worst predictions with their pictures, settings, and "
     "how to repeat the run. Runs may still be going on. It reads the data set for the pictures.",
     {"RUN", "one to six folders of runs", 1, 6}},
    {"statistics",
     "Show how the tensors of a run use their bits: exponents, clipping, histograms, advice",
     run_and_print<statistics, print_statistics>,
     "  mantissa train --model lenet5 --epochs 1 --statistics --out runs/a\n"
     "  mantissa statistics runs/a\n"
     "  mantissa statistics runs/a --kind gradient\n"
     "  mantissa statistics runs/a --json\n",
     "Exponents are the smallest and the largest over the observed steps. clipped is the part of "
     "the mantissas, again how often a step computed the tensor anew (both means over these "
     "steps); use is the mean bit length over the bits that there are, and bars show how many "
     "mantissas have 1 bit, 2 bits and so on, in the last step that was counted.",
     {"RUN", "folder of a run; it may still be going on", 1, 1}},
    {"info",
     "Show version, CPU, kernels, networks and formats; or what a run or a file holds",
     run_info,
     "  mantissa info\n"
     "  mantissa info --isa avx2 --json\n"
     "  mantissa info runs/a\n"
     "  mantissa info runs/a/model.safetensors --tensors\n"
     "  mantissa info --model resnet8 --data fashion-mnist --graph > mine.json\n"
     "  mantissa info runs/a --graph\n"
     "  mantissa info net.onnx --shape x=1x3x48x192\n",
     "Of an ONNX network it shows layers with their shapes (for one example), parameters and "
     "multiply-adds, and every node that is not supported, with the reason. --graph prints a "
     "network as JSON, which may be edited and trained: train --model mine.json. "
     "docs/networks.md describes it.",
     {"PATH", "folder of a run, checkpoint, safetensors file, or ONNX network (*.onnx)", 0, 1}},
    {"run",
     "Run an ONNX network in float, on named arrays",
     run_and_print<run_onnx, print_onnx_outputs>,
     "  mantissa run net.onnx --inputs in.npz --out out.npz\n"
     "  python3 -c \"import numpy; numpy.savez('in.npz', x=numpy.zeros((1, 3, 224, 224), "
     "'f4'))\"\n",
     "in.npz has an array for each input of the network, of its name, type and shape, as "
     "numpy.savez writes them; out.npz gets one for each output. `mantissa info net.onnx` lists "
     "both. Nodes that are not supported are all named before anything runs. docs/onnx.md says "
     "more.",
     {"NETWORK", "the ONNX file", 1, 1}},
    {"completion",
     "Print a script that completes mantissa's command line in a shell",
     run_completion,
     "  source <(mantissa completion bash)\n"
     "  mantissa completion zsh > ~/.zfunc/_mantissa\n"
     "  mantissa completion fish > ~/.config/fish/completions/mantissa.fish\n",
     "",
     {"SHELL", "bash, zsh or fish", 1, 1}},
};

}  // namespace

std::span<const Command> command_table() { return kCommands; }

}  // namespace mantissa::cli
