#include "numerics/format.h"

#include <gtest/gtest.h>

namespace mantissa {
namespace {

TEST(Format, HasOneSpelling) {
  const struct {
    const char* text;
    const char* canonical;
  } kCases[] = {{"bfp8", "bfp8"},
                {"fp32", "fp32"},
                {"bfp:", "bfp8"},
                {"bfp:w=8,a=8,g=16,u=16,acc=16,bias=16,block=tensor", "bfp8"},
                {"bfp:u=32,acc=8", "bfp:u=32,acc=8"},
                {"bfp:ge=exact,g=8", "bfp:g=8,ge=exact"},
                {"bfp:ge=headroom,we=bound", "bfp8"},
                {"bfp:we=exact", "bfp:we=exact"},
                {"bfp:we=exact,block=channel", "bfp:block=channel"},
                {"dfp:we=exact,pretraining=float", "dfp:pretraining=float"},
                {"bfp:a=4,w=2", "bfp:w=2,a=4"},
                {"bfp:exponents=exact,bias=8,acc=0", "bfp:acc=0,bias=8,exponents=exact"},
                {"bfp:linear=16,a=12,w=16", "bfp:w=16,a=12,linear=16"},
                {"bfp:linear=8", "bfp8"},
                {"bfp:linear=8,a=4", "bfp:a=4,linear=8"},
                {"bfp:linear=8,a=9", "bfp:a=9"},
                {"bfp:linear=8,a=4,block=channel", "bfp:a=4,linear=8,block=channel"},
                {"bfp:linear=16,a=16", "bfp:a=16"},
                {"bfp:block=channel,w=4", "bfp:w=4,block=channel"},
                {"bfp:blocks=token,block=channel", "bfp:block=channel,blocks=token"},
                {"bfp:blocks=tensor", "bfp8"},
                {"bfp:gr=stochastic,g=8", "bfp:g=8,gr=stochastic"},
                {"bfp8-text", "bfp8-text"},
                {"bfp:gw=32,u=32,bias=8,exponents=exact,ge=exact,we=exact", "bfp8-text"},
                {"bfp:gw=16", "bfp8"},
                {"bfp:gw=16,g=8", "bfp:g=8,gw=16"},
                {"bfp:shift=15", "bfp8"},
                {"bfp:unsigned=no", "bfp8"},
                {"bfp:unsigned=yes,a=4", "bfp:a=4,unsigned=yes"},
                {"bfp:shift=7,acc=8", "bfp:acc=8"},
                {"bfp:shift=7", "bfp:shift=7"},
                {"bfp:acc=0,round=stochastic", "bfp:acc=0,round=stochastic"},
                {"dfp8", "dfp8"},
                {"dfp:", "dfp8"},
                {"dfp:threshold=1,r_max=1e-4,warmup=20,every=1,start=-8", "dfp8"},
                {"dfp:start=8,g=8,w=4", "dfp:w=4,g=8,start=8"},
                {"dfp:r_max=1e-3,every=10", "dfp:every=10,r_max=0.001"},
                {"dfp:r_max=0.000012,warmup=0", "dfp:warmup=0,r_max=0.000012"},
                {"dfp:r_max=0,threshold=0", "dfp:threshold=0,r_max=0"},
                {"dfp:decide=op", "dfp8"},
                {"dfp:decide=pass,g=8", "dfp:g=8,decide=pass"},
                {"dfp:pretraining=fixed", "dfp8"},
                {"bfp:inversion=yes,g=8", "bfp:g=8,inversion=yes"},
                {"dfp:pretraining=float,warmup=5", "dfp:warmup=5,pretraining=float"}};
  for (const auto& c : kCases) {
    const auto format = parse_format(c.text);
    ASSERT_TRUE(format.ok()) << c.text << ": " << format.error().message;
    EXPECT_EQ(to_string(*format), c.canonical);
    const auto again = parse_format(to_string(*format));
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(*again, *format);
  }
}

TEST(Format, ErrorsSayWhatIsPossible) {
  const struct {
    const char* text;
    const char* says;
  } kCases[] = {{"int8", "choose bfp8, bfp8-text, bfp8-portable, dfp8, fp32"},
                {"bfp:w=1", "choose w from 2, 3"},
                {"bfp:a=17", "14, 15, 16"},
                {"bfp:linear=12", "choose linear from 8, 16"},
                {"bfp:acc=3", "choose acc from 0, 2, 4, 8, 16"},
                {"bfp:q=3", "keys are w, a,"},
                {"bfp:block=row", "choose block=tensor or channel"},
                {"bfp:blocks=row", "choose blocks=tensor or token"},
                {"bfp:blocks=token,w=12", "w up to 8"},
                {"dfp:blocks=token", "choose bfp:blocks=token"},
                {"bfp:w", "not key=value"},
                {"bfp:gr=stochastic", "choose g=6, 8 or 12"},
                {"bfp:g=8,gr=stochastic,gw=32", "choose gw=16"},
                {"bfp:gw=8", "choose gw from 16, 32"},
                {"bfp:gw=32,a=12", "choose gw=16"},
                {"bfp:linear=16,block=channel", "choose block=tensor"},
                {"bfp:unsigned=1", "choose unsigned=no or yes"},
                {"bfp:a=16,unsigned=yes", "choose a up to 15"},
                {"bfp:a=8,unsigned=yes,gw=32", "7 with unsigned=yes"},
                {"bfp:unsigned=yes,block=channel", "a up to 7 with unsigned=yes"},
                {"bfp:shift=8,acc=8", "largest shift is 7"},
                {"bfp:shift=1,acc=0", "leave shift out"},
                {"bfp:threshold=1", "unknown key 'threshold'"},
                {"dfp:limit=1", "threshold, warmup, every, start, r_max, decide, pretraining"},
                {"dfp:pretraining=float,warmup=0", "choose warmup from 1"},
                {"dfp:pretraining=float,decide=pass", "leave one of them out"},
                {"dfp:decide=pass,threshold=3", "leave threshold out"},
                {"dfp:pretraining=float,inversion=yes", "leave one of them out"},
                {"bfp:a=5,inversion=yes", "choose a from 6"},
                {"dfp:decide=layer", "op or pass"},
                {"bfp:decide=pass", "unknown key 'decide'"},
                {"dfp:block=channel", "choose bfp:block=channel"},
                {"dfp:exponents=exact", "choose bfp:exponents=exact"},
                {"dfp:ge=exact", "choose bfp:ge=exact"},
                {"bfp:ge=own", "choose ge=headroom or exact"},
                {"bfp:we=own", "choose we=bound or exact"},
                {"bfp:u=8", "choose u from 16, 32"},
                {"dfp:every=0", "from 1 to"},
                {"dfp:start=x", "from -100 to 100"},
                {"dfp:r_max=0.5", "from 0 to 0.1"},
                {"dfp:r_max=1e-7", "a multiple of 1e-6"},
                {"dfp:r_max=1e-13", "a multiple of 1e-6"},
                {"dfp:r_max=nan", "a multiple of 1e-6"},
                {"dfp:r_max=-1e-4", "a multiple of 1e-6"},
                {"dfp:r_max=1e-4x", "a multiple of 1e-6"}};
  for (const auto& c : kCases) {
    const auto format = parse_format(c.text);
    ASSERT_FALSE(format.ok()) << c.text;
    EXPECT_NE(format.error().message.find(c.says), std::string::npos) << format.error().message;
  }
}

}  // namespace
}  // namespace mantissa
