// The data command: it describes a data set.
#include <nlohmann/json.hpp>

#include "api/outcome.h"
#include "api/settings/commands.h"
#include "api/settings/describe_settings.h"
#include "api/target.h"
#include "data/datasets/survey.h"
#include "formats/pictures/png.h"
#include "mantissa/mantissa.h"
#include "run/settings/run_config.h"
#include "run/settings/run_network.h"

namespace mantissa {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSheetColumns = 10;

Json size_json(const PictureSize& size) { return {{"height", size.height}, {"width", size.width}}; }

Json to_json(const DataSurvey& survey) {
  const DatasetInfo& info = survey.info;
  Json classes = Json::array();
  for (size_t i = 0; i < info.target.names.size(); ++i) {
    classes.push_back({{"name", info.target.names[i]},
                       {"train", survey.train_counts[i]},
                       {"validation", survey.validation_counts[i]},
                       {"test", survey.test_counts[i]}});
  }
  Json json = {{"data", info.name},
               {"kind", info.kind},
               {"train_examples", info.train_count},
               {"validation_examples", info.validation_count},
               {"test_examples", info.test_count}};
  if (info.table) {
    json["task"] = table_task_name(info.target.is_number() ? TableTask::kRegression
                                                           : TableTask::kClassification);
    json["features"] = info.table->features();
    json["table"] = Json::parse(to_json(*info.table));
  } else {
    const Shape& form = info.specs[0].shape;
    json.update(Json{{"smallest", size_json(survey.smallest)},
                     {"largest", size_json(survey.largest)},
                     {"height", form[0]},
                     {"width", form[1]},
                     {"channels", form[2]},
                     {"mean", survey.mean},
                     {"deviation", survey.deviation}});
  }
  json.update(Json{{"bytes", info.bytes},
                   {"classes", std::move(classes)},
                   {"duplicates", survey.duplicates},
                   {"unreadable", survey.unreadable},
                   {"notes", info.notes}});
  return json;
}

}  // namespace

Outcome<DataDescription> describe_data(const Settings& settings) {
  MANTISSA_ASSIGN(const DescribeConfig config, describe_config(settings));
  if (!config.contact_sheet.empty()) {
    MANTISSA_RETURN_IF_ERROR(check_target("contact-sheet", config.contact_sheet));
  }
  Dataset data;
  MANTISSA_ASSIGN(DataSurvey survey,
                  survey_dataset(config.run.data, data_options(config.run), data));
  MANTISSA_RETURN_IF_ERROR(check_settings_of_data(config.run, survey.info));
  const int64_t batch_size = default_run_config().batch_size, examples = survey.info.train_count;
  if (survey.refusal.empty() && examples < batch_size) {
    survey.info.notes.push_back("training takes batches of " + std::to_string(batch_size) +
                                " unless --batch-size says otherwise: at most " +
                                std::to_string(examples) + " here");
  }
  DataDescription description;
  if (!survey.refusal.empty()) {
    description.problem = {Exit::kInvalidInput, "training would refuse this: " + survey.refusal};
  }
  description.json = to_json(survey).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  if (!config.contact_sheet.empty()) {
    MANTISSA_RETURN_IF_ERROR(check_no_table(survey.info, "contact-sheet: is of"));
    const Image sheet = contact_sheet(data.train, survey.info.target.classes, kSheetColumns);
    MANTISSA_RETURN_IF_ERROR(write_png(config.contact_sheet, sheet));
  }
  return description;
}

}  // namespace mantissa
