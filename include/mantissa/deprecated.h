// For programs of version 0.1, which name its types of results. Gone after version 0.2.
#pragma once

#include <string>
#include <utility>

#include "mantissa/outcome.h"

namespace mantissa {

// A result, or an error in its place or beside it.
template <typename T>
struct ResultOrError : T {
  Exit exit = Exit::kDone;
  std::string error;  // empty on success

  ResultOrError() = default;
  ResultOrError(Outcome<T> outcome) {  // NOLINT: implicit
    Failure failure = outcome.failure();
    if (outcome.ok()) {
      static_cast<T&>(*this) = std::move(*outcome);
      if constexpr (requires(T value) { value.problem; }) failure = this->problem;
    }
    exit = failure.exit;
    error = std::move(failure.message);
  }
};

// The types are declared here, and defined in the header of their function.
using BenchOutcome [[deprecated("Outcome<BenchReport>")]] = ResultOrError<struct BenchReport>;
using DataOutcome [[deprecated("Outcome<DataDescription>")]] =
    ResultOrError<struct DataDescription>;
using DescriptionOutcome [[deprecated("Outcome<PathDescription>")]] =
    ResultOrError<struct PathDescription>;
using EmbeddingOutcome [[deprecated("Outcome<Embeddings>")]] = ResultOrError<struct Embeddings>;
using EvaluationOutcome [[deprecated("Outcome<Evaluation>")]] = ResultOrError<struct Evaluation>;
using ExportOutcome [[deprecated("Outcome<ExportedModel>")]] = ResultOrError<struct ExportedModel>;
using GenerationOutcome [[deprecated("Outcome<GeneratedText>")]] =
    ResultOrError<struct GeneratedText>;
using ImportOutcome [[deprecated("Outcome<ImportedModel>")]] = ResultOrError<struct ImportedModel>;
using MaskOutcome [[deprecated("Outcome<FilledMasks>")]] = ResultOrError<struct FilledMasks>;
using NetworkOutcome [[deprecated("Outcome<NetworkDescription>")]] =
    ResultOrError<struct NetworkDescription>;
using OnnxRunOutcome [[deprecated("Outcome<OnnxOutputs>")]] = ResultOrError<struct OnnxOutputs>;
using ParametersOutcome [[deprecated("Outcome<ParameterFile>")]] =
    ResultOrError<struct ParameterFile>;
using PlanOutcome [[deprecated("Outcome<Plan>")]] = ResultOrError<struct Plan>;
using PredictionOutcome [[deprecated("Outcome<Predictions>")]] = ResultOrError<struct Predictions>;
using ProfileOutcome [[deprecated("Outcome<MeasuredProfile>")]] =
    ResultOrError<struct MeasuredProfile>;
using QuantisationOutcome [[deprecated("Outcome<QuantisedRun>")]] =
    ResultOrError<struct QuantisedRun>;
using ReportOutcome [[deprecated("Outcome<WrittenReport>")]] = ResultOrError<struct WrittenReport>;
using SensitivityOutcome [[deprecated("Outcome<Sensitivity>")]] = ResultOrError<struct Sensitivity>;
using SimulateOutcome [[deprecated("Outcome<Simulation>")]] = ResultOrError<struct Simulation>;
using StatisticsOutcome [[deprecated("Outcome<RunStatistics>")]] =
    ResultOrError<struct RunStatistics>;
using TrainingOutcome [[deprecated("Outcome<TrainedRun>")]] = ResultOrError<struct TrainedRun>;
using TranslationOutcome [[deprecated("Outcome<Translations>")]] =
    ResultOrError<struct Translations>;
using VerifyOutcome [[deprecated("Outcome<Comparison>")]] = ResultOrError<struct Comparison>;

}  // namespace mantissa
