#include "data/text/translation_score.h"

#include <gtest/gtest.h>

#include <vector>

namespace mantissa {
namespace {

struct Corpus {
  const char* name;
  std::vector<std::string> translations, references;
  double bleu, chrf;
  int64_t words, reference_words;
};

// The expected numbers are those of corpus_bleu and corpus_chrf of sacreBLEU 2.6.0.
const Corpus kCorpora[] = {
    {"Same", {"Öffnet die Datei."}, {"Öffnet die Datei."}, 100.0000000000, 100.0000000000, 4, 4},
    {"Near",
     {"Wählen Sie den Befehl Datei - Öffnen, um ein Dokument zu öffnen.",
      "Klicken Sie auf das Symbol (rechts)."},
     {"Wählen Sie Datei - Öffnen, um ein Dokument zu öffnen.",
      "Klicken Sie rechts auf das Symbol."},
     56.1981426558,
     84.5873754378,
     23,
     19},
    {"Short",
     {"Die Datei"},
     {"Die Datei wird geöffnet, wenn Sie klicken."},
     0.0000000000,
     19.4614538299,
     2,
     9},
    {"NoFourWords", {"a b x c d y e f"}, {"a b z c d w e f"}, 19.1301470814, 19.6428571429, 8, 8},
    {"NothingRight", {"alpha beta"}, {"Öl"}, 0.0000000000, 14.7058823529, 2, 1},
    {"Empty",
     {"", "Version 3.5, 10-20 Seiten."},
     {"Hilfe", "Version 3.5, 10-20 Zeilen."},
     62.4019544194,
     65.9135875734,
     8,
     9},
    {"Signs",
     {"Preis: $5.00 &amp; &quot;mehr&quot;\xC2\xA0"
      "[x]~3-",
      "<skipped>日本語のテスト。  1.,2 it's"},
     {"Preis: $5,00 & \"mehr\" [x] ~3-", "日本語テスト。 1.,2 it's"},
     77.5459730936,
     55.6071851567,
     20,
     20},
};

TEST(TranslationScore, IsTheOneOfSacreBleu) {
  for (const Corpus& corpus : kCorpora) {
    SCOPED_TRACE(corpus.name);
    const auto score = score_translations(corpus.translations, corpus.references);
    ASSERT_TRUE(score.ok()) << score.error().message;
    EXPECT_NEAR(score->bleu, corpus.bleu, 1e-8);
    EXPECT_NEAR(score->chrf, corpus.chrf, 1e-8);
    EXPECT_EQ(score->words, corpus.words);
    EXPECT_EQ(score->reference_words, corpus.reference_words);
  }
}

TEST(TranslationScore, DividesAsMtevalDoes) {
  EXPECT_EQ(tokenize_13a("It's 3.5, or 10-20 (e.g. $5)."),
            "It's 3.5 , or 10 - 20 ( e . g . $ 5 ) .");
  EXPECT_EQ(tokenize_13a("&lt;b&gt; &amp;lt; x-\ny"), "< b > < xy");
  EXPECT_EQ(tokenize_13a("..., 1.,2 日本.　a"), ". . . , 1 . , 2 日本 . a");
  EXPECT_EQ(tokenize_13a("  "), "");
}

std::string message_of(const std::vector<std::string>& translations,
                       const std::vector<std::string>& references) {
  const auto score = score_translations(translations, references);
  return score.ok() ? "no error" : score.error().message;
}

TEST(TranslationScore, RefusesOtherLists) {
  EXPECT_EQ(message_of({"a", "b"}, {"a"}),
            "2 translations and 1 references: each translation is compared with one reference");
  EXPECT_EQ(message_of({}, {}), "no translations to compare");
  EXPECT_EQ(message_of({"a", "\xC3"}, {"a", "b"}), "translation 2 is not UTF-8");
  EXPECT_EQ(message_of({"a"}, {"\xED\xA0\x80"}), "reference 1 is not UTF-8");
}

}  // namespace
}  // namespace mantissa
