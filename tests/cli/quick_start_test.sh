#!/usr/bin/env bash
# The commands of README's first run, as they stand there, with the results that it shows.
# shellcheck disable=SC2016
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

readme=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../../README.md")
mkdir "$folder/bin" "$folder/here"
ln -s "$(realpath "$MANTISSA")" "$folder/bin/mantissa"

# as_documented COMMAND LINE: runs a line of README in a folder of its own.
as_documented() {
  status=0
  (cd "$folder/here" && PATH=$folder/bin:$PATH timeout --kill-after=5 120 bash -c "$1") \
    >"$folder/stdout" 2>"$folder/stderr" || status=$?
  holds "$1" eval '((status == 0))'
}
shows() { holds "it shows: $1" grep -qF -- "$1" "$folder/stdout"; }

mapfile -t commands < <(sed -n '/^```$/,/^```$/{/^mantissa /p}' "$readme")
for command in "${commands[@]}"; do
  as_documented "$command"
  case $command in
    *" train --model mlp"*)
      # Accuracy, loss, bytes and files are the same everywhere, speed and memory are not.
      while IFS= read -r line; do
        shows "$line"
      done < <(grep -E '^  (test (accuracy|loss)|weight state|results)  ' "$readme")
      ;;
    *" report "*) holds "the report is there" test -s "$folder/here/mlp.html" ;;
  esac
done
holds "README has four such commands" test ${#commands[@]} -eq 4

# Those within a sentence.
as_documented 'mantissa train --resume --out runs/mlp'
as_documented 'mantissa info --model resnet8 --data fashion-mnist --graph'
shows '"name": "resnet8"'
for command in 'train --resume --out runs/mlp' 'info --model resnet8 --data fashion-mnist --graph'; do
  holds "README names it" grep -qF -- "\`mantissa $command\`" "$readme"
done

finish
