#!/usr/bin/env bash
# The parts of ./test: the counting of what CTest ran, and the choice of tests after a change.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
command -v git >/dev/null || { echo "skipped: no git"; exit 77; }

# shellcheck source=tests/checks.sh
source tests/checks.sh

results=$folder/results
mkdir "$results"
# result NAME STATUS: a test as CTest reports it.
result() { echo "  <testcase name=\"$1\" time=\"1\" status=\"$2\"/>" >>"$folder/cases"; }
# suite FILE TESTS FAILURES SKIPPED: a suite as GoogleTest reports it.
suite() {
  echo "<testsuites><testsuite name=\"a\" tests=\"$2\" failures=\"$3\" errors=\"0\" skipped=\"$4\"" \
    'disabled="0"/></testsuites>' >"$results/$1.xml"
}
counted() {
  { echo "<testsuite>" && cat "$folder/cases" && echo "</testsuite>"; } >"$results/ctest.junit"
  tools/count_tests "$results" >"$folder/counted"
  [[ $? == "$1" && $(tail -n 1 "$folder/counted") == "$2" ]]
}

result a/Good run
suite a-Good 5 0 2
result tests/x_test.sh run
result tests/y_test.sh notrun
check "cases of suites, and scripts" counted 0 "4 passed, 0 failed, 3 skipped"
result a/Bad fail
suite a-Bad 3 1 0
check "a failed case" counted 1 "6 passed, 1 failed, 3 skipped"
result a/Crashed fail
check "a suite that left no report" counted 1 "6 passed, 2 failed, 3 skipped"
check "it is named" grep -q "^failed: a/Crashed$" "$folder/counted"
result a/Late fail
suite a-Late 2 0 0
check "a suite that crashed after its report" counted 1 "8 passed, 3 failed, 3 skipped"
: >"$folder/cases"
check "nothing ran" counted 1 "0 passed, 1 failed, 0 skipped"

# chosen PATTERN FILE...: after a change of the files, ctest would run these tests.
repository=$folder/repository
mkdir -p "$repository"/{tools,src/ops/norms,src/cli/http,tests/cli,tests/training,cmake,docs}
cp tools/changed_tests "$repository/tools"
(
  cd "$repository" && git init -q . && cd src/ops/norms && touch a.cpp && cd "$repository" &&
    echo 'TEST_P(Golden, A) {' >tests/training/golden_test.cpp &&
    touch src/cli/serve.cpp tests/cli/serve_test.sh tests/cli/train_test.sh cmake/a.cmake docs/a.md &&
    find . -exec touch -d '2 hours ago' {} + && git add -A
) || exit
chosen() {
  touch -d '1 hour ago' "$folder/stamp"
  (cd "$repository" && touch "${@:2}")
  local pattern
  pattern=$("$repository/tools/changed_tests" "$folder/stamp")
  (cd "$repository" && touch -d '2 hours ago' "${@:2}")
  echo "$pattern"
  [[ $pattern == "$1" ]]
}
check "the tests of a folder, and the bits" chosen '^(end_to_end/Golden|ops/.*)$' src/ops/norms/a.cpp
check "a test's own suites" chosen '^(end_to_end/(.*/)?Golden)$' tests/training/golden_test.cpp
check "a script" chosen '^(tests/cli/train_test\.sh)$' tests/cli/train_test.sh
check "scripts named like the command's file" \
  chosen '^(tests/cli/serve_test\.sh|tests/cli/usage_test\.sh)$' src/cli/serve.cpp
check "documents" chosen '^(end_to_end/Documents|tests/docs_test\.sh)$' docs/a.md
check "everything, after a change of the build" chosen . cmake/a.cmake src/ops/norms/a.cpp
check "the bits alone, after no change" chosen '^(end_to_end/Golden)$' docs
check "everything, where no run has passed" \
  test "$("$repository/tools/changed_tests" "$folder/none")" = .

finish
